// The run list: filter expressions, model rules, NaN last, selection kept over updates.
#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QElapsedTimer>
#include <QSignalSpy>
#include <cmath>

#include "gui/models/run_filter.h"
#include "gui/models/run_list_model.h"
#include "gui/widgets/run_card.h"

namespace {

using namespace mantissa::gui;

RunInfo makeRun(const char* id, const char* model, const char* recipe, double valLoss,
                RunState state = RunState::Finished) {
    RunInfo run;
    run.id = QLatin1String(id);
    run.model = QLatin1String(model);
    run.recipe = QLatin1String(recipe);
    run.name = run.model + QLatin1Char('-') + run.recipe;
    run.state = state;
    run.step = 600;
    run.steps = 600;
    run.hasValLoss = true;
    run.valLoss = valLoss;
    run.hasLoss = true;
    run.loss = valLoss;
    run.createdMs = id[0];
    return run;
}

QVector<RunInfo> sample() {
    return {makeRun("a", "nano", "bf16", 1.874), makeRun("b", "nano", "fp8 delayed", 1.88),
            makeRun("c", "minigpt", "fp8 fixed 1", std::nan(""), RunState::Diverged),
            makeRun("d", "minigpt", "bf16", 1.226)};
}

QStringList matching(const char* text) {
    const RunFilter filter{QString::fromUtf8(text)};
    EXPECT_TRUE(filter.ok()) << filter.error().toStdString();
    QStringList ids;
    for (const RunInfo& run : sample())
        if (filter.matches(run)) ids << run.id;
    return ids;
}

TEST(RunFilter, ComparesNumbersTextAndWords) {
    using L = QStringList;
    const auto ids = [](std::initializer_list<const char*> names) {
        L list;
        for (const char* name : names) list << QLatin1String(name);
        return list;
    };
    EXPECT_EQ(matching(""), ids({"a", "b", "c", "d"}));
    EXPECT_EQ(matching("loss < 2 and recipe = delayed"), ids({"b"}));
    EXPECT_EQ(matching("val_loss<1.5"), ids({"d"}));
    EXPECT_EQ(matching("recipe = bf16 or status = diverged"), ids({"a", "c", "d"}));
    EXPECT_EQ(matching("not (model = nano)"), ids({"c", "d"}));
    EXPECT_EQ(matching("nano"), ids({"a", "b"}));
    EXPECT_EQ(matching("name ~ \"fp8 de\""), ids({"b"}));
}

TEST(RunFilter, NanMatchesNoComparison) {
    EXPECT_FALSE(matching("loss < 0.1").contains(QStringLiteral("c")));
    EXPECT_FALSE(matching("loss > 0").contains(QStringLiteral("c")));
}

TEST(RunFilter, ErrorsAreASentence) {
    for (const char* text : {"los < 2", "loss <", "< 2", "(loss < 2", "loss < 2 and"}) {
        const RunFilter filter{QLatin1String(text)};
        EXPECT_FALSE(filter.ok()) << text;
        EXPECT_GT(filter.error().size(), 10) << text;
    }
}

TEST(RunCard, SeedsAreNumbersAndStayShort) {
    EXPECT_EQ(seedList({}), QString());
    EXPECT_EQ(seedList({10, 2, 1, 2}), QStringLiteral("1, 2, 10"));
    std::vector<quint64> many;
    for (quint64 seed = 200; seed > 0; --seed) many.push_back(seed);
    EXPECT_EQ(seedList(many), QStringLiteral("1 to 200"));
    std::vector<quint64> odd;
    for (quint64 seed = 1; seed < 80; seed += 2) odd.push_back(seed);
    EXPECT_EQ(seedList(odd), QString::fromUtf8("1, 3, 5, 7, 9, … (40 seeds)"));
    EXPECT_EQ(seedList({4, 5, 6, 9}), QStringLiteral("4 to 6, 9"));
}

TEST(RunListModel, PassesTheModelTester) {
    RunListModel model;
    QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
    model.setRuns(sample());
    EXPECT_EQ(model.rowCount(), 2);
    model.setFilter(RunFilter(QStringLiteral("nano")));
    EXPECT_EQ(model.shownCount(), 2);
    model.setFilter(RunFilter());
    model.sort(RunListModel::ValLoss, Qt::AscendingOrder);
    model.setGroupBy(RunListModel::GroupBy::None);
    model.setRuns({});
    EXPECT_EQ(model.rowCount(), 0);
}

TEST(RunListModel, NanSortsLastInBothOrders) {
    RunListModel model;
    model.setGroupBy(RunListModel::GroupBy::None);
    model.setRuns(sample());
    for (const Qt::SortOrder order : {Qt::AscendingOrder, Qt::DescendingOrder}) {
        model.sort(RunListModel::ValLoss, order);
        EXPECT_EQ(model.shownIds().last(), QStringLiteral("c"));
    }
    EXPECT_EQ(model.shownIds().first(), QStringLiteral("b"));
    const QModelIndex nan = model.indexOf(QStringLiteral("c"), RunListModel::ValLoss);
    EXPECT_EQ(nan.data().toString(), QStringLiteral("NaN"));
}

TEST(RunListModel, UpdateOfOneRunResetsNothing) {
    RunListModel model;
    model.setRuns(sample());
    QSignalSpy reset(&model, &QAbstractItemModel::modelReset), changed(&model, &QAbstractItemModel::dataChanged);
    RunInfo run = sample()[1];
    run.step = 300;
    model.updateRun(run);
    EXPECT_EQ(reset.count(), 0);
    EXPECT_EQ(changed.count(), 1);
    QVector<RunInfo> runs = sample();
    runs[0].valLoss = 1.8;
    model.setRuns(runs);
    EXPECT_EQ(reset.count(), 0);
}

TEST(RunListModel, NamesLoseTheGroupPrefixInsideAGroup) {
    RunListModel model;
    model.setRuns(sample());
    EXPECT_EQ(model.indexOf(QStringLiteral("a")).data().toString(), QStringLiteral("bf16"));
    EXPECT_EQ(RunListModel::shortName(sample()[0], QStringLiteral("minigpt")), QStringLiteral("nano-bf16"));
}

TEST(RunListModel, SortsFiveHundredRunsUnderFiftyMilliseconds) {
    QVector<RunInfo> runs;
    for (int i = 0; i < 500; ++i) {
        runs << makeRun("x", "nano", "bf16", std::fmod(i * 37.0, 101));
        runs.last().id = QString::number(i);
    }
    RunListModel model;
    model.setRuns(runs);
    double best = 1e9;
    for (int round = 0; round < 5; ++round) {
        QElapsedTimer timer;
        timer.start();
        model.sort(RunListModel::ValLoss, round % 2 ? Qt::AscendingOrder : Qt::DescendingOrder);
        best = std::min(best, timer.nsecsElapsed() * 1e-6);
    }
    EXPECT_LT(best, 50);
}

}  // namespace
