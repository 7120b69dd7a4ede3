#include "gui/models/tensor_report.h"

#include <algorithm>
#include <cmath>

#include "engine/plan/precision_plan.h"
#include "gui/format/numbers.h"
#include "gui/widgets/tensor_views.h"

namespace mantissa::gui {

using namespace experiments;

namespace {

enum Counter { kElements, kZeros, kUnderflow, kSubnormal, kOverRange, kClipped, kInf, kNan };

double share(const engine::TensorNumerics& t, Counter counter) {
    return t.counters[kElements] ? double(t.counters[counter]) / double(t.counters[kElements]) : NAN;
}

/// The setting that keeps a linear in BF16; the order in which the plan takes them, the last match wins.
QString ruleOf(const engine::CatalogueEntry& entry, const RunSpec& spec) {
    const engine::PrecisionConfig& precision = spec.trainer.precision;
    const std::string full = entry.linear.empty() ? entry.layer : entry.layer + "." + entry.linear;
    for (auto rule = precision.rules.rbegin(); rule != precision.rules.rend(); ++rule)
        if (engine::globMatches(rule->match, full))
            return QStringLiteral("rule %1").arg(QString::fromStdString(rule->match));
    if (entry.linear.empty()) return QStringLiteral("precision.head, which is bf16");
    const int layer = QString::fromStdString(entry.layer).section(QLatin1Char('.'), 1).toInt();
    const auto layers = [](const char* which, int count) {
        return QStringLiteral("rule %1 %2 %3")
            .arg(QLatin1String(which))
            .arg(count)
            .arg(count == 1 ? QStringLiteral("layer") : QStringLiteral("layers"));
    };
    if (layer < precision.firstLayersBf16) return layers("first", precision.firstLayersBf16);
    if (layer >= spec.trainer.model.layers - precision.lastLayersBf16) return layers("last", precision.lastLayersBf16);
    return QStringLiteral("the plan");
}

}  // namespace

Verdict plainVerdict(const engine::CatalogueEntry& entry, const RunSpec& spec) {
    const QString format = QString::fromStdString(entry.format).toUpper();
    const engine::PrecisionMode mode = spec.trainer.precision.mode;
    return {
        MessageKind::Info,
        mode == engine::PrecisionMode::Fp8
            ? QStringLiteral("Runs in %1 by %2.").arg(format, ruleOf(entry, spec))
            : QStringLiteral("Runs in %1: the run's mode is %2.").arg(format, QLatin1String(engine::modeName(mode))),
        QStringLiteral("No product reads this tensor in FP8. amax, scale and counters come from the cast, so none "
                       "are recorded.")};
}

TensorReport readTensor(RunStore& store, const std::string& id, int tensor, int64_t step) {
    TensorReport report;
    const auto row = store.run(id);
    if (!row || tensor < 0) {
        return report;
    }
    report.step = step < 0 || step > row->step ? row->step : step;
    report.record = store.record(id, report.step);
    for (int64_t back = 1; !report.record && back <= 20 && report.step > 1;
         ++back) {  // the newest step may not be committed yet
        report.record = store.record(id, --report.step);
    }
    if (!report.record || tensor >= int(report.record->tensors.size())) {
        return report;
    }
    report.tensor = tensor;
    const RunDocument document = store.document(id);
    if (tensor >= int(document.catalogue.size())) {
        return report;
    }
    const auto& entry = document.catalogue[size_t(tensor)];
    if (entry.recipe == "delayed" && isFp8(entry)) {
        report.window = store.window(id, tensor, report.step);
    }
    report.exponents = store.exponents(id, tensor, report.step);
    const auto newest = [&](Statistic statistic, double& value) {
        const Series series =
            store.series(id, numericsName(entry, statistic), std::max<int64_t>(0, report.step - 2000));
        for (size_t i = series.steps.size(); i-- > 0;) {
            if (series.steps[i] <= report.step) {
                value = series.values[i];
                report.probedStep = series.steps[i];
                return;
            }
        }
    };
    newest(Statistic::Kurtosis, report.kurtosis);
    newest(Statistic::SqnrDb, report.sqnr);
    const double limit = experiments::alarmRule(experiments::AlarmKind::Underflow).amber;
    const Series under = store.series(id, numericsName(entry, Statistic::UnderflowShare), 0);
    size_t i = size_t(std::upper_bound(under.steps.begin(), under.steps.end(), report.step) - under.steps.begin());
    while (i > 0 && under.values[i - 1] > limit) {
        report.overSince = under.steps[--i];
    }
    if (report.overSince > 0 && i > 0) {
        std::vector<double> before(under.values.begin() + std::ptrdiff_t(i - std::min<size_t>(i, 100)),
                                   under.values.begin() + std::ptrdiff_t(i));
        std::nth_element(before.begin(), before.begin() + std::ptrdiff_t(before.size() / 2), before.end());
        report.before = before[before.size() / 2];
    }
    return report;
}

Verdict verdictOf(const TensorReport& report, const engine::CatalogueEntry& entry) {
    const engine::TensorNumerics& t = report.record->tensors[size_t(report.tensor)];
    const Fp8Range range = fp8Range(entry.format);
    const double held = range.largest / double(t.scale);
    const double unused = t.amax > 0 && std::isfinite(t.amax) ? std::log2(held) - std::log2(double(t.amax)) : NAN;
    if (t.counters[kNan] || t.counters[kInf]) {
        return {MessageKind::Bad,
                QStringLiteral("%1 NaN and %2 Inf of %3 elements at step %4.")
                    .arg(formatCount(qint64(t.counters[kNan])), formatCount(qint64(t.counters[kInf])),
                         formatCount(qint64(t.counters[kElements])), formatCount(report.step)),
                t.counters[kInf]
                    ? QStringLiteral("An infinity enters the amax window and holds the scale until it leaves.")
                    : QStringLiteral("amax skips NaN, so the scale does not see it.")};
    }
    if (report.window && report.window->frozenFor > 0) {
        return {MessageKind::Warn,
                QStringLiteral("Scale frozen: Inf in the window, leaves in %1 updates.")
                    .arg(formatCount(report.window->frozenFor)),
                QStringLiteral("Until then values above %1 clip, whatever the tensor does.").arg(formatScale(held))};
    }
    if (report.window && !report.window->everUpdated && report.step > 1) {
        return {MessageKind::Warn, QStringLiteral("Scale never updated in %1 steps.").arg(formatCount(report.step)),
                report.window->entries.empty()
                    ? QStringLiteral("This linear did not take part in an amax update; its values are cast at scale 1.")
                    : QStringLiteral(
                          "Its amaxes are recorded, but no update reaches the scale; its values are cast at scale 1.")};
    }
    const double clipped = share(t, kClipped), under = share(t, kUnderflow);
    const auto clipRule = experiments::alarmRule(experiments::AlarmKind::Clipped);
    const auto underRule = experiments::alarmRule(experiments::AlarmKind::Underflow);
    if (clipped > clipRule.amber) {
        return {clipped > clipRule.red ? MessageKind::Bad : MessageKind::Warn,
                QStringLiteral("Clipped %1 of the elements at step %2.")
                    .arg(formatShare(clipped), formatCount(report.step)),
                QStringLiteral("amax is %1, the scale holds up to %2. The next update takes the new amax in.")
                    .arg(formatScale(double(t.amax)), formatScale(held))};
    }
    if (entry.role == engine::TensorRole::GradOutput && under > underRule.amber) {
        QString finding = QStringLiteral("Underflow %1").arg(formatShare(under));
        if (report.overSince > 0) {
            finding += QStringLiteral(" for %1 steps").arg(formatCount(report.step - report.overSince + 1));
            finding += std::isfinite(report.before) ? QStringLiteral(", was %1.").arg(formatShare(report.before))
                                                    : QStringLiteral(", since the start.");
        } else {
            finding += QLatin1Char('.');
        }
        QString outlook;
        if (report.window && report.window->ruling >= 0 && unused > 4) {
            outlook =
                QStringLiteral(
                    "One spike still sets the scale. Left alone, this ends at step %1, when it leaves the window.")
                    .arg(formatCount(report.step + report.window->leavesIn));
        } else if (unused > 2) {
            outlook = QStringLiteral("The scale leaves %1 binades above amax unused.").arg(formatNumber(unused, 2));
        } else {
            outlook = QStringLiteral("The tensor spans more binades than %1 holds.").arg(QLatin1String(range.name));
        }
        return {under > underRule.red ? MessageKind::Bad : MessageKind::Warn, finding, outlook};
    }
    return {MessageKind::Ok, QStringLiteral("Nothing over a limit at step %1.").arg(formatCount(report.step)),
            std::isfinite(unused) ? QStringLiteral("Underflow %1, %2 binades of the range unused.")
                                        .arg(formatShare(under), formatNumber(std::max(0.0, unused), 2))
                                  : QString()};
}

}  // namespace mantissa::gui
