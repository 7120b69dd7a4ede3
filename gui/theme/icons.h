// Line icons on a 16 px grid, drawn from path data in a token's colour; they follow the theme by themselves.
#pragma once

#include <QIcon>
#include <QPixmap>
#include <QRectF>

#include "gui/theme/theme.h"

class QPainter;

namespace mantissa::gui {

enum class Glyph {
    Play,
    Pause,
    Stop,
    Flag,
    Plus,
    Search,
    Bell,
    Moon,
    Sun,
    Pulse,
    Grid,
    Curves,
    Bars,
    Numbers,
    Chip,
    Funnel,
    Pin,
    Eye,
    Warning,
    Bad,
    Check,
    Info,
    ChevronDown,
    ChevronRight,
    ChevronUp,
    Dots,
    Copy,
    Folder,
    Running,
    Finished,
    Failed,
    Queued,
    Interrupted,
    Refused,
    Paused,
    Stopped,
    Diverged,
    Undo,
    Follow,
    Export,
    Snowflake,
    Flask,
    Swap,
    Close,
    ArrowUp,
    ArrowRight,
    Panel,
    Monitor,
    Fork,
    Count
};

/// Paints into a square that fits `rect`, 1.35 px line on the 16 grid.
void paintGlyph(QPainter& painter, Glyph glyph, const QRectF& rect, const QColor& color);
/// Follows the theme; disabled state in the `disabled` token, `on` state in `onToken`.
QIcon icon(Glyph glyph, Token token = Token::Text2, Token onToken = Token::Accent);
QPixmap glyphPixmap(Glyph glyph, int size, const QColor& color, qreal ratio);
/// Filled marker of a series centred at `centre`, about 7 px wide at size 3.5.
void paintMarker(QPainter& painter, Marker marker, const QPointF& centre, qreal size, const QColor& fill);
/// Line sample with dash and marker, as in run lists and legends (24 x 10 fits).
void paintSample(QPainter& painter, const SeriesStyle& style, const QRectF& rect);

}  // namespace mantissa::gui
