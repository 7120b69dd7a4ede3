// Causal attention of one head of one sequence, 64 queries at a time; blocks of keys behind the last query are skipped.
// Softmax runs on 16 virtual lanes, the products on the matrix product's tiles. Compiled once per instruction set.
#include "kernels/attention/attention_kernels.h"
#include "kernels/device/tile_cast.h"
#include "kernels/simd/math16.h"
#include "kernels/simd/vec16.h"

namespace mantissa::kernels::MANTISSA_ISA {
namespace {

int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/// One head's part of a (rows, ld) tensor: element (t, d) at data + (t * ld + d) elements.
struct HeadMatrix {
    const char* data;
    int64_t ld;
    DType type;
    const void* row(int64_t t) const { return data + t * ld * static_cast<int64_t>(dtypeSize(type)); }
};

template <class Op>
struct HeadView {
    HeadMatrix q, k, v;
    HeadView(const Op& op, const void* qkv, int64_t sequence, int64_t head) {
        const int64_t channels = op.heads * op.headWidth, size = static_cast<int64_t>(dtypeSize(op.type));
        const char* base =
            static_cast<const char*>(qkv) + (sequence * op.context * 3 * channels + head * op.headWidth) * size;
        q = {base, 3 * channels, op.type};
        k = {base + channels * size, 3 * channels, op.type};
        v = {base + 2 * channels * size, 3 * channels, op.type};
    }
};

template <class Op>
HeadMatrix outView(const Op& op, const void* out, int64_t sequence, int64_t head) {
    const int64_t channels = op.heads * op.headWidth, size = static_cast<int64_t>(dtypeSize(op.type));
    return {static_cast<const char*>(out) + (sequence * op.context * channels + head * op.headWidth) * size, channels,
            op.type};
}

/// rows x k, k contiguous: element (r, i) is (t, d) = (first + r, i).
PackSource along(const HeadMatrix& m, int64_t rows, int64_t k) {
    return {m.data, m.type, true, false, m.ld, rows, k};
}
/// rows x k, k strided: element (r, i) is (t, d) = (i, r).
PackSource across(const HeadMatrix& m, int64_t rows, int64_t k) {
    return {m.data, m.type, false, false, m.ld, rows, k};
}

/// A product with B packed into `packed`; the caller sets A and the output.
MatmulJob pack(const PackSource& b, float* packed) {
    MatmulJob job;
    job.b = b;
    job.form = packedFormOf(b.type, matmulKernels.usesBf16());
    job.units = job.panelUnits = unitsOf(job.form, b.k);
    job.packedB = packed;
    job.columns = b.rows;
    matmulKernels.packB(job, 0, (b.rows + matmulKernels.nr - 1) / matmulKernels.nr, 0, job.units);
    return job;
}

/// Keys as k of a product with probabilities: whole pairs where BF16 is multiplied in pairs.
template <class T>
int64_t keysPadded(int64_t keys) {
    return __is_same(T, Bf16) ? (keys + 1) / 2 * 2 : keys;
}

constexpr int64_t kCausalRows = 32;  // rows of a product whose causal limit is taken together; no effect on results

/// out (rows, columns) = scale A B^T.
void multiply(MatmulJob job, const PackSource& a, int64_t columns, float scale, float* out, int64_t ldOut,
              bool accumulate, float* scratch) {
    job.a = a;
    job.units = unitsOf(job.form, a.k);
    job.columns = columns;
    job.scaleInvA = scale;
    job.out = out, job.outType = DType::F32, job.ldOut = ldOut;
    job.accumulate = accumulate;
    for (int64_t row = 0; row < a.rows; row += kAttentionRows)
        matmulKernels.tile(job, row, smaller(kAttentionRows, a.rows - row), 0, columns, scratch);
}

/// Scores of queries firstQuery + r against the keys up to their own block: out (rows, ldOut) = scale A B^T.
void multiplyToKeys(MatmulJob job, const PackSource& a, int64_t firstQuery, float scale, float* out, int64_t ldOut,
                    float* scratch) {
    job.a = a;
    job.scaleInvA = scale;
    job.out = out, job.ldOut = ldOut;
    const int64_t keys = firstQuery + a.rows;
    for (int64_t row = 0; row < a.rows; row += kCausalRows) {
        const int64_t rows = smaller(kCausalRows, a.rows - row), columns = smaller(keys, firstQuery + row + rows);
        job.columns = columns;
        matmulKernels.tile(job, row, rows, 0, columns, scratch);
    }
}

/// Sums over keys: out (rows, width) of the op's type, A = probabilities or dS, zero behind each query.
template <class T>
void multiplyOverKeys(MatmulJob job, PackSource a, int64_t firstQuery, const HeadMatrix& out, float* scratch) {
    job.out = const_cast<void*>(out.row(firstQuery)), job.outType = out.type, job.ldOut = out.ld;
    for (int64_t row = 0; row < a.rows; row += kCausalRows) {
        const int64_t rows = smaller(kCausalRows, a.rows - row);
        job.a = a;
        job.a.k = keysPadded<T>(firstQuery + row + rows);
        job.units = unitsOf(job.form, job.a.k);
        matmulKernels.tile(job, row, rows, 0, job.columns, scratch);
    }
}

// Rows of scores are whole steps of 16 lanes long (scoreLd), so loops over the n keys of a query take whole steps and
// mask the last one; what lies behind n in a step is whatever the product left there.

/// body(column, lanes that count: 16, or fewer in the last step).
template <class F>
MANTISSA_SIMD_INLINE void eachStep(int64_t n, F body) {
    int64_t c = 0;
    for (; c + 16 <= n; c += 16) body(c, Full{});
    if (c < n) body(c, Part{n - c});
}

/// Exact zeros from the last whole step of n up to `padded`: keys that a query does not see.
template <class T>
MANTISSA_SIMD_INLINE void clearBehind(T* row, int64_t n, int64_t padded) {
    for (int64_t c = (n + 15) / 16 * 16; c < padded; c += 16) store16(row + c, splat(0));
}

struct RowTotal {
    float largest, sum;  ///< of the scores; of exp(score - largest)
};

/// scores (n) -> probabilities (padded) of T. T = float may be the same memory. The sum adds even and odd steps apart.
template <class T>
RowTotal softmaxRow(float* scores, int64_t n, int64_t padded, T* probabilities) {
    const V16 lowest = splat(-__builtin_inff());
    V16 most = lowest;
    eachStep(
        n, [&](int64_t c, auto part)
               __attribute__((always_inline)) { most = max(most, keepOr(load16(scores + c), lowest, part)); });
    const float largest = maxLanes(most);
    const V16 shift = splat(largest);
    V16 sums[2] = {splat(0), splat(0)};
    eachStep(
        n, [&](int64_t c, auto part) __attribute__((always_inline)) {
            const V16 e = keep(expFlush16(load16(scores + c) - shift), part);
            store16(scores + c, e);
            sums[0] = sums[0] + e;
            const V16 other = sums[0];
            sums[0] = sums[1];
            sums[1] = other;
        });
    // Which of the two holds the even steps depends on their number; the sum of both does not.
    const float sum = sumLanes(sums[0] + sums[1]);
    const V16 inverse = splat(1.0f / sum);
    for (int64_t c = 0; c < n; c += 16) store16(probabilities + c, load16(scores + c) * inverse);
    clearBehind(probabilities, n, padded);
    return {largest, sum};
}

template <class T>
void softmaxBlock(const AttentionScratch& scratch, int64_t firstQuery, int64_t rows, int64_t padded, float* lse) {
    float largest[kAttentionRows], sums[kAttentionRows];
    for (int64_t r = 0; r < rows; ++r) {
        T* out = static_cast<T*>(scratch.probabilities) + r * scratch.scoreLd;
        const RowTotal total = softmaxRow(scratch.scores + r * scratch.scoreLd, firstQuery + r + 1, padded, out);
        largest[r] = total.largest, sums[r] = total.sum;
    }
    // A loop of its own: the compiler runs several rows' logarithms at once.
    for (int64_t r = 0; r < rows; ++r)
        lse[firstQuery + r] = static_cast<float>(logarithm(sums[r]) + static_cast<double>(largest[r]));
}

template <class T>
void forwardHead(const AttentionForward& op, int64_t sequence, int64_t head, const AttentionScratch& scratch) {
    const int64_t context = op.context, width = op.headWidth;
    const HeadView<AttentionForward> in(op, op.qkv, sequence, head);
    const HeadMatrix out = outView(op, op.out, sequence, head);
    const MatmulJob scoreJob = pack(along(in.k, context, width), scratch.keysByWidth);
    const MatmulJob outJob = pack(across(in.v, width, context), scratch.valuesByKeys);
    const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(width));
    float* lse = op.lse + (sequence * op.heads + head) * context;
    for (int64_t first = 0; first < context; first += kAttentionRows) {
        const int64_t rows = smaller(kAttentionRows, context - first), keys = first + rows,
                      padded = keysPadded<T>(keys);
        HeadMatrix q = in.q;
        q.data = static_cast<const char*>(in.q.row(first));
        multiplyToKeys(scoreJob, along(q, rows, width), first, scale, scratch.scores, scratch.scoreLd, scratch.product);
        softmaxBlock<T>(scratch, first, rows, padded, lse);
        const PackSource p{scratch.probabilities, op.type, true, false, scratch.scoreLd, rows, padded};
        multiplyOverKeys<T>(outJob, p, first, out, scratch.product);
    }
}

/// scores -> P, dScores (dP) -> dS = P (dP - delta) scale, both also in T, zeros behind each query.
template <class T>
void backwardRows(const AttentionScratch& scratch, int64_t firstQuery, int64_t rows, int64_t padded, const float* lse,
                  float scale) {
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = r * scratch.scoreLd, n = firstQuery + r + 1;
        const float* scores = scratch.scores + at;
        const float* dP = scratch.dScores + at;
        T* p = static_cast<T*>(scratch.probabilities) + at;
        T* dS = static_cast<T*>(scratch.dScoresOut) + at;
        const V16 shift = splat(lse[firstQuery + r]), delta = splat(scratch.delta[r]), factor = splat(scale);
        eachStep(
            n, [&](int64_t c, auto part) __attribute__((always_inline)) {
                const V16 probability = expFlush16(load16(scores + c) - shift);
                const V16 gradient = probability * (load16(dP + c) - delta) * factor;
                store16(p + c, keep(probability, part));
                store16(dS + c, keep(gradient, part));
            });
        clearBehind(p, n, padded);
        clearBehind(dS, n, padded);
    }
}

template <class T>
void deltaRows(const HeadMatrix& dOut, const HeadMatrix& out, int64_t first, int64_t rows, int64_t width,
               float* delta) {
    for (int64_t r = 0; r < rows; ++r) {
        const T* a = static_cast<const T*>(dOut.row(first + r));
        const T* b = static_cast<const T*>(out.row(first + r));
        delta[r] = sumRow(
            width, [&](V16 s, int64_t c, auto part)
                       __attribute__((always_inline)) { return fma(load(a + c, part), load(b + c, part), s); });
    }
}

template <class T>
void storeSums(const float* sums, int64_t rows, int64_t width, const HeadMatrix& to) {
    for (int64_t t = 0; t < rows; ++t) {
        T* out = static_cast<T*>(const_cast<void*>(to.row(t)));
        forEach16(
            width, [&](int64_t c, auto part)
                       __attribute__((always_inline)) { store(out + c, load(sums + t * width + c, part), part); });
    }
}

template <class T>
void backwardHead(const AttentionBackward& op, int64_t sequence, int64_t head, const AttentionScratch& scratch) {
    const int64_t context = op.context, width = op.headWidth;
    const HeadView<AttentionBackward> in(op, op.qkv, sequence, head), gradient(op, op.dQkv, sequence, head);
    const HeadMatrix out = outView(op, op.out, sequence, head), dOut = outView(op, op.dOut, sequence, head);
    const MatmulJob scoreJob = pack(along(in.k, context, width), scratch.keysByWidth);
    const MatmulJob dScoreJob = pack(along(in.v, context, width), scratch.valuesByWidth);
    const MatmulJob dQueryJob = pack(across(in.k, width, context), scratch.keysByKeys);
    const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(width));
    const float* lse = op.lse + (sequence * op.heads + head) * context;
    __builtin_memset(scratch.dKeys, 0, static_cast<size_t>(context * width) * 4);
    __builtin_memset(scratch.dValues, 0, static_cast<size_t>(context * width) * 4);
    for (int64_t first = 0; first < context; first += kAttentionRows) {
        const int64_t rows = smaller(kAttentionRows, context - first), keys = first + rows,
                      padded = keysPadded<T>(keys);
        HeadMatrix q = in.q, d = dOut;
        q.data = static_cast<const char*>(in.q.row(first));
        d.data = static_cast<const char*>(dOut.row(first));
        multiplyToKeys(scoreJob, along(q, rows, width), first, scale, scratch.scores, scratch.scoreLd, scratch.product);
        multiplyToKeys(dScoreJob, along(d, rows, width), first, 1, scratch.dScores, scratch.scoreLd, scratch.product);
        deltaRows<T>(dOut, out, first, rows, width, scratch.delta);
        backwardRows<T>(scratch, first, rows, padded, lse, scale);
        const PackSource dS{scratch.dScoresOut, op.type, true, false, scratch.scoreLd, rows, padded};
        multiplyOverKeys<T>(dQueryJob, dS, first, gradient.q, scratch.product);
        const PackSource pAcross{scratch.probabilities, op.type, false, false, scratch.scoreLd, keys, rows};
        multiply(pack(across(d, width, rows), scratch.block), pAcross, width, 1, scratch.dValues, width, true,
                 scratch.product);
        const PackSource dSAcross{scratch.dScoresOut, op.type, false, false, scratch.scoreLd, keys, rows};
        multiply(pack(across(q, width, rows), scratch.block), dSAcross, width, 1, scratch.dKeys, width, true,
                 scratch.product);
    }
    storeSums<T>(scratch.dKeys, context, width, gradient.k);
    storeSums<T>(scratch.dValues, context, width, gradient.v);
}

void forward(const AttentionForward& op, int64_t sequence, int64_t head, const AttentionScratch& scratch) {
    if (op.type == DType::BF16) return forwardHead<Bf16>(op, sequence, head, scratch);
    if (op.type == DType::F16) return forwardHead<F16>(op, sequence, head, scratch);
    forwardHead<float>(op, sequence, head, scratch);
}

void backward(const AttentionBackward& op, int64_t sequence, int64_t head, const AttentionScratch& scratch) {
    if (op.type == DType::BF16) return backwardHead<Bf16>(op, sequence, head, scratch);
    if (op.type == DType::F16) return backwardHead<F16>(op, sequence, head, scratch);
    backwardHead<float>(op, sequence, head, scratch);
}

template <class T>
void finishRows(const T* values, int64_t cols, int64_t firstRow, int64_t lastRow, float* sums, const TileCast& cast) {
    const int64_t span = spanRows(cols);
    if (sums) __builtin_memset(sums, 0, static_cast<size_t>(cols) * 4);
    for (int64_t first = firstRow; first < lastRow; first += span) {
        const int64_t rows = smaller(span, lastRow - first);
        if (cast.params) castTile(values + first * cols, rows * cols, first * cols, cast);
        for (int64_t row = first; sums && row < first + rows; ++row)
            forEach16(
                cols, [&](int64_t c, auto part) __attribute__((always_inline)) {
                    store(sums + c, load(sums + c, part) + load(values + row * cols + c, part), part);
                });
    }
}

void finish(DType type, const void* values, int64_t cols, int64_t firstRow, int64_t lastRow, float* sums,
            const TileCast& cast) {
    if (type == DType::BF16) return finishRows(static_cast<const Bf16*>(values), cols, firstRow, lastRow, sums, cast);
    if (type == DType::F16) return finishRows(static_cast<const F16*>(values), cols, firstRow, lastRow, sums, cast);
    finishRows(static_cast<const float*>(values), cols, firstRow, lastRow, sums, cast);
}

}  // namespace

const AttentionKernels attentionKernels = {forward, backward, finish};

}  // namespace mantissa::kernels::MANTISSA_ISA
