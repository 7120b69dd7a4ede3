// The precision part of the launch form.
#include <algorithm>
#include <string_view>

#include "engine/plan/precision_plan.h"
#include "gui/dialogs/spec_form.h"
#include "gui/dialogs/spec_form_text.h"

namespace mantissa::gui {
namespace {

using experiments::RunSpec;
using experiments::SpecError;
using Errors = std::vector<SpecError>;

struct RecipeChoice {
    const char* title;
    const char* mode;
    const char* recipe;  ///< "" = not FP8
};
const RecipeChoice kRecipes[] = {{"FP8, delayed scaling", "fp8", "delayed"},
                                 {"FP8, current scaling", "fp8", "current"},
                                 {"FP8, fixed scale", "fp8", "fixed"},
                                 {"FP8, blocks of 128", "fp8", "block128"},
                                 {"MXFP8, blocks of 32", "fp8", "mxfp8"},
                                 {"NVFP4, blocks of 16", "fp8", "nvfp4"},
                                 {"BF16", "bf16", ""},
                                 {"FP16, loss scaling", "fp16", ""},
                                 {"TF32", "tf32", ""},
                                 {"FP32", "fp32", ""}};

int recipeIndex(const RunSpec& spec) {
    const engine::PrecisionConfig& precision = spec.trainer.precision;
    const bool fp8 = precision.mode == engine::PrecisionMode::Fp8;
    const auto found = std::find_if(std::begin(kRecipes), std::end(kRecipes), [&](const RecipeChoice& choice) {
        return std::string_view(choice.mode) == engine::modeName(precision.mode) &&
               (!fp8 || std::string_view(choice.recipe) == engine::recipeName(precision.recipe));
    });
    return found == std::end(kRecipes) ? 0 : int(found - std::begin(kRecipes));
}

bool isFp8(const RunSpec& spec) {
    return spec.trainer.precision.mode == engine::PrecisionMode::Fp8;
}
bool isDelayed(const RunSpec& spec) {
    return isFp8(spec) && spec.trainer.precision.recipe == engine::RecipeKind::Delayed;
}
/// The block recipes have formats of their own.
bool hasFormats(const RunSpec& spec) {
    return isFp8(spec) && spec.trainer.precision.recipe < engine::RecipeKind::Block128;
}
bool isFixed(const RunSpec& spec) {
    return isFp8(spec) && spec.trainer.precision.recipe == engine::RecipeKind::Fixed;
}

}  // namespace

void SpecForm::makePrecisionFields() {
    addHead(tr("Precision"));
    QStringList titles;
    for (const RecipeChoice& choice : kRecipes) titles << tr(choice.title);
    QComboBox* recipe = comboBox(QStringLiteral("precision.recipe"), tr("Recipe"), titles, 170);
    Field& field =
        addField(tr("Recipe"), {QStringLiteral("precision.recipe"), QStringLiteral("precision.mode")}, {recipe});
    field.show = [recipe](const RunSpec& spec) { recipe->setCurrentIndex(recipeIndex(spec)); };
    field.take = [recipe](RunSpec& spec) {
        const RecipeChoice& choice = kRecipes[std::max(0, recipe->currentIndex())];
        Errors errors = setField(spec, QStringLiteral("precision.mode"), jsonString(QLatin1String(choice.mode)));
        if (errors.empty() && *choice.recipe)
            errors = setField(spec, QStringLiteral("precision.recipe"), jsonString(QLatin1String(choice.recipe)));
        return errors;
    };
    field.remark = [](const RunSpec& spec) {
        static const char* const notes[] = {"scale from the largest amax of the window",
                                            "scale = max \u00f7 amax, each tensor, each step",
                                            "one scale for all, never changed",
                                            "1 \u00d7 128, weights 128 \u00d7 128; E4M3",
                                            "a power of two each 32 values; E4M3",
                                            "E2M1, an E4M3 scale each 16 values",
                                            "no scales",
                                            "scaled loss, no FP8",
                                            "inputs cut to 10 bits",
                                            "nothing rounded"};
        return tr(notes[recipeIndex(spec)]);
    };
    QComboBox* format = comboBox(QStringLiteral("precision.format"), tr("Formats"),
                                 {QStringLiteral("HYBRID"), QStringLiteral("E4M3")}, 170);
    Field& formats = addField(tr("Formats"), {QStringLiteral("precision.format")}, {format});
    formats.show = [format](const RunSpec& spec) {
        format->setCurrentIndex(spec.trainer.precision.format == engine::Fp8Format::E4m3);
    };
    formats.take = [format](RunSpec& spec) {
        return setField(spec, QStringLiteral("precision.format"),
                        format->currentIndex() == 1 ? QStringLiteral("\"e4m3\"") : QStringLiteral("\"hybrid\""));
    };
    formats.remark = [](const RunSpec& spec) {
        return spec.trainer.precision.format == engine::Fp8Format::Hybrid ? tr("E4M3 forward, E5M2 gradients")
                                                                          : tr("E4M3 for all");
    };
    formats.shown = hasFormats;

    QComboBox* algorithm =
        comboBox(QStringLiteral("precision.algorithm"), tr("Window algorithm"), {tr("max"), tr("most recent")}, 100);
    const QString history = QStringLiteral("precision.history_length");
    Field& window = addField(tr("Window"), {history, QStringLiteral("precision.algorithm")},
                             {lineEdit(history, tr("Window length"), 62), algorithm});
    window.show = [this, history, algorithm](const RunSpec& spec) {
        showText(spec, history);
        algorithm->setCurrentIndex(spec.trainer.precision.algorithm == engine::Algorithm::MostRecent);
    };
    window.take = [this, history, algorithm](RunSpec& spec) {
        Errors errors = takeText(spec, history, true);
        for (SpecError& error :
             setField(spec, QStringLiteral("precision.algorithm"),
                      algorithm->currentIndex() == 1 ? QStringLiteral("\"most_recent\"") : QStringLiteral("\"max\"")))
            errors.push_back(std::move(error));
        return errors;
    };
    window.remark = [](const RunSpec&) { return tr("amax history entries"); };
    window.shown = isDelayed;
    addText(tr("Scale"), QStringLiteral("precision.scale"), 70, true).shown = isFixed;
    fields_.back()->remark = [](const RunSpec&) { return tr("stored = value \u00d7 scale"); };

    const QString first = QStringLiteral("precision.first_layers_bf16"),
                  last = QStringLiteral("precision.last_layers_bf16");
    auto* head = new QCheckBox(tr("LM head"), this);
    head->setAccessibleName(tr("LM head in BF16"));
    head->setToolTip(QStringLiteral("precision.head"));
    inputs_.insert(QStringLiteral("precision.head"), head);
    connect(head, &QCheckBox::toggled, this, &SpecForm::update);
    Field& keep = addField(tr("Keep in BF16"), {first, last, QStringLiteral("precision.head")},
                           {new TextLabel(tr("first"), Token::Text3, TextSize::Small, false, this),
                            lineEdit(first, tr("First layers in BF16"), 44),
                            new TextLabel(tr("last"), Token::Text3, TextSize::Small, false, this),
                            lineEdit(last, tr("Last layers in BF16"), 44), head});
    keep.show = [this, first, last, head](const RunSpec& spec) {
        showText(spec, first);
        showText(spec, last);
        head->setChecked(!spec.trainer.precision.headFp8);
    };
    keep.take = [this, first, last, head](RunSpec& spec) {
        Errors errors = takeText(spec, first, true);
        for (SpecError& error : takeText(spec, last, true)) errors.push_back(std::move(error));
        spec.trainer.precision.headFp8 = !head->isChecked();
        return errors;
    };
    keep.shown = isFp8;

    const QString rules = QStringLiteral("precision.rules");
    Field& byName = addField(tr("By name"), {rules}, {lineEdit(rules, tr("Linears in BF16 by name"), 170)});
    byName.show = [this, rules](const RunSpec& spec) {
        QStringList patterns;
        for (const engine::PrecisionRule& rule : spec.trainer.precision.rules)
            if (isTyped(rule)) patterns << QString::fromStdString(rule.match);
        static_cast<QLineEdit*>(inputs_[rules])->setText(patterns.join(QStringLiteral(", ")));
    };
    byName.take = [this](RunSpec& spec) { return takePatterns(spec); };
    byName.remark = [](const RunSpec&) { return tr("linears kept in BF16, e.g. *.mlp.fc2"); };
    byName.shown = isFp8;
}

Errors SpecForm::takePatterns(RunSpec& spec) const {
    std::vector<engine::PrecisionRule> rules;
    const QString typed = static_cast<QLineEdit*>(inputs_[QStringLiteral("precision.rules")])->text();
    for (const QString& pattern : typed.split(QLatin1Char(','), Qt::SkipEmptyParts))
        rules.push_back({pattern.trimmed().toStdString(), 7, engine::RecipeKind::Bf16});
    rules.insert(rules.end(), clicked_.begin(), clicked_.end());
    spec.trainer.precision.rules = rules;
    return {};
}

}  // namespace mantissa::gui
