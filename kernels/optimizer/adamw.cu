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

/// Eight neighbours from `at` on: reads, updates, writes back; returns the new values in w.
template <class C>
__device__ __forceinline__ void update8(const AdamW& op, const Factors& factors, int64_t at, C* compute, int valid,
                                        bool aligned, float (&w)[kLane]) {
    load8(op.masters + at, valid, aligned, w);
    if (!op.castOnly) {
        float m[kLane], v[kLane], g[kLane];
        load8(op.moment1 + at, valid, aligned, m);
        load8(op.moment2 + at, valid, aligned, v);
        load8(op.gradients + at, valid, aligned, g);
#pragma unroll
        for (int j = 0; j < kLane; ++j) w[j] = updated(factors, g[j], w[j], m[j], v[j]);
        store8(op.masters + at, valid, aligned, w);
        store8(op.moment1 + at, valid, aligned, m);
        store8(op.moment2 + at, valid, aligned, v);
    }
    if constexpr (sizeof(C) == 2) {
        if (compute) store8(compute, valid, aligned, w);
    }
#pragma unroll
    for (int j = 0; j < kLane; ++j) {
        if (j >= valid) w[j] = 0;
    }
}

/// A tensor starts at a multiple of 64 elements, and a block lies in one tensor.
template <class C, CastMode kMode>
__global__ void __launch_bounds__(kThreads) adamWKernel(AdamWArgs args) {
    const AdamW& op = args.op;
    if ((!op.castOnly || op.castWhenApplied) && op.state->applied == 0) return;
    extern __shared__ uint32_t stage[];
    __shared__ CastShared shared;
    int low = 0, high = op.tensorCount - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (args.entries[middle].firstBlock <= blockIdx.x) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    const TensorEntry& entry = args.entries[low];
    const int64_t block = blockIdx.x - entry.firstBlock;
    Factors f{};
    if (!op.castOnly) {
        f = factorsOf(op, entry.decay ? op.weightDecay : 0.0f);
    }
    C* compute = nullptr;
    if (op.compute && entry.computeOffset != kNoCompute) compute = static_cast<C*>(op.compute) + entry.computeOffset;
    if (!entry.cast.active()) {
        const int64_t first = block * kStretch, last = min(entry.count, first + kStretch);
#pragma unroll 2
        for (int64_t i = first + threadIdx.x * kLane; i < last; i += kTileCols) {
            const int valid = static_cast<int>(min(int64_t{kLane}, last - i));
            float w[kLane];
            update8<C>(op, f, entry.offset + i, compute ? compute + i : nullptr, valid, valid == kLane, w);
        }
        return;
    }
    CastParams cast = entry.cast;
    cast.partials = kMode == CastMode::Generic && args.partials ? args.partials + entry.firstBlock : nullptr;
    CastState state;
    beginCast<kMode>(cast, state, shared);
    const int64_t row0 = block / entry.columnBlocks * kTileRows, blockCol = block % entry.columnBlocks * kTileCols;
    const int64_t col = blockCol + threadIdx.x * kLane;
    const Columns<kMode> columns(col, cast.cols, cast.cols % kLane == 0);
    const int valid = columns.valid;
    const bool aligned = columns.aligned, transposes = writesTransposed<kMode>(cast);
#pragma unroll 1
    for (int group = 0; group < kTileRows / 4; ++group) {
        uint2 codes[4] = {};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int64_t row = row0 + group * 4 + i;
            if (row >= cast.rows || valid == 0) continue;
            float w[kLane];
            const int64_t at = row * cast.cols + col;
            update8<C>(op, f, entry.offset + at, compute ? compute + at : nullptr, valid, aligned, w);
            roundForCast<Bf16>(w);
            codes[i] = cast8<kMode>(cast, w, valid, row, col, state, shared);
            storeCodes<kMode>(cast, codes[i], at, valid, aligned);
        }
        if (transposes) stageFourRows(stage, group, codes);
    }
    if (transposes) writeStage(cast, stage, row0, blockCol);
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
    __shared__ DearPartial sums[kThreads];
    DearPartial sum{0, 0, 0, kNoMinimum, 0};
    const auto add = [&sum](const DearPartial& other) {
        sum.sumSquares += other.sumSquares;
        sum.sumSquaredError += other.sumSquaredError;
        sum.sumFourth += other.sumFourth;
        sum.minNonZero = fminf(sum.minNonZero, other.minNonZero);
    };
    for (int64_t i = threadIdx.x; i < blocks; i += kThreads) add(partials[entry.firstBlock + i]);
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int i = 1; i < kThreads; ++i) add(sums[i]);
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
    bool generic = false;  ///< some cast is more than codes and counters of whole vectors
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
        plan.generic |= entry.cast.active() && castModeOf(entry.cast, kTileRows, aligned) != CastMode::Full;
        plan.entries.push_back(entry);
    }
    return plan;
}

template <class C>
void launchAdamW(const LaunchContext& context, const AdamWArgs& args, const Plan& plan) {
    const size_t stage = plan.transposes ? stageWords(kThreads) * sizeof(uint32_t) : 0;
    const unsigned blocks = static_cast<unsigned>(plan.blocks);
    if (plan.generic) {
        allowSharedMemory(adamWKernel<C, CastMode::Generic>, stage);
        adamWKernel<C, CastMode::Generic><<<blocks, kThreads, stage, context.stream>>>(args);
    } else {
        allowSharedMemory(adamWKernel<C, CastMode::Full>, stage);
        adamWKernel<C, CastMode::Full><<<blocks, kThreads, stage, context.stream>>>(args);
    }
    MANTISSA_CUDA_CHECK(cudaGetLastError());
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
