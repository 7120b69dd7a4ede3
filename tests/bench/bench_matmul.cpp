// All products of a training step of the presets nano and minigpt, in their order, in FP32, BF16 and FP8.
#include <fmt/format.h>

#include <cstdlib>

#include "bench.h"
#include "tests/support/op_cases.h"
#include "tests/support/tolerance.h"

namespace mantissa::bench {

namespace {

using kernels::DType;
using kernels::Gemm;
using test::MatmulCase;
using test::MatmulData;

struct Model {
    const char* name;
    int64_t tokens, width, ffn, vocabulary;
    int layers;
};
constexpr Model kModels[] = {{"nano", 2048, 128, 512, 128, 4}, {"minigpt", 1024, 768, 3072, 128, 4}};

enum class Mode { F32, Bf16, Fp8 };
constexpr const char* kModeNames[] = {"fp32", "bf16", "fp8"};

/// One product of the step and how often it runs in it.
struct Product {
    std::string name;
    int count;
    MatmulData data;
};

void addLinear(std::vector<Product>& products, const char* name, int64_t tokens, int64_t in, int64_t out, int count,
               Mode mode) {
    const DType x = mode == Mode::F32 ? DType::F32 : mode == Mode::Bf16 ? DType::BF16 : DType::E4M3;
    const DType dy = mode == Mode::Fp8 ? DType::E5M2 : x;
    const DType y = mode == Mode::F32 ? DType::F32 : DType::BF16;
    MatmulCase fprop{Gemm::Fprop, tokens, out, in, x, x, y};
    fprop.bias = true;
    products.push_back({fmt::format("{} fprop", name), count, MatmulData(fprop)});
    products.push_back({fmt::format("{} dgrad", name), count, MatmulData({Gemm::Dgrad, tokens, in, out, dy, x, y})});
    products.push_back(
        {fmt::format("{} wgrad", name), count, MatmulData({Gemm::Wgrad, out, in, tokens, dy, x, DType::F32})});
}

std::vector<Product> productsOf(const Model& model, Mode mode) {
    std::vector<Product> products;
    const int64_t C = model.width;
    addLinear(products, "qkv", model.tokens, C, 3 * C, model.layers, mode);
    addLinear(products, "proj", model.tokens, C, C, model.layers, mode);
    addLinear(products, "fc1", model.tokens, C, model.ffn, model.layers, mode);
    addLinear(products, "fc2", model.tokens, model.ffn, C, model.layers, mode);
    addLinear(products, "head", model.tokens, C, model.vocabulary, 1, mode == Mode::Fp8 ? Mode::Bf16 : mode);
    return products;
}

/// 50 elements against a double sum, within the derived bound.
void check(MatmulData& data, const std::string& name) {
    test::Numbers numbers(7);
    for (int i = 0; i < 50; ++i) {
        const int64_t row = numbers.integer(0, data.c.m - 1), column = numbers.integer(0, data.c.n - 1);
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < data.c.k; ++k) {
            const double product = data.elementA(row, k) * data.elementB(column, k) * data.scaleInvA * data.scaleInvB;
            sum += product, magnitude += std::fabs(product);
        }
        if (data.c.bias) sum += data.bias.at(column), magnitude += std::fabs(data.bias.at(column));
        const double got = data.out.at(row * data.ldOut + column);
        if (std::fabs(got - sum) <= test::matmulBound(data.c.k, magnitude, sum, data.c.out)) continue;
        fmt::print("{}: wrong at {},{}: {} instead of {}\n", name, row, column, got, sum);
        std::exit(1);
    }
}

void modelBench(const Model& model, const Options& options, engine::ThreadPool& pool) {
    const double peaks[] = {peakGflops(pool, options.isa, false), peakGflops(pool, options.isa, true)};
    fmt::print("{}: products of a step, {} tokens; peak {:.0f} GFLOP/s fp32, {:.0f} bf16\n", model.name, model.tokens,
               peaks[0], peaks[1]);
    fmt::print("{:<14}{:>18}{:>6}  {:>9}{:>9}{:>9}{:>10}{:>8}\n", "product", "m x n x k", "mode", "best us", "median",
               "worst", "GFLOP/s", "of peak");
    std::vector<std::vector<Product>> all;
    for (Mode mode : {Mode::F32, Mode::Bf16, Mode::Fp8}) all.push_back(productsOf(model, mode));
    Workspace workspace(pool, options.isa);
    std::vector<std::function<void()>> bodies;
    for (auto& products : all)
        for (Product& product : products) {
            MatmulData& data = product.data;
            kernels::Matmul op = data.op();
            op.a.data = workspace.copy(data.a.data(), data.a.bytes.size());
            op.b.data = workspace.copy(data.b.data(), data.b.bytes.size());
            op.out = workspace.copy(data.out.data(), data.out.bytes.size());
            runCpu(op, workspace.of(op));
            std::memcpy(data.out.data(), op.out, data.out.bytes.size());
            check(data, product.name);
            bodies.push_back([op, &workspace] { runCpu(op, workspace.of(op)); });
        }
    const std::vector<Timing> timings = measureInterleaved(bodies, options.seconds);
    size_t next = 0;
    for (int mode = 0; mode < 3; ++mode) {
        double flops = 0, best = 0, median = 0;
        for (const Product& product : all[static_cast<size_t>(mode)]) {
            const Timing& t = timings[next++];
            const MatmulCase& c = product.data.c;
            const double work = 2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
            flops += work * product.count, best += t.best * product.count, median += t.median * product.count;
            fmt::print("{:<14}{:>18}{:>6}  {:>9.1f}{:>9.1f}{:>9.1f}{:>10.0f}{:>7.0f}%\n", product.name,
                       fmt::format("{}x{}x{}", c.m, c.n, c.k), kModeNames[mode], t.best * 1e6, t.median * 1e6,
                       t.worst * 1e6, work / t.median / 1e9, 100 * work / t.median / 1e9 / peaks[mode > 0]);
        }
        fmt::print("{} {}: best {:.2f} ms, median {:.2f} ms a step, {:.0f} GFLOP/s, {:.0f} % of peak\n", model.name,
                   kModeNames[mode], best * 1e3, median * 1e3, flops / median / 1e9,
                   100 * flops / median / 1e9 / peaks[mode > 0]);
    }
}

}  // namespace

void matmulBench(const Options& options, engine::ThreadPool& pool) {
    for (const Model& model : kModels)
        if (options.model.empty() || options.model == model.name) modelBench(model, options, pool);
}

}  // namespace mantissa::bench
