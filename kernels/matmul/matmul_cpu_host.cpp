// Matrix product on the CPU, host part: the contract's checks, the cut into regions and tiles, the report.
//
// A region multiplies all rows of A with some columns of B: first its share of B is packed by all workers, then tiles
// of rows are multiplied. Where k is strided in both (wgrad) and one side is narrow, each tile spans the narrow side,
// and the worker packs what the tile needs itself, block by block: it then stays in its second-level cache. How a
// product is cut changes no bit of the result (kernels/matmul/matmul_kernels.h).
#include <algorithm>
#include <array>
#include <string>

#include "kernels/device/cpu_ops.h"
#include "kernels/formats/half.h"
#include "kernels/matmul/matmul_kernels.h"

namespace mantissa::kernels {

namespace {

constexpr int64_t kPackedBytes = 8 << 20;  // of B (and of A, where it is shared) in one region: in the last-level cache
constexpr int64_t kLeastColumns = 256;     // a region's, where B would be larger than that
constexpr int64_t kMostColumns = 512;      // the sums of a tile's rows stay in the second-level cache
constexpr int64_t kTileRows = 128;
constexpr int64_t kTilesPerThread = 6;
constexpr int64_t kNarrow = 256;          // rows or columns: the packed narrow side stays in the second-level cache
constexpr int64_t kSpansPerThread = 2;    // tiles that span the narrow side
constexpr int64_t kPackElements = 16384;  // packed by one tile: 5 to 10 microseconds

int64_t divideUp(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
int64_t roundUp(int64_t a, int64_t b) {
    return divideUp(a, b) * b;
}

/// How a product is cut, and where its parts lie in the workspace (all in floats).
struct Plan {
    PackedForm form;
    int64_t units;
    int64_t columns;                ///< of a region
    int64_t tileRows, tileColumns;  ///< of a tile
    bool sharedA;                   ///< A is packed once for all tiles (k strided, small enough)
    bool ownB = false;              ///< tiles pack their own columns of B
    int64_t bias, packedA, packedB, scratch;

    Plan(const Matmul& op, const MatmulKernels& kernels, int threads)
        : form(packedFormOf(op.a.type, kernels.usesBf16())), units(unitsOf(form, op.k)) {
        const int64_t panelsA = divideUp(op.m, kernels.mr);
        packedA = roundUp(panelsA * panelStrideA(units, kernels.mr), 16);
        sharedA = !op.a.kContiguous && packedA * 4 <= kPackedBytes;
        columns = columnsOfRegion(op.n, kernels.nr);
        const bool strided = !op.a.kContiguous && !op.b.kContiguous;
        if (strided && op.n <= kNarrow && op.m >= 2 * op.n) {
            sharedA = false, ownB = true;
            spanColumns(op.m, kernels.mr, threads);
        } else if (strided && op.m <= kNarrow && op.n >= 2 * op.m) {
            ownB = true;
            columns = roundUp(op.n, kernels.nr);
            spanRows(op.m, kernels, threads);
        } else {
            cutTiles(op.m, kernels, threads);
        }
        if (!sharedA) packedA = 0;
        bias = roundUp(columns, 16);
        packedB = ownB ? 0 : roundUp(columns * units, 16);
        scratch = roundUp(matmulScratchFloats(kernels, tileRows, tileColumns, units, ownB), 16);
    }
    size_t bytes(int threads) const { return static_cast<size_t>(bias + packedA + packedB + scratch * threads) * 4; }

  private:
    int64_t columnsOfRegion(int64_t n, int nr) const {
        const int64_t fitting = kPackedBytes / (4 * std::max<int64_t>(units, 1));
        const int64_t most = std::clamp(fitting, kLeastColumns, kMostColumns);
        return roundUp(divideUp(n, std::max<int64_t>(1, divideUp(n, most))), nr);
    }
    void spanColumns(int64_t m, int mr, int threads) {
        const int64_t panels = divideUp(std::max<int64_t>(m, 1), mr);
        tileRows = mr * std::clamp<int64_t>(panels / (kSpansPerThread * threads), 1, kTileRows / mr);
        tileColumns = columns;
    }
    void spanRows(int64_t m, const MatmulKernels& kernels, int threads) {
        const int64_t panels = columns / kernels.nr;
        tileColumns = kernels.nr * std::clamp<int64_t>(panels / (kSpansPerThread * threads), 1, kTileRows / kernels.nr);
        tileRows = roundUp(std::max<int64_t>(m, 1), kernels.mr);
    }
    /// As large as leaves every thread a few tiles, and about square: that reads least.
    void cutTiles(int64_t m, const MatmulKernels& kernels, int threads) {
        const int64_t panels = divideUp(std::max<int64_t>(m, 1), kernels.mr);
        int64_t rowPanels = std::min(panels, kTileRows / kernels.mr), columnPanels = columns / kernels.nr;
        const auto tiles = [&] { return divideUp(panels, rowPanels) * divideUp(columns / kernels.nr, columnPanels); };
        while (tiles() < kTilesPerThread * threads && (rowPanels > 1 || columnPanels > 1)) {
            const bool wide = columnPanels * kernels.nr >= 2 * rowPanels * kernels.mr;
            if (columnPanels > 1 && (wide || rowPanels == 1))
                columnPanels = divideUp(columnPanels, 2);
            else
                rowPanels = divideUp(rowPanels, 2);
        }
        tileRows = rowPanels * kernels.mr;
        tileColumns = columnPanels * kernels.nr;
    }
};

PackSource sourceOf(const MatmulOperand& operand, int64_t rows, int64_t k, bool tf32) {
    return {operand.data, operand.type, operand.kContiguous, tf32, operand.ld, rows, k};
}

float biasAt(const Matmul& op, int64_t column) {
    if (op.biasType == DType::BF16) return decodeBf16(static_cast<const uint16_t*>(op.bias)[column]);
    if (op.biasType == DType::F16) return decodeFp16(static_cast<const uint16_t*>(op.bias)[column]);
    return static_cast<const float*>(op.bias)[column];
}

/// Packs what the region's tiles share: its columns of B, and A. Lines of k go together where k is strided, so that
/// memory is read in order.
void packRegion(const MatmulJob& job, const MatmulKernels& kernels, bool withA, Executor& executor) {
    const int64_t panels = divideUp(job.columns, kernels.nr), perPanel = std::max<int64_t>(1, job.b.k * kernels.nr);
    const auto lines = [&](int64_t rows) { return std::max<int64_t>(8, kPackElements / std::max<int64_t>(1, rows)); };
    const int64_t groupA = lines(job.a.rows), tilesA = withA ? divideUp(job.units, groupA) : 0;
    const int64_t groupB = job.b.kContiguous ? std::max<int64_t>(1, kPackElements / perPanel) : lines(job.columns);
    const int64_t tilesB = job.packedB ? divideUp(job.b.kContiguous ? panels : job.units, groupB) : 0;
    executor.run(tilesA + tilesB, [&](int64_t tile, int) {
        if (tile < tilesA) return kernels.packA(job, tile * groupA, std::min(job.units, (tile + 1) * groupA));
        const int64_t first = (tile - tilesA) * groupB;
        if (job.b.kContiguous)
            kernels.packB(job, first, std::min(panels, first + groupB), 0, job.units);
        else
            kernels.packB(job, 0, panels, first, std::min(job.units, first + groupB));
    });
}

enum Variant { kPlain, kBf16Native, kBf16Emulated, kFp16, kFp8, kTf32, kBlockValues, kVariants };

Variant variantOf(const Matmul& op, PackedForm form) {
    if (isFp8(op.a.type)) return kFp8;
    if (op.a.emulates != DType::None) return kBlockValues;
    if (op.a.type == DType::F16) return kFp16;
    if (op.a.type == DType::BF16) return form == PackedForm::Bf16Pairs ? kBf16Native : kBf16Emulated;
    return op.tf32 ? kTf32 : kPlain;
}

const char* algorithmName(Isa isa, Variant variant) {
    static const auto names = [] {
        const char* suffix[kVariants] = {"",
                                         " bf16",
                                         " bf16 by f32",
                                         " fp16 by f32",
                                         " fp8 codes by bf16",
                                         " tf32 by f32",
                                         " values of block codes by bf16"};
        std::array<std::array<std::string, kVariants>, 4> all;
        for (Isa each : {Isa::Sse, Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16}) {
            const MatmulKernels& kernels = matmulKernels(each);
            const std::string tile = std::to_string(kernels.mr) + "x" + std::to_string(kernels.nr);
            for (int i = 0; i < kVariants; ++i)
                all[static_cast<int>(each)][i] =
                    isaName(each) + (" " + tile) + suffix[i] + (i > kBf16Native ? " (emulated)" : "");
        }
        return all;
    }();
    return names[static_cast<int>(isa)][variant].c_str();
}

}  // namespace

size_t workspaceCpu(const Matmul& op, const CpuContext& context) {
    if (runsLimited(op)) return workspaceLimited(op, context);
    const int threads = context.executor->threadCount();
    return Plan(op, matmulKernels(context.isa), threads).bytes(threads);
}

MatmulReport runCpu(const Matmul& op, const CpuContext& context) {
    checkMatmul(op);
    if (op.a.blockScaleInv)
        throw Error(ErrorCode::ShapeMismatch,
                    "matmul: the CPU multiplies the values of codes with block scales, not the codes");
    if (runsLimited(op)) return runLimited(op, context);
    const MatmulKernels& kernels = matmulKernels(context.isa);
    Executor& executor = *context.executor;
    const Plan plan(op, kernels, executor.threadCount());
    const Variant variant = variantOf(op, plan.form);
    const MatmulReport report{reportedType(op.a), reportedType(op.b), op.outType, variant <= kBf16Native,
                              algorithmName(context.isa, variant)};
    if (op.m == 0 || op.n == 0) return report;

    float* const bias = static_cast<float*>(context.workspace);
    float* const packedA = bias + plan.bias;
    float* const packedB = packedA + plan.packedA;
    float* const scratch = packedB + plan.packedB;
    MatmulJob job;
    job.a = sourceOf(op.a, op.m, op.k, op.tf32);
    job.b = sourceOf(op.b, op.n, op.k, op.tf32);
    job.form = plan.form, job.units = job.panelUnits = plan.units;
    job.packedB = plan.ownB ? nullptr : packedB;
    job.packedA = plan.sharedA ? packedA : nullptr;
    job.scaleInvA = op.a.scaleInv ? *op.a.scaleInv : 1, job.scaleInvB = op.b.scaleInv ? *op.b.scaleInv : 1;
    job.out = op.out, job.outType = op.outType, job.ldOut = op.ldOut, job.accumulate = op.accumulate;

    for (int64_t column = 0; column < op.n; column += plan.columns) {
        job.firstColumn = column;
        job.columns = std::min(plan.columns, op.n - column);
        for (int64_t i = 0; op.bias && i < plan.columns; ++i) bias[i] = i < job.columns ? biasAt(op, column + i) : 0;
        job.bias = op.bias ? bias : nullptr;
        packRegion(job, kernels, plan.sharedA && column == 0, executor);
        const int64_t across = divideUp(job.columns, plan.tileColumns);
        executor.run(divideUp(op.m, plan.tileRows) * across, [&](int64_t tile, int worker) {
            const int64_t row = tile / across * plan.tileRows, first = tile % across * plan.tileColumns;
            kernels.tile(job, row, std::min(plan.tileRows, op.m - row), first,
                         std::min(job.columns, first + plan.tileColumns), scratch + worker * plan.scratch);
        });
    }
    return report;
}

}  // namespace mantissa::kernels
