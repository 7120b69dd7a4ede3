// The tensor bench's casts on a GPU: the ops that a training step there runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace mantissa::experiments {

/// Thread: the one that calls; the device stays open until that thread ends.
class GpuCasts {
  public:
    /// device: "cuda" or "cuda:N". Throws DeviceUnavailable with the probe's sentence, InvalidConfig for other words.
    explicit GpuCasts(const std::string& device);

    struct Cast {
        std::vector<uint8_t> codes;
        kernels::TensorSlot slot;
    };
    /// One row of F32 values, not rounded first.
    Cast cast(const std::vector<float>& values, kernels::DType format, float scale);
    float currentScale(const std::vector<float>& values, kernels::DType format, bool powerOfTwo, float epsilon);
    /// As kernels::delayedUpdate: `window` with this step's amax in slot 0. Returns whether the tensor counted as run.
    bool delayedUpdate(std::vector<float>& window, kernels::AmaxAlgorithm algorithm, kernels::DType format, int margin,
                       float& scale);
    struct BlockValues {
        std::vector<float> values;    ///< decode(code) * scaleInv of the block; Nvfp4: the tensor's scale apart
        std::vector<uint8_t> codes;   ///< Block128 alone
        std::vector<float> scaleInv;  ///< likewise, of each block, row after row of blocks
        kernels::TensorSlot slot;
        float tensorScale = 1;  ///< Nvfp4
    };
    /// values: (rows, cols); BF16 numbers for Nvfp4, else any.
    BlockValues castBlocks(const kernels::BlockRule& rule, const std::vector<float>& values, int64_t rows, int64_t cols,
                           int64_t blockRows, int64_t blockCols);

  private:
    void castToValues(kernels::BlockQuantize& op, BlockValues& result);
    void castToCodes(kernels::BlockQuantize& op, BlockValues& result);
    kernels::Quantize quantizeOf(const void* in, size_t count, kernels::DType format) const;
    kernels::Backend& backend_;
};

}  // namespace mantissa::experiments
