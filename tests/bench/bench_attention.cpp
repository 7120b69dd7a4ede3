// Attention of one layer, and the thread pool's regions.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

#include "bench.h"
#include "tests/support/op_cases.h"

namespace mantissa::bench {

namespace {

using kernels::DType;

/// The first sequence of the case against the reference, loosely: a wrong result is far off. The tests hold the bounds.
void check(const test::AttentionData& data) {
    test::AttentionCase one = data.c;
    one.batch = 1;
    test::AttentionData reference(one);
    for (int64_t i = 0; i < reference.qkv.size(); ++i) reference.qkv.set(i, data.qkv.at(i));
    runReference(reference.forward());
    for (int64_t i = 0; i < reference.out.size(); ++i)
        if (std::fabs(reference.out.at(i) - data.out.at(i)) > 0.05) {
            fmt::print("attention: wrong at {}: {} instead of {}\n", i, data.out.at(i), reference.out.at(i));
            std::exit(1);
        }
}

void layerBench(const char* name, test::AttentionCase c, const Options& options, engine::ThreadPool& pool) {
    if (!options.model.empty() && options.model != name) return;
    std::vector<test::AttentionData> data;
    for (DType type : {DType::F32, DType::BF16}) {
        c.type = type;
        data.emplace_back(c);
    }
    Workspace workspace(pool, options.isa);
    std::vector<std::function<void()>> bodies;
    for (test::AttentionData& d : data) {
        kernels::AttentionForward forward = d.forward();
        kernels::AttentionBackward backward = d.backward();
        backward.qkv = forward.qkv = workspace.copy(d.qkv.data(), d.qkv.bytes.size());
        backward.out = forward.out = workspace.copy(d.out.data(), d.out.bytes.size());
        backward.dOut = workspace.copy(d.dOut.data(), d.dOut.bytes.size());
        backward.dQkv = workspace.copy(d.dQkv.data(), d.dQkv.bytes.size());
        runCpu(forward, workspace.of(forward));
        std::memcpy(d.out.data(), forward.out, d.out.bytes.size());
        check(d);
        bodies.push_back([forward, &workspace] { runCpu(forward, workspace.of(forward)); });
        bodies.push_back([backward, &workspace] { runCpu(backward, workspace.of(backward)); });
    }
    const std::vector<Timing> timings = measureInterleaved(bodies, options.seconds);
    for (size_t i = 0; i < timings.size(); ++i) {
        const bool backward = i % 2 == 1, bf16 = i >= 2;
        // The causal half of two products forward, five backward.
        const double work =
            (backward ? 5.0 : 2.0) * static_cast<double>(c.batch * c.heads * c.context * c.context * c.headWidth);
        const double peak = peakGflops(pool, options.isa, bf16);
        fmt::print("{:<9}{:>9}{:>6}  {:>9.1f}{:>9.1f}{:>9.1f}{:>10.0f}{:>7.0f}%\n", name,
                   backward ? "backward" : "forward", bf16 ? "bf16" : "fp32", timings[i].best * 1e6,
                   timings[i].median * 1e6, timings[i].worst * 1e6, work / timings[i].median / 1e9,
                   100 * work / timings[i].median / 1e9 / peak);
    }
}

}  // namespace

void attentionBench(const Options& options, engine::ThreadPool& pool) {
    fmt::print("attention of one layer (causal FLOPs counted)\n{:<9}{:>9}{:>6}  {:>9}{:>9}{:>9}{:>10}{:>8}\n", "model",
               "pass", "mode", "best us", "median", "worst", "GFLOP/s", "of peak");
    layerBench("nano", {16, 128, 4, 32, DType::F32}, options, pool);
    layerBench("minigpt", {4, 256, 12, 64, DType::F32}, options, pool);
}

void poolBench(const Options& options, engine::ThreadPool& pool) {
    const auto busy = [](int micros) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(micros);
        while (std::chrono::steady_clock::now() < end) {
        }
    };
    const auto regions = [&](int count, int tiles, int micros) {
        for (int i = 0; i < count; ++i) pool.run(tiles, [&](int64_t, int) { busy(micros); });
    };
    const std::vector<Timing> t = measureInterleaved(
        {[&] { regions(1000, 16, 0); }, [&] { regions(100, 10, 10); }, [&] { regions(100, 10, 100); }},
        options.seconds);
    const int threads = pool.threadCount();
    fmt::print(
        "regions on {} threads: empty {:.2f} us; 100 of 10 x 10 us: {:.2f} ms (ideal {:.2f}); 100 of 10 x 100 us: "
        "{:.2f} ms (ideal {:.2f})\n",
        threads, t[0].median * 1e3, t[1].median * 1e3, 10.0 / threads, t[2].median * 1e3, 100.0 / threads);
}

}  // namespace mantissa::bench
