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
#include "gui/models/alarm_rules.h"
#include "gui/plot/chart_tools.h"
#include "gui/plot/plot_legend.h"
#include "gui/widgets/card.h"
#include "gui/widgets/figures_card.h"
#include "gui/widgets/note_list.h"

namespace mantissa::gui {

using namespace experiments;

namespace {

/// Cells with the padding of the heads, the line sample of a run before its name, and text in its own colour also when
/// the row is selected.
class RunDelegate : public QStyledItemDelegate {
  public:
    using QStyledItemDelegate::QStyledItemDelegate;
    QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        const int sample = index.data(FinalNumbersModel::kSeriesRole).isValid() ? kSample : 0;
        return QStyledItemDelegate::sizeHint(option, index) + QSize(2 * kPadding + sample, 0);
    }
    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        QStyleOptionViewItem ground = option;
        initStyleOption(&ground, index);
        ground.text.clear();
        option.widget->style()->drawControl(QStyle::CE_ItemViewItem, &ground, painter, option.widget);
        QRect text = option.rect.adjusted(kPadding, 0, -kPadding, 0);
        const QVariant series = index.data(FinalNumbersModel::kSeriesRole);
        if (series.isValid()) {
            paintSample(*painter, Theme::instance().series(series.toInt()),
                        QRectF(text.left(), text.center().y() - 4, 22, 10));
            text.adjust(kSample, 0, 0, 0);
        }
        const QVariant ink = index.data(Qt::ForegroundRole), alignment = index.data(Qt::TextAlignmentRole);
        painter->setPen(ink.isValid() ? ink.value<QColor>() : color(Token::Text));
        painter->setFont(uiFont(TextSize::Body));
        painter->drawText(text, alignment.isValid() ? alignment.toInt() : int(Qt::AlignLeft | Qt::AlignVCenter),
                          painter->fontMetrics().elidedText(index.data().toString(), Qt::ElideRight, text.width()));
    }

  private:
    static constexpr int kPadding = 8, kSample = 30;
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
    table->horizontalHeader()->setStretchLastSection(true);
    table->horizontalHeader()->setResizeContentsPrecision(0);  // of the rows in view: there may be hundreds
    table->setItemDelegate(new RunDelegate(table));
    table->setTabKeyNavigation(false);  // Tab goes to the next control, arrows to the next cell
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
    refreshTimer_.setSingleShot(true);
    connect(&refreshTimer_, &QTimer::timeout, this, &ComparePage::readAll);
    curvesTimer_.setSingleShot(true);
    connect(&curvesTimer_, &QTimer::timeout, this, &ComparePage::rebuildCurves);
    againTimer_.setSingleShot(true);
    connect(&againTimer_, &QTimer::timeout, this, [this] {
        if (isVisible()) {
            loadCurves(true);
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
    QHBoxLayout* row = nullptr;
    tools_ = makeToolRow(this, &row);
    const auto combo = [&](const char* label, const char* tip,
                           std::initializer_list<std::pair<const char*, const char*>> items) {
        toolLabels_.push_back(new TextLabel(QString::fromUtf8(label), Token::Text2, TextSize::Small, false, tools_));
        row->addWidget(toolLabels_.back());
        auto* box = new QComboBox(tools_);
        for (const auto& [text, data] : items) {
            box->addItem(QString::fromUtf8(text), QString::fromUtf8(data));
        }
        box->setAccessibleName(QString::fromUtf8(label));
        box->setToolTip(QString::fromUtf8(tip));
        row->addWidget(box);
        return box;
    };
    metric_ = combo("Show", "What the curves show",
                    {{"validation loss", "val_loss"},
                     {"train loss", "loss"},
                     {"gradient norm", "grad_norm"},
                     {"throughput", "tokens_per_s"}});
    axis_ = combo("X", "Runs are aligned by step, by tokens seen or by time",
                  {{"step", "step"}, {"tokens", "tokens"}, {"time", "time"}});
    below_ = combo("Below", "What the lower chart shows against the baseline",
                   {{"difference", "difference"}, {"ratio", "ratio"}, {"nothing", ""}});
    addZoomBack(row, link_);
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
    addExport(row, [this] { return curves_; });
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
    below.namesOffScale = true;
    below.margins = {56, 8, 12, 24};
    below.value = [](double v) { return formatLossDifference(v); };
    difference_ = new PlotView(below, &link_, this);
    curveCard_ = new Card(QStringLiteral("Validation loss"), QStringLiteral("nats/token, log"), this);
    highlight_ = new TextLabel(QString(), Token::Text, TextSize::Small, true, curveCard_);
    curveCard_->headTools()->addWidget(highlight_);
    curveCard_->headTools()->addWidget(new PlotLegend(curves_, curveCard_));
    curveCard_->body()->setContentsMargins(2, 0, 2, 3);
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
    auto* line = new Separator(Qt::Horizontal, curveCard_);
    belowLine_ = line;
    curveCard_->body()->addWidget(line);
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
    filter->setToolTip(QStringLiteral("Part of a field's path"));
    filter->setFixedWidth(110);
    filter->setFixedHeight(24);
    configCard->headTools()->addWidget(configHint_);
    configCard->headTools()->addWidget(filter);
    configTable_ = new QTableView(configCard);
    config_ = new ConfigModel(configTable_);
    configTable_->setModel(config_);
    prepare(configTable_, QStringLiteral("Config differences"));
    connect(filter, &QLineEdit::textChanged, config_, &ConfigModel::setFilter);
    configCard->body()->setContentsMargins(2, 0, 2, 4);
    configCard->body()->addWidget(configTable_);
    auto* partCard =
        new Card(QStringLiteral("Where they part"), QStringLiteral("underflow of dy, layer × step"), side_);
    strips_ = new LayerStrips(partCard);
    partCard->body()->addWidget(strips_, 3);
    partCard->body()->addWidget(new Separator(Qt::Horizontal, partCard));
    parts_ = new NoteList(QStringLiteral("Where they part"), partCard);
    partCard->body()->addWidget(parts_, 2);
    connect(parts_, &NoteList::chosen, this, [this](const Note& note) {
        if (note.key >= 0 && note.key < int(comparison_.parts.size())) {
            const PartingPoint& part = comparison_.parts[size_t(note.key)];
            Q_EMIT tensorRequested(QString::fromStdString(part.tensor), part.step);
        }
    });
    rows->addWidget(configCard, 35);
    rows->addWidget(partCard, 65);
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
    prepare(finalTable_, QStringLiteral("Final numbers"));
    finalTable_->horizontalHeader()->setStretchLastSection(false);
    finalTable_->setSortingEnabled(true);
    finalTable_->sortByColumn(-1, Qt::AscendingOrder);
    finalTable_->horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
    for (int column : {int(FinalNumbersModel::Name), int(FinalNumbersModel::Paired)}) {
        finalTable_->horizontalHeader()->setSectionResizeMode(column, QHeaderView::ResizeToContents);
    }
    finalTable_->setMinimumHeight(100);
    card->body()->setContentsMargins(2, 0, 2, 4);
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

/// The baseline, then the others in the order in which they were made.
QStringList ComparePage::order() const {
    QStringList ids = visibleRuns();
    const QString base = effectiveBaseline();
    ids.removeAll(base);
    std::stable_sort(ids.begin(), ids.end(), [this](const QString& a, const QString& b) {
        const RunInfo *x = controller().run(a), *y = controller().run(b);
        return x && y && x->createdMs < y->createdMs;
    });
    if (!base.isEmpty()) {
        ids.prepend(base);
    }
    return ids;
}

void ComparePage::resizeEvent(QResizeEvent* event) {
    Page::resizeEvent(event);
    for (QLabel* label : toolLabels_) {
        label->setVisible(width() >= 1100);  // the tools share the row of the tabs; the fields have tooltips
    }
}

/// Run, selection and baseline change one after the other: what they ask for is read once.
void ComparePage::refresh() {
    refreshTimer_.start(0);
}

void ComparePage::readAll() {
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

}  // namespace mantissa::gui
