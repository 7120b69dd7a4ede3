#include "gui/pages/tensor_bench_view.h"

#include <QGridLayout>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QScrollArea>
#include <QVBoxLayout>
#include <cmath>

#include "experiments/format_info.h"
#include "gui/controller/run_controller.h"
#include "gui/format/numbers.h"

namespace mantissa::gui {
namespace {

constexpr int kTopic = 1;

QString hexCode(uint32_t code, const std::string& format) {
    const bool wide = format == "bf16" || format == "fp16";
    return QStringLiteral("0x") + QString::number(code, 16).toUpper().rightJustified(wide               ? 4
                                                                                     : format == "e2m1" ? 1
                                                                                                        : 2,
                                                                                     QLatin1Char('0'));
}

QString joined(const std::vector<float>& values) {
    QStringList texts;
    for (size_t i = 0; i < values.size() && i < 16; ++i) texts << formatScale(static_cast<double>(values[i]));
    if (values.size() > 16)
        texts << QObject::tr("\u2026 %1 entries").arg(formatCount(static_cast<qint64>(values.size())));
    return texts.join(QStringLiteral("  "));
}

}  // namespace

std::vector<float> parseValues(const QString& text, QString* error) {
    std::vector<float> values;
    qsizetype at = 0;
    const auto isBreak = [](QChar c) { return c.isSpace() || c == QLatin1Char(',') || c == QLatin1Char(';'); };
    while (at < text.size()) {
        while (at < text.size() && isBreak(text[at])) ++at;
        qsizetype end = at;
        while (end < text.size() && !isBreak(text[end])) ++end;
        if (end == at) break;
        const QString word = text.mid(at, end - at);
        const auto value = experiments::parseNumber(word.toStdString());
        if (!value) {
            *error = QObject::tr("value %1, \u201c%2\u201d, is not a number")
                         .arg(formatCount(static_cast<qint64>(values.size()) + 1), word);
            return {};
        }
        values.push_back(static_cast<float>(*value));
        at = end;
    }
    return values;
}

void BenchModel::setResult(std::shared_ptr<const experiments::TensorResult> result) {
    beginResetModel();
    result_ = std::move(result);
    endResetModel();
}

int BenchModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() || !result_ ? 0 : static_cast<int>(result_->inputs.size());
}

int BenchModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : ColumnCount;
}

QVariant BenchModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    if (role == Qt::TextAlignmentRole) return int(Qt::AlignRight | Qt::AlignVCenter);
    if (role != Qt::DisplayRole && role != Qt::ToolTipRole) return {};
    const auto row = static_cast<size_t>(index.row());
    const auto input = static_cast<double>(result_->inputs[row]),
               output = static_cast<double>(result_->dequantized[row]);
    const bool whole = role == Qt::ToolTipRole;
    switch (index.column()) {
        case Index:
            return formatCount(index.row());
        case Value:
            return whole ? exact(input) : formatNumber(input, 6);
        case Code:
            return hexCode(result_->codes[row], result_->request.format);
        case Dequantized:
            return whole ? exact(output) : formatNumber(output, 6);
        default:
            return whole             ? exact(output - input)
                   : output == input ? QStringLiteral("0")
                                     : formatSigned(output - input, 3);
    }
}

QVariant BenchModel::headerData(int section, Qt::Orientation orientation, int role) const {
    static const char* const heads[] = {"#", "Value", "Code", "Dequantized", "Error"};
    static const char* const tips[] = {"Place in the list, from 0", "The value after rounding to the type",
                                       "The stored code", "Decoded code ÷ scale", "Dequantized − value"};
    if (orientation != Qt::Horizontal) return {};
    if (role == Qt::DisplayRole) return tr(heads[section]);
    if (role == Qt::ToolTipRole) return tr(tips[section]);
    if (role == Qt::TextAlignmentRole) return int(Qt::AlignRight | Qt::AlignVCenter);
    return {};
}

TensorBenchView::TensorBenchView(RunController& controller, QWidget* parent)
    : QWidget(parent), controller_(controller) {
    setAccessibleName(tr("Tensor bench"));
    auto* row = new QHBoxLayout(this);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(10);
    row->addWidget(makeForm());
    row->addWidget(makeResult(), 1);
    timer_.setSingleShot(true);
    timer_.setInterval(100);
    connect(&timer_, &QTimer::timeout, this, &TensorBenchView::run);
    updateFields();
    timer_.start();
}

QLineEdit* TensorBenchView::edit(QGridLayout& grid, int row, const QString& name, const QString& text,
                                 const QString& tip) {
    auto* field = new QLineEdit(text, this);
    field->setAccessibleName(name);
    field->setToolTip(tip);
    auto* label = new TextLabel(name, Token::Text2, TextSize::Body, false, this);
    grid.addWidget(label, row, 0);
    grid.addWidget(field, row, 1);
    labelOf_.insert(field, label);
    connect(field, &QLineEdit::textEdited, this, [this] { timer_.start(); });
    return field;
}

QWidget* TensorBenchView::makeForm() {
    auto* card = new Card(tr("Values and recipe"), QString(), this);
    card->setFixedWidth(340);
    auto* column = card->body();
    column->setContentsMargins(12, 0, 12, 12);
    column->setSpacing(8);
    values_ = new QPlainTextEdit(QStringLiteral("448, 464, 465, 480, 1, -0, 3e-5, 2e-3, 0.0009765625, inf, nan"), card);
    values_->setAccessibleName(tr("Values"));
    values_->setToolTip(tr("Numbers separated by commas, spaces or lines; nan and inf allowed"));
    values_->setFont(codeFont());
    values_->setTabChangesFocus(true);
    column->addWidget(values_, 1);
    error_ = new TextLabel(QString(), Token::Bad, TextSize::Small, false, card);
    error_->setWordWrap(true);
    error_->hide();
    column->addWidget(error_);
    auto* grid = new QGridLayout;
    grid->setHorizontalSpacing(8);
    grid->setVerticalSpacing(6);
    grid->setColumnMinimumWidth(0, 96);
    grid->setColumnStretch(1, 1);
    const auto combo = [this, grid, card](int row, const QString& name, const QStringList& items, const QString& tip) {
        auto* box = new QComboBox(card);
        box->addItems(items);
        box->setAccessibleName(name);
        box->setToolTip(tip);
        auto* label = new TextLabel(name, Token::Text2, TextSize::Body, false, card);
        grid->addWidget(label, row, 0);
        grid->addWidget(box, row, 1);
        labelOf_.insert(box, label);
        connect(box, &QComboBox::currentIndexChanged, this, [this] {
            updateFields();
            timer_.start();
        });
        return box;
    };
    const auto words = [](const char* text) { return QString::fromLatin1(text).split(QLatin1Char(' ')); };
    columns_ =
        edit(*grid, 0, tr("Columns"), QString(), tr("Values of a row; empty: all in one row. Matters for blocks"));
    dtype_ = combo(1, tr("Type"), words("f32 bf16"), tr("Values are rounded to this type first"));
    format_ = combo(2, tr("Format"), words("e4m3 e5m2 e2m1 e8m0 bf16 fp16"), tr("Format of the codes"));
    recipe_ = combo(3, tr("Recipe"), words("delayed current fixed block1x128 block128x128 mxfp8 nvfp4"),
                    tr("Where the scale comes from"));
    scale_ = edit(*grid, 4, tr("Scale \u00d7"), QString(),
                  tr("Scale in force, stored = value \u00d7 scale; empty: from the window, else 1"));
    history_ = edit(*grid, 5, tr("Window"), QString(),
                    tr("Amax history: slot 0 open, 1 oldest closed, last newest closed; empty: fresh state"));
    length_ = edit(*grid, 6, tr("Window length"), QString(), tr("Entries; empty: those given, else 1024"));
    algorithm_ = combo(7, tr("Algorithm"), words("max most_recent"), tr("Which entry of the window gives the scale"));
    margin_ = edit(*grid, 8, tr("Margin"), QStringLiteral("0"), tr("The scale is divided by 2 to this power"));
    epsilon_ = edit(*grid, 9, tr("Epsilon"), QStringLiteral("0"), tr("Smallest amax of current scaling"));
    powerOfTwo_ = new QCheckBox(tr("power of two scales"), card);
    powerOfTwo_->setAccessibleName(tr("Power of two scales"));
    powerOfTwo_->setToolTip(tr("The scale is rounded down to a power of two"));
    grid->addWidget(powerOfTwo_, 10, 1);
    column->addLayout(grid);
    connect(powerOfTwo_, &QCheckBox::toggled, this, [this] { timer_.start(); });
    connect(values_, &QPlainTextEdit::textChanged, this, [this] { timer_.start(); });
    return card;
}

QWidget* TensorBenchView::makeResult() {
    auto* side = new QWidget(this);
    auto* column = new QVBoxLayout(side);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(10);
    auto* facts = new Card(tr("Scale, counters, next state"), QString(), side);
    facts_ = new QGridLayout;
    facts_->setContentsMargins(12, 0, 12, 12);
    facts_->setHorizontalSpacing(12);
    facts_->setVerticalSpacing(5);
    for (int c = 1; c < 6; c += 2) facts_->setColumnStretch(c, 1);
    facts->body()->addLayout(facts_);
    column->addWidget(facts);
    auto* list = new Card(tr("Codes"), tr("one row a value"), side);
    model_ = new BenchModel(this);
    table_ = new QTableView(list);
    table_->setTabKeyNavigation(false);
    values_->setTabChangesFocus(true);
    table_->setModel(model_);
    table_->setAccessibleName(tr("Codes of the values"));
    table_->setToolTip(tr("Value, code, dequantized value and error"));
    table_->verticalHeader()->hide();
    table_->verticalHeader()->setSectionResizeMode(QHeaderView::Fixed);
    table_->verticalHeader()->setDefaultSectionSize(24);
    table_->horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
    table_->setShowGrid(false);
    list->body()->addWidget(table_);
    column->addWidget(list, 1);
    return side;
}

void TensorBenchView::updateFields() {
    const QString recipe = recipe_->currentText();
    const bool delayed = recipe == QLatin1String("delayed"), fixed = recipe == QLatin1String("fixed"),
               current = recipe == QLatin1String("current");
    const auto show = [this](QWidget* field, bool on) {
        field->setVisible(on);
        if (QWidget* label = labelOf_.value(field)) label->setVisible(on);
    };
    show(scale_, delayed || fixed);
    for (QWidget* field : {static_cast<QWidget*>(history_), static_cast<QWidget*>(length_),
                           static_cast<QWidget*>(algorithm_), static_cast<QWidget*>(margin_)})
        show(field, delayed);
    show(epsilon_, current);
    powerOfTwo_->setVisible(!delayed && !fixed && recipe != QLatin1String("mxfp8") &&
                            recipe != QLatin1String("nvfp4"));
}

bool TensorBenchView::takeRequest(experiments::TensorRequest& request, QString* error) const {
    request.values = parseValues(values_->toPlainText(), error);
    if (!error->isEmpty()) return false;
    if (request.values.empty()) {
        *error = tr("There are no values yet: numbers separated by commas, spaces or lines.");
        return false;
    }
    const auto whole = [error](const QLineEdit* field, int fallback) {
        if (field->text().trimmed().isEmpty() || field->isHidden()) return fallback;
        const auto value = parseCount(field->text());
        if (!value || *value < 0 || *value > (1 << 24))
            *error = QObject::tr("%1: \u201c%2\u201d is not a whole number from 0 to 16 777 216")
                         .arg(field->accessibleName(), field->text());
        return value ? static_cast<int>(*value) : fallback;
    };
    request.dtype = dtype_->currentText().toStdString();
    request.format = format_->currentText().toStdString();
    request.recipe = recipe_->currentText().toStdString();
    request.algorithm = algorithm_->currentText().toStdString();
    request.powerOfTwo = powerOfTwo_->isChecked() && !powerOfTwo_->isHidden();
    const int columns = whole(columns_, 0);
    request.cols = columns;
    if (columns > 0) {
        if (request.values.size() % static_cast<size_t>(columns) != 0)
            *error = tr("%1 values do not fill rows of %2 columns")
                         .arg(formatCount(static_cast<qint64>(request.values.size())), formatCount(columns));
        request.rows = static_cast<int64_t>(request.values.size()) / columns;
    }
    request.historyLength = whole(length_, 0);
    request.margin = whole(margin_, 0);
    if (!history_->isHidden()) request.history = parseValues(history_->text(), error);
    for (const QLineEdit* field : {scale_, epsilon_}) {
        if (field->isHidden() || field->text().trimmed().isEmpty()) continue;
        const auto value = parseNumber(field->text());
        if (!value)
            *error = tr("%1: \u201c%2\u201d is not a number").arg(field->accessibleName(), field->text());
        else if (field == scale_)
            request.scale = static_cast<float>(*value);
        else
            request.epsilon = static_cast<float>(*value);
    }
    return error->isEmpty();
}

void TensorBenchView::run() {
    experiments::TensorRequest request;
    QString error;
    const bool good = takeRequest(request, &error);
    error_->setText(error);
    error_->setVisible(!good);
    if (!good) return;
    controller_.compute(
        this, kTopic,
        [request = std::move(request)] {
            return std::make_shared<const experiments::TensorResult>(experiments::runTensorBench(request));
        },
        [this](std::shared_ptr<const experiments::TensorResult> result) { show(std::move(result)); },
        [this](const QString& text) {
            error_->setText(text);
            error_->show();
        });
}

void TensorBenchView::setFact(const QString& name, const QString& value, const QString& tip, Token token) {
    if (used_ == factRows_.size()) {
        auto* key = new TextLabel(name, Token::Text3, TextSize::Body, false, this);
        auto* text = new TextLabel(value, token, TextSize::Body, false, this);
        text->setTextInteractionFlags(Qt::TextSelectableByMouse);
        facts_->addWidget(key, used_ / 3, 2 * (used_ % 3));
        facts_->addWidget(text, used_ / 3, 2 * (used_ % 3) + 1);
        factRows_.push_back({key, text});
    }
    auto& [key, text] = factRows_[used_++];
    key->setText(name);
    text->setText(value);
    text->setToken(token);
    for (TextLabel* label : {key, text}) {
        label->setToolTip(tip);
        label->show();
    }
}

void TensorBenchView::show(std::shared_ptr<const experiments::TensorResult> result) {
    result_ = std::move(result);
    model_->setResult(result_);
    used_ = 0;
    const experiments::TensorResult& r = *result_;
    const auto number = [](double value) { return formatScale(value); };
    if (r.scale) setFact(tr("scale \u00d7"), number(*r.scale), exact(*r.scale));
    if (r.scaleInv) setFact(tr("scale_inv \u00f7"), number(*r.scaleInv), exact(*r.scaleInv));
    setFact(tr("amax"), number(r.amax),
            tr("Largest magnitude before the cast: %1. NaN is skipped, Inf is shown").arg(exact(r.amax)));
    const auto& c = r.counters;
    const auto count = [&](const QString& name, uint64_t value, const QString& tip, Token token = Token::Text) {
        const double share = c.elements > 0 ? static_cast<double>(value) / static_cast<double>(c.elements) : 0;
        setFact(name,
                value == 0 ? QStringLiteral("0")
                           : tr("%1, %2").arg(formatCount(static_cast<qint64>(value)), formatShare(share)),
                tip, value > 0 ? token : Token::Text);
    };
    setFact(tr("elements"), formatCount(static_cast<qint64>(c.elements)), tr("Values cast"));
    count(tr("zeros"), c.zeros, tr("Exact zeros before the cast"));
    count(tr("underflow"), c.underflow, tr("Not zero before, code \u00b10 after the cast"), Token::Warn);
    count(tr("subnormal"), c.subnormal, tr("Stored below the smallest normal value"));
    count(tr("over range"), c.overRange, tr("Magnitude \u00d7 scale above the next float after the largest value"));
    count(tr("clipped"), c.clipped, tr("Rounds above the largest value"), Token::Warn);
    count(tr("Inf"), c.inf, tr("Infinite before the cast"), Token::Nonfinite);
    count(tr("NaN"), c.nan, tr("Not a number before the cast"), Token::Nonfinite);
    setFact(tr("SQNR"),
            std::isnan(r.sqnrDb)   ? notMeasured()
            : std::isinf(r.sqnrDb) ? tr("no error")
                                   : tr("%1 dB").arg(formatNumber(r.sqnrDb, 3)),
            tr("10\u00b7log\u2081\u2080(\u03a3x\u00b2 \u00f7 \u03a3(x\u0302\u2212x)\u00b2) over finite values"));
    setFact(tr("dynamic range"),
            r.dynamicRange ? tr("%1 binades").arg(formatNumber(*r.dynamicRange, 3)) : notMeasured(),
            tr("log\u2082 of largest \u00f7 smallest non-zero magnitude"));
    if (r.next) {
        setFact(tr("next scale \u00d7"), number(r.next->scale), exact(r.next->scale));
        setFact(tr("next window"), joined(r.next->history),
                tr("After the update and its roll: slot 0 open, 1 oldest closed, last newest closed"));
    }
    if (!r.blocks.empty())
        setFact(tr("blocks"), formatCount(static_cast<qint64>(r.blocks.size())),
                tr("First block: scale %1, amax %2").arg(exact(r.blocks.front().scale), exact(r.blocks.front().amax)));
    for (int i = used_; i < factRows_.size(); ++i) {
        factRows_[i].first->hide();
        factRows_[i].second->hide();
    }
    Q_EMIT resultChanged();
}

}  // namespace mantissa::gui
