// What the host entries of the CPU ops share: argument checks, the layout of the workspace, the cast of a fused op.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/device/cpu_ops.h"
#include "kernels/device/row_tiles.h"

namespace mantissa::kernels {

/// Throws ShapeMismatch with `sentence` when the condition does not hold.
inline void require(bool condition, const char* sentence) {
    if (!condition) throw Error(ErrorCode::ShapeMismatch, sentence);
}
inline bool isFloatType(DType type) {
    return type == DType::F32 || type == DType::BF16 || type == DType::F16;
}

/// Hands out pieces of a workspace at 64-byte steps; from nullptr it only counts.
class WorkspaceCursor {
  public:
    explicit WorkspaceCursor(void* base) : base_(static_cast<char*>(base)) {}
    template <class T>
    T* take(int64_t count) {
        T* piece = base_ ? reinterpret_cast<T*>(base_ + used_) : nullptr;
        used_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
        return piece;
    }
    size_t bytes() const { return used_; }

  private:
    char* base_;
    size_t used_ = 0;
};

/// The cast of an op over rows: parameters made once, statistics a tile, scratch rows a worker. Merges into the slot at
/// finish().
class RowCast {
  public:
    /// Takes its pieces from the cursor (also when it only counts; then nothing else of the object may be used).
    RowCast(const CastTarget& target, int64_t rows, int64_t cols, int workers, WorkspaceCursor& cursor)
        : target_(target) {
        if (target.format == DType::None) return;
        scratchFloats_ = 2 * spanRows(cols) * cols;
        tiles_ = rowTiles(rows);
        stats_ = cursor.take<SpanStats>(tiles_);
        scratch_ = cursor.take<float>(scratchFloats_ * workers);
        if (stats_) params_ = makeCastParams(target);
    }
    /// The tile's own cast, its statistics cleared.
    TileCast tile(int64_t index, int worker) {
        if (!stats_) return {};
        resetSpanStats(stats_ + index, 1);
        return {&params_, target_.amaxOnly ? nullptr : target_.codes, stats_ + index,
                scratch_ + worker * scratchFloats_};
    }
    void finish() {
        if (stats_) mergeSpanStats(stats_, tiles_, target_, params_);
    }

  private:
    CastTarget target_;
    CastParams params_;
    SpanStats* stats_ = nullptr;
    float* scratch_ = nullptr;
    int64_t scratchFloats_ = 0, tiles_ = 0;
};

/// Throws unless the CPU can do this cast at the end of an op on tensors of `type`.
inline void requireCast(const CastTarget& cast, DType type) {
    if (cast.format == DType::None) return;
    require(isFp8(cast.format), "cast: the format is not E4M3 or E5M2");
    require(type != DType::F16, "cast: FP16 tensors have no FP8 copy");
    require(!cast.codesTransposed, "cast: the CPU keeps no transposed codes");
}

/// For each of `count` sums s: out[s][c] = (accumulate ? out[s][c] : 0) + sum over blocks of partials[(block * count +
/// s) * cols + c], in double, blocks ascending; nothing where out[s] is nullptr. A region of its own only where it is
/// worth one.
void sumColumnBlocks(const CpuContext& context, const float* partials, int64_t blocks, int64_t cols, float* const* out,
                     int count, bool accumulate);

}  // namespace mantissa::kernels
