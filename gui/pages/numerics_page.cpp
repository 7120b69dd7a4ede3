#include "gui/pages/numerics_page.h"

#include <QComboBox>
#include <QCompleter>
#include <QHBoxLayout>
#include <QLineEdit>
#include <QStackedWidget>
#include <QToolButton>
#include <QVBoxLayout>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/pages/live_health.h"
#include "gui/plot/chart_tools.h"
#include "gui/plot/heat_widgets.h"
#include "gui/plot/plot_legend.h"
#include "gui/widgets/search_field.h"
#include "gui/widgets/segmented_bar.h"

namespace mantissa::gui {

namespace {

constexpr int kLeft = 68, kRight = 84;
/// Of a name over its value beside a chart; two of them reach 6 px above the curves and 8 px below (PlotLayer).
constexpr int kNoteHeight = 29;

/// What is looked at, and how often.
QString probeWords(const engine::ProbeConfig& probes) {
    QStringList words;
    if (probes.counters) words << QObject::tr("Counters every step");
    if (probes.every > 0) words << QObject::tr("SQNR and kurtosis every %1").arg(formatCount(probes.every));
    if (probes.histograms > 0) words << QObject::tr("exponents every %1").arg(formatCount(probes.histograms));
    if (probes.shadowEvery > 0) words << QObject::tr("products again every %1").arg(formatCount(probes.shadowEvery));
    return words.isEmpty() ? QObject::tr("No statistics are taken") : words.join(QStringLiteral(", "));
}

}  // namespace

NumericsPage::NumericsPage(RunController& controller, QWidget* parent) : Page(controller, parent), run_(controller) {
    auto* rows = new QVBoxLayout(this);
    rows->setContentsMargins(12, 12, 12, 12);
    rows->setSpacing(10);
    banner_ = new MessageStrip(this);
    rows->addWidget(banner_);
    selector_ = buildSelector();
    rows->addWidget(selector_);
    modes_ = new QStackedWidget(this);
    heatPage_ = new QWidget(modes_);
    auto* columns = new QHBoxLayout(heatPage_);
    columns->setContentsMargins(0, 0, 0, 0);
    columns->setSpacing(10);
    columns->addWidget(buildLeft(), 1);
    inspector_ = new Inspector(this);
    inspector_->setFixedWidth(352);
    columns->addWidget(inspector_);
    modes_->addWidget(heatPage_);
    rows->addWidget(modes_, 1);
    buildTools();
    buildModes();

    for (QTimer* timer : {&cellsTimer_, &dataTimer_}) {
        timer->setSingleShot(true);
    }
    connect(&cellsTimer_, &QTimer::timeout, this, &NumericsPage::loadCells);
    connect(&dataTimer_, &QTimer::timeout, this, [this] {
        if (mode_ != Mode::Heatmap) {
            ensureView();
            loadCost();
            return;
        }
        loadTensor();  // a tensor is read in a moment, all of them in seconds where the run is long
        if (step_ < 0) {
            loadReport();
        }
        loadCells();
        loadOverview();
        loadWhatIf();
        loadCost();
    });
    connect(&link_, &XLink::viewChanged, this, [this] { cellsTimer_.start(60); });
    connect(&link_, &XLink::cursorChanged, this, &NumericsPage::updateCursor);
    connect(&run_, &RunSeries::reset, this, [this] {
        curvesTensor_ = -1;
        whatIfTensor_ = -1;
        diagnosedStep_ = -1;
        costStep_ = -1;
        cost_.clear();
        catalogueChanged();
    });
    connect(&run_, &RunSeries::documentChanged, this, &NumericsPage::catalogueChanged);
    connect(&run_, &RunSeries::changed, this, &NumericsPage::loadSoon);
    connect(&run_, &RunSeries::eventsChanged, this, &NumericsPage::updateEvents);
    connect(heat_, &HeatmapView::selectionChanged, this, [this](int row) {
        if (row >= 0) {
            selectTensor(heat_->rows()[size_t(row)].tensor);
        }
    });
    connect(heat_, &HeatmapView::hovered, this, &NumericsPage::updateCursor);
    connect(grid_, &HealthGrid::tensorClicked, this, &NumericsPage::selectTensor);
    connect(grid_, &HealthGrid::hovered, cursor_, &QLabel::setText);
    connect(statistics_, &SegmentedBar::currentChanged, this, &NumericsPage::setStatistic);
    connect(pair_, &SegmentedBar::currentChanged, this, [this] {
        lowest_ = highest_ = 0;
        statisticChanged();
    });
    connect(roles_, &SegmentedBar::currentChanged, this, &NumericsPage::rebuildRows);
    connect(view_, &QComboBox::currentIndexChanged, this, &NumericsPage::rebuildRows);
    connect(bar_, &ColorBar::scaleChanged, heat_, &HeatmapView::setScale);
    statisticChanged();
}

void NumericsPage::buildTools() {
    QHBoxLayout* row = nullptr;
    tools_ = makeToolRow(this, &row);
    back_ = addZoomBack(row, link_);
    follow_ = addFollow(row, link_);
    addExport(row, [this] { return amax_; });
}

QWidget* NumericsPage::buildSelector() {
    auto* area = new QWidget(this);
    auto* row = new QHBoxLayout(area);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(10);
    QStringList names, tips;
    for (const StatisticInfo& statistic : shownStatistics()) {
        if (names.size() < kSelectorStatistics) {
            names << statistic.name;
            tips << statistic.definition;
        }
    }
    statistics_ = new SegmentedBar(QStringLiteral("Statistic"), names, area);
    statistics_->setToolTips(tips);
    row->addWidget(statistics_);
    buildMore();
    row->addWidget(more_);
    roles_ = new SegmentedBar(QStringLiteral("Tensor role"),
                              {QStringLiteral("x"), QStringLiteral("w"), QStringLiteral("dy")}, area);
    roles_->setToolTips({QStringLiteral("Inputs of the linears (X)"), QStringLiteral("Weights (W)"),
                         QStringLiteral("Gradients of the outputs (D)")});
    roles_->setCurrent(2);
    row->addWidget(roles_);
    view_ = new QComboBox(area);
    view_->addItems({QStringLiteral("layer × step"), QStringLiteral("tensor × step"), QStringLiteral("all at one step"),
                     QStringLiteral("ranked, worst first")});
    view_->setAccessibleName(QStringLiteral("View"));
    view_->setToolTip(QStringLiteral("Rows and columns of the heatmap"));
    row->addWidget(view_);
    pair_ = new SegmentedBar(QStringLiteral("Run shown"),
                             {QStringLiteral("A"), QStringLiteral("B"), QStringLiteral("A ÷ B")}, area);
    pair_->hide();
    row->addWidget(pair_);
    row->addStretch(1);
    goTo_ = new SearchField(Glyph::Search, QStringLiteral("Go to tensor"), area);
    goTo_->setAccessibleName(QStringLiteral("Go to tensor"));
    goTo_->setToolTip(QStringLiteral("Part of a tensor's name, e.g. h.9 fc2 dy; Return goes there (/)"));
    goTo_->setMinimumWidth(84);
    goTo_->setMaximumWidth(150);
    connect(goTo_, &QLineEdit::returnPressed, this, [this] { goToTensor(goTo_->text()); });
    row->addWidget(goTo_);
    return area;
}

QWidget* NumericsPage::buildLeft() {
    card_ = new Card(QStringLiteral("Underflow"), QStringLiteral("% of elements"), this);
    cursor_ = new TextLabel(QString(), Token::Text, TextSize::Small, true, card_);
    refining_ = new TextLabel(QString(), Token::Text3, TextSize::Small, false, card_);
    bar_ = new ColorBar(card_);
    card_->headTools()->addWidget(cursor_);
    card_->headTools()->addWidget(refining_);
    card_->headTools()->addWidget(bar_);
    stack_ = new QStackedWidget(card_);
    heat_ = new HeatmapView(&link_, stack_);
    heat_->setMargins(kLeft, kRight);
    heat_->setEmptyText(QStringLiteral("First statistics after step 1"));
    auto* gridPage = new QWidget(stack_);
    auto* gridRow = new QVBoxLayout(gridPage);
    gridRow->setContentsMargins(16, 4, 16, 8);
    grid_ = new HealthGrid(gridPage);
    grid_->setMaximumCellHeight(28);
    gridRow->addWidget(grid_);
    stack_->addWidget(heat_);
    stack_->addWidget(gridPage);
    stack_->addWidget(buildRanks());
    card_->body()->addWidget(stack_, 10);

    PlotOptions amax;
    amax.title = QStringLiteral("amax against the range of the scale");
    amax.xUnit = QString();
    amax.yScale = ScaleKind::Log2;
    amax.eventIcons = false;
    amax.xLabels = false;
    amax.sizeFrom = 2;  // step 1 casts at the fresh scale 1, some forty binades away from any later one
    amax.margins = {kLeft, 6, kRight, 8};
    amax.value = [](double v) { return formatScale(v); };
    amax_ = new PlotView(amax, &link_, card_);
    PlotOptions counters = amax;
    counters.title = QStringLiteral("Counters");
    counters.yScale = ScaleKind::Log;
    counters.yLabelsAsShare = true;
    counters.xLabels = true;
    counters.margins = {kLeft, 6, kRight, 22};
    counters.yFloor = 1e-8;
    counters.yCeiling = 1.0;
    counters.minimumSpan = 3;
    counters.value = [](double v) { return formatShare(v); };
    counters_ = new PlotView(counters, &link_, card_);
    const auto section = [this](const QString& title, TextLabel** hint, PlotView* view, int stretch) {
        QHBoxLayout* head = card_->addSection(title);
        *hint = new TextLabel(QString(), Token::Text3, TextSize::Small, false, card_);
        static_cast<QHBoxLayout*>(head->parentWidget()->layout())->insertWidget(1, *hint);  // beside the title
        head->addWidget(new PlotLegend(view, card_));
        view->setMinimumHeight(2 * kNoteHeight - 14 + view->options().margins.top() + view->options().margins.bottom());
        card_->body()->addWidget(view, stretch);
    };
    section(amax.title, &amaxHint_, amax_, 3);
    section(counters.title, &countersHint_, counters_, 3);
    overview_ = new OverviewStrip(&link_, card_);
    overview_->setMargins(kLeft, kRight);
    card_->body()->addWidget(overview_);
    return card_;
}

const StatisticInfo& NumericsPage::info() const {
    return shownStatistics()[size_t(statistic_)];
}

double NumericsPage::probeEvery() const {
    const auto& probes = run_.spec().trainer.probes;
    return info().shadow ? std::max(1, probes.shadowEvery) : info().dear ? std::max(1, probes.every) : 1;
}

void NumericsPage::showEvent(QShowEvent* event) {
    run_.setActive(true);
    Page::showEvent(event);
    loadSoon();
}

void NumericsPage::hideEvent(QHideEvent* event) {
    run_.setActive(false);  // a hidden page does no work
    Page::hideEvent(event);
}

/// Narrow: the tools beside the tabs are icons, and the statistics keep their words.
void NumericsPage::resizeEvent(QResizeEvent* event) {
    Page::resizeEvent(event);
    const bool narrow = width() < 1000;
    for (QToolButton* button : modeButtons_)
        button->setToolButtonStyle(narrow ? Qt::ToolButtonIconOnly : Qt::ToolButtonTextBesideIcon);
    goTo_->setMaximumWidth(narrow ? 84 : 150);
}

void NumericsPage::refresh() {
    if (run() != run_.id()) {
        link_.reset();
        step_ = -1;
    }
    run_.show(run());
    updatePair();
    updateModes();
    updateStatus();
}

void NumericsPage::catalogueChanged() {
    const auto& catalogue = run_.document().catalogue;
    QStringList names;
    for (const auto& entry : catalogue) {
        names << tensorTitle(entry);
    }
    auto* completer = new QCompleter(names, goTo_);
    completer->setCaseSensitivity(Qt::CaseInsensitive);
    completer->setFilterMode(Qt::MatchContains);
    connect(completer, qOverload<const QString&>(&QCompleter::activated), this, &NumericsPage::goToTensor);
    delete goTo_->completer();
    goTo_->setCompleter(completer);
    if (tensor_ >= int(catalogue.size())) {
        tensor_ = -1;
    }
    rebuildRows();
    if (!wantedTensor_.isEmpty() && !catalogue.empty()) {
        const QString wanted = wantedTensor_;
        wantedTensor_.clear();
        showTensor(wanted, step_);
    } else if (tensor_ < 0 && !catalogue.empty()) {
        for (size_t t = catalogue.size();
             t-- > 0;) {  // a gradient of the last layer that runs in FP8: where trouble shows first
            if (isFp8(catalogue[t])) {
                selectTensor(int(t));
                nobodyChose_ = true;
                break;
            }
        }
    } else {
        selectTensor(tensor_);
    }
    updateEvents();
}

void NumericsPage::rebuildRows() {
    const auto& catalogue = run_.document().catalogue;
    const bool all = view_->currentIndex() == kTensorByStep;
    std::vector<HeatRow> rows;
    // Order of execution within a role; with all roles x, w, dy of a linear stand together.
    for (int pass = 0; pass < int(catalogue.size()); ++pass) {
        const auto& entry = catalogue[size_t(pass)];
        const auto add = [&](size_t t) {
            const auto& e = catalogue[t];
            HeatRow row;
            row.group = e.linear.empty() ? QStringLiteral("head") : QString::fromStdString(e.layer);
            row.label =
                e.linear.empty() && !all
                    ? QString()
                    : shortLinear(e.linear) +
                          (all ? QStringLiteral(" ") + QLatin1String(engine::roleShortName(e.role)) : QString());
            row.tensor = int(t);
            row.bf16 = !isFp8(e) && !info().shadow;  // its amax is not taken either
            rows.push_back(row);
        };
        if (!all && int(entry.role) == roles_->current()) {
            add(size_t(pass));
        } else if (all && entry.role == engine::TensorRole::Input) {
            for (size_t t = 0; t < catalogue.size(); ++t) {
                if (catalogue[t].layer == entry.layer && catalogue[t].linear == entry.linear) {
                    add(t);
                }
            }
        }
    }
    stack_->setCurrentIndex(view_->currentIndex() == kAtOneStep ? 1 : view_->currentIndex() == kRanked ? 2 : 0);
    heat_->setRows(std::move(rows));
    heat_->setAccessibleName(QStringLiteral("%1 of %2 over steps")
                                 .arg(info().title, all ? QStringLiteral("all tensors")
                                                        : QStringList{QStringLiteral("x"), QStringLiteral("w"),
                                                                      QStringLiteral("dy")}[roles_->current()]));
    if (const int row = heat_->rowOfTensor(tensor_); row >= 0) {
        QSignalBlocker quiet(heat_);
        heat_->select(row);
    } else if (tensor_ >= 0 && tensor_ < int(catalogue.size()) && !all) {
        // The same linear in the role now shown.
        for (size_t t = 0; t < catalogue.size(); ++t) {
            if (catalogue[t].layer == catalogue[size_t(tensor_)].layer &&
                catalogue[t].linear == catalogue[size_t(tensor_)].linear &&
                int(catalogue[t].role) == roles_->current()) {
                selectTensor(int(t));
                break;
            }
        }
    }
    statisticChanged();
}

void NumericsPage::statisticChanged() {
    const StatisticInfo& shown = info();
    QString role = view_->currentIndex() == kLayerByStep
                       ? QStringLiteral(" of %1").arg(QStringList{QStringLiteral("x"), QStringLiteral("w"),
                                                                  QStringLiteral("dy")}[roles_->current()])
                       : QString();
    if (shown.shadow && view_->currentIndex() == kLayerByStep) {
        role = QStringLiteral(" of %1").arg(QLatin1String(shadowGemm(engine::TensorRole(roles_->current()))));
    }
    const bool ratio = pairShown() == kRatio;
    card_->setTitle(ratio ? shown.title + role + QStringLiteral(", A against B") : shown.title + role);
    showHint();
    applyScale();
    heat_->setValueText([this](double value) { return shownText(value); });
    grid_->setValueText([&shown](double value) { return statisticText(shown, value); });
    dataTimer_.start(0);
}

void NumericsPage::loadSoon() {
    const auto loss = run_.metric(QStringLiteral("loss"));
    if (!loss->empty()) {
        link_.setExtent(1, std::max(2.0, loss->lastX()));
    }
    if (isVisible() && !dataTimer_.isActive()) {
        dataTimer_.start(800);  // statistics are read about once a second while a run goes
    }
    updateStatus();
}

void NumericsPage::updateCursor() {
    if (view_->currentIndex() == kAtOneStep) {
        loadGrid();
        return;
    }
    if (view_->currentIndex() == kRanked) return cursor_->setText(QString());
    const double step = link_.cursor();
    const int row = heat_->hoveredRow() >= 0 ? heat_->hoveredRow() : heat_->selected();
    if (std::isnan(step) || row < 0) {
        cursor_->setText(QString());
        return;
    }
    const HeatCell cell = heat_->cellAt(row, step);
    const HeatRow& shown = heat_->rows()[size_t(row)];
    const QString value = shown.bf16                           ? QStringLiteral("BF16 by plan")
                          : cell.state == CellState::NonFinite ? QStringLiteral("not finite")
                          : cell.state == CellState::NotProbed ? QStringLiteral("not probed")
                                                               : shownText(double(cell.value));
    cursor_->setText(QStringLiteral("%1 %2    step %3    %4 %5")
                         .arg(shown.group, shown.label, formatCount(qint64(step)), info().name, value));
}

void NumericsPage::updateEvents() {
    const auto events = railEvents(run_.events());
    heat_->setEvents(events);
    amax_->setEvents(events);
    counters_->setEvents(events);
    // Until somebody chooses, the tensor of the worst alert is the one to look at.
    const experiments::RunEvent* worst = nullptr;
    for (const experiments::RunEvent& event : run_.events())
        if (event.kind == "alert" && event.tensorIndex >= 0 && (!worst || event.severity > worst->severity))
            worst = &event;
    if (worst && nobodyChose_ && worst->tensorIndex < int(run_.document().catalogue.size()))
        selectTensor(worst->tensorIndex);
    updateModes();
}

void NumericsPage::updateStatus() {
    const QString next = !run_.loaded() ? QString() : probeWords(run_.spec().trainer.probes) + cost_;
    if (next != status_) {
        status_ = next;
        Q_EMIT statusTextChanged();
    }
}

}  // namespace mantissa::gui
