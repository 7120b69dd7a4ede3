// What the Compare page reads from the store, all of it on the background thread.
#include <QComboBox>
#include <QLabel>
#include <QTableView>
#include <algorithm>
#include <cmath>

#include "experiments/spec/run_spec.h"
#include "gui/format/numbers.h"
#include "gui/models/alarm_rules.h"
#include "gui/pages/compare_page.h"
#include "gui/widgets/card.h"
#include "gui/widgets/figures_card.h"
#include "gui/widgets/note_list.h"

namespace mantissa::gui {

using namespace experiments;

namespace {

enum Topic { kComparison, kStrips, kCurveBase = 100 };

/// Worst underflow of the gradients of each layer; no cells for a run without FP8 gradients.
LayerStrip layerStrip(RunStore& store, const std::string& id, const RunDocument& document, int64_t last) {
    LayerStrip strip;
    std::vector<std::pair<std::string, std::vector<int>>> layers;
    for (size_t t = 0; t < document.catalogue.size(); ++t) {
        const auto& entry = document.catalogue[t];
        if (entry.role != engine::TensorRole::GradOutput || !isFp8(entry)) {
            continue;
        }
        if (layers.empty() || layers.back().first != entry.layer) {
            layers.push_back({entry.layer, {}});
        }
        layers.back().second.push_back(int(t));
    }
    if (layers.empty()) {
        return strip;
    }
    const Heatmap map = store.heatmap(id, Statistic::UnderflowShare, 1, last, int(std::min<int64_t>(last, 300)));
    strip.first = QString::fromStdString(layers.front().first);
    strip.last = layers.size() > 1 ? QString::fromStdString(layers.back().first) : QString();
    HeatCells& cells = strip.cells;
    cells.rows = int(layers.size());
    cells.columns = map.columns;
    cells.firstStep = double(map.firstStep);
    cells.lastStep = double(map.lastStep);
    cells.values.assign(size_t(cells.rows) * size_t(cells.columns), NAN);
    cells.nonFinite.assign(cells.values.size(), 0);
    const HeatScale scale;
    for (size_t row = 0; row < layers.size(); ++row) {
        for (int tensor : layers[row].second) {
            for (int c = 0; c < cells.columns && tensor < map.tensors; ++c) {
                const size_t to = row * size_t(cells.columns) + size_t(c);
                const size_t from = size_t(tensor) * size_t(map.columns) + size_t(c);
                cells.values[to] = float(scale.worse(double(cells.values[to]), double(map.values[from])));
                cells.nonFinite[to] |= map.nonFinite[from];
            }
        }
    }
    return strip;
}

}  // namespace

void ComparePage::loadComparison() {
    if (visibleRuns().isEmpty()) {
        return;
    }
    std::vector<std::string> ids;
    for (const QString& id : order()) {
        ids.push_back(id.toStdString());
    }
    const std::string base = effectiveBaseline().toStdString();
    const Axis by = axis();
    controller().load(
        this, kComparison, [=](RunStore& store) { return compareRuns(store, ids, base, by); },
        [this](Comparison comparison) {
            comparison_ = std::move(comparison);
            compared_ = true;
            showConfig();

            rebuildCurves();
            rebuildFinal();
            rebuildVerdicts();
            rebuildParts();
            loadStrips();
        },
        [this](const QString& sentence) { parts_->setNotes({}, sentence); });
}

void ComparePage::loadStrips() {
    struct Wanted {
        std::string id;
        QString name;
    };
    std::vector<Wanted> wanted;
    for (const Group& group : groups()) {
        if (wanted.size() < 4) {
            wanted.push_back({group.runs.first().toStdString(), group.name});
        }
    }
    struct Answer {
        std::vector<LayerStrip> strips;
        double lastStep = 1;
        std::optional<double> floor;
        QString unit;
    };
    controller().load(
        this, kStrips,
        [wanted](RunStore& store) {
            Answer answer;
            for (const Wanted& run : wanted) {
                const RunDocument document = store.document(run.id);
                const auto row = store.run(run.id);
                answer.floor = document.entropyFloor;
                answer.unit = parseSpec(document.specJson).spec.data.vocabulary == 96 ? QStringLiteral("nats/char")
                                                                                      : QStringLiteral("nats/token");
                if (!row || row->step < 1) {
                    continue;
                }
                answer.lastStep = std::max(answer.lastStep, double(row->step));
                LayerStrip strip = layerStrip(store, run.id, document, row->step);
                strip.name = run.name;
                if (!strip.cells.empty()) {
                    answer.strips.push_back(std::move(strip));
                }
            }
            return answer;
        },
        [this](Answer answer) {
            strips_->setStrips(std::move(answer.strips), heatScale(shownStatistics().front(), 0, 1), answer.lastStep);
            if (answer.floor != floor_ || answer.unit != lossUnit_) {
                floor_ = answer.floor;
                lossUnit_ = answer.unit;
                rebuildCurves();
                rebuildVerdicts();
            }
        });
}

void ComparePage::loadCurves(bool again) {
    const QString key = metric() + axis_->currentText();
    if (key != loadedFor_) {
        loaded_.clear();
        loadedFor_ = key;
    }
    int topic = kCurveBase;
    for (const QString& id : order()) {
        ++topic;
        const RunInfo* info = controller().run(id);
        if (loaded_.contains(id) && !(again && info && info->going())) {
            continue;
        }
        const std::string run = id.toStdString(), name = metric().toStdString();
        const Axis by = axis();
        controller().load(
            this, topic,
            [=](RunStore& store) {
                const Series series = store.series(run, name);
                const std::vector<double> xs = by == Axis::Step
                                                   ? std::vector<double>(series.steps.begin(), series.steps.end())
                                                   : axisValues(store, run, series, by);
                auto curve = std::make_shared<SeriesPyramid>();
                curve->reserve(xs.size());
                for (size_t i = 0; i < xs.size() && i < series.values.size(); ++i) {
                    curve->append(xs[i], float(series.values[i]));
                }
                if (name == "loss") {
                    *curve = smoothed(*curve, 0.97);
                }
                return Loaded{curve, false};
            },
            [this, id](Loaded loaded) { takeCurve(id, std::move(loaded)); },
            [this, id](const QString&) {
                takeCurve(id, {std::make_shared<SeriesPyramid>(), true});
            });
    }
    if (!again) {
        rebuildCurves();
    }
}

void ComparePage::takeCurve(const QString& id, Loaded loaded) {
    if (loaded.failed) {
        failedRuns_ << (controller().run(id) ? controller().run(id)->name : id);
    }
    loaded_.insert(id, std::move(loaded));
    if (!curvesTimer_.isActive()) {
        curvesTimer_.start(loaded_.size() < 4 ? 0 : 100);  // curve by curve, at most ten pictures a second
    }
}

}  // namespace mantissa::gui
