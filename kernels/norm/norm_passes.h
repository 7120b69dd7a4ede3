// The norm written out: one op a stage, each a pass over memory, as a framework without fused kernels runs it. What the
// ladder's first rungs are made of (engine/model/unfused_ops.h puts the stages together).
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace mantissa::kernels {

/// in, in2, out: (rows, C = cols) of `type`; work, work2, workOut: (rows, C) F32; gain, bias: (C) of `type`; rowIn,
/// rowOut: (rows) F32; columnOut: (C) F32. Sums run in the order of the fused op, so on the CPU all stages together
/// give its bits.
enum class NormStage : uint8_t {
    AddResidual,  ///< out = in + in2
    Mean,         ///< rowOut = sum(in) / C
    Center,       ///< workOut = in - rowIn (nullptr: 0)
    Rstd,         ///< rowOut = 1 / sqrt(sum(work^2) / C + eps)
    Scale,        ///< workOut = work * rowIn
    GainBias,     ///< out = work * gain + bias (nullptr: 0)
    TimesGain,    ///< workOut = in * gain
    WorkMean,     ///< rowOut = sum(work) / C
    WorkDot,      ///< rowOut = sum(work * work2) / C
    Shift,        ///< workOut = work - rowIn
    SubtractDot,  ///< workOut = work - work2 * rowIn
    ScaleAdd,     ///< out = work * rowIn + in (nullptr: 0)
    ColumnDot,    ///< columnOut = sum over rows of in * work, += when accumulate
    ColumnSum     ///< columnOut = sum over rows of in, += when accumulate
};
inline constexpr int kNormStages = 14;

/// One stage. What it does not name may be nullptr; workOut may be work.
struct NormPass {
    NormStage stage = NormStage::AddResidual;
    bool accumulate = false;
    int64_t rows = 0, cols = 0;
    DType type = DType::F32;
    float eps = 1e-5f;
    const void* in = nullptr;
    const void* in2 = nullptr;
    void* out = nullptr;
    const float* work = nullptr;
    const float* work2 = nullptr;
    float* workOut = nullptr;
    const void* gain = nullptr;
    const void* bias = nullptr;
    const float* rowIn = nullptr;
    float* rowOut = nullptr;
    float* columnOut = nullptr;
};

/// Whether the pointers that the stage reads and writes are there.
constexpr bool complete(const NormPass& op) {
    switch (op.stage) {
        case NormStage::AddResidual:
            return op.in && op.in2 && op.out;
        case NormStage::Mean:
            return op.in && op.rowOut;
        case NormStage::Center:
            return op.in && op.workOut;
        case NormStage::Rstd:
        case NormStage::WorkMean:
            return op.work && op.rowOut;
        case NormStage::Scale:
        case NormStage::Shift:
            return op.work && op.rowIn && op.workOut;
        case NormStage::GainBias:
            return op.work && op.gain && op.out;
        case NormStage::TimesGain:
            return op.in && op.gain && op.workOut;
        case NormStage::WorkDot:
            return op.work && op.work2 && op.rowOut;
        case NormStage::SubtractDot:
            return op.work && op.work2 && op.rowIn && op.workOut;
        case NormStage::ScaleAdd:
            return op.work && op.rowIn && op.out;
        case NormStage::ColumnDot:
            return op.in && op.work && op.columnOut;
        case NormStage::ColumnSum:
            return op.in && op.columnOut;
    }
    return false;
}
constexpr bool sumsColumns(NormStage stage) {
    return stage == NormStage::ColumnDot || stage == NormStage::ColumnSum;
}

}  // namespace mantissa::kernels
