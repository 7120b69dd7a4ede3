// A planted fault in the launch form: trouble put in on purpose, to see how the program shows it.
#include <algorithm>
#include <cmath>

#include "engine/faults.h"
#include "gui/dialogs/spec_form.h"
#include "gui/dialogs/spec_form_text.h"

namespace mantissa::gui {
namespace {

using engine::FaultKind;
using engine::PlantedFault;
using experiments::RunSpec;
using experiments::SpecError;
using Errors = std::vector<SpecError>;

struct KindChoice {
    const char* title;
    FaultKind kind;
    const char* note;
    const char* tensors;   ///< of a linear, that can have the fault
    bool channel, factor;  ///< which of the two fields it reads
};
const KindChoice kKinds[] = {
    {"outlier channel", FaultKind::OutlierChannel, "from the step on a channel is larger", "input", true, true},
    {"NaN in a weight", FaultKind::WeightNan, "one element of the master weight", "weight", true, false},
    {"Inf freezes a scale", FaultKind::FreezeScaleInf, "an Inf enters the amax window", "input weight grad_output",
     false, false},
    {"scale never updated", FaultKind::NeverUpdate, "from the step on its update is left out",
     "input weight grad_output", false, false},
    {"stale weight codes", FaultKind::StaleWeight, "from the step on new codes are thrown away", "weight", false,
     false},
    {"Inf in an activation", FaultKind::ActivationInf, "in that step alone", "output", true, false},
    {"NaN in a gradient", FaultKind::GradientNan, "in that step alone", "grad_input", true, false}};
constexpr int kNone = 0;  ///< first entry of the box; kinds follow
const QString kKind = QStringLiteral("faults.kind"), kTarget = QStringLiteral("faults.target"),
              kStep = QStringLiteral("faults.step"), kChannel = QStringLiteral("faults.channel"),
              kFactor = QStringLiteral("faults.value");

const KindChoice* choiceOf(int index) {
    return index > kNone && index <= int(std::size(kKinds)) ? &kKinds[index - 1] : nullptr;
}

/// Names of the tensors of that kind, in order of execution.
QStringList targetsOf(const KindChoice& choice, int layers) {
    const bool outlier = choice.kind == FaultKind::OutlierChannel;
    QStringList names;
    for (int layer = 0; layer < layers; ++layer)
        for (const char* linear : {"attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"}) {
            const QString name = QStringLiteral("h.%1.%2/").arg(layer).arg(QLatin1String(linear));
            if (outlier && !name.contains(QLatin1String("qkv")) && !name.contains(QLatin1String("fc1"))) continue;
            for (const QString& tensor : QString::fromLatin1(choice.tensors).split(QLatin1Char(' ')))
                names << name + tensor;
        }
    return names;
}

}  // namespace

void SpecForm::makeFaultFields() {
    QStringList titles{tr("none")};
    for (const KindChoice& choice : kKinds) titles << tr(choice.title);
    QComboBox* kind = comboBox(kKind, tr("Planted fault"), titles, 170);
    kind->setToolTip(tr("Trouble put in on purpose, to see how it shows and what ends it (faults)"));
    Field& field = addField(tr("Planted fault"), {}, {kind});
    field.show = [kind](const RunSpec& spec) {
        const auto& faults = spec.trainer.faults;
        const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const KindChoice& choice) {
            return !faults.empty() && choice.kind == faults.front().kind;
        });
        kind->setCurrentIndex(found == std::end(kKinds) ? kNone : int(found - std::begin(kKinds)) + 1);
    };
    field.remark = [this, kind](const RunSpec&) {
        const KindChoice* choice = choiceOf(kind->currentIndex());
        return !otherFaults_.empty() ? tr("and %1 more of the spec").arg(otherFaults_.size())
               : choice              ? tr(choice->note)
                                     : tr("for tests and tours");
    };

    QComboBox* target = comboBox(kTarget, tr("Tensor of the fault"), {}, 224);
    target->setEditable(true);
    target->setInsertPolicy(QComboBox::NoInsert);
    target->setToolTip(tr("Tensor that gets the fault, e.g. h.2.mlp.fc1/grad_output (faults[0].target)"));
    target->lineEdit()->setAccessibleName(tr("Tensor of the fault"));
    target->lineEdit()->setToolTip(target->toolTip());
    connect(target, &QComboBox::editTextChanged, this, &SpecForm::update);
    connect(kind, &QComboBox::currentIndexChanged, this, [this, target] {
        offerTargets();
        // A tensor of the kind before: the same linear of the new one, the middle of the model at first.
        if (target->count() == 0 || target->findText(target->currentText()) >= 0) return;
        const int linear = target->findText(target->currentText().section(QLatin1Char('/'), 0, 0), Qt::MatchStartsWith);
        target->setEditText(target->itemText(linear >= 0 ? linear : target->count() / 2));
    });
    Field& where = addField(tr("Tensor"), {kTarget}, {target});
    where.show = [this, target](const RunSpec& spec) {
        offerTargets();
        if (!spec.trainer.faults.empty())
            target->setEditText(QString::fromStdString(spec.trainer.faults.front().target));
    };
    where.shown = [kind](const RunSpec&) { return kind->currentIndex() != kNone; };
    makeFaultNumbers(kind);
}

/// Step, channel and factor in one row; their errors stand under it, those of the tensor under its own field.
void SpecForm::makeFaultNumbers(QComboBox* kind) {
    const auto word = [this](const QString& text) {
        return new TextLabel(text, Token::Text3, TextSize::Small, false, this);
    };
    QLineEdit* step = lineEdit(kStep, tr("Step of the fault"), 62);
    QLineEdit* channel = lineEdit(kChannel, tr("Channel of the fault"), 54);
    QLineEdit* factor = lineEdit(kFactor, tr("Factor of the fault"), 62);
    TextLabel *channelWord = word(tr("channel")), *factorWord = word(tr("times"));
    step->setToolTip(tr("First step with the fault (faults[0].step)"));
    channel->setToolTip(tr("Channel, or element of a weight, that gets it, from 0 (faults[0].channel)"));
    factor->setToolTip(tr("How many times as large the channel becomes (faults[0].value)"));
    Field& field =
        addField(tr("At step"), {QStringLiteral("faults")}, {step, channelWord, channel, factorWord, factor});
    field.show = [step, channel, factor](const RunSpec& spec) {
        const PlantedFault fault = spec.trainer.faults.empty() ? PlantedFault() : spec.trainer.faults.front();
        step->setText(formatCount(fault.step));
        channel->setText(formatCount(fault.channel));
        factor->setText(screenText(exact(fault.value)));
    };
    field.take = [this](RunSpec& spec) { return takeFault(spec); };
    field.shown = [=, this](const RunSpec&) {
        const KindChoice* choice = choiceOf(kind->currentIndex());
        offerTargets();
        for (QWidget* part : {static_cast<QWidget*>(channelWord), static_cast<QWidget*>(channel)})
            part->setVisible(choice && choice->channel);
        for (QWidget* part : {static_cast<QWidget*>(factorWord), static_cast<QWidget*>(factor)})
            part->setVisible(choice && choice->factor);
        return choice != nullptr;
    };
}

/// The box lists the tensors that the chosen kind can have in this model; what is typed stays.
void SpecForm::offerTargets() {
    auto* target = static_cast<QComboBox*>(inputs_[kTarget]);
    const KindChoice* choice = choiceOf(static_cast<QComboBox*>(inputs_[kKind])->currentIndex());
    const QStringList names = choice ? targetsOf(*choice, spec_.trainer.model.layers) : QStringList();
    if (target->count() == names.size() && (names.isEmpty() || target->itemText(0) == names.first())) return;
    const QString typed = target->currentText();
    const QSignalBlocker quiet(target);
    target->clear();
    target->addItems(names);
    target->setEditText(typed);
}

/// The fault of the fields, before those of the spec that the form does not show.
Errors SpecForm::takeFault(RunSpec& spec) const {
    spec.trainer.faults = otherFaults_;
    const KindChoice* choice = choiceOf(static_cast<QComboBox*>(inputs_[kKind])->currentIndex());
    if (!choice) return {};
    const auto text = [this](const QString& path) { return static_cast<QLineEdit*>(inputs_[path])->text().trimmed(); };
    const auto wrong = [&](const QString& path, const QString& allowed) -> Errors {
        return {{"faults", tr("\u201c%1\u201d is not one").arg(text(path)).toStdString(), {allowed.toStdString()}}};
    };
    PlantedFault fault;
    fault.kind = choice->kind;
    fault.target = static_cast<QComboBox*>(inputs_[kTarget])->currentText().trimmed().toStdString();
    const auto step = parseCount(text(kStep));
    if (!step || *step < 1) return wrong(kStep, tr("a step from 1 on"));
    fault.step = *step;
    if (choice->channel) {
        const auto channel = parseCount(text(kChannel));
        if (!channel || *channel < 0) return wrong(kChannel, tr("a channel from 0 on"));
        fault.channel = *channel;
    }
    if (choice->factor) {
        const auto factor = parseNumber(text(kFactor));
        if (!factor || !std::isfinite(*factor) || *factor <= 0) return wrong(kFactor, tr("a factor above 0"));
        fault.value = *factor;
    }
    spec.trainer.faults.insert(spec.trainer.faults.begin(), fault);
    const QString refusal = QString::fromStdString(engine::faultRefusal(fault, spec.trainer));
    if (refusal.isEmpty()) return {};
    const QString sentence = refusal.section(QStringLiteral("\": "), 1);
    const bool ofNumber = sentence.startsWith(QStringLiteral("step ")) ||
                          sentence.startsWith(QStringLiteral("channel ")) ||
                          sentence.startsWith(QStringLiteral("value: "));
    return {{ofNumber ? "faults" : kTarget.toStdString(), sentence.toStdString(), {}}};
}

}  // namespace mantissa::gui
