// The FP8 cast: codes alone, with the cheap counters, with the dear set, with every block out of range, from FP32,
// stochastic.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "bench.h"
#include "kernels/formats/half.h"

namespace mantissa::bench {

namespace {

using kernels::DType;

constexpr int64_t kRows = 512, kCols = 256;  // 256 KiB of BF16: in L2

struct Variant {
    const char* name;
    DType input;
    bool count, dear, histogram, stochastic;
    float scale;
};
constexpr Variant kVariants[] = {{"codes, amax", DType::BF16, false, false, false, false, 100},
                                 {"+ counters", DType::BF16, true, false, false, false, 100},
                                 {"+ dear set", DType::BF16, true, true, false, false, 100},
                                 {"+ histogram", DType::BF16, true, true, true, false, 100},
                                 {"all over range", DType::BF16, true, false, false, false, 1e6},
                                 {"from fp32", DType::F32, true, false, false, false, 100},
                                 {"stochastic", DType::BF16, true, false, false, true, 100}};

struct Cast {
    explicit Cast(const Variant& variant, DType format, const std::vector<float>& wide,
                  const std::vector<uint16_t>& narrow)
        : scale(variant.scale), codes(kRows * kCols) {
        op.rows = kRows;
        op.cols = kCols;
        op.inType = variant.input;
        op.in = variant.input == DType::F32 ? static_cast<const void*>(wide.data()) : narrow.data();
        op.target.format = format;
        op.target.codes = codes.data();
        op.target.scale = &scale;
        op.target.slot = &slot;
        op.target.count = variant.count;
        op.target.dear = variant.dear;
        op.target.exponents = variant.histogram;
        op.target.stochastic = variant.stochastic;
    }
    Cast(const Cast&) = delete;
    Cast& operator=(const Cast&) = delete;

    float scale;
    std::vector<uint8_t> codes;
    kernels::TensorSlot slot;
    kernels::Quantize op;
};

/// Codes and counters are exact: the same bytes as the plain op.
void check(Cast& cast, const char* name) {
    kernels::Quantize op = cast.op;
    std::vector<uint8_t> codes(cast.codes.size());
    kernels::TensorSlot slot;
    op.target.codes = codes.data();
    op.target.slot = &slot;
    runReference(op);
    if (codes == cast.codes && std::memcmp(&slot.counters, &cast.slot.counters, sizeof slot.counters) == 0) return;
    fmt::print("quantize {}: codes or counters differ from the plain op\n", name);
    std::exit(1);
}

}  // namespace

void quantizeBench(const Options& options, engine::ThreadPool& pool) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> wide(kRows * kCols);
    std::vector<uint16_t> narrow(wide.size());
    for (size_t i = 0; i < wide.size(); ++i) narrow[i] = kernels::encodeBf16(wide[i] = normal(random));
    fmt::print("casts to FP8, {} elements\n{:<16}{:>7}  {:>10}{:>10}{:>10}{:>10}\n", wide.size(), "variant", "format",
               "best us", "median", "worst", "Gelem/s");
    Workspace workspace(pool, options.isa);
    std::vector<std::unique_ptr<Cast>> casts;
    std::vector<std::function<void()>> bodies;
    for (DType format : {DType::E4M3, DType::E5M2}) {
        for (const Variant& variant : kVariants) {
            casts.push_back(std::make_unique<Cast>(variant, format, wide, narrow));
            Cast& cast = *casts.back();
            runCpu(cast.op, workspace.of(cast.op));
            check(cast, variant.name);
            bodies.push_back([&cast, &workspace] { runCpu(cast.op, workspace.of(cast.op)); });
        }
    }
    const std::vector<Timing> timings = measureInterleaved(bodies, options.seconds);
    for (size_t i = 0; i < timings.size(); ++i)
        fmt::print("{:<16}{:>7}  {:>10.1f}{:>10.1f}{:>10.1f}{:>10.2f}\n", kVariants[i % std::size(kVariants)].name,
                   kernels::dtypeName(casts[i]->op.target.format), timings[i].best * 1e6, timings[i].median * 1e6,
                   timings[i].worst * 1e6, static_cast<double>(wide.size()) / timings[i].median * 1e-9);
}

}  // namespace mantissa::bench
