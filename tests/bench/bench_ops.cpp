// Every op of a training step under FP8 delayed on one device, at the sizes of a configuration: microseconds, GB/s or
// TFLOP/s, and the share of what the device does at best (a copy; a large product of the same type). Bytes: each input
// read once, each output written once. Causal attention counts half the square.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "bench.h"
#include "engine/plan/device_memory.h"
#include "kernels/backend.h"

namespace mantissa::bench {

namespace {

using namespace kernels;
using engine::DeviceMemory;

/// One op that can be run again and again.
struct Row {
    std::string name;
    std::function<void()> run;
    double bytes = 0, flops = 0;  ///< one of them
    bool fp8 = false;             ///< compared with the FP8 product
};

class OpsBench {
  public:
    OpsBench(Backend& backend, const Configuration& configuration)
        : backend_(backend), model_(configuration.model), batch_(configuration.batch) {
        rows_ = int64_t{batch_} * model_.context, width_ = model_.width, ffn_ = model_.ffn;
        vocabulary_ = (int64_t{model_.vocabulary} + 63) / 64 * 64;
        chunk_ = std::min<int64_t>(rows_, 8192);
        const int64_t wide = std::max({rows_ * ffn_, 3 * rows_ * width_, chunk_ * vocabulary_});
        for (auto& buffer : wide_) buffer = random(wide);
        for (auto& buffer : codes_) buffer = random(wide / 2);
        weights_ = random(std::max(vocabulary_ * width_, ffn_ * width_));
        parameters_ = random(ffn_ * width_ * 8);  // four arrays of F32
        gradient_ =
            DeviceMemory(backend_, static_cast<size_t>(std::max(vocabulary_ * width_, ffn_ * width_)) * sizeof(float));
        statistics_ = DeviceMemory(backend_, static_cast<size_t>(rows_) * 4 * sizeof(float) + 65536);
        lse_ = DeviceMemory(backend_, static_cast<size_t>(rows_ * model_.heads) * sizeof(float));
        bias_ = DeviceMemory(backend_, static_cast<size_t>(4 * std::max(3 * width_, ffn_)) * sizeof(float));
        slots_ = DeviceMemory(backend_, 2 * sizeof(TensorSlot));
        const ScaleEntry one;
        scale_ = DeviceMemory(backend_, sizeof(one));
        backend_.upload(scale_.data(), &one, sizeof(one));
        StepState state;
        state.applied = 1, state.beta1Power = 0.9, state.beta2Power = 0.95;
        state_ = DeviceMemory(backend_, sizeof(state) + 256 + sizeof(StepParameters));
        backend_.upload(state_.data(), &state, sizeof(state));
        addNorm(), addActivation(), addAttention(), addLossAndOptimizer(), addProducts();
        workspace_ = DeviceMemory(backend_, workspaceBytes_);
        backend_.bindWorkspace(workspace_.data(), workspaceBytes_);
    }
    const std::vector<Row>& rows() const { return rowsToRun_; }

  private:
    /// BF16 values between 0.5 and 1 of either sign; each byte of them is a finite FP8 code as well.
    DeviceMemory random(int64_t elements) {
        DeviceMemory memory(backend_, static_cast<size_t>(elements) * sizeof(uint16_t));
        std::mt19937 numbers(7);
        std::vector<uint16_t> block(1 << 20);
        for (uint16_t& value : block)
            value = static_cast<uint16_t>((numbers() & 0x8000u) | 0x3F00u | (numbers() % 0x78u));
        for (size_t at = 0; at < memory.bytes(); at += block.size() * 2)
            backend_.upload(static_cast<char*>(memory.data()) + at, block.data(),
                            std::min(block.size() * 2, memory.bytes() - at));
        backend_.synchronize();
        return memory;
    }
    template <class Op>
    void add(const std::string& name, const Op& op, double bytes, double flops = 0, bool fp8 = false) {
        workspaceBytes_ = std::max(workspaceBytes_, backend_.workspace(op));
        rowsToRun_.push_back({name, [this, op] { backend_.run(op); }, bytes, flops, fp8});
    }
    float* statistic(int i) { return static_cast<float*>(statistics_.data()) + i * rows_; }
    float* bias(int i) { return static_cast<float*>(bias_.data()) + i * std::max(3 * width_, ffn_); }
    uint8_t* codes(int i) { return static_cast<uint8_t*>(codes_[i].data()); }
    const float* scale() { return &static_cast<ScaleEntry*>(scale_.data())->scale; }
    const float* scaleInv() { return &static_cast<ScaleEntry*>(scale_.data())->scaleInv; }

    /// Codes in buffer i, transposed codes in i + 1 where the device's products need them (-1: no row codes).
    CastTarget cast(DType format, int rowCodes, int transposed, bool counted) {
        CastTarget target;
        target.format = format;
        if (rowCodes >= 0) target.codes = codes(rowCodes);
        if (transposed >= 0 && backend_.needsTransposedCodes()) target.codesTransposed = codes(transposed);
        target.scale = scale();
        if (counted) target.slot = static_cast<TensorSlot*>(slots_.data());
        return target;
    }
    void addNorm() {
        const double n = static_cast<double>(rows_ * width_), t = backend_.needsTransposedCodes() ? 1 : 0;
        NormForward forward;
        forward.rows = rows_, forward.cols = width_, forward.type = DType::BF16;
        forward.residualIn = wide_[0].data(), forward.delta = wide_[1].data(), forward.residualOut = wide_[2].data();
        forward.gain = forward.bias = weights_.data();
        forward.mean = statistic(0), forward.rstd = statistic(1);
        forward.cast = cast(DType::E4M3, 0, -1, true);
        add("norm forward, add, cast", forward, 7 * n);
        NormBackward backward;
        backward.rows = rows_, backward.cols = width_, backward.type = DType::BF16;
        backward.dOut = wide_[0].data(), backward.residual = wide_[1].data(), backward.dResidualIn = wide_[2].data();
        backward.dResidual = wide_[2].data(), backward.gain = backward.bias = weights_.data();
        backward.mean = statistic(0), backward.rstd = statistic(1);
        backward.dGain = bias(0), backward.dBias = bias(1), backward.dLinearBias = bias(2);
        backward.cast = cast(DType::E5M2, 0, 1, true);
        if (t > 0) backward.again = cast(DType::E4M3, -1, 2, false);
        add("norm backward, casts", backward, (9 + 2 * t) * n);
    }
    void addActivation() {
        const double n = static_cast<double>(rows_ * ffn_), t = backend_.needsTransposedCodes() ? 1 : 0;
        ActivationForward forward;
        forward.rows = rows_, forward.cols = ffn_, forward.type = DType::BF16, forward.in = wide_[0].data();
        forward.cast = cast(DType::E4M3, 0, -1, true);
        add("GELU forward, cast", forward, 3 * n);
        ActivationBackward backward;
        backward.rows = rows_, backward.cols = ffn_, backward.type = DType::BF16;
        backward.in = wide_[0].data(), backward.dOut = wide_[1].data(), backward.dBias = bias(0);
        backward.cast = cast(DType::E5M2, 0, 1, true);
        if (t > 0) backward.again = cast(DType::E4M3, -1, 2, false);
        add("GELU backward, dbias, casts", backward, (5 + 2 * t) * n);
    }
    void addAttention() {
        const double square = 2.0 * batch_ * model_.heads * static_cast<double>(model_.context) * model_.context *
                              (static_cast<double>(width_) / model_.heads) / 2;
        AttentionForward forward;
        forward.batch = batch_, forward.context = model_.context, forward.heads = model_.heads;
        forward.headWidth = width_ / model_.heads, forward.type = DType::BF16;
        forward.qkv = wide_[0].data(), forward.out = wide_[1].data(), forward.lse = static_cast<float*>(lse_.data());
        add("attention forward", forward, 0, 2 * square);
        AttentionBackward backward;
        backward.batch = batch_, backward.context = model_.context, backward.heads = model_.heads;
        backward.headWidth = width_ / model_.heads, backward.type = DType::BF16;
        backward.qkv = wide_[0].data(), backward.out = wide_[1].data(), backward.lse = forward.lse;
        backward.dOut = wide_[1].data(), backward.dQkv = wide_[2].data();
        add("attention backward", backward, 0, 5 * square);
        Quantize gradient;
        gradient.rows = rows_, gradient.cols = 3 * width_, gradient.in = wide_[2].data(), gradient.dbias = bias(0);
        gradient.target = cast(DType::E5M2, 0, 1, true);
        const double t = backend_.needsTransposedCodes() ? 1 : 0;
        add("cast of dQKV, dbias", gradient, (3 + t) * 3 * static_cast<double>(rows_ * width_));
    }
    void addLossAndOptimizer() {
        CrossEntropy loss;
        loss.rows = chunk_, loss.vocabulary = model_.vocabulary, loss.vocabularyPadded = vocabulary_;
        loss.type = DType::BF16, loss.logits = wide_[0].data();
        loss.targets = static_cast<int32_t*>(lse_.data());
        loss.losses = statistic(2), loss.gradientScale = scale();
        std::vector<int32_t> targets(static_cast<size_t>(chunk_));
        for (size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<int32_t>(i * 7919 % model_.vocabulary);
        targets_ = DeviceMemory(backend_, targets.size() * sizeof(int32_t));
        backend_.upload(targets_.data(), targets.data(), targets.size() * sizeof(int32_t));
        loss.targets = static_cast<int32_t*>(targets_.data());
        add("cross-entropy, in place", loss, 4.0 * static_cast<double>(chunk_ * vocabulary_));

        const int64_t n = ffn_ * width_;
        auto* values = static_cast<float*>(parameters_.data());
        SumSquares squares;
        squares.n = n, squares.values = values;
        squares.partials = static_cast<double*>(gradient_.data());
        add("gradient norm", squares, 4.0 * static_cast<double>(n));
        tensor_ = {0, ffn_, width_, 1, cast(DType::E4M3, 0, 1, true), kNoCompute};
        AdamW adam;
        adam.n = n, adam.tensorCount = 1, adam.tensors = &tensor_;
        adam.masters = values, adam.moment1 = values + n, adam.moment2 = values + 2 * n,
        adam.gradients = values + 3 * n;
        adam.compute = weights_.data(), adam.computeType = DType::BF16;
        adam.state = static_cast<StepState*>(state_.data());
        adam.parameters = reinterpret_cast<StepParameters*>(static_cast<char*>(state_.data()) +
                                                            (sizeof(StepState) + 255) / 256 * 256);
        add("AdamW, codes", adam, (29.0 + (backend_.needsTransposedCodes() ? 1 : 0)) * static_cast<double>(n));
    }
    MatmulOperand operand(DType type, const void* data, int64_t ld, bool kContiguous, const uint8_t* transposed) {
        MatmulOperand result;
        result.data = data, result.type = type, result.ld = ld, result.kContiguous = kContiguous;
        if (type != DType::BF16) {
            result.scaleInv = scaleInv();
            if (backend_.needsTransposedCodes()) result.transposed = transposed;
        }
        return result;
    }
    void addLinear(const std::string& name, int64_t m, int64_t in, int64_t out, bool fp8, bool accumulates) {
        const DType x = fp8 ? DType::E4M3 : DType::BF16, dy = fp8 ? DType::E5M2 : DType::BF16;
        const void* left = fp8 ? codes_[0].data() : wide_[0].data();
        const void* grad = fp8 ? codes_[1].data() : wide_[1].data();
        const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(in) * static_cast<double>(out);
        Matmul fprop;
        fprop.m = m, fprop.n = out, fprop.k = in, fprop.fastAccumulate = true;
        fprop.a = operand(x, left, in, true, nullptr), fprop.b = operand(x, weights_.data(), in, true, nullptr);
        fprop.out = wide_[2].data(), fprop.outType = DType::BF16, fprop.ldOut = out;
        if (!accumulates) fprop.bias = wide_[1].data(), fprop.biasType = DType::BF16;
        add(name + " fprop", fprop, 0, flops, fp8);
        Matmul dgrad;
        dgrad.gemm = Gemm::Dgrad, dgrad.m = m, dgrad.n = in, dgrad.k = out;
        dgrad.a = operand(dy, grad, out, true, nullptr);
        dgrad.b = operand(x, weights_.data(), in, false, static_cast<const uint8_t*>(weights_.data()));
        dgrad.out = wide_[2].data(), dgrad.outType = DType::BF16, dgrad.ldOut = in;
        add(name + " dgrad", dgrad, 0, flops, fp8);
        Matmul wgrad;
        wgrad.gemm = Gemm::Wgrad, wgrad.m = out, wgrad.n = in, wgrad.k = m, wgrad.accumulate = accumulates;
        wgrad.a = operand(dy, grad, out, false, codes(1)), wgrad.b = operand(x, left, in, false, codes(0));
        wgrad.out = gradient_.data(), wgrad.outType = DType::F32, wgrad.ldOut = in;
        add(name + " wgrad", wgrad, 0, flops, fp8);
    }
    void addProducts() {
        addLinear("attn.qkv", rows_, width_, 3 * width_, true, false);
        addLinear("attn.proj", rows_, width_, width_, true, false);
        addLinear("mlp.fc1", rows_, width_, ffn_, true, false);
        addLinear("mlp.fc2", rows_, ffn_, width_, true, false);
        addLinear("lm_head", chunk_, width_, vocabulary_, false, true);
    }

    Backend& backend_;
    engine::ModelConfig model_;
    int batch_ = 0;
    int64_t rows_ = 0, width_ = 0, ffn_ = 0, vocabulary_ = 0, chunk_ = 0;
    DeviceMemory wide_[3], codes_[3], weights_, parameters_, gradient_, statistics_, lse_, bias_, slots_, scale_,
        state_, targets_, workspace_;
    ParameterTensor tensor_;
    size_t workspaceBytes_ = 1;
    std::vector<Row> rowsToRun_;
};

/// Seconds of one run: the median of nine bursts of at least `seconds`.
Timing timeOf(Backend& backend, const std::function<void()>& run, double seconds) {
    const auto burst = [&](int count) {
        backend.synchronize();
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < count; ++i) run();
        backend.synchronize();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / count;
    };
    burst(2);
    const int count = std::max(1, static_cast<int>(seconds / burst(1)));
    std::vector<double> times;
    for (int i = 0; i < 9; ++i) times.push_back(burst(count));
    return summarize(times);
}

/// FLOP/s of a square product, BF16 or FP8 with fast accumulation.
double productRate(Backend& backend, int64_t edge, bool fp8, double seconds) {
    const size_t bytes = static_cast<size_t>(edge * edge);
    std::vector<uint8_t> noise(bytes * 2);
    std::mt19937 numbers(3);
    for (size_t i = 0; i < noise.size(); ++i)
        noise[i] = static_cast<uint8_t>(fp8 || i % 2 == 0 ? 0x20 + numbers() % 0x28 : 0x3F);
    DeviceMemory a(backend, noise.size()), b(backend, noise.size()), out(backend, noise.size());
    DeviceMemory scale(backend, sizeof(ScaleEntry));
    const ScaleEntry one;
    backend.upload(a.data(), noise.data(), noise.size());
    backend.upload(b.data(), noise.data(), noise.size());
    backend.upload(scale.data(), &one, sizeof(one));
    Matmul op;
    op.m = op.n = op.k = edge, op.fastAccumulate = true;
    op.a.data = a.data(), op.b.data = b.data(), op.a.ld = op.b.ld = op.ldOut = edge;
    op.a.type = op.b.type = fp8 ? DType::E4M3 : DType::BF16;
    op.a.scaleInv = op.b.scaleInv = &static_cast<ScaleEntry*>(scale.data())->scaleInv;
    op.out = out.data(), op.outType = DType::BF16;
    const size_t workspaceBytes = backend.workspace(op);
    DeviceMemory workspace(backend, workspaceBytes);
    backend.bindWorkspace(workspace.data(), workspaceBytes);
    const double edges = static_cast<double>(edge);
    return 2 * edges * edges * edges /
           timeOf(
               backend, [&] { backend.run(op); }, seconds)
               .median;
}

}  // namespace

void opsBench(const Options& options) {
    engine::ThreadPool pool(options.threads);
    const bool gpu = options.device != "cpu";
    const auto backend = gpu ? createCudaBackend(0) : createCpuBackend(pool);
    const double seconds = options.seconds / 200;
    const double copy = copyRate(gpu), bf16 = productRate(*backend, gpu ? 8192 : 512, false, seconds),
                 fp8 = productRate(*backend, gpu ? 8192 : 512, true, seconds);
    fmt::print("{}: copy {:.0f} GB/s, products {:.3f} (BF16) and {:.3f} TFLOP/s (FP8)\n", backend->info().name,
               copy * 1e-9, bf16 * 1e-12, fp8 * 1e-12);
    for (const Configuration& configuration : configurationsOf(options)) {
        const OpsBench bench(*backend, configuration);
        for (const Row& row : bench.rows()) {
            const Timing time = timeOf(*backend, row.run, seconds);
            const double rate = (row.bytes > 0 ? row.bytes : row.flops) / time.median;
            const double ceiling = row.bytes > 0 ? copy : row.fp8 ? fp8 : bf16;
            fmt::print("{:5} {:<28} {:>10.1f} us ({:.1f} to {:.1f}) {:>10.3f} {:<8} {:>5.0f} %\n", configuration.name,
                       row.name, time.median * 1e6, time.best * 1e6, time.worst * 1e6,
                       rate * (row.bytes > 0 ? 1e-9 : 1e-12), row.bytes > 0 ? "GB/s" : "TFLOP/s", 100 * rate / ceiling);
        }
        std::fflush(stdout);
    }
}

}  // namespace mantissa::bench
