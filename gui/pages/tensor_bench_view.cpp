#include "gui/pages/tensor_bench_view.h"

#include <QCoreApplication>
#include <QFileDialog>
#include <QFileInfo>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QMenu>
#include <QVBoxLayout>

#include "experiments/format_info.h"
#include "gui/controller/run_controller.h"
#include "gui/format/numbers.h"

namespace mantissa::gui {
namespace {

constexpr int kTopic = 1, kFileTopic = 2;

constexpr qint64 kMostWhatIf = qint64{1} << 20;  // values that every recipe is tried on

/// Inputs to begin with, each a thing worth seeing.
struct Example {
    const char *name, *values;
    int read;
    const char *dtype, *format, *recipe, *history, *length;
};
constexpr Example kExamples[] = {
    {QT_TRANSLATE_NOOP("Bench", "Corners of E4M3"),
     "0, -0, 1, 0.3952, -0.1, 17, 19, 448, 449, 464, 465, 1e30, inf, -inf, nan, 0x1p-9, 0x1p-10, 0x1.000002p-10, "
     "0x1.8p-9, 0x1.4p-8, -0x1p-10",
     0, "f32", "e4m3", "fixed", "", ""},
    {QT_TRANSLATE_NOOP("Bench", "A spike rules the window"), "2, 8, 1, 0.5, 0.25, 0.25, 0.25, 0.25", 2, "f32", "e4m3",
     "delayed", "", "4"},
    {QT_TRANSLATE_NOOP("Bench", "A tensor that did not run"), "4, 0, 0, 2", 2, "f32", "e4m3", "delayed", "", "3"},
    {QT_TRANSLATE_NOOP("Bench", "An Inf freezes the scale"), "2, inf, 1, 0.5, 0.5, 0.5, 0.5", 2, "f32", "e4m3",
     "delayed", "", "4"},
    {QT_TRANSLATE_NOOP("Bench", "Powers of two down to 2⁻³¹"),
     "0x1p0 0x1p-1 0x1p-2 0x1p-3 0x1p-4 0x1p-5 0x1p-6 0x1p-7 0x1p-8 0x1p-9 0x1p-10 0x1p-11 0x1p-12 0x1p-13 0x1p-14 "
     "0x1p-15 0x1p-16 0x1p-17 0x1p-18 0x1p-19 0x1p-20 0x1p-21 0x1p-22 0x1p-23 0x1p-24 0x1p-25 0x1p-26 0x1p-27 "
     "0x1p-28 0x1p-29 0x1p-30 0x1p-31",
     0, "f32", "e4m3", "current", "", ""},
    {QT_TRANSLATE_NOOP("Bench", "Over range and clipped"), "448, 449, 463, 464, 465, 480, 500, 1000", 0, "f32", "e4m3",
     "delayed", "", ""},
    {QT_TRANSLATE_NOOP("Bench", "Codes of E4M3"), "01 07 08 55 C3 7E 7F FF", 1, "f32", "e4m3", "fixed", "", ""},
};

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

TensorBenchView::TensorBenchView(RunController& controller, QWidget* parent)
    : QWidget(parent), controller_(controller) {
    setAccessibleName(tr("Tensor bench"));
    auto* row = new QHBoxLayout(this);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(10);
    row->addWidget(makeForm());
    results_ = new BenchResultView(this);
    row->addWidget(results_, 1);
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

QComboBox* TensorBenchView::combo(QGridLayout& grid, int row, const QString& name, const QStringList& items,
                                  const QString& tip) {
    auto* box = new QComboBox(this);
    box->addItems(items);
    box->setAccessibleName(name);
    box->setToolTip(tip);
    auto* label = new TextLabel(name, Token::Text2, TextSize::Body, false, this);
    grid.addWidget(label, row, 0);
    grid.addWidget(box, row, 1);
    labelOf_.insert(box, label);
    connect(box, &QComboBox::currentIndexChanged, this, [this] {
        updateFields();
        timer_.start();
    });
    return box;
}

/// Where values come from: typed, a file, an example.
QWidget* TensorBenchView::makeSource() {
    auto* bar = new QWidget(this);
    auto* row = new QHBoxLayout(bar);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(8);
    open_ = new QPushButton(tr("Open file…"), bar);
    open_->setAccessibleName(open_->text());
    open_->setToolTip(tr("Values of a CSV or safetensors file"));
    connect(open_, &QPushButton::clicked, this, [this] {
        auto* dialog = new QFileDialog(this, tr("Open values"), QString(), tr("Values (*.csv *.txt *.safetensors)"));
        dialog->setAttribute(Qt::WA_DeleteOnClose);
        dialog->setFileMode(QFileDialog::ExistingFile);
        connect(dialog, &QFileDialog::fileSelected, this, &TensorBenchView::openFile);
        dialog->open();
    });
    examples_ = new QPushButton(tr("Examples"), bar);
    examples_->setAccessibleName(examples_->text());
    examples_->setToolTip(tr("Fills in values, recipe and state of a case worth seeing"));
    auto* menu = new QMenu(examples_);
    const QStringList names = exampleNames();
    for (int i = 0; i < names.size(); ++i) menu->addAction(names[i], this, [this, i] { showExample(i); });
    menu->addAction(tr("1 000 000 normal values"), this, [this] {
        dtype_->setCurrentText(QStringLiteral("bf16"));
        recipe_->setCurrentText(QStringLiteral("current"));
        fillNormal(1000000);
    });
    examples_->setMenu(menu);
    row->addWidget(open_);
    row->addWidget(examples_);
    row->addStretch(1);
    return bar;
}

QWidget* TensorBenchView::makeForm() {
    auto* card = new Card(tr("Values and recipe"), QString(), this);
    card->setFixedWidth(340);
    auto* column = card->body();
    column->setContentsMargins(12, 0, 12, 12);
    column->setSpacing(8);
    column->addWidget(makeSource());
    values_ = new QPlainTextEdit(QStringLiteral("448, 464, 465, 480, 1, -0, 3e-5, 2e-3, 0.0009765625, inf, nan"), card);
    values_->setAccessibleName(tr("Values"));
    values_->setToolTip(tr("Numbers separated by commas, spaces or lines; nan and inf allowed"));
    values_->setFont(codeFont());
    values_->setTabChangesFocus(true);
    column->addWidget(values_, 1);
    held_ = new TextLabel(QString(), Token::Text2, TextSize::Body, false, card);
    held_->setWordWrap(true);
    column->addWidget(held_);
    drop_ = new QPushButton(tr("Type values instead"), card);
    drop_->setAccessibleName(drop_->text());
    drop_->setToolTip(tr("Lets go of these values and shows the text field again"));
    connect(drop_, &QPushButton::clicked, this, &TensorBenchView::letGo);
    column->addWidget(drop_, 0, Qt::AlignLeft);
    held_->hide();
    drop_->hide();
    error_ = new TextLabel(QString(), Token::Bad, TextSize::Small, false, card);
    error_->setWordWrap(true);
    error_->hide();
    column->addWidget(error_);
    auto* grid = new QGridLayout;
    grid->setHorizontalSpacing(8);
    grid->setVerticalSpacing(6);
    grid->setColumnMinimumWidth(0, 96);
    grid->setColumnStretch(1, 1);
    const auto words = [](const char* text) { return QString::fromLatin1(text).split(QLatin1Char(' ')); };
    read_ = combo(*grid, 0, tr("Read as"), {tr("values"), tr("codes"), tr("amaxes, one an update")},
                  tr("Values are cast; codes only decoded; amaxes are fed through the delayed rule"));
    columns_ =
        edit(*grid, 1, tr("Columns"), QString(), tr("Values of a row; empty: all in one row. Matters for blocks"));
    dtype_ = combo(*grid, 2, tr("Type"), words("f32 bf16"), tr("Values are rounded to this type first"));
    format_ = combo(*grid, 3, tr("Format"), words("e4m3 e5m2 e2m1 e8m0 bf16 fp16"), tr("Format of the codes"));
    round_ = combo(*grid, 4, tr("Rounding"), words("up down"), tr("E8M0 holds powers of two: away from or towards 0"));
    recipe_ = combo(*grid, 5, tr("Recipe"), words("delayed current fixed block1x128 block128x128 mxfp8 nvfp4"),
                    tr("Where the scale comes from"));
    scale_ = edit(*grid, 6, tr("Scale ×"), QString(),
                  tr("Scale in force, stored = value × scale; empty: from the window, else 1"));
    history_ = edit(*grid, 7, tr("Window"), QString(),
                    tr("Amax history: slot 0 open, 1 oldest closed, last newest closed; empty: fresh state"));
    length_ = edit(*grid, 8, tr("Window length"), QString(), tr("Entries; empty: those given, else 1024"));
    algorithm_ =
        combo(*grid, 9, tr("Algorithm"), words("max most_recent"), tr("Which entry of the window gives the scale"));
    margin_ = edit(*grid, 10, tr("Margin"), QStringLiteral("0"), tr("The scale is divided by 2 to this power"));
    epsilon_ = edit(*grid, 11, tr("Epsilon"), QStringLiteral("0"), tr("Smallest amax of current scaling"));
    powerOfTwo_ = new QCheckBox(tr("power of two scales"), card);
    powerOfTwo_->setAccessibleName(tr("Power of two scales"));
    powerOfTwo_->setToolTip(tr("The scale is rounded down to a power of two"));
    grid->addWidget(powerOfTwo_, 12, 1);
    column->addLayout(grid);
    connect(powerOfTwo_, &QCheckBox::toggled, this, [this] { timer_.start(); });
    connect(values_, &QPlainTextEdit::textChanged, this, [this] { timer_.start(); });
    return card;
}

QStringList TensorBenchView::exampleNames() {
    QStringList names;
    for (const Example& example : kExamples) names << QCoreApplication::translate("Bench", example.name);
    return names;
}

void TensorBenchView::showExample(int index) {
    const Example& example = kExamples[index];
    letGo();
    const auto set = [](QComboBox* box, const char* text) { box->setCurrentText(QString::fromLatin1(text)); };
    read_->setCurrentIndex(example.read);
    set(dtype_, example.dtype);
    set(format_, example.format);
    set(recipe_, example.recipe);
    set(algorithm_, "max");
    history_->setText(QString::fromLatin1(example.history));
    length_->setText(QString::fromLatin1(example.length));
    for (QLineEdit* field : {columns_, scale_}) field->clear();
    for (QLineEdit* field : {margin_, epsilon_}) field->setText(QStringLiteral("0"));
    powerOfTwo_->setChecked(false);
    values_->setPlainText(QString::fromLatin1(example.values));
    timer_.start();
}

void TensorBenchView::fillNormal(int count) {
    controller_.compute(
        this, kFileTopic, [count] { return experiments::normalValues(count, 1); },
        [this, count](experiments::TensorValues values) {
            hold(std::move(values), tr("%1 normal values, mean 0, deviation 1").arg(formatCount(count)));
        });
}

void TensorBenchView::openFile(const QString& path) {
    controller_.compute(
        this, kFileTopic, [path = path.toStdString()] { return experiments::readTensorFile(path); },
        [this, path](experiments::TensorValues values) {
            const QString shape =
                tr("%1 × %2 values of %3")
                    .arg(formatCount(values.rows), formatCount(values.cols), QFileInfo(path).fileName());
            hold(std::move(values), shape);
        },
        [this](const QString& text) {
            error_->setText(text);
            error_->show();
        });
}

void TensorBenchView::hold(experiments::TensorValues values, const QString& name) {
    read_->setCurrentIndex(Values);
    columns_->setText(values.rows > 1 ? QString::number(values.cols) : QString());
    heldValues_ = std::make_shared<const experiments::TensorValues>(std::move(values));
    held_->setText(name);
    held_->show();
    drop_->show();
    values_->hide();
    timer_.start();
}

void TensorBenchView::letGo() {
    heldValues_.reset();
    held_->hide();
    drop_->hide();
    values_->show();
    timer_.start();
}

void TensorBenchView::updateFields() {
    const QString recipe = recipe_->currentText();
    const bool cast = read() == Values, trace = read() == Amaxes;
    const bool delayed = trace || (cast && recipe == QLatin1String("delayed"));
    const bool fixed = cast && recipe == QLatin1String("fixed"), current = cast && recipe == QLatin1String("current");
    const bool e8m0 = cast && format_->currentText() == QLatin1String("e8m0");
    const auto show = [this](QWidget* field, bool on) {
        field->setVisible(on);
        if (QWidget* label = labelOf_.value(field)) label->setVisible(on);
    };
    show(columns_, cast);
    show(dtype_, cast);
    show(recipe_, cast);
    show(round_, e8m0);
    show(scale_, delayed || fixed || read() == Codes);
    for (QWidget* field : {static_cast<QWidget*>(history_), static_cast<QWidget*>(length_),
                           static_cast<QWidget*>(algorithm_), static_cast<QWidget*>(margin_)})
        show(field, delayed);
    show(epsilon_, current);
    powerOfTwo_->setVisible(cast && !delayed && !fixed && recipe != QLatin1String("mxfp8") &&
                            recipe != QLatin1String("nvfp4"));
    const QString tips[] = {tr("Numbers separated by commas, spaces or lines; nan and inf allowed"),
                            tr("Codes in hexadecimal, separated by commas, spaces or lines"),
                            tr("Amaxes, 0 and more, one a step; nan and inf allowed")};
    values_->setToolTip(tips[int(read())]);
}

bool TensorBenchView::takeValues(experiments::TensorRequest& request, QString* error) const {
    if (heldValues_ && read() == Values) {
        request.values = heldValues_->values;
        return true;
    }
    if (read() == Codes) return true;
    request.values = parseValues(values_->toPlainText(), error);
    if (error->isEmpty() && request.values.empty())
        *error = tr("There are no values yet: numbers separated by commas, spaces or lines.");
    for (size_t i = 0; i < request.values.size() && read() == Amaxes && error->isEmpty(); ++i)
        if (request.values[i] < 0)
            *error = tr("value %1, %2, is no amax: 0 and more is allowed")
                         .arg(formatCount(qint64(i) + 1), formatNumber(double(request.values[i]), 6));
    return error->isEmpty();
}

void TensorBenchView::takeNumbers(experiments::TensorRequest& request, QString* error) const {
    const auto whole = [error](const QLineEdit* field, int fallback) {
        if (field->text().trimmed().isEmpty() || field->isHidden()) return fallback;
        const auto value = parseCount(field->text());
        if (!value || *value < 0 || *value > (1 << 24))
            *error = QObject::tr("%1: “%2” is not a whole number from 0 to 16 777 216")
                         .arg(field->accessibleName(), field->text());
        return value ? static_cast<int>(*value) : fallback;
    };
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
            *error = tr("%1: “%2” is not a number").arg(field->accessibleName(), field->text());
        else if (field == scale_)
            request.scale = static_cast<float>(*value);
        else
            request.epsilon = static_cast<float>(*value);
    }
}

bool TensorBenchView::takeRequest(experiments::TensorRequest& request, QString* error) const {
    if (!takeValues(request, error)) return false;
    request.dtype = dtype_->currentText().toStdString();
    request.format = format_->currentText().toStdString();
    request.recipe = read() == Amaxes ? "delayed" : recipe_->currentText().toStdString();
    request.algorithm = algorithm_->currentText().toStdString();
    request.powerOfTwo = powerOfTwo_->isChecked() && !powerOfTwo_->isHidden();
    request.roundUp = round_->currentIndex() == 0;
    takeNumbers(request, error);
    return error->isEmpty();
}

namespace {

/// Background thread. codes: the text to decode; only read when not empty.
BenchOutput bench(experiments::TensorRequest request, bool trace, const std::string& codes) {
    BenchOutput output;
    output.format = request.format;
    if (!codes.empty()) {
        output.decoded = std::make_shared<const std::vector<experiments::DecodedCode>>(experiments::decodeTensorCodes(
            experiments::parseTensorCodes(codes, request.format), request.format, request.scale.value_or(1.0f)));
    } else if (trace) {
        const std::vector<float> amaxes = std::move(request.values);
        output.trace =
            std::make_shared<const std::vector<experiments::TraceRow>>(experiments::traceDelayed(request, amaxes));
    } else {
        output.fresh = request.recipe == "delayed" && request.history.empty() && !request.scale;
        output.result = std::make_shared<const experiments::TensorResult>(experiments::runTensorBench(request));
        output.blocks = blockMap(*output.result);
        const bool recipes = request.format != "e8m0" && qint64(request.values.size()) <= kMostWhatIf;
        if (recipes)
            for (const auto& one : experiments::tensorWhatIf(request)) output.recipes.push_back(castRow(one));
    }
    return output;
}

}  // namespace

void TensorBenchView::run() {
    experiments::TensorRequest request;
    QString error;
    bool good = takeRequest(request, &error);
    const std::string codes = read() == Codes ? values_->toPlainText().trimmed().toStdString() : std::string();
    if (good && read() == Codes && codes.empty()) {
        good = false;
        error = tr("There are no codes yet: hexadecimal digits separated by commas, spaces or lines.");
    }
    error_->setText(error);
    error_->setVisible(!good);
    if (!good) return;
    controller_.compute(
        this, kTopic,
        [request = std::move(request), trace = read() == Amaxes, codes]() mutable {
            return std::make_shared<BenchOutput>(bench(std::move(request), trace, codes));
        },
        [this](std::shared_ptr<BenchOutput> output) {
            results_->showOutput(std::move(*output));
            Q_EMIT resultChanged();
        },
        [this](const QString& text) {
            error_->setText(text);
            error_->show();
        });
}

}  // namespace mantissa::gui
