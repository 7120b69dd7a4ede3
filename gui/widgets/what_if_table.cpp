#include "gui/widgets/what_if_table.h"

#include <QApplication>
#include <QClipboard>
#include <QHeaderView>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QToolTip>

#include "gui/format/numbers.h"
#include "gui/theme/fonts.h"

namespace mantissa::gui {

namespace {

constexpr int kRow = 20, kHead = 24;

}  // namespace

WhatIfTable::WhatIfTable(QWidget* parent) : QTableWidget(parent) {
    setAccessibleName(tr("What if"));
    setToolTip(tr("Up and Down choose a setting; Ctrl+C copies the table"));
    verticalHeader()->hide();
    verticalHeader()->setDefaultSectionSize(kRow);
    verticalHeader()->setMinimumSectionSize(kRow);
    setShowGrid(false);
    setEditTriggers(QAbstractItemView::NoEditTriggers);
    setSelectionBehavior(QAbstractItemView::SelectRows);
    setSelectionMode(QAbstractItemView::SingleSelection);
    setFrameShape(QFrame::NoFrame);
    setTabKeyNavigation(false);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
    connect(this, &QTableWidget::currentCellChanged, this, [this](int row, int, int before, int) {
        if (row != before) Q_EMIT chosenChanged(row);
    });
    connect(&Theme::instance(), &Theme::changed, this, &WhatIfTable::fill);
}

void WhatIfTable::setRows(std::vector<WhatIfRow> rows, bool withSqnr, const QString& clippedHead) {
    const int before = currentRow();
    const QString kept = before >= 0 && before < int(rows_.size()) ? rows_[size_t(before)].setting : QString();
    rows_ = std::move(rows);
    withSqnr_ = withSqnr;
    const QSignalBlocker quiet(this);
    setColumnCount(withSqnr ? 4 : 3);
    QStringList heads{tr("Setting"), tr("Underflow"), clippedHead};
    if (withSqnr) heads << tr("SQNR");
    setHorizontalHeaderLabels(heads);
    setRowCount(int(rows_.size()));
    fill();
    for (int column = 0; column < columnCount(); ++column)
        horizontalHeader()->setSectionResizeMode(column,
                                                 column == 0 ? QHeaderView::Stretch : QHeaderView::ResizeToContents);
    int row = -1;
    for (size_t i = 0; i < rows_.size(); ++i)
        if (rows_[i].setting == kept) row = int(i);
    if (row >= 0)
        setCurrentCell(row, 0);
    else
        clearSelection(), setCurrentCell(-1, -1);
    updateGeometry();
}

void WhatIfTable::fill() {
    const auto put = [this](int row, int column, const QString& text, Token token, bool medium) {
        auto* item = new QTableWidgetItem(text);
        item->setForeground(color(token));
        item->setFont(uiFont(TextSize::Body, medium));
        item->setTextAlignment((column ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
        setItem(row, column, item);
    };
    for (int c = 0; c < columnCount(); ++c)
        if (QTableWidgetItem* head = horizontalHeaderItem(c))
            head->setTextAlignment((c ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    for (size_t i = 0; i < rows_.size(); ++i) {
        const WhatIfRow& row = rows_[i];
        const int r = int(i);
        put(r, 0, row.setting, row.asItIs || row.usable ? Token::Text : Token::Text2, row.asItIs);
        put(r, 1, std::isnan(row.underflow) ? notMeasured() : formatShare(row.underflow), row.underflowToken,
            row.underflowToken != Token::Text);
        const QString clipped = std::isnan(row.clipped) ? notMeasured() : formatShare(row.clipped);
        put(r, 2, row.note.isEmpty() ? clipped : clipped + QLatin1Char(' ') + row.note, row.clippedToken,
            row.clippedToken != Token::Text);
        if (withSqnr_)
            put(r, 3,
                std::isnan(row.sqnr)   ? notMeasured()
                : std::isinf(row.sqnr) ? tr("exact")
                                       : tr("%1 dB").arg(formatNumber(row.sqnr, 3)),
                Token::Text, false);
    }
}

QString WhatIfTable::tsv() const {
    QStringList lines;
    QStringList heads;
    for (int c = 0; c < columnCount(); ++c) heads << horizontalHeaderItem(c)->text();
    lines << heads.join(QLatin1Char('\t'));
    for (const WhatIfRow& row : rows_) {
        QStringList cells{row.setting, exact(row.underflow), exact(row.clipped)};
        if (withSqnr_) cells << exact(row.sqnr);
        lines << cells.join(QLatin1Char('\t'));
    }
    return lines.join(QLatin1Char('\n'));
}

QSize WhatIfTable::sizeHint() const {
    return {320, kHead + kRow * std::max(1, rowCount()) + 4};
}

void WhatIfTable::keyPressEvent(QKeyEvent* event) {
    if (event->matches(QKeySequence::Copy)) {
        QApplication::clipboard()->setText(tsv());
        return;
    }
    QTableWidget::keyPressEvent(event);
}

bool WhatIfTable::viewportEvent(QEvent* event) {
    if (event->type() == QEvent::ToolTip) {
        auto* help = static_cast<QHelpEvent*>(event);
        const int row = rowAt(help->pos().y());
        const QString text = row >= 0 && row < int(rows_.size()) ? rows_[size_t(row)].tooltip : QString();
        QToolTip::showText(help->globalPos(), text.isEmpty() ? toolTip() : text.toHtmlEscaped(), this);
        return true;
    }
    return QTableWidget::viewportEvent(event);
}

}  // namespace mantissa::gui
