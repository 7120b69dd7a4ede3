// The Numerics page's other views, the second run, the what-if and what its buttons ask for.
#include <QButtonGroup>
#include <QComboBox>
#include <QHBoxLayout>
#include <QLineEdit>
#include <QMenu>
#include <QStackedWidget>
#include <QToolButton>
#include <algorithm>
#include <cmath>

#include "experiments/report/probe_cost.h"
#include "gui/format/numbers.h"
#include "gui/models/first_trouble.h"
#include "gui/models/what_if_rows.h"
#include "gui/pages/diagnosis_view.h"
#include "gui/pages/numerics_page.h"
#include "gui/pages/trouble_view.h"
#include "gui/plot/heat_widgets.h"
#include "gui/widgets/message_strip.h"
#include "gui/widgets/segmented_bar.h"

namespace mantissa::gui {

using namespace experiments;

namespace {

enum Topic { kDiagnosis = 20, kTrouble, kWhatIf, kCaptured, kCost };
constexpr double kDiagnoseAgain = 50;  // steps until an open diagnosis of a run that goes is made anew
constexpr qint64 kWhatIfAgain = 100, kCostAgain = 200;
constexpr int64_t kWhatIfUpdates = 1024;

}  // namespace

void NumericsPage::buildModes() {
    struct Entry {
        Glyph glyph;
        const char *name, *tip;
    };
    const Entry entries[] = {{Glyph::Grid, "Heatmap", "Statistics of all tensors over the steps"},
                             {Glyph::Search, "Diagnosis", "What is wrong where, and what would help (G)"},
                             {Glyph::Bad, "First trouble", "Where the first non-finite value arose (T)"}};
    auto* group = new QButtonGroup(this);
    auto* row = static_cast<QHBoxLayout*>(tools_->layout());
    for (int i = 0; i < 3; ++i) {
        auto* button = new QToolButton(tools_);
        button->setIcon(icon(entries[i].glyph, i == int(Mode::Trouble) ? Token::Bad : Token::Text2));
        button->setText(QString::fromUtf8(entries[i].name));
        button->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
        button->setCheckable(true);
        button->setChecked(i == 0);
        button->setAccessibleName(button->text());
        button->setToolTip(QString::fromUtf8(entries[i].tip));
        group->addButton(button, i);
        row->insertWidget(i, button);
        modeButtons_[i] = button;
    }
    modeButtons_[int(Mode::Trouble)]->hide();
    const auto forkWentOn = [this](const QString& id) {
        const RunInfo* info = controller().run(id);
        if (mode_ == Mode::Diagnosis && info && info->parent == run_.id()) loadSoon();
    };
    connect(&controller(), &RunController::storeAdvanced, this, forkWentOn);
    connect(&controller(), &RunController::runStarted, this, forkWentOn);
    connect(&controller(), &RunController::runEnded, this, forkWentOn);
    connect(group, &QButtonGroup::idClicked, this, [this](int id) { setMode(Mode(id)); });
    connect(banner_, &MessageStrip::actionClicked, this, [this] { setMode(Mode::Trouble); });
    connect(inspector_, &Inspector::specRequested, this,
            [this](const QString& spec, bool live) { requestSpec(spec, live, -1); });
    connect(inspector_, &Inspector::captureRequested, this, [this](const QString& tensor) {
        controller().capture(run(), tensor);
        whatIfTensor_ = -1;  // the capture is read with the next data
    });
}

void NumericsPage::buildMore() {
    more_ = new QToolButton(this);
    more_->setText(QStringLiteral("more"));
    more_->setAccessibleName(QStringLiteral("More statistics"));
    more_->setToolTip(QStringLiteral("More statistics ([ and ] go through all of them)"));
    more_->setPopupMode(QToolButton::InstantPopup);
    more_->setCheckable(true);
    auto* menu = new QMenu(more_);
    menu->setToolTipsVisible(true);
    for (int i = kSelectorStatistics; i < int(shownStatistics().size()); ++i) {
        QAction* entry = menu->addAction(shownStatistics()[size_t(i)].name, this, [this, i] { setStatistic(i); });
        entry->setToolTip(shownStatistics()[size_t(i)].definition);
    }
    more_->setMenu(menu);
}

void NumericsPage::setStatistic(int index) {
    if (index < 0 || index >= int(shownStatistics().size())) return;
    statistic_ = index;
    lowest_ = highest_ = 0;
    const QSignalBlocker quiet(statistics_);
    const bool listed = index < kSelectorStatistics;
    if (listed)
        statistics_->setCurrent(index);
    else
        statistics_->clearCurrent();
    more_->setText(listed ? QStringLiteral("more") : info().name);
    more_->setChecked(!listed);
    if (troubleView_) troubleView_->setStatistic(info());
    rebuildRows();  // a BF16 row has products to measure, and nothing else
}

void NumericsPage::setMode(Mode mode) {
    if (mode == mode_) return;
    mode_ = mode;
    modeButtons_[int(mode)]->setChecked(true);
    modeButtons_[int(mode)]->setFocusPolicy(Qt::TabFocus);  // Qt moves it along with clicks alone
    for (QWidget* part : {static_cast<QWidget*>(roles_), static_cast<QWidget*>(view_), static_cast<QWidget*>(goTo_)})
        part->setVisible(mode == Mode::Heatmap);
    for (QWidget* part : {static_cast<QWidget*>(statistics_), static_cast<QWidget*>(more_)})
        part->setVisible(mode != Mode::Diagnosis);
    selector_->setVisible(mode != Mode::Diagnosis);  // an empty row would keep its gap
    updatePair();
    if (mode == Mode::Heatmap) {
        modes_->setCurrentWidget(heatPage_);
        selectTensor(tensor_);
        dataTimer_.start(0);
        updateModes();
        return;
    }
    ensureView();
    updateModes();
}

/// Makes the view of the mode when it is first opened, and asks for what it shows.
void NumericsPage::ensureView() {
    if (mode_ == Mode::Diagnosis) {
        if (!diagnosis_) {
            diagnosis_ = new DiagnosisView(modes_);
            modes_->addWidget(diagnosis_);
            connect(diagnosis_, &DiagnosisView::evidenceRequested, this, &NumericsPage::showEvidence);
            connect(diagnosis_, &DiagnosisView::tensorRequested, this, [this](int tensor, qint64 step) {
                const auto& catalogue = run_.document().catalogue;
                if (tensor >= 0 && tensor < int(catalogue.size()))
                    showTensor(QString::fromStdString(engine::tensorName(catalogue[size_t(tensor)])), step);
            });
            connect(diagnosis_, &DiagnosisView::applyRequested, this,
                    [this](const QString& spec) { requestSpec(spec, true, -1); });
            connect(diagnosis_, &DiagnosisView::forkRequested, this,
                    [this](qint64 step, const QString& spec, bool now) {
                        now ? forkNow(step, spec) : requestSpec(spec, false, step);
                    });
            connect(diagnosis_, &DiagnosisView::runRequested, this, &Page::runRequested);
        }
        modes_->setCurrentWidget(diagnosis_);
        loadDiagnosis();
    } else if (mode_ == Mode::Trouble) {
        if (!troubleView_) {
            troubleView_ = new TroubleView(modes_);
            modes_->addWidget(troubleView_);
            connect(troubleView_, &TroubleView::tensorChosen, this, [this](int tensor, qint64 step) {
                const auto& catalogue = run_.document().catalogue;
                if (tensor >= 0 && tensor < int(catalogue.size()))
                    showTensor(QString::fromStdString(engine::tensorName(catalogue[size_t(tensor)])), step);
            });
            connect(troubleView_, &TroubleView::forkRequested, this,
                    [this](qint64 step, const QString& spec) { requestSpec(spec, false, std::max<qint64>(0, step)); });
            connect(troubleView_, &TroubleView::resumeRequested, this, [this] { controller().resume(run()); });
            setStatistic(3);  // amax
        }
        modes_->setCurrentWidget(troubleView_);
        loadTrouble();
    }
}

bool NumericsPage::Forks::newsSince(const Forks& before) const {
    return count != before.count || ended != before.ended || (before.steps == 0 && steps > 0) ||
           steps >= before.steps + qint64(kDiagnoseAgain);
}

NumericsPage::Forks NumericsPage::forksNow() const {
    Forks forks;
    for (const RunInfo& other : controller().runs()) {
        if (other.parent != run_.id()) continue;
        ++forks.count;
        forks.ended += other.ended();
        forks.steps += other.step;
    }
    return forks;
}

void NumericsPage::loadDiagnosis() {
    if (run_.id().isEmpty() || !isVisible()) return;
    const double last = run_.lastStep();
    const Forks forks = forksNow();
    if (diagnosedStep_ >= 0 && last >= diagnosedStep_ && last < diagnosedStep_ + kDiagnoseAgain &&
        !forks.newsSince(diagnosedForks_)) {
        const RunInfo* info = controller().run(run_.id());
        if (info && info->going()) return;
        if (last == diagnosedStep_) return;
    }
    if (diagnosedStep_ < 0) diagnosis_->showReading();
    diagnosedStep_ = last;
    diagnosedForks_ = forks;
    controller().load(
        this, kDiagnosis,
        [id = run_.id().toStdString()](RunStore& store) {
            return std::shared_ptr<const Diagnosis>(std::make_shared<Diagnosis>(diagnose(store, id)));
        },
        [this](std::shared_ptr<const Diagnosis> diagnosis) {
            if (QString::fromStdString(diagnosis->run) != run_.id()) return;
            diagnosis_->showDiagnosis(std::move(diagnosis), run_.spec(), controller().run(run_.id()));
        });
}

void NumericsPage::loadTrouble() {
    if (run_.id().isEmpty() || !isVisible()) return;
    controller().load(
        this, kTrouble,
        [id = run_.id().toStdString()](RunStore& store) {
            return std::shared_ptr<const TroubleReport>(std::make_shared<TroubleReport>(readTrouble(store, id)));
        },
        [this, id = run_.id()](std::shared_ptr<const TroubleReport> report) {
            if (id != run_.id()) return;
            if (report->step == 0) return setMode(Mode::Heatmap);
            banner_->showMessage(MessageKind::Bad, report->headline, report->outcome);
            troubleView_->showReport(std::move(report), run_.document(), run_.spec(), controller().run(id));
            troubleView_->setStatistic(info());
        });
}

/// First trouble stands on the page from the first non-finite value on; its banner on the heatmap too.
void NumericsPage::updateModes() {
    const RunInfo* info = controller().run(run_.id());
    const RunEvent* first = nullptr;
    for (const auto& event : run_.events())
        if (event.kind == "alert" && event.alert == "non_finite" && !first) first = &event;
    const bool trouble = first || (info && info->nonFinite());
    modeButtons_[int(Mode::Trouble)]->setVisible(trouble);
    if (!trouble && mode_ == Mode::Trouble && run_.loaded()) setMode(Mode::Heatmap);
    if (mode_ == Mode::Trouble) return;  // its report says it better
    const bool diverged = info && info->state == RunState::Diverged;
    if (!trouble && !diverged) return banner_->showMessage(MessageKind::Info, QString());
    const QString start =
        first ? QStringLiteral("First non-finite value: step %1.").arg(formatCount(first->step)) : QString();
    const QString detail = first ? QString::fromStdString(first->text) : info ? info->message : QString();
    banner_->showMessage(
        MessageKind::Bad,
        diverged && first && first->step == info->step
            ? QStringLiteral("Diverged at step %1, with the first non-finite value.").arg(formatCount(info->step))
        : diverged ? QStringLiteral("Diverged at step %1. %2").arg(formatCount(info->step), start).trimmed()
        : first    ? start
                   : QStringLiteral("The loss is not finite."),
        detail, trouble ? QStringLiteral("First trouble") : QString());
}

QString NumericsPage::otherRun() const {
    if (visibleRuns().size() != 2) return QString();
    return visibleRuns()[0] == run() ? visibleRuns()[1] : visibleRuns()[0];
}

void NumericsPage::updatePair() {
    const RunInfo* a = controller().run(run());
    const RunInfo* b = controller().run(otherRun());
    const bool two = a && b && mode_ == Mode::Heatmap;
    const bool before = pair_->isVisibleTo(this);
    pair_->setVisible(two);
    if (two)
        pair_->setToolTips({QStringLiteral("A: %1").arg(a->name), QStringLiteral("B: %1").arg(b->name),
                            QStringLiteral("%1 against %2, in steps of two").arg(a->name, b->name)});
    before != two ? statisticChanged() : showHint();
}

/// The unit, how often it is taken and, of two runs, which is shown or which is A and which B.
void NumericsPage::showHint() {
    const StatisticInfo& shown = info();
    const bool ratio = pairShown() == kRatio;
    const QString unit = ratio ? shown.statistic == experiments::Statistic::SqnrDb ? QStringLiteral("dB, A − B")
                                                                                   : QStringLiteral("log₂ of A ÷ B")
                               : shown.unit;
    QString hint = shown.dear ? QStringLiteral("%1, every %2 steps").arg(unit).arg(probeEvery()) : unit;
    const auto name = [](const RunInfo& info) {
        constexpr int kLongest = 28;  // two of them beside the title; the switch's tooltips have them whole
        return info.name.size() <= kLongest ? info.name : info.name.left(kLongest - 1) + QStringLiteral("…");
    };
    const RunInfo *a = controller().run(run()), *b = controller().run(otherRun());
    if (a && b && pair_->isVisibleTo(this))
        hint += ratio ? QStringLiteral("; A is %1, B %2").arg(name(*a), name(*b))
                      : QStringLiteral("; of %1").arg(name(*(pairShown() == kRunA ? a : b)));
    card_->setHint(hint);
}

NumericsPage::Pair NumericsPage::pairShown() const {
    return pair_->isVisibleTo(this) ? Pair(pair_->current()) : kRunA;
}

QString NumericsPage::shownText(double value) const {
    return pairShown() == kRatio ? differenceText(info(), value) : statisticText(info(), value);
}

void NumericsPage::applyScale() {
    const bool ratio = pairShown() == kRatio;
    const StatisticInfo& shown = info();
    const HeatScale scale = ratio ? differenceScale(shown) : heatScale(shown, double(lowest_), double(highest_));
    heat_->setScale(scale);
    bar_->setScale(
        scale, [this](double value) { return shownText(value); },
        [&shown, ratio](double value) { return ratio ? formatSigned(value, 1) : statisticTick(shown, value); });
}

void NumericsPage::loadWhatIf() {
    const auto& catalogue = run_.document().catalogue;
    if (tensor_ < 0 || tensor_ >= int(catalogue.size()) || run_.id().isEmpty() || !isVisible()) return;
    const RunInfo* run = controller().run(run_.id());
    inspector_->setGoing(run && run->going());
    if (!isFp8(catalogue[size_t(tensor_)])) return inspector_->clearWhatIf();
    const qint64 step = step_ >= 0 ? step_ : qint64(run_.lastStep());
    if (whatIfTensor_ == tensor_ && std::llabs(step - whatIfStep_) < (step_ >= 0 ? 1 : kWhatIfAgain)) return;
    if (whatIfTensor_ != tensor_) inspector_->clearWhatIf();
    whatIfTensor_ = tensor_;
    whatIfStep_ = step;
    controller().load(
        this, kWhatIf,
        [id = run_.id().toStdString(), tensor = tensor_, step](RunStore& store) {
            return readWhatIf(store, id, tensor, step, kWhatIfUpdates);
        },
        [this](WhatIfReport report) {
            if (report.tensor < 0) whatIfTensor_ = -1;  // nothing recorded yet: asked again with the next data
            if (report.tensor != tensor_) return;
            const RunInfo* info = controller().run(run_.id());
            inspector_->showWhatIf(run_.document(), run_.spec(), std::move(report), info && info->going());
        },
        [this](const QString&) { inspector_->clearWhatIf(); });
    controller().load(
        this, kCaptured,
        [id = run_.id().toStdString(), tensor = tensor_, step](RunStore& store) {
            return readCaptured(store, id, tensor, step);
        },
        [this](CapturedReport report) {
            if (report.tensor == tensor_) inspector_->showCaptured(std::move(report));
        },
        [](const QString&) {});  // a capture that was removed meanwhile
}

/// How much longer the run's probed steps took than the others: the status line says what looking costs.
void NumericsPage::loadCost() {
    if (run_.id().isEmpty() || !isVisible()) return;
    const double last = run_.lastStep();
    if (costStep_ >= 0 && last < costStep_ + kCostAgain && last >= costStep_) return;
    costStep_ = last;
    controller().load(
        this, kCost, [id = run_.id().toStdString()](RunStore& store) { return probedSteps(store, id); },
        [this, id = run_.id()](const ProbedSteps& steps) {
            if (id != run_.id()) return;
            cost_ = steps.rate > 0 ? tr("; a probed step takes ×%1, which makes %2 % in all")
                                         .arg(formatNumber(steps.probedMs / steps.plainMs, 3),
                                              formatSigned(100 * steps.share(), 2))
                                   : QString();
            updateStatus();
        },
        [](const QString&) {});
}

/// live: the running job takes the spec's changes; else a fork from `step` (0: from the start; −1: its dialog offers
/// what there is).
void NumericsPage::requestSpec(const QString& specJson, bool live, qint64 step) {
    if (live)
        Q_EMIT changeRequested(run(), specJson);
    else
        Q_EMIT forkRequested(run(), step, specJson);
}

/// The child's steps then bring the diagnosis up to date: what the change brought stands below the changes.
void NumericsPage::forkNow(qint64 step, const QString& specJson) {
    const auto parsed = experiments::parseSpec(specJson.toStdString());
    if (!parsed.ok()) return;
    experiments::JobOptions options;
    options.forkRun = run().toStdString();
    options.resumeStep = step;
    if (const RunInfo* info = controller().run(run())) {
        options.name = info->name.toStdString() + "-fork";
        options.device.device = info->device.toStdString();
    }
    controller().start(parsed.spec, std::move(options));
}

/// "numerics/h.1/mlp.fc1/input/clipped_share": its tensor and statistic here; another metric on the Live page.
void NumericsPage::showEvidence(const QString& series, qint64 step) {
    const QStringList parts = series.split(QLatin1Char('/'));
    if (parts.size() < 3 || parts.first() != QLatin1String("numerics")) {
        Q_EMIT metricRequested(series, step);
        return;
    }
    const auto statistic = statisticFromName(parts.last().toStdString());
    const auto& all = shownStatistics();
    const auto same = std::find_if(all.begin(), all.end(), [&](const StatisticInfo& s) {
        // A count is shown as its share.
        const auto shareOf = statisticFromName(parts.last().toStdString() + "_share");
        return statistic && (s.statistic == *statistic || (shareOf && s.statistic == *shareOf));
    });
    if (same != all.end()) setStatistic(int(same - all.begin()));
    showTensor(parts.mid(1, parts.size() - 2).join(QLatin1Char('/')), step);
    const double half = std::max(20.0, (link_.extent().high - link_.extent().low) / 10);
    link_.setView(std::max(1.0, double(step) - half), double(step) + half);
    link_.setCursor(double(step));
}

}  // namespace mantissa::gui
