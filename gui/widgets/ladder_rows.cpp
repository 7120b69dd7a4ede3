#include "gui/widgets/ladder_rows.h"

#include <QApplication>
#include <QClipboard>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>

#include "gui/format/numbers.h"
#include "gui/theme/fonts.h"
#include "gui/theme/icons.h"
#include "gui/widgets/ladder_charts.h"

namespace mantissa::gui {

using experiments::LadderResult;
using experiments::RungResult;
using experiments::RungState;

namespace {

constexpr double kHead = 30, kBarHeight = 15;
const char* const kMemory[] = {"weights", "gradients", "moments", "activations", "workspace", "host"};

QString milliseconds(double value) {
    return formatNumber(value, 3);
}

/// "1.12" of a rung against its predecessor, a dash for the first.
QString timesBefore(const LadderResult& ladder, const RungResult& rung) {
    const RungResult* before = ladder.before(rung);
    return before && rung.stepMs > 0 && told(ladder, rung) ? formatNumber(before->stepMs / rung.stepMs, 3)
                                                           : notMeasured();
}

QString energyText(const RungResult& rung) {
    return rung.millijoulesPerToken ? formatNumber(*rung.millijoulesPerToken, 3) : notMeasured();
}

double textWidth(const QFont& font, const QString& text) {
    return QFontMetricsF(font).horizontalAdvance(text);
}

}  // namespace

LadderRows::LadderRows(QWidget* parent) : QWidget(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Rungs"));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void LadderRows::setLadder(std::shared_ptr<const LadderResult> ladder, LadderExtras extras) {
    ladder_ = std::move(ladder);
    extras_ = std::move(extras);
    while (buttons_.size() < ladder_->rungs.size()) {
        const int rung = int(buttons_.size());
        auto* button = new QPushButton(tr("Run"), this);
        button->setIcon(icon(Glyph::Play));
        button->setFixedHeight(24);
        connect(button, &QPushButton::clicked, this, [this, rung] { Q_EMIT runRequested(rung); });
        buttons_.push_back(button);
    }
    for (size_t i = 0; i < ladder_->rungs.size(); ++i) {
        const QString title = QString::fromStdString(ladder_->rungs[i].title);
        buttons_[i]->setAccessibleName(tr("Run %1").arg(title));
        buttons_[i]->setToolTip(tr("Measure this rung alone: %1").arg(title));
    }
    QStringList sentence;
    for (const RungResult& rung : ladder_->rungs) {
        const QString title = QString::fromStdString(rung.title);
        sentence << (rung.state == RungState::Measured
                         ? tr("%1: %2 ms, %3")
                               .arg(title, milliseconds(rung.stepMs),
                                    QString::fromStdString(whatItBrought(*ladder_, rung)))
                         : tr("%1: %2").arg(title, QString::fromStdString(rung.text.empty() ? "not run" : rung.text)));
    }
    setAccessibleDescription(sentence.join(QStringLiteral("; ")));
    selected_ = std::min(selected_, int(ladder_->rungs.size()) - 1);
    updateGeometry();
    placeButtons();
    update();
}

QSize LadderRows::sizeHint() const {
    return {900, int(kHead + 46 * (ladder_ ? double(ladder_->rungs.size()) : 6))};
}

QSize LadderRows::minimumSizeHint() const {
    return {560, int(kHead + 38 * (ladder_ ? double(ladder_->rungs.size()) : 6))};
}

bool LadderRows::hasEnergy() const {
    return ladder_ && std::any_of(ladder_->rungs.begin(), ladder_->rungs.end(),
                                  [](const RungResult& rung) { return rung.millijoulesPerToken.has_value(); });
}

double LadderRows::rowHeight() const {
    const double rows = ladder_ && !ladder_->rungs.empty() ? double(ladder_->rungs.size()) : 1;
    return std::clamp((height() - kHead) / rows, 36.0, 52.0);
}

/// Right to left from the widest value or head; the time bar takes what is left.
LadderRows::Columns LadderRows::columns() const {
    const QFont body = uiFont(TextSize::Body, true), small = uiFont(TextSize::Small);
    double names = 0, ms = textWidth(small, tr("ms")), rate = textWidth(small, tr("k tokens/s"));
    double size = textWidth(small, QStringLiteral("GiB")), energy = textWidth(small, tr("mJ/token"));
    for (const RungResult& rung : ladder_->rungs) {
        names = std::max({names, textWidth(body, QString::fromStdString(rung.title)),
                          textWidth(small, QString::fromStdString(rung.note) + tr(" \u00b7 emulated"))});
        if (rung.state != RungState::Measured) continue;
        ms = std::max(ms, textWidth(body, milliseconds(rung.stepMs)));
        rate = std::max(rate, textWidth(body, formatNumber(rung.tokensPerSecond / 1e3, 4)));
        size = std::max(size, textWidth(body, formatSize(double(rung.planBytes))));
        energy = std::max(energy, textWidth(body, energyText(rung)));
    }
    Columns at{};
    at.rung = 14;
    at.energy = this->width() - 14;
    at.size = hasEnergy() ? at.energy - energy - 20 : at.energy;
    at.memoryRight = at.size - size - 12;
    at.memory = at.memoryRight - std::clamp(this->width() * 0.1, 48.0, 110.0);
    at.rate = at.memory - 22;
    at.before = at.rate - rate - 20;
    at.ms = at.before - textWidth(small, tr("\u00d7 before")) - 20;
    at.bar = at.rung + names + 22;
    at.barRight = at.ms - ms - 20;
    return at;
}

void LadderRows::paintHead(QPainter& painter, const Columns& at) const {
    painter.setFont(uiFont(TextSize::Small));
    painter.setPen(color(Token::Text2));
    const auto left = [&](double x, const QString& text) {
        painter.drawText(QRectF(x, 0, 400, kHead), Qt::AlignLeft | Qt::AlignVCenter, text);
    };
    const auto right = [&](double x, const QString& text) {
        painter.drawText(QRectF(x - 200, 0, 200, kHead), Qt::AlignRight | Qt::AlignVCenter, text);
    };
    left(at.rung, tr("Rung"));
    left(at.bar, tr("Time of a step, by phase"));
    right(at.ms, tr("ms"));
    right(at.before, tr("\u00d7 before"));
    right(at.rate, tr("k tokens/s"));
    left(at.memory, tr("Peak memory"));
    if (hasEnergy()) right(at.energy, tr("mJ/token"));
    painter.setPen(color(Token::Line));
    painter.drawLine(QPointF(0, kHead - 0.5), QPointF(this->width(), kHead - 0.5));
}

void LadderRows::paintMeasured(QPainter& painter, const Columns& at, const RungResult& rung, double y) const {
    double slowest = 0, largest = 0;
    for (const RungResult& other : ladder_->rungs) {
        if (other.state != RungState::Measured) continue;
        slowest = std::max(slowest, phaseSum(other));
        largest = std::max(largest, double(other.planBytes));
    }
    const double top = y + rowHeight() / 2 - kBarHeight - 2;
    paintPhases(painter, rung, QRectF(at.bar, top, at.barRight - at.bar, kBarHeight), slowest);
    const RungResult* before = ladder_->before(rung);
    painter.setFont(uiFont(TextSize::Small, true));
    painter.setPen(color(before && told(*ladder_, rung) && rung.stepMs < before->stepMs ? Token::Ok : Token::Text2));
    painter.drawText(QRectF(at.bar, top + kBarHeight + 2, at.barRight - at.bar, 16), Qt::AlignLeft | Qt::AlignVCenter,
                     QString::fromStdString(whatItBrought(*ladder_, rung)));
    const auto number = [&](double x, const QString& text, Token token, bool medium) {
        painter.setFont(uiFont(TextSize::Body, medium));
        painter.setPen(color(token));
        painter.drawText(QRectF(x - 160, top, 160, kBarHeight), Qt::AlignRight | Qt::AlignVCenter, text);
    };
    number(at.ms, milliseconds(rung.stepMs), Token::Text, true);
    number(at.before, timesBefore(*ladder_, rung), Token::Text2, false);
    number(at.rate, formatNumber(rung.tokensPerSecond / 1e3, 4), Token::Text2, false);
    number(at.size, formatSize(double(rung.planBytes)), Token::Text, true);
    if (hasEnergy()) number(at.energy, energyText(rung), Token::Text2, false);
    const QRectF memory(at.memory, top, at.memoryRight - at.memory, kBarHeight);
    painter.fillRect(memory, color(Token::Hover));
    double x = memory.left();
    for (int category = 0; category < 6 && largest > 0; ++category) {
        const auto found = rung.planBy.find(kMemory[category]);
        const double length = found == rung.planBy.end() ? 0 : double(found->second) / largest * memory.width();
        painter.fillRect(QRectF(x, top, std::max(0.0, length - 0.5), kBarHeight),
                         Theme::instance().memoryColor(category));
        x += length;
    }
}

void LadderRows::paintRow(QPainter& painter, const Columns& at, int index, double y) const {
    const RungResult& rung = ladder_->rungs[size_t(index)];
    const double height = rowHeight(), top = y + height / 2 - kBarHeight - 2;
    if (index == selected_) {
        painter.fillRect(QRectF(1, y, this->width() - 2, height), color(Token::Sel));
        if (hasFocus()) {
            painter.setPen(color(Token::Accent));
            painter.drawRect(QRectF(1.5, y + 0.5, this->width() - 4, height - 1));
        }
    }
    const bool measured = rung.state == RungState::Measured;
    painter.setFont(uiFont(TextSize::Body, true));
    painter.setPen(color(measured || index == extras_.running ? Token::Text : Token::Text2));
    painter.drawText(QRectF(at.rung, top, at.bar, kBarHeight), Qt::AlignLeft | Qt::AlignVCenter,
                     QString::fromStdString(rung.title));
    painter.setFont(uiFont(TextSize::Small));
    painter.setPen(color(index == selected_ ? Token::Text2 : Token::Text3));
    painter.drawText(
        QRectF(at.rung, top + kBarHeight + 2, at.bar, 16), Qt::AlignLeft | Qt::AlignVCenter,
        QString::fromStdString(rung.note) + (measured && !rung.native ? tr(" \u00b7 emulated") : QString()));
    if (measured) return paintMeasured(painter, at, rung, y);
    const bool failed = rung.state == RungState::Failed && index != extras_.running;
    const bool button = buttons_[size_t(index)]->isVisibleTo(this);
    const double left = at.bar + (button ? buttons_[size_t(index)]->width() + 12 : 0);
    QString words;
    if (index == extras_.running) {
        words = extras_.progress;
    } else if (rung.state == RungState::Running) {
        words = tr("running, step %1").arg(formatCount(rung.step));
    } else if (!rung.text.empty()) {
        words = QString::fromStdString(rung.text);
    } else if (size_t(index) < extras_.forecastSeconds.size() && extras_.forecastSeconds[size_t(index)] > 0) {
        words = tr("not run, takes about %1").arg(formatDuration(extras_.forecastSeconds[size_t(index)]));
    } else {
        words = tr("not run");
    }
    if (failed) paintGlyph(painter, Glyph::Bad, QRectF(left, y + height / 2 - 8, 16, 16), color(Token::Bad));
    painter.setPen(color(failed ? Token::Bad : index == selected_ ? Token::Text2 : Token::Text3));
    painter.drawText(QRectF(left + (failed ? 22 : 0), y + 2, this->width() - left - (failed ? 36 : 14), height - 4),
                     Qt::AlignLeft | Qt::AlignVCenter | Qt::TextWordWrap, words);
}

void LadderRows::paintEvent(QPaintEvent*) {
    if (!ladder_) return;
    QPainter painter(this);
    const Columns at = columns();
    paintHead(painter, at);
    for (int i = 0; i < int(ladder_->rungs.size()); ++i) paintRow(painter, at, i, kHead + i * rowHeight());
}

void LadderRows::placeButtons() {
    if (!ladder_) return;
    const Columns at = columns();
    for (size_t i = 0; i < buttons_.size(); ++i) {
        const bool there = i < ladder_->rungs.size() && ladder_->rungs[i].state != RungState::Measured &&
                           ladder_->rungs[i].state != RungState::Running && !extras_.busy;
        buttons_[i]->setVisible(there);
        if (!there) continue;
        buttons_[i]->adjustSize();
        buttons_[i]->setFixedHeight(24);
        buttons_[i]->move(int(at.bar), int(kHead + (double(i) + 0.5) * rowHeight() - 12));
    }
}

void LadderRows::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    placeButtons();
}

int LadderRows::rowAt(double y) const {
    const int row = y < kHead ? -1 : int((y - kHead) / rowHeight());
    return ladder_ && row < int(ladder_->rungs.size()) ? row : -1;
}

void LadderRows::mousePressEvent(QMouseEvent* event) {
    selected_ = rowAt(event->position().y());
    update();
}

void LadderRows::mouseDoubleClickEvent(QMouseEvent* event) {
    const int row = rowAt(event->position().y());
    if (row >= 0 && !ladder_->rungs[size_t(row)].run.empty())
        Q_EMIT openRequested(QString::fromStdString(ladder_->rungs[size_t(row)].run));
}

void LadderRows::keyPressEvent(QKeyEvent* event) {
    const int rows = ladder_ ? int(ladder_->rungs.size()) : 0;
    if (event->matches(QKeySequence::Copy)) {
        QApplication::clipboard()->setText(asText());
    } else if (event->key() == Qt::Key_Down && rows > 0) {
        selected_ = std::min(rows - 1, selected_ + 1);
    } else if (event->key() == Qt::Key_Up && rows > 0) {
        selected_ = std::max(0, selected_ - 1);
    } else if ((event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter) && selected_ >= 0) {
        if (const auto& run = ladder_->rungs[size_t(selected_)].run; !run.empty())
            Q_EMIT openRequested(QString::fromStdString(run));
    } else {
        return QWidget::keyPressEvent(event);
    }
    update();
}

bool LadderRows::event(QEvent* event) {
    if (event->type() != QEvent::ToolTip) return QWidget::event(event);
    auto* help = static_cast<QHelpEvent*>(event);
    const int row = rowAt(help->pos().y());
    if (row < 0) {
        QToolTip::hideText();
        return true;
    }
    QToolTip::showText(help->globalPos(), rungToolTip(*ladder_, ladder_->rungs[size_t(row)]).toHtmlEscaped(), this);
    return true;
}

QString LadderRows::asText() const {
    QString text = QStringLiteral(
        "rung\tms\tspread ms\tx before\ttokens/s\tmatmul ms\tattention ms\tnorm, cast ms\toptimizer ms\t"
        "gap ms\tmemory bytes\tmJ/token\n");
    if (!ladder_) return text;
    for (const RungResult& rung : ladder_->rungs) {
        QStringList cells{QString::fromStdString(rung.title)};
        if (rung.state == RungState::Measured) {
            const RungResult* before = ladder_->before(rung);
            cells << exact(rung.stepMs) << exact(rung.spreadMs)
                  << (before ? exact(before->stepMs / rung.stepMs) : QString()) << exact(rung.tokensPerSecond);
            for (const double phase : rung.phaseMs) cells << exact(phase);
            cells << QString::number(rung.planBytes)
                  << (rung.millijoulesPerToken ? exact(*rung.millijoulesPerToken) : QString());
        } else {
            cells << QString::fromStdString(rung.text.empty() ? "not run" : rung.text);
        }
        text += cells.join(QLatin1Char('\t')) + QLatin1Char('\n');
    }
    return text;
}

}  // namespace mantissa::gui
