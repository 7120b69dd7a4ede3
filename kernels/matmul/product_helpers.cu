// Small kernels around the library's products: decoding of codes for emulated FP8, factors in device memory, biases
// that no epilogue takes.
#include "kernels/device/cuda/cast.cuh"

namespace mantissa::kernels::cuda {

namespace {

__global__ void decodeKernel(const uint8_t* codes, int format, int64_t count, Bf16* out) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
        out[i] = __float2bfloat16_rn(decode(format, codes[i]));
    }
}

__global__ void productFactorsKernel(const float* scaleA, const float* scaleB, float beta, float* factors) {
    factors[0] = (scaleA ? *scaleA : 1.0f) * (scaleB ? *scaleB : 1.0f);
    factors[1] = beta;
}

template <class Out, class Bias>
__global__ void addBiasKernel(Out* out, int64_t rows, int64_t cols, int64_t ld, const Bias* bias) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * cols; i += stride) {
        Out& element = out[i / cols * ld + i % cols];
        element = fromFloat<Out>(toFloat(element) + toFloat(bias[i % cols]));
    }
}

constexpr int kTransposeTile = 64;

/// Block (64, 4): a tile of 64 x 64 codes through shared memory.
__global__ void transposeKernel(const uint8_t* codes, int64_t rows, int64_t cols, int64_t ld, uint8_t* out) {
    __shared__ uint8_t tile[kTransposeTile][kTransposeTile + 4];
    const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kTransposeTile,
                  col0 = static_cast<int64_t>(blockIdx.x) * kTransposeTile;
    for (int i = threadIdx.y; i < kTransposeTile; i += blockDim.y) {
        if (row0 + i < rows && col0 + threadIdx.x < cols)
            tile[i][threadIdx.x] = codes[(row0 + i) * ld + col0 + threadIdx.x];
    }
    __syncthreads();
    for (int i = threadIdx.y; i < kTransposeTile; i += blockDim.y) {
        if (col0 + i < cols && row0 + threadIdx.x < rows)
            out[(col0 + i) * rows + row0 + threadIdx.x] = tile[threadIdx.x][i];
    }
}

constexpr int kTransposeThreads = 128;

/// Block: 32 whole rows of 1024 codes, 8 a thread, all of them in flight at once; they leave as runs of 32.
__global__ void __launch_bounds__(kTransposeThreads)
    transposeTilesKernel(const uint8_t* codes, int64_t ld, CastParams to) {
    extern __shared__ uint32_t stage[];
    const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kTileRows;
    const int64_t blockCol = static_cast<int64_t>(blockIdx.x) * blockDim.x * kLane;
    const int64_t col = blockCol + threadIdx.x * kLane;
    uint2 rows[kTileRows / 4][4] = {};
    if (col < to.cols) {
#pragma unroll
        for (int i = 0; i < kTileRows; ++i)
            rows[i / 4][i % 4] = *reinterpret_cast<const uint2*>(codes + (row0 + i) * ld + col);
    }
#pragma unroll
    for (int group = 0; group < kTileRows / 4; ++group) stageFourRows(stage, group, rows[group]);
    writeStage<kTileRows, true>(to, stage, row0, blockCol);
}

unsigned blocksFor(const LaunchContext& context, int64_t count) {
    const int64_t wanted = (count + 255) / 256, most = static_cast<int64_t>(context.multiprocessors) * 16;
    return static_cast<unsigned>(wanted < most ? wanted : most);
}

}  // namespace

void decodeToBf16(const LaunchContext& context, const uint8_t* codes, DType format, int64_t count, void* out) {
    decodeKernel<<<blocksFor(context, count), 256, 0, context.stream>>>(codes, format == DType::E4M3 ? 1 : 2, count,
                                                                        static_cast<Bf16*>(out));
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

void transposeCodes(const LaunchContext& context, const uint8_t* codes, int64_t rows, int64_t cols, int64_t ld,
                    void* out) {
    const auto aligned = [](const void* pointer, uintptr_t bytes) {
        return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
    };
    if (rows % kTileRows == 0 && cols % kLane == 0 && ld % kLane == 0 && aligned(codes, 8) && aligned(out, 16)) {
        CastParams to;
        to.codesTransposed = static_cast<uint8_t*>(out);
        to.rows = rows, to.cols = cols;
        const int threads = columnThreads(cols, kTransposeThreads);
        const dim3 grid(static_cast<unsigned>((cols + threads * kLane - 1) / (threads * kLane)),
                        static_cast<unsigned>(rows / kTileRows));
        const size_t bytes = stageWords(threads) * sizeof(uint32_t);
        transposeTilesKernel<<<grid, threads, bytes, context.stream>>>(codes, ld, to);
        MANTISSA_CUDA_CHECK(cudaGetLastError());
        return;
    }
    const dim3 grid(static_cast<unsigned>((cols + kTransposeTile - 1) / kTransposeTile),
                    static_cast<unsigned>((rows + kTransposeTile - 1) / kTransposeTile));
    transposeKernel<<<grid, dim3(kTransposeTile, 4), 0, context.stream>>>(codes, rows, cols, ld,
                                                                          static_cast<uint8_t*>(out));
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

void productFactors(const LaunchContext& context, const float* scaleA, const float* scaleB, float beta,
                    float* factors) {
    productFactorsKernel<<<1, 1, 0, context.stream>>>(scaleA, scaleB, beta, factors);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

void emptyProduct(const LaunchContext& context, void* out, DType outType, int64_t rows, int64_t cols, int64_t ld,
                  const void* bias, DType biasType, bool accumulate) {
    if (!accumulate) {
        const size_t element = dtypeSize(outType);
        MANTISSA_CUDA_CHECK(cudaMemset2DAsync(out, static_cast<size_t>(ld) * element, 0,
                                              static_cast<size_t>(cols) * element, static_cast<size_t>(rows),
                                              context.stream));
    }
    if (bias) addBias(context, out, outType, rows, cols, ld, bias, biasType);
}

void addBias(const LaunchContext& context, void* out, DType outType, int64_t rows, int64_t cols, int64_t ld,
             const void* bias, DType biasType) {
    const unsigned blocks = blocksFor(context, rows * cols);
    withType(outType, "matmul", [&](auto outTag) {
        withType(biasType, "matmul", [&](auto biasTag) {
            using Out = typename decltype(outTag)::Type;
            using Bias = typename decltype(biasTag)::Type;
            addBiasKernel<<<blocks, 256, 0, context.stream>>>(static_cast<Out*>(out), rows, cols, ld,
                                                              static_cast<const Bias*>(bias));
        });
    });
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace mantissa::kernels::cuda
