// Instruction sets that kernels are compiled for, and the choice made at run time.
#pragma once

#include <string>

namespace mantissa::kernels {

enum class Isa { Sse, Avx2, Avx512, Avx512Bf16 };

const char* isaName(Isa isa);  ///< "sse", "avx2", "avx512", "avx512bf16"
bool isaSupported(Isa isa);
/// The best supported one; MANTISSA_ISA narrows it (an unknown or unsupported name throws InvalidConfig with the
/// allowed ones).
Isa bestIsa();
Isa parseIsa(const std::string& name);  ///< throws InvalidConfig when unknown or not supported by this processor

}  // namespace mantissa::kernels
