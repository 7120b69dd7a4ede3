#include "gui/dialogs/spec_form.h"

#include <QGridLayout>
#include <QHBoxLayout>
#include <QStyle>

#include "gui/dialogs/spec_form_text.h"
#include "gui/format/numbers.h"
#include "gui/widgets/glyph_label.h"

namespace mantissa::gui {
namespace {

using experiments::RunSpec;
using experiments::SpecError;
using Errors = std::vector<SpecError>;

constexpr int kLabelWidth = 104, kNoteWidth = 84;

}  // namespace

SpecForm::SpecForm(QWidget* parent) : QWidget(parent) {
    grid_ = new QGridLayout(this);
    grid_->setContentsMargins(20, 12, 16, 16);
    grid_->setHorizontalSpacing(8);
    grid_->setVerticalSpacing(4);
    grid_->setColumnMinimumWidth(0, kLabelWidth);
    grid_->setColumnStretch(1, 1);
    makeRunFields();
    makeDataFields();
    makePrecisionFields();
    makeTrainingFields();
    grid_->setRowStretch(row_, 1);
}

void SpecForm::addHead(const QString& title) {
    if (row_ > 0) grid_->setRowMinimumHeight(row_++, 6);
    grid_->addWidget(new TextLabel(title, Token::Text, TextSize::Body, true, this), row_++, 0, 1, 2);
}

QLineEdit* SpecForm::lineEdit(const QString& path, const QString& name, int width) {
    auto* edit = new QLineEdit(this);
    edit->setAccessibleName(name);
    edit->setToolTip(path);
    edit->setFixedWidth(width);
    inputs_.insert(path, edit);
    connect(edit, &QLineEdit::textEdited, this, &SpecForm::update);
    return edit;
}

QComboBox* SpecForm::comboBox(const QString& path, const QString& name, const QStringList& items, int width) {
    auto* combo = new QComboBox(this);
    combo->addItems(items);
    combo->setAccessibleName(name);
    combo->setToolTip(path);
    combo->setMinimumWidth(width);
    inputs_.insert(path, combo);
    connect(combo, &QComboBox::currentIndexChanged, this, &SpecForm::update);
    return combo;
}

SpecForm::Field& SpecForm::addField(const QString& title, const QStringList& paths, const QVector<QWidget*>& inputs) {
    auto field = std::make_unique<Field>();
    field->title = title;
    field->paths = paths;
    field->inputs = inputs;
    auto* label = new TextLabel(title, Token::Text2, TextSize::Body, false, this);
    field->label = label;
    grid_->addWidget(label, row_, 0);
    auto* rowWidget = new QWidget(this);
    auto* row = new QHBoxLayout(rowWidget);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(8);
    for (QWidget* input : inputs) row->addWidget(input);
    field->note = new TextLabel(QString(), Token::Text3, TextSize::Small, false, this);
    field->note->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    field->note->setWordWrap(true);
    field->note->setMinimumWidth(kNoteWidth);
    row->addWidget(field->note, 1);
    field->row = rowWidget;
    grid_->addWidget(rowWidget, row_++, 1);
    field->errorRow = new QWidget(this);
    auto* errorLine = new QHBoxLayout(field->errorRow);
    errorLine->setContentsMargins(0, 0, 0, 2);
    errorLine->setSpacing(6);
    errorLine->addWidget(new GlyphLabel(Glyph::Bad, Token::Bad, 14, field->errorRow), 0, Qt::AlignTop);
    field->error = new TextLabel(QString(), Token::Bad, TextSize::Small, false, field->errorRow);
    field->error->setWordWrap(true);
    errorLine->addWidget(field->error, 1);
    field->errorRow->hide();
    grid_->addWidget(field->errorRow, row_++, 1);
    for (QWidget* input : inputs)
        if (auto* text = qobject_cast<QLabel*>(input); !text) static_cast<QLabel*>(label)->setBuddy(input);
    fields_.push_back(std::move(field));
    return *fields_.back();
}

Errors SpecForm::takeText(RunSpec& spec, const QString& path, bool number) const {
    const QString typed = static_cast<QLineEdit*>(inputs_[path])->text().trimmed();
    if (!number) return setField(spec, path, jsonString(typed));
    if (const auto whole = parseCount(typed)) return setField(spec, path, QString::number(*whole));
    if (const auto value = parseNumber(typed)) return setField(spec, path, exact(*value));
    Errors errors = setField(spec, path, jsonString(typed));
    if (errors.empty())
        return {SpecError{path.toStdString(), tr("\u201c%1\u201d is not a number").arg(typed).toStdString(),
                          experiments::allowedValues(path.toStdString())}};
    return errors;
}

void SpecForm::showText(const RunSpec& spec, const QString& path) {
    static_cast<QLineEdit*>(inputs_[path])
        ->setText(screenText(QString::fromStdString(experiments::getPath(spec, path.toStdString()))));
}

SpecForm::Field& SpecForm::addText(const QString& title, const QString& path, int width, bool number) {
    Field& field = addField(title, {path}, {lineEdit(path, title, width)});
    field.show = [this, path](const RunSpec& spec) { showText(spec, path); };
    field.take = [this, path, number](RunSpec& spec) { return takeText(spec, path, number); };
    return field;
}

void SpecForm::makeRunFields() {
    addHead(tr("Run"));
    QLineEdit* name = lineEdit(QStringLiteral("name"), tr("Name"), 224);
    name->setToolTip(tr("Name of the run in list and store"));
    // A name left empty becomes the suggested one again, once the field is left: not while it is being typed.
    connect(name, &QLineEdit::editingFinished, this, [this, name] {
        if (!name->text().trimmed().isEmpty()) return;
        name->setModified(false);
        update();
    });
    addField(tr("Name"), {QStringLiteral("name")}, {name});
    QComboBox* device = comboBox(QStringLiteral("device"), tr("Device"), {tr("Automatic")}, 224);
    device->setItemData(0, QStringLiteral("auto"));
    device->setToolTip(tr("Automatic takes the GPU where one is usable, else the CPU"));
    addField(tr("Device"), {QStringLiteral("device")}, {device});
    addText(tr("Seed"), QStringLiteral("seed"), 70, true).remark = [](const RunSpec&) {
        return tr("same seed, same bits");
    };
}

void SpecForm::makeDataFields() {
    addHead(tr("Data"));
    addText(tr("Text"), QStringLiteral("data.path"), 224, false).remark = [](const RunSpec& spec) {
        return spec.data.path == "text:kjv"         ? tr("King James Bible")
               : spec.data.path == "text:generated" ? tr("generated, entropy known")
                                                    : QString();
    };
    const QStringList paths = {QStringLiteral("train.batch"), QStringLiteral("model.context"),
                               QStringLiteral("train.accumulation")};
    const QStringList names = {tr("Batch"), tr("Context"), tr("Accumulation")};
    QVector<QWidget*> inputs;
    for (int i = 0; i < 3; ++i) {
        if (i > 0) inputs << new TextLabel(QStringLiteral("\u00d7"), Token::Text3, TextSize::Body, false, this);
        inputs << lineEdit(paths[i], names[i], i == 1 ? 66 : 54);
    }
    Field& field = addField(tr("Batch \u00d7 T \u00d7 accum."), paths, inputs);
    field.show = [this, paths](const RunSpec& spec) {
        for (const QString& path : paths) showText(spec, path);
    };
    field.take = [this, paths](RunSpec& spec) {
        Errors all;
        for (const QString& path : paths)
            for (SpecError& error : takeText(spec, path, true)) all.push_back(std::move(error));
        return all;
    };
    field.remark = [](const RunSpec& spec) {
        const auto& t = spec.trainer;
        return tr("= %1 tokens a step").arg(formatCount(qint64(t.batch) * t.model.context * t.accumulation));
    };
}

void SpecForm::makeTrainingFields() {
    addHead(tr("Optimizer and schedule"));
    addText(tr("Learning rate"), QStringLiteral("optimizer.learning_rate"), 92, true).remark = [](const RunSpec& spec) {
        using engine::ScheduleKind;
        const auto& s = spec.trainer.schedule;
        const QString warmup = tr("warm-up %1 steps").arg(formatCount(s.warmup));
        const QString end = formatShare(static_cast<double>(s.finalFraction));
        return s.kind == ScheduleKind::Constant ? tr("constant, %1").arg(warmup)
               : s.kind == ScheduleKind::Linear ? tr("linear to %1, %2").arg(end, warmup)
                                                : tr("cosine to %1, %2").arg(end, warmup);
    };
    addText(tr("Steps"), QStringLiteral("train.steps"), 92, true).remark = [](const RunSpec& spec) {
        const auto& t = spec.trainer;
        return tr("%1 tokens").arg(formatShortCount(t.steps * t.batch * t.model.context * t.accumulation));
    };
    const QString clip = QStringLiteral("optimizer.clip"), decay = QStringLiteral("optimizer.weight_decay");
    Field& both = addField(tr("Clip, decay"), {clip, decay},
                           {lineEdit(clip, tr("Gradient clip"), 60), lineEdit(decay, tr("Weight decay"), 60)});
    both.show = [this, clip, decay](const RunSpec& spec) {
        showText(spec, clip);
        showText(spec, decay);
    };
    both.take = [this, clip, decay](RunSpec& spec) {
        Errors errors = takeText(spec, clip, true);
        for (SpecError& error : takeText(spec, decay, true)) errors.push_back(std::move(error));
        return errors;
    };
    addHead(tr("Probes"));
    addText(tr("Costly figures"), QStringLiteral("probes.every"), 60, true).remark = [](const RunSpec& spec) {
        return spec.trainer.probes.every == 0
                   ? tr("never; counters each step stay on")
                   : tr("steps apart: SQNR, kurtosis, \u2026; amax and counters come with each");
    };
    QComboBox* policy = comboBox(QStringLiteral("train.nonfinite"), tr("Non-finite"),
                                 {tr("skip the step"), tr("go on"), tr("stop"), tr("pause")}, 130);
    Field& field = addField(tr("Non-finite"), {QStringLiteral("train.nonfinite")}, {policy});
    field.show = [policy](const RunSpec& spec) { policy->setCurrentIndex(static_cast<int>(spec.trainer.nonfinite)); };
    field.take = [policy](RunSpec& spec) {
        spec.trainer.nonfinite = static_cast<engine::NonfinitePolicy>(std::max(0, policy->currentIndex()));
        return Errors{};
    };
    field.remark = [](const RunSpec& spec) {
        static const char* const notes[] = {"optimizer is skipped, one alert a stretch",
                                            "weights are updated all the same", "ends diverged, with a checkpoint",
                                            "waits for you"};
        return tr(notes[static_cast<int>(spec.trainer.nonfinite)]);
    };
    makeFaultFields();
}

void SpecForm::setDevices(const std::vector<experiments::DeviceReport>& reports) {
    auto* combo = static_cast<QComboBox*>(inputs_[QStringLiteral("device")]);
    const QVariant kept = combo->currentData();
    const QSignalBlocker blocker(combo);
    while (combo->count() > 1) combo->removeItem(1);
    for (const auto& report : reports)
        if (report.usable)
            combo->addItem(report.device == "cpu" ? tr("CPU") : QString::fromStdString(report.name),
                           QString::fromStdString(report.device));
    combo->setCurrentIndex(std::max(0, combo->findData(kept)));
}

QString SpecForm::name() const {
    return static_cast<QLineEdit*>(inputs_[QStringLiteral("name")])->text().trimmed();
}

std::string SpecForm::device() const {
    return static_cast<QComboBox*>(inputs_[QStringLiteral("device")])->currentData().toString().toStdString();
}

void SpecForm::setRules(const std::vector<engine::PrecisionRule>& rules) {
    clicked_ = rules;
    update();
}

void SpecForm::setSpec(const RunSpec& spec) {
    filling_ = true;
    spec_ = spec;
    static_cast<QLineEdit*>(inputs_[QStringLiteral("name")])->setModified(false);
    clicked_.clear();
    for (const engine::PrecisionRule& rule : spec.trainer.precision.rules)
        if (!isTyped(rule)) clicked_.push_back(rule);
    otherFaults_ = spec.trainer.faults;
    if (!otherFaults_.empty()) otherFaults_.erase(otherFaults_.begin());
    for (const auto& field : fields_)
        if (field->show) field->show(spec);
    filling_ = false;
    update();
}

void SpecForm::update() {
    if (filling_) return;
    Errors found;
    RunSpec spec = spec_;
    for (const auto& field : fields_) {
        if (!field->take) continue;
        for (SpecError& error : field->take(spec)) found.push_back(std::move(error));
    }
    if (found.empty()) found = experiments::validate(spec);
    spec_ = spec;
    auto* name = static_cast<QLineEdit*>(inputs_[QStringLiteral("name")]);
    if (!name->isModified()) name->setText(QString::fromStdString(spec.defaultName()));
    for (const auto& field : fields_) {
        if (field->remark) field->note->setText(field->remark(spec));
        if (!field->shown) continue;
        const bool shown = field->shown(spec);
        field->label->setVisible(shown);
        field->row->setVisible(shown);
    }
    showErrors(found);
    Q_EMIT edited();
}

void SpecForm::showErrors(const Errors& found) {
    errors_.clear();
    QHash<Field*, QString> texts;
    for (const SpecError& error : found) {
        QString message = QString::fromStdString(error.message);
        if (!error.allowed.empty()) {
            QStringList allowed;
            for (const std::string& value : error.allowed) allowed << QString::fromStdString(value);
            message += tr("; allowed: %1").arg(allowed.join(QStringLiteral(", ")));
        }
        const QString path = QString::fromStdString(error.path);
        Field* owner = nullptr;
        for (const auto& field : fields_)
            for (const QString& known : field->paths)
                if (path == known || path.startsWith(known + QLatin1Char('['))) owner = field.get();
        errors_.push_back({owner ? owner->title : path, message});
        if (owner && !texts.contains(owner)) texts.insert(owner, message);
    }
    for (const auto& field : fields_) {
        const QString text = texts.value(field.get());
        field->error->setText(text);
        field->errorRow->setVisible(!text.isEmpty());
        for (QWidget* input : field->inputs) {
            const bool typed = qobject_cast<QLineEdit*>(input) || qobject_cast<QComboBox*>(input);
            if (input->property("wrong").toBool() == !text.isEmpty() || !typed) continue;
            input->setProperty("wrong", !text.isEmpty());
            input->setAccessibleDescription(text);
            input->style()->unpolish(input);
            input->style()->polish(input);
        }
    }
}

}  // namespace mantissa::gui
