#include "gui/theme/fonts.h"

#include <QFontDatabase>
#include <QStringList>

namespace mantissa::gui {
namespace {

QString firstOf(const QStringList& wanted) {
    const QStringList known = QFontDatabase::families();
    for (const QString& family : wanted)
        if (known.contains(family)) return family;
    return QString();
}

}  // namespace

QString fontFamily() {
    static const QString family = [] {
        QStringList wanted = {QStringLiteral("Roboto"), QStringLiteral("Noto Sans"), QStringLiteral("DejaVu Sans")};
        const QString forced = qEnvironmentVariable("MANTISSA_FONT");
        if (!forced.isEmpty()) wanted.prepend(forced);
        return firstOf(wanted);
    }();
    return family;
}

QFont uiFont(TextSize size, bool medium) {
    QFont font;
    if (!fontFamily().isEmpty()) font.setFamily(fontFamily());
    font.setPixelSize(static_cast<int>(size));
    font.setWeight(medium ? QFont::Medium : QFont::Normal);
    return font;
}

QFont codeFont() {
    static const QString family = firstOf({QStringLiteral("DejaVu Sans Mono"), QStringLiteral("Noto Sans Mono")});
    QFont font;
    if (!family.isEmpty()) font.setFamily(family);
    font.setStyleHint(QFont::Monospace);
    font.setPixelSize(12);
    return font;
}

}  // namespace mantissa::gui
