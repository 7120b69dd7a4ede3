// Token and position embeddings. Backward is deterministic without sorting on the host: rows are sorted by token on the
// device (stable radix sort), cut into chunks of 32, and each chunk sums its runs of equal tokens; runs that cross a
// chunk's border leave partial sums that are added in order of chunks.
#include <cub/device/device_radix_sort.cuh>

#include "kernels/device/cuda/cast.cuh"
#include "kernels/embedding/embedding.h"

namespace mantissa::kernels::cuda {

namespace {

constexpr int kChunk = 32;

template <class T>
__global__ void embeddingForwardKernel(EmbeddingForward op, bool aligned) {
    const int64_t vectors = (op.cols + kLane - 1) / kLane, total = op.batch * op.context * vectors;
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += stride) {
        const int64_t row = i / vectors, col = i % vectors * kLane;
        const int valid = static_cast<int>(min(int64_t{kLane}, op.cols - col));
        float token[kLane], position[kLane];
        load8(static_cast<const T*>(op.tokenTable) + op.tokens[row] * op.cols + col, valid, aligned, token);
        load8(static_cast<const T*>(op.positionTable) + row % op.context * op.cols + col, valid, aligned, position);
#pragma unroll
        for (int j = 0; j < kLane; ++j) token[j] += position[j];
        store8(static_cast<T*>(op.out) + row * op.cols + col, valid, aligned, token);
    }
}

__global__ void rowIndexKernel(int32_t* rows, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) rows[i] = i;
}

struct Sorted {
    const int32_t* tokens;
    const int32_t* rows;
    int count;
    float* partials;  ///< (chunks, 2, cols): the run that came from before, the run that goes on
};

/// Block: one chunk and a stretch of columns. A run that lies inside the chunk is added to the table at once.
template <class T>
__global__ void chunkSumsKernel(EmbeddingBackward op, Sorted sorted) {
    const int first = blockIdx.x * kChunk, last = min(sorted.count, first + kChunk);
    __shared__ int32_t tokens[kChunk + 2], rows[kChunk];
    if (threadIdx.x < kChunk + 2) {
        const int at = first + static_cast<int>(threadIdx.x) - 1;
        tokens[threadIdx.x] = at >= 0 && at < sorted.count ? sorted.tokens[at] : -1;
        if (at >= first && at < last) rows[at - first] = sorted.rows[at];
    }
    __syncthreads();
    const int64_t col = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
    if (col < op.cols) {
        float sum = 0;
        int start = 0;
        for (int i = 0; i < last - first; ++i) {
            sum += toFloat(static_cast<const T*>(op.dOut)[rows[i] * op.cols + col]);
            const int32_t token = tokens[i + 1];
            const bool chunkEnd = i == last - first - 1;
            if (!chunkEnd && tokens[i + 2] == token) continue;
            const bool fromBefore = start == 0 && tokens[0] == token, goesOn = chunkEnd && tokens[i + 2] == token;
            // A run over the whole chunk that also goes on lies in the first slot; the walk below knows it by its
            // tokens.
            if (fromBefore) {
                sorted.partials[(static_cast<int64_t>(blockIdx.x) * 2) * op.cols + col] = sum;
            } else if (goesOn) {
                sorted.partials[(static_cast<int64_t>(blockIdx.x) * 2 + 1) * op.cols + col] = sum;
            } else {
                op.dTokenTable[static_cast<int64_t>(token) * op.cols + col] += sum;
            }
            sum = 0;
            start = i + 1;
        }
    }
}

/// Block: the run that starts in chunk blockIdx.x and goes on, if there is one; adds its partial sums in order of
/// chunks.
__global__ void crossingRunsKernel(EmbeddingBackward op, Sorted sorted) {
    const int chunk = blockIdx.x, last = min(sorted.count, (chunk + 1) * kChunk) - 1;
    if (last + 1 >= sorted.count) return;
    const int32_t token = sorted.tokens[last];
    if (sorted.tokens[last + 1] != token) return;
    const int first = chunk * kChunk;
    // The whole chunk is the middle of a run that began earlier: another block adds it.
    if (sorted.tokens[first] == token && first > 0 && sorted.tokens[first - 1] == token) return;
    const int64_t col = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
    if (col < op.cols) {
        float sum = sorted.partials[(static_cast<int64_t>(chunk) * 2 + 1) * op.cols + col];
        for (int next = chunk + 1; next * kChunk < sorted.count && sorted.tokens[next * kChunk] == token; ++next) {
            sum += sorted.partials[static_cast<int64_t>(next) * 2 * op.cols + col];
        }
        op.dTokenTable[static_cast<int64_t>(token) * op.cols + col] += sum;
    }
}

template <class T>
__global__ void positionsKernel(EmbeddingBackward op) {
    const int64_t position = blockIdx.x;
    const int64_t col = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
    if (col < op.cols) {
        float sum = 0;
        for (int64_t b = 0; b < op.batch; ++b) {
            sum += toFloat(static_cast<const T*>(op.dOut)[(b * op.context + position) * op.cols + col]);
        }
        float& out = op.dPositionTable[position * op.cols + col];
        out = op.accumulate ? out + sum : sum;
    }
}

int bitsOf(int64_t vocabulary) {
    int bits = 1;
    while ((int64_t{1} << bits) < vocabulary) ++bits;
    return bits;
}

struct Layout {
    size_t indices, sortedTokens, sortedRows, partials, sort, total, sortBytes;
};

Layout layoutOf(const EmbeddingBackward& op) {
    const int count = static_cast<int>(op.batch * op.context);
    Layout layout{};
    cub::DeviceRadixSort::SortPairs(nullptr, layout.sortBytes, static_cast<const int32_t*>(nullptr),
                                    static_cast<int32_t*>(nullptr), static_cast<const int32_t*>(nullptr),
                                    static_cast<int32_t*>(nullptr), count, 0, bitsOf(op.vocabulary));
    const size_t list = roundUp256(static_cast<size_t>(count) * sizeof(int32_t));
    const size_t chunks = static_cast<size_t>((count + kChunk - 1) / kChunk);
    layout.sortedTokens = list;
    layout.sortedRows = 2 * list;
    layout.partials = 3 * list;
    layout.sort = layout.partials + roundUp256(chunks * 2 * static_cast<size_t>(op.cols) * sizeof(float));
    layout.total = layout.sort + roundUp256(layout.sortBytes);
    return layout;
}

int threadsFor(int64_t cols) {
    const int64_t threads = (cols + 31) / 32 * 32;
    return static_cast<int>(threads < 256 ? (threads < 64 ? 64 : threads) : 256);
}

}  // namespace

size_t workspaceBytes(const EmbeddingForward&) {
    return 0;
}
size_t workspaceBytes(const EmbeddingBackward& op) {
    return layoutOf(op).total;
}

void launch(const LaunchContext& context, const EmbeddingForward& op) {
    require(op.batch > 0 && op.context > 0 && op.cols > 0, "embedding forward", "sizes must be positive");
    const bool aligned =
        alignedRows(op.tokenTable, op.cols) && alignedRows(op.positionTable, op.cols) && alignedRows(op.out, op.cols);
    const int64_t blocks = (op.batch * op.context * ((op.cols + kLane - 1) / kLane) + 255) / 256;
    const unsigned grid =
        static_cast<unsigned>(blocks < context.multiprocessors * 16 ? blocks : context.multiprocessors * 16);
    withType(op.type, "embedding forward", [&](auto tag) {
        using T = typename decltype(tag)::Type;
        embeddingForwardKernel<T><<<grid, 256, 0, context.stream>>>(op, aligned);
    });
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

void launch(const LaunchContext& context, const EmbeddingBackward& op) {
    require(op.batch > 0 && op.context > 0 && op.cols > 0, "embedding backward", "sizes must be positive");
    const Layout layout = layoutOf(op);
    char* scratch = static_cast<char*>(context.scratch(layout.total, "embedding backward"));
    const int count = static_cast<int>(op.batch * op.context);
    int32_t* indices = reinterpret_cast<int32_t*>(scratch);
    int32_t* tokens = reinterpret_cast<int32_t*>(scratch + layout.sortedTokens);
    int32_t* rows = reinterpret_cast<int32_t*>(scratch + layout.sortedRows);
    rowIndexKernel<<<(count + 255) / 256, 256, 0, context.stream>>>(indices, count);
    MANTISSA_CUDA_CHECK(cudaGetLastError());
    size_t sortBytes = layout.sortBytes;
    MANTISSA_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(scratch + layout.sort, sortBytes, op.tokens, tokens, indices,
                                                        rows, count, 0, bitsOf(op.vocabulary), context.stream));
    const Sorted sorted{tokens, rows, count, reinterpret_cast<float*>(scratch + layout.partials)};
    const unsigned chunks = static_cast<unsigned>((count + kChunk - 1) / kChunk);
    const int threads = threadsFor(op.cols);
    const unsigned stretches = static_cast<unsigned>((op.cols + threads - 1) / threads);
    withType(op.type, "embedding backward", [&](auto tag) {
        using T = typename decltype(tag)::Type;
        chunkSumsKernel<T><<<dim3(chunks, stretches), threads, 0, context.stream>>>(op, sorted);
        crossingRunsKernel<<<dim3(chunks, stretches), threads, 0, context.stream>>>(op, sorted);
        positionsKernel<T><<<dim3(static_cast<unsigned>(op.context), stretches), threads, 0, context.stream>>>(op);
    });
    MANTISSA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace mantissa::kernels::cuda
