// Compare's arithmetic and tables: interpolation, spread over seeds, paired differences, NaN last.
#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <cmath>

#include "experiments/store/derived.h"
#include "gui/models/alarm_rules.h"
#include "gui/models/compare_curves.h"
#include "gui/models/compare_tables.h"
#include "gui/widgets/tensor_views.h"

namespace mantissa::gui {
namespace {

SharedCurve curve(std::initializer_list<std::pair<double, float>> points) {
    auto result = std::make_shared<SeriesPyramid>();
    for (const auto& [x, y] : points) {
        result->append(x, y);
    }
    return result;
}

TEST(CompareCurves, InterpolatesBetweenFiniteNeighboursOnly) {
    const SharedCurve line = curve({{0, 1.f}, {10, 3.f}, {20, NAN}, {30, 5.f}});
    EXPECT_DOUBLE_EQ(interpolate(*line, 5), 2);
    EXPECT_DOUBLE_EQ(interpolate(*line, 10), 3);
    EXPECT_TRUE(std::isnan(interpolate(*line, 15)));
    EXPECT_TRUE(std::isnan(interpolate(*line, -1)));
    EXPECT_TRUE(std::isnan(interpolate(*line, 31)));
}

TEST(CompareCurves, MeanAndSampleDeviationOverSeeds) {
    const CurveGroup group = meanOf({curve({{1, 1.f}, {2, 4.f}}), curve({{1, 3.f}, {2, 4.f}})});
    EXPECT_FLOAT_EQ(group.mean->y(0), 2);
    EXPECT_NEAR(double(group.high->y(0)) - 2, std::sqrt(2.0), 1e-6);  // sd of {1, 3} with n - 1
    EXPECT_FLOAT_EQ(group.low->y(1), 4);
    EXPECT_EQ(meanOf({curve({{1, 1.f}})}).low, nullptr);
}

TEST(CompareCurves, DifferencesArePairedAndOnlyWhereBothAre) {
    const SharedCurve base = curve({{0, 1.f}, {10, 2.f}});
    const CurveGroup gap = differenceOf({{curve({{5, 2.f}, {20, 9.f}}), base}}, false);
    ASSERT_EQ(gap.mean->size(), 1u);
    EXPECT_FLOAT_EQ(gap.mean->y(0), 0.5f);
    EXPECT_FLOAT_EQ(differenceOf({{curve({{10, 3.f}}), base}}, true).mean->y(0), 1.5f);
}

TEST(FinalNumbers, ColumnsWithoutAValueAreKnownAndPeakHasAUnitThatFits) {
    FinalNumbersModel model;
    FinalRow one, two;
    one.validation = 1.5;
    one.peakBytes = 45 << 20;
    one.baseline = true;
    two.validation = 1.6;
    two.difference = 0.1;
    two.peakBytes = 50 << 20;
    model.setRows({one, two});
    EXPECT_FALSE(model.hasValues(FinalNumbersModel::Sd));
    EXPECT_FALSE(model.hasValues(FinalNumbersModel::Paired));
    EXPECT_FALSE(model.hasValues(FinalNumbersModel::Alerts));
    EXPECT_TRUE(model.hasValues(FinalNumbersModel::Validation));
    EXPECT_TRUE(model.hasValues(FinalNumbersModel::Difference));
    EXPECT_EQ(model.headerData(FinalNumbersModel::Peak, Qt::Horizontal, Qt::DisplayRole).toString(),
              QStringLiteral("Peak MiB"));
    EXPECT_EQ(model.index(0, FinalNumbersModel::Peak).data().toString(), QStringLiteral("45.0"));
    two.sd = 0.01;
    two.alerts = 1;
    model.setRows({one, two});
    EXPECT_TRUE(model.hasValues(FinalNumbersModel::Sd));
    EXPECT_TRUE(model.hasValues(FinalNumbersModel::Alerts));
}

TEST(Formats, FourBitTensorsHaveARangeAndStatistics) {
    engine::CatalogueEntry entry;
    entry.format = "e2m1";
    EXPECT_TRUE(isFp8(entry));  // cast, so it has rows, a verdict and counters
    EXPECT_EQ(fp8Range("e2m1").largest, 6);
    EXPECT_EQ(experiments::largestFinite("e2m1"), 6);
    const double inputs[2] = {3, 2};  // amax 3, scale 2: at the end of the range
    EXPECT_EQ(experiments::derive(experiments::Statistic::Staleness, inputs, 6, 0), 1);
}

TEST(ConfigText, SaysRulesAndFaultsInWords) {
    const QString comma = QStringLiteral(", ");
    EXPECT_EQ(configText(R"("text:kjv")", comma), QStringLiteral("text:kjv"));
    EXPECT_EQ(configText("0.005", comma), QStringLiteral("0.005"));
    EXPECT_EQ(configText("true", comma), QStringLiteral("on"));
    EXPECT_EQ(configText("[]", comma), QStringLiteral("none"));
    EXPECT_EQ(configText(R"([{"match": "h.2.mlp.fc1", "gemm": "dgrad", "recipe": "bf16"},
                             {"match": "*.fc2", "gemm": "all", "recipe": "current"}])",
                         comma),
              QStringLiteral("h.2.mlp.fc1 dgrad → bf16, *.fc2 → current"));
    EXPECT_EQ(configText(R"([{"kind": "never_update", "step": 1200, "target": "h.0.mlp.fc1/input", "channel": 0,
                              "value": 1000.0}])",
                         comma),
              QStringLiteral("never_update h.0.mlp.fc1/input from step 1\u2009200"));
    EXPECT_EQ(configText(R"([{"kind": "outlier_channel", "step": 3, "target": "h.0.mlp.fc1/input", "channel": 7,
                              "value": 100.0}])",
                         comma),
              QStringLiteral("outlier_channel h.0.mlp.fc1/input from step 3, channel 7 × 100"));
    // What the store really holds: every field of a spec reads without a brace.
    auto spec = experiments::presetSpec("nano");
    spec.trainer.precision.rules = {{"*.fc2", 2, engine::RecipeKind::Bf16}};
    spec.trainer.faults = {{}};
    for (const char* path :
         {"precision.rules", "faults", "probes.shadow_match", "precision.recipe", "precision.head"}) {
        const std::string json = experiments::getPath(spec, path);
        EXPECT_FALSE(json.empty()) << path;
        for (const QChar mark : QStringLiteral("{}[]\""))
            EXPECT_FALSE(configText(json, comma).contains(mark))
                << path << ": " << configText(json, comma).toStdString();
    }
}

TEST(FinalNumbers, SortsNanLastInBothDirections) {
    FinalNumbersModel model;
    QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
    std::vector<FinalRow> rows(4);
    const double losses[] = {2, NAN, 1, 3};
    for (size_t i = 0; i < rows.size(); ++i) {
        rows[i].name = QString::number(i);
        rows[i].validation = losses[i];
        rows[i].bad = std::isnan(losses[i]);
    }
    model.setRows(rows);
    NanLastProxy proxy;
    proxy.setSourceModel(&model);
    proxy.setSortRole(FinalNumbersModel::kSortRole);
    const auto order = [&] {
        QString text;
        for (int row = 0; row < proxy.rowCount(); ++row) {
            text += proxy.index(row, FinalNumbersModel::Name).data().toString();
        }
        return text;
    };
    proxy.sort(FinalNumbersModel::Validation, Qt::AscendingOrder);
    EXPECT_EQ(order(), QStringLiteral("2031"));
    proxy.sort(FinalNumbersModel::Validation, Qt::DescendingOrder);
    EXPECT_EQ(order(), QStringLiteral("3021"));
    EXPECT_EQ(model.index(1, FinalNumbersModel::Validation).data().toString(), QStringLiteral("NaN"));
    EXPECT_TRUE(model.text().startsWith(QStringLiteral("Run\tState")));
}

TEST(AlarmRules, RanksNonFiniteClipUnderflowStaleness) {
    std::vector<engine::CatalogueEntry> catalogue(5);
    for (auto& entry : catalogue) {
        entry.layer = "h.0";
        entry.linear = "mlp.fc2";
        entry.format = "e5m2";
        entry.role = engine::TensorRole::GradOutput;
    }
    catalogue[4].format = "bf16";
    experiments::RunHealth health;
    health.tensors.resize(5);
    const auto set = [&](size_t tensor, experiments::AlarmKind kind, double standing) {
        health.tensors[tensor] = {kind,     experiments::alarmLevel(experiments::alarmRule(kind), standing),
                                  standing, standing / experiments::alarmRule(kind).amber,
                                  true,     false};
    };
    set(0, experiments::AlarmKind::Underflow, 0.02);
    set(1, experiments::AlarmKind::Stale, 3);
    set(2, experiments::AlarmKind::Underflow, 0.2);
    set(3, experiments::AlarmKind::Clipped, 0.0002);
    set(4, experiments::AlarmKind::Underflow, 0.9);
    health.tensors[4].nonFinite = true;
    experiments::RunEvent alert;
    alert.kind = "alert";
    alert.alert = "underflow";
    alert.step = 790;
    alert.tensorIndex = 2;
    const auto found = findings(health, catalogue, {alert});
    ASSERT_EQ(found.size(), 4u);  // BF16 does not count
    EXPECT_EQ(found[0].tensor, 3);
    EXPECT_EQ(found[1].tensor, 2);
    EXPECT_EQ(found[1].level, 2);
    EXPECT_EQ(found[1].since, QStringLiteral("since 790"));
    EXPECT_EQ(found[2].tensor, 0);
    EXPECT_EQ(found[3].tensor, 1);
    EXPECT_EQ(worstFinding(found).tensor, 2) << "far over its red limit, though clipping ranks first";
    health.tensors[1].nonFinite = true;
    EXPECT_EQ(worstFinding(findings(health, catalogue, {alert})).tensor, 1);
}

}  // namespace
}  // namespace mantissa::gui
