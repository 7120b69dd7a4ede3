#include "gui/pages/bench_result.h"

#include <QGridLayout>
#include <QHeaderView>
#include <QScrollArea>
#include <QVBoxLayout>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/widgets/block_map.h"
#include "gui/widgets/segmented_bar.h"

namespace mantissa::gui {

namespace {

QString joined(const std::vector<float>& values) {
    return slotsText(
        values.size(), 16, values.size(), [&](size_t i) { return formatScale(double(values[i])); },
        QStringLiteral("  "));
}

}  // namespace

BenchResultView::BenchResultView(QWidget* parent) : QWidget(parent) {
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(10);
    factsCard_ = new Card(tr("Scale, counters, next state"), QString(), this);
    facts_ = new QGridLayout;
    facts_->setContentsMargins(12, 0, 12, 12);
    facts_->setHorizontalSpacing(12);
    facts_->setVerticalSpacing(5);
    for (int c = 1; c < 6; c += 2) facts_->setColumnStretch(c, 1);
    factsCard_->body()->addLayout(facts_);
    column->addWidget(factsCard_);

    listCard_ = new Card(tr("Codes"), tr("one row a value"), this);
    parts_ = new SegmentedBar(tr("Part"), {tr("Codes"), tr("All recipes"), tr("Blocks")}, listCard_);
    parts_->setToolTips({tr("Code, dequantized value and error of every value"),
                         tr("The same values under every recipe, exact"), tr("Scale and amax of every block")});
    listCard_->headTools()->addWidget(parts_);
    stack_ = new QStackedWidget(listCard_);
    listCard_->body()->addWidget(stack_, 1);
    stack_->addWidget(table_ = makeTable(model_, tr("Codes of the values"), stack_));
    auto* area = new QScrollArea(stack_);
    area->setWidgetResizable(true);
    area->setFrameShape(QFrame::NoFrame);
    area->setFocusPolicy(Qt::NoFocus);
    area->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    area->viewport()->setAutoFillBackground(false);
    auto* inside = new QWidget(area);
    inside->setAutoFillBackground(false);
    auto* rows = new QVBoxLayout(inside);
    rows->setContentsMargins(12, 0, 12, 12);
    recipes_ = new WhatIfTable(inside);
    rows->addWidget(recipes_);
    rows->addStretch(1);
    area->setWidget(inside);
    stack_->addWidget(area);
    auto* blocks = new QWidget(stack_);
    auto* down = new QVBoxLayout(blocks);
    down->setContentsMargins(12, 0, 12, 0);
    down->setSpacing(6);
    map_ = new BlockMapView(blocks);
    down->addWidget(map_);
    mapHint_ = new TextLabel(QString(), Token::Text3, TextSize::Small, false, blocks);
    down->addWidget(mapHint_);
    down->addWidget(blockTable_ = makeTable(blockModel_, tr("Blocks"), blocks), 1);
    stack_->addWidget(blocks);
    column->addWidget(listCard_, 1);
    connect(parts_, &SegmentedBar::currentChanged, this, [this](int part) { setPart(Part(part)); });
    connect(map_, &BlockMapView::hovered, mapHint_, &TextLabel::setText);
}

QTableView* BenchResultView::makeTable(BenchModel*& model, const QString& name, QWidget* parent) {
    model = new BenchModel(this);
    auto* table = new QTableView(parent);
    table->setTabKeyNavigation(false);
    table->setModel(model);
    table->setAccessibleName(name);
    table->setToolTip(name);
    table->verticalHeader()->hide();
    table->verticalHeader()->setSectionResizeMode(QHeaderView::Fixed);
    table->verticalHeader()->setDefaultSectionSize(24);
    table->setShowGrid(false);
    return table;
}

void BenchResultView::setPart(Part part) {
    if (parts_->current() != int(part)) parts_->setCurrent(int(part));
    stack_->setCurrentIndex(int(part));
    const QString hints[] = {tr("one row a value"), tr("every value cast"), tr("one row a block")};
    listCard_->setTitle(part == Codes ? tr("Codes") : part == Recipes ? tr("All recipes") : tr("Blocks"));
    listCard_->setHint(hints[int(part)]);
    QMetaObject::invokeMethod(this, &BenchResultView::fitShown, Qt::QueuedConnection);
}

/// Every column as wide as its text; what is left of the width is shared out.
void BenchResultView::fitColumns(QTableView* table) {
    QHeaderView* header = table->horizontalHeader();
    if (header->count() == 0) return;
    table->resizeColumnsToContents();
    int needed = 0;
    for (int c = 0; c < header->count(); ++c) needed += header->sectionSize(c);
    const int more = (table->viewport()->width() - needed) / header->count();
    for (int c = 0; c < header->count() && more > 0; ++c) header->resizeSection(c, header->sectionSize(c) + more);
}

void BenchResultView::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    QMetaObject::invokeMethod(this, &BenchResultView::fitShown,
                              Qt::QueuedConnection);  // the tables have their size then
}

void BenchResultView::fitShown() {
    fitColumns(parts_->current() == Blocks && output_.result ? blockTable_ : table_);
}

void BenchResultView::showOutput(BenchOutput output) {
    output_ = std::move(output);
    used_ = 0;
    const bool cast = output_.result != nullptr;
    parts_->setVisible(cast);
    if (!cast) setPart(Codes);
    if (cast) {
        model_->setTable(output_.result->inputs.size(), codeColumns(output_.result));
        blockModel_->setTable(output_.result->blocks.size(), blockColumns(output_.result));
        recipes_->setRows(output_.recipes, true, tr("Clipped"));
        map_->setMap(output_.blocks);
        mapHint_->setText(
            output_.result->blocks.empty()
                ? tr("This recipe has one scale for the whole tensor.")
                : tr("amax from block to block spans %1 binades").arg(formatNumber(output_.blocks.range(), 3)));
        showFacts();
        setPart(Part(parts_->current()));
    } else if (output_.decoded) {
        model_->setTable(output_.decoded->size(), decodedColumns(output_.decoded, output_.format));
        listCard_->setTitle(tr("Values"));
        listCard_->setHint(tr("one row a code"));
    } else if (output_.trace) {
        model_->setTable(output_.trace->size(), traceColumns(output_.trace));
        listCard_->setTitle(tr("Updates of the delayed rule"));
        listCard_->setHint(tr("one amax a step; in brackets the entry that rules"));
        showTraceFacts();
    }
    QMetaObject::invokeMethod(this, &BenchResultView::fitShown, Qt::QueuedConnection);
    factsCard_->setVisible(used_ > 0);
    for (int i = used_; i < factRows_.size(); ++i) {
        factRows_[i].first->hide();
        factRows_[i].second->hide();
    }
}

QString BenchResultView::fact(const QString& name) const {
    for (int i = 0; i < used_; ++i)
        if (factRows_[i].first->text() == name) return factRows_[i].second->text();
    return {};
}

void BenchResultView::setFact(const QString& name, const QString& value, const QString& tip, Token token) {
    if (used_ == factRows_.size()) {
        auto* key = new TextLabel(name, Token::Text3, TextSize::Body, false, this);
        auto* text = new TextLabel(value, token, TextSize::Body, false, this);
        text->setTextInteractionFlags(Qt::TextSelectableByMouse);
        text->setWordWrap(true);
        facts_->addWidget(key, used_ / 3, 2 * (used_ % 3), Qt::AlignTop);
        facts_->addWidget(text, used_ / 3, 2 * (used_ % 3) + 1);
        factRows_.push_back({key, text});
    }
    auto& [key, text] = factRows_[used_++];
    key->setText(name);
    text->setText(value);
    text->setToken(token);
    for (TextLabel* label : {key, text}) {
        label->setToolTip(tip);
        label->show();
    }
}

void BenchResultView::showFacts() {
    const experiments::TensorResult& r = *output_.result;
    const auto number = [](double value) { return formatScale(value); };
    if (r.scale)
        setFact(tr("scale ×"),
                output_.fresh ? tr("%1, never updated").arg(number(double(*r.scale))) : number(double(*r.scale)),
                output_.fresh ? tr("The fresh state of delayed scaling: no window, scale 1") : exact(double(*r.scale)),
                output_.fresh ? Token::Warn : Token::Text);
    if (r.scaleInv) setFact(tr("scale_inv ÷"), number(double(*r.scaleInv)), exact(double(*r.scaleInv)));
    setFact(tr("amax"), number(double(r.amax)),
            tr("Largest magnitude before the cast: %1. NaN is skipped, Inf is shown").arg(exact(double(r.amax))));
    const auto& c = r.counters;
    const auto count = [&](const QString& name, uint64_t value, const QString& tip, Token token = Token::Text) {
        const double share = c.elements > 0 ? double(value) / double(c.elements) : 0;
        setFact(name,
                value == 0 ? QStringLiteral("0") : tr("%1, %2").arg(formatCount(qint64(value)), formatShare(share)),
                tip, value > 0 ? token : Token::Text);
    };
    setFact(tr("elements"), formatCount(qint64(c.elements)), tr("Values cast"));
    count(tr("zeros"), c.zeros, tr("Exact zeros before the cast"));
    count(tr("underflow"), c.underflow, tr("Not zero before, code ±0 after the cast"), Token::Warn);
    count(tr("subnormal"), c.subnormal, tr("Stored below the smallest normal value"));
    count(tr("over range"), c.overRange, tr("Magnitude × scale above the next float after the largest value"));
    count(tr("clipped"), c.clipped, tr("Rounds above the largest value"), Token::Warn);
    count(tr("Inf"), c.inf, tr("Infinite before the cast"), Token::Nonfinite);
    count(tr("NaN"), c.nan, tr("Not a number before the cast"), Token::Nonfinite);
    setFact(tr("MSE"), std::isnan(r.mse) ? notMeasured() : formatNumber(r.mse, 4),
            tr("Mean of (dequantized − value)² over finite values: %1").arg(exact(r.mse)));
    setFact(tr("SQNR"),
            std::isnan(r.sqnrDb)   ? notMeasured()
            : std::isinf(r.sqnrDb) ? tr("no error")
                                   : tr("%1 dB").arg(formatNumber(r.sqnrDb, 4)),
            tr("10·log₁₀(Σx² ÷ Σ(x̂−x)²) over finite values: %1").arg(exact(r.sqnrDb)));
    setFact(tr("dynamic range"), r.dynamicRange ? tr("%1 binades").arg(formatNumber(*r.dynamicRange, 3)) : tr("none"),
            tr("log₂ of largest ÷ smallest non-zero magnitude; none when all are zero"));
    if (r.next) {
        setFact(
            tr("next scale ×"),
            r.next->updated ? number(double(r.next->scale)) : tr("%1, not updated").arg(number(double(r.next->scale))),
            r.next->updated ? exact(double(r.next->scale)) : tr("An amax of 0 means that the tensor did not run"),
            r.next->updated ? Token::Text : Token::Warn);
        setFact(tr("next window"), joined(r.next->history),
                tr("After the update and its roll: slot 0 open, 1 oldest closed, last newest closed"));
    }
    if (!r.blocks.empty())
        setFact(tr("blocks"), formatCount(qint64(r.blocks.size())),
                tr("First block: scale %1, amax %2")
                    .arg(exact(double(r.blocks.front().scale)), exact(double(r.blocks.front().amax))));
}

void BenchResultView::showTraceFacts() {
    if (output_.trace->empty()) return;
    const experiments::TraceRow& last = output_.trace->back();
    qint64 idle = 0;
    for (const auto& row : *output_.trace) idle += !row.updated;
    setFact(tr("next scale ×"), formatScale(double(last.nextScale)), exact(double(last.nextScale)));
    setFact(tr("updates"), formatCount(qint64(output_.trace->size()) - idle),
            tr("Steps whose amax was above 0, so that the scale was updated"));
    setFact(tr("not updated"), formatCount(idle), tr("Steps whose amax was 0: the tensor did not run"),
            idle > 0 ? Token::Warn : Token::Text);
    if (last.frozenFor > 0)
        setFact(tr("frozen"), tr("leaves in %1 updates").arg(formatCount(last.frozenFor)),
                tr("A non-finite amax keeps the scale as it is until it leaves the window"), Token::Nonfinite);
}

}  // namespace mantissa::gui
