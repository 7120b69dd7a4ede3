#include "gui/models/run_filter.h"

#include <QRegularExpression>
#include <cmath>
#include <optional>

#include "gui/format/numbers.h"

namespace mantissa::gui {
namespace {

using Test = std::function<bool(const RunInfo&)>;

struct Field {
    const char* name;
    std::function<std::optional<double>(const RunInfo&)> number;  ///< empty function: a text field
    std::function<QStringList(const RunInfo&)> text;
};

const std::vector<Field>& fieldTable() {
    using R = const RunInfo&;
    const auto measured = [](bool has, double value) { return has ? std::optional(value) : std::nullopt; };
    static const std::vector<Field> fields = {
        {"name", {}, [](R r) { return QStringList{r.name}; }},
        {"model", {}, [](R r) { return QStringList{r.model}; }},
        {"recipe", {}, [](R r) { return QStringList{r.recipe}; }},
        {"state", {}, [](R r) { return QStringList{runStateName(r.state)}; }},
        {"device",
         {},
         [](R r) {
             return QStringList{r.device, r.deviceName};
         }},
        {"tag", {}, [](R r) { return r.tags; }},
        {"note", {}, [](R r) { return QStringList{r.note}; }},
        {"step", [](R r) { return std::optional<double>(r.step); }, {}},
        {"steps", [](R r) { return std::optional<double>(r.steps); }, {}},
        {"seed", [](R r) { return std::optional<double>(r.seed); }, {}},
        {"alerts", [](R r) { return std::optional<double>(r.alerts); }, {}},
        {"loss", [measured](R r) { return measured(r.hasLoss, r.loss); }, {}},
        {"val_loss", [measured](R r) { return measured(r.hasValLoss, r.valLoss); }, {}},
        {"tokens_per_s", [measured](R r) { return measured(r.tokensPerSecond > 0, r.tokensPerSecond); }, {}},
        {"seconds", [](R r) { return std::optional<double>(r.seconds); }, {}},
    };
    return fields;
}

const Field* findField(const QString& name) {
    for (const Field& field : fieldTable())
        if (name.compare(QLatin1String(field.name), Qt::CaseInsensitive) == 0) return &field;
    return nullptr;
}

bool textEquals(const QString& have, const QString& want) {
    if (have.compare(want, Qt::CaseInsensitive) == 0) return true;
    static const QRegularExpression breaks(QStringLiteral("[\\s\u00b7-]+"));
    return have.split(breaks, Qt::SkipEmptyParts).contains(want, Qt::CaseInsensitive);
}

bool compareNumbers(double have, const QString& op, double want) {
    if (std::isnan(want))
        return op == QLatin1String("=") ? std::isnan(have) : op == QLatin1String("!=") && !std::isnan(have);
    if (op == QLatin1String("!=")) return have != want;
    if (std::isnan(have)) return false;
    if (op == QLatin1String("<")) return have < want;
    if (op == QLatin1String("<=")) return have <= want;
    if (op == QLatin1String(">")) return have > want;
    if (op == QLatin1String(">=")) return have >= want;
    return have == want;
}

class Parser {
  public:
    explicit Parser(const QString& text) {
        static const QRegularExpression token(QStringLiteral("\"[^\"]*\"|[()]|<=|>=|!=|[<>=~]|[^\\s()<>=!~\"]+"));
        for (auto it = token.globalMatch(text); it.hasNext();) tokens_ << it.next().captured();
    }

    Test parse() {
        Test test = parseOr();
        if (error.isEmpty() && at_ < tokens_.size())
            error = QObject::tr("\u201c%1\u201d was not expected here.").arg(tokens_[at_]);
        return test;
    }
    QString error;

  private:
    bool take(const char* word) {
        if (at_ >= tokens_.size() || tokens_[at_].compare(QLatin1String(word), Qt::CaseInsensitive) != 0) return false;
        ++at_;
        return true;
    }

    Test parseOr() {
        Test left = parseAnd();
        while (error.isEmpty() && take("or")) {
            Test right = parseAnd();
            left = [left, right](const RunInfo& r) { return left(r) || right(r); };
        }
        return left;
    }

    Test parseAnd() {
        Test left = parseNot();
        while (error.isEmpty() && at_ < tokens_.size() && tokens_[at_] != QLatin1String(")") &&
               tokens_[at_].compare(QLatin1String("or"), Qt::CaseInsensitive) != 0) {
            take("and");
            Test right = parseNot();
            left = [left, right](const RunInfo& r) { return left(r) && right(r); };
        }
        return left;
    }

    Test parseNot() {
        if (take("not")) {
            Test inner = parseNot();
            return [inner](const RunInfo& r) { return !inner(r); };
        }
        if (take("(")) {
            Test inner = parseOr();
            if (error.isEmpty() && !take(")")) error = QObject::tr("A closing parenthesis is missing.");
            return inner;
        }
        return parseTerm();
    }

    Test parseTerm() {
        const Test all = [](const RunInfo&) { return true; };
        if (at_ >= tokens_.size()) {
            error = QObject::tr("The expression ends too early.");
            return all;
        }
        static const QStringList ops = QStringLiteral("< <= > >= = != ~").split(QLatin1Char(' '));
        const QString word = unquoted(tokens_[at_++]);
        if (ops.contains(word)) {
            error = QObject::tr("A field is missing before \u201c%1\u201d.").arg(word);
            return all;
        }
        if (at_ < tokens_.size() && ops.contains(tokens_[at_])) return parseComparison(word, tokens_[at_++]);
        return [word](const RunInfo& r) {
            return (QStringList{r.name, r.recipe, r.model} + r.tags)
                .join(QLatin1Char(' '))
                .contains(word, Qt::CaseInsensitive);
        };
    }

    Test parseComparison(const QString& name, const QString& op) {
        const Test all = [](const RunInfo&) { return true; };
        const Field* field = findField(name);
        if (!field) {
            error = QObject::tr("There is no field \u201c%1\u201d; there are %2.")
                        .arg(name, RunFilter::fields().join(QStringLiteral(", ")));
            return all;
        }
        if (at_ >= tokens_.size()) {
            error = QObject::tr("A value is missing after \u201c%1\u201d.").arg(op);
            return all;
        }
        const QString value = unquoted(tokens_[at_++]);
        return field->number ? numberTest(*field, op, value) : textTest(*field, op, value);
    }

    Test numberTest(const Field& field, const QString& op, const QString& value) {
        const auto want = parseNumber(value);
        if (!want || op == QLatin1String("~")) {
            error = QObject::tr("%1 takes <, <=, >, >=, =, != and a number, not \u201c%2\u201d.")
                        .arg(QLatin1String(field.name), value);
            return [](const RunInfo&) { return true; };
        }
        return [number = field.number, op, want = *want](const RunInfo& r) {
            const auto have = number(r);
            return have && compareNumbers(*have, op, want);
        };
    }

    Test textTest(const Field& field, const QString& op, const QString& value) {
        if (op != QLatin1String("=") && op != QLatin1String("!=") && op != QLatin1String("~")) {
            error = QObject::tr("%1 is text; it takes =, != and ~.").arg(QLatin1String(field.name));
            return [](const RunInfo&) { return true; };
        }
        return [text = field.text, op, value](const RunInfo& r) {
            bool found = false;
            for (const QString& have : text(r))
                found |= op == QLatin1String("~") ? have.contains(value, Qt::CaseInsensitive) : textEquals(have, value);
            return op == QLatin1String("!=") ? !found : found;
        };
    }

    static QString unquoted(const QString& token) {
        return token.startsWith(QLatin1Char('"')) ? token.mid(1, token.size() - 2) : token;
    }

    QStringList tokens_;
    qsizetype at_ = 0;
};

}  // namespace

RunFilter::RunFilter(const QString& text) {
    if (text.trimmed().isEmpty()) return;
    Parser parser(text);
    test_ = parser.parse();
    error_ = parser.error;
    if (!ok()) test_ = {};
}

QStringList RunFilter::fields() {
    QStringList names;
    for (const Field& field : fieldTable()) names << QLatin1String(field.name);
    return names;
}

}  // namespace mantissa::gui
