#include "gui/theme/style_sheet.h"

#include <QDir>
#include <QHash>
#include <QRegularExpression>
#include <QStandardPaths>
#include <QWidget>

#include "gui/theme/theme.h"

namespace mantissa::gui {
namespace {

// One rule a line; @token is replaced by the colour of that name. No font in the sheet: it would beat setFont().
// Tooltips, splitters and the ground of windows are the style's and the palette's business (theme.cpp).
const char* const kTemplate = R"(
QMenuBar { background: transparent; border: none; }
QMenuBar::item { background: transparent; color: @text2; padding: 6px 11px; border-radius: 4px; }
QMenuBar::item:selected, QMenuBar::item:pressed { background: @hover; color: @text; }
QMenu { background: @raised; border: 1px solid @line2; padding: 4px 0; }
QMenu::item { padding: 5px 28px 5px 28px; color: @text; }
QMenu::item:selected { background: @sel; }
QMenu::item:disabled { color: @disabled; }
QMenu::separator { height: 1px; background: @line; margin: 4px 0; }
QMenu::icon { padding-left: 8px; }
QPushButton { background: @raised; color: @text; border: 1px solid @line2; border-radius: 4px; padding: 0 12px; min-height: 26px; }
QPushButton:hover { background: @hover; }
QPushButton:pressed { background: @sel; }
QPushButton:focus { border-color: @accent; }
QPushButton:disabled { color: @disabled; background: @raised; border-color: @line; }
QPushButton[kind="primary"] { background: @fill; color: @onfill; border-color: @fill; }
QPushButton[kind="primary"]:hover { background: @fillhover; border-color: @fillhover; }
QPushButton[kind="primary"]:focus { border: 1px solid @text; }
QPushButton[kind="primary"]:disabled { color: @disabled; background: @raised; border-color: @line; }
QToolButton { background: transparent; color: @text2; border: 1px solid transparent; border-radius: 4px; padding: 0 6px; min-height: 26px; }
QToolButton:hover { background: @hover; color: @text; }
QToolButton:pressed { background: @sel; }
QToolButton:focus { border-color: @accent; }
QToolButton:checked { background: @sel; color: @text; }
QToolButton:disabled { color: @disabled; }
QToolButton::menu-indicator { image: none; }
QToolButton[kind="segment"] { border: 1px solid @line2; border-radius: 0; border-right-width: 0; padding: 0 12px; min-height: 24px; background: @panel; }
QToolButton[kind="segment"][place="first"] { border-top-left-radius: 4px; border-bottom-left-radius: 4px; }
QToolButton[kind="segment"][place="last"] { border-right-width: 1px; border-top-right-radius: 4px; border-bottom-right-radius: 4px; }
QToolButton[kind="segment"]:checked { background: @sel; color: @text; }
QToolButton[kind="segment"]:hover:!checked { background: @hover; }
QToolButton[kind="segment"]:focus { border: 1px solid @accent; }
QLineEdit, QPlainTextEdit, QTextEdit { background: @raised; color: @text; border: 1px solid @line2; border-radius: 4px; padding: 0 9px; selection-background-color: @fill; selection-color: @onfill; }
QLineEdit { min-height: 26px; }
QPlainTextEdit, QTextEdit { padding: 4px 8px; }
QLineEdit:focus, QPlainTextEdit:focus, QTextEdit:focus { border-color: @accent; }
QLineEdit[wrong="true"] { border-color: @bad; }
QLineEdit:disabled { color: @disabled; border-color: @line; }
QSpinBox { background: @raised; color: @text; border: 1px solid @line2; border-radius: 4px; padding: 0 6px; min-height: 24px; }
QSpinBox:focus { border-color: @accent; }
QSpinBox:disabled { color: @disabled; border-color: @line; }
QComboBox { background: @raised; color: @text; border: 1px solid @line2; border-radius: 4px; padding: 0 8px 0 9px; min-height: 26px; }
QComboBox:hover { background: @hover; }
QComboBox:focus { border-color: @accent; }
QComboBox[wrong="true"] { border-color: @bad; }
QComboBox:disabled { color: @disabled; border-color: @line; }
QComboBox::drop-down { border: none; width: 20px; }
QComboBox::down-arrow { image: url("@chevron"); width: 12px; height: 12px; }
QComboBox QAbstractItemView { background: @raised; color: @text; border: 1px solid @line2; selection-background-color: @sel; selection-color: @text; outline: none; }
QCheckBox { color: @text; spacing: 8px; min-height: 20px; border: 1px solid transparent; border-radius: 3px; }
QCheckBox:focus { border-color: @accent; }
QCheckBox:disabled { color: @disabled; }
QCheckBox::indicator { width: 14px; height: 14px; border: 1px solid @line2; border-radius: 3px; background: @raised; }
QCheckBox::indicator:checked { background: @fill; border-color: @fill; image: url("@tick"); }
QCheckBox::indicator:disabled { border-color: @line; }
QHeaderView { background: @panel; border: none; }
QHeaderView::section { background: @panel; color: @text3; border: none; border-bottom: 1px solid @line; padding: 0 8px; height: 23px; }
QTableView, QTreeView, QListView { background: @panel; color: @text; border: none; outline: none; gridline-color: @line; selection-background-color: @sel; selection-color: @text; }
QTableView::item, QTreeView::item { padding: 0 8px; }
QTableView QTableCornerButton::section { background: @panel; border: none; }
QScrollBar:vertical { background: transparent; width: 10px; margin: 0; }
QScrollBar::handle:vertical { background: @line2; min-height: 28px; border-radius: 3px; margin: 2px; }
QScrollBar:horizontal { background: transparent; height: 10px; margin: 0; }
QScrollBar::handle:horizontal { background: @line2; min-width: 28px; border-radius: 3px; margin: 2px; }
QScrollBar::handle:hover { background: @text3; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QTabBar { background: transparent; border: none; qproperty-drawBase: 0; }
QTabBar::tab { background: transparent; color: @text2; border: none; border-bottom: 2px solid transparent; padding: 0 12px; height: 37px; margin-right: 2px; }
QTabBar::tab:selected { color: @text; border-bottom-color: @accent; }
QTabBar::tab:hover:!selected { color: @text; background: @hover; }
QTabBar::tab:focus { color: @accent; }
QProgressBar { background: @hover; border: none; border-radius: 1px; }
QProgressBar::chunk { background: @accent; border-radius: 1px; }
)";

/// Style sheets take images by file only: the two small ones are written to the cache folder in the theme's colours.
QString imageFile(const QString& name, const QString& body, const QColor& stroke) {
    const QString folder = QStandardPaths::writableLocation(QStandardPaths::CacheLocation);
    QDir().mkpath(folder);
    const QString path =
        folder + QLatin1Char('/') + name + QLatin1Char('-') + stroke.name().mid(1) + QStringLiteral(".svg");
    if (!QFile::exists(path)) {
        QFile file(path);
        if (!file.open(QIODevice::WriteOnly)) return QString();
        file.write(
            QStringLiteral(
                "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><path d='%1' fill='none' stroke='%2' "
                "stroke-width='1.6' stroke-linecap='round' stroke-linejoin='round'/></svg>")
                .arg(body, stroke.name())
                .toUtf8());
    }
    return path;
}

}  // namespace

namespace {

/// Classes with rules of their own; the first that a widget inherits counts.
constexpr const char* kClasses[] = {"QMenuBar",  "QMenu",       "QPushButton", "QToolButton", "QComboBox",
                                    "QSpinBox",  "QCheckBox",   "QHeaderView", "QTableView",  "QTreeView",
                                    "QListView", "QLineEdit",   "QTextEdit",   "QScrollBar",  "QPlainTextEdit",
                                    "QTabBar",   "QProgressBar"};

/// The template with the colours of the theme.
QString colouredSheet() {
    QString sheet = QString::fromUtf8(kTemplate);
    sheet.replace(QStringLiteral("@chevron"),
                  imageFile(QStringLiteral("chevron"), QStringLiteral("M4 6.5 8 10.5 12 6.5"), color(Token::Text2)));
    sheet.replace(QStringLiteral("@tick"),
                  imageFile(QStringLiteral("tick"), QStringLiteral("M3.5 8.5 6.5 11.5 12.5 5"), color(Token::OnFill)));
    sheet.replace(QStringLiteral("@fillhover"), mix(color(Token::Fill), color(Token::Text), 0.1).name());
    static const QRegularExpression name(QStringLiteral("@([a-z]+2?3?)"));
    QString out;
    qsizetype from = 0;
    for (auto it = name.globalMatch(sheet); it.hasNext();) {
        const auto match = it.next();
        out += QStringView(sheet).mid(from, match.capturedStart() - from);
        for (int i = 0; i < static_cast<int>(Token::Count); ++i) {
            const Token token = static_cast<Token>(i);
            if (match.captured(1) == QLatin1String(Theme::tokenName(token))) out += color(token).name();
        }
        from = match.capturedEnd();
    }
    return out + sheet.mid(from);
}

/// The rules with a selector that begins with `name`.
QString rulesOf(const QStringList& rules, const char* name) {
    const QRegularExpression selector(QStringLiteral("(?:^|, )%1(?![A-Za-z])").arg(QLatin1String(name)));
    QString out;
    for (const QString& rule : rules)
        if (selector.match(rule.left(rule.indexOf(QLatin1Char('{')))).hasMatch()) out += rule + QLatin1Char('\n');
    return out;
}

QHash<QString, QString>& sheets() {
    static QHash<QString, QString> cache;
    return cache;
}

}  // namespace

QString controlSheet(const QWidget& widget) {
    const char* name = nullptr;
    for (const char* known : kClasses)
        if (!name && widget.inherits(known)) name = known;
    if (!name) return QString();
    // The list and the field of a combo box, and the field of a spin box, are styled by its own rules.
    for (const QWidget* above = widget.parentWidget(); above; above = above->parentWidget())
        if ((above->inherits("QComboBox") && !widget.inherits("QScrollBar")) || above->inherits("QSpinBox"))
            return QString();
    QHash<QString, QString>& cache = sheets();
    if (cache.isEmpty()) {
        const QStringList rules = colouredSheet().split(QLatin1Char('\n'), Qt::SkipEmptyParts);
        for (const char* known : kClasses) cache.insert(QLatin1String(known), rulesOf(rules, known));
    }
    return cache.value(QLatin1String(name));
}

void clearControlSheets() {
    sheets().clear();
}

}  // namespace mantissa::gui
