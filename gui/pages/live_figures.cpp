// Figures, ledger and state of the Live page.
#include <QStackedWidget>
#include <algorithm>
#include <cmath>

#include "engine/trainer.h"
#include "experiments/report/peak.h"
#include "gui/format/numbers.h"
#include "gui/pages/live_health.h"
#include "gui/pages/live_page.h"
#include "gui/widgets/figures_card.h"
#include "gui/widgets/message_strip.h"
#include "gui/widgets/step_ledger.h"

namespace mantissa::gui {

namespace {

constexpr int kMedianOf = 100;  ///< steps behind throughput, step time and where a step goes: they agree

double lastFinite(const SeriesPyramid& series) {
    for (size_t i = series.size(); i-- > 0;) {
        if (std::isfinite(series.y(i))) {
            return double(series.y(i));
        }
    }
    return NAN;
}

/// The precision of a recipe column: "fp8 delayed", "bf16", …
engine::PrecisionMode modeOf(const QString& recipe) {
    using engine::PrecisionMode;
    return recipe.startsWith(QLatin1String("fp8"))    ? PrecisionMode::Fp8
           : recipe.startsWith(QLatin1String("fp16")) ? PrecisionMode::Fp16
           : recipe.startsWith(QLatin1String("tf32")) ? PrecisionMode::Tf32
           : recipe.startsWith(QLatin1String("fp32")) ? PrecisionMode::Fp32
                                                      : PrecisionMode::Bf16;
}

/// Tokens of a step ÷ the median time of the last kMedianOf steps: where steps take turns at being fast and slow, the
/// median of their rates is of other steps than the median of their times. NaN: nothing measured.
double medianSpeed(const RunSeries& run) {
    const auto rate = run.metric(QStringLiteral("tokens_per_s")), time = run.metric(QStringLiteral("step_ms"));
    if (rate->empty() || rate->size() != time->size())
        return run.recentMedian(QStringLiteral("tokens_per_s"), kMedianOf);
    const size_t last = rate->size() - 1;
    const double tokens = double(rate->y(last)) * double(time->y(last));
    return tokens / run.recentMedian(QStringLiteral("step_ms"), kMedianOf);
}

/// mJ per token over the newest ten seconds of steps by the board's counter, which is too coarse for less; NaN: not
/// measured so long.
double millijoulesPerToken(RunSeries& run) {
    const auto joules = run.metric(QStringLiteral("energy_j")), tokens = run.metric(QStringLiteral("tokens"));
    const auto times = run.metric(QStringLiteral("step_ms"));
    if (joules->size() < 2 || tokens->size() != times->size()) {
        return NAN;
    }
    const size_t last = joules->size() - 1;
    const size_t lastStep = times->lowerBound(joules->x(last));
    double elapsed = 0;
    size_t step = lastStep;
    for (size_t i = last; i-- > 0 && lastStep < times->size();) {
        for (; step > 0 && times->x(step) > joules->x(i); --step) {
            elapsed += double(times->y(step)) / 1e3;
        }
        const double used = double(joules->y(last)) - double(joules->y(i));
        if (used < 0) {
            return NAN;  // counted anew since a resume
        }
        if (elapsed >= 10) {
            const double trained = double(tokens->y(lastStep)) - double(tokens->y(step));
            return trained > 0 ? used / trained * 1000 : NAN;
        }
    }
    return NAN;
}

/// Energy where the board measures it: no figure at all elsewhere.
void addEnergy(RunSeries& run, std::vector<Figure>& figures) {
    const auto power = run.metric(QStringLiteral("power_w"));
    const double energy = millijoulesPerToken(run);
    if (power->empty() && !std::isfinite(energy)) {
        return;
    }
    Figure figure;
    figure.label = QStringLiteral("Energy");
    figure.value = std::isfinite(energy) ? formatNumber(energy, 3) : notMeasured();
    figure.unit = QStringLiteral("mJ/token");
    figure.tooltip = QStringLiteral(
        "The whole board's energy counter (NVML) over the last ten seconds divided by the tokens trained in them.");
    QStringList parts;
    if (!power->empty()) {
        parts << QStringLiteral("%1 W").arg(formatNumber(lastFinite(*power), 3));
    }
    if (const auto clock = run.metric(QStringLiteral("sm_mhz")); !clock->empty()) {
        parts << QStringLiteral("%1 MHz").arg(formatCount(qint64(lastFinite(*clock))));
    }
    figure.meaning = parts.join(QStringLiteral(", "));
    figures.push_back(std::move(figure));
}

const char* const kCategories[] = {"weights", "gradients", "moments", "activations", "workspace", "host"};

}  // namespace

void LivePage::updateFigures() {
    if (!smooth_ || !isVisible()) {
        return;
    }
    const RunInfo* info = controller().run(run());
    const RunInfo* baseInfo = controller().run(base_.id());
    std::vector<Figure> figures;
    const auto add = [&](const char* label, QString value, QString unit) -> Figure& {
        Figure figure;
        figure.label = QString::fromUtf8(label);
        figure.value = std::move(value);
        figure.unit = std::move(unit);
        figures.push_back(std::move(figure));
        return figures.back();
    };
    const QString unit = lossUnit();
    const auto raw = run_.metric(QStringLiteral("loss"));
    const auto orDash = [](double value, const QString& text) { return std::isfinite(value) ? text : notMeasured(); };

    const double loss = smooth_->empty() ? NAN : double(smooth_->y(smooth_->size() - 1));
    Figure& train = add("Train loss", orDash(loss, formatLoss(loss)), unit);
    train.tooltip = QStringLiteral(
        "Mean cross-entropy of the step's tokens, natural logarithm; moving average with debias divisor, non-finite "
        "steps skipped.");
    if (!raw->empty() && !std::isfinite(raw->y(raw->size() - 1))) {
        train.meaning = QStringLiteral("last step NaN, last finite %1").arg(formatLoss(lastFinite(*raw)));
        train.meaningToken = Token::Nonfinite;
        train.glyph = int(Glyph::Bad);
    } else if (hasBaseline() && !difference_->empty() && difference_->lastX() == raw->lastX()) {
        train.meaning = QStringLiteral("%1 vs %2 at this step")
                            .arg(formatLossDifference(double(difference_->y(difference_->size() - 1))), baselineName());
    } else if (run_.document().entropyFloor && std::isfinite(loss)) {
        train.meaning = QStringLiteral("%1 above the floor").arg(formatLoss(loss - *run_.document().entropyFloor));
    } else {
        train.meaning = QStringLiteral("smoothed %1").arg(alpha_);
    }

    const auto validation = run_.metric(QStringLiteral("val_loss"));
    const double val = validation->empty() ? NAN : double(validation->y(validation->size() - 1));
    Figure& valid = add("Validation loss", validation->empty() ? notMeasured() : formatLoss(val), unit);
    valid.tooltip = QStringLiteral("Mean over the fixed validation windows; the training state is not touched.");
    if (!validation->empty()) {
        const RangeSummary all = validation->summary(0, validation->size());
        const bool best = std::isfinite(val) && float(val) <= all.min;
        valid.meaning = best ? QStringLiteral("best so far, step %1").arg(formatCount(qint64(validation->lastX())))
                             : QStringLiteral("step %1, best %2")
                                   .arg(formatCount(qint64(validation->lastX())), formatLoss(double(all.min)));
        valid.glyph = best ? int(Glyph::Check) : -1;
        valid.meaningToken = best ? Token::Ok : Token::Text2;
        if (best) {
            valid.meaningToken = Token::Text2;
        }
    } else {
        valid.meaning = QStringLiteral("none yet");
    }

    const double speed = medianSpeed(run_);
    Figure& rate = add("Throughput", orDash(speed, formatRate(speed)), QStringLiteral("tokens/s"));
    rate.tooltip = QStringLiteral(
        "Tokens of a step divided by the time between step ends, the median of the last 100 steps as in Step time.");
    const double baseSpeed = medianSpeed(base_);
    rate.meaning = hasBaseline() && std::isfinite(baseSpeed) && std::isfinite(speed)
                       ? QStringLiteral("%1 of %2").arg(formatRatio(speed / baseSpeed), baselineName())
                       : QStringLiteral("median of 100 steps");

    const double step = run_.recentMedian(QStringLiteral("step_ms"), kMedianOf);
    const QString time = orDash(step, formatMilliseconds(step));
    const int space = int(time.lastIndexOf(QLatin1Char(' ')));
    Figure& stepTime =
        add("Step time", space > 0 ? time.left(space) : time, space > 0 ? time.mid(space + 1) : QString());
    stepTime.tooltip =
        QStringLiteral("End to end, median of the last 100 steps; evaluations and checkpoints are left out.");
    const auto peak =
        info ? experiments::namedPeak(info->deviceName.toStdString(), modeOf(info->recipe)) : std::nullopt;
    const double flops = run_.document().flopsPerToken * speed;
    if (std::isfinite(flops) && flops > 0) {
        stepTime.tooltip += QStringLiteral("\n%1 TFLOP/s: FLOP/token %2 \u00d7 tokens/s.")
                                .arg(formatNumber(flops / 1e12, 3), QString::fromUtf8(experiments::kFlopsFormula));
    }
    if (peak && std::isfinite(flops) && flops > 0) {
        const QString share = formatShare(flops / peak->flops);
        stepTime.meaning = QStringLiteral("%1 of %2 peak").arg(share, QString::fromStdString(peak->format));
        stepTime.tooltip += QStringLiteral("\n%1 of the %2.").arg(share, QString::fromStdString(peak->name));
    } else if (info && info->going() && std::isfinite(step) && info->steps > info->step) {
        stepTime.meaning = QStringLiteral("%1 left").arg(formatTimeLeft(double(info->steps - info->step) * step / 1e3));
    } else if (info && info->seconds > 0) {
        stepTime.meaning = QStringLiteral("%1 in all").arg(formatDuration(info->seconds));
    }

    const double bytes = run_.metric(QStringLiteral("memory_bytes"))->empty()
                             ? (info ? double(info->peakBytes) : 0)
                             : double(lastFinite(*run_.metric(QStringLiteral("memory_bytes"))));
    if (bytes > 0) {
        const SizeUnit size = sizeUnit(bytes);
        const bool onDevice = info && info->device.startsWith(QStringLiteral("cuda"));
        Figure& memory = add(onDevice ? "Device memory" : "Program memory", formatSizeIn(bytes, size), size.name);
        memory.tooltip =
            onDevice ? QStringLiteral("Memory in use by the run; the plan is the forecast made before step 0.")
                     : QStringLiteral(
                           "What the whole program has grown by since the run began, as the system counts it: in a "
                           "window also what its pages read meanwhile, and not what a run before left for reuse. The "
                           "plan, made before step 0, is of the run alone.");
        memory.meaning = info && info->planBytes
                             ? QStringLiteral("plan %1").arg(formatSizeIn(double(info->planBytes), size))
                             : QString();
    }

    addEnergy(run_, figures);
    if (const int tensors = health_->fp8Tensors(); tensors > 0) {
        const auto& found = health_->findings();
        Figure& health =
            add("FP8 health", QStringLiteral("%1 of %2").arg(found.size()).arg(tensors), QStringLiteral("tensors"));
        health.tooltip = QStringLiteral("Tensors over an amber limit in the last 100 steps, of all that ran in FP8.");
        if (found.empty()) {
            health.meaning = QStringLiteral("none over a limit");
            health.glyph = int(Glyph::Check);
        } else {
            const Finding& worst = worstFinding(found);
            health.meaning = QStringLiteral("worst: %1").arg(worst.what);
            health.meaningToken = worst.rank == 0 ? Token::Nonfinite : worst.level == 2 ? Token::Bad : Token::Warn;
            health.glyph = int(worst.level == 2 ? Glyph::Bad : Glyph::Warning);
        }
    } else if (run_.loaded() && !run_.document().catalogue.empty()) {
        Figure& precision = add("Precision", info ? info->recipe : notMeasured(), QString());
        precision.meaning = QStringLiteral("no tensor in FP8");
    }
    Q_UNUSED(baseInfo);
    figures_->setFigures(std::move(figures));
}

void LivePage::updateLedger() {
    const char* const phases[] = {"phase/matmul_ms", "phase/attention_ms", "phase/elementwise_ms",
                                  "phase/optimizer_ms"};
    std::vector<LedgerBar> bars;
    const auto bar = [&](const RunSeries& series, const QString& name) {
        const double whole = series.recentMedian(QStringLiteral("step_ms"), kMedianOf);
        if (!std::isfinite(whole)) {
            return;
        }
        LedgerBar result;
        result.name = name;
        double sum = 0;
        for (const char* phase : phases) {
            const double part = series.recentMedian(QLatin1String(phase), kMedianOf);
            result.parts.push_back(std::isfinite(part) ? part : 0);
            sum += result.parts.back();
        }
        if (sum <= 0) {
            return;
        }
        result.parts.push_back(std::max(0.0, whole - sum));
        result.total = formatMilliseconds(whole);
        bars.push_back(result);
    };
    bar(run_, QStringLiteral("this run"));
    if (hasBaseline()) {
        bar(base_, baselineName());
    }
    ledger_->setTime(std::move(bars));
    LedgerBar memory;
    QStringList names;
    double total = 0;
    for (const char* category : kCategories) {
        const auto found = run_.document().planBytes.find(category);
        if (found != run_.document().planBytes.end()) {
            memory.parts.push_back(double(found->second));
            total += double(found->second);
            names << QString::fromUtf8(found->second == 0 ? "" : found->first == "gradients" ? "grads" : category);
        }
    }
    if (total > 0) {
        const SizeUnit size = sizeUnit(total);
        memory.total = formatSize(total);
        ledger_->setMemory(memory, names, size.name);
    } else {
        ledger_->setMemory({}, {}, QString());
    }
}

/// A plan is drawn, and nothing is planned any more.
bool LivePage::planIsOver() const {
    const RunInfo* info = controller().run(run());
    return planned_ && !planned_->empty() && info && info->ended();
}

void LivePage::updateState() {
    const RunInfo* info = controller().run(run());
    stack_->setCurrentIndex(info ? 1 : 0);
    if (!info) {
        emptyText_->setText(
            controller().runs().isEmpty()
                ? QStringLiteral("No runs in this store yet. A run appears here the moment it starts, also one that "
                                 "mantissa-run started.")
                : QStringLiteral("No run is selected. A click in the run list shows one here."));
        return;
    }
    const QString step = formatCount(info->step);
    const QString why = info->message;
    switch (info->state) {
        case RunState::Queued: {
            const QString phase = controller().phaseText(info->id);
            banner_->showMessage(MessageKind::Info,
                                 phase.isEmpty() ? QStringLiteral("This run waits for its turn.") : phase,
                                 QStringLiteral("It starts by itself when the run before it on this device ends."));
            break;
        }
        case RunState::Running: {
            const QString phase = controller().phaseText(info->id);
            if (info->step == 0 && !phase.isEmpty()) {
                banner_->showMessage(MessageKind::Info, phase);
            } else {
                banner_->showMessage(MessageKind::Info, QString());
            }
            break;
        }
        case RunState::Paused:
            banner_->showMessage(MessageKind::Warn, QStringLiteral("Paused after step %1.").arg(step), why);
            break;
        default:  // how a run ended badly stands in the window's banner
            banner_->showMessage(MessageKind::Info, QString());
            break;
    }
    const QString next = run_.spec().trainer.probes.every > 0
                             ? QStringLiteral("Statistics of every tensor each step, SQNR and kurtosis every %1")
                                   .arg(run_.spec().trainer.probes.every)
                             : QString();
    if (next != status_) {
        status_ = next;
        Q_EMIT statusTextChanged();
    }
}

}  // namespace mantissa::gui
