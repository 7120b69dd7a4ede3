// Algorithms of cuBLASLt that were faster than the first of its own ranking, measured once and kept: the choice depends
// on nothing but library, chip, shape and types, so the same run gives the same bits.
//
// Measured 2026-11-29 on one H200 with cuBLASLt 13.1.0: the first eight of the ranking for every product of the
// configurations S32, M32, L16 and X4, in turns, in bursts of 6 ms at the board's power limit, operands beyond the L2
// cache; kept where the median of three was 2 % or more below the first one's. The comment says which product and how
// much. An algorithm is named by its tile and its split of k, which tell the eight apart.
//
// "steady": measured 2026-11-30 with each product alone, 0.4 s after 0.85 s of it, the three most promising algorithms
// of M32, L16 and X4 (L16 in BF16: 0.15 s after 0.12 s, all eight), so that the board's clock is the one this algorithm
// leaves it; the comment says how much below the choice of the bursts or, where those had none, the library's first.
// Six choices of the bursts were slower than the library's first when steady and are gone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matmul/matmul.h"

namespace mantissa::kernels::cuda {

struct StoredChoice {
    bool fp8;  ///< E4M3 and E5M2 operands; else BF16
    Gemm gemm;
    int64_t m, n, k;
    bool accumulate;
    uint32_t tile, splitK;  ///< CUBLASLT_ALGO_CONFIG_TILE_ID, _SPLITK_NUM
};

constexpr size_t kStoredVersion = 130100;  ///< cublasLtGetVersion()
constexpr int kStoredCapability = 90;

constexpr StoredChoice kStoredChoices[] = {
    {true, Gemm::Fprop, 8192, 2304, 768, false, 20, 1},      // S32 qkv fprop, 9 %
    {true, Gemm::Fprop, 8192, 768, 768, false, 495, 1},      // S32 proj fprop, 2 %
    {true, Gemm::Dgrad, 8192, 768, 768, false, 21, 1},       // S32 proj dgrad, 2 %
    {true, Gemm::Fprop, 8192, 3072, 768, false, 20, 1},      // S32 fc1 fprop, 9 %
    {true, Gemm::Fprop, 8192, 768, 3072, false, 20, 1},      // S32 fc2 fprop, 4 %
    {true, Gemm::Dgrad, 8192, 3072, 768, false, 400, 1},     // S32 fc2 dgrad, 2 %
    {true, Gemm::Fprop, 32768, 2304, 768, false, 20, 1},     // M32 qkv fprop, 15 %
    {true, Gemm::Fprop, 32768, 768, 768, false, 20, 1},      // M32 proj fprop, 9 %
    {true, Gemm::Dgrad, 32768, 768, 768, false, 29, 1},      // M32 proj dgrad, steady 2.1 %
    {true, Gemm::Fprop, 32768, 3072, 768, false, 24, 1},     // M32 fc1 fprop, steady 1.6 %
    {true, Gemm::Fprop, 32768, 768, 3072, false, 20, 1},     // M32 fc2 fprop, 9 %
    {true, Gemm::Dgrad, 16384, 1600, 4800, false, 247, 1},   // L16 qkv dgrad, 2 %
    {true, Gemm::Fprop, 16384, 1600, 1600, false, 20, 1},    // L16 proj fprop, 19 %
    {true, Gemm::Dgrad, 16384, 1600, 1600, false, 247, 1},   // L16 proj dgrad, steady 7.6 %
    {true, Gemm::Dgrad, 16384, 1600, 6400, false, 247, 1},   // L16 fc1 dgrad, 3 %
    {true, Gemm::Fprop, 16384, 1600, 6400, false, 20, 1},    // L16 fc2 fprop, 9 %
    {true, Gemm::Fprop, 8192, 16384, 4096, false, 24, 1},    // X4 fc1 fprop, steady 3.1 %
    {true, Gemm::Dgrad, 8192, 16384, 4096, false, 184, 1},   // X4 fc2 dgrad, steady 1.3 %
    {false, Gemm::Fprop, 8192, 2304, 768, false, 20, 1},     // S32 qkv fprop, 12 %
    {false, Gemm::Fprop, 8192, 768, 768, false, 20, 1},      // S32 proj fprop, 5 %
    {false, Gemm::Fprop, 8192, 3072, 768, false, 20, 1},     // S32 fc1 fprop, 14 %
    {false, Gemm::Dgrad, 8192, 768, 3072, false, 20, 1},     // S32 fc1 dgrad, 3 %
    {false, Gemm::Dgrad, 8192, 3072, 768, false, 20, 1},     // S32 fc2 dgrad, 10 %
    {false, Gemm::Wgrad, 96, 768, 8192, false, 15, 4},       // S32 head wgrad, 2 %
    {false, Gemm::Fprop, 32768, 2304, 768, false, 20, 1},    // M32 qkv fprop, 19 %
    {false, Gemm::Dgrad, 32768, 768, 2304, false, 20, 1},    // M32 qkv dgrad, 6 %
    {false, Gemm::Wgrad, 2304, 768, 32768, false, 20, 1},    // M32 qkv wgrad, 7 %
    {false, Gemm::Fprop, 32768, 768, 768, false, 20, 1},     // M32 proj fprop, 12 %
    {false, Gemm::Dgrad, 32768, 768, 768, false, 20, 1},     // M32 proj dgrad, 15 %
    {false, Gemm::Wgrad, 768, 768, 32768, false, 209, 8},    // M32 proj wgrad, 4 %
    {false, Gemm::Dgrad, 32768, 3072, 768, false, 29, 1},    // M32 fc2 dgrad, 19 %
    {false, Gemm::Fprop, 8192, 50304, 768, false, 201, 1},   // M32 head fprop, 15 %
    {false, Gemm::Dgrad, 8192, 768, 50304, false, 32, 1},    // M32 head dgrad, steady 3.5 %
    {false, Gemm::Wgrad, 50304, 768, 8192, true, 20, 1},     // M32 head wgrad, 2 %
    {false, Gemm::Fprop, 16384, 4800, 1600, false, 24, 1},   // L16 qkv fprop, steady 2.5 %
    {false, Gemm::Wgrad, 4800, 1600, 16384, false, 23, 1},   // L16 qkv wgrad, steady 4.5 %
    {false, Gemm::Fprop, 16384, 1600, 1600, false, 20, 1},   // L16 proj fprop, 14 %
    {false, Gemm::Fprop, 16384, 1600, 6400, false, 20, 1},   // L16 fc2 fprop, 7 %
    {false, Gemm::Dgrad, 16384, 6400, 1600, false, 29, 1},   // L16 fc2 dgrad, 10 %
    {false, Gemm::Wgrad, 1600, 6400, 16384, false, 29, 1},   // L16 fc2 wgrad, steady 2.3 %
    {false, Gemm::Fprop, 8192, 50304, 1600, false, 201, 1},  // L16 head fprop, 9 %
    {false, Gemm::Dgrad, 8192, 1600, 50304, false, 247, 1},  // L16 head dgrad, 11 %
    {false, Gemm::Wgrad, 12288, 4096, 8192, false, 24, 1},   // X4 qkv wgrad, steady 1.6 %
    {false, Gemm::Fprop, 8192, 4096, 16384, false, 23, 1},   // X4 fc2 fprop, steady 1.6 %
    {false, Gemm::Wgrad, 16384, 4096, 8192, false, 29, 1},   // X4 fc1 wgrad, 6 %
    {false, Gemm::Dgrad, 8192, 16384, 4096, false, 24, 1},   // X4 fc2 dgrad, steady 2.0 %
    {false, Gemm::Wgrad, 4096, 16384, 8192, false, 29, 1},   // X4 fc2 wgrad, 4 %
    {false, Gemm::Fprop, 8192, 50304, 4096, false, 201, 1},  // X4 head fprop, 6 %
    {false, Gemm::Wgrad, 50304, 4096, 8192, false, 24, 1},   // X4 head wgrad, steady 7.7 %
};

/// Of products of codes with block scales. Measured 2026-11-30 likewise, all wgrads of the four configurations in three
/// turns, each alone; the 1 x 128 by 128 x 128 kernel of fprop and dgrad has one algorithm.
constexpr StoredChoice kStoredBlockChoices[] = {
    {true, Gemm::Wgrad, 768, 768, 8192, false, 20, 3},      // S32 proj wgrad, 22 %
    {true, Gemm::Wgrad, 768, 768, 8192, true, 20, 3},       // S32 proj wgrad, 21 %
    {true, Gemm::Wgrad, 3072, 768, 8192, false, 116, 1},    // S32 fc1 wgrad, 28 %
    {true, Gemm::Wgrad, 3072, 768, 8192, true, 116, 1},     // S32 fc1 wgrad, 31 %
    {true, Gemm::Wgrad, 768, 3072, 8192, false, 116, 1},    // S32 fc2 wgrad, 29 %
    {true, Gemm::Wgrad, 768, 3072, 8192, true, 116, 1},     // S32 fc2 wgrad, 29 %
    {true, Gemm::Wgrad, 3072, 768, 32768, false, 116, 2},   // M32 fc1 wgrad, 26 %
    {true, Gemm::Wgrad, 3072, 768, 32768, true, 116, 2},    // M32 fc1 wgrad, 27 %
    {true, Gemm::Wgrad, 768, 3072, 32768, false, 116, 2},   // M32 fc2 wgrad, 28 %
    {true, Gemm::Wgrad, 768, 3072, 32768, true, 116, 2},    // M32 fc2 wgrad, 27 %
    {true, Gemm::Wgrad, 1600, 1600, 16384, false, 116, 1},  // L16 proj wgrad, 30 %
    {true, Gemm::Wgrad, 1600, 1600, 16384, true, 116, 1},   // L16 proj wgrad, 30 %
};

/// nullptr: the library's own ranking decides.
inline const StoredChoice* storedChoice(const Matmul& op, size_t version, int capability) {
    if (version != kStoredVersion || capability != kStoredCapability) return nullptr;
    const bool fp8 = isFp8(op.a.type) && isFp8(op.b.type);
    if (!fp8 && (op.a.type != DType::BF16 || op.b.type != DType::BF16)) return nullptr;
    const auto find = [&](const auto& choices) -> const StoredChoice* {
        for (const StoredChoice& choice : choices)
            if (choice.fp8 == fp8 && choice.gemm == op.gemm && choice.m == op.m && choice.n == op.n &&
                choice.k == op.k && choice.accumulate == op.accumulate)
                return &choice;
        return nullptr;
    };
    return op.a.blockScaleInv ? find(kStoredBlockChoices) : find(kStoredChoices);
}

}  // namespace mantissa::kernels::cuda
