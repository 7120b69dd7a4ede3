// The Numerics page's ranking: all tensors, or all products that were measured, the worst first.
#include <QComboBox>
#include <QHeaderView>
#include <QStackedWidget>
#include <QTableWidget>
#include <algorithm>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/models/statistic_map.h"
#include "gui/pages/numerics_page.h"
#include "gui/theme/fonts.h"

namespace mantissa::gui {

using namespace experiments;

namespace {

enum Topic { kRanks = 40 };

}  // namespace

QWidget* NumericsPage::buildRanks() {
    ranks_ = new QTableWidget(0, 4, stack_);
    ranks_->verticalHeader()->hide();
    ranks_->verticalHeader()->setDefaultSectionSize(22);
    ranks_->verticalHeader()->setMinimumSectionSize(22);
    ranks_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    ranks_->horizontalHeader()->setSectionResizeMode(1, QHeaderView::Stretch);
    ranks_->setShowGrid(false);
    ranks_->setEditTriggers(QAbstractItemView::NoEditTriggers);
    ranks_->setSelectionBehavior(QAbstractItemView::SelectRows);
    ranks_->setSelectionMode(QAbstractItemView::SingleSelection);
    ranks_->setFrameShape(QFrame::NoFrame);
    ranks_->setTabKeyNavigation(false);
    ranks_->setAccessibleName(QStringLiteral("Tensors ranked"));
    ranks_->setToolTip(QStringLiteral("Worst value within the steps in view; a row shows its tensor at that step"));
    const auto show = [this](int row) {
        const QTableWidgetItem* item = row >= 0 ? ranks_->item(row, 0) : nullptr;
        if (!item) return;
        link_.setCursor(item->data(Qt::UserRole + 1).toDouble());
        selectTensor(item->data(Qt::UserRole).toInt());
    };
    connect(ranks_, &QTableWidget::currentCellChanged, this, [show](int row, int, int before, int) {
        if (row != before) show(row);
    });
    connect(ranks_, &QTableWidget::cellClicked, this, [show](int row, int) { show(row); });
    return ranks_;
}

void NumericsPage::loadRanks() {
    const auto view = link_.view();
    const int64_t last = int64_t(std::min(std::ceil(view.high), link_.extent().high));
    const int64_t first = std::clamp<int64_t>(int64_t(std::floor(view.low)), 1, last);
    controller().load(
        this, kRanks,
        [id = run_.id().toStdString(), shown = info(), first, last](RunStore& store) {
            return rankTensors(store, id, shown, first, last);
        },
        [this, id = run_.id(), first, last](const std::vector<RankRow>& rows) {
            if (id != run_.id() || view_->currentIndex() != kRanked) return;
            const StatisticInfo& shown = info();
            const QSignalBlocker quiet(ranks_);
            ranks_->setHorizontalHeaderLabels({QStringLiteral("#"),
                                               shown.shadow ? QStringLiteral("Product") : QStringLiteral("Tensor"),
                                               shown.title, QStringLiteral("At step")});
            for (int c : {0, 2, 3})
                ranks_->horizontalHeaderItem(c)->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
            ranks_->horizontalHeaderItem(1)->setTextAlignment(Qt::AlignLeft | Qt::AlignVCenter);
            ranks_->setRowCount(int(rows.size()));
            int chosen = -1;
            for (int r = 0; r < int(rows.size()); ++r) {
                const RankRow& row = rows[size_t(r)];
                if (row.tensor == tensor_) chosen = r;
                QString value = row.nonFinite ? QStringLiteral("not finite") : statisticText(shown, row.worst);
                if (shown.shadow && std::isfinite(row.worst))
                    value += QStringLiteral(", error %1").arg(formatShare(std::pow(10.0, -row.worst / 20)));
                const QString cells[] = {formatCount(r + 1), row.name, value, formatCount(row.step)};
                for (int c = 0; c < 4; ++c) {
                    auto* item = new QTableWidgetItem(cells[c]);
                    item->setFont(uiFont(TextSize::Body, c == 1));
                    item->setTextAlignment((c == 1 ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
                    if (row.nonFinite && c == 2) item->setForeground(color(Token::Nonfinite));
                    item->setData(Qt::UserRole, row.tensor);
                    item->setData(Qt::UserRole + 1, double(row.step));
                    ranks_->setItem(r, c, item);
                }
            }
            ranks_->setCurrentCell(chosen, 0);
            card_->setHint(rows.empty() && shown.shadow
                               ? QStringLiteral("no product was measured in these steps: probes.shadow_every")
                               : QStringLiteral("steps %1 to %2").arg(formatCount(first), formatCount(last)));
        });
}

}  // namespace mantissa::gui
