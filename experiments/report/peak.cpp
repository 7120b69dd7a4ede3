#include "experiments/report/peak.h"

#include <fmt/format.h>

namespace mantissa::experiments {

const char* const kFlopsFormula = "6·(L·(4C² + 2CF) + VC) + 6·L·C·T";

namespace {

/// TFLOP/s, dense. H100 SXM, H200, A100, L40S, RTX 4090: NVIDIA's data sheets, halved where they print sparsity.
struct Sheet {
    const char *pattern, *name;
    double fp8, bf16, tf32, fp32;
};
constexpr Sheet kSheets[] = {{"H200", "an H200", 1978.9, 989.4, 494.7, 66.9},
                             {"H100 80GB HBM3", "an H100 SXM", 1978.9, 989.4, 494.7, 66.9},
                             {"A100", "an A100", 0, 312, 156, 19.5},
                             {"L40S", "an L40S", 733, 362, 183, 91.6},
                             {"RTX 4090", "an RTX 4090", 660.6, 165.2, 82.6, 82.6}};

}  // namespace

std::optional<NamedPeak> namedPeak(const std::string& deviceName, engine::PrecisionMode mode) {
    using engine::PrecisionMode;
    for (const Sheet& sheet : kSheets) {
        if (deviceName.find(sheet.pattern) == std::string::npos) continue;
        // Without FP8 units the products run in BF16.
        const bool fp8 = mode == PrecisionMode::Fp8 && sheet.fp8 > 0;
        const double teraflops = fp8                           ? sheet.fp8
                                 : mode == PrecisionMode::Fp32 ? sheet.fp32
                                 : mode == PrecisionMode::Tf32 ? sheet.tf32
                                                               : sheet.bf16;
        const char* format = fp8                           ? "FP8"
                             : mode == PrecisionMode::Fp32 ? "FP32"
                             : mode == PrecisionMode::Tf32 ? "TF32"
                             : mode == PrecisionMode::Fp16 ? "FP16"
                                                           : "BF16";
        return NamedPeak{teraflops * 1e12,
                         fmt::format("{} peak of {}, {} TFLOP/s dense (data sheet)", format, sheet.name, teraflops),
                         format};
    }
    return std::nullopt;
}

}  // namespace mantissa::experiments
