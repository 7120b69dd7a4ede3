// One stage of the norm over a tile of rows: the arithmetic of norm_cpu.cpp, in its order, with every value in between
// written to memory as F32.
#include "kernels/norm/norm_passes_cpu.h"

#include "kernels/simd/vec16.h"

namespace mantissa::kernels::MANTISSA_ISA {
namespace {

/// The pointers of a stage at one row.
template <class T>
struct Row {
    const T *in, *in2, *gain, *bias;
    const float *work, *work2;
    T* out;
    float* workOut;

    Row(const NormPass& op, int64_t row)
        : in(at(static_cast<const T*>(op.in), row * op.cols)),
          in2(at(static_cast<const T*>(op.in2), row * op.cols)),
          gain(static_cast<const T*>(op.gain)),
          bias(static_cast<const T*>(op.bias)),
          work(at(op.work, row * op.cols)),
          work2(at(op.work2, row * op.cols)),
          out(at(static_cast<T*>(op.out), row * op.cols)),
          workOut(at(op.workOut, row * op.cols)) {}

  private:
    template <class P>
    static P* at(P* base, int64_t offset) {
        return base ? base + offset : nullptr;
    }
};

template <class T>
float rowSum(const NormPass& op, const Row<T>& r) {
    V16 sum = splat(0);
    switch (op.stage) {
        case NormStage::Mean:
            return sumRow(
                op.cols, [&](V16 s, int64_t c, auto part)
                             __attribute__((always_inline)) { return s + load(r.in + c, part); });
        case NormStage::Rstd:
            return sumRow(
                op.cols, [&](V16 s, int64_t c, auto part) __attribute__((always_inline)) {
                    const V16 d = load(r.work + c, part);
                    return fma(d, d, s);
                });
        case NormStage::WorkDot:
            forEach16(
                op.cols, [&](int64_t c, auto part) __attribute__((always_inline)) {
                    sum = fma(load(r.work + c, part), load(r.work2 + c, part), sum);
                });
            return sumLanes(sum);
        default:
            forEach16(
                op.cols, [&](int64_t c, auto part)
                             __attribute__((always_inline)) { sum = sum + load(r.work + c, part); });
            return sumLanes(sum);
    }
}

template <class T>
void columnRow(const NormPass& op, const Row<T>& r, float* sums) {
    const bool dot = op.stage == NormStage::ColumnDot;
    forEach16(
        op.cols, [&](int64_t c, auto part) __attribute__((always_inline)) {
            const V16 x = load(r.in + c, part), sum = load(sums + c, part);
            store(sums + c, dot ? fma(x, load(r.work + c, part), sum) : sum + x, part);
        });
}

/// A stage that works element by element, at one row; `row` is the row's value of rowIn.
template <class T>
void elementRow(const NormPass& op, const Row<T>& r, float rowValue) {
    const V16 k = splat(rowValue);
    forEach16(
        op.cols, [&](int64_t c, auto part) __attribute__((always_inline)) {
            switch (op.stage) {
                case NormStage::AddResidual:
                    return store(r.out + c, load(r.in + c, part) + load(r.in2 + c, part), part);
                case NormStage::Center:
                    return store(r.workOut + c, load(r.in + c, part) - k, part);
                case NormStage::Scale:
                    return store(r.workOut + c, load(r.work + c, part) * k, part);
                case NormStage::GainBias:
                    return store(
                        r.out + c,
                        fma(load(r.work + c, part), load(r.gain + c, part), r.bias ? load(r.bias + c, part) : splat(0)),
                        part);
                case NormStage::TimesGain:
                    return store(r.workOut + c, load(r.in + c, part) * load(r.gain + c, part), part);
                case NormStage::Shift:
                    return store(r.workOut + c, load(r.work + c, part) - k, part);
                case NormStage::SubtractDot:
                    return store(r.workOut + c, fma(-load(r.work2 + c, part), k, load(r.work + c, part)), part);
                default:
                    return store(r.out + c, fma(load(r.work + c, part), k, r.in ? load(r.in + c, part) : splat(0)),
                                 part);
            }
        });
}

template <class T>
void runRows(const NormPass& op, int64_t firstRow, int64_t lastRow, float* columnSums) {
    const float columns = static_cast<float>(op.cols);
    for (int64_t row = firstRow; row < lastRow; ++row) {
        const Row<T> r(op, row);
        switch (op.stage) {
            case NormStage::Rstd:
                op.rowOut[row] = 1.0f / __builtin_sqrtf(rowSum(op, r) / columns + op.eps);
                break;
            case NormStage::Mean:
            case NormStage::WorkMean:
            case NormStage::WorkDot:
                op.rowOut[row] = rowSum(op, r) / columns;
                break;
            case NormStage::ColumnDot:
            case NormStage::ColumnSum:
                columnRow(op, r, columnSums);
                break;
            default:
                elementRow(op, r, op.rowIn ? op.rowIn[row] : 0.0f);
        }
    }
}

void run(const NormPass& op, int64_t firstRow, int64_t lastRow, float* columnSums) {
    switch (op.type) {
        case DType::BF16:
            return runRows<Bf16>(op, firstRow, lastRow, columnSums);
        case DType::F16:
            return runRows<F16>(op, firstRow, lastRow, columnSums);
        default:
            return runRows<float>(op, firstRow, lastRow, columnSums);
    }
}

}  // namespace

const NormPassKernels normPassKernels = {run};

}  // namespace mantissa::kernels::MANTISSA_ISA
