#include "engine/model/unfused_ops.h"

namespace mantissa::engine {

using namespace kernels;

namespace {

int64_t aligned64(int64_t elements) {
    return (elements + 63) / 64 * 64;
}

/// What the stages of one norm share: two tensors and two rows' worth of F32.
class NormStages {
  public:
    NormStages(Backend& backend, int64_t rows, int64_t cols, DType type, float* scratch)
        : first(scratch),
          second(first + aligned64(rows * cols)),
          rowSums(second + aligned64(rows * cols)),
          rowDots(rowSums + aligned64(rows)),
          backend_(backend) {
        base_.rows = rows, base_.cols = cols, base_.type = type;
    }
    NormPass pass(NormStage stage) const {
        NormPass op = base_;
        op.stage = stage;
        return op;
    }
    void run(const NormPass& op) { backend_.run(op); }
    /// workOut = in - mean (nullptr: in), then times rstd: the normalised values, in `first`.
    void normalise(const void* in, const float* mean, const float* rstd) {
        NormPass center = pass(NormStage::Center);
        center.in = in, center.rowIn = mean, center.workOut = first;
        run(center);
        scale(rstd);
    }
    void scale(const float* rstd) {
        NormPass op = pass(NormStage::Scale);
        op.work = first, op.rowIn = rstd, op.workOut = first;
        run(op);
    }
    /// out = first * gain + bias.
    void gainBias(const void* gain, const void* bias, void* out) {
        NormPass op = pass(NormStage::GainBias);
        op.work = first, op.gain = gain, op.bias = bias, op.out = out;
        run(op);
    }
    /// sums (C) = over the rows of in, times `work` where it is given.
    void columns(const void* in, const float* work, float* sums, bool accumulate) {
        if (!sums) return;
        NormPass op = pass(work ? NormStage::ColumnDot : NormStage::ColumnSum);
        op.in = in, op.work = work, op.columnOut = sums, op.accumulate = accumulate;
        run(op);
    }
    void cast(const void* in, const CastTarget& target) {
        if (target.format == DType::None) return;
        Quantize op;
        op.rows = base_.rows, op.cols = base_.cols, op.inType = base_.type, op.in = in, op.target = target;
        backend_.run(op);
    }

    float *const first, *const second, *const rowSums, *const rowDots;

  private:
    Backend& backend_;
    NormPass base_;
};

/// rstd of the rows from `first`, which holds them centred.
void rowStatistics(NormStages& stages, const NormForward& op, const void* residual, float* mean, float* rstd) {
    if (op.kind == NormKind::LayerNorm) {
        NormPass sum = stages.pass(NormStage::Mean);
        sum.in = residual, sum.rowOut = mean;
        stages.run(sum);
    }
    NormPass center = stages.pass(NormStage::Center);
    center.in = residual, center.rowIn = op.kind == NormKind::LayerNorm ? mean : nullptr, center.workOut = stages.first;
    stages.run(center);
    NormPass squares = stages.pass(NormStage::Rstd);
    squares.work = stages.first, squares.rowOut = rstd, squares.eps = op.eps;
    stages.run(squares);
}

/// dResidual = dResidualIn + rstd * (dOut * gain - mean of it - normalised * mean of their product).
void residualGradient(NormStages& stages, const NormBackward& op) {
    NormPass scaled = stages.pass(NormStage::TimesGain);
    scaled.in = op.dOut, scaled.gain = op.gain, scaled.workOut = stages.second;
    stages.run(scaled);
    NormPass dot = stages.pass(NormStage::WorkDot);
    dot.work = stages.second, dot.work2 = stages.first, dot.rowOut = stages.rowDots;
    stages.run(dot);
    if (op.kind == NormKind::LayerNorm) {
        NormPass mean = stages.pass(NormStage::WorkMean);
        mean.work = stages.second, mean.rowOut = stages.rowSums;
        stages.run(mean);
        NormPass shift = stages.pass(NormStage::Shift);
        shift.work = stages.second, shift.rowIn = stages.rowSums, shift.workOut = stages.second;
        stages.run(shift);
    }
    NormPass subtract = stages.pass(NormStage::SubtractDot);
    subtract.work = stages.second, subtract.work2 = stages.first, subtract.rowIn = stages.rowDots;
    subtract.workOut = stages.second;
    stages.run(subtract);
    NormPass out = stages.pass(NormStage::ScaleAdd);
    out.work = stages.second, out.rowIn = op.rstd, out.in = op.dResidualIn, out.out = op.dResidual;
    stages.run(out);
}

}  // namespace

size_t unfusedNormBytes(int64_t rows, int64_t cols) {
    return static_cast<size_t>(2 * aligned64(rows * cols) + 2 * aligned64(rows)) * sizeof(float);
}

size_t unfusedAdamBytes(int64_t largest) {
    return static_cast<size_t>(2 * aligned64(largest)) * sizeof(float);
}

void runWrittenOut(Backend& backend, const NormForward& op, float* scratch) {
    NormStages stages(backend, op.rows, op.cols, op.type, scratch);
    const void* residual = op.residualIn;
    if (op.delta) {
        NormPass add = stages.pass(NormStage::AddResidual);
        add.in = op.residualIn, add.in2 = op.delta, add.out = op.residualOut;
        stages.run(add);
        residual = op.residualOut;
    }
    float* const rstd = op.rstd ? op.rstd : stages.rowDots;
    rowStatistics(stages, op, residual, op.mean ? op.mean : stages.rowSums, rstd);
    stages.scale(rstd);
    void* const out = op.out ? op.out : stages.second;
    stages.gainBias(op.gain, op.bias, out);
    stages.cast(out, op.cast);
}

void runWrittenOut(Backend& backend, const NormBackward& op, float* scratch) {
    NormStages stages(backend, op.rows, op.cols, op.type, scratch);
    stages.normalise(op.residual, op.kind == NormKind::LayerNorm ? op.mean : nullptr, op.rstd);
    if (op.outAgain || op.again.format != DType::None) {
        void* const again = op.outAgain ? op.outAgain : stages.second;
        stages.gainBias(op.gain, op.bias, again);
        stages.cast(again, op.again);
    }
    stages.columns(op.dOut, stages.first, op.dGain, op.accumulate);
    stages.columns(op.dOut, nullptr, op.dBias, op.accumulate);
    residualGradient(stages, op);
    stages.columns(op.dResidual, nullptr, op.dLinearBias, op.accumulate);
    stages.cast(op.dResidual, op.cast);
}

void runWrittenOut(Backend& backend, const AdamW& op, float* scratch) {
    int64_t largest = 0;
    bool copies = op.compute != nullptr;
    for (int t = 0; t < op.tensorCount; ++t) {
        const ParameterTensor& tensor = op.tensors[t];
        largest = tensor.rows * tensor.cols > largest ? tensor.rows * tensor.cols : largest;
        copies = copies || tensor.cast.format != DType::None;
    }
    for (int t = 0; t < op.tensorCount; ++t) {
        const ParameterTensor& tensor = op.tensors[t];
        AdamWPass pass;
        pass.n = tensor.rows * tensor.cols;
        pass.masters = op.masters + tensor.offset;
        pass.moment1 = op.moment1 + tensor.offset;
        pass.moment2 = op.moment2 + tensor.offset;
        pass.gradients = op.gradients + tensor.offset;
        pass.a = scratch, pass.b = scratch + aligned64(largest);
        pass.state = op.state, pass.parameters = op.parameters;
        pass.beta1 = op.beta1, pass.beta2 = op.beta2, pass.epsilon = op.epsilon;
        pass.weightDecay = tensor.decay ? op.weightDecay : 0.0f;
        for (int stage = 0; stage < kAdamWStages; ++stage) {
            pass.stage = static_cast<AdamWStage>(stage);
            if (pass.stage == AdamWStage::Decay && !tensor.decay) continue;
            backend.run(pass);
        }
    }
    if (!copies) return;
    AdamW cast = op;
    cast.castOnly = cast.castWhenApplied = true;
    backend.run(cast);
}

}  // namespace mantissa::engine
