#include "gui/widgets/plan_grid.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include "gui/theme/fonts.h"
#include "gui/theme/theme.h"

namespace mantissa::gui {
namespace {

constexpr int kCell = 18, kCellHeight = 15, kPitch = 19, kGroupGap = 10, kHead = 18, kHeadGap = 5;

QString shortType(const engine::EffectivePrecision& row) {
    if (row.recipe == "mxfp8") return QStringLiteral("mx");
    if (row.recipe == "nvfp4") return QStringLiteral("nv");
    if (row.recipe == "block128") return QStringLiteral("bl");
    if (row.a == "e5m2" || row.b == "e5m2") return QStringLiteral("e5");
    if (row.a == "e4m3" || row.b == "e4m3") return QStringLiteral("e4");
    if (row.a == "bf16") return QStringLiteral("bf");
    if (row.a == "fp16") return QStringLiteral("16");
    if (row.a == "tf32") return QStringLiteral("tf");
    return QStringLiteral("32");
}

bool isFp8(const QString& cell) {
    return cell.startsWith(QLatin1Char('e')) || cell == QLatin1String("mx") || cell == QLatin1String("nv") ||
           cell == QLatin1String("bl");
}

}  // namespace

PlanGrid::PlanGrid(QWidget* parent) : QWidget(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(false);
    setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
    setAccessibleName(tr("Precision plan"));
    setToolTip(tr("Click, drag or space switches a product between the recipe and BF16; arrow keys move"));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void PlanGrid::setPlan(const std::vector<engine::EffectivePrecision>& plan) {
    QVector<Row> layers;
    fp8_ = total_ = 0;
    for (const engine::EffectivePrecision& entry : plan) {
        const QString layer = QString::fromStdString(entry.layer), linear = QString::fromStdString(entry.linear);
        auto it = std::find_if(layers.begin(), layers.end(), [&](const Row& row) { return row.title == layer; });
        if (it == layers.end()) {
            layers.push_back({layer, {layer}, {}, {}});
            it = layers.end() - 1;
        }
        auto place = it->linears.indexOf(linear);
        if (place < 0) {
            place = it->linears.size();
            it->linears << linear;
            it->cells.resize(it->cells.size() + 3);
        }
        const int gemm = entry.gemm == "fprop" ? 0 : entry.gemm == "dgrad" ? 1 : 2;
        it->cells[place * 3 + gemm] = shortType(entry);
        ++total_;
        fp8_ += isFp8(it->cells[place * 3 + gemm]);
    }
    rows_.clear();
    const qsizetype blocks = std::count_if(layers.begin(), layers.end(),
                                           [](const Row& row) { return row.title.startsWith(QLatin1String("h.")); });
    for (qsizetype i = 0; i < layers.size(); ++i) {
        const bool middle = blocks > 8 && i > 2 && i < blocks - 2;
        if (middle && rows_.last().cells == layers[i].cells) {
            rows_.last().layers << layers[i].title;
            rows_.last().title = QStringLiteral("%1 \u2013 %2").arg(rows_.last().layers.first(), layers[i].title);
        } else {
            rows_.push_back(layers[i]);
        }
    }
    row_ = std::clamp(row_, 0, std::max(0, static_cast<int>(rows_.size()) - 1));
    setAccessibleDescription(tr("%1 of %2 products in FP8").arg(fp8_).arg(total_));
    updateGeometry();
    update();
}

int PlanGrid::labelWidth() const {
    const QFontMetrics metrics(uiFont(TextSize::Small));
    int width = metrics.horizontalAdvance(QStringLiteral("lm_head"));
    for (const Row& row : rows_) width = std::max(width, metrics.horizontalAdvance(row.title));
    return width + 8;
}

int PlanGrid::rowTop(int row) const {
    const bool head = rows_.value(row).title == QLatin1String("lm_head");
    return kHead + kHeadGap - 5 + row * kPitch + (head ? 4 : 0);
}

QRect PlanGrid::cellRect(int row, int column) const {
    return {labelWidth() + column * kPitch + column / 3 * kGroupGap, rowTop(row), kCell, kCellHeight + 3};
}

QSize PlanGrid::sizeHint() const {
    const int rows = std::max<int>(1, static_cast<int>(rows_.size()));
    return {labelWidth() + 12 * kPitch + 3 * kGroupGap, rowTop(rows - 1) + kPitch + 4};
}

QPair<int, int> PlanGrid::cellAt(const QPoint& position) const {
    for (int r = 0; r < rows_.size(); ++r)
        for (int c = 0; c < rows_[r].cells.size(); ++c)
            if (cellRect(r, c).contains(position)) return {r, c};
    return {-1, -1};
}

QString PlanGrid::cellName(int row, int column) const {
    static const char* const gemms[] = {"fprop", "dgrad", "wgrad"};
    static const QHash<QString, QString> types = {{QStringLiteral("e4"), QStringLiteral("E4M3")},
                                                  {QStringLiteral("e5"), QStringLiteral("E5M2 gradient")},
                                                  {QStringLiteral("mx"), QStringLiteral("MXFP8")},
                                                  {QStringLiteral("nv"), QStringLiteral("NVFP4")},
                                                  {QStringLiteral("bl"), QStringLiteral("FP8 in blocks of 128")},
                                                  {QStringLiteral("bf"), QStringLiteral("BF16")},
                                                  {QStringLiteral("16"), QStringLiteral("FP16")},
                                                  {QStringLiteral("tf"), QStringLiteral("TF32")},
                                                  {QStringLiteral("32"), QStringLiteral("FP32")}};
    const Row& r = rows_[row];
    return QStringLiteral("%1 %2 %3: %4")
        .arg(r.title, r.linears.value(column / 3), QLatin1String(gemms[column % 3]), types.value(r.cells[column]));
}

void PlanGrid::toggle(int row, int column, bool bf16) {
    if (row < 0 || row >= rows_.size() || column >= rows_[row].cells.size()) return;
    const Row r = rows_[row];
    const QString linear = r.title == QLatin1String("lm_head") ? QString() : r.linears.value(column / 3);
    Q_EMIT cellToggled(r.layers, linear, column % 3, bf16);
}

void PlanGrid::mousePressEvent(QMouseEvent* event) {
    const auto [r, c] = cellAt(event->position().toPoint());
    if (r < 0 || event->button() != Qt::LeftButton) return;
    row_ = r;
    column_ = c;
    painting_ = isFp8(rows_[r].cells[c]);  // a drag gives all cells what the first became
    painted_ = {{r, c}};
    toggle(r, c, painting_);
    update();
}

void PlanGrid::mouseMoveEvent(QMouseEvent* event) {
    const auto cell = cellAt(event->position().toPoint());
    if (!(event->buttons() & Qt::LeftButton) || cell.first < 0 || painted_.contains(cell)) return;
    painted_ << cell;
    toggle(cell.first, cell.second, painting_);
}

void PlanGrid::keyPressEvent(QKeyEvent* event) {
    if (rows_.isEmpty()) return QWidget::keyPressEvent(event);
    switch (event->key()) {
        case Qt::Key_Left:
            --column_;
            break;
        case Qt::Key_Right:
            ++column_;
            break;
        case Qt::Key_Up:
            --row_;
            break;
        case Qt::Key_Down:
            ++row_;
            break;
        case Qt::Key_Space:
            toggle(row_, column_, isFp8(rows_[row_].cells.value(column_)));
            return;
        default:
            return QWidget::keyPressEvent(event);
    }
    row_ = std::clamp(row_, 0, static_cast<int>(rows_.size()) - 1);
    column_ = std::clamp(column_, 0, static_cast<int>(rows_[row_].cells.size()) - 1);
    setAccessibleDescription(cellName(row_, column_));
    update();
}

void PlanGrid::focusInEvent(QFocusEvent* event) {
    QWidget::focusInEvent(event);
    update();
}

void PlanGrid::focusOutEvent(QFocusEvent* event) {
    QWidget::focusOutEvent(event);
    update();
}

bool PlanGrid::event(QEvent* event) {
    if (event->type() == QEvent::ToolTip) {
        auto* help = static_cast<QHelpEvent*>(event);
        const auto [r, c] = cellAt(help->pos());
        QToolTip::showText(help->globalPos(), r < 0 ? toolTip() : cellName(r, c), this);
        return true;
    }
    return QWidget::event(event);
}

void PlanGrid::paintEvent(QPaintEvent*) {
    QPainter p(this);
    const bool dark = Theme::instance().isDark();
    const QColor strong = mix(color(Token::Panel), color(Token::Accent), dark ? 0.42 : 0.34),
                 weak = mix(color(Token::Panel), color(Token::Accent), dark ? 0.24 : 0.18);
    const char* const heads[] = {"qkv", "proj", "fc1", "fc2"};
    p.setFont(uiFont(TextSize::Small));
    p.setPen(color(Token::Text2));
    for (int i = 0; i < 4; ++i)
        p.drawText(QRect(cellRect(0, i * 3).left(), 0, 3 * kPitch, kHead), Qt::AlignCenter, QLatin1String(heads[i]));
    for (int r = 0; r < rows_.size(); ++r) {
        p.setPen(color(Token::Text2));
        p.drawText(QRect(0, rowTop(r), labelWidth() - 8, kCellHeight + 3), Qt::AlignVCenter | Qt::AlignRight,
                   rows_[r].title);
        for (int c = 0; c < rows_[r].cells.size(); ++c) {
            const QString& cell = rows_[r].cells[c];
            const QRect rect = cellRect(r, c);
            p.fillRect(rect.adjusted(0, 0, 0, -1), cell == QLatin1String("e5") ? weak
                                                   : isFp8(cell)               ? strong
                                                                               : color(Token::Hover));
            p.setPen(isFp8(cell) ? color(Token::Text) : color(Token::Text2));
            p.drawText(rect.adjusted(0, 0, 0, -1), Qt::AlignCenter, cell);
        }
    }
    if (hasFocus() && row_ < rows_.size()) {
        p.setPen(color(Token::Accent));
        p.drawRect(cellRect(row_, column_).adjusted(-1, -1, 0, -1));
    }
}

}  // namespace mantissa::gui
