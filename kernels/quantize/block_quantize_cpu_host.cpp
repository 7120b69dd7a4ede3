// The block cast on the CPU: checks, tiles of 128 x 128, statistics merged in tile order.
#include <algorithm>
#include <string>

#include "kernels/device/cpu_host.h"
#include "kernels/quantize/block_quantize_kernels.h"

namespace mantissa::kernels {

namespace {

int64_t tilesDown(const BlockQuantize& op) {
    return (op.rows + kBlockTile - 1) / kBlockTile;
}
int64_t tilesAcross(const BlockQuantize& op) {
    return (op.cols + kBlockTile - 1) / kBlockTile;
}

struct Memory {
    BlockStats* stats;
    float* scratch;
    size_t bytes;
    Memory(const BlockQuantize& op, int workers, void* base) {
        WorkspaceCursor cursor(base);
        stats = cursor.take<BlockStats>(tilesDown(op) * tilesAcross(op));
        scratch = cursor.take<float>(kBlockScratch * workers);
        bytes = cursor.bytes();
    }
};

void setEntry(ScaleEntry* entry, float scale) {
    if (!entry) return;
    entry->scale = scale;
    entry->scaleInv = 1.0f / scale;
}

}  // namespace

void checkBlockQuantize(const BlockQuantize& op) {
    require(op.rows >= 0 && op.cols >= 0, "block cast: a size is negative");
    require(op.inType == DType::BF16 || op.inType == DType::F32, "block cast: the input is not bf16 or f32");
    require(op.kind == BlockKind::Nvfp4 ? op.format == DType::E2M1 : isFp8(op.format),
            "block cast: the format is not e4m3 or e5m2 (nvfp4: e2m1)");
    require(op.blockCols == 16 || op.blockCols == 32 || op.blockCols == 128,
            "block cast: blocks are not 16, 32 or 128 wide");
    require(op.blockRows == 1 || op.blockRows == op.blockCols,
            "block cast: a block is neither one row high nor square");
    require(op.kind != BlockKind::Nvfp4 || ((op.rowEntry || !op.rowValues) && (op.colEntry || !op.colValues)),
            "block cast: nvfp4 needs a place for the tensor's scale");
    for (const BlockCodes& copy : {op.rowCodes, op.colCodes}) {
        require(!copy.codes || (op.kind == BlockKind::Block128 && op.blockCols == 128),
                "block cast: codes with their scales are written for block128 in blocks of 128 alone");
        require(!copy.codes == !copy.scaleInv, "block cast: codes and their scales are not both there");
    }
    require(op.kind == BlockKind::Block128 || (op.powerOfTwo && op.epsilon == 0),
            "block cast: block128 alone takes other scales and an epsilon");
    require(op.powerOfTwo || !(op.rowValues || op.colValues),
            "block cast: scales that are no powers of two are for codes alone");
    require(op.roundToBf16 || op.kind != BlockKind::Nvfp4, "block cast: nvfp4 rounds F32 to BF16");
    require(op.in || op.rows * op.cols == 0, "block cast: there is no input");
}

size_t workspaceCpu(const BlockQuantize& op, const CpuContext& context) {
    return Memory(op, context.executor->threadCount(), nullptr).bytes;
}

void runCpu(const BlockQuantize& op, const CpuContext& context) {
    checkBlockQuantize(op);
    const int64_t across = tilesAcross(op), tiles = tilesDown(op) * across;
    const Memory memory(op, context.executor->threadCount(), context.workspace);
    const auto& kernels = blockQuantizeKernels(context.isa);
    for (int64_t tile = 0; tile < tiles; ++tile) memory.stats[tile] = BlockStats();
    BlockTensorScales tensor;
    if (op.kind == BlockKind::Nvfp4) {
        context.executor->run(tiles, [&](int64_t tile, int worker) {
            kernels.amax(op, tile / across, tile % across, memory.scratch + worker * kBlockScratch, memory.stats[tile]);
        });
        uint32_t row = 0, col = 0;
        for (int64_t tile = 0; tile < tiles; ++tile) {
            row = std::max(row, memory.stats[tile].rowAmaxBits);
            col = std::max(col, memory.stats[tile].colAmaxBits);
        }
        tensor = {nvfp4TensorScale(floatFromBits(row)), nvfp4TensorScale(floatFromBits(col))};
        setEntry(op.rowEntry, tensor.row);
        setEntry(op.colEntry, tensor.col);
    }
    context.executor->run(tiles, [&](int64_t tile, int worker) {
        kernels.cast(op, tensor, tile / across, tile % across, memory.scratch + worker * kBlockScratch,
                     memory.stats[tile]);
    });
    if (!op.slot) return;
    CastTarget target;
    target.slot = op.slot;
    CastParams params;
    params.count = op.count;
    params.dear = op.count && op.dear;
    params.exponents = params.dear && op.exponents;
    params.scale = op.slot->scaleUsed;
    for (int64_t tile = 0; tile < tiles; ++tile) {
        const float scale = memory.stats[tile].smallestScale;
        if (scale > 0 && (params.scale == 0 || scale < params.scale)) params.scale = scale;
        mergeSpanStats(&memory.stats[tile].span, 1, target, params);
    }
}

}  // namespace mantissa::kernels
