#include "gui/models/first_trouble.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/store/derived.h"
#include "gui/format/numbers.h"
#include "gui/models/alarm_rules.h"

namespace mantissa::gui {

using namespace experiments;

namespace {

constexpr int kSteps = 12;          // columns of the picture
constexpr int64_t kLookBack = 500;  // steps that the gradient norm is compared with
enum Counter { kElements, kZeros, kUnderflow, kSubnormal, kOverRange, kClipped, kInf, kNan };

double at(const Series& series, int64_t step) {
    const auto found = std::lower_bound(series.steps.begin(), series.steps.end(), step);
    return found == series.steps.end() || *found != step ? NAN : series.values[size_t(found - series.steps.begin())];
}

/// First step that had a loss, gradient norm or counted tensor element that was not finite; 0: none.
int64_t firstBadStep(RunStore& store, const std::string& id, const Series& loss, const Series& norm) {
    int64_t first = 0;
    const auto take = [&](int64_t step) { first = first == 0 ? step : std::min(first, step); };
    for (const Series* series : {&loss, &norm})
        for (size_t i = 0; i < series->steps.size(); ++i)
            if (!std::isfinite(series->values[i])) {
                take(series->steps[i]);
                break;
            }
    for (const RunEvent& event : store.alerts(id))
        if (event.alert == "non_finite" && event.tensorIndex >= 0) {
            take(event.step);
            break;
        }
    return first;
}

QString countsText(const engine::TensorNumerics& t) {
    QStringList parts;
    if (t.counters[kNan]) parts << QStringLiteral("%1 NaN").arg(formatCount(qint64(t.counters[kNan])));
    if (t.counters[kInf]) parts << QStringLiteral("%1 Inf").arg(formatCount(qint64(t.counters[kInf])));
    if (parts.isEmpty()) return QStringLiteral("amax is %1").arg(formatScale(double(t.amax)));
    return QStringLiteral("%1 of %2 elements")
        .arg(parts.join(QStringLiteral(", ")), formatCount(qint64(t.counters[kElements])));
}

QString roleWord(const engine::CatalogueEntry& entry) {
    return entry.role == engine::TensorRole::GradOutput ? QStringLiteral("backward") : QStringLiteral("forward");
}

/// The tensors after the first, joined by layer and direction.
void addSpread(TroubleReport& report, const std::vector<engine::CatalogueEntry>& catalogue,
               const engine::NumericsRecord& record, bool backward) {
    struct Group {
        QString first, last;
        int tensors = 0, tensor = -1;
    };
    std::vector<Group> groups;
    bool open = false;
    for (const int t : report.order) {
        const auto& entry = catalogue[size_t(t)];
        if ((entry.role == engine::TensorRole::GradOutput) != backward || t == report.tensor) continue;
        if (!notFinite(record.tensors[size_t(t)])) {
            // Weights stay finite between the x that are not: they do not end a stretch.
            if (entry.role != engine::TensorRole::Weight) open = false;
            continue;
        }
        if (!open) groups.push_back({QString::fromStdString(entry.layer), {}, 0, t});
        open = true;
        groups.back().last = QString::fromStdString(entry.layer);
        ++groups.back().tensors;
    }
    for (const Group& group : groups)
        report.chain.push_back(
            {group.first == group.last ? group.first : QStringLiteral("%1 … %2").arg(group.first, group.last),
             group.tensors == 1 ? tensorTitle(catalogue[size_t(group.tensor)])
                                : QStringLiteral("%1 tensors not finite").arg(group.tensors),
             backward ? QStringLiteral("backward") : QStringLiteral("forward"), Token::Text3, group.tensor});
}

/// "h.2.mlp.fc1/weight" as the engine names it -> index of "h.2/mlp.fc1/weight"; -1: not one of the catalogue.
int tensorOf(const std::vector<engine::CatalogueEntry>& catalogue, const std::string& name) {
    for (int t = 0; t < int(catalogue.size()); ++t) {
        const auto& entry = catalogue[size_t(t)];
        const std::string own = (entry.linear.empty() ? entry.layer : entry.layer + "." + entry.linear) + "/" +
                                engine::roleName(entry.role);
        if (own == name) return t;
    }
    return -1;
}

QString text(const nlohmann::json& value) {
    return QString::fromStdString(value.get<std::string>());
}

/// Ops of the engine's chain; neighbours in the same direction are one station.
void addFoundSpread(TroubleReport& report, const nlohmann::json& chain) {
    struct Stretch {
        QString first, last;
        int ops = 0;
        qint64 nan = 0, inf = 0;
        bool backward = false, loss = false;
    };
    std::vector<Stretch> stretches;
    for (const nlohmann::json& one : chain) {
        QString place = text(one.at("place"));
        const bool backward = place.contains(QStringLiteral("(backward)"));
        place.remove(QStringLiteral(" (backward)"));
        const bool loss = place.endsWith(QStringLiteral("loss")) && !backward;
        if (stretches.empty() || stretches.back().backward != backward || stretches.back().loss != loss)
            stretches.push_back({place, place, 0, 0, 0, backward, loss});
        Stretch& stretch = stretches.back();
        stretch.last = place;
        ++stretch.ops;
        stretch.nan += qint64(one.at("nan").get<uint64_t>());
        stretch.inf += qint64(one.at("inf").get<uint64_t>());
    }
    for (const Stretch& s : stretches)
        report.chain.push_back({s.loss              ? QStringLiteral("loss")
                                : s.first == s.last ? s.first
                                                    : QStringLiteral("%1 … %2").arg(s.first, s.last),
                                s.loss ? QStringLiteral("not finite")
                                       : QStringLiteral("%1 %2, %3 NaN, %4 Inf")
                                             .arg(s.ops)
                                             .arg(s.ops == 1 ? QStringLiteral("op") : QStringLiteral("ops"),
                                                  formatCount(s.nan), formatCount(s.inf)),
                                s.loss       ? QStringLiteral("step %1").arg(formatCount(report.step))
                                : s.backward ? QStringLiteral("backward")
                                             : QStringLiteral("forward"),
                                Token::Text3, -1});
}

/// What the engine found when it ran the step's passes again: the very first op and element, and every op after it.
void addFound(TroubleReport& report, const std::vector<engine::CatalogueEntry>& catalogue, const nlohmann::json& found,
              const Series& norm) {
    report.headline = text(found.at("text"));
    report.tensor = tensorOf(catalogue, found.at("tensor").get<std::string>());
    const int64_t row = found.at("row").get<int64_t>(), col = found.at("col").get<int64_t>();
    report.chain.push_back(
        {report.tensor >= 0 ? tensorLongTitle(catalogue[size_t(report.tensor)]) : text(found.at("tensor")),
         row >= 0 ? QStringLiteral("%1 at element (%2, %3), in %4")
                        .arg(text(found.at("value")), formatCount(row), formatCount(col), text(found.at("place")))
                  : QStringLiteral("%1 in %2").arg(text(found.at("value")), text(found.at("place"))),
         QStringLiteral("first"), Token::Nonfinite, report.tensor});
    addFoundSpread(report, found.at("chain"));
    const double normNow = at(norm, report.step);
    report.chain.push_back({QStringLiteral("gradient norm"), formatNumber(normNow, 3), QString(),
                            std::isfinite(normNow) ? Token::Ok : Token::Text3, -1});
}

/// What became of the weights. inWeight: the first value sits in one of them.
QString outcomeOf(const TroubleReport& report, bool inWeight) {
    if (report.applied)
        return QStringLiteral("The optimizer ran in this step: the weights after it are not to be trusted.");
    if (inWeight)
        return QStringLiteral(
            "The optimizer did not run, but the value sits in a weight: only those of an earlier checkpoint are free "
            "of it.");
    return QStringLiteral("The optimizer did not run, so the master weights are as they were after step %1.")
        .arg(formatCount(report.step - 1));
}

void addOptimizer(TroubleReport& report, bool inWeight) {
    report.chain.push_back(
        {QStringLiteral("optimizer"),
         report.applied ? QStringLiteral("ran: the weights took the values in")
         : inWeight     ? QStringLiteral("not run: the weights keep the value")
                        : QStringLiteral("not run: the weights are those of step %1").arg(formatCount(report.step - 1)),
         report.applied ? QStringLiteral("went on") : QStringLiteral("stopped here"),
         report.applied ? Token::Bad : Token::Ok, -1});
}

void addChain(TroubleReport& report, const std::vector<engine::CatalogueEntry>& catalogue, const Series& loss,
              const Series& norm) {
    const engine::NumericsRecord* record =
        report.records.empty() || report.steps.back() != report.step ? nullptr : report.records.back().get();
    const bool backwardFirst =
        report.tensor >= 0 && catalogue[size_t(report.tensor)].role == engine::TensorRole::GradOutput;
    const double lossNow = at(loss, report.step), normNow = at(norm, report.step);
    const auto lossLink = [&] {
        report.chain.push_back({QStringLiteral("loss"), formatLoss(lossNow),
                                QStringLiteral("step %1").arg(formatCount(report.step)),
                                std::isfinite(lossNow) ? Token::Ok : Token::Text3, -1});
    };
    if (backwardFirst) lossLink();
    if (report.tensor >= 0)
        report.chain.push_back({tensorLongTitle(catalogue[size_t(report.tensor)]),
                                countsText(record->tensors[size_t(report.tensor)]), QStringLiteral("first"),
                                Token::Nonfinite, report.tensor});
    if (record && !backwardFirst) addSpread(report, catalogue, *record, false);
    if (!backwardFirst) lossLink();
    if (record) addSpread(report, catalogue, *record, true);
    report.chain.push_back({QStringLiteral("gradient norm"), formatNumber(normNow, 3), QString(),
                            std::isfinite(normNow) ? Token::Ok : Token::Text3, -1});
}

void addBefore(TroubleReport& report, RunStore& store, const std::string& id,
               const std::vector<engine::CatalogueEntry>& catalogue, const Series& loss, const Series& norm) {
    const auto fact = [&](const QString& name, const QString& value, const QString& tip) {
        report.before.push_back({name, value, tip});
    };
    if (report.tensor >= 0 && !report.records.empty()) {
        const auto& entry = catalogue[size_t(report.tensor)];
        const auto& now = report.records.back()->tensors[size_t(report.tensor)];
        const engine::TensorNumerics* last =
            report.records.size() > 1 ? &report.records[report.records.size() - 2]->tensors[size_t(report.tensor)]
                                      : nullptr;
        fact(QStringLiteral("amax of %1").arg(tensorTitle(entry)),
             last && last->amax == now.amax
                 ? QStringLiteral("%1 at %2 too: amax skips NaN")
                       .arg(formatScale(double(now.amax)), formatCount(report.step))
                 : QStringLiteral("%1, then %2")
                       .arg(last ? formatScale(double(last->amax)) : notMeasured(), formatScale(double(now.amax))),
             QStringLiteral("Largest |x| before the cast, in the step before and in this one."));
        const Series scale = store.series(id, numericsName(entry, Statistic::Scale), 0);
        size_t i = size_t(std::upper_bound(scale.steps.begin(), scale.steps.end(), report.step) - scale.steps.begin());
        size_t since = i;
        while (since > 0 && i > 0 && scale.values[since - 1] == scale.values[i - 1]) --since;
        if (i > 0)
            fact(QStringLiteral("scale"),
                 since + 1 == i ? QStringLiteral("%1, new in this step").arg(formatScale(scale.values[i - 1]))
                                : QStringLiteral("%1, unchanged since step %2")
                                      .arg(formatScale(scale.values[i - 1]), formatCount(scale.steps[since])),
                 QStringLiteral("Multiplier that the cast of this step used."));
    }
    double largest = 0;
    for (size_t i = 0; i < norm.steps.size(); ++i)
        if (norm.steps[i] < report.step && norm.steps[i] >= report.step - kLookBack && std::isfinite(norm.values[i]))
            largest = std::max(largest, norm.values[i]);
    fact(QStringLiteral("gradient norm"),
         QStringLiteral("%1, at most %2 in %3 steps")
             .arg(formatNumber(at(norm, report.step - 1), 3), formatNumber(largest, 3),
                  formatCount(std::min(kLookBack, report.step - 1))),
         QStringLiteral("Before clipping, in the step before and its largest value in the steps before that."));
    fact(QStringLiteral("loss"), formatLoss(at(loss, report.step - 1)),
         QStringLiteral("Of the step before, nats a token."));
    fact(QStringLiteral("last good checkpoint"),
         report.checkpoint >= 0 ? QStringLiteral("step %1").arg(formatCount(report.checkpoint))
                                : QStringLiteral("none on disk"),
         QStringLiteral("The newest one written before this step."));
}

}  // namespace

bool notFinite(const engine::TensorNumerics& tensor) {
    return tensor.counters[kInf] || tensor.counters[kNan] || !std::isfinite(tensor.amax);
}

std::vector<int> executionOrder(const std::vector<engine::CatalogueEntry>& catalogue) {
    std::vector<int> order, backward;
    for (int t = 0; t < int(catalogue.size()); ++t)
        (catalogue[size_t(t)].role == engine::TensorRole::GradOutput ? backward : order).push_back(t);
    order.insert(order.end(), backward.rbegin(), backward.rend());
    return order;
}

double valueOf(const engine::TensorNumerics& tensor, Statistic statistic, const std::string& format, int margin) {
    double inputs[2] = {};
    size_t i = 0;
    for (const Statistic input : inputsOf(statistic)) {
        switch (input) {
            case Statistic::Amax:
                inputs[i] = double(tensor.amax);
                break;
            case Statistic::Scale:
                inputs[i] = double(tensor.scale);
                break;
            case Statistic::MinNonZero:
                inputs[i] = tensor.dear ? double(tensor.minNonZero) : NAN;
                break;
            case Statistic::Mse:
                inputs[i] = tensor.dear ? double(tensor.mse) : NAN;
                break;
            case Statistic::SqnrDb:
                inputs[i] = tensor.dear ? double(tensor.sqnrDb) : NAN;
                break;
            case Statistic::Kurtosis:
                inputs[i] = tensor.dear ? double(tensor.kurtosis) : NAN;
                break;
            default: {
                const int counter = int(input) - int(Statistic::Elements);
                if (counter < 0 || counter > kNan) return NAN;
                inputs[i] = double(tensor.counters[counter]);
            }
        }
        ++i;
    }
    return derive(statistic, inputs, largestFinite(format), margin);
}

TroubleReport readTrouble(RunStore& store, const std::string& id) {
    TroubleReport report;
    const Series loss = store.series(id, "loss"), norm = store.series(id, "grad_norm"),
                 applied = store.series(id, "applied");
    const RunDocument document = store.document(id);
    const nlohmann::json found = nlohmann::json::parse(document.trouble, nullptr, false);
    report.step = found.is_object() ? found.at("step").get<int64_t>() : firstBadStep(store, id, loss, norm);
    if (report.step == 0) return report;
    report.order = executionOrder(document.catalogue);
    report.applied = at(applied, report.step) == 1;
    for (int64_t step = report.step; step > 0 && int(report.steps.size()) < kSteps && step > report.step - 200; --step)
        if (auto record = store.record(id, step); record && record->tensors.size() == document.catalogue.size()) {
            report.steps.insert(report.steps.begin(), step);
            report.records.insert(report.records.begin(), std::move(record));
        }
    if (!report.steps.empty() && report.steps.back() == report.step)
        for (const int t : report.order)
            if (report.tensor < 0 && notFinite(report.records.back()->tensors[size_t(t)])) report.tensor = t;
    for (const CheckpointRow& row : store.checkpoints(id))
        if (row.onDisk && row.step < report.step) report.checkpoint = std::max(report.checkpoint, row.step);
    report.headline =
        report.tensor >= 0
            ? QStringLiteral("First non-finite value: step %1, %2, in the %3 pass")
                  .arg(formatCount(report.step), tensorLongTitle(document.catalogue[size_t(report.tensor)]),
                       roleWord(document.catalogue[size_t(report.tensor)]))
            : QStringLiteral("First non-finite value: step %1, %2")
                  .arg(formatCount(report.step),
                       std::isfinite(at(loss, report.step)) ? QStringLiteral("gradient norm") : QStringLiteral("loss"));
    if (found.is_object())
        addFound(report, document.catalogue, found, norm);
    else
        addChain(report, document.catalogue, loss, norm);
    const bool inWeight =
        report.tensor >= 0 && document.catalogue[size_t(report.tensor)].role == engine::TensorRole::Weight;
    report.outcome = outcomeOf(report, inWeight);
    addOptimizer(report, inWeight);
    addBefore(report, store, id, document.catalogue, loss, norm);
    return report;
}

}  // namespace mantissa::gui
