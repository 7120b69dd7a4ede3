// How the backend reaches the kernels: one launch() and one workspaceBytes() per op, defined in the op's .cu file.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/backend.h"

namespace mantissa::kernels::cuda {

/// Small constant tables in device memory, made once for each content and kept as long as the backend (recorded graphs
/// point at them).
class DeviceTables {
  public:
    virtual ~DeviceTables() = default;
    virtual const void* table(const void* host, size_t bytes) const = 0;
};

/// What a launch needs beside the op. Thread: the backend's.
struct LaunchContext {
    cudaStream_t stream = nullptr;
    void* workspace = nullptr;  ///< bound scratch memory; used by one op at a time
    size_t workspaceBytes = 0;
    int multiprocessors = 0;
    int sharedMemoryPerBlock = 0;  ///< bytes a block may opt in to
    const DeviceTables* tables = nullptr;

    /// The scratch memory, after checking that `bytes` are bound. Throws ShapeMismatch (programmer error).
    void* scratch(size_t bytes, const char* op) const;
};

#define MANTISSA_DECLARE_LAUNCH(Op, phase)                   \
    void launch(const LaunchContext& context, const Op& op); \
    size_t workspaceBytes(const Op& op);
MANTISSA_OPS(MANTISSA_DECLARE_LAUNCH)
#undef MANTISSA_DECLARE_LAUNCH

/// out (count) BF16 = the codes' values, exact. For products that run emulated.
void decodeToBf16(const LaunchContext& context, const uint8_t* codes, DType format, int64_t count, void* out);
/// out (cols, rows) = the transpose of codes (rows, cols) with leading dimension ld.
void transposeCodes(const LaunchContext& context, const uint8_t* codes, int64_t rows, int64_t cols, int64_t ld,
                    void* out);
/// out (rows, cols) of `outType` with leading dimension ld += bias (cols) of `biasType`; for products whose epilogue
/// cannot.
void addBias(const LaunchContext& context, void* out, DType outType, int64_t rows, int64_t cols, int64_t ld,
             const void* bias, DType biasType);
/// The product over no k: out = bias (or 0), += when accumulate.
void emptyProduct(const LaunchContext& context, void* out, DType outType, int64_t rows, int64_t cols, int64_t ld,
                  const void* bias, DType biasType, bool accumulate);
/// factors (2 floats): *scaleA * *scaleB (nullptr counts as 1), beta. For products that take alpha and beta from device
/// memory.
void productFactors(const LaunchContext& context, const float* scaleA, const float* scaleB, float beta, float* factors);

/// Throws ShapeMismatch with "op: what" unless ok.
void require(bool ok, const char* op, const char* what);

}  // namespace mantissa::kernels::cuda
