#include "gui/models/run_info.h"

#include <cmath>

namespace mantissa::gui {

bool RunInfo::nonFinite() const {
    return (hasValLoss && !std::isfinite(valLoss)) || (hasLoss && !std::isfinite(loss));
}

RunInfo makeRunInfo(const experiments::RunSummary& row) {
    const auto text = [](const std::string& s) { return QString::fromStdString(s); };
    RunInfo info;
    info.id = text(row.id);
    info.name = text(row.name);
    info.model = text(row.model);
    info.recipe = text(row.recipe);
    info.preset = text(row.preset);
    info.device = text(row.device);
    info.deviceName = text(row.deviceName);
    info.message = text(row.statusText);
    info.note = text(row.note);
    for (const std::string& tag : row.tags) info.tags << text(tag);
    info.parent = text(row.parent);
    info.parentStep = row.parentStep;
    info.state = row.status;
    info.step = row.step;
    info.steps = row.steps;
    info.seed = row.seed;
    info.hasLoss = row.hasLoss;
    info.hasValLoss = row.hasValidation;
    info.loss = row.loss;
    info.lastFiniteLoss = row.lastFiniteLoss;
    info.valLoss = row.validationLoss;
    info.lastFiniteValLoss = row.lastFiniteValidation;
    info.valStep = row.validationStep;
    info.tokens = row.tokens;
    info.tokensPerSecond = row.tokensPerSecond;
    info.seconds = row.seconds;
    info.planBytes = row.planBytes;
    info.peakBytes = row.peakBytes;
    info.alerts = row.alerts;
    info.worstAlert = row.worstAlert;
    info.styleIndex = row.colour;
    info.baseline = row.baseline;
    info.createdMs = row.createdMs;
    info.startedMs = row.startedMs;
    info.endedMs = row.endedMs;
    return info;
}

experiments::RunSummary makeSummary(const RunInfo& info) {
    experiments::RunSummary row;
    row.id = info.id.toStdString();
    row.name = info.name.toStdString();
    row.status = info.state;
    row.statusText = info.message.toStdString();
    row.step = info.step;
    row.steps = info.steps;
    row.hasLoss = info.hasLoss;
    row.hasValidation = info.hasValLoss;
    row.loss = info.loss;
    row.lastFiniteLoss = info.lastFiniteLoss;
    row.validationLoss = info.valLoss;
    row.lastFiniteValidation = info.lastFiniteValLoss;
    row.validationStep = info.valStep;
    row.tokensPerSecond = info.tokensPerSecond;
    row.tokens = info.tokens;
    row.device = info.device.toStdString();
    row.deviceName = info.deviceName.toStdString();
    row.model = info.model.toStdString();
    row.recipe = info.recipe.toStdString();
    row.preset = info.preset.toStdString();
    row.seed = info.seed;
    row.createdMs = info.createdMs;
    row.startedMs = info.startedMs;
    row.endedMs = info.endedMs;
    row.seconds = info.seconds;
    row.planBytes = info.planBytes;
    row.peakBytes = info.peakBytes;
    for (const QString& tag : info.tags) row.tags.push_back(tag.toStdString());
    row.note = info.note.toStdString();
    row.colour = info.styleIndex;
    row.baseline = info.baseline;
    row.alerts = info.alerts;
    row.worstAlert = info.worstAlert;
    row.parent = info.parent.toStdString();
    row.parentStep = info.parentStep;
    return row;
}

QString runStateName(RunState state) {
    return QString::fromLatin1(experiments::statusName(state));
}

}  // namespace mantissa::gui
