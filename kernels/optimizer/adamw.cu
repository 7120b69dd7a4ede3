// AdamW over all tensors in one launch, with the low-precision copies of the new weights. Tensors with an FP8 copy are
// cut into tiles of 32 rows x 1024 columns, so that the transposed codes leave as runs of 32 bytes; the others into
// stretches of 32768 elements. Memory bound: 16 bytes read and 12 written a parameter, 2 more for BF16, 2 more for both
// sets of codes.
#include <vector>

#include "kernels/device/cuda/cast.cuh"
#include "kernels/optimizer/adamw_cuda.cuh"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kThreads = 128, kTileCols = kThreads * kLane, kStretch = kTileRows * kTileCols;

/// One tensor as the kernel sees it; a table of these lies in device memory.
struct TensorEntry {
    int64_t offset, count, firstBlock;
    int64_t computeOffset;  ///< in `compute`, or kNoCompute
    CastParams cast;
    int32_t columnBlocks;
    uint32_t decay;
    uint64_t clearSlot;  ///< address of a slot that is overwritten, or 0
};

struct AdamWArgs {
    AdamW op;
    const TensorEntry* entries;
    DearPartial* partials;  ///< one a block, or nullptr
};

__device__ __forceinline__ float updated(const Factors& f, float g, float w, float& m, float& v) {
    g = clipped(f, g);
    m = newMoment1(f, m, g);
    v = newMoment2(f, v, squared(f, g));
    const float denominator = __fadd_rn(__fsqrt_rn(__fmul_rn(v, f.inverse2)), f.epsilon);
    return moved(f, w, decayed(f, w, quotient(f, m, denominator)));
}

/// Eight neighbours of the four arrays; moments and gradients only where the weights are updated.
struct Eight {
    Raw8<float> w, m, v, g;
    __device__ __forceinline__ void load(const AdamW& op, int64_t at, int valid, bool aligned) {
        w.load(op.masters + at, valid, aligned);
        if (op.castOnly) return;
        m.load(op.moment1 + at, valid, aligned);
        v.load(op.moment2 + at, valid, aligned);
        g.load(op.gradients + at, valid, aligned);
    }
    /// Updates, writes back and writes the copy; returns the new values, 0 from `valid` on.
    template <class C>
    __device__ __forceinline__ void update(const AdamW& op, const Factors& f, int64_t at, C* compute, int valid,
                                           bool aligned, float (&value)[kLane]) {
        w.unpack(value);
        if (!op.castOnly) {
            float moment1[kLane], moment2[kLane], grad[kLane];
            m.unpack(moment1), v.unpack(moment2), g.unpack(grad);
#pragma unroll
            for (int j = 0; j < kLane; ++j) value[j] = updated(f, grad[j], value[j], moment1[j], moment2[j]);
            store8(op.masters + at, valid, aligned, value);
            store8(op.moment1 + at, valid, aligned, moment1);
            store8(op.moment2 + at, valid, aligned, moment2);
        }
        if constexpr (sizeof(C) == 2) {
            if (compute) store8(compute, valid, aligned, value);
        }
#pragma unroll
        for (int j = 0; j < kLane; ++j) {
            if (j >= valid) value[j] = 0;
        }
    }
};

/// The entry of the tensor that a block works on.
__device__ __forceinline__ const TensorEntry& entryOf(const AdamWArgs& args, int64_t block) {
    int low = 0, high = args.op.tensorCount - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (args.entries[middle].firstBlock <= block) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return args.entries[low];
}

/// A tensor without codes: one stretch. The next eight are loaded while eight are worked on.
template <class C>
__device__ __forceinline__ void updateStretch(const AdamW& op, const Factors& f, const TensorEntry& entry,
                                              int64_t block, C* compute) {
    const int64_t first = block * kStretch, last = min(entry.count, first + kStretch);
    const auto validAt = [&](int64_t i) { return static_cast<int>(max(int64_t{0}, min(int64_t{kLane}, last - i))); };
    Eight eight[2];
    int64_t i = first + threadIdx.x * kLane;
    const auto fetch = [&](Eight& to, int64_t at) {
        const int valid = validAt(at);
        if (valid > 0) to.load(op, entry.offset + at, valid, valid == kLane);
    };
    const auto work = [&](Eight& of, int64_t at) {
        const int valid = validAt(at);
        float w[kLane];
        if (valid > 0)
            of.update<C>(op, f, entry.offset + at, compute ? compute + at : nullptr, valid, valid == kLane, w);
    };
    fetch(eight[0], i);
    for (; i < last; i += 2 * kTileCols) {
        fetch(eight[1], i + kTileCols);
        work(eight[0], i);
        fetch(eight[0], i + 2 * kTileCols);
        work(eight[1], i + kTileCols);
    }
}

/// A tensor starts at a multiple of 64 elements, and a block lies in one tensor. Mode Full: E4M3 in whole tiles of
/// rows.
template <class C, CastMode kMode>
__global__ void __launch_bounds__(kThreads, takesDear(kMode) ? 1 : 3) adamWKernel(AdamWArgs args) {
    const AdamW& op = args.op;
    if ((!op.castOnly || op.castWhenApplied) && op.state->applied == 0) return;
    extern __shared__ uint32_t stage[];
    __shared__ CastShared<kMode> shared;
    const TensorEntry& entry = entryOf(args, blockIdx.x);
    const int64_t block = blockIdx.x - entry.firstBlock;
    Factors f{};
    if (!op.castOnly) {
        f = factorsOf(op, entry.decay ? op.weightDecay : 0.0f);
    }
    C* compute = nullptr;
    if (op.compute && entry.computeOffset != kNoCompute) compute = static_cast<C*>(op.compute) + entry.computeOffset;
    if (!entry.cast.active()) return updateStretch<C>(op, f, entry, block, compute);
    CastParams cast = entry.cast;
    cast.partials = takesDear(kMode) && args.partials ? args.partials + entry.firstBlock : nullptr;
    CastState state;
    beginCast<kMode>(cast, state, shared);
    const int64_t row0 = block / entry.columnBlocks * kTileRows, blockCol = block % entry.columnBlocks * kTileCols;
    const int64_t col = blockCol + threadIdx.x * kLane;
    const Columns<kMode> columns(col, cast.cols, cast.cols % kLane == 0);
    const int valid = columns.valid;
    const bool aligned = columns.aligned, transposes = writesTransposed<kMode>(cast);
    const auto has = [&](int64_t row) { return row < min(cast.rows, row0 + kTileRows) && valid > 0; };
    Eight eight[2];
    if (has(row0)) eight[0].load(op, entry.offset + row0 * cast.cols + col, valid, aligned);
#pragma unroll 1
    for (int group = 0; group < kTileRows / 4; ++group) {
        uint2 codes[4] = {};
        Raw8<Bf16> rows[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int64_t row = row0 + group * 4 + i, at = row * cast.cols + col;
            if (has(row + 1)) eight[(i + 1) % 2].load(op, entry.offset + at + cast.cols, valid, aligned);
            rows[i].clear();
            if (!has(row)) continue;
            float w[kLane];
            eight[i % 2].update<C>(op, f, entry.offset + at, compute ? compute + at : nullptr, valid, aligned, w);
            if constexpr (kMode != CastMode::Generic) {
                rows[i].pack(w);
            } else {
                roundForCast<Bf16>(w);
                codes[i] = cast8<kMode>(cast, w, valid, row, col, state);
                storeCodes<kMode>(cast, codes[i], at, valid, aligned);
            }
        }
        if constexpr (kMode == CastMode::Amax) castFour<kMode, 1>(rows, false, state, codes);
        if constexpr (encodes(kMode)) {
            castFour<kMode, 1>(rows, cast.counts, state, codes);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (cast.codes && valid > 0)
                    *reinterpret_cast<uint2*>(cast.codes + (row0 + group * 4 + i) * cast.cols + col) = codes[i];
            }
        }
        if (transposes) stageFourRows(stage, group, codes);
    }
    if (transposes) writeStage<kTileRows, encodes(kMode)>(cast, stage, row0, blockCol);
    if (encodes(kMode) && valid == 0) state.forgetCounts();
    endCast<kMode>(cast, state, shared, static_cast<int>(block), block == 0);
}

/// The slots describe the codes that the next step uses: overwritten, not merged.
__global__ void clearSlotsKernel(const TensorEntry* entries, const StepState* state, bool always) {
    if (!always && state->applied == 0) return;
    uint64_t* words = reinterpret_cast<uint64_t*>(entries[blockIdx.x].clearSlot);
    if (!words) return;
    for (int i = threadIdx.x; i < static_cast<int>(sizeof(TensorSlot) / 8); i += blockDim.x) words[i] = 0;
}

/// Merges a weight's dear partials, only when its codes were written.
__global__ void mergeWeightDearKernel(const TensorEntry* entries, const DearPartial* partials, const StepState* state,
                                      bool always) {
    if (!always && state->applied == 0) return;
    const TensorEntry& entry = entries[blockIdx.x];
    if (!entry.cast.partials) return;  // set on the host to say that the dear set is wanted
    const int64_t blocks = (entry.cast.rows + kTileRows - 1) / kTileRows * entry.columnBlocks;
    __shared__ DearPartial warps[kThreads / 32];
    DearPartial sum{0, 0, 0, kNoMinimum, 0};
    for (int64_t i = threadIdx.x; i < blocks; i += kThreads) sum.add(partials[entry.firstBlock + i]);
    sum = blockDear(sum, warps);
    if (threadIdx.x != 0) return;
    DearStats& out = entry.cast.slot->dear;
    out.sumSquares = sum.sumSquares;
    out.sumSquaredError = sum.sumSquaredError;
    out.sumFourth = sum.sumFourth;
    out.minNonZero = sum.minNonZero == kNoMinimum ? 0.0f : sum.minNonZero;
}

struct Plan {
    std::vector<TensorEntry> entries;
    int64_t blocks = 0;
    bool dear = false, transposes = false;
    CastMode mode = CastMode::None;  ///< of all casts; Generic where they differ
};

Plan planOf(const AdamW& op) {
    Plan plan;
    for (int t = 0; t < op.tensorCount; ++t) {
        const ParameterTensor& tensor = op.tensors[t];
        TensorEntry entry{};
        entry.offset = tensor.offset;
        entry.count = tensor.rows * tensor.cols;
        entry.firstBlock = plan.blocks;
        entry.computeOffset = tensor.computeOffset == kComputeAtOffset ? tensor.offset : tensor.computeOffset;
        entry.cast = castParams(tensor.cast, tensor.rows, tensor.cols, "adamw");
        entry.columnBlocks = static_cast<int32_t>((tensor.cols + kTileCols - 1) / kTileCols);
        entry.decay = tensor.decay;
        entry.clearSlot = reinterpret_cast<uintptr_t>(tensor.cast.slot);
        const int64_t blocks = entry.cast.active() ? (tensor.rows + kTileRows - 1) / kTileRows * entry.columnBlocks
                                                   : (entry.count + kStretch - 1) / kStretch;
        plan.blocks += blocks;
        if (dearBytes(tensor.cast, 1)) {
            plan.dear = true;
            entry.cast.partials = reinterpret_cast<DearPartial*>(uintptr_t{256});  // replaced in the kernel
        }
        plan.transposes |= entry.cast.transposes();
        const bool aligned = alignedRows(tensor.cast.codes, tensor.cols);
        if (entry.cast.active()) {
            const CastMode mode =
                entry.cast.format == 1 ? castModeOf(entry.cast, tensor.rows, aligned) : CastMode::Generic;
            plan.mode = plan.mode == CastMode::None || plan.mode == mode ? mode : CastMode::Generic;
        }
        plan.entries.push_back(entry);
    }
    return plan;
}

template <class C, CastMode kMode>
void launchMode(const LaunchContext& context, const AdamWArgs& args, const Plan& plan) {
    const size_t stage = plan.transposes ? stageWords(kThreads) * sizeof(uint32_t) : 0;
    allowSharedMemory(adamWKernel<C, kMode>, stage);
    adamWKernel<C, kMode><<<static_cast<unsigned>(plan.blocks), kThreads, stage, context.stream>>>(args);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

template <class C>
void launchAdamW(const LaunchContext& context, const AdamWArgs& args, const Plan& plan) {
    if (plan.mode == CastMode::Generic) return launchMode<C, CastMode::Generic>(context, args, plan);
    if (plan.mode == CastMode::Amax) return launchMode<C, CastMode::Amax>(context, args, plan);
    if (plan.mode == CastMode::Dear) return launchMode<C, CastMode::Dear>(context, args, plan);
    launchMode<C, CastMode::Full>(context, args, plan);
}

}  // namespace

size_t workspaceBytes(const AdamW& op) {
    const Plan plan = planOf(op);
    return plan.dear ? roundUp256(static_cast<size_t>(plan.blocks) * sizeof(DearPartial)) : 0;
}

void launch(const LaunchContext& context, const AdamW& op) {
    if (op.tensorCount == 0) return;
    require(op.masters && op.tensors, "adamw", "masters and tensors must be given");
    require(op.castOnly || (op.moment1 && op.moment2 && op.gradients && op.state && op.parameters), "adamw",
            "moments, gradients, state and parameters must be given");
    const Plan plan = planOf(op);
    AdamWArgs args{};
    args.op = op;
    args.op.tensors = nullptr;
    args.entries = static_cast<const TensorEntry*>(
        context.tables->table(plan.entries.data(), plan.entries.size() * sizeof(TensorEntry)));
    if (plan.dear) args.partials = static_cast<DearPartial*>(context.scratch(workspaceBytes(op), "adamw"));
    clearSlotsKernel<<<op.tensorCount, 64, 0, context.stream>>>(args.entries, op.state,
                                                                op.castOnly && !op.castWhenApplied);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
    switch (op.compute ? op.computeType : DType::F32) {
        case DType::BF16:
            launchAdamW<Bf16>(context, args, plan);
            break;
        case DType::F16:
            launchAdamW<F16>(context, args, plan);
            break;
        default:
            launchAdamW<float>(context, args, plan);
            break;
    }
    if (!plan.dear) return;
    mergeWeightDearKernel<<<op.tensorCount, kThreads, 0, context.stream>>>(args.entries, args.partials, op.state,
                                                                           op.castOnly && !op.castWhenApplied);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace mantissa::kernels::cuda
