// Reference of causal attention: plain loops over decoded values with double sums.
#include <cmath>
#include <string>
#include <vector>

#include "kernels/device/reference_access.h"
#include "kernels/error.h"

namespace mantissa::kernels {

namespace {

void checkSizes(int64_t batch, int64_t context, int64_t heads, int64_t headWidth, DType type) {
    const bool width = headWidth == 16 || headWidth == 32 || headWidth == 64 || headWidth == 128;
    if (!width)
        throw Error(ErrorCode::ShapeMismatch,
                    "attention: head width " + std::to_string(headWidth) + " is not 16, 32, 64 or 128");
    if (batch < 0 || context < 0 || heads < 1)
        throw Error(ErrorCode::ShapeMismatch, "attention: batch, context or heads out of range");
    if (type != DType::F32 && type != DType::BF16 && type != DType::F16)
        throw Error(ErrorCode::ShapeMismatch,
                    std::string("attention: type ") + dtypeName(type) + " is not f32, bf16 or fp16");
}

/// One head of one sequence, decoded: (T, D) each of q, k, v.
struct Head {
    int64_t context, width;
    std::vector<double> q, k, v;
};

Head loadHead(const void* qkv, DType type, int64_t context, int64_t heads, int64_t width, int64_t b, int64_t h) {
    Head head{context, width, {}, {}, {}};
    const int64_t channels = heads * width;
    std::vector<double>* parts[3] = {&head.q, &head.k, &head.v};
    for (int part = 0; part < 3; ++part) {
        parts[part]->resize(context * width);
        for (int64_t t = 0; t < context; ++t)
            for (int64_t d = 0; d < width; ++d)
                (*parts[part])[t * width + d] =
                    reference::load(type, qkv, (b * context + t) * 3 * channels + part * channels + h * width + d);
    }
    return head;
}

double dot(const double* a, const double* b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
}

/// Probabilities of row t over columns 0..t; returns log-sum-exp of the scaled scores.
double softmaxRow(const Head& head, int64_t t, std::vector<double>& p) {
    const double scale = 1.0 / std::sqrt(static_cast<double>(head.width));
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j <= t; ++j) {
        p[j] = dot(&head.q[t * head.width], &head.k[j * head.width], head.width) * scale;
        largest = std::isnan(p[j]) ? p[j] : std::fmax(largest, p[j]);
        if (std::isnan(largest)) break;
    }
    for (int64_t j = 0; j <= t; ++j) sum += p[j] = std::exp(p[j] - largest);
    for (int64_t j = 0; j <= t; ++j) p[j] /= sum;
    return largest + std::log(sum);
}

void backwardHead(const AttentionBackward& op, int64_t b, int64_t h) {
    const int64_t T = op.context, D = op.headWidth, C = op.heads * D;
    const double scale = 1.0 / std::sqrt(static_cast<double>(D));
    const Head head = loadHead(op.qkv, op.type, T, op.heads, D, b, h);
    std::vector<double> dq(T * D), dk(T * D), dv(T * D), p(T), dOut(D);
    for (int64_t t = 0; t < T; ++t) {
        softmaxRow(head, t, p);
        double delta = 0;  // sum_d dOut out (arXiv:2205.14135, algorithm 4)
        for (int64_t d = 0; d < D; ++d) {
            const int64_t index = (b * T + t) * C + h * D + d;
            dOut[d] = reference::load(op.type, op.dOut, index);
            delta += dOut[d] * reference::load(op.type, op.out, index);
        }
        for (int64_t j = 0; j <= t; ++j) {
            const double ds = p[j] * (dot(dOut.data(), &head.v[j * D], D) - delta) * scale;
            for (int64_t d = 0; d < D; ++d) {
                dq[t * D + d] += ds * head.k[j * D + d];
                dk[j * D + d] += ds * head.q[t * D + d];
                dv[j * D + d] += p[j] * dOut[d];
            }
        }
    }
    const std::vector<double>* parts[3] = {&dq, &dk, &dv};
    for (int part = 0; part < 3; ++part)
        for (int64_t t = 0; t < T; ++t)
            for (int64_t d = 0; d < D; ++d)
                reference::store(op.type, op.dQkv, (b * T + t) * 3 * C + part * C + h * D + d,
                                 (*parts[part])[t * D + d]);
}

}  // namespace

void checkAttention(const AttentionForward& op) {
    checkSizes(op.batch, op.context, op.heads, op.headWidth, op.type);
}
void checkAttention(const AttentionBackward& op) {
    checkSizes(op.batch, op.context, op.heads, op.headWidth, op.type);
}

void runReference(const AttentionForward& op) {
    checkAttention(op);
    const int64_t T = op.context, D = op.headWidth, C = op.heads * D;
    std::vector<double> p(T);
    for (int64_t b = 0; b < op.batch; ++b) {
        for (int64_t h = 0; h < op.heads; ++h) {
            const Head head = loadHead(op.qkv, op.type, T, op.heads, D, b, h);
            for (int64_t t = 0; t < T; ++t) {
                op.lse[(b * op.heads + h) * T + t] = static_cast<float>(softmaxRow(head, t, p));
                for (int64_t d = 0; d < D; ++d) {
                    double sum = 0;
                    for (int64_t j = 0; j <= t; ++j) sum += p[j] * head.v[j * D + d];
                    reference::store(op.type, op.out, (b * T + t) * C + h * D + d, sum);
                }
            }
        }
    }
    if (op.cast.format != DType::None) runReference(Quantize{op.batch * T, C, op.type, op.out, op.cast});
}

void runReference(const AttentionBackward& op) {
    checkAttention(op);
    for (int64_t b = 0; b < op.batch; ++b)
        for (int64_t h = 0; h < op.heads; ++h) backwardHead(op, b, h);
    const int64_t columns = 3 * op.heads * op.headWidth;
    if (op.cast.format != DType::None)
        runReference(Quantize{op.batch * op.context, columns, op.type, op.dQkv, op.cast});
    if (!op.dBias) return;
    for (int64_t c = 0; c < columns; ++c) {
        double sum = op.accumulate ? op.dBias[c] : 0.0;
        for (int64_t row = 0; row < op.batch * op.context; ++row)
            sum += reference::load(op.type, op.dQkv, row * columns + c);
        op.dBias[c] = static_cast<float>(sum);
    }
}

}  // namespace mantissa::kernels
