#include "gui/pages/formats_page.h"

#include <QApplication>
#include <QClipboard>
#include <QHBoxLayout>
#include <QRegularExpression>
#include <QScrollArea>
#include <QToolButton>
#include <QVBoxLayout>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/theme/icons.h"
#include "gui/widgets/wrong_mark.h"

namespace mantissa::gui {
namespace {

using experiments::NumberFormat;

}  // namespace

FormatsPage::FormatsPage(RunController& controller, QWidget* parent) : Page(controller, parent) {
    setAccessibleName(tr("Formats"));
    for (const NumberFormat format : experiments::allFormats())
        if (format != NumberFormat::E8m0) view_.formats << format;  // a scale's format: no sign, no zero
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(12, 12, 12, 12);
    column->setSpacing(10);
    column->addWidget(makeSelector());
    error_ = new TextLabel(QString(), Token::Bad, TextSize::Small, false, this);
    error_->hide();
    column->addWidget(error_);
    stack_ = new QStackedWidget(this);
    auto* area = new QScrollArea(stack_);
    area->setWidgetResizable(true);
    area->setFocusPolicy(Qt::NoFocus);
    area->setAccessibleName(tr("One number"));
    area->setWidget(makeNumberView());
    area->viewport()->setAutoFillBackground(false);
    area->widget()->setAutoFillBackground(false);
    stack_->addWidget(area);
    bench_ = new TensorBenchView(controller, stack_);
    stack_->addWidget(bench_);
    column->addWidget(stack_, 1);
    recompute();
}

QWidget* FormatsPage::makeSelector() {
    auto* bar = new QWidget(this);
    auto* row = new QHBoxLayout(bar);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(0);
    views_ = new QButtonGroup(this);
    const QString names[] = {tr("One number"), tr("Tensor bench")};
    for (int i = 0; i < 2; ++i) {
        auto* button = new QToolButton(bar);
        button->setText(names[i]);
        button->setCheckable(true);
        button->setChecked(i == 0);
        button->setProperty("kind", QStringLiteral("segment"));
        button->setProperty("place", i == 0 ? QStringLiteral("first") : QStringLiteral("last"));
        button->setAccessibleName(names[i]);
        button->setToolTip(
            i == 0 ? tr("A number or a code in every format")
                   : tr("Casts many values under a recipe and shows codes, scale, counters and the next state"));
        views_->addButton(button, i);
        row->addWidget(button);
    }
    connect(views_, &QButtonGroup::idClicked, this, [this](int id) { showBench(id == 1); });
    row->addSpacing(16);
    numberTools_ = new QWidget(bar);
    auto* tools = new QHBoxLayout(numberTools_);
    tools->setContentsMargins(0, 0, 0, 0);
    tools->setSpacing(8);
    const auto label = [this, tools](const QString& text) {
        tools->addWidget(new TextLabel(text, Token::Text2, TextSize::Body, false, numberTools_));
    };
    const auto edit = [this, tools](const QString& text, const QString& name, const QString& tip, int width) {
        auto* field = new QLineEdit(text, numberTools_);
        field->setAccessibleName(name);
        field->setToolTip(tip);
        field->setMaximumWidth(width);
        field->setMinimumWidth(width / 2);
        tools->addWidget(field, 1);
        return field;
    };
    label(tr("Number"));
    number_ = edit(QStringLiteral("0.1"), tr("Number"),
                   tr("A decimal number, inf, nan, or a hexadecimal float such as 0x1p-9"), 150);
    label(tr("or code"));
    code_ = edit(QString(), tr("Code"), tr("The code as hexadecimal digits in the format beside"), 70);
    code_->setFont(codeFont());
    format_ = new QComboBox(numberTools_);
    for (const NumberFormat format : view_.formats)
        format_->addItem(QLatin1String(experiments::formatFacts(format).name), static_cast<int>(format));
    format_->setAccessibleName(tr("Format of the code"));
    format_->setToolTip(tr("Format of the code"));
    tools->addWidget(format_);
    tools->addSpacing(8);
    label(tr("scale \u00d7"));
    scale_ = edit(QStringLiteral("1"), tr("Scale"), tr("stored = number \u00d7 scale"), 70);
    label(tr("rounding"));
    rounding_ = new QComboBox(numberTools_);
    rounding_->addItems(
        {tr("nearest, ties to even"), tr("stochastic, one draw"), tr("towards zero"), tr("away from zero")});
    rounding_->setAccessibleName(tr("Rounding"));
    rounding_->setToolTip(tr("How the scaled number becomes a code; finite values saturate"));
    tools->addWidget(rounding_);
    auto* copy = new QToolButton(numberTools_);
    copy->setIcon(icon(Glyph::Copy));
    copy->setAccessibleName(tr("Copy table"));
    copy->setToolTip(tr("Copy the table of codes as text with full precision"));
    tools->addStretch(1);
    tools->addWidget(copy);
    row->addWidget(numberTools_, 1);
    row->addStretch(0);
    connect(copy, &QToolButton::clicked, this, [this] { QApplication::clipboard()->setText(codes_->asText()); });
    connect(number_, &QLineEdit::textEdited, this, &FormatsPage::numberTyped);
    connect(scale_, &QLineEdit::textEdited, this, &FormatsPage::numberTyped);
    connect(code_, &QLineEdit::textEdited, this, &FormatsPage::codeTyped);
    connect(format_, &QComboBox::currentIndexChanged, this, &FormatsPage::recompute);
    connect(rounding_, &QComboBox::currentIndexChanged, this, &FormatsPage::recompute);
    return bar;
}

QWidget* FormatsPage::makeNumberView() {
    auto* view = new QWidget(this);
    auto* column = new QVBoxLayout(view);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(10);
    auto* codesCard = new Card(tr("Codes"), tr("finite saturation; click a bit to flip it"), view);
    codes_ = new CodesTable(codesCard);
    codesCard->body()->addWidget(codes_);
    linesCard_ =
        new Card(tr("Values around the number"), tr("each tick is one code; the arrow is the rounding error"), view);
    lines_ = new NumberLines(linesCard_);
    linesCard_->body()->addWidget(lines_);
    auto* rangeCard = new Card(tr("Range"), tr("log\u2082 of the magnitude; hatched: subnormals"), view);
    ranges_ = new RangeBars(rangeCard);
    rangeCard->body()->addWidget(ranges_);
    column->addWidget(codesCard);
    column->addWidget(linesCard_, 3);
    column->addWidget(rangeCard, 2);
    connect(codes_, &CodesTable::codeChosen, this, &FormatsPage::takeCode);
    return view;
}

void FormatsPage::showBench(bool bench) {
    views_->button(bench ? 1 : 0)->setChecked(true);
    stack_->setCurrentIndex(bench ? 1 : 0);
    numberTools_->setVisible(!bench);
    error_->setVisible(!bench && !error_->text().isEmpty());
}

NumberFormat FormatsPage::codeFormat() const {
    return static_cast<NumberFormat>(format_->currentData().toInt());
}

void FormatsPage::setError(const QString& text, QLineEdit* field) {
    error_->setText(text);
    error_->setVisible(!text.isEmpty());
    for (QLineEdit* each : {number_, code_, scale_}) markWrong(each, each == field && !text.isEmpty());
}

void FormatsPage::setNumber(double number) {
    view_.number = number;
    number_->setText(exact(number)
                         .replace(QStringLiteral("Infinity"), QStringLiteral("inf"))
                         .replace(QStringLiteral("NaN"), QStringLiteral("nan")));
    recompute();
}

void FormatsPage::numberTyped() {
    const auto typed = experiments::parseNumber(number_->text().toStdString());
    const auto local = typed ? typed : parseNumber(number_->text());
    if (!local)
        return setError(tr("\u201c%1\u201d is not a number: 0.1, 3e-5, inf, nan and 0x1p-9 are.").arg(number_->text()),
                        number_);
    if (std::isinf(*local) && number_->text().contains(QRegularExpression(QStringLiteral("[0-9]"))))
        return setError(
            tr("\u201c%1\u201d is too large: numbers are held with 64 bits, up to 1.8e308; inf is infinity.")
                .arg(number_->text()),
            number_);
    const auto scale = parseNumber(scale_->text());
    if (!scale || !(*scale > 0) || !std::isfinite(*scale))
        return setError(tr("\u201c%1\u201d is not a scale: a finite number above 0 is.").arg(scale_->text()), scale_);
    view_.number = *local;
    view_.scale = static_cast<float>(*scale);
    recompute();
}

void FormatsPage::codeTyped() {
    const auto code = experiments::parseCode(codeFormat(), code_->text().toStdString());
    if (!code)
        return setError(tr("\u201c%1\u201d is no code of %2: it has %3 bits.")
                            .arg(code_->text(), format_->currentText())
                            .arg(experiments::formatFacts(codeFormat()).bits),
                        code_);
    takeCode(codeFormat(), *code);
}

/// The number becomes what the code means.
void FormatsPage::takeCode(NumberFormat format, quint32 code) {
    const auto described = experiments::describeCode(format, code);
    const QSignalBlocker blocker(format_);
    format_->setCurrentIndex(format_->findData(static_cast<int>(format)));
    const QString typed = code_->text();
    setNumber(described.value / static_cast<double>(view_.scale));
    if (code_->hasFocus()) code_->setText(typed);
}

void FormatsPage::recompute() {
    setError(QString(), nullptr);
    view_.coded.clear();
    const auto rounding = static_cast<experiments::Rounding>(std::max(0, rounding_->currentIndex()));
    for (const NumberFormat format : view_.formats)
        view_.coded << experiments::encodeNumber(format, view_.number, view_.scale, rounding);
    const auto at = view_.formats.indexOf(codeFormat());
    if (at >= 0 && !code_->hasFocus()) code_->setText(QString::fromStdString(view_.coded[at].code.hex).mid(2));
    codes_->setView(view_);
    lines_->setView(view_);
    ranges_->setView(view_);
    linesCard_->setTitle(tr("Values around %1").arg(exactText(view_.coded.first().scaled)));
}

}  // namespace mantissa::gui
