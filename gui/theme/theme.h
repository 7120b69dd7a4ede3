// Colours, series styles and colour maps of the two themes, and the switch between them. Every colour on screen comes
// from here.
#pragma once

#include <QColor>
#include <QObject>
#include <QRgb>
#include <QString>
#include <QVector>
#include <array>

namespace mantissa::gui {

/// Colour tokens, in the order of the tables in theme/tokens.cpp. State colours (Ok, Warn, Bad, Nonfinite) only for
/// states.
enum class Token {
    Window,
    Panel,
    Raised,
    Hover,
    Sel,
    Line,
    Line2,
    Grid,
    Text,
    Text2,
    Text3,
    Disabled,
    Accent,
    Fill,
    OnFill,
    Ok,
    Warn,
    Bad,
    Nonfinite,
    OkBg,
    WarnBg,
    BadBg,
    InfoBg,
    PhaseMatmul,
    PhaseAttention,
    PhaseNorm,
    PhaseOptimizer,
    PhaseGap,
    Count
};

enum class Marker { Circle, Square, Triangle, Diamond, TriangleDown, Cross, Plus, Star };

/// How one run is drawn everywhere. dash: lengths in pixels, empty = solid.
struct SeriesStyle {
    QColor color;
    QVector<qreal> dash;
    Marker marker = Marker::Circle;
};
inline constexpr int kSeriesCount = 8;

/// Heat: trouble (quiet = panel). Mag: amounts, log2. Div: log2 of a ratio, zero = panel.
enum class ColorMap { Heat, Mag, Div };
inline constexpr int kMapSize = 256;
using MapTable = std::array<QRgb, kMapSize>;

enum class ThemeChoice { System, Light, Dark };

/// The one theme object of the program (GUI thread only). Widgets paint from it and repaint on changed().
class Theme : public QObject {
    Q_OBJECT
  public:
    static Theme& instance();

    bool isDark() const { return dark_; }
    ThemeChoice choice() const { return choice_; }
    /// Sets palette and style sheet of the application once and emits changed() when the theme differs.
    void setChoice(ThemeChoice choice);
    /// Fusion style, fonts, first palette and sheet, listening to the desktop's setting. Once, before any window.
    void install(ThemeChoice choice);

    QColor color(Token token) const;
    /// index: the run's stored index; from 8 on the series repeat.
    SeriesStyle series(int index) const;
    const MapTable& map(ColorMap map) const;
    /// Colour at `position` in 0..1 (clamped); NaN gives the first entry.
    QRgb mapColor(ColorMap map, double position) const;
    /// Greys of memory categories: 0 weights, 1 gradients, 2 moments, 3 activations, 4 workspace, 5 host.
    QColor memoryColor(int category) const;

    /// For tests: the tables without an application.
    static QColor tokenColor(Token token, bool dark);
    static const char* tokenName(Token token);
    static SeriesStyle seriesStyle(int index, bool dark);
    static MapTable mapTable(ColorMap map, bool dark);

  signals:
    void changed();

  private:
    Theme();
    void apply();
    void follow();
    bool systemIsDark() const;
    void listenToPortal();

  private slots:
    void portalSettingChanged(const QString& space, const QString& key);

  private:
    ThemeChoice choice_ = ThemeChoice::Dark;
    bool dark_ = true;
    bool startedDark_ = false;  ///< lightness of the palette before ours was set
    int portalDark_ = -1;       ///< what the desktop portal said: 1 dark, 0 light, -1 nothing yet
    bool listening_ = false;
    std::array<MapTable, 3> maps_{};
};

/// Shorthand for Theme::instance().color().
inline QColor color(Token token) {
    return Theme::instance().color(token);
}
/// a moved towards b by `share` (0..1), sRGB; for edges of banners ("state colour at 50 %").
QColor mix(const QColor& a, const QColor& b, double share);
/// WCAG contrast of two opaque colours, 1..21.
double contrast(const QColor& a, const QColor& b);

}  // namespace mantissa::gui
