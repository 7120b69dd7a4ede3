#include "gui/models/run_series.h"

#include <algorithm>
#include <cmath>

namespace mantissa::gui {

using namespace experiments;

const std::vector<QString>& liveMetrics() {
    static const std::vector<QString> names = {QStringLiteral("loss"),
                                               QStringLiteral("val_loss"),
                                               QStringLiteral("grad_norm"),
                                               QStringLiteral("lr"),
                                               QStringLiteral("tokens"),
                                               QStringLiteral("tokens_per_s"),
                                               QStringLiteral("step_ms"),
                                               QStringLiteral("memory_bytes"),
                                               QStringLiteral("seconds"),
                                               QStringLiteral("energy_j"),
                                               QStringLiteral("power_w"),
                                               QStringLiteral("sm_mhz"),
                                               QStringLiteral("phase/matmul_ms"),
                                               QStringLiteral("phase/attention_ms"),
                                               QStringLiteral("phase/elementwise_ms"),
                                               QStringLiteral("phase/optimizer_ms")};
    return names;
}

/// What one read brings back. Series hold the steps after those that were asked from.
struct RunSeries::Update {
    bool whole = false;
    int segments = 0;
    std::vector<std::pair<QString, Series>> series;  ///< new samples of known curves
    /// The first read of a run: whole curves, built on the reading thread, as a million samples take longer than a
    /// frame.
    std::vector<std::pair<QString, std::shared_ptr<SeriesPyramid>>> curves;
    std::vector<std::pair<QString, std::shared_ptr<SeriesPyramid>>> tails;
    std::vector<int64_t> resumes;
    std::vector<RunEvent> events;
    std::optional<RunDocument> document;
};

namespace {

constexpr int kTopic = 0;

std::shared_ptr<SeriesPyramid> pyramidOf(const std::vector<int64_t>& steps, const std::vector<double>& values) {
    auto curve = std::make_shared<SeriesPyramid>();
    curve->reserve(steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
        curve->append(double(steps[i]), float(values[i]));
    }
    return curve;
}

}  // namespace

RunSeries::RunSeries(RunController& controller, QObject* parent) : QObject(parent), controller_(controller) {
    connect(&controller, &RunController::storeAdvanced, this, [this](const QString& id) {
        if (id == id_) {
            refresh();
        }
    });
    connect(&controller, &RunController::stepsArrived, this, &RunSeries::takeSteps);
}

std::shared_ptr<SeriesPyramid> RunSeries::metric(const QString& name) const {
    const auto found = metrics_.find(name);
    return found != metrics_.end() ? found->second : std::make_shared<SeriesPyramid>();
}

std::vector<std::shared_ptr<SeriesPyramid>> RunSeries::tails(const QString& name) const {
    const auto found = tails_.find(name);
    return found != tails_.end() ? found->second : std::vector<std::shared_ptr<SeriesPyramid>>();
}

double RunSeries::lastStep() const {
    const auto loss = metric(QStringLiteral("loss"));
    return loss->empty() ? 0 : loss->lastX();
}

double RunSeries::recentMedian(const QString& name, int count) const {
    const auto series = metric(name);
    std::vector<float> values;
    for (size_t i = series->size() - std::min(series->size(), size_t(count)); i < series->size(); ++i) {
        if (std::isfinite(series->y(i))) {
            values.push_back(series->y(i));
        }
    }
    if (values.empty()) {
        return NAN;
    }
    std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(values.size() / 2), values.end());
    return double(values[values.size() / 2]);
}

void RunSeries::show(const QString& id) {
    if (id == id_) {
        refresh();
        return;
    }
    id_ = id;
    metrics_.clear();
    tails_.clear();
    resumes_.clear();
    document_ = RunDocument();
    spec_ = RunSpec();
    events_.clear();
    segments_ = 0;
    loaded_ = reading_ = again_ = false;
    controller_.forget(this, kTopic);  // an answer for the run before adds to curves that are gone
    Q_EMIT reset();
    refresh();
}

void RunSeries::refresh() {
    if (id_.isEmpty()) {
        return;
    }
    if (reading_ || !active_) {
        again_ = true;
        return;
    }
    again_ = false;
    reading_ = true;
    std::map<QString, int64_t> from;
    for (const auto& [name, series] : metrics_) {
        from[name] = series->empty() ? 0 : int64_t(series->lastX()) + 1;
    }
    const int64_t lastEvent = events_.empty() ? 0 : events_.back().id;
    const bool needsDocument = document_.specJson.empty() || document_.precision.empty();
    const std::string id = id_.toStdString();
    const int segments = segments_;
    controller_.load(
        this, kTopic,
        [=](RunStore& store) {
            Update update;
            const auto row = store.run(id);
            if (!row) {
                return update;
            }
            update.segments = row->segments;
            update.whole = row->segments != segments;
            for (const QString& name : liveMetrics()) {
                const auto start = from.find(name);
                const bool all = update.whole || start == from.end();
                Series series = store.series(id, name.toStdString(), all ? 0 : start->second);
                if (!all) {
                    update.series.emplace_back(name, std::move(series));
                    continue;
                }
                update.curves.emplace_back(name, pyramidOf(series.steps, series.values));
                for (const Series::Tail& tail : series.tails) {
                    update.tails.emplace_back(name, pyramidOf(tail.steps, tail.values));
                }
                if (name == QStringLiteral("loss")) {
                    update.resumes = series.resumes;
                }
            }
            update.events = store.events(id, update.whole ? 0 : lastEvent);
            // A change while running changes the spec, and with it formats and recipes.
            const bool respecified = std::any_of(update.events.begin(), update.events.end(), [](const RunEvent& event) {
                return event.kind == "command" || event.kind == "auto";
            });
            if (update.whole || needsDocument || respecified) {
                update.document = store.document(id);
            }
            return update;
        },
        [this](Update update) { apply(std::move(update)); },
        [this](const QString& sentence) {
            reading_ = false;
            Q_EMIT failed(sentence);
        });
}

void RunSeries::apply(Update update) {
    reading_ = false;
    if (update.segments == 0) {
        return;  // deleted meanwhile
    }
    if (update.whole) {
        metrics_.clear();
        tails_.clear();
        events_.clear();
    }
    const bool another = update.whole;
    segments_ = update.segments;
    for (auto& [name, curve] : update.curves) {
        metrics_[name] = std::move(curve);
    }
    for (auto& [name, curve] : update.tails) {
        tails_[name].push_back(std::move(curve));
    }
    if (another) {
        resumes_ = std::move(update.resumes);
    }
    for (const auto& [name, series] : update.series) {
        SeriesPyramid& target = *metrics_[name];
        for (size_t i = 0; i < series.steps.size(); ++i) {
            if (target.empty() || double(series.steps[i]) > target.lastX()) {
                target.append(double(series.steps[i]), float(series.values[i]));
            }
        }
    }
    const bool newEvents = !update.events.empty();
    events_.insert(events_.end(), update.events.begin(), update.events.end());
    const bool newDocument = update.document.has_value();
    if (newDocument) {
        document_ = std::move(*update.document);
        spec_ = parseSpec(document_.specJson).spec;
    }
    loaded_ = true;
    if (another) {
        Q_EMIT reset();
    }
    if (newDocument) {
        Q_EMIT documentChanged();
    }
    Q_EMIT changed();
    if (newEvents || another) {
        Q_EMIT eventsChanged();
    }
    if (again_) {
        refresh();
    }
}

void RunSeries::setActive(bool on) {
    active_ = on;
    if (on && again_) {
        refresh();
    }
}

void RunSeries::takeSteps(const QString& id, const SharedSteps& steps) {
    if (id != id_ || !loaded_ || !steps) {
        return;
    }
    if (!active_) {
        again_ = true;
        return;
    }
    const auto loss = metrics_[QStringLiteral("loss")];
    for (const JobStep& step : *steps) {
        const double at = double(step.metrics.step);
        if (!loss->empty() && at <= loss->lastX()) {
            continue;
        }
        if (at != (loss->empty() ? 1 : loss->lastX() + 1)) {
            refresh();  // something was missed: the store has it
            return;
        }
        const auto add = [&](const char* name, double value) {
            metrics_[QLatin1String(name)]->append(at, float(value));
        };
        add("loss", step.metrics.loss);
        add("grad_norm", step.metrics.gradientNorm);
        add("lr", step.metrics.learningRate);
        add("tokens", double(step.totalTokens));
        add("tokens_per_s", step.tokensPerSecond);
        add("step_ms", step.stepMs);
        const auto& seconds = metrics_[QStringLiteral("seconds")];  // the sum of the step times, as the store keeps it
        add("seconds", (seconds->empty() ? 0 : double(seconds->y(seconds->size() - 1))) + step.stepMs / 1e3);
        add("memory_bytes", double(step.memoryBytes));
        if (const auto& board = step.metrics.device) {  // what it does not report has no series
            if (board->joules > 0) add("energy_j", board->joules);
            if (board->watts > 0) add("power_w", board->watts);
            if (board->smMHz > 0) add("sm_mhz", board->smMHz);
        }
        add("phase/matmul_ms", step.metrics.phaseSeconds[0] * 1e3);
        add("phase/attention_ms", step.metrics.phaseSeconds[1] * 1e3);
        add("phase/elementwise_ms", step.metrics.phaseSeconds[2] * 1e3);
        add("phase/optimizer_ms", step.metrics.phaseSeconds[3] * 1e3);
    }
    Q_EMIT changed();
}

}  // namespace mantissa::gui
