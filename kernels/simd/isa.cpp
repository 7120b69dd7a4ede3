#include "kernels/simd/isa.h"

#include <cstdlib>

#include "kernels/error.h"

namespace mantissa::kernels {

const char* isaName(Isa isa) {
    switch (isa) {
        case Isa::Sse:
            return "sse";
        case Isa::Avx2:
            return "avx2";
        case Isa::Avx512:
            return "avx512";
        case Isa::Avx512Bf16:
            return "avx512bf16";
    }
    return "?";
}

bool isaSupported(Isa isa) {
    __builtin_cpu_init();
    const bool v4 = __builtin_cpu_supports("x86-64-v4");
    switch (isa) {
        case Isa::Sse:
            return true;
        case Isa::Avx2:
            return __builtin_cpu_supports("x86-64-v3");
        case Isa::Avx512:
            return v4;
        case Isa::Avx512Bf16:
            return v4 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi");
    }
    return false;
}

Isa parseIsa(const std::string& name) {
    std::string allowed;
    for (Isa isa : {Isa::Sse, Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16}) {
        if (!isaSupported(isa)) continue;
        if (name == isaName(isa)) return isa;
        allowed += (allowed.empty() ? "" : ", ") + std::string(isaName(isa));
    }
    throw Error(ErrorCode::InvalidConfig,
                "MANTISSA_ISA: \"" + name + "\" is not an instruction set of this processor; allowed: " + allowed);
}

Isa bestIsa() {
    if (const char* wanted = std::getenv("MANTISSA_ISA"); wanted && *wanted) return parseIsa(wanted);
    for (Isa isa : {Isa::Avx512Bf16, Isa::Avx512, Isa::Avx2})
        if (isaSupported(isa)) return isa;
    return Isa::Sse;
}

}  // namespace mantissa::kernels
