// The tensor bench: casts given values under a recipe and shows everything; plain value types for the Formats page and
// `tensor`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mantissa::experiments {

/// What is cast and how. Strings are the words of the command line.
struct TensorRequest {
    std::vector<float> values;
    int64_t rows = 1, cols = 0;     ///< cols 0: all values in one row
    std::string dtype = "f32";      ///< f32, bf16: values are rounded to it first
    std::string format = "e4m3";    ///< e4m3, e5m2, e2m1, e8m0, bf16, fp16
    std::string recipe = "fixed";   ///< delayed, current, fixed, block1x128, block128x128, mxfp8, nvfp4 (always e2m1)
    std::optional<float> scale;     ///< delayed, fixed: the scale in force
    std::vector<float> history;     ///< delayed: slots, 0 open, 1 oldest closed, last newest closed
    int historyLength = 0;          ///< 0: the length of `history`, else 1024; longer: older slots are 0
    std::string algorithm = "max";  ///< max, most_recent
    int margin = 0;
    bool powerOfTwo = false;     ///< current and block recipes
    float epsilon = 0;           ///< current: smallest amax
    bool roundUp = true;         ///< e8m0: away from zero, as MXFP8's scales; false: towards zero
    std::string device = "cpu";  ///< cpu, cuda, cuda:N: where casts and scales are made
};

struct TensorCounters {
    uint64_t elements = 0, zeros = 0, underflow = 0, subnormal = 0, overRange = 0, clipped = 0, inf = 0, nan = 0;
};

struct TensorBlock {
    int64_t row = 0, col = 0;  ///< of the block, in blocks
    float scale = 1, scaleInv = 1, amax = 0;
    std::optional<uint8_t> scaleCode;  ///< mxfp8: the E8M0 code of scaleInv; nvfp4: the block's E4M3 scale
};

struct DelayedState {
    std::vector<float> history;
    float scale = 1;
    bool updated = true;  ///< false: amax 0, nothing changed
};

struct TensorResult {
    TensorRequest request;      ///< as run: cols and historyLength filled in, values empty
    std::vector<float> inputs;  ///< rounded to dtype
    std::vector<uint32_t> codes;
    std::vector<float> dequantized;
    std::optional<float> scale, scaleInv;  ///< of the tensor; none for block recipes but nvfp4
    float amax = 0;                        ///< NaN skipped, Inf shown
    TensorCounters counters;
    double mse = 0;                      ///< over finite values; NaN when there is none
    double sqnrDb = 0;                   ///< infinite without error; NaN for an all-zero tensor
    std::optional<double> dynamicRange;  ///< log2(largest / smallest non-zero finite magnitude); none when all are zero
    std::optional<DelayedState> next;    ///< delayed
    std::vector<TensorBlock> blocks;     ///< block recipes
};

/// Throws InvalidConfig naming field, value and allowed values. 10^6 values take some ten milliseconds.
TensorResult runTensorBench(const TensorRequest& request);

/// The same values under every recipe: current and its power of two, fixed scale 1, delayed as requested (E4M3 and
/// E5M2), block1x128 and block128x128 with powers of two, mxfp8 (E4M3, E5M2), nvfp4.
std::vector<TensorResult> tensorWhatIf(const TensorRequest& request);

struct DecodedCode {
    uint32_t code = 0;
    float value = 0;  ///< decoded times RN(1 / scale)
};
/// codes in `format`, divided by request.scale (1 unless given).
std::vector<DecodedCode> decodeTensorCodes(const std::vector<uint32_t>& codes, const std::string& format, float scale);

/// One update of the delayed rule.
struct TraceRow {
    int update = 0;  ///< 1-based
    float amax = 0;
    std::vector<float> window;  ///< after the update and its roll, slot 0 first
    float scaleUsed = 1, nextScale = 1;
    std::optional<float> rulingEntry;  ///< the amax that gave nextScale; none for a fresh or given scale
    int age = 0;                       ///< updates (rolls) since it entered the window
    int frozenFor =
        0;  ///< updates until the scale can move again; 0: it can (an Inf, or a window of NaN alone, freezes it)
    bool updated = true;  ///< false: amax 0, the tensor did not run
};
/// Feeds one amax per update; request gives format, algorithm, margin, history and scale (values are not read).
std::vector<TraceRow> traceDelayed(const TensorRequest& request, const std::vector<float>& amax);

}  // namespace mantissa::experiments
