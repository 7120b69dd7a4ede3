// Contrast and order of the tokens, series and maps, computed from the tables.
#include "gui/theme/theme.h"

#include <gtest/gtest.h>

#include <QImage>
#include <cmath>

#include "gui/widgets/step_ledger.h"

namespace {

using namespace mantissa::gui;

const Token kSurfaces[] = {Token::Window, Token::Panel, Token::Raised, Token::Hover};
const Token kTexts[] = {Token::Text, Token::Text2, Token::Text3, Token::Accent,
                        Token::Ok,   Token::Warn,  Token::Bad,   Token::Nonfinite};

double lightness(QRgb c) {
    const auto linear = [](double s) { return s <= 0.04045 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4); };
    return 0.2126 * linear(qRed(c) / 255.0) + 0.7152 * linear(qGreen(c) / 255.0) + 0.0722 * linear(qBlue(c) / 255.0);
}

TEST(Theme, TextAndStatesReach45OnEverySurface) {
    for (const bool dark : {true, false})
        for (const Token text : kTexts)
            for (const Token surface : kSurfaces)
                EXPECT_GE(contrast(Theme::tokenColor(text, dark), Theme::tokenColor(surface, dark)), 4.5)
                    << Theme::tokenName(text) << " on " << Theme::tokenName(surface) << (dark ? " dark" : " light");
}

TEST(Theme, TextOnSelectionBannersAndPrimaryButton) {
    for (const bool dark : {true, false}) {
        for (const Token text : {Token::Text, Token::Text2, Token::Ok, Token::Warn, Token::Bad})
            EXPECT_GE(contrast(Theme::tokenColor(text, dark), Theme::tokenColor(Token::Sel, dark)), 4.5)
                << Theme::tokenName(text);
        EXPECT_GE(contrast(Theme::tokenColor(Token::OnFill, dark), Theme::tokenColor(Token::Fill, dark)), 4.5);
        for (const Token back : {Token::OkBg, Token::WarnBg, Token::BadBg, Token::InfoBg})
            for (const Token text : {Token::Text, Token::Text2})
                EXPECT_GE(contrast(Theme::tokenColor(text, dark), Theme::tokenColor(back, dark)), 4.5)
                    << Theme::tokenName(back);
    }
}

TEST(Theme, ContrastOfBlackAndWhiteIs21) {
    EXPECT_NEAR(contrast(QColor(0, 0, 0), QColor(255, 255, 255)), 21, 1e-9);
}

TEST(Theme, SeriesStandOutAndDifferInDashOrMarker) {
    for (const bool dark : {true, false})
        for (int i = 0; i < kSeriesCount; ++i) {
            const SeriesStyle a = Theme::seriesStyle(i, dark);
            EXPECT_GE(contrast(a.color, Theme::tokenColor(Token::Panel, dark)), dark ? 4.5 : 3.3) << i;
            for (int j = 0; j < i; ++j) EXPECT_NE(a.marker, Theme::seriesStyle(j, dark).marker);
        }
    EXPECT_EQ(Theme::seriesStyle(8, true).color, Theme::seriesStyle(0, true).color);
}

TEST(Theme, MapsHitTheirStops) {
    const MapTable heat = Theme::mapTable(ColorMap::Heat, true);
    EXPECT_EQ(heat[0], qRgb(0x22, 0x26, 0x2d));
    EXPECT_EQ(heat[255], qRgb(0xff, 0xe9, 0xa0));
    const MapTable div = Theme::mapTable(ColorMap::Div, false);
    EXPECT_EQ(div[0], qRgb(0x0f, 0x4f, 0xa8));
    EXPECT_EQ(div[255], qRgb(0xa8, 0x3a, 0x08));
}

TEST(Theme, HeatAndMagAreMonotoneInLightness) {
    for (const ColorMap map : {ColorMap::Heat, ColorMap::Mag})
        for (const bool dark : {true, false}) {
            const MapTable table = Theme::mapTable(map, dark);
            for (int i = 1; i < kMapSize; ++i) {
                const double step = lightness(table[i]) - lightness(table[i - 1]);
                EXPECT_GE(dark ? step : -step, -0.004) << static_cast<int>(map) << dark << i;
            }
        }
}

TEST(Theme, SwitchEmitsOnceAndChangesPalette) {
    Theme& theme = Theme::instance();
    theme.setChoice(ThemeChoice::Dark);
    int count = 0;
    const auto connection = QObject::connect(&theme, &Theme::changed, &theme, [&count] { ++count; });
    theme.setChoice(ThemeChoice::Light);
    EXPECT_EQ(count, 1);
    EXPECT_FALSE(theme.isDark());
    EXPECT_EQ(theme.color(Token::Panel), QColor(255, 255, 255));
    theme.setChoice(ThemeChoice::Light);
    EXPECT_EQ(count, 1);
    theme.setChoice(ThemeChoice::Dark);
    EXPECT_EQ(count, 2);
    QObject::disconnect(connection);
}

/// Every category of the memory bar is named below it, also where the line is too short for all of them.
TEST(StepLedgerWidget, NamesEveryPartWhereTheLineIsShort) {
    StepLedger ledger;
    ledger.setMemory({QString(), {5e6, 6e6, 32e6, 1e6, 4e6}, QStringLiteral("49.2 MiB")},
                     {QStringLiteral("weights"), QStringLiteral("moments"), QStringLiteral("activations"),
                      QStringLiteral("workspace"), QStringLiteral("host")},
                     QStringLiteral("MiB"));
    ledger.resize(380, 140);
    const QImage image = ledger.grab().toImage();
    for (int category = 0; category < 5; ++category) {
        int found = 0;
        for (int y = 46; y < image.height(); ++y)  // the bar ends at 42
            for (int x = 0; x < image.width(); ++x)
                found += image.pixel(x, y) == Theme::instance().memoryColor(category).rgb();
        EXPECT_GE(found, 35) << "the square of category " << category;  // 7 × 7, its edges blended
    }
}

}  // namespace
