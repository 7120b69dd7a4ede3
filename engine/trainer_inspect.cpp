// Looks into a step without moving training: its passes run ahead, and every bit of state is put back.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "engine/trainer_core.h"
#include "kernels/error.h"
#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "kernels/scaling/scaling.h"

namespace mantissa::engine {

using namespace kernels;

namespace {

/// Bytes of `type` as numbers.
std::vector<float> decoded(const std::vector<char>& bytes, DType type) {
    std::vector<float> values(bytes.size() / dtypeSize(type));
    for (size_t i = 0; i < values.size(); ++i) {
        if (type == DType::F32)
            values[i] = reinterpret_cast<const float*>(bytes.data())[i];
        else if (type == DType::BF16)
            values[i] = decodeBf16(reinterpret_cast<const uint16_t*>(bytes.data())[i]);
        else
            values[i] = decodeFp16(reinterpret_cast<const uint16_t*>(bytes.data())[i]);
    }
    return values;
}

float roundedTo(float value, DType type) {
    if (type == DType::BF16) return roundToBf16(value);
    return type == DType::F16 ? decodeFp16(encodeFp16(value)) : value;
}

}  // namespace

int TrainerCore::catalogueSlot(int catalogueIndex) const {
    if (catalogueIndex < 0 || catalogueIndex >= static_cast<int>(catalogueSlots_.size()))
        throw Error(ErrorCode::InvalidConfig, fmt::format("tensor {} is not in the catalogue; allowed: 0 ... {}",
                                                          catalogueIndex, catalogueSlots_.size() - 1));
    return catalogueSlots_[static_cast<size_t>(catalogueIndex)];
}

std::vector<float> TrainerCore::captureTensor(int catalogueIndex) {
    requireNoneAhead();
    const PrecisionPlan& plan = program().precision();
    TensorTap tap;
    tap.slot = catalogueSlot(catalogueIndex);
    if (plan.roleOfSlot(tap.slot) == TensorRole::Weight) {
        for (const ParameterInfo& tensor : program().layout().tensors) {
            if (tensor.linear != plan.linearOfSlot(tap.slot)) continue;
            std::vector<float> values(static_cast<size_t>(tensor.count()));
            backend_.download(values.data(), program().parameters().masters + tensor.offset,
                              values.size() * sizeof(float));
            for (float& value : values) value = roundedTo(value, plan.type);
            return values;
        }
    }
    const std::vector<char> control = program_->controlBytesNow(backend_);
    program_->setParameters(backend_, stepParameters(progress_.step + 1));
    prepareTraining(progress_.windows);
    PassFlags flags;
    flags.step = static_cast<uint64_t>(progress_.step + 1);
    flags.count = false;
    program_->inspectPass(backend_, flags, tokens_.data(), targets_.data(), &tap);
    program_->restoreControl(backend_, control);
    backend_.takePhaseTimes();
    return decoded(tap.bytes, plan.type);
}

BlockScales TrainerCore::blockScales(int catalogueIndex) {
    requireNoneAhead();
    const int slot = catalogueSlot(catalogueIndex);
    const PrecisionPlan& plan = program().precision();
    const RecipeKind recipe = plan.tensorRecipe(slot);
    const CatalogueEntry& entry = catalogue_[static_cast<size_t>(catalogueIndex)];
    const std::vector<float> values = captureTensor(catalogueIndex);
    if (isBlockRecipe(recipe)) {
        const TensorRole role = plan.roleOfSlot(slot);
        BlockRule rule;
        rule.kind = recipe == RecipeKind::Mxfp8   ? BlockKind::Mxfp8
                    : recipe == RecipeKind::Nvfp4 ? BlockKind::Nvfp4
                                                  : BlockKind::Block128;
        rule.format = plan.formatOfSlot(slot);
        const int width = recipe == RecipeKind::Mxfp8 ? 32 : recipe == RecipeKind::Nvfp4 ? 16 : 128;
        const bool square = role == TensorRole::Weight && recipe != RecipeKind::Mxfp8;
        const BlockCast cast = castBlocks(rule, values.data(), entry.rows, entry.cols, square ? width : 1, width);
        BlockScales scales;
        scales.rows = static_cast<int>(cast.blocksDown), scales.cols = static_cast<int>(cast.blocksAcross);
        scales.blockRows = square ? width : 1, scales.blockCols = width;
        scales.amax = cast.amax;
        for (const BlockScale& block : cast.scales) scales.scale.push_back(block.scale);
        return scales;
    }
    float amax = 0;
    for (float value : values)
        if (std::fabs(value) > amax) amax = std::fabs(value);
    float scale = window(catalogueIndex).scale;
    if (recipe == RecipeKind::Current)
        scale = currentScale(amax, maxFinite(plan.formatOfSlot(slot)), config_.precision.powerOfTwo,
                             config_.precision.amaxEpsilon);
    if (recipe == RecipeKind::Bf16) scale = 1;
    return {1, 1, static_cast<int>(entry.rows), static_cast<int>(entry.cols), {scale}, {amax}};
}

void TrainerCore::recordProbes(NumericsRecord& record, const Queued& step, const std::vector<TensorSlot>& slots) const {
    const PrecisionPlan& plan = program().precision();
    if (step.probes.stale) {
        const auto* const stale = static_cast<const uint64_t*>(step.probes.stale->wait());
        for (size_t i = 0; i < record.tensors.size(); ++i) {
            const int slot = catalogueSlots_[i];
            const RecipeKind recipe = plan.tensorRecipe(slot);
            if (plan.roleOfSlot(slot) == TensorRole::Weight &&
                (recipe == RecipeKind::Delayed || recipe == RecipeKind::Fixed))
                record.tensors[i].staleCodes = stale[plan.linearOfSlot(slot)];
        }
    }
    if (step.probes.shadow) {
        const auto* const sums = static_cast<const ShadowSums*>(step.probes.shadow->wait());
        for (int i = 0; i < plan.linearCount() * kGemms; ++i) {
            if (!sums[i].rows) continue;
            ShadowRow row;
            row.linear = i / kGemms;
            row.gemm = i % kGemms;
            row.sqnrDb = 10 * std::log10(sums[i].wanted / sums[i].error);
            row.relativeError = std::sqrt(sums[i].error / sums[i].wanted);
            row.rows = static_cast<int64_t>(sums[i].rows);
            record.shadow.push_back(row);
        }
    }
    if (!step.probes.finite) return;
    const auto* const counts = static_cast<const FiniteCount*>(step.probes.finite->wait());
    const std::vector<OpSite>& sites = program().opSites();
    for (size_t i = 0; i < sites.size(); ++i) {
        if (sites[i].parameter) continue;
        OpCheck check = sites[i].check;
        check.nan = counts[i].nan, check.inf = counts[i].inf;
        if (counts[i].firstInverted) check.element = ~counts[i].firstInverted;
        if (sites[i].castSlot >= 0 && !check.nan && !check.inf) {  // its cast saw the value where no plain one is kept
            const CastCounters& cast = slots[static_cast<size_t>(sites[i].castSlot)].counters;
            check.nan = cast.nan, check.inf = cast.inf;
        }
        record.ops.push_back(check);
    }
}

std::shared_ptr<TroubleReport> TrainerCore::inspectStep(int64_t step, const std::vector<TensorSlot>* slots) {
    auto report = std::make_shared<TroubleReport>();
    report->step = step;
    const PrecisionPlan& plan = program().precision();
    const ScalingState& scaling = program().scaling();
    const std::vector<char> control = program_->controlBytesNow(backend_);
    if (slots) {  // the scales that the step's casts used
        std::vector<ScaleEntry> table(static_cast<size_t>(scaling.count()));
        backend_.download(table.data(), scaling.table(), table.size() * sizeof(ScaleEntry));
        for (int slot = 0; slot < scaling.count(); ++slot) {
            const TensorSlot& used = (*slots)[static_cast<size_t>(slot)];
            if (plan.tensorRecipe(slot) != RecipeKind::Delayed || plan.roleOfSlot(slot) == TensorRole::Weight ||
                used.scaleUsed == 0)
                continue;
            table[static_cast<size_t>(slot)].scale = used.scaleUsed;
            table[static_cast<size_t>(slot)].scaleInv = 1 / used.scaleUsed;
        }
        backend_.upload(scaling.table(), table.data(), table.size() * sizeof(ScaleEntry));
    }
    try {
        program_->setParameters(backend_, stepParameters(step));
        for (int micro = 0; micro < config_.accumulation && report->text.empty(); ++micro) {
            prepareTraining(progress_.windows + static_cast<int64_t>(micro) * config_.batch);
            PassFlags flags;
            flags.step = static_cast<uint64_t>(step);
            flags.micro = micro;
            flags.first = micro == 0;
            flags.count = false;
            flags.ops = true;
            flags.planted = faults_.plantsValues(step);
            program_->inspectPass(backend_, flags, tokens_.data(), targets_.data(), nullptr);
            report->micro = micro;
            findTrouble(*report, program_->finiteCounts(backend_));
        }
        if (report->text.empty())
            report->text = fmt::format(
                "Step {}: the loss or the gradient norm is not finite, but looked at again every op's output is: their "
                "sum overflows, or what broke them did not come again",
                step);
    } catch (const Error& error) {
        report->text = fmt::format("Step {} is not finite; it could not be looked into: {}", step, error.what());
    }
    program_->restoreControl(backend_, control);
    return report;
}

void TrainerCore::findTrouble(TroubleReport& report, const std::vector<FiniteCount>& counts) const {
    const std::vector<OpSite>& sites = program().opSites();
    for (size_t i = 0; i < sites.size(); ++i) {
        if (!counts[i].firstInverted) continue;
        OpCheck check = sites[i].check;
        check.nan = counts[i].nan, check.inf = counts[i].inf;
        check.element = ~counts[i].firstInverted;
        report.reachedLoss = report.reachedLoss || (check.op == "loss" && !check.backward);
        if (report.text.empty()) {
            report.first = check;
            report.tensor = sites[i].tensor;
            report.row = static_cast<int64_t>(check.element) / sites[i].cols;
            report.col = static_cast<int64_t>(check.element) % sites[i].cols;
            report.value = check.nan ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
            report.text = fmt::format(
                "Step {}: the first non-finite value is {} in {} at row {}, column {} ({} NaN, {} Inf), in the "
                "{} pass",
                report.step, check.nan ? check.inf ? "NaN or Inf" : "NaN" : "Inf", report.tensor, report.row,
                report.col, check.nan, check.inf, check.backward ? "backward" : "forward");
        } else {
            report.chain.push_back(check);
        }
    }
    if (report.text.empty()) return;
    report.text += report.reachedLoss
                       ? fmt::format("; from there it reached the loss over {} places", report.chain.size())
                       : fmt::format("; the loss is finite, {} places after it are not", report.chain.size());
}

void TrainerCore::followTrouble(StepMetrics& metrics, std::shared_ptr<TroubleReport> report) {
    if (report) {
        report->flight.assign(flight_.begin(), flight_.end());
        metrics.trouble = report;
    }
    if (!metrics.finite) {
        const bool dear = passFlags(metrics.step + 1).dear;
        troubleUntil_ = metrics.step + config_.probes.flightSteps;
        if (queued_.empty() && passFlags(metrics.step + 1).dear != dear) refreshWeights();
    }
    finite_ = metrics.finite;
    flight_.push_back(metrics.numerics);
    while (static_cast<int>(flight_.size()) > std::max(config_.probes.flightSteps, 0)) flight_.pop_front();
}

}  // namespace mantissa::engine
