// What a PlotView shows: curves, bands, limit lines and events, in colours that follow the theme.
#pragma once

#include <QColor>
#include <QString>
#include <QVector>
#include <functional>
#include <memory>
#include <optional>

#include "gui/plot/axis_scale.h"
#include "gui/plot/series_pyramid.h"
#include "gui/theme/icons.h"
#include "gui/theme/theme.h"

namespace mantissa::gui {

using SharedSeries = std::shared_ptr<const SeriesPyramid>;

/// A colour by its meaning, looked up when painted.
struct Ink {
    int series = -1;  ///< >= 0: colour of that run; else token
    Token token = Token::Text2;
    double opacity = 1;
    static Ink of(Token token, double opacity = 1) { return {-1, token, opacity}; }
    static Ink run(int index, double opacity = 1) { return {index, Token::Text, opacity}; }
    QColor color() const;
};

struct PlotCurve {
    QString name;  ///< plain text; drawn by QPainter only
    SharedSeries data;
    Ink ink;
    double width = 1;                    ///< logical pixels; 0: markers alone
    QVector<qreal> dash;                 ///< logical pixels
    std::optional<Marker> sampleMarker;  ///< at every sample (thinned to one in 9 px)
    std::optional<Marker> runMarker;     ///< some five along the curve, to tell it from others
    bool inLegend = true;
    bool legendValue = true;
    bool sizesY = true;   ///< counts for the automatic Y range
    bool snaps = true;    ///< the cursor may snap to its samples
    bool dimmed = false;  ///< a superseded tail
    QString id;           ///< of the run; for selection in charts of many
};

/// Area between two curves sampled at the same x.
struct PlotBand {
    SharedSeries low, high;
    Ink ink;
};

/// Horizontal line with its name: a limit, plan, floor, zero or baseline.
struct PlotLine {
    double y = 0;
    QString label;
    Ink ink;
    bool sizesY = false;
    bool dashed = true;
    bool labelRight = false;
    bool labelInMargin = false;  ///< in the right margin instead of over the plot
};

/// Something that happened at an x: icon on the top edge, dotted line below.
struct PlotEvent {
    double x = 0;
    Glyph glyph = Glyph::Flag;
    Token token = Token::Text2;
    QString text;
};

/// Text in the right margin at the height of a value.
struct PlotNote {
    double y = 0;
    QString head, value;
    Token token = Token::Text;
    bool spare = false;  ///< left out where the notes have no room for all
    /// Where it is given, the note is of this curve's newest sample in view, and y, value and token are made of it.
    SharedSeries of = nullptr;
    std::function<QString(double)> text = nullptr;
    std::function<Token(double)> colour = nullptr;  ///< absent: `token`

    /// The note as it stands when `right` is the end of what is in view; itself where it is of no curve.
    PlotNote at(double right) const;
};

struct PlotContent {
    std::vector<PlotCurve> curves;  ///< drawn in this order
    std::vector<PlotBand> bands;
    std::vector<PlotLine> lines;
    std::vector<PlotEvent> events;
    std::vector<PlotNote> notes;
};

struct PlotOptions {
    QString title;  ///< for assistive tools and exports
    QString xUnit = QStringLiteral("step");
    QString yUnit;
    ScaleKind yScale = ScaleKind::Linear;
    bool plusSign = false;     ///< differences
    bool robustRange = false;  ///< Y from the 0.5 and 99.5 % quantiles instead of all samples
    double robustFrom = 0;     ///< x from which on samples count for it (warm-up)
    bool xLabels = true;
    bool sharesView = true;                   ///< false: own X range, shared cursor only
    bool eventIcons = true;                   ///< false: lines without icons (a chart below another)
    bool readoutBox = false;                  ///< values at the cursor in a box in a free corner
    bool namesOffScale = false;               ///< the legend says "off scale" for a value outside Y
    bool countAbove = false;                  ///< "k of n points above" for the first curve
    double sizeFrom = -1e300;                 ///< samples before this x do not size Y (a fresh scale)
    std::function<QString(double)> tickText;  ///< of Y ticks; default: the number with the digits of its step
    bool wholeX = true;                       ///< X is counted (steps, tokens)
    bool yLabelsAsShare = false;              ///< fractions shown in per cent
    bool marginNotes = false;
    double xScaleFactor = 1;                 ///< shown = x * factor
    std::optional<double> yFloor, yCeiling;  ///< hard ends of the automatic range (values)
    double minimumSpan = 0;                  ///< axis space; a narrower automatic range is widened
    QMargins margins{52, 24, 12, 22};
    std::function<QString(double)> value;  ///< text of a value; default formatNumber(v, 4)
};

}  // namespace mantissa::gui
