// What the Ladder page shows: figures, rows, the sweep and the state of the buttons.
#include <QComboBox>
#include <QLineEdit>
#include <QSpinBox>
#include <QToolButton>
#include <algorithm>
#include <cmath>

#include "gui/controller/run_controller.h"
#include "gui/format/numbers.h"
#include "gui/pages/ladder_page.h"
#include "gui/theme/icons.h"
#include "gui/widgets/figures_card.h"
#include "gui/widgets/ladder_charts.h"
#include "gui/widgets/ladder_rows.h"

namespace mantissa::gui {

using experiments::LadderMode;
using experiments::LadderResult;
using experiments::RungResult;
using experiments::RungState;

namespace {

/// "49.6 ms" as number and unit.
std::pair<QString, QString> split(const QString& text) {
    const int space = int(text.lastIndexOf(QLatin1Char(' ')));
    return space > 0 ? std::pair(text.left(space), text.mid(space + 1)) : std::pair(text, QString());
}

const RungResult* fastest(const LadderResult& ladder) {
    const RungResult* best = nullptr;
    for (const RungResult& rung : ladder.rungs)
        if (rung.state == RungState::Measured && (!best || rung.stepMs < best->stepMs)) best = &rung;
    return best;
}

QString plainTitle(const RungResult& rung) {
    QString title = QString::fromStdString(rung.title);
    return title.remove(QLatin1String("+ ")).remove(QLatin1String("or "));
}

/// How much faster the fastest rung is than `other`.
Figure over(const QString& label, const RungResult& best, const RungResult& other) {
    Figure figure;
    figure.label = label;
    figure.value = formatRatio(other.stepMs / best.stepMs);
    figure.meaning = QStringLiteral("%1 to %2").arg(formatMilliseconds(other.stepMs), formatMilliseconds(best.stepMs));
    figure.tooltip =
        QStringLiteral("Median step time of \"%1\" \u00f7 that of the fastest rung.").arg(plainTitle(other));
    return figure;
}

Figure memoryFigure(const LadderResult& ladder, const RungResult& best) {
    const double bytes = double(best.planBytes);
    const SizeUnit size = sizeUnit(bytes);
    Figure figure;
    figure.label = QStringLiteral("Peak memory");
    figure.value = formatSizeIn(bytes, size);
    figure.unit = size.name;
    figure.tooltip = QStringLiteral("Of the fastest rung: all that is allocated before step 0; nothing is later.");
    QStringList parts;
    const auto against = [&](const char* key, const QString& name) {
        const RungResult* other = ladder.find(key);
        if (other && other != &best && other->state == RungState::Measured && other->planBytes > 0)
            parts << QStringLiteral("%1 of %2").arg(formatChange(bytes / double(other->planBytes) - 1), name);
    };
    against("bf16", QStringLiteral("BF16"));
    against("fp32_unfused", QStringLiteral("FP32"));
    figure.meaning = parts.join(QStringLiteral(", "));
    return figure;
}

Figure spreadFigure(const LadderResult& ladder) {
    double worst = 0;
    bool any = false;  // one step alone has no spread
    for (const RungResult& rung : ladder.rungs)
        if (rung.state == RungState::Measured && rung.hasSpread() && rung.stepMs > 0)
            worst = std::max(worst, rung.spreadMs / rung.stepMs), any = true;
    Figure figure;
    figure.label = QStringLiteral("Spread");
    const auto [value, unit] = split(formatShare(worst));
    figure.value = any ? QStringLiteral("\u00b1 ") + value : notMeasured();
    figure.unit = any ? unit : QString();
    figure.meaning = QStringLiteral("%1 warm-up + %2 timed steps a rung").arg(ladder.warmup).arg(ladder.steps);
    figure.tooltip =
        QStringLiteral("Half the distance between the quartiles \u00f7 median, of the rung where it is largest.");
    return figure;
}

QString deviceOf(const LadderResult& ladder) {
    if (ladder.deviceName.empty()) return QString();
    const QString name = QStringLiteral(", ") + QString::fromStdString(ladder.deviceName);
    return ladder.device == "cpu" ? name + QStringLiteral(", %1 threads").arg(ladder.threads) : name;
}

}  // namespace

void LadderPage::showAll() {
    if (!view_.rungs) return;
    showFigures();
    LadderExtras extras;
    extras.forecastSeconds = view_.forecastSeconds;
    extras.busy = busy();
    if (job_ && jobMode_ == LadderMode::Rungs) {
        const experiments::LadderProgress now = job_->progress();
        for (size_t i = 0; i < view_.rungs->rungs.size() && now.ladder == view_.rungs->id; ++i)
            if (view_.rungs->rungs[i].title == now.rung) extras.running = int(i);
        extras.progress = now.phase.empty()
                              ? QStringLiteral("step %1 of %2").arg(formatCount(now.step), formatCount(now.steps))
                              : QString::fromStdString(now.phase);
    }
    rows_->setLadder(view_.rungs, std::move(extras));
    last_->setLadder(view_.rungs);
    rungsCard_->setHint(
        QStringLiteral("%1, %2 \u00d7 %3 tokens%4%5")
            .arg(preset(), formatCount(view_.rungs->batch), formatCount(view_.rungs->context), deviceOf(*view_.rungs),
                 view_.newerStopped ? tr("; a newer one was stopped before its first rung was measured") : QString()));
    showWidths();
    showBusy();
}

void LadderPage::showFigures() {
    const LadderResult& ladder = *view_.rungs;
    std::vector<Figure> figures;
    if (const RungResult* best = fastest(ladder)) {
        Figure time;
        time.label = QStringLiteral("Fastest rung");
        std::tie(time.value, time.unit) = split(formatMilliseconds(best->stepMs));
        time.unit += QStringLiteral("/step");
        time.meaning = plainTitle(*best);
        time.tooltip = QStringLiteral("Median of the timed steps, end to end.");
        figures.push_back(std::move(time));
        const RungResult *first = ladder.find("fp32_unfused"), *bf16 = ladder.find("bf16");
        if (first && first->state == RungState::Measured && first != best)
            figures.push_back(over(QStringLiteral("Over FP32 unfused"), *best, *first));
        if (bf16 && bf16->state == RungState::Measured && bf16 != best)
            figures.push_back(over(QStringLiteral("Over BF16"), *best, *bf16));
        figures.push_back(memoryFigure(ladder, *best));
        figures.push_back(spreadFigure(ladder));
    } else {
        double seconds = 0;
        for (const double one : view_.forecastSeconds) seconds += one;
        Figure rungs, time;
        rungs.label = QStringLiteral("Rungs");
        rungs.value = QString::number(ladder.rungs.size());
        rungs.meaning = QStringLiteral("from FP32, every stage a pass of its own, to FP8");
        time.label = QStringLiteral("Will take about");
        std::tie(time.value, time.unit) = split(seconds > 0 ? formatDuration(seconds) : notMeasured());
        time.meaning = QStringLiteral("%1 warm-up + %2 timed steps a rung").arg(warmup_->value()).arg(steps_->value());
        time.tooltip = QStringLiteral("From earlier runs on this machine or from a product timed on it.");
        figures = {rungs, time};
    }
    figures_->setFigures(std::move(figures));
}

void LadderPage::showWidths() {
    QStringList defaults;
    for (const int width : view_.defaultWidths) defaults << QString::number(width);
    widths_->setPlaceholderText(defaults.join(QStringLiteral(", ")));
    const QString hint = QStringLiteral("\u00d7, %1 layers, T %2")
                             .arg(formatCount(view_.rungs->layers), formatCount(view_.rungs->context));
    widthsCard_->setHint(hint);
    exportWidths_->setEnabled(view_.widths != nullptr);
    if (!view_.widths) {
        crossing_->setText(QString());
        chart_->setCrossover({},
                             tr("No sweep yet. Run measures BF16 and FP8 at each width and finds where they cross."));
        return;
    }
    const experiments::Crossover crossing = experiments::crossover(*view_.widths);
    QString failed;
    for (const RungResult& rung : view_.widths->rungs)
        if (rung.state == RungState::Failed && failed.isEmpty())
            failed =
                QStringLiteral("%1: %2").arg(QString::fromStdString(rung.title), QString::fromStdString(rung.text));
    chart_->setCrossover(crossing, failed.isEmpty() ? tr("No width is measured yet.") : failed);
    crossing_->setText(crossing.points.size() < 2 ? QString() : QString::fromStdString(crossing.text));
    crossing_->setToolTip(
        tr("Where the line meets break-even, between its neighbours by proportion over log2 of the width."));
}

void LadderPage::showBusy() {
    const bool stopping = busy();
    run_->setIcon(icon(stopping ? Glyph::Stop : Glyph::Play));
    run_->setText(stopping ? tr("Stop") : tr("Run ladder"));
    run_->setAccessibleName(run_->text());
    run_->setToolTip(stopping ? tr("End the rung that goes after its step; the others are not run")
                              : tr("Run all rungs one after the other on this machine"));
    const bool readOnly = !controller().store().readOnlyReason.isEmpty();
    run_->setEnabled(!readOnly && (!stopping || job_));
    if (readOnly) run_->setToolTip(tr("The store is open for reading only."));
    for (QWidget* widget : std::initializer_list<QWidget*>{again_, sweep_, presets_, warmup_, steps_, widths_})
        widget->setEnabled(!stopping && !readOnly);
    presets_->setEnabled(!stopping);
    const bool some = view_.rungs && fastest(*view_.rungs);
    again_->setVisible(some);
    copy_->setEnabled(some);
    export_->setEnabled(some);
    trouble_->setText(problem_);
    trouble_->setVisible(!problem_.isEmpty());
}

}  // namespace mantissa::gui
