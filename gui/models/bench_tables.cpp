#include "gui/models/bench_tables.h"

#include <QLocale>

#include "gui/format/numbers.h"

namespace mantissa::gui {

using namespace experiments;

namespace {

constexpr size_t kWindowShown = 24;

/// Six digits, without the zeros at the end of a fraction: tables of small numbers stay readable.
QString number(double value, bool whole) {
    if (whole) return exact(value);
    QString text = formatNumber(value, 6);
    const qsizetype point = text.indexOf(QLocale().decimalPoint());
    if (point < 0 || text.contains(QLatin1Char('e'))) return text;
    while (text.endsWith(QLatin1Char('0'))) text.chop(1);
    return text.endsWith(QLocale().decimalPoint()) ? text.left(point) : text;
}

/// Position of the entry that rules, in slots; the window's size when none of it does (any more).
size_t rulingSlot(const TraceRow& row) {
    const size_t newest = row.window.size() - 1;
    const size_t slot = size_t(row.age) <= newest ? newest - size_t(row.age) : row.window.size();
    return row.rulingEntry && slot < row.window.size() && row.window[slot] == *row.rulingEntry ? slot
                                                                                               : row.window.size();
}

QString windowText(const TraceRow& row, bool whole) {
    const size_t ruling = rulingSlot(row);
    return slotsText(row.window.size(), whole ? row.window.size() : kWindowShown, ruling, [&](size_t i) {
        const QString value = number(double(row.window[i]), whole);
        return i == ruling ? QLatin1Char('[') + value + QLatin1Char(']') : value;
    });
}

QString stateText(const TraceRow& row) {
    if (row.frozenFor > 0) return QObject::tr("frozen, leaves in %1").arg(formatCount(row.frozenFor));
    if (!row.updated) return QObject::tr("not updated");
    const size_t ruling = rulingSlot(row);
    return ruling < row.window.size() && ruling > 0 ? QObject::tr("leaves in %1").arg(formatCount(qint64(ruling)))
                                                    : QString();
}

}  // namespace

QString slotsText(size_t size, size_t shown, size_t ruling, const std::function<QString(size_t)>& text,
                  const QString& gap) {
    QStringList words;
    const size_t newest = size > shown ? size - (shown - 3) : 0;  // the first of those that end the line
    for (size_t i = 0; i < size; ++i) {
        if (i >= 2 && i < newest && i != ruling) {
            if (words.back() != QStringLiteral("…")) words << QStringLiteral("…");
            continue;
        }
        words << text(i);
    }
    if (size > shown) words << QObject::tr("(%1 entries)").arg(formatCount(qint64(size)));
    return words.join(gap);
}

QString hexCode(uint32_t code, const std::string& format) {
    const int digits = format == "bf16" || format == "fp16" ? 4 : format == "e2m1" ? 1 : 2;
    return QStringLiteral("0x") + QString::number(code, 16).toUpper().rightJustified(digits, QLatin1Char('0'));
}

void BenchModel::setTable(size_t rows, std::vector<BenchColumn> columns) {
    beginResetModel();
    rows_ = rows;
    columns_ = std::move(columns);
    endResetModel();
}

int BenchModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : int(rows_);
}

int BenchModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : int(columns_.size());
}

QVariant BenchModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    if (role == Qt::TextAlignmentRole) return int(Qt::AlignRight | Qt::AlignVCenter);
    if (role != Qt::DisplayRole && role != Qt::ToolTipRole) return {};
    return columns_[size_t(index.column())].text(size_t(index.row()), role == Qt::ToolTipRole);
}

QVariant BenchModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || section < 0 || section >= int(columns_.size())) return {};
    if (role == Qt::DisplayRole) return columns_[size_t(section)].head;
    if (role == Qt::ToolTipRole) return columns_[size_t(section)].tip;
    if (role == Qt::TextAlignmentRole) return int(Qt::AlignRight | Qt::AlignVCenter);
    return {};
}

std::vector<BenchColumn> codeColumns(const SharedTensor& r) {
    const auto error = [r](size_t row, bool whole) {
        const double input = double(r->inputs[row]), output = double(r->dequantized[row]);
        return whole ? exact(output - input) : output == input ? QStringLiteral("0") : formatSigned(output - input, 3);
    };
    return {{QObject::tr("#"), QObject::tr("Place in the list, from 0"),
             [](size_t row, bool) { return formatCount(qint64(row)); }},
            {QObject::tr("Value"), QObject::tr("The value after rounding to the type"),
             [r](size_t row, bool whole) { return number(double(r->inputs[row]), whole); }},
            {QObject::tr("Code"), QObject::tr("The stored code"),
             [r](size_t row, bool) { return hexCode(r->codes[row], r->request.format); }},
            {QObject::tr("Dequantized"), QObject::tr("Decoded code ÷ scale"),
             [r](size_t row, bool whole) { return number(double(r->dequantized[row]), whole); }},
            {QObject::tr("Error"), QObject::tr("Dequantized − value"), error}};
}

std::vector<BenchColumn> decodedColumns(const SharedDecoded& d, const std::string& format) {
    return {{QObject::tr("#"), QObject::tr("Place in the list, from 0"),
             [](size_t row, bool) { return formatCount(qint64(row)); }},
            {QObject::tr("Code"), QObject::tr("The code given"),
             [d, format](size_t row, bool) { return hexCode((*d)[row].code, format); }},
            {QObject::tr("Value"), QObject::tr("Decoded code ÷ scale"),
             [d](size_t row, bool whole) { return number(double((*d)[row].value), whole); }}};
}

std::vector<BenchColumn> traceColumns(const SharedTrace& t) {
    const auto ruledBy = [t](size_t row, bool whole) {
        const auto& entry = (*t)[row].rulingEntry;
        return entry ? number(double(*entry), whole) : notMeasured();
    };
    return {{QObject::tr("Update"), QObject::tr("Counted from 1"),
             [t](size_t row, bool) { return formatCount((*t)[row].update); }},
            {QObject::tr("amax"), QObject::tr("Of the tensor in this step"),
             [t](size_t row, bool whole) { return number(double((*t)[row].amax), whole); }},
            {QObject::tr("Scale used ×"), QObject::tr("In force in this step's cast"),
             [t](size_t row, bool whole) { return number(double((*t)[row].scaleUsed), whole); }},
            {QObject::tr("Next scale ×"), QObject::tr("After the update that ends the step"),
             [t](size_t row, bool whole) { return number(double((*t)[row].nextScale), whole); }},
            {QObject::tr("Ruled by"), QObject::tr("The amax that gave the next scale"), ruledBy},
            {QObject::tr("Age"), QObject::tr("Updates since that amax entered the window"),
             [t](size_t row, bool) { return (*t)[row].rulingEntry ? formatCount((*t)[row].age) : notMeasured(); }},
            {QObject::tr("State"), QObject::tr("When the entry that rules leaves the window; whether the scale moved"),
             [t](size_t row, bool) { return stateText((*t)[row]); }},
            {QObject::tr("Window"),
             QObject::tr("After the update and its roll: slot 0 open, then oldest to newest; the entry that rules in "
                         "brackets"),
             [t](size_t row, bool whole) { return windowText((*t)[row], whole); }}};
}

std::vector<BenchColumn> blockColumns(const SharedTensor& r) {
    const auto code = [r](size_t row, bool) {
        const auto& scale = r->blocks[row].scaleCode;
        return scale ? hexCode(*scale, "e4m3") : notMeasured();
    };
    return {{QObject::tr("Row"), QObject::tr("Of the block, in blocks"),
             [r](size_t row, bool) { return formatCount(r->blocks[row].row); }},
            {QObject::tr("Column"), QObject::tr("Of the block, in blocks"),
             [r](size_t row, bool) { return formatCount(r->blocks[row].col); }},
            {QObject::tr("amax"), QObject::tr("Largest magnitude in the block"),
             [r](size_t row, bool whole) { return number(double(r->blocks[row].amax), whole); }},
            {QObject::tr("Scale ×"), QObject::tr("stored = value × scale"),
             [r](size_t row, bool whole) { return number(double(r->blocks[row].scale), whole); }},
            {QObject::tr("scale_inv ÷"), QObject::tr("What the product multiplies by"),
             [r](size_t row, bool whole) { return number(double(r->blocks[row].scaleInv), whole); }},
            {QObject::tr("Scale's code"), QObject::tr("E8M0 of MXFP8, E4M3 of NVFP4"), code}};
}

}  // namespace mantissa::gui
