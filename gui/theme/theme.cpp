#include "gui/theme/theme.h"

#include <QApplication>
#include <QDBusConnection>
#include <QDBusMessage>
#include <QDBusPendingCallWatcher>
#include <QDBusPendingReply>
#include <QDBusVariant>
#include <QPainter>
#include <QPalette>
#include <QProxyStyle>
#include <QStyleFactory>
#include <QStyleOption>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "gui/theme/control_styler.h"
#include "gui/theme/fonts.h"

namespace mantissa::gui {
namespace {

const auto kPortal = QStringLiteral("org.freedesktop.portal.Desktop");
const auto kPortalPath = QStringLiteral("/org/freedesktop/portal/desktop");
const auto kPortalSettings = QStringLiteral("org.freedesktop.portal.Settings");
const auto kAppearance = QStringLiteral("org.freedesktop.appearance");
const auto kColorScheme = QStringLiteral("color-scheme");

QPalette makePalette() {
    QPalette p;
    const auto set = [&p](QPalette::ColorRole role, Token token, Token disabled) {
        p.setColor(QPalette::Active, role, color(token));
        p.setColor(QPalette::Inactive, role, color(token));
        p.setColor(QPalette::Disabled, role, color(disabled));
    };
    set(QPalette::Window, Token::Window, Token::Window);
    set(QPalette::WindowText, Token::Text, Token::Disabled);
    set(QPalette::Base, Token::Panel, Token::Panel);
    set(QPalette::AlternateBase, Token::Raised, Token::Raised);
    set(QPalette::ToolTipBase, Token::Raised, Token::Raised);
    set(QPalette::ToolTipText, Token::Text, Token::Text);
    set(QPalette::PlaceholderText, Token::Text3, Token::Disabled);
    set(QPalette::Text, Token::Text, Token::Disabled);
    set(QPalette::Button, Token::Raised, Token::Raised);
    set(QPalette::ButtonText, Token::Text, Token::Disabled);
    set(QPalette::BrightText, Token::OnFill, Token::Disabled);
    set(QPalette::Light, Token::Hover, Token::Hover);
    set(QPalette::Midlight, Token::Hover, Token::Hover);
    set(QPalette::Dark, Token::Line2, Token::Line);
    set(QPalette::Mid, Token::Line2, Token::Line);
    set(QPalette::Shadow, Token::Window, Token::Window);
    set(QPalette::Highlight, Token::Sel, Token::Hover);
    set(QPalette::HighlightedText, Token::Text, Token::Disabled);
    set(QPalette::Link, Token::Accent, Token::Disabled);
    set(QPalette::LinkVisited, Token::Accent, Token::Disabled);
    return p;
}

/// Fusion that does not underline the mnemonics of menus (Alt still works); splitters and tooltips are plain.
class PlainFusion : public QProxyStyle {
  public:
    PlainFusion() : QProxyStyle(QStyleFactory::create(QStringLiteral("Fusion"))) {}
    int styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget,
                  QStyleHintReturn* data) const override {
        return hint == SH_UnderlineShortcut      ? 0
               : hint == SH_ToolTipLabel_Opacity ? 255
                                                 : QProxyStyle::styleHint(hint, option, widget, data);
    }
    void drawControl(ControlElement element, const QStyleOption* option, QPainter* painter,
                     const QWidget* widget) const override {
        if (element == CE_Splitter) return painter->fillRect(option->rect, color(Token::Line));
        QProxyStyle::drawControl(element, option, painter, widget);
    }
    void drawPrimitive(PrimitiveElement element, const QStyleOption* option, QPainter* painter,
                       const QWidget* widget) const override {
        if (element != PE_PanelTipLabel) return QProxyStyle::drawPrimitive(element, option, painter, widget);
        painter->fillRect(option->rect, color(Token::Raised));
        painter->setPen(color(Token::Line2));
        painter->drawRect(option->rect.adjusted(0, 0, -1, -1));
    }
    int pixelMetric(PixelMetric metric, const QStyleOption* option, const QWidget* widget) const override {
        return metric == PM_ToolTipLabelFrameWidth ? 6 : QProxyStyle::pixelMetric(metric, option, widget);
    }
};

}  // namespace

Theme::Theme() {
    for (int i = 0; i < 3; ++i) maps_[i] = mapTable(static_cast<ColorMap>(i), dark_);
}

Theme& Theme::instance() {
    static Theme theme;
    return theme;
}

void Theme::install(ThemeChoice choice) {
    startedDark_ = QApplication::palette().color(QPalette::Window).lightnessF() < 0.5;
    QApplication::setStyle(new PlainFusion);
    QApplication::setFont(uiFont(TextSize::Body));
    choice_ = choice;
    dark_ = choice == ThemeChoice::System ? systemIsDark() : choice == ThemeChoice::Dark;
    apply();
    listenToPortal();
}

void Theme::setChoice(ThemeChoice choice) {
    choice_ = choice;
    follow();
    if (choice == ThemeChoice::System) listenToPortal();
}

void Theme::follow() {
    const bool dark = choice_ == ThemeChoice::System ? systemIsDark() : choice_ == ThemeChoice::Dark;
    if (dark == dark_) return;
    dark_ = dark;
    apply();
}

void Theme::apply() {
    for (int i = 0; i < 3; ++i) maps_[i] = mapTable(static_cast<ColorMap>(i), dark_);
    if (qApp) {
        const QPalette palette = makePalette();
        QApplication::setPalette(palette);
        QToolTip::setPalette(palette);
        static auto* const styler = new ControlStyler(qApp);
        styler->restyle();
    }
    Q_EMIT changed();
}

bool Theme::systemIsDark() const {
    return portalDark_ < 0 ? startedDark_ : portalDark_ == 1;
}

/// Asks the desktop portal without waiting; the answer arrives in portalSettingChanged().
void Theme::listenToPortal() {
    QDBusConnection bus = QDBusConnection::sessionBus();
    if (!bus.isConnected()) return;
    if (!listening_) {
        listening_ = bus.connect(kPortal, kPortalPath, kPortalSettings, QStringLiteral("SettingChanged"), this,
                                 SLOT(portalSettingChanged(QString, QString)));
    }
    QDBusMessage ask = QDBusMessage::createMethodCall(kPortal, kPortalPath, kPortalSettings, QStringLiteral("Read"));
    ask << kAppearance << kColorScheme;
    auto* watcher = new QDBusPendingCallWatcher(bus.asyncCall(ask, 2000), this);
    connect(watcher, &QDBusPendingCallWatcher::finished, this, [this](QDBusPendingCallWatcher* done) {
        const QDBusPendingReply<QDBusVariant> reply = *done;
        done->deleteLater();
        if (reply.isError()) return;
        QVariant value = reply.value().variant();
        if (value.canConvert<QDBusVariant>()) value = value.value<QDBusVariant>().variant();
        const uint scheme = value.toUInt();  // 0 no preference, 1 dark, 2 light
        portalDark_ = scheme == 0 ? -1 : scheme == 1;
        follow();
    });
}

void Theme::portalSettingChanged(const QString& space, const QString& key) {
    if (space == kAppearance && key == kColorScheme) listenToPortal();
}

QColor Theme::color(Token token) const {
    return tokenColor(token, dark_);
}
SeriesStyle Theme::series(int index) const {
    return seriesStyle(index, dark_);
}
const MapTable& Theme::map(ColorMap map) const {
    return maps_[static_cast<int>(map)];
}

QRgb Theme::mapColor(ColorMap map, double position) const {
    const double clamped = std::isnan(position) ? 0 : std::clamp(position, 0.0, 1.0);
    return maps_[static_cast<int>(map)][static_cast<int>(std::lround(clamped * (kMapSize - 1)))];
}

QColor Theme::memoryColor(int category) const {
    static constexpr double shares[] = {0.0, 0.3, 0.48, 0.66, 0.82, 0.9};
    const QColor strong = color(Token::Text2), weak = color(dark_ ? Token::Hover : Token::Line);
    return mix(strong, weak, shares[std::clamp(category, 0, 5)]);
}

}  // namespace mantissa::gui
