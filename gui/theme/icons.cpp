#include "gui/theme/icons.h"

#include <QHash>
#include <QIconEngine>
#include <QPainter>
#include <QPainterPath>
#include <QSvgRenderer>
#include <cmath>

namespace mantissa::gui {
namespace {

// Bodies on a 16 x 16 grid. Default: stroke in the icon's colour, no fill; class F = filled, no stroke.
constexpr const char* kBodies[] = {
    "<path class='F' d='M4.5 3v10l8-5z'/>",
    "<path class='F' d='M4.2 3h2.4v10H4.2zM9.4 3h2.4v10H9.4z'/>",
    "<rect class='F' x='3.5' y='3.5' width='9' height='9' rx='1'/>",
    "<path d='M4 14V2.7h8.5l-2 3 2 3H4'/>",
    "<path d='M8 3v10M3 8h10'/>",
    "<circle cx='7' cy='7' r='4.2'/><path d='M10.2 10.2 13.5 13.5'/>",
    "<path d='M4.2 11.3V7a3.8 3.8 0 0 1 7.6 0v4.3l1.2 1H3zM6.8 14h2.4'/>",
    "<path d='M13 9.7A5.4 5.4 0 1 1 6.6 3a4.3 4.3 0 0 0 6.4 6.7z'/>",
    "<circle cx='8' cy='8' r='2.7'/><path d='M8 1.6v1.6M8 12.8v1.6M1.6 8h1.6M12.8 8h1.6M3.5 3.5l1.1 1.1M11.4 11.4l1.1 "
    "1.1M3.5 "
    "12.5l1.1-1.1M11.4 4.6l1.1-1.1'/>",
    "<path d='M1.5 8.5h3L6.5 3l3 10 2-4.5h3'/>",
    "<path d='M2.5 2.5h11v11h-11zM2.5 6.2h11M2.5 9.8h11M6.2 2.5v11M9.8 2.5v11'/>",
    "<path d='M1.5 12c3 0 3.5-8 6-8s2.5 5 7 5M1.5 6c3 0 4 6 7 6 2.500 0 3-6 6-7.500'/>",
    "<path d='M2.5 3.500h11M2.5 8h8M2.500 12.500h5' stroke-width='2'/>",
    "<path d='M1.700 4.500h3v7h-3zM11.300 4.500h3v7h-3z'/><path class='F' d='M6 4h4v8H6z'/>",
    "<path d='M4 4h8v8H4zM6.200 1.800V4M9.800 1.800V4M6.200 12v2.200M9.800 12v2.200M1.800 6.200H4M1.800 9.800H4M12 "
    "6.200h2.200M12 9.800h2.200'/>",
    "<path d='M2 3h12L9.500 8.400v4.300l-3-1.500V8.400z'/>",
    "<path d='M5.500 2h5M6.300 2v5L4.500 9.300h7L9.700 7V2M8 9.300v5'/>",
    "<path d='M1.500 8S4 3.700 8 3.700 14.500 8 14.500 8 12 12.300 8 12.300 1.500 8 1.500 8z'/><circle cx='8' cy='8' "
    "r='1.900'/>",
    "<path d='M8 2.200 14.500 13.500h-13zM8 6.500v3.300M8 11.400v.4'/>",
    "<path d='M5.400 1.900h5.200l3.500 3.500v5.200l-3.500 3.500H5.400l-3.500-3.500V5.400zM6 6l4 4M10 6l-4 4'/>",
    "<path d='M3 8.400 6.400 11.800 13 4.600'/>",
    "<circle cx='8' cy='8' r='6'/><path d='M8 7.300v3.800M8 4.900v.4'/>",
    "<path d='M4 6.200 8 10.200 12 6.200'/>",
    "<path d='M6.200 4l4 4-4 4'/>",
    "<path d='M4 9.800 8 5.800 12 9.800'/>",
    "<path class='F' d='M2.400 8a1.200 1.200 0 1 0 2.400 0 1.200 1.200 0 1 0-2.400 0M6.800 8a1.200 1.200 0 1 0 2.400 0 "
    "1.200 1.200 0 1 0-2.400 0M11.200 8a1.200 "
    "1.200 0 1 0 2.400 0 1.200 1.200 0 1 0-2.400 0'/>",
    "<path d='M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3'/>",
    "<path d='M1.800 12.800v-9.600h4l1.500 1.900h6.900v7.700z'/>",
    "<circle cx='8' cy='8' r='6'/><circle class='F' cx='8' cy='8' r='3.200'/>",
    "<circle cx='8' cy='8' r='6'/><path d='M5.200 8.300 7.200 10.300 10.900 6'/>",
    "<circle cx='8' cy='8' r='6'/><path d='M5.800 5.800l4.400 4.400M10.200 5.800l-4.400 4.400'/>",
    "<circle cx='8' cy='8' r='6' stroke-dasharray='2.200 2.500'/>",
    "<path d='M8 2a6 6 0 1 0 6 6M8 4.800V8l2.400 1.400M11 2.800l.1.100M13.200 5l.1.100'/>",
    "<circle cx='8' cy='8' r='6'/><path d='M3.900 12.100l8.200-8.200'/>",
    "<circle cx='8' cy='8' r='6'/><path d='M6.300 5.700v4.600M9.700 5.700v4.600'/>",
    "<circle cx='8' cy='8' r='6'/><rect class='F' x='5.600' y='5.600' width='4.800' height='4.800' rx='.6'/>",
    "<circle cx='8' cy='8' r='6'/><path class='F' d='M4.800 6.200h6.400L8 11.200z'/>",
    "<path d='M5.500 2.800 2.500 5.800l3 3M2.500 5.800h6.800a3.700 3.700 0 0 1 0 7.400H6'/>",
    "<path d='M1.800 8h8.400M7 4.800l3.200 3.200L7 11.200M13.500 3v10'/>",
    "<path d='M8 10V2M5 4.800 8 1.800l3 3M2.800 8v5.700h10.400V8'/>",
    "<path d='M8 1.800v12.400M2.600 4.900l10.800 6.200M13.400 4.900 2.600 11.100M6.500 2.600 8 4.100l1.500-1.500M6.500 "
    "13.400 8 11.900l1.500 1.500'/>",
    "<path d='M6 2h4M6.700 2v4.300L2.800 13.600h10.400L9.300 6.300V2M4.600 10.300h6.800'/>",
    "<path d='M2 5.400h11.500M10.700 2.700l2.800 2.700-2.800 2.700M14 10.700H2.500M5.300 8l-2.800 2.700 2.800 2.700'/>",
    "<path d='M3.800 3.800l8.400 8.400M12.200 3.800l-8.400 8.400'/>",
    "<path d='M8 13V3M4 7l4-4 4 4'/>",
    "<path d='M3 8h10M9 4l4 4-4 4'/>",
    "<path d='M2.200 3h11.600v10H2.200zM10 3v10'/>",
    "<path d='M2 3h12v8H2zM5.500 13.700h5M8 11v2.700'/>",
    "<circle cx='4.500' cy='3.500' r='1.700'/><circle cx='4.500' cy='12.500' r='1.700'/><circle cx='11.500' cy='5.500' "
    "r='1.700'/><path d='M4.500 5.200v5.600M11.500 7.200c0 2.600-2.500 2.800-5.600 4'/>",
};
static_assert(std::size(kBodies) == static_cast<size_t>(Glyph::Count));

QSvgRenderer& renderer(Glyph glyph, const QColor& color) {
    static auto& cache = *new QHash<QPair<int, QRgb>, QSvgRenderer*>;  // kept to the end, as what it points at
    QSvgRenderer*& entry = cache[{static_cast<int>(glyph), color.rgba()}];
    if (!entry) {
        QString body = QLatin1String(kBodies[static_cast<int>(glyph)]);
        body.replace(QStringLiteral("class='F'"), QStringLiteral("fill='%1' stroke='none'").arg(color.name()));
        const QString svg = QStringLiteral(
                                "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><g fill='none' "
                                "stroke='%1' stroke-width='1.35' "
                                "stroke-linecap='round' stroke-linejoin='round'>%2</g></svg>")
                                .arg(color.name(), body);
        entry = new QSvgRenderer(svg.toUtf8());
    }
    return *entry;
}

/// Draws in the theme's colour of the moment, so icons change with the theme without being set again.
class ThemeIconEngine : public QIconEngine {
  public:
    ThemeIconEngine(Glyph glyph, Token token, Token onToken) : glyph_(glyph), token_(token), onToken_(onToken) {}

    void paint(QPainter* painter, const QRect& rect, QIcon::Mode mode, QIcon::State state) override {
        const Token token = mode == QIcon::Disabled                         ? Token::Disabled
                            : state == QIcon::On || mode == QIcon::Selected ? onToken_
                                                                            : token_;
        paintGlyph(*painter, glyph_, rect, color(token));
    }
    QPixmap pixmap(const QSize& size, QIcon::Mode mode, QIcon::State state) override {
        if (size.isEmpty()) return QPixmap();  // a button that is not laid out yet asks too
        QPixmap pixmap(size);
        pixmap.fill(Qt::transparent);
        QPainter painter(&pixmap);
        paint(&painter, QRect(QPoint(), size), mode, state);
        return pixmap;
    }
    QIconEngine* clone() const override { return new ThemeIconEngine(*this); }

  private:
    Glyph glyph_;
    Token token_, onToken_;
};

QPolygonF star(const QPointF& c, qreal r, int points, qreal inner) {
    QPolygonF out;
    for (int i = 0; i < 2 * points; ++i) {
        const qreal angle = -M_PI / 2 + M_PI * i / points, radius = i % 2 ? r * inner : r;
        out << QPointF(c.x() + radius * std::cos(angle), c.y() + radius * std::sin(angle));
    }
    return out;
}

}  // namespace

void paintGlyph(QPainter& painter, Glyph glyph, const QRectF& rect, const QColor& color) {
    const qreal side = std::min(rect.width(), rect.height());
    const QRectF square(rect.center().x() - side / 2, rect.center().y() - side / 2, side, side);
    renderer(glyph, color).render(&painter, square);
}

QIcon icon(Glyph glyph, Token token, Token onToken) {
    return QIcon(new ThemeIconEngine(glyph, token, onToken));
}

QPixmap glyphPixmap(Glyph glyph, int size, const QColor& color, qreal ratio) {
    QPixmap pixmap(static_cast<int>(std::ceil(size * ratio)), static_cast<int>(std::ceil(size * ratio)));
    pixmap.setDevicePixelRatio(ratio);
    pixmap.fill(Qt::transparent);
    QPainter painter(&pixmap);
    paintGlyph(painter, glyph, QRectF(0, 0, size, size), color);
    return pixmap;
}

void paintMarker(QPainter& painter, Marker marker, const QPointF& c, qreal s, const QColor& fill) {
    painter.save();
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(Qt::NoPen);
    painter.setBrush(fill);
    const auto strokes = [&](std::initializer_list<QLineF> lines) {
        painter.setPen(QPen(fill, 1.8, Qt::SolidLine, Qt::FlatCap));
        for (const QLineF& line : lines) painter.drawLine(line.translated(c));
    };
    switch (marker) {
        case Marker::Circle:
            painter.drawEllipse(c, s, s);
            break;
        case Marker::Square:
            painter.drawRect(QRectF(c.x() - s * .9, c.y() - s * .9, 1.8 * s, 1.8 * s));
            break;
        case Marker::Triangle:
            painter.drawPolygon(QPolygonF{
                {c.x(), c.y() - s * 1.1}, {c.x() + s * 1.1, c.y() + s * .9}, {c.x() - s * 1.1, c.y() + s * .9}});
            break;
        case Marker::TriangleDown:
            painter.drawPolygon(QPolygonF{
                {c.x(), c.y() + s * 1.1}, {c.x() + s * 1.1, c.y() - s * .9}, {c.x() - s * 1.1, c.y() - s * .9}});
            break;
        case Marker::Diamond:
            painter.drawPolygon(QPolygonF{{c.x(), c.y() - s * 1.25},
                                          {c.x() + s * 1.25, c.y()},
                                          {c.x(), c.y() + s * 1.25},
                                          {c.x() - s * 1.25, c.y()}});
            break;
        case Marker::Cross:
            strokes({{-s, -s, s, s}, {-s, s, s, -s}});
            break;
        case Marker::Plus:
            strokes({{-s * 1.2, 0, s * 1.2, 0}, {0, -s * 1.2, 0, s * 1.2}});
            break;
        case Marker::Star:
            painter.drawPolygon(star(c, s * 1.35, 6, 0.45));
            break;
    }
    painter.restore();
}

void paintSample(QPainter& painter, const SeriesStyle& style, const QRectF& rect) {
    painter.save();
    painter.setRenderHint(QPainter::Antialiasing);
    QPen pen(style.color, 2, Qt::SolidLine, Qt::FlatCap);
    if (!style.dash.isEmpty()) {
        QVector<qreal> dash = style.dash;
        for (qreal& length : dash) length /= 2;  // Qt counts dashes in pen widths
        pen.setDashPattern(dash);
    }
    painter.setPen(pen);
    const QPointF c = rect.center();
    painter.drawLine(QPointF(rect.left(), c.y()), QPointF(rect.right(), c.y()));
    paintMarker(painter, style.marker, c, 3.2, style.color);
    painter.restore();
}

}  // namespace mantissa::gui
