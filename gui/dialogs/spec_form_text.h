// How values of a spec are written in the fields of the launch form, and read back.
#pragma once

#include <QLocale>
#include <QString>
#include <vector>

#include "experiments/spec/run_spec.h"
#include "gui/format/numbers.h"

namespace mantissa::gui {

/// The text as a JSON string.
inline QString jsonString(const QString& text) {
    QString out = text;
    out.replace(QLatin1Char('\\'), QStringLiteral("\\\\")).replace(QLatin1Char('"'), QStringLiteral("\\\""));
    return QLatin1Char('"') + out + QLatin1Char('"');
}

/// Grouping and the locale's sign for JSON numbers, the text itself for strings.
inline QString screenText(const QString& json) {
    if (json.startsWith(QLatin1Char('"')))
        return json.mid(1, json.size() - 2).replace(QStringLiteral("\\\""), QStringLiteral("\""));
    bool whole = false;
    const qint64 integer = json.toLongLong(&whole);
    if (whole) return formatCount(integer);
    bool number = false;
    const double value = json.toDouble(&number);
    if (!number) return json;
    QString text = exact(value);
    return text.replace(QLatin1Char('.'), QLocale().decimalPoint());
}

/// The field at `path` set from JSON text; what is wrong with it, if anything.
inline std::vector<experiments::SpecError> setField(experiments::RunSpec& spec, const QString& path,
                                                    const QString& value) {
    return experiments::setPath(spec, path.toStdString(), value.toStdString());
}

/// A rule that the field "By name" can show: all products to BF16 by one pattern.
inline bool isTyped(const engine::PrecisionRule& rule) {
    return rule.gemms == 7 && rule.recipe == engine::RecipeKind::Bf16;
}

}  // namespace mantissa::gui
