// What the Numerics page reads from the store, all of it on the background thread.
#include <QComboBox>
#include <algorithm>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/models/statistic_map.h"
#include "gui/pages/numerics_page.h"
#include "gui/plot/heat_widgets.h"
#include "gui/widgets/segmented_bar.h"

namespace mantissa::gui {

using namespace experiments;

namespace {

enum Topic { kCells, kOverview, kTensor, kReport, kGrid };
enum Curve { kAmax, kScale, kHeld, kUnder, kSub, kOver, kClip };

/// Rows of the catalogue that the page shows, with the ends of their values.
struct CellResult {
    HeatCells cells;
    float lowest = INFINITY, highest = -INFINITY;
};

CellResult readCells(RunStore& store, const std::string& id, const StatisticInfo& info, const std::vector<int>& tensors,
                     int64_t first, int64_t last, int columns, double every) {
    const Heatmap map = readMap(store, id, info, first, last, columns);
    CellResult result;
    HeatCells& cells = result.cells;
    cells.rows = int(tensors.size());
    cells.columns = map.columns;
    cells.firstStep = double(map.firstStep);
    cells.lastStep = double(map.lastStep);
    cells.values.assign(size_t(cells.rows) * size_t(cells.columns), std::numeric_limits<float>::quiet_NaN());
    cells.nonFinite.assign(cells.values.size(), 0);
    for (int row = 0; row < cells.rows; ++row) {
        const int tensor = tensors[size_t(row)];
        if (tensor < 0 || tensor >= map.tensors) {
            continue;
        }
        const size_t from = size_t(tensor) * size_t(map.columns), to = size_t(row) * size_t(cells.columns);
        std::copy_n(map.values.begin() + std::ptrdiff_t(from), map.columns, cells.values.begin() + std::ptrdiff_t(to));
        std::copy_n(map.nonFinite.begin() + std::ptrdiff_t(from), map.columns,
                    cells.nonFinite.begin() + std::ptrdiff_t(to));
    }
    for (float value : cells.values) {
        if (std::isfinite(value) && value > 0) {
            result.lowest = std::min(result.lowest, value);
            result.highest = std::max(result.highest, value);
        }
    }
    cells.hold(std::max(1.0, every));
    return result;
}

/// Catalogue indices of another run for the same tensors by name; -1: that run has none of that name.
std::vector<int> sameTensors(RunStore& store, const std::string& id, const std::vector<std::string>& names) {
    const RunDocument document = store.document(id);
    std::vector<int> result(names.size(), -1);
    for (size_t i = 0; i < names.size(); ++i) {
        for (size_t t = 0; t < document.catalogue.size() && result[i] < 0; ++t) {
            result[i] = engine::tensorName(document.catalogue[t]) == names[i] ? int(t) : -1;
        }
    }
    return result;
}

/// Cells of A against B, as difference() has it.
CellResult readDifference(RunStore& store, const std::string& a, const std::string& b, const StatisticInfo& info,
                          const std::vector<int>& tensors, const std::vector<std::string>& names, int64_t first,
                          int64_t last, int columns, double every) {
    CellResult result = readCells(store, a, info, tensors, first, last, columns, every);
    const CellResult other = readCells(store, b, info, sameTensors(store, b, names), first, last, columns, every);
    for (size_t i = 0; i < result.cells.values.size(); ++i) {
        float& value = result.cells.values[i];
        value = float(difference(info, double(value), double(other.cells.values[i])));
        result.cells.nonFinite[i] |= other.cells.nonFinite[i];
    }
    return result;
}

/// The worst of all rows, column by column: the strip of the whole run.
HeatCells pooledRows(const HeatCells& all, const HeatScale& scale) {
    HeatCells one = all;
    one.rows = 1;
    one.values.assign(size_t(one.columns), std::numeric_limits<float>::quiet_NaN());
    one.nonFinite.assign(size_t(one.columns), 0);
    for (int row = 0; row < all.rows; ++row) {
        for (int c = 0; c < all.columns; ++c) {
            const size_t index = size_t(row) * size_t(all.columns) + size_t(c);
            one.values[size_t(c)] = float(scale.worse(double(one.values[size_t(c)]), double(all.values[index])));
            one.nonFinite[size_t(c)] |= all.nonFinite[index];
        }
    }
    return one;
}

/// No more columns than steps that have the statistic, so that probed steps leave no gaps between them.
int columnsFor(int64_t first, int64_t last, int pixels, double every) {
    return int(std::clamp<int64_t>(int64_t(double(last - first + 1) / std::max(1.0, every)), 1, pixels));
}

}  // namespace

struct NumericsPage::TensorCurves {
    int tensor = -1;
    bool whole = false;
    std::shared_ptr<SeriesPyramid> curve[7];  ///< in the order of Curve; the new samples, or all of them when whole
};

void NumericsPage::loadCells() {
    if (run_.id().isEmpty() || !isVisible() || heat_->rows().empty() || link_.extent().high < 1 ||
        run_.lastStep() < 1) {
        return;
    }
    if (view_->currentIndex() == kAtOneStep) {
        loadGrid();
        return;
    }
    if (view_->currentIndex() == kRanked) {
        loadRanks();
        return;
    }
    std::vector<int> tensors;
    std::vector<std::string> names;
    for (const HeatRow& row : heat_->rows()) {
        tensors.push_back(row.tensor);
        names.push_back(engine::tensorName(run_.document().catalogue[size_t(row.tensor)]));
    }
    const auto view = link_.view();
    const int64_t last = int64_t(std::min(std::ceil(view.high), link_.extent().high));
    const int64_t first = std::clamp<int64_t>(int64_t(std::floor(view.low)), 1, last);
    const double every = probeEvery();
    const int columns =
        columnsFor(first, last, std::max(16, int(heat_->plotRect().width() * devicePixelRatioF())), every);
    const std::string id = run_.id().toStdString();
    const StatisticInfo shown = info();
    const Pair pair = pairShown();
    const std::string other = otherRun().toStdString();
    refining_->setText(last - first > 5000 ? QStringLiteral("refining") : QString());
    controller().load(
        this, kCells,
        [=](RunStore& store) {
            return pair == kRatio ? readDifference(store, id, other, shown, tensors, names, first, last, columns, every)
                   : pair == kRunB
                       ? readCells(store, other, shown, sameTensors(store, other, names), first, last, columns, every)
                       : readCells(store, id, shown, tensors, first, last, columns, every);
        },
        [this](CellResult result) {
            refining_->setText(QString());
            if (result.cells.rows != int(heat_->rows().size())) {
                return;
            }
            // Amounts have no fixed ends: they widen when values leave them, and stay else, so that colours do not
            // flicker.
            const bool wider = result.lowest < lowest_ || result.highest > highest_ || lowest_ <= 0 ||
                               result.highest * 64 < highest_ || result.lowest > lowest_ * 64;
            if (!info().share && pairShown() != kRatio && wider && result.lowest <= result.highest) {
                lowest_ = result.lowest;
                highest_ = result.highest;
                applyScale();
            }
            if (overviewFromCells()) overview_->setCells(pooledRows(result.cells, heat_->scale()), heat_->scale());
            heat_->setCells(std::move(result.cells));
            updateCursor();
        });
}

/// While the whole run is in view its strip is made of the heatmap's cells: a long run is not read twice.
bool NumericsPage::overviewFromCells() const {
    const auto view = link_.view();
    return pairShown() == kRunA && view_->currentIndex() <= kTensorByStep && view.low <= link_.extent().low &&
           view.high >= link_.extent().high;
}

void NumericsPage::loadOverview() {
    if (run_.id().isEmpty() || !isVisible() || run_.lastStep() < 1 || overviewFromCells()) {
        return;
    }
    std::vector<int> tensors;
    for (const HeatRow& row : heat_->rows()) {
        if (!row.bf16) {
            tensors.push_back(row.tensor);
        }
    }
    const int64_t last = int64_t(run_.lastStep());
    const double every = probeEvery();
    const int columns = columnsFor(1, last, std::max(16, overview_->width()), every);
    const std::string id = run_.id().toStdString();
    const StatisticInfo shown = info();
    controller().load(
        this, kOverview,
        [=](RunStore& store) {
            return pooledRows(readCells(store, id, shown, tensors, 1, last, columns, every).cells,
                              heatScale(shown, 0, 1));
        },
        [this](HeatCells cells) { overview_->setCells(std::move(cells), heat_->scale()); });
}

void NumericsPage::loadGrid() {
    const auto& catalogue = run_.document().catalogue;
    if (run_.id().isEmpty() || catalogue.empty() || !isVisible() || run_.lastStep() < 1) {
        return;
    }
    const int64_t last = int64_t(run_.lastStep());
    const int64_t step = std::isnan(link_.cursor()) ? (step_ > 0 ? step_ : last) : int64_t(link_.cursor());
    const int64_t first = std::max<int64_t>(1, step - int64_t(probeEvery()) + 1);
    const std::string id = run_.id().toStdString();
    const StatisticInfo shown = info();
    controller().load(
        this, kGrid, [=](RunStore& store) { return readMap(store, id, shown, first, step, 1); },
        [this, step](Heatmap map) {
            const auto& entries = run_.document().catalogue;
            QStringList layers, linears;
            for (const auto& entry : entries) {
                const QString layer = QString::fromStdString(entry.layer), linear = shortLinear(entry.linear);
                if (!entry.linear.empty()) {
                    layers << (layers.contains(layer) ? QStringList() : QStringList{layer});
                    linears << (linears.contains(linear) ? QStringList() : QStringList{linear});
                }
            }
            const int columns = int(linears.size()) * 3;
            std::vector<GridCell> cells(size_t(layers.size() * columns));
            for (size_t t = 0; t < entries.size() && int(t) < map.tensors; ++t) {
                const auto& entry = entries[t];
                if (entry.linear.empty()) {
                    continue;
                }
                GridCell& cell = cells[size_t(layers.indexOf(QString::fromStdString(entry.layer)) * columns +
                                              linears.indexOf(shortLinear(entry.linear)) * 3 + int(entry.role))];
                cell.tensor = int(t);
                cell.name = tensorTitle(entry);
                cell.bf16 = !isFp8(entry) && !info().shadow;
                cell.value = map.values[t];
                cell.state = map.nonFinite[t]            ? CellState::NonFinite
                             : std::isnan(map.values[t]) ? CellState::NotProbed
                                                         : CellState::Value;
            }
            grid_->setCells(layers, linears, {QStringLiteral("x"), QStringLiteral("w"), QStringLiteral("dy")},
                            std::move(cells), heat_->scale());
            card_->setHint(QStringLiteral("%1, step %2").arg(info().unit, formatCount(step)));
        });
}

void NumericsPage::loadTensor() {
    const auto& catalogue = run_.document().catalogue;
    if (tensor_ < 0 || tensor_ >= int(catalogue.size()) || run_.id().isEmpty()) {
        return;
    }
    const bool whole = curvesTensor_ != tensor_;
    const int64_t from = whole || curves_[kAmax]->empty() ? 0 : int64_t(curves_[kAmax]->lastX()) + 1;
    const std::string id = run_.id().toStdString();
    const engine::CatalogueEntry entry = catalogue[size_t(tensor_)];
    const int tensor = tensor_;
    controller().load(
        this, kTensor,
        [=](RunStore& store) {
            TensorCurves curves;
            curves.tensor = tensor;
            curves.whole = whole;
            const std::pair<Curve, Statistic> wanted[] = {{kAmax, Statistic::Amax},
                                                          {kScale, Statistic::Scale},
                                                          {kUnder, Statistic::UnderflowShare},
                                                          {kSub, Statistic::SubnormalShare},
                                                          {kOver, Statistic::OverRangeShare},
                                                          {kClip, Statistic::ClippedShare}};
            for (auto& curve : curves.curve) {
                curve = std::make_shared<SeriesPyramid>();
            }
            const double largest = fp8Range(entry.format).largest;
            for (const auto& [curve, statistic] : wanted) {
                const Series series = store.series(id, numericsName(entry, statistic), from);
                for (size_t i = 0; i < series.steps.size(); ++i) {
                    curves.curve[curve]->append(double(series.steps[i]), float(series.values[i]));
                    if (curve == kScale) {
                        curves.curve[kHeld]->append(double(series.steps[i]), float(largest / series.values[i]));
                    }
                }
            }
            return curves;
        },
        [this](TensorCurves curves) { takeTensor(std::move(curves)); });
}

void NumericsPage::takeTensor(TensorCurves fresh) {
    const auto& catalogue = run_.document().catalogue;
    if (fresh.tensor != tensor_ || tensor_ >= int(catalogue.size())) {
        return;
    }
    const auto& entry = catalogue[size_t(tensor_)];
    if (fresh.whole) {
        std::copy(std::begin(fresh.curve), std::end(fresh.curve), std::begin(curves_));
        curvesTensor_ = tensor_;
    } else {
        for (size_t c = 0; c < std::size(curves_); ++c) {
            SeriesPyramid& target = *curves_[c];
            for (size_t i = 0; i < fresh.curve[c]->size(); ++i) {
                if (target.empty() || fresh.curve[c]->x(i) > target.lastX()) {
                    target.append(fresh.curve[c]->x(i), fresh.curve[c]->y(i));
                }
            }
        }
    }
    const double largest = fp8Range(entry.format).largest;
    const RunInfo* run = controller().run(run_.id());
    const Ink ink = Ink::run(run ? run->styleIndex : 0);
    const bool cast = isFp8(entry);
    const auto line = [](const QString& name, SharedSeries data, Ink colour, double width, QVector<qreal> dash = {}) {
        PlotCurve curve;
        curve.name = name;
        curve.data = std::move(data);
        curve.ink = colour;
        curve.width = width;
        curve.dash = std::move(dash);
        curve.legendValue = false;
        return curve;
    };
    const auto newest = [](const QString& head, SharedSeries series, std::function<QString(double)> text,
                           std::function<Token(double)> colour = nullptr) {
        PlotNote note{NAN, head, text(NAN)};
        note.of = std::move(series);
        note.text = std::move(text);
        note.colour = std::move(colour);
        return note;
    };
    const auto scale = [](double value) { return formatScale(value); };
    const auto share = [](double value) { return formatShare(value); };
    PlotContent amax;
    if (cast) {
        amax.bands.push_back({curves_[kAmax], curves_[kHeld], Ink::run(run ? run->styleIndex : 0, 0.14)});
        amax.curves.push_back(line(QStringLiteral("largest value held, %1 ÷ scale").arg(formatCount(qint64(largest))),
                                   curves_[kHeld], Ink::of(Token::Text), 1.6, {5, 3}));
        amax.notes.push_back(newest(QStringLiteral("held"), curves_[kHeld], scale));
        amax.curves.insert(amax.curves.begin(), line(QStringLiteral("amax"), curves_[kAmax], ink, 1.5));
        amax.notes.push_back(newest(QStringLiteral("amax"), curves_[kAmax], scale));
    }
    PlotContent counters;
    if (cast) {
        counters.curves.push_back(line(QStringLiteral("underflow"), curves_[kUnder], ink, 1.5));
        counters.curves.push_back(line(QStringLiteral("subnormal"), curves_[kSub], Ink::of(Token::Text2), 1.3, {5, 3}));
        PlotCurve over = line(QStringLiteral("over range"), curves_[kOver], Ink::of(Token::Warn), 0);
        over.sampleMarker = Marker::Triangle;
        counters.curves.push_back(over);
        PlotCurve clipped = line(QStringLiteral("clipped"), curves_[kClip], Ink::of(Token::Bad), 0);
        clipped.sampleMarker = Marker::TriangleDown;
        counters.curves.push_back(clipped);
        if (entry.role == engine::TensorRole::GradOutput) {
            const auto rule = experiments::alarmRule(experiments::AlarmKind::Underflow, run_.spec().alarms);
            counters.lines.push_back({rule.amber, QString(), Ink::of(Token::Warn), true, true});
            counters.notes.push_back(
                {rule.amber, QString(), QStringLiteral("alarm %1").arg(formatShare(rule.amber)), Token::Text3, true});
            counters.lines.push_back({rule.red, QString(), Ink::of(Token::Bad), true, true});
        }
        counters.notes.push_back(newest(QStringLiteral("subnormal"), curves_[kSub], share));
        const auto colour = [role = entry.role](double value) {
            const int level = alarmLevel(shownStatistics()[0], role, value);
            return level == 2 ? Token::Bad : level ? Token::Warn : Token::Text;
        };
        counters.notes.push_back(newest(QStringLiteral("underflow"), curves_[kUnder], share, colour));
    }
    for (auto [view, content] : {std::pair(amax_, &amax), std::pair(counters_, &counters)}) {
        content->events = view->content().events;
        fresh.whole ? view->setContent(std::move(*content)) : view->updateContent(std::move(*content));
    }
}

/// Charts, hints and curves of no tensor: what stood there belongs to another run, or to none.
void NumericsPage::clearTensor() {
    curvesTensor_ = -1;
    for (auto& curve : curves_) {
        curve = std::make_shared<SeriesPyramid>();
    }
    for (PlotView* view : {amax_, counters_}) {
        view->setContent(PlotContent());
    }
    amaxHint_->clear();
    countersHint_->clear();
}

void NumericsPage::loadReport() {
    if (tensor_ < 0 || run_.id().isEmpty()) {
        return;
    }
    const std::string id = run_.id().toStdString();
    const int tensor = tensor_;
    const int64_t step = step_;
    controller().load(
        this, kReport, [=](RunStore& store) { return readTensor(store, id, tensor, step); },
        [this, id, tensor](TensorReport report) {
            if (tensor == tensor_ && id == run_.id().toStdString())  // else of a run or a tensor that is left
                inspector_->showTensor(run_.document(), run_.spec(), report);
        });
}

}  // namespace mantissa::gui
