// Tables of functions, one an instruction set, for code that mantissa_isa_sources() compiles once per instruction set.
//
// In the family's header (plain C++, no std templates in the table's signatures):
//     struct NormKernels { void (*forward)(const NormForward& op, int64_t firstRow, int64_t lastRow); };
//     MANTISSA_DECLARE_ISA_TABLE(NormKernels, normKernels)
// In the file that is compiled once per instruction set:
//     namespace mantissa::kernels::MANTISSA_ISA {
//     namespace { void forward(...) {...} }
//     const NormKernels normKernels = {forward};
//     }
// In the host file: normKernels(context.isa).forward(op, first, last).
#pragma once

#include "kernels/simd/isa.h"

// The table is `extern const` in each ISA namespace; the accessor picks one.
#define MANTISSA_DECLARE_ISA_TABLE(Table, name) \
    namespace sse {                             \
    extern const Table name;                    \
    }                                           \
    namespace avx2 {                            \
    extern const Table name;                    \
    }                                           \
    namespace avx512 {                          \
    extern const Table name;                    \
    }                                           \
    namespace avx512bf16 {                      \
    extern const Table name;                    \
    }                                           \
    inline const Table& name(Isa isa) {         \
        switch (isa) {                          \
            case Isa::Sse:                      \
                return sse::name;               \
            case Isa::Avx2:                     \
                return avx2::name;              \
            case Isa::Avx512:                   \
                return avx512::name;            \
            case Isa::Avx512Bf16:               \
                return avx512bf16::name;        \
        }                                       \
        return sse::name;                       \
    }
