#include "gui/pages/trouble_view.h"

#include <QFileDialog>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QSaveFile>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/format/numbers.h"
#include "gui/theme/fonts.h"

namespace mantissa::gui {

namespace {

constexpr int kLink = 35;

QString withSpec(experiments::RunSpec spec, const std::function<void(engine::PrecisionConfig&)>& change) {
    change(spec.trainer.precision);
    return QString::fromStdString(spec.toJson(-1));
}

/// "h.7.mlp.fc2" as a rule's pattern.
std::string pattern(const engine::CatalogueEntry& entry) {
    return entry.linear.empty() ? entry.layer : entry.layer + "." + entry.linear;
}

}  // namespace

ChainView::ChainView(QWidget* parent) : QWidget(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Chain from the first value to the optimizer"));
    setToolTip(tr("Click or Return goes to the tensor; Up and Down move"));
    setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void ChainView::setChain(std::vector<TroubleLink> chain) {
    chain_ = std::move(chain);
    current_ = 0;
    QStringList words;
    for (const TroubleLink& link : chain_) words << QStringLiteral("%1: %2").arg(link.what, link.detail);
    setAccessibleDescription(words.join(QStringLiteral("; ")));
    updateGeometry();
    update();
}

QSize ChainView::sizeHint() const {
    return {320, std::max(1, int(chain_.size())) * kLink + 2};
}

void ChainView::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    for (int i = 0; i < int(chain_.size()); ++i) {
        const TroubleLink& link = chain_[size_t(i)];
        const double y = i * kLink;
        if (i + 1 < int(chain_.size())) {
            painter.setPen(QPen(color(Token::Line2), 1.5));
            painter.drawLine(QPointF(8, y + 15), QPointF(8, y + kLink + 3));
        }
        const bool first = link.token == Token::Nonfinite;
        painter.setPen(Qt::NoPen);
        painter.setBrush(color(link.token));
        painter.drawEllipse(QPointF(8, y + 9), first ? 5 : 3.5, first ? 5 : 3.5);
        painter.setFont(uiFont(TextSize::Small));
        painter.setPen(color(link.token == Token::Text3 ? Token::Text3 : link.token));
        const double right = painter.fontMetrics().horizontalAdvance(link.right);
        painter.drawText(QRectF(width() - right - 2, y, right + 2, 17), Qt::AlignRight | Qt::AlignVCenter, link.right);
        painter.setFont(uiFont(TextSize::Body, true));
        painter.setPen(color(Token::Text));
        painter.drawText(QRectF(24, y, width() - 32 - right, 17), Qt::AlignLeft | Qt::AlignVCenter,
                         painter.fontMetrics().elidedText(link.what, Qt::ElideRight, int(width() - 32 - right)));
        painter.setFont(uiFont(TextSize::Small));
        painter.setPen(color(Token::Text2));
        painter.drawText(QRectF(24, y + 16, width() - 26, 16), Qt::AlignLeft | Qt::AlignVCenter, link.detail);
        if (hasFocus() && i == current_) {
            painter.setPen(color(Token::Accent));
            painter.setBrush(Qt::NoBrush);
            painter.drawRoundedRect(QRectF(18.5, y - 0.5, width() - 19, kLink - 2), 3, 3);
        }
    }
}

void ChainView::mousePressEvent(QMouseEvent* event) {
    current_ = std::clamp(int(event->position().y()) / kLink, 0, std::max(0, int(chain_.size()) - 1));
    update();
    if (!chain_.empty() && chain_[size_t(current_)].tensor >= 0) Q_EMIT chosen(chain_[size_t(current_)].tensor);
}

void ChainView::keyPressEvent(QKeyEvent* event) {
    if (event->key() == Qt::Key_Up || event->key() == Qt::Key_Down) {
        current_ = std::clamp(current_ + (event->key() == Qt::Key_Up ? -1 : 1), 0, std::max(0, int(chain_.size()) - 1));
        update();
    } else if ((event->key() == Qt::Key_Return || event->key() == Qt::Key_Space) && !chain_.empty() &&
               chain_[size_t(current_)].tensor >= 0) {
        Q_EMIT chosen(chain_[size_t(current_)].tensor);
    } else {
        QWidget::keyPressEvent(event);
    }
}

TroubleView::TroubleView(QWidget* parent) : QWidget(parent) {
    auto* columns = new QHBoxLayout(this);
    columns->setContentsMargins(0, 0, 0, 0);
    columns->setSpacing(10);
    card_ = new Card(tr("amax, and where it is not finite"), QString(), this);
    cursor_ = new TextLabel(QString(), Token::Text, TextSize::Small, true, card_);
    bar_ = new ColorBar(card_);
    card_->headTools()->addWidget(cursor_);
    card_->headTools()->addWidget(bar_);
    scroll_ = new QScrollArea(card_);
    scroll_->setFrameShape(QFrame::NoFrame);
    scroll_->setWidgetResizable(true);
    scroll_->viewport()->setAutoFillBackground(false);
    scroll_->setAccessibleName(tr("Steps before the first non-finite value"));
    grid_ = new TroubleGrid(scroll_);
    scroll_->setWidget(grid_);
    grid_->setAutoFillBackground(false);
    card_->body()->addWidget(scroll_, 1);
    columns->addWidget(card_, 1);
    columns->addWidget(buildSide());
    connect(grid_, &TroubleGrid::hovered, cursor_, &QLabel::setText);
    connect(grid_, &TroubleGrid::chosen, this, &TroubleView::tensorChosen);
    connect(chain_, &ChainView::chosen, this,
            [this](int tensor) { Q_EMIT tensorChosen(tensor, report_ ? report_->step : -1); });
}

QWidget* TroubleView::buildSide() {
    side_ = new Card(tr("Chain from the first value to the loss"), QString(), this);
    side_->setFixedWidth(352);
    auto* scroll = new QScrollArea(side_);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidgetResizable(true);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->viewport()->setAutoFillBackground(false);
    auto* inside = new QWidget(scroll);
    scroll->setWidget(inside);
    inside->setAutoFillBackground(false);
    auto* rows = new QVBoxLayout(inside);
    rows->setContentsMargins(12, 8, 12, 10);
    rows->setSpacing(8);
    chain_ = new ChainView(inside);
    rows->addWidget(chain_);
    rows->addWidget(new Separator(Qt::Horizontal, inside));
    rows->addWidget(new TextLabel(tr("What the numbers said before"), Token::Text, TextSize::Body, true, inside));
    facts_ = new QGridLayout;
    facts_->setHorizontalSpacing(12);
    facts_->setVerticalSpacing(3);
    facts_->setColumnStretch(1, 1);
    rows->addLayout(facts_);
    rows->addWidget(new Separator(Qt::Horizontal, inside));
    rows->addWidget(new TextLabel(tr("Go on from here"), Token::Text, TextSize::Body, true, inside));
    ways_ = new QTableWidget(0, 2, inside);
    ways_->setHorizontalHeaderLabels({tr("Way"), tr("What it does")});
    for (int c = 0; c < 2; ++c) ways_->horizontalHeaderItem(c)->setTextAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    ways_->verticalHeader()->hide();
    ways_->verticalHeader()->setDefaultSectionSize(24);
    ways_->horizontalHeader()->setSectionResizeMode(0, QHeaderView::ResizeToContents);
    ways_->horizontalHeader()->setSectionResizeMode(1, QHeaderView::Stretch);
    ways_->setShowGrid(false);
    ways_->setEditTriggers(QAbstractItemView::NoEditTriggers);
    ways_->setSelectionBehavior(QAbstractItemView::SelectRows);
    ways_->setSelectionMode(QAbstractItemView::SingleSelection);
    ways_->setTabKeyNavigation(false);
    ways_->setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    ways_->setAccessibleName(tr("Ways to go on"));
    ways_->setToolTip(tr("Up and Down choose a way; the button below takes it"));
    rows->addWidget(ways_);
    rows->addStretch(1);
    side_->body()->addWidget(scroll, 1);
    auto* foot = new QHBoxLayout;
    foot->setContentsMargins(12, 8, 12, 12);
    foot->setSpacing(8);
    go_ = new QPushButton(side_);
    go_->setProperty("kind", QStringLiteral("primary"));
    save_ = new QPushButton(tr("Save report…"), side_);
    save_->setAccessibleName(tr("Save report"));
    save_->setToolTip(tr("Writes chain, figures and ways as a text file"));
    foot->addWidget(go_, 1);
    foot->addWidget(save_);
    side_->body()->addLayout(foot);
    connect(ways_, &QTableWidget::currentCellChanged, this, &TroubleView::updateButton);
    connect(ways_, &QTableWidget::cellDoubleClicked, this, &TroubleView::takeWay);
    connect(go_, &QPushButton::clicked, this, &TroubleView::takeWay);
    connect(save_, &QPushButton::clicked, this, &TroubleView::saveReport);
    return side_;
}

void TroubleView::showReport(std::shared_ptr<const TroubleReport> report, const experiments::RunDocument& document,
                             const experiments::RunSpec& spec, const RunInfo* run) {
    const bool same = report_ && report && report_->step == report->step && report_->tensor == report->tensor;
    report_ = std::move(report);
    catalogue_ = document.catalogue;
    runName_ = run ? run->name : QString();
    grid_->setReport(report_, document.catalogue, spec.trainer.precision.margin);
    card_->setHint(tr("last %1 recorded steps").arg(report_->steps.size()));
    chain_->setChain(report_->chain);
    while (QLayoutItem* item = facts_->takeAt(0)) {
        delete item->widget();
        delete item;
    }
    for (int i = 0; i < int(report_->before.size()); ++i) {
        const TroubleFact& fact = report_->before[size_t(i)];
        auto* name = new TextLabel(fact.name, Token::Text2, TextSize::Body, false, side_);
        auto* value = new TextLabel(fact.value, Token::Text, TextSize::Body, false, side_);
        value->setWordWrap(true);
        name->setToolTip(fact.tooltip);
        value->setToolTip(fact.tooltip);
        facts_->addWidget(name, i, 0, Qt::AlignTop);
        facts_->addWidget(value, i, 1);
    }
    fillWays(spec, run);
    if (!same) {
        const QRect first = grid_->firstCell();
        QMetaObject::invokeMethod(
            this, [this, first] { scroll_->ensureVisible(first.center().x(), first.center().y(), 60, 120); },
            Qt::QueuedConnection);
    }
}

void TroubleView::setStatistic(const StatisticInfo& info) {
    grid_->setStatistic(info);
    card_->setTitle(tr("%1, and where it is not finite").arg(info.title));
    bar_->setScale(
        grid_->scale(), [&info](double value) { return statisticText(info, value); },
        [&info](double value) { return statisticTick(info, value); });
}

void TroubleView::fillWays(const experiments::RunSpec& spec, const RunInfo* run) {
    list_.clear();
    const auto precision = spec.trainer.precision;
    const qint64 from = report_->checkpoint;
    const QString where = from >= 0 ? tr("from %1").arg(formatCount(from)) : tr("from the start");
    const QString same = QString::fromStdString(spec.toJson(-1));
    list_.push_back({tr("replay %1").arg(where), tr("same fault: spec or data"), from, same});
    if (report_->tensor >= 0 && precision.mode == engine::PrecisionMode::Fp8) {
        const auto& entry = catalogue_[size_t(report_->tensor)];
        if (isFp8(entry))
            list_.push_back({tr("%1 %2 in BF16").arg(QString::fromStdString(entry.layer), shortLinear(entry.linear)),
                             tr("child run %1").arg(where), from, withSpec(spec, [&](engine::PrecisionConfig& p) {
                                 p.rules.push_back({pattern(entry), 7, engine::RecipeKind::Bf16});
                             })});
        if (precision.recipe == engine::RecipeKind::Delayed)
            list_.push_back({tr("current scaling"), tr("child run, no window"), from,
                             withSpec(spec, [](engine::PrecisionConfig& p) {
                                 p.recipe = engine::RecipeKind::Current;
                                 for (auto& rule : p.rules)
                                     if (rule.recipe == engine::RecipeKind::Delayed)
                                         rule.recipe = engine::RecipeKind::Current;
                             })});
    }
    if (run && run->state == RunState::Paused)
        list_.push_back({tr("go on"), tr("next batch, weights as they are"), -1, QString()});
    ways_->setRowCount(int(list_.size()));
    for (int r = 0; r < int(list_.size()); ++r) {
        ways_->setItem(r, 0, new QTableWidgetItem(list_[size_t(r)].name));
        auto* does = new QTableWidgetItem(list_[size_t(r)].does);
        does->setToolTip(list_[size_t(r)].does);
        ways_->setItem(r, 1, does);
    }
    ways_->setFixedHeight(24 * int(list_.size()) + 28);
    if (ways_->currentRow() < 0 && !list_.empty()) ways_->setCurrentCell(0, 0);
    updateButton();
}

void TroubleView::updateButton() {
    const int row = ways_->currentRow();
    go_->setEnabled(row >= 0 && row < int(list_.size()));
    if (!go_->isEnabled()) return;
    const Way& way = list_[size_t(row)];
    QString name = way.name;
    name[0] = name[0].toUpper();
    go_->setText(name);
    go_->setAccessibleName(name);
    go_->setToolTip(way.spec.isEmpty() ? tr("Goes on with the paused run")
                    : way.step >= 0    ? tr("Opens the fork dialog with this change filled in")
                                       : tr("Opens the launch dialog with this spec filled in"));
}

void TroubleView::takeWay() {
    const int row = ways_->currentRow();
    if (row < 0 || row >= int(list_.size())) return;
    const Way& way = list_[size_t(row)];
    if (way.spec.isEmpty())
        Q_EMIT resumeRequested();
    else
        Q_EMIT forkRequested(way.step, way.spec);
}

QString TroubleView::reportText() const {
    if (!report_) return QString();
    QStringList lines{runName_, report_->headline, report_->outcome, QString(), tr("Chain")};
    for (const TroubleLink& link : report_->chain)
        lines << QStringLiteral("  %1: %2 (%3)").arg(link.what, link.detail, link.right);
    lines << QString() << tr("Before");
    for (const TroubleFact& fact : report_->before) lines << QStringLiteral("  %1: %2").arg(fact.name, fact.value);
    lines << QString() << tr("Ways to go on");
    for (const Way& way : list_) lines << QStringLiteral("  %1: %2").arg(way.name, way.does);
    return lines.join(QLatin1Char('\n')) + QLatin1Char('\n');
}

void TroubleView::saveReport() {
    auto* dialog =
        new QFileDialog(this, tr("Save report"), runName_ + QStringLiteral("-trouble.txt"), tr("Text (*.txt)"));
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setAcceptMode(QFileDialog::AcceptSave);
    connect(dialog, &QFileDialog::fileSelected, this, [this](const QString& path) {
        QSaveFile file(path);
        const QByteArray text = reportText().toUtf8();
        if (!file.open(QIODevice::WriteOnly) || file.write(text) != text.size() || !file.commit())
            save_->setToolTip(tr("Not written: %1").arg(file.errorString()));
        else
            save_->setToolTip(tr("Written to %1").arg(path));
    });
    dialog->open();
}

}  // namespace mantissa::gui
