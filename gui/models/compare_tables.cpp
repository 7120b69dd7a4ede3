#include "gui/models/compare_tables.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "gui/format/numbers.h"

namespace mantissa::gui {

namespace {

/// A precision rule or a planted fault in words; another object as its keys and values.
QString entryText(const nlohmann::json& entry) {
    const auto word = [&entry](const char* key) {
        return entry.contains(key) && entry[key].is_string() ? QString::fromStdString(entry[key].get<std::string>())
                                                             : QString();
    };
    const auto number = [&entry](const char* key) {
        return entry.contains(key) && entry[key].is_number() ? entry[key].get<double>() : NAN;
    };
    if (entry.is_string()) return QString::fromStdString(entry.get<std::string>());
    if (!entry.is_object()) return QString::fromStdString(entry.dump());
    if (entry.contains("match")) {
        const QString gemm = word("gemm");
        return QStringLiteral("%1%2 → %3")
            .arg(word("match"), gemm.isEmpty() || gemm == QLatin1String("all") ? QString() : QLatin1Char(' ') + gemm,
                 word("recipe"));
    }
    if (entry.contains("kind")) {
        QString text =
            QStringLiteral("%1 %2 from step %3").arg(word("kind"), word("target"), formatCount(qint64(number("step"))));
        if (word("kind") == QLatin1String("outlier_channel"))
            text += QStringLiteral(", channel %1 × %2")
                        .arg(formatCount(qint64(number("channel"))), formatNumber(number("value"), 3));
        return text;
    }
    QStringList parts;
    for (const auto& [key, value] : entry.items()) parts << QString::fromStdString(key + " " + value.dump());
    return parts.join(QLatin1Char(' '));
}

}  // namespace

QString configText(const std::string& json, const QString& separator) {
    if (json.empty()) return notMeasured();
    const nlohmann::json value = nlohmann::json::parse(json, nullptr, false);
    if (value.is_discarded()) return QString::fromStdString(json);
    if (value.is_boolean()) return value.get<bool>() ? QStringLiteral("on") : QStringLiteral("off");
    if (!value.is_array()) return value.is_null() ? QStringLiteral("none") : entryText(value);
    QStringList entries;
    for (const nlohmann::json& entry : value) entries << entryText(entry);
    return entries.isEmpty() ? QStringLiteral("none") : entries.join(separator);
}

void FinalNumbersModel::setRows(std::vector<FinalRow> rows) {
    beginResetModel();
    rows_ = std::move(rows);
    double largest = 0;
    for (const FinalRow& row : rows_) largest = row.peakBytes > largest ? row.peakBytes : largest;
    peakUnit_ = sizeUnit(largest);
    endResetModel();
}

QVariant FinalNumbersModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal) {
        return {};
    }
    if (role == Qt::TextAlignmentRole) {
        return int((section <= State ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    }
    if (role == Qt::ToolTipRole) {
        const char* const tips[kColumns] = {
            "Run or group of seeds",
            "State",
            "Validation loss at the last point that all runs have, nats/token; mean over seeds",
            "Sample standard deviation over seeds",
            "Mean over seeds of (run − baseline, same seed)",
            "Two-sided p of the paired t test, and the number of pairs",
            "Tokens per second, median",
            "Throughput divided by the baseline's",
            "Step time, median, ms",
            "Largest memory in use; on a CPU what the whole program grew by during "
            "the run, in a window with its pages",
            "Alerts of the run"};
        return QString::fromUtf8(tips[section]);
    }
    const char* const heads[kColumns] = {"Run",      "State",      "Val loss", "± sd", "Δ baseline", "Paired test",
                                         "Tokens/s", "× baseline", "ms/step",  "Peak", "Alerts"};
    if (role == Qt::DisplayRole && section == Peak) return QStringLiteral("Peak %1").arg(peakUnit_.name);
    return role == Qt::DisplayRole ? QVariant(QString::fromUtf8(heads[section])) : QVariant();
}

double FinalNumbersModel::number(const FinalRow& row, int column) const {
    switch (column) {
        case Validation:
            return row.validation;
        case Sd:
            return row.sd;
        case Difference:
            return row.difference;
        case Paired:
            return row.p;
        case Speed:
            return row.tokensPerSecond;
        case Ratio:
            return row.ratio;
        case StepMs:
            return row.stepMs;
        case Peak:
            return row.peakBytes / peakUnit_.bytes;
        case Alerts:
            return row.alerts;
        default:
            return NAN;
    }
}

QVariant FinalNumbersModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};  // Qt copies the current cell, also where there is none
    const FinalRow& row = rows_[size_t(index.row())];
    const int column = index.column();
    const double value = number(row, column);
    switch (role) {
        case Qt::TextAlignmentRole:
            return int((column <= State ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
        case kSortRole:
            return column <= State ? QVariant(column == Name ? row.name : row.state) : QVariant(value);
        case kSeriesRole:
            return column == Name ? QVariant(row.series) : QVariant();
        case kIdRole:
            return row.id;
        case kTokenRole:
            if (row.bad && (column == Validation || column == Difference)) {
                return int(Token::Bad);
            }
            return int(column == Ratio && value > 1.005                                              ? Token::Ok
                       : (column == Sd || column == State || (row.baseline && column == Difference)) ? Token::Text3
                                                                                                     : Token::Text);
        case Qt::ForegroundRole:
            return color(Token(data(index, kTokenRole).toInt()));
        case Qt::DisplayRole:
            break;
        default:
            return {};
    }
    switch (column) {
        case Name:
            return row.name;
        case State:
            return row.state;
        case Validation:
            return row.validation != row.validation && row.bad ? QStringLiteral("NaN")
                   : std::isnan(value)                         ? notMeasured()
                                                               : formatNumber(value, 5);
        case Sd:
            return std::isnan(value) ? notMeasured() : formatNumber(value, 2);
        case Difference:
            return row.baseline        ? QStringLiteral("baseline")
                   : std::isnan(value) ? notMeasured()
                                       : formatLossDifference(value);
        case Paired:
            return row.baseline || row.pairs < 2 || std::isnan(value)
                       ? notMeasured()
                       : QStringLiteral("p %1, n %2")
                             .arg(value < 0.001 ? QStringLiteral("< 0.001") : formatNumber(value, 2))
                             .arg(row.pairs);
        case Speed:
            return value > 0 ? formatRate(value) : notMeasured();
        case Ratio:
            return value > 0 ? formatNumber(value, 3) : notMeasured();
        case StepMs:
            return value > 0 ? formatNumber(value, 3) : notMeasured();
        case Peak:
            return value > 0 ? formatNumber(value, 3) : notMeasured();
        case Alerts:
            return value > 0 ? formatCount(qint64(value)) : notMeasured();
        default:
            return {};
    }
}

QString FinalNumbersModel::text() const {
    QStringList heads;
    for (int c = 0; c < kColumns; ++c) {
        heads << headerData(c, Qt::Horizontal, Qt::DisplayRole).toString();
    }
    QString result = heads.join(QLatin1Char('\t')) + QLatin1Char('\n');
    for (const FinalRow& row : rows_) {
        QStringList cells{row.name, row.state};
        for (int c = Validation; c < kColumns; ++c) {
            const double value = number(row, c);
            cells << (std::isnan(value) ? QString() : exact(value));
        }
        result += cells.join(QLatin1Char('\t')) + QLatin1Char('\n');
    }
    return result;
}

bool FinalNumbersModel::hasValues(int column) const {
    return column <= State || std::any_of(rows_.begin(), rows_.end(), [&](const FinalRow& row) {
               const double value = number(row, column);
               return column == Alerts ? value > 0 : !std::isnan(value) || (column == Difference && row.baseline);
           });
}

bool NanLastProxy::lessThan(const QModelIndex& left, const QModelIndex& right) const {
    const QVariant a = left.data(FinalNumbersModel::kSortRole), b = right.data(FinalNumbersModel::kSortRole);
    if (a.userType() != QMetaType::Double || b.userType() != QMetaType::Double) {
        return a.toString().localeAwareCompare(b.toString()) < 0;
    }
    const double x = a.toDouble(), y = b.toDouble();
    if (std::isnan(x) || std::isnan(y)) {  // last in both directions: the view flips the answer for descending order
        return sortOrder() == Qt::AscendingOrder ? !std::isnan(x) && std::isnan(y) : std::isnan(x) && !std::isnan(y);
    }
    return x < y;
}

void ConfigModel::setRows(std::vector<experiments::ConfigRow> rows, const QStringList& names) {
    beginResetModel();
    rows_ = std::move(rows);
    names_ = names;
    shown_.clear();
    for (size_t i = 0; i < rows_.size(); ++i) {
        if (filter_.isEmpty() || QString::fromStdString(rows_[i].path).contains(filter_, Qt::CaseInsensitive)) {
            shown_.push_back(i);
        }
    }
    endResetModel();
}

void ConfigModel::setFilter(const QString& text) {
    filter_ = text;
    setRows(rows_, names_);
}

QVariant ConfigModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || (role != Qt::DisplayRole && role != Qt::ToolTipRole)) {
        return role == Qt::TextAlignmentRole ? QVariant(int(Qt::AlignLeft | Qt::AlignVCenter)) : QVariant();
    }
    return section == 0 ? QStringLiteral("Field") : names_.value(section - 1);
}

QVariant ConfigModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const experiments::ConfigRow& row = rows_[shown_[size_t(index.row())]];
    if (role == Qt::DisplayRole || role == Qt::ToolTipRole) {
        const QString separator = role == Qt::ToolTipRole ? QStringLiteral("\n") : QStringLiteral(", ");
        return index.column() == 0 ? QString::fromStdString(row.path)
               : size_t(index.column() - 1) < row.values.size()
                   ? configText(row.values[size_t(index.column() - 1)], separator)
                   : QString();
    }
    if (role == Qt::ForegroundRole) {
        return color(index.column() == 0 || index.column() > 1 ? Token::Text : Token::Text2);
    }
    return {};
}

}  // namespace mantissa::gui
