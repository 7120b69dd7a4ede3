#include "bench.h"

#include "kernels/matmul/matmul_kernels.h"

#include <immintrin.h>

#include <algorithm>
#include <ctime>
#include <vector>

namespace mantissa::bench {

namespace {

clockid_t measuredClock = CLOCK_MONOTONIC;

double now() {
    timespec time{};
    clock_gettime(measuredClock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

constexpr int kChains = 12;  // more than latency times throughput of any of these instructions
constexpr int kSteps = 50'000;

// Twelve named registers, each pinned at every step, so that the compiler neither joins nor drops a chain.
#define MANTISSA_EACH_CHAIN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define MANTISSA_CHAIN_STEP_V(i)    \
    acc##i = MANTISSA_STEP(acc##i); \
    asm volatile("" : "+v"(acc##i));
#define MANTISSA_CHAIN_STEP_X(i)    \
    acc##i = MANTISSA_STEP(acc##i); \
    asm volatile("" : "+x"(acc##i));

[[gnu::target("avx512f"), gnu::noinline]] double chains512() {
    const __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(1.0f);
#define MANTISSA_START(i) __m512 acc##i = b;
#define MANTISSA_STEP(x) _mm512_fmadd_ps(x, a, b)
    MANTISSA_EACH_CHAIN(MANTISSA_START)
    for (int n = 0; n < kSteps; ++n) {
        MANTISSA_EACH_CHAIN(MANTISSA_CHAIN_STEP_V)
    }
#undef MANTISSA_START
#undef MANTISSA_STEP
    return 32.0 * kChains * kSteps;
}
[[gnu::target("avx512f,avx512bf16"), gnu::noinline]] double chainsBf16() {
    const __m512bh a = (__m512bh)_mm512_set1_epi16(0x3F80);
#define MANTISSA_START(i) __m512 acc##i = _mm512_setzero_ps();
#define MANTISSA_STEP(x) _mm512_dpbf16_ps(x, a, a)
    MANTISSA_EACH_CHAIN(MANTISSA_START)
    for (int n = 0; n < kSteps; ++n) {
        MANTISSA_EACH_CHAIN(MANTISSA_CHAIN_STEP_V)
    }
#undef MANTISSA_START
#undef MANTISSA_STEP
    return 64.0 * kChains * kSteps;
}
[[gnu::target("avx2,fma"), gnu::noinline]] double chains256() {
    const __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(1.0f);
#define MANTISSA_START(i) __m256 acc##i = b;
#define MANTISSA_STEP(x) _mm256_fmadd_ps(x, a, b)
    MANTISSA_EACH_CHAIN(MANTISSA_START)
    for (int n = 0; n < kSteps; ++n) {
        MANTISSA_EACH_CHAIN(MANTISSA_CHAIN_STEP_X)
    }
#undef MANTISSA_START
#undef MANTISSA_STEP
    return 16.0 * kChains * kSteps;
}
[[gnu::noinline]] double chains128() {
    const __m128 a = _mm_set1_ps(0.5f), b = _mm_set1_ps(1.0f);
#define MANTISSA_START(i) __m128 acc##i = b;
#define MANTISSA_STEP(x) _mm_add_ps(_mm_mul_ps(x, a), b)
    MANTISSA_EACH_CHAIN(MANTISSA_START)
    for (int n = 0; n < kSteps; ++n) {
        MANTISSA_EACH_CHAIN(MANTISSA_CHAIN_STEP_X)
    }
#undef MANTISSA_START
#undef MANTISSA_STEP
    return 8.0 * kChains * kSteps;
}

double chains(kernels::Isa isa, bool bf16) {
    if (bf16 && kernels::matmulKernels(isa).usesBf16()) return chainsBf16();
    if (isa >= kernels::Isa::Avx512) return chains512();
    return isa == kernels::Isa::Avx2 ? chains256() : chains128();
}

}  // namespace

void useProcessorTime() {
    measuredClock = CLOCK_THREAD_CPUTIME_ID;
}

Timing summarize(std::vector<double> seconds) {
    std::sort(seconds.begin(), seconds.end());
    return {seconds.front(), seconds[seconds.size() / 2], seconds.back()};
}

std::vector<Timing> measureInterleaved(const std::vector<std::function<void()>>& bodies, double seconds) {
    for (const auto& body : bodies) body();
    std::vector<std::vector<double>> times(bodies.size());
    const double end = now() + seconds;
    for (int round = 0; round < 5 || now() < end; ++round)
        for (size_t i = 0; i < bodies.size(); ++i) {
            const double start = now();
            bodies[i]();
            times[i].push_back(now() - start);
        }
    std::vector<Timing> timings;
    for (auto& series : times) timings.push_back(summarize(std::move(series)));
    return timings;
}

double peakGflops(engine::ThreadPool& pool, kernels::Isa isa, bool bf16) {
    const int tiles = 4 * pool.threadCount();
    const double flops = chains(isa, bf16);
    const auto body = [&] { pool.run(tiles, [&](int64_t, int) { chains(isa, bf16); }); };
    const Timing timing = measureInterleaved({body}, 0.2)[0];
    return flops * tiles / timing.best / 1e9;
}

}  // namespace mantissa::bench
