#include "gui/widgets/trouble_grid.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/theme/fonts.h"

namespace mantissa::gui {

namespace {

constexpr double kHead = 40, kLabels = 76, kRight = 12, kGroupGap = 4, kStepGap = 6, kLeast = 13, kMost = 20;

}  // namespace

TroubleGrid::TroubleGrid(QWidget* parent) : QWidget(parent) {
    setMouseTracking(true);
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Tensors of the last recorded steps"));
    info_ = &shownStatistics()[3];
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void TroubleGrid::setReport(std::shared_ptr<const TroubleReport> report, std::vector<engine::CatalogueEntry> catalogue,
                            int margin) {
    report_ = std::move(report);
    catalogue_ = std::move(catalogue);
    margin_ = margin;
    rows_.clear();
    groups_ = 0;
    for (int t = 0; t < int(catalogue_.size()); ++t) {
        const auto& entry = catalogue_[size_t(t)];
        const QString layer = QString::fromStdString(entry.layer), linear = shortLinear(entry.linear);
        auto row = std::find_if(rows_.begin(), rows_.end(),
                                [&](const Row& r) { return r.layer == layer && r.linear == linear; });
        if (row == rows_.end()) {
            groups_ += rows_.empty() || rows_.back().layer != layer ? 1 : 0;
            rows_.push_back({layer, linear, {-1, -1, -1}, groups_ - 1});
            row = rows_.end() - 1;
        }
        row->tensor[int(entry.role)] = t;
    }
    setAccessibleDescription(report_ ? report_->headline : QString());
    setStatistic(*info_);
    updateGeometry();
}

void TroubleGrid::setStatistic(const StatisticInfo& info) {
    info_ = &info;
    double low = INFINITY, high = 0;
    if (report_)
        for (int c = 0; c < int(report_->steps.size()); ++c)
            for (int t = 0; t < int(catalogue_.size()); ++t)
                if (const double v = value(t, c); std::isfinite(v) && v > 0) {
                    low = std::min(low, v);
                    high = std::max(high, v);
                }
    scale_ = heatScale(info, low, high);
    update();
    Q_EMIT scaleChanged();
}

double TroubleGrid::value(int tensor, int column) const {
    const auto& entry = catalogue_[size_t(tensor)];
    const auto& t = report_->records[size_t(column)]->tensors[size_t(tensor)];
    if (t.counters[0] == 0) return NAN;  // nothing was cast: BF16
    return valueOf(t, info_->statistic, entry.format, margin_);
}

double TroubleGrid::rowHeight() const {
    const double room = height() - kHead - 8 - std::max(0, groups_ - 1) * kGroupGap;
    return std::clamp(std::floor(room / std::max<size_t>(1, rows_.size())), kLeast, kMost);
}

double TroubleGrid::rowTop(int row) const {
    return kHead + row * rowHeight() + rows_[size_t(row)].group * kGroupGap;
}

QRectF TroubleGrid::cellRect(int row, int column, int role) const {
    const int steps = std::max<int>(1, report_ ? int(report_->steps.size()) : 1);
    const double pitch = std::min(120.0, (width() - kLabels - kRight) / steps), cell = (pitch - kStepGap) / 3;
    return {kLabels + column * pitch + role * cell, rowTop(row), cell - 1, rowHeight() - 1};
}

QSize TroubleGrid::minimumSizeHint() const {
    const int steps = std::max<int>(1, report_ ? int(report_->steps.size()) : 1);
    return {int(kLabels + kRight) + steps * 34,
            int(kHead + kLeast * double(std::max<size_t>(1, rows_.size())) + groups_ * kGroupGap) + 8};
}

QSize TroubleGrid::sizeHint() const {
    return minimumSizeHint();
}

QRect TroubleGrid::firstCell() const {
    if (!report_ || report_->tensor < 0) return {};
    for (int r = 0; r < int(rows_.size()); ++r)
        for (int role = 0; role < 3; ++role)
            if (rows_[size_t(r)].tensor[role] == report_->tensor)
                return cellRect(r, int(report_->steps.size()) - 1, role).toAlignedRect();
    return {};
}

TroubleGrid::Cell TroubleGrid::cellAt(const QPointF& position) const {
    if (!report_) return {};
    for (int r = 0; r < int(rows_.size()); ++r) {
        if (position.y() < rowTop(r) || position.y() >= rowTop(r) + rowHeight()) continue;
        for (int c = 0; c < int(report_->steps.size()); ++c)
            for (int role = 0; role < 3; ++role)
                if (cellRect(r, c, role).adjusted(0, 0, 1, 1).contains(position))
                    return {rows_[size_t(r)].tensor[role], c};
    }
    return {};
}

void TroubleGrid::paintCell(QPainter& painter, const QRectF& rect, int tensor, int column) const {
    const auto& t = report_->records[size_t(column)]->tensors[size_t(tensor)];
    if (notFinite(t)) {
        const bool first = tensor == report_->tensor && report_->steps[size_t(column)] == report_->step;
        painter.fillRect(rect,
                         first ? color(Token::Nonfinite) : mix(color(Token::Panel), color(Token::Nonfinite), 0.5));
        painter.setRenderHint(QPainter::Antialiasing);
        painter.setPen(QPen(color(first ? Token::Window : Token::Text), 1.3));
        const QPointF m = rect.center();
        painter.drawLine(m + QPointF(-2.5, -2.5), m + QPointF(2.5, 2.5));
        painter.drawLine(m + QPointF(-2.5, 2.5), m + QPointF(2.5, -2.5));
        painter.setRenderHint(QPainter::Antialiasing, false);
        return;
    }
    const double v = value(tensor, column);
    if (std::isnan(v)) {
        painter.fillRect(rect, color(Token::Raised));
        painter.fillRect(QRectF(rect.center().x() - 3, rect.center().y(), 6, 1), color(Token::Text3));
    } else {
        painter.fillRect(rect, QColor(scale_.colour(v)));
    }
}

void TroubleGrid::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    if (!report_ || report_->steps.empty() || rows_.empty()) {
        painter.setFont(uiFont(TextSize::Body));
        painter.setPen(color(Token::Text2));
        painter.drawText(rect(), Qt::AlignCenter, tr("No tensor was recorded in the steps before."));
        return;
    }
    const char* const roles[] = {"x", "w", "dy"};
    for (int c = 0; c < int(report_->steps.size()); ++c) {
        const bool bad = report_->steps[size_t(c)] == report_->step;
        const QRectF first = cellRect(0, c, 0), last = cellRect(0, c, 2);
        painter.setFont(uiFont(TextSize::Small, bad));
        painter.setPen(color(bad ? Token::Text : Token::Text2));
        painter.drawText(QRectF(first.left() - 6, 4, last.right() - first.left() + 12, 16), Qt::AlignCenter,
                         formatCount(report_->steps[size_t(c)]));
        painter.setFont(uiFont(TextSize::Small));
        painter.setPen(color(Token::Text3));
        for (int role = 0; role < 3; ++role)
            painter.drawText(QRectF(cellRect(0, c, role).left() - 4, 21, cellRect(0, c, role).width() + 8, 16),
                             Qt::AlignCenter, QLatin1String(roles[role]));
    }
    for (int r = 0; r < int(rows_.size()); ++r) {
        const Row& row = rows_[size_t(r)];
        const bool here =
            std::find(row.tensor, row.tensor + 3, report_->tensor) != row.tensor + 3 && report_->tensor >= 0;
        painter.setFont(uiFont(TextSize::Small, here));
        painter.setPen(color(here ? Token::Text : Token::Text2));
        const bool alone = row.layer == QLatin1String("lm_head");  // a group of one row, named as in the heatmap
        painter.drawText(QRectF(34, rowTop(r) - 2, kLabels - 40, rowHeight() + 3), Qt::AlignRight | Qt::AlignVCenter,
                         alone ? QStringLiteral("head") : row.linear);
        if (r == 0 || rows_[size_t(r) - 1].group != row.group) {
            painter.setPen(color(Token::Text3));
            painter.drawText(QRectF(6, rowTop(r) - 2, 40, rowHeight() + 3), Qt::AlignLeft | Qt::AlignVCenter,
                             alone ? QString() : row.layer);
        }
        for (int c = 0; c < int(report_->steps.size()); ++c)
            for (int role = 0; role < 3; ++role)
                if (row.tensor[role] >= 0) paintCell(painter, cellRect(r, c, role), row.tensor[role], c);
    }
    painter.setBrush(Qt::NoBrush);
    if (const QRect first = firstCell(); !first.isEmpty()) {
        painter.setPen(QPen(color(Token::Text), 1.5));
        painter.drawRect(QRectF(first).adjusted(-1, -1, 0.5, 0.5));
    }
    if (hasFocus()) {
        painter.setPen(color(Token::Accent));
        painter.drawRect(cellRect(focusRow_, focusColumn_ / 3, focusColumn_ % 3).adjusted(-1.5, -1.5, 1.5, 1.5));
    }
}

QString TroubleGrid::cellText(int tensor, int column) const {
    const auto& t = report_->records[size_t(column)]->tensors[size_t(tensor)];
    const QString what =
        notFinite(t) ? tr("%1 NaN, %2 Inf").arg(formatCount(qint64(t.counters[7])), formatCount(qint64(t.counters[6])))
                     : tr("%1 %2").arg(info_->name, statisticText(*info_, value(tensor, column)));
    return tr("%1    step %2    %3")
        .arg(tensorTitle(catalogue_[size_t(tensor)]), formatCount(report_->steps[size_t(column)]), what);
}

void TroubleGrid::say(int tensor, int column) {
    Q_EMIT hovered(tensor < 0 || column < 0 ? QString() : cellText(tensor, column));
}

void TroubleGrid::mouseMoveEvent(QMouseEvent* event) {
    const Cell cell = cellAt(event->position());
    say(cell.tensor, cell.column);
}

void TroubleGrid::mousePressEvent(QMouseEvent* event) {
    const Cell cell = cellAt(event->position());
    if (cell.tensor >= 0) Q_EMIT chosen(cell.tensor, report_->steps[size_t(cell.column)]);
}

void TroubleGrid::leaveEvent(QEvent*) {
    Q_EMIT hovered(QString());
}

void TroubleGrid::keyPressEvent(QKeyEvent* event) {
    if (!report_ || rows_.empty()) return QWidget::keyPressEvent(event);
    switch (event->key()) {
        case Qt::Key_Left:
            --focusColumn_;
            break;
        case Qt::Key_Right:
            ++focusColumn_;
            break;
        case Qt::Key_Up:
            --focusRow_;
            break;
        case Qt::Key_Down:
            ++focusRow_;
            break;
        case Qt::Key_Return:
        case Qt::Key_Space:
            if (const int tensor = rows_[size_t(focusRow_)].tensor[focusColumn_ % 3]; tensor >= 0)
                Q_EMIT chosen(tensor, report_->steps[size_t(focusColumn_ / 3)]);
            return;
        default:
            return QWidget::keyPressEvent(event);
    }
    focusRow_ = std::clamp(focusRow_, 0, int(rows_.size()) - 1);
    focusColumn_ = std::clamp(focusColumn_, 0, int(report_->steps.size()) * 3 - 1);
    say(rows_[size_t(focusRow_)].tensor[focusColumn_ % 3], focusColumn_ / 3);
    update();
}

}  // namespace mantissa::gui
