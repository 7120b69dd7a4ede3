// The tensor bench by hand: what a person types into the form, and what stands on the page then.
#include <gtest/gtest.h>

#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <fstream>

#include "gui/controller/run_controller.h"
#include "gui/format/numbers.h"
#include "gui/models/bench_tables.h"
#include "gui/pages/tensor_bench_view.h"

namespace mantissa::gui {
namespace {

class Bench : public testing::Test {
  protected:
    void SetUp() override {
        view_.resize(1100, 760);
        view_.show();
        ASSERT_TRUE(QTest::qWaitFor([&] { return view_.result() != nullptr; }, 20000));
    }
    void choose(QComboBox* box, const char* text) {
        ASSERT_GE(box->findText(QString::fromUtf8(text)), 0) << text;
        box->setCurrentText(QString::fromUtf8(text));
    }
    static void type(QLineEdit* field, const char* text) {
        field->setText(QString::fromUtf8(text));
        Q_EMIT field->textEdited(field->text());
    }
    /// Types the values and waits for what comes of them.
    void cast(const char* values) {
        QSignalSpy done(&view_, &TensorBenchView::resultChanged);
        view_.valuesField()->setPlainText(QStringLiteral(" "));
        view_.valuesField()->setPlainText(QString::fromUtf8(values));
        ASSERT_TRUE(done.wait(20000)) << view_.errorText().toStdString();
        QTest::qWait(150);  // a second one that a combo box asked for
    }
    /// Saves a picture when MANTISSA_SHOTS names a folder.
    void shoot(const char* name) {
        const QString folder = qEnvironmentVariable("MANTISSA_SHOTS");
        if (folder.isEmpty()) return;
        QTest::qWait(100);
        view_.grab().save(QStringLiteral("%1/bench-%2.png").arg(folder, QLatin1String(name)));
    }
    std::string column(int index) {
        QStringList cells;
        const BenchModel& table = view_.results().table();
        for (int row = 0; row < table.rowCount(); ++row) {
            QString cell = table.cell(row, index);
            if (cell.startsWith(QLatin1String("0x"))) cell.remove(0, 2);
            cells << cell.remove(QChar(0x2009));  // between groups of three digits
        }
        return cells.join(QLatin1Char(' ')).toStdString();
    }
    std::string fact(const char* name) { return view_.results().fact(QString::fromUtf8(name)).toStdString(); }
    /// The number that a fact begins with.
    double number(const char* name) {
        const QString text = view_.results().fact(QString::fromUtf8(name));
        return parseNumber(text.section(QLatin1Char(','), 0, 0)).value_or(NAN);
    }
    const experiments::TensorResult& result() { return *view_.result(); }
    double underflowOf(const char* recipe) {
        for (const WhatIfRow& row : view_.results().recipes().rows())
            if (row.setting == QString::fromUtf8(recipe)) return row.underflow;
        ADD_FAILURE() << "no row " << recipe;
        return NAN;
    }

    RunController controller_;
    TensorBenchView view_{controller_};
};

TEST_F(Bench, CaseC01Encoder) {
    choose(view_.recipeField(), "fixed");
    cast(
        "0 -0 1 0.3952 -0.1 17 19 448 449 464 465 1e30 inf -inf nan 0x1p-9 0x1p-10 0x1.000002p-10 0x1.8p-9 0x1.4p-8 "
        "-0x1p-10");
    EXPECT_EQ(column(2), "00 80 38 2D 9D 58 5A 7E 7E 7E 7E 7E 7E FE 7F 01 00 01 02 02 80");
    EXPECT_EQ(view_.results().table().cell(3, 3).toStdString(), "0.40625");
}

TEST_F(Bench, CaseC02TraceMarksTheEntryThatRules) {
    view_.readField()->setCurrentIndex(2);
    type(view_.lengthField(), "4");
    cast("2, 8, 1, 0.5, 0.25, 0.25, 0.25, 0.25");
    ASSERT_NE(view_.results().output().trace, nullptr);
    EXPECT_EQ(column(2), "1 224 56 56 56 56 448 896");
    EXPECT_EQ(column(4), "2 8 8 8 8 1 0.5 0.25");
    EXPECT_EQ(view_.results().table().cell(1, 7).toStdString(), "0 0 2 [8]");
    EXPECT_EQ(view_.results().table().cell(1, 6).toStdString(), "leaves in 3");
    EXPECT_EQ(view_.results().table().cell(3, 6).toStdString(), "leaves in 1");
    EXPECT_EQ(view_.results().table().cell(4, 7).toStdString(), "0 1 0.5 0.25") << "the 8 has left";
    EXPECT_EQ(number("next scale ×"), 1792);
    shoot("trace");
    choose(view_.algorithmField(), "most_recent");
    cast("2, 8, 1, 0.5, 0.25, 0.25, 0.25, 0.25");
    EXPECT_EQ(column(2), "1 224 56 448 896 1792 1792 1792");
    // The cast of step 2 by hand.
    view_.readField()->setCurrentIndex(0);
    choose(view_.recipeField(), "delayed");
    choose(view_.algorithmField(), "max");
    type(view_.historyField(), "0,0,0,2");
    cast("8,-4,2,1");
    EXPECT_EQ(number("scale ×"), 224);
    EXPECT_EQ(column(2), "7E FE 7E 76");
    EXPECT_EQ(column(3), "2 −2 2 1");
    EXPECT_EQ(fact("over range"), "2, 50\u00a0%");
    EXPECT_EQ(fact("next window"), "0  0  2.000  8.000");
}

/// The newest entries of a long window are seen, and the one that rules.
TEST(BenchTables, ALongWindowShowsItsNewestEntries) {
    const auto number = [](size_t i) { return QString::number(i); };
    EXPECT_EQ(slotsText(4, 16, 4, number), QStringLiteral("0 1 2 3"));
    const QString many = QStringLiteral(" 1021 1022 1023 (%1 entries)").arg(formatCount(1024));
    EXPECT_EQ(slotsText(1024, 6, 1024, number), QString::fromUtf8("0 1 …") + many);
    EXPECT_EQ(slotsText(1024, 6, 500, number), QString::fromUtf8("0 1 … 500 …") + many);
    EXPECT_EQ(slotsText(7, 6, 2, number), QString::fromUtf8("0 1 2 … 4 5 6 (7 entries)"));
}

TEST_F(Bench, CaseC03NotUpdated) {
    view_.readField()->setCurrentIndex(2);
    type(view_.lengthField(), "3");
    cast("4, 0, 0, 2");
    EXPECT_EQ(column(3), "112 112 112 112");
    EXPECT_EQ(view_.results().table().cell(1, 6).toStdString(), "not updated");
    EXPECT_EQ(view_.results().table().cell(2, 6).toStdString(), "not updated");
    EXPECT_EQ(fact("not updated"), "2");
    choose(view_.algorithmField(), "most_recent");
    cast("4, 0, 0, 2");
    EXPECT_EQ(view_.results().table().cell(3, 3).toStdString(), "224");
    choose(view_.algorithmField(), "max");
    type(view_.lengthField(), "4");
    cast("2, inf, 1, 0.5, 0.5, 0.5, 0.5");
    EXPECT_EQ(view_.results().table().cell(2, 6).toStdString(), "frozen, leaves in 2");
}

TEST_F(Bench, CaseC04Current) {
    choose(view_.recipeField(), "current");
    cast("3 -1.5 .75 .1 .01 .001 0 -3");
    EXPECT_EQ(column(2), "7E F6 6E 57 3C 22 00 FE");
    EXPECT_NEAR(double(*result().scale), 149.333328, 1e-5);
    EXPECT_NEAR(result().mse, 2.543e-8, 1e-11);
    EXPECT_EQ(fact("MSE"), "2.543e−8");
    view_.powerOfTwoField()->setChecked(true);
    cast("3 -1.5 .75 .1 .01 .001 0 -3");
    EXPECT_EQ(column(2), "7C F4 6C 55 3A 20 00 FC");
    EXPECT_EQ(number("scale ×"), 128);
    EXPECT_EQ(fact("underflow"), "0");
    view_.powerOfTwoField()->setChecked(false);
    choose(view_.formatField(), "e5m2");
    cast("449");
    EXPECT_NEAR(double(*result().scale), 127.71492, 1e-4);
    cast("inf");
    EXPECT_EQ(*result().scale, 1);
}

TEST_F(Bench, CaseC05Mxfp8) {
    choose(view_.recipeField(), "mxfp8");
    std::string values;
    for (const char* amax : {"0", "0.5", "1", "2", "3", "448", "449", "896", "897", "1000", "0.001"})
        for (int i = 0; i < 32; ++i) values += (values.empty() ? "" : " ") + std::string(i == 5 ? amax : "0");
    cast(values.c_str());
    view_.results().setPart(BenchResultView::Blocks);
    const BenchModel& blocks = view_.results().blocks();
    ASSERT_EQ(blocks.rowCount(), 11);
    const int codes[] = {0, 118, 119, 120, 120, 127, 128, 128, 129, 129, 109};
    for (int i = 0; i < 11; ++i) EXPECT_EQ(blocks.cell(i, 5).mid(2).toInt(nullptr, 16), codes[i]) << i;
    shoot("blocks");
    QStringList of;
    for (int i = 0; i < 11; ++i) of << view_.results().table().cell(32 * i + 5, 2).mid(2);
    EXPECT_EQ(of.mid(0, 10).join(QLatin1Char(' ')).toStdString(), "00 78 78 78 7C 7E 76 7E 76 78");
}

TEST_F(Bench, CaseC06AllRecipesSideBySide) {
    choose(view_.recipeField(), "current");
    view_.showExample(4);
    ASSERT_TRUE(QTest::qWaitFor([&] { return view_.result() && view_.result()->inputs.size() == 32; }, 20000));
    QTest::qWait(200);
    view_.results().setPart(BenchResultView::Recipes);
    shoot("recipes");
    EXPECT_EQ(underflowOf("current, E4M3") * 32, 13);
    EXPECT_EQ(underflowOf("current, 2ⁿ, E4M3") * 32, 14);
    EXPECT_EQ(underflowOf("MXFP8, E4M3") * 32, 14);
    EXPECT_EQ(underflowOf("blocks 1 × 128, E4M3") * 32, 14);
    EXPECT_EQ(underflowOf("current, E5M2") * 32, 0);
    EXPECT_EQ(underflowOf("MXFP8, E5M2") * 32, 0);
    EXPECT_EQ(underflowOf("fixed at 1, E4M3") * 32, 22);
    EXPECT_EQ(underflowOf("fixed at 1, E5M2") * 32, 15);
}

TEST_F(Bench, CaseC07FreshScaleAndOverflow) {
    choose(view_.recipeField(), "delayed");
    std::string values;
    for (int k = 1; k <= 16; ++k) values += (k > 1 ? " " : "") + QString::number(k / 1024.0, 'g', 17).toStdString();
    cast(values.c_str());
    EXPECT_EQ(fact("scale ×"), "1.000, never updated");
    shoot("fresh");
    const int wanted[] = {0, 2, 4, 4, 4, 6, 8, 8, 8, 10, 12, 12, 12, 14, 16, 16};
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(result().dequantized[i] * 1024, wanted[i]) << i;
    EXPECT_EQ(result().counters.underflow, 1u);
    EXPECT_NEAR(result().mse, 4.768e-7, 1e-10);
    EXPECT_EQ(fact("SQNR"), "22.72 dB");
    choose(view_.recipeField(), "current");
    cast(values.c_str());
    EXPECT_EQ(*result().scale, 28672);
    EXPECT_EQ(fact("underflow"), "0");
    EXPECT_EQ(fact("SQNR"), "31.58 dB");
    choose(view_.recipeField(), "fixed");
    cast("448 449 463 464 465 480 500 1000");
    EXPECT_EQ(fact("over range").substr(0, 3), "7, ");
    EXPECT_EQ(fact("clipped"), "4, 50\u00a0%");
    EXPECT_EQ(result().counters.overRange, 7u);
    EXPECT_EQ(result().counters.clipped, 4u);
}

TEST_F(Bench, CasesN01N02Bytes) {
    choose(view_.recipeField(), "fixed");
    choose(view_.dtypeField(), "bf16");
    const char* const patterns = "1 0.10009765625 464 0x1p-10 0x1.02p-10 0x1.8p-9 0x1p-17 0x1.02p-17 -0 inf -inf nan";
    cast(patterns);
    EXPECT_EQ(column(2), "38 1D 7E 00 01 02 00 00 80 7E FE 7F");
    choose(view_.formatField(), "e5m2");
    cast(patterns);
    EXPECT_EQ(column(2), "3C 2E 5F 14 14 1A 00 01 80 7B FB 7F");
    view_.readField()->setCurrentIndex(1);
    cast("55 C3 7B 7C");
    EXPECT_EQ(column(2), "80 −3.5 57344 Inf");
    choose(view_.formatField(), "e4m3");
    cast("01 07 08 55 C3 7E 7F FF");
    EXPECT_EQ(column(2), "0.00195313 0.0136719 0.015625 13 −2.75 448 NaN NaN");
    view_.valuesField()->setPlainText(QStringLiteral("5G"));
    EXPECT_TRUE(QTest::qWaitFor([&] { return view_.errorText().contains(QStringLiteral("\"5G\"")); }, 20000));
}

TEST_F(Bench, CasesN03N04Scales) {
    choose(view_.recipeField(), "delayed");
    type(view_.historyField(), "0.5, 3.5, 7, 2");
    cast("1");
    EXPECT_EQ(number("scale ×"), 64);
    type(view_.marginField(), "1");
    cast("1");
    EXPECT_EQ(number("scale ×"), 32);
    type(view_.marginField(), "0");
    choose(view_.algorithmField(), "most_recent");
    cast("1");
    EXPECT_EQ(number("scale ×"), 896);
    choose(view_.recipeField(), "current");
    view_.powerOfTwoField()->setChecked(true);
    cast("3");
    EXPECT_EQ(number("scale ×"), 128);
    EXPECT_EQ(column(2), "7C");
    view_.powerOfTwoField()->setChecked(false);
    cast("3");
    EXPECT_EQ(column(2), "7E");
}

TEST_F(Bench, CasesN05N06N10CountersSqnrRange) {
    choose(view_.recipeField(), "fixed");
    cast("1 449 464 465 1000 inf nan -500");
    EXPECT_EQ(result().counters.overRange, 6u);
    EXPECT_EQ(result().counters.clipped, 4u);
    EXPECT_EQ(fact("NaN").substr(0, 3), "1, ") << "and its share";
    EXPECT_EQ(fact("Inf").substr(0, 3), "1, ");
    cast("1 1.1 2.3 -3.7");
    EXPECT_EQ(column(2), "38 39 41 C7");
    EXPECT_NEAR(result().mse, 0.00140625, 1e-8);  // 1.1 and 3.7 are rounded to FP32 first
    EXPECT_EQ(fact("SQNR"), "35.76 dB");
    cast("0 0x1p-9 8");
    EXPECT_EQ(fact("dynamic range"), "12.0 binades");
    cast("0 0");
    EXPECT_EQ(fact("dynamic range"), "none");
}

TEST_F(Bench, CaseN12AMillionNormalValues) {
    choose(view_.recipeField(), "current");
    choose(view_.dtypeField(), "bf16");
    view_.fillNormal(1000000);
    ASSERT_TRUE(QTest::qWaitFor([&] { return view_.result()->inputs.size() == 1000000; }, 60000));
    EXPECT_NEAR(result().sqnrDb, 31.57, 0.05);
    EXPECT_EQ(view_.results().table().rowCount(), 1000000);
    EXPECT_FALSE(view_.valuesField()->isVisible());
    choose(view_.formatField(), "e5m2");
    ASSERT_TRUE(QTest::qWaitFor([&] { return view_.result()->request.format == "e5m2"; }, 60000));
    EXPECT_NEAR(result().sqnrDb, 25.58, 0.05);
}

TEST_F(Bench, CaseN14ByteFormats) {
    choose(view_.recipeField(), "fixed");
    choose(view_.formatField(), "e8m0");
    EXPECT_TRUE(view_.roundField()->isVisible());
    const std::string value = QString::number(1.0 / 448, 'g', 17).toStdString();
    cast(value.c_str());
    EXPECT_EQ(result().codes[0], 0x77u);
    choose(view_.roundField(), "down");
    cast(value.c_str());
    EXPECT_EQ(result().codes[0], 0x76u);
    choose(view_.formatField(), "e2m1");
    cast("2.5 3.5 5");
    EXPECT_EQ(column(2), "4 6 6");
    EXPECT_EQ(column(3), "2 4 4");
}

TEST_F(Bench, AFileIsCastAndABrokenOneNamed) {
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("v.csv"));
    std::ofstream(path.toStdString()) << "1,2\n3,4\n";
    choose(view_.recipeField(), "fixed");
    view_.openFile(path);
    ASSERT_TRUE(QTest::qWaitFor([&] { return view_.result()->inputs.size() == 4; }, 20000));
    EXPECT_EQ(view_.columnsField()->text(), QStringLiteral("2"));
    std::ofstream(path.toStdString()) << "1,x\n";
    view_.openFile(path);
    ASSERT_TRUE(QTest::qWaitFor([&] { return view_.errorText().contains(QStringLiteral("value 2")); }, 20000));
    EXPECT_TRUE(view_.errorText().contains(QStringLiteral("v.csv")));
}

}  // namespace
}  // namespace mantissa::gui
