// Number formats of the screen: digits, grouping, signs, units; never a zero that is none.
#include "gui/format/numbers.h"

#include <gtest/gtest.h>

#include <QLocale>
#include <cmath>
#include <limits>

#include "gui/widgets/format_widgets.h"

namespace {

using namespace mantissa::gui;

/// Thin and no-break spaces as "_" and "~", the minus as "-", for legible cases.
std::string plain(QString text) {
    return text.replace(QChar(0x2009), QLatin1Char('_'))
        .replace(QChar(0xa0), QLatin1Char('~'))
        .replace(QChar(0x2212), QLatin1Char('-'))
        .toStdString();
}

class Numbers : public testing::Test {
  protected:
    void SetUp() override { QLocale::setDefault(QLocale::c()); }
    void TearDown() override { QLocale::setDefault(QLocale::c()); }
};

TEST_F(Numbers, SignificantDigits) {
    EXPECT_EQ(plain(formatNumber(3.7421, 4)), "3.742");
    EXPECT_EQ(plain(formatNumber(9.9996, 4)), "10.00");
    EXPECT_EQ(plain(formatNumber(0.99996, 4)), "1.000");
    EXPECT_EQ(plain(formatNumber(18656.2, 4)), "18_656");
    EXPECT_EQ(plain(formatNumber(-57344, 4)), "-57_344");
    EXPECT_EQ(plain(formatNumber(3.39e38, 4)), "3.390e38");
}

TEST_F(Numbers, NeverAZeroThatIsNone) {
    for (double x = 1e-12; x < 1; x *= 1.7)
        for (const int digits : {2, 3, 4}) {
            QString text = formatNumber(x, digits);
            text.remove(QLatin1Char('0')).remove(QLatin1Char('.'));
            EXPECT_FALSE(text.isEmpty() || text.startsWith(QLatin1Char('e'))) << x;
        }
    EXPECT_EQ(plain(formatNumber(0, 4)), "0");
    EXPECT_EQ(plain(formatShare(0)), "0~%");
    EXPECT_EQ(plain(formatShare(3e-7)), "3e-5~%");
    EXPECT_EQ(plain(formatScale(5.36e-5)), "5.360e-5");
}

TEST_F(Numbers, NotANumberIsWrittenOut) {
    EXPECT_EQ(plain(formatNumber(std::nan(""), 4)), "NaN");
    EXPECT_EQ(plain(formatNumber(HUGE_VAL, 4)), "Inf");
    EXPECT_EQ(plain(formatNumber(-HUGE_VAL, 4)), "-Inf");
    EXPECT_EQ(plain(exact(-HUGE_VAL)), "-Infinity");
}

TEST_F(Numbers, SignsAndShares) {
    EXPECT_EQ(plain(formatLossDifference(0.00131)), "+0.0013");
    EXPECT_EQ(plain(formatLossDifference(-0.02)), "-0.020");
    EXPECT_EQ(plain(formatShare(0.046)), "4.6~%");
    EXPECT_EQ(plain(formatShare(1)), "100~%");
    EXPECT_EQ(plain(formatRatio(1.15)), "\u00d71.15");
    EXPECT_EQ(plain(formatChange(-0.11)), "-11~%");
}

TEST_F(Numbers, CountsRatesAndSizes) {
    EXPECT_EQ(plain(formatCount(999)), "999");
    EXPECT_EQ(plain(formatCount(18420)), "18_420");
    EXPECT_EQ(plain(formatCount(-1234567)), "-1_234_567");
    EXPECT_EQ(plain(formatRate(661234)), "661.2~k");
    EXPECT_EQ(plain(formatRate(2288000)), "2.288~M");
    EXPECT_EQ(plain(formatShortCount(40000)), "40~k");
    EXPECT_EQ(plain(formatShortCount(6204)), "6_204");
    EXPECT_EQ(plain(formatSize(11.3 * 1024 * 1024 * 1024)), "11.3~GiB");
    EXPECT_EQ(plain(formatSize(38.4 * 1024 * 1024)), "38.4~MiB");
}

TEST_F(Numbers, Times) {
    EXPECT_EQ(plain(formatMilliseconds(49.63)), "49.6~ms");
    EXPECT_EQ(plain(formatMilliseconds(1250)), "1.25~s");
    EXPECT_EQ(plain(formatDuration(1070)), "17~min~50~s");
    EXPECT_EQ(plain(formatDuration(9540)), "2~h~39~min");
    EXPECT_EQ(plain(formatTimeLeft(1073)), "17~min~50~s");
    EXPECT_EQ(plain(formatTimeLeft(42.2)), "43~s");
    EXPECT_EQ(plain(formatTimeLeft(-1)), "\u2013");
}

TEST_F(Numbers, LocaleOnScreenCLocaleInCopies) {
    QLocale::setDefault(QLocale(QLocale::German));
    EXPECT_EQ(plain(formatNumber(3.742, 4)), "3,742");
    EXPECT_EQ(plain(exact(3.742)), "3.742");
    EXPECT_EQ(parseNumber(QStringLiteral("3,742")).value_or(0), 3.742);
    EXPECT_EQ(parseNumber(QStringLiteral("3.742")).value_or(0), 3.742);
}

TEST_F(Numbers, ParsesWhatItWrites) {
    for (const double x : {1.0, 40000.0, -57344.0, 2e-4, 123456.0})
        EXPECT_DOUBLE_EQ(parseNumber(formatNumber(x, 6)).value_or(-1), x);
    EXPECT_EQ(parseCount(QStringLiteral("40 000")).value_or(0), 40000);
    EXPECT_FALSE(parseCount(QStringLiteral("1.5")));
    EXPECT_FALSE(parseNumber(QStringLiteral("x")));
    EXPECT_FALSE(parseNumber(QString()));
    for (const double x : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308}) EXPECT_EQ(exact(x).toDouble(), x);
}

TEST_F(Numbers, FormatsPageText) {
    EXPECT_EQ(plain(exactText(0.1015625)), "0.1015625");
    EXPECT_EQ(plain(exactText(0.09375)), "0.09375");
    EXPECT_EQ(plain(exactText(448)), "448");
    EXPECT_EQ(plain(exactText(57344)), "57_344");
    EXPECT_EQ(plain(exactText(std::ldexp(1.0, -9))), "2\u207b\u2079");
    EXPECT_EQ(plain(exactText(3.3895313892515355e38)), "3.390e38");
}

}  // namespace
