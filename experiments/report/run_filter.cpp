#include "experiments/report/run_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "experiments/spec/spec_fields.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace {

using Predicate = std::function<bool(const RunSummary&)>;

std::string lower(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
}

struct Token {
    std::string text;
    bool quoted = false;
    size_t place = 0;
};

bool isOperatorChar(char c) {
    return c == '=' || c == '!' || c == '<' || c == '>' || c == '~';
}

std::vector<Token> tokens(const std::string& expression) {
    std::vector<Token> list;
    for (size_t i = 0; i < expression.size();) {
        const char c = expression[i];
        if (std::isspace(static_cast<unsigned char>(c))) {
            ++i;
            continue;
        }
        Token token;
        token.place = i + 1;
        if (c == '"') {
            const size_t end = expression.find('"', i + 1);
            if (end == std::string::npos)
                throw Error(ErrorCode::InvalidConfig,
                            fmt::format("filter: the quote at character {} is not closed", i + 1));
            token.text = expression.substr(i + 1, end - i - 1);
            token.quoted = true;
            i = end + 1;
        } else if (c == '(' || c == ')') {
            token.text = c;
            ++i;
        } else {
            const bool op = isOperatorChar(c);
            const size_t begin = i;
            while (i < expression.size() && !std::isspace(static_cast<unsigned char>(expression[i])) &&
                   expression[i] != '(' && expression[i] != ')' && expression[i] != '"' &&
                   isOperatorChar(expression[i]) == op)
                ++i;
            token.text = expression.substr(begin, i - begin);
        }
        list.push_back(std::move(token));
    }
    return list;
}

bool textEquals(const std::string& field, const std::string& value) {
    const std::string a = lower(field), b = lower(value);
    if (a == b) return true;
    for (size_t at = a.find(b); at != std::string::npos && !b.empty(); at = a.find(b, at + 1)) {
        auto isWord = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
        const bool left = at == 0 || !isWord(a[at - 1]), right = at + b.size() == a.size() || !isWord(a[at + b.size()]);
        if (left && right) return true;
    }
    return false;
}

class Parser {
  public:
    explicit Parser(const std::string& expression) : tokens_(tokens(expression)), end_(expression.size() + 1) {}

    Predicate parse() {
        if (tokens_.empty()) return [](const RunSummary&) { return true; };
        Predicate result = any();
        if (at_ < tokens_.size()) fail("does not belong here", "and, or");
        return result;
    }

  private:
    static constexpr int kMaxDepth = 64;

    [[noreturn]] void fail(const std::string& why, const std::string& allowed) const {
        const std::string what = at_ < tokens_.size() ? "\"" + tokens_[at_].text + "\"" : "the end";
        throw Error(ErrorCode::InvalidConfig,
                    fmt::format("filter: character {}: {} {}; allowed: {}",
                                at_ < tokens_.size() ? tokens_[at_].place : end_, what, why, allowed));
    }
    bool take(const char* word) {
        if (at_ >= tokens_.size() || tokens_[at_].quoted || lower(tokens_[at_].text) != word) return false;
        ++at_;
        return true;
    }
    Predicate any() {
        Predicate left = all();
        while (take("or")) left = [left, right = all()](const RunSummary& run) { return left(run) || right(run); };
        return left;
    }
    Predicate all() {
        Predicate left = one();
        while (take("and")) left = [left, right = one()](const RunSummary& run) { return left(run) && right(run); };
        return left;
    }
    Predicate one() {
        if (++depth_ > kMaxDepth) fail("is nested too deeply", "64 levels");
        Predicate result;
        if (take("not")) {
            result = [inner = one()](const RunSummary& run) { return !inner(run); };
        } else if (take("(")) {
            result = any();
            if (!take(")")) fail("leaves a bracket open", ")");
        } else {
            result = comparison();
        }
        --depth_;
        return result;
    }
    Predicate comparison() {
        if (at_ >= tokens_.size() || tokens_[at_].text == ")" ||
            (isOperatorChar(tokens_[at_].text[0]) && !tokens_[at_].quoted))
            fail("is no field", joined(runColumns()));
        const Token field = tokens_[at_++];
        if (at_ >= tokens_.size() || tokens_[at_].quoted || tokens_[at_].text.empty() ||
            !isOperatorChar(tokens_[at_].text[0]))
            return contains(field.text);
        const std::string op = tokens_[at_].text;
        if (op != "=" && op != "==" && op != "!=" && op != "<" && op != "<=" && op != ">" && op != ">=" && op != "~")
            fail("is no comparison", "= != < <= > >= ~");
        if (std::find(runColumns().begin(), runColumns().end(), lower(field.text)) == runColumns().end()) {
            --at_;
            fail(fmt::format("is no field; nearest is {}", nearestName(lower(field.text), runColumns())),
                 joined(runColumns()));
        }
        ++at_;
        if (at_ >= tokens_.size()) fail("is no value", "a number or a word");
        return compare(lower(field.text), op, tokens_[at_++].text);
    }
    static Predicate contains(const std::string& word) {
        return [word = lower(word)](const RunSummary& run) {
            std::string all = run.name + "\n" + run.model + "\n" + run.recipe + "\n" + statusName(run.status);
            for (const auto& tag : run.tags) all += "\n" + tag;
            return lower(all).find(word) != std::string::npos;
        };
    }
    Predicate compare(const std::string& field, const std::string& op, const std::string& value) {
        if (columnValue(RunSummary{}, field).isNumber) {
            double number = 0;
            const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
            if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size()) {
                --at_;
                fail("is not a number", "a number, as in loss < 2");
            }
            return [field, op, number](const RunSummary& run) {
                const double have = columnValue(run, field).number;
                if (std::isnan(have)) return false;
                if (op == "<") return have < number;
                if (op == "<=") return have <= number;
                if (op == ">") return have > number;
                if (op == ">=") return have >= number;
                return (have == number) == (op != "!=");
            };
        }
        return [field, op, value](const RunSummary& run) {
            const std::string have = columnValue(run, field).text;
            if (op == "~") return lower(have).find(lower(value)) != std::string::npos;
            if (op == "<") return have < value;
            if (op == "<=") return have <= value;
            if (op == ">") return have > value;
            if (op == ">=") return have >= value;
            return textEquals(have, value) == (op != "!=");
        };
    }

    std::vector<Token> tokens_;
    size_t at_ = 0, end_;
    int depth_ = 0;
};

}  // namespace

std::function<bool(const RunSummary&)> compileFilter(const std::string& expression) {
    return Parser(expression).parse();
}

const std::vector<std::string>& runColumns() {
    static const std::vector<std::string> columns = {
        "run",     "name",       "status",     "step",   "steps",  "loss",  "val_loss", "device",
        "started", "tags",       "model",      "recipe", "preset", "seed",  "tokens",   "tokens_per_s",
        "seconds", "plan_bytes", "peak_bytes", "alerts", "note",   "parent"};
    return columns;
}

ColumnValue columnValue(const RunSummary& run, const std::string& column) {
    auto number = [](double value) { return ColumnValue{true, value, ""}; };
    auto text = [](std::string value) { return ColumnValue{false, 0, std::move(value)}; };
    const double none = std::nan("");
    if (column == "run") return text(run.id);
    if (column == "name") return text(run.name);
    if (column == "status") return text(statusName(run.status));
    if (column == "step") return number(static_cast<double>(run.step));
    if (column == "steps") return number(static_cast<double>(run.steps));
    if (column == "loss") return number(run.hasLoss ? run.loss : none);
    if (column == "val_loss") return number(run.hasValidation ? run.validationLoss : none);
    if (column == "device") return text(run.device);
    if (column == "started") return number(run.startedMs > 0 ? static_cast<double>(run.startedMs) : none);
    if (column == "tags") return text(joined(run.tags));
    if (column == "model") return text(run.model);
    if (column == "recipe") return text(run.recipe);
    if (column == "preset") return text(run.preset);
    if (column == "seed") return number(static_cast<double>(run.seed));
    if (column == "tokens") return number(static_cast<double>(run.tokens));
    if (column == "tokens_per_s") return number(run.tokensPerSecond > 0 ? run.tokensPerSecond : none);
    if (column == "seconds") return number(run.seconds);
    if (column == "plan_bytes") return number(run.planBytes > 0 ? static_cast<double>(run.planBytes) : none);
    if (column == "peak_bytes") return number(run.peakBytes > 0 ? static_cast<double>(run.peakBytes) : none);
    if (column == "alerts") return number(run.alerts);
    if (column == "note") return text(run.note);
    if (column == "parent") return text(run.parent);
    return text("");
}

void sortRuns(std::vector<RunSummary>& runs, const std::string& given) {
    const bool down = !given.empty() && given[0] == '-';
    const std::string column = down ? given.substr(1) : given;
    if (std::find(runColumns().begin(), runColumns().end(), column) == runColumns().end())
        throw Error(ErrorCode::InvalidConfig,
                    fmt::format("sort: \"{}\" is no column; allowed: {}", column, joined(runColumns())));
    std::stable_sort(runs.begin(), runs.end(), [&](const RunSummary& a, const RunSummary& b) {
        const ColumnValue left = columnValue(a, column), right = columnValue(b, column);
        if (!left.isNumber) return down ? right.text < left.text : left.text < right.text;
        if (std::isnan(left.number) || std::isnan(right.number))
            return !std::isnan(left.number) && std::isnan(right.number);
        return down ? right.number < left.number : left.number < right.number;
    });
}

}  // namespace mantissa::experiments
