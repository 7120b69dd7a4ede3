#include "gui/pages/compare_page.h"

#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLineEdit>
#include <QPainter>
#include <QStackedWidget>
#include <QStyledItemDelegate>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/plot/plot_legend.h"
#include "gui/widgets/card.h"
#include "gui/widgets/figures_card.h"
#include "gui/widgets/note_list.h"

namespace mantissa::gui {

using namespace experiments;

namespace {

enum Topic { kComparison, kCurveBase = 100 };
constexpr size_t kFew = 8;  ///< groups with a style of their own

/// Draws the line sample of a run before its name, and text in its own colour also when the row is selected.
class RunDelegate : public QStyledItemDelegate {
  public:
    using QStyledItemDelegate::QStyledItemDelegate;
    void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override {
        QStyledItemDelegate::initStyleOption(option, index);
        const QVariant ink = index.data(Qt::ForegroundRole);
        if (ink.isValid()) {
            option->palette.setColor(QPalette::HighlightedText, ink.value<QColor>());
        }
    }
    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        const QVariant series = index.data(FinalNumbersModel::kSeriesRole);
        QStyleOptionViewItem shifted = option;
        if (series.isValid()) {
            QStyleOptionViewItem ground = option;
            initStyleOption(&ground, index);
            ground.text.clear();
            option.widget->style()->drawControl(QStyle::CE_ItemViewItem, &ground, painter, option.widget);
            paintSample(*painter, Theme::instance().series(series.toInt()),
                        QRectF(option.rect.left() + 8, option.rect.center().y() - 4, 22, 10));
            painter->setPen(color(Token::Text));
            painter->setFont(uiFont(TextSize::Body));
            const QRect text = option.rect.adjusted(38, 0, -4, 0);
            painter->drawText(text, Qt::AlignLeft | Qt::AlignVCenter,
                              painter->fontMetrics().elidedText(index.data().toString(), Qt::ElideRight, text.width()));
            return;
        }
        QStyledItemDelegate::paint(painter, shifted, index);
    }
};

void prepare(QTableView* table, const QString& name) {
    table->setAccessibleName(name);
    table->verticalHeader()->hide();
    table->verticalHeader()->setDefaultSectionSize(25);
    table->setShowGrid(false);
    table->setFrameShape(QFrame::NoFrame);
    table->setSelectionBehavior(QAbstractItemView::SelectRows);
    table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table->setWordWrap(false);
    table->horizontalHeader()->setHighlightSections(false);
}

}  // namespace

ComparePage::ComparePage(RunController& controller, QWidget* parent) : Page(controller, parent) {
    auto* outer = new QVBoxLayout(this);
    outer->setContentsMargins(0, 0, 0, 0);
    stack_ = new QStackedWidget(this);
    outer->addWidget(stack_);
    empty_ = new TextLabel(QStringLiteral("Pick runs in the list: Ctrl+click."), Token::Text2, TextSize::Body, false,
                           stack_);
    empty_->setAlignment(Qt::AlignCenter);
    stack_->addWidget(empty_);
    auto* content = new QWidget(stack_);
    stack_->addWidget(content);
    auto* rows = new QVBoxLayout(content);
    rows->setContentsMargins(12, 12, 12, 12);
    rows->setSpacing(10);
    verdicts_ = new FiguresCard(content);
    verdicts_->setFixedHeight(82);
    verdicts_->setAccessibleName(QStringLiteral("Verdicts"));
    rows->addWidget(verdicts_);
    auto* middle = new QHBoxLayout;
    middle->setSpacing(10);
    middle->addWidget(buildCurves(), 1);
    middle->addWidget(buildSide());
    rows->addLayout(middle, 72);
    rows->addWidget(buildTable(), 28);
    buildTools();
    curvesTimer_.setSingleShot(true);
    connect(&curvesTimer_, &QTimer::timeout, this, &ComparePage::rebuildCurves);
    againTimer_.setSingleShot(true);
    connect(&againTimer_, &QTimer::timeout, this, [this] {
        if (isVisible()) {
            loaded_.clear();
            loadCurves();
            loadComparison();
        }
    });
    connect(&controller, &RunController::storeAdvanced, this, [this](const QString& id) {
        if (visibleRuns().contains(id) && !againTimer_.isActive()) {
            againTimer_.start(3000);  // a run that goes: its curve grows every three seconds here
        }
    });
}

QWidget* ComparePage::sidePanel() {
    return side_;
}

void ComparePage::buildTools() {
    tools_ = new QWidget(this);
    auto* row = new QHBoxLayout(tools_);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(8);
    const auto combo = [&](const char* label, std::initializer_list<std::pair<const char*, const char*>> items) {
        row->addWidget(new TextLabel(QString::fromUtf8(label), Token::Text2, TextSize::Small, false, tools_));
        auto* box = new QComboBox(tools_);
        for (const auto& [text, data] : items) {
            box->addItem(QString::fromUtf8(text), QString::fromUtf8(data));
        }
        box->setAccessibleName(QString::fromUtf8(label));
        row->addWidget(box);
        return box;
    };
    metric_ = combo("Show", {{"validation loss", "val_loss"},
                             {"train loss", "loss"},
                             {"gradient norm", "grad_norm"},
                             {"throughput", "tokens_per_s"}});
    axis_ = combo("X", {{"step", "step"}, {"tokens", "tokens"}, {"time", "time"}});
    below_ = combo("Below", {{"difference", "difference"}, {"ratio", "ratio"}, {"nothing", ""}});
    auto* back = new QToolButton(tools_);
    back->setIcon(icon(Glyph::Undo));
    back->setToolTip(QStringLiteral("Zoom back (Alt+←)"));
    back->setAccessibleName(QStringLiteral("Zoom back"));
    back->setEnabled(false);
    connect(back, &QToolButton::clicked, &link_, &XLink::back);
    connect(&link_, &XLink::historyChanged, back, [this, back] { back->setEnabled(link_.canBack()); });
    row->addWidget(back);
    for (QComboBox* box : {metric_, axis_}) {
        connect(box, &QComboBox::currentIndexChanged, this, [this, box] {
            link_.reset();
            loadCurves();
            if (box == axis_) {
                loadComparison();
            }
        });
    }
    connect(below_, &QComboBox::currentIndexChanged, this, &ComparePage::rebuildCurves);
}

QWidget* ComparePage::buildCurves() {
    PlotOptions options;
    options.title = QStringLiteral("Validation loss");
    options.yScale = ScaleKind::Log;
    options.margins = {56, 10, 12, 8};
    options.value = [](double v) { return formatLoss(v); };
    curves_ = new PlotView(options, &link_, this);
    PlotOptions below = options;
    below.title = QStringLiteral("Difference");
    below.yScale = ScaleKind::Linear;
    below.plusSign = true;
    below.margins = {56, 8, 12, 24};
    below.value = [](double v) { return formatLossDifference(v); };
    difference_ = new PlotView(below, &link_, this);
    curveCard_ = new Card(QStringLiteral("Validation loss"), QStringLiteral("nats/token, log"), this);
    highlight_ = new TextLabel(QString(), Token::Text, TextSize::Small, true, curveCard_);
    curveCard_->headTools()->addWidget(highlight_);
    curveCard_->headTools()->addWidget(new PlotLegend(curves_, curveCard_));
    curveCard_->body()->addWidget(curves_, 62);
    belowHead_ = new QWidget(curveCard_);
    belowHead_->setFixedHeight(32);
    auto* head = new QHBoxLayout(belowHead_);
    head->setContentsMargins(12, 0, 12, 0);
    belowTitle_ = new TextLabel(QStringLiteral("Difference"), Token::Text, TextSize::Body, true, belowHead_);
    belowHint_ = new TextLabel(QString(), Token::Text3, TextSize::Small, false, belowHead_);
    head->addWidget(belowTitle_);
    head->addWidget(belowHint_);
    head->addWidget(new PlotLegend(difference_, belowHead_), 1);
    curveCard_->body()->addWidget(new Separator(Qt::Horizontal, curveCard_));
    curveCard_->body()->addWidget(belowHead_);
    curveCard_->body()->addWidget(difference_, 38);
    connect(curves_, &PlotView::highlightChanged, this, [this](int curve) {
        highlight_->setText(
            curve >= 0 ? QStringLiteral("nearest  %1").arg(curves_->content().curves[size_t(curve)].name) : QString());
    });
    return curveCard_;
}

QWidget* ComparePage::buildSide() {
    side_ = new QWidget(this);
    side_->setFixedWidth(372);
    auto* rows = new QVBoxLayout(side_);
    rows->setContentsMargins(0, 0, 0, 0);
    rows->setSpacing(10);
    auto* configCard = new Card(QStringLiteral("Config differences"), QString(), side_);
    configHint_ = new TextLabel(QString(), Token::Text3, TextSize::Small, false, configCard);
    auto* filter = new QLineEdit(configCard);
    filter->setPlaceholderText(QStringLiteral("Filter"));
    filter->setAccessibleName(QStringLiteral("Filter fields"));
    filter->setFixedWidth(110);
    filter->setFixedHeight(24);
    configCard->headTools()->addWidget(configHint_);
    configCard->headTools()->addWidget(filter);
    configTable_ = new QTableView(configCard);
    config_ = new ConfigModel(configTable_);
    configTable_->setModel(config_);
    prepare(configTable_, QStringLiteral("Config differences"));
    connect(filter, &QLineEdit::textChanged, config_, &ConfigModel::setFilter);
    configCard->body()->addWidget(configTable_);
    auto* partCard = new Card(QStringLiteral("Where they part"),
                              QStringLiteral("first tensor over tolerance against the baseline"), side_);
    parts_ = new NoteList(QStringLiteral("Where they part"), partCard);
    partCard->body()->addWidget(parts_);
    connect(parts_, &NoteList::chosen, this, [this](const Note& note) {
        if (note.key >= 0 && note.key < int(comparison_.parts.size())) {
            const PartingPoint& part = comparison_.parts[size_t(note.key)];
            Q_EMIT tensorRequested(QString::fromStdString(part.tensor), part.step);
        }
    });
    rows->addWidget(configCard, 1);
    rows->addWidget(partCard, 1);
    return side_;
}

QWidget* ComparePage::buildTable() {
    auto* card = new Card(QStringLiteral("Final numbers"), QString(), this);
    finalHint_ = new TextLabel(QString(), Token::Text3, TextSize::Small, false, card);
    card->headTools()->addWidget(finalHint_);
    auto* copy = new QToolButton(card);
    copy->setText(QStringLiteral("Copy"));
    copy->setIcon(icon(Glyph::Copy));
    copy->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    copy->setToolTip(QStringLiteral("Copy the table with full precision, tab-separated"));
    connect(copy, &QToolButton::clicked, this, [this] { QApplication::clipboard()->setText(final_->text()); });
    card->headTools()->addWidget(copy);
    finalTable_ = new QTableView(card);
    final_ = new FinalNumbersModel(finalTable_);
    sorted_ = new NanLastProxy(finalTable_);
    sorted_->setSourceModel(final_);
    sorted_->setSortRole(FinalNumbersModel::kSortRole);
    finalTable_->setModel(sorted_);
    finalTable_->setItemDelegate(new RunDelegate(finalTable_));
    prepare(finalTable_, QStringLiteral("Final numbers"));
    finalTable_->setSortingEnabled(true);
    finalTable_->sortByColumn(-1, Qt::AscendingOrder);
    finalTable_->horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
    finalTable_->horizontalHeader()->setSectionResizeMode(0, QHeaderView::ResizeToContents);
    finalTable_->setMinimumHeight(100);
    card->body()->addWidget(finalTable_);
    return card;
}

QString ComparePage::metric() const {
    return metric_->currentData().toString();
}
Axis ComparePage::axis() const {
    return Axis(axis_->currentIndex());
}

QString ComparePage::effectiveBaseline() const {
    return visibleRuns().contains(baseline()) ? baseline() : visibleRuns().isEmpty() ? QString() : visibleRuns().last();
}

QStringList ComparePage::order() const {
    QStringList ids = visibleRuns();
    const QString base = effectiveBaseline();
    ids.removeAll(base);
    if (!base.isEmpty()) {
        ids.prepend(base);
    }
    return ids;
}

void ComparePage::refresh() {
    stack_->setCurrentIndex(visibleRuns().isEmpty() ? 0 : 1);
    compared_ = false;
    comparison_ = Comparison();
    failedRuns_.clear();
    loadCurves();
    loadComparison();
    rebuildFinal();
    rebuildVerdicts();
    rebuildParts();
}

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
            QStringList names;
            for (const ComparedRun& run : comparison_.runs) {
                names << QString::fromStdString(run.run.name);
            }
            config_->setRows(comparison_.config, names);
            configTable_->resizeColumnsToContents();
            configHint_->setText(QStringLiteral("%1 fields differ").arg(comparison_.config.size()));
            rebuildCurves();
            rebuildFinal();
            rebuildVerdicts();
            rebuildParts();
        },
        [this](const QString& sentence) { parts_->setNotes({}, sentence); });
}

void ComparePage::loadCurves() {
    const QString key = metric() + axis_->currentText();
    if (key != loadedFor_) {
        loaded_.clear();
        loadedFor_ = key;
    }
    int topic = kCurveBase;
    for (const QString& id : order()) {
        ++topic;
        if (loaded_.contains(id)) {
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
    rebuildCurves();
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

std::vector<ComparePage::Group> ComparePage::groups() const {
    std::vector<Group> result;
    const auto styleOf = [this](const QString& id) {
        return controller().run(id) ? controller().run(id)->styleIndex : 0;
    };
    if (compared_ && !comparison_.groups.empty()) {
        for (const GroupVerdict& verdict : comparison_.groups) {
            Group group;
            group.name = QString::fromStdString(verdict.name);
            for (const std::string& id : verdict.runs) {
                group.runs << QString::fromStdString(id);
            }
            if (group.runs.size() == 1 && controller().run(group.runs.first())) {
                group.name = controller().run(group.runs.first())->name;
            }
            group.style = styleOf(group.runs.value(0));
            group.verdict = &verdict;
            result.push_back(std::move(group));
        }
        return result;
    }
    for (const QString& id : order()) {
        result.push_back({controller().run(id) ? controller().run(id)->name : id, {id}, styleOf(id), nullptr});
    }
    return result;
}

void ComparePage::rebuildCurves() {
    const std::vector<Group> all = groups();
    const bool few = all.size() <= kFew;
    const bool time = axis() == Axis::Time, tokens = axis() == Axis::Tokens;
    PlotOptions options = curves_->options();
    PlotOptions below = difference_->options();
    const bool loss = metric() == QStringLiteral("val_loss") || metric() == QStringLiteral("loss");
    options.title = metric_->currentText();
    options.title[0] = options.title[0].toUpper();
    options.yScale = metric() == QStringLiteral("tokens_per_s") ? ScaleKind::Linear : ScaleKind::Log;
    options.value = loss ? std::function<QString(double)>([](double v) { return formatLoss(v); })
                         : [](double v) { return formatNumber(v, 4); };
    const QString belowKind = below_->currentData().toString();
    const bool showBelow = few && all.size() > 1 && !belowKind.isEmpty();
    const bool ratio = belowKind == QStringLiteral("ratio");
    for (PlotOptions* o : {&options, &below}) {
        o->xUnit = time ? QStringLiteral("s") : tokens ? QStringLiteral("M tokens") : QStringLiteral("step");
        o->xScaleFactor = tokens ? 1e-6 : 1;
        o->wholeX = !time && !tokens;
    }
    options.xLabels = !showBelow;
    options.margins.setBottom(showBelow ? 8 : 24);
    below.plusSign = !ratio;
    below.value = ratio ? std::function<QString(double)>([](double v) { return formatRatio(v); })
                        : [](double v) { return formatLossDifference(v); };
    curveCard_->setTitle(options.title);
    curveCard_->setHint(loss                               ? QStringLiteral("nats/token, log")
                        : options.yScale == ScaleKind::Log ? QStringLiteral("log")
                                                           : QStringLiteral("tokens/s"));

    PlotContent content, gaps;
    double low = INFINITY, high = -INFINITY;
    const Group* base = all.empty() ? nullptr : &all.front();
    const auto seedOf = [this](const QString& id) { return controller().run(id) ? controller().run(id)->seed : 0; };
    for (size_t g = 0; g < all.size(); ++g) {
        const Group& group = all[g];
        std::vector<SharedCurve> curves;
        for (const QString& id : group.runs) {
            const auto found = loaded_.find(id);
            if (found != loaded_.end() && !found->curve->empty()) {
                curves.push_back(found->curve);
                low = std::min(low, found->curve->firstX());
                high = std::max(high, found->curve->lastX());
            }
        }
        if (curves.empty()) {
            continue;
        }
        const SeriesStyle style = Theme::instance().series(group.style);
        const CurveGroup mean = few ? meanOf(curves) : CurveGroup{};
        PlotCurve curve;
        curve.name = group.name;
        curve.ink = Ink::run(group.style);
        if (few) {
            if (mean.low) {
                content.bands.push_back({mean.low, mean.high, Ink::run(group.style, 0.16)});
            }
            curve.data = mean.mean;
            curve.width = 1.8;
            curve.dash = style.dash;
            curve.runMarker = style.marker;
            curve.id = group.runs.first();
            content.curves.push_back(curve);
        } else {
            for (size_t r = 0; r < curves.size(); ++r) {  // thin, in the colour of the group
                curve.data = curves[r];
                curve.width = 1;
                curve.inLegend = false;
                curve.id = group.runs[int(r)];
                curve.name = controller().run(curve.id) ? controller().run(curve.id)->name : curve.id;
                content.curves.push_back(curve);
            }
        }
        if (showBelow && base && g > 0) {
            std::vector<std::pair<SharedCurve, SharedCurve>> pairs;
            for (const QString& id : group.runs) {
                for (const QString& other : base->runs) {
                    if (loaded_.contains(id) && loaded_.contains(other) &&
                        (seedOf(id) == seedOf(other) || (group.runs.size() == 1 && base->runs.size() == 1))) {
                        pairs.emplace_back(loaded_[id].curve, loaded_[other].curve);
                        break;
                    }
                }
            }
            const CurveGroup gap = pairs.empty() ? CurveGroup{} : differenceOf(pairs, ratio);
            if (gap.mean && !gap.mean->empty()) {
                if (gap.low) {
                    gaps.bands.push_back({gap.low, gap.high, Ink::run(group.style, 0.16)});
                }
                PlotCurve line = curve;
                line.data = gap.mean;
                line.width = 1.5;
                line.dash = style.dash;
                line.runMarker.reset();
                line.inLegend = true;
                line.name = group.name;
                gaps.curves.push_back(line);
            }
        }
    }
    if (high >= low) {
        link_.setMinimumSpan(time ? 0.1 : tokens ? 1000 : 4);
        link_.setExtent(std::min(low, axis() == Axis::Step ? 0.0 : low), high);
    }
    curves_->setOptions(options);
    curves_->setContent(std::move(content));
    difference_->setVisible(showBelow);
    belowHead_->setVisible(showBelow);
    if (showBelow) {
        gaps.lines.push_back({ratio ? 1.0 : 0.0, QString(), Ink::run(base ? base->style : 0), true});
        if (loss && !ratio) {
            gaps.lines.push_back({0.01, QStringLiteral("limit 0.01"), Ink::of(Token::Text2), false, true, true});
            gaps.lines.push_back({-0.01, QString(), Ink::of(Token::Text2), false, true});
            below.minimumSpan = 0.01;
        }
        belowTitle_->setText(ratio ? QStringLiteral("Ratio") : QStringLiteral("Difference"));
        belowHint_->setText(
            QStringLiteral("to %1, paired by seed%2")
                .arg(base ? base->name : QString(), gaps.bands.empty() ? QString() : QStringLiteral(", ± 1 sd")));
        difference_->setOptions(below);
        difference_->setContent(std::move(gaps));
    }
    const QString status = !failedRuns_.isEmpty()
                               ? QStringLiteral("Cannot be read: %1").arg(failedRuns_.join(QStringLiteral(", ")))
                           : loaded_.size() < visibleRuns().size()
                               ? QStringLiteral("%1 of %2 curves read").arg(loaded_.size()).arg(visibleRuns().size())
                           : few ? QStringLiteral("%1 runs compared").arg(visibleRuns().size())
                                 : QStringLiteral("%1 runs drawn as one layer").arg(visibleRuns().size());
    if (status != status_) {
        status_ = status;
        Q_EMIT statusTextChanged();
    }
}

FinalRow ComparePage::finalRow(const Group& group) const {
    FinalRow row;
    row.name = group.name;
    row.id = group.runs.value(0);
    row.series = group.style;
    row.runs = int(group.runs.size());
    const auto mean = [&](const char* name, bool ratio) {
        double sum = 0;
        int count = 0;
        for (const ComparedRun& run : comparison_.runs) {
            const auto& values = ratio ? run.ratio : run.final;
            const auto found = values.find(name);
            if (group.runs.contains(QString::fromStdString(run.run.id)) && found != values.end()) {
                sum += found->second;
                ++count;
            }
        }
        return count ? sum / count : NAN;
    };
    row.validation = mean("val_loss", false);
    row.tokensPerSecond = mean("tokens_per_s", false);
    row.stepMs = mean("step_ms", false);
    row.peakBytes = mean("peak_bytes", false);
    row.ratio = mean("tokens_per_s", true);
    row.baseline = group.runs.contains(effectiveBaseline());
    for (const QString& id : group.runs) {
        if (const RunInfo* info = controller().run(id)) {
            row.state = runStateName(info->state);
            row.alerts += info->alerts;
            row.bad = row.bad || info->nonFinite();
        }
    }
    if (const GroupVerdict* verdict = group.verdict) {
        row.pairs = verdict->pairs;
        if (row.runs > 1) {
            row.sd = verdict->sd;
        }
        if (!row.baseline && verdict->pairs > 0) {
            row.difference = verdict->difference;
            row.p = verdict->pairs > 1 ? verdict->p : NAN;
        }
        row.bad = row.bad || verdict->verdict == "does not train";
    }
    if (std::isnan(row.difference) && !row.baseline) {
        for (const ComparedRun& run : comparison_.runs) {
            const auto found = run.difference.find("val_loss");
            if (QString::fromStdString(run.run.id) == row.id && found != run.difference.end()) {
                row.difference = found->second;
            }
        }
    }
    return row;
}

void ComparePage::rebuildFinal() {
    std::vector<FinalRow> rows;
    const std::vector<Group> all = groups();
    size_t most = 1;
    for (const Group& group : all) {
        most = std::max(most, size_t(group.runs.size()));
        if (all.size() <= kFew || group.runs.size() == 1) {
            rows.push_back(finalRow(group));
            continue;
        }
        for (const QString& id : group.runs) {  // many runs: a row each
            Group single{controller().run(id) ? controller().run(id)->name : id, {id}, group.style, nullptr};
            rows.push_back(finalRow(single));
        }
    }
    finalHint_->setText(most > 1 && all.size() <= kFew
                            ? QStringLiteral("mean ± standard deviation of up to %1 seeds").arg(most)
                            : QStringLiteral("%1 runs").arg(rows.size()));
    final_->setRows(std::move(rows));
}

void ComparePage::rebuildVerdicts() {
    std::vector<Figure> figures;
    const std::vector<Group> all = groups();
    for (const Group& group : all) {
        if (figures.size() == kFew) {
            break;
        }
        const FinalRow row = finalRow(group);
        Figure figure;
        figure.series = group.style;
        figure.label = group.name;
        if (row.baseline) {
            figure.badge = QStringLiteral("baseline");
            figure.badgeToken = Token::Text2;
            figure.badgeGlyph = int(Glyph::Pin);
            figure.value = std::isnan(row.validation) ? notMeasured() : formatNumber(row.validation, 5);
            figure.unit = std::isnan(row.sd) ? QStringLiteral("nats/token")
                                             : QStringLiteral("± %1  nats/token").arg(formatNumber(row.sd, 2));
            figure.meaning = QStringLiteral("reference for all differences");
        } else {
            figure.value = row.bad && std::isnan(row.validation) ? QStringLiteral("NaN")
                           : std::isnan(row.difference)          ? notMeasured()
                                                                 : formatLossDifference(row.difference);
            figure.unit = group.verdict && row.runs > 1
                              ? QStringLiteral("± %1  nats/token").arg(formatNumber(group.verdict->differenceSd, 2))
                              : QStringLiteral("nats/token");
            const QString words = group.verdict ? QString::fromStdString(group.verdict->verdict) : QString();
            const bool good = words.startsWith(QStringLiteral("no difference")) ||
                              words.startsWith(QStringLiteral("within")) || words.startsWith(QStringLiteral("better"));
            const bool bad = words.startsWith(QStringLiteral("does not")) || words.startsWith(QStringLiteral("worse"));
            figure.badge = words.isEmpty()
                               ? (row.pairs == 1 || row.runs == 1 ? QStringLiteral("one seed, no spread") : QString())
                               : words;
            figure.badgeToken = bad ? Token::Bad : good ? Token::Ok : Token::Text2;
            figure.badgeGlyph = bad ? int(Glyph::Bad) : good ? int(Glyph::Check) : -1;
            QStringList gains;
            if (row.ratio > 0) {
                gains << QStringLiteral("%1 tokens/s").arg(formatRatio(row.ratio));
            }
            const FinalRow base = all.empty() ? FinalRow() : finalRow(all.front());
            if (row.peakBytes > 0 && base.peakBytes > 0) {
                gains << QStringLiteral("%1 memory").arg(formatChange(row.peakBytes / base.peakBytes - 1));
            }
            figure.meaning = gains.join(QStringLiteral(", "));
            if (group.verdict) {
                const GroupVerdict& v = *group.verdict;
                figure.tooltip =
                    QStringLiteral("n = %1, mean difference %2, sd %3, 95 % interval %4 to %5, p = %6")
                        .arg(v.pairs)
                        .arg(formatLossDifference(v.difference), formatNumber(v.differenceSd, 2),
                             formatLossDifference(v.low), formatLossDifference(v.high), formatNumber(v.p, 2));
            }
        }
        figures.push_back(std::move(figure));
    }
    if (figures.size() == 1) {
        figures.front().meaning = QStringLiteral("Pick a second run in the list: Ctrl+click");
    }
    verdicts_->setFigures(std::move(figures));
}

void ComparePage::rebuildParts() {
    std::vector<Note> notes;
    for (size_t i = 0; i < comparison_.parts.size(); ++i) {
        const PartingPoint& part = comparison_.parts[i];
        const RunInfo* info = controller().run(QString::fromStdString(part.run));
        Note note;
        note.series = info ? info->styleIndex : 0;
        note.title = info ? info->name : QString::fromStdString(part.run);
        if (part.step > 0) {
            note.detail = QStringLiteral("parts at step %1, %2: %3 %4, baseline %5")
                              .arg(formatCount(part.step), QString::fromStdString(part.tensor),
                                   QString::fromStdString(part.statistic), formatNumber(part.value, 3),
                                   formatNumber(part.baseline, 3));
            note.key = int(i);
        } else {
            note.detail = QStringLiteral("stays within tolerance of the baseline in all common steps");
        }
        notes.push_back(std::move(note));
    }
    parts_->setNotes(std::move(notes), visibleRuns().size() < 2 ? QStringLiteral("Pick a second run.")
                                       : compared_              ? QStringLiteral("These runs share no recorded tensor.")
                                                                : QStringLiteral("Reading the statistics."));
}

}  // namespace mantissa::gui
