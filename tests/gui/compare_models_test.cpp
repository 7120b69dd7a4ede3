// Compare's arithmetic and tables: interpolation, spread over seeds, paired differences, NaN last.
#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <cmath>

#include "gui/models/alarm_rules.h"
#include "gui/models/compare_curves.h"
#include "gui/models/compare_tables.h"

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
}

}  // namespace
}  // namespace mantissa::gui
