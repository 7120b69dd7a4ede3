#include "experiments/tensor_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>

#include "experiments/format_codec.h"
#include "experiments/tensor_bench_gpu.h"
#include "kernels/device/cpu_ops.h"
#include "kernels/error.h"
#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "kernels/quantize/block_quantize.h"
#include "kernels/scaling/scaling.h"

namespace mantissa::experiments {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

[[noreturn]] void refuse(const std::string& field, const std::string& why) {
    throw Error(ErrorCode::InvalidConfig, "tensor: " + field + ": " + why);
}

bool isBlockRecipe(const std::string& recipe) {
    return recipe == "block1x128" || recipe == "block128x128" || recipe == "mxfp8" || recipe == "nvfp4";
}

NumberFormat formatOf(const TensorRequest& request) {
    const auto format = formatByKey(request.format);
    if (!format)
        refuse("format", fmt::format("\"{}\" is unknown; allowed: e4m3, e5m2, e2m1, e8m0, bf16, fp16", request.format));
    return *format;
}

void checkAlgorithm(const TensorRequest& request) {
    if (request.algorithm != "max" && request.algorithm != "most_recent")
        refuse("algorithm", fmt::format("\"{}\" is unknown; allowed: max, most_recent", request.algorithm));
}

void checkWords(const TensorRequest& request, NumberFormat format) {
    if (request.dtype != "f32" && request.dtype != "bf16")
        refuse("dtype", fmt::format("\"{}\" is unknown; allowed: f32, bf16", request.dtype));
    const bool known = request.recipe == "delayed" || request.recipe == "current" || request.recipe == "fixed" ||
                       isBlockRecipe(request.recipe);
    if (!known)
        refuse(
            "recipe",
            fmt::format("\"{}\" is unknown; allowed: delayed, current, fixed, block1x128, block128x128, mxfp8, nvfp4",
                        request.recipe));
    if (request.recipe == "nvfp4" && format == NumberFormat::E2m1) return checkAlgorithm(request);
    const bool fp8 = format == NumberFormat::E4m3 || format == NumberFormat::E5m2;
    if (!fp8 && request.recipe != "fixed" && !(format == NumberFormat::E2m1 && !isBlockRecipe(request.recipe)))
        refuse("recipe", fmt::format("{} does not go with format {}; allowed: {}", request.recipe, request.format,
                                     format == NumberFormat::E2m1 ? "delayed, current, fixed" : "fixed"));
    checkAlgorithm(request);
}

void checkNumbers(const TensorRequest& request) {
    if (request.scale && !(*request.scale > 0 && std::isfinite(*request.scale)))
        refuse("scale", fmt::format("{} is no scale; allowed: finite numbers above 0", *request.scale));
    for (size_t i = 0; i < request.history.size(); ++i)
        if (request.history[i] < 0)
            refuse("history",
                   fmt::format("entry {} is {}; allowed: amax values, 0 and more", i + 1, request.history[i]));
    if (request.historyLength < 0 || request.historyLength > 1000000)
        refuse("history-length", fmt::format("{} is outside its range; allowed: 1 ... 1000000", request.historyLength));
    if (request.historyLength > 0 && static_cast<size_t>(request.historyLength) < request.history.size())
        refuse("history-length", fmt::format("{} is shorter than the history given; allowed: {} and more",
                                             request.historyLength, request.history.size()));
    if (request.margin < -100 || request.margin > 100)
        refuse("margin", fmt::format("{} is outside its range; allowed: -100 ... 100", request.margin));
    if (!(request.epsilon >= 0 && std::isfinite(request.epsilon)))
        refuse("epsilon", fmt::format("{} is outside its range; allowed: 0 and more", request.epsilon));
    if (request.rows < 1 || request.cols < 0)
        refuse("shape", fmt::format("{},{} is no shape; allowed: rows,columns", request.rows, request.cols));
    const auto count = static_cast<int64_t>(request.values.size());
    if (request.cols > 0 && (request.rows > count || request.rows * request.cols != count))
        refuse("shape", fmt::format("{},{} does not hold the {} values given", request.rows, request.cols, count));
}

kernels::AmaxAlgorithm algorithmOf(const TensorRequest& request) {
    return request.algorithm == "max" ? kernels::AmaxAlgorithm::Max : kernels::AmaxAlgorithm::MostRecent;
}

/// Largest finite value that scales aim at.
float targetOf(NumberFormat format) {
    return static_cast<float>(formatFacts(format).largest);
}

/// The starting window: missing older entries are 0.
std::vector<float> startWindow(const TensorRequest& request) {
    std::vector<float> window(static_cast<size_t>(request.historyLength ? request.historyLength
                                                  : request.history.empty()
                                                      ? 1024
                                                      : static_cast<int>(request.history.size())));
    if (request.history.empty()) return window;
    window[0] = request.history[0];
    std::copy(request.history.begin() + 1, request.history.end(),
              window.end() - static_cast<std::ptrdiff_t>(request.history.size() - 1));
    return window;
}

/// Scale of the first cast: the one given, else the rule on the window, else 1.
float startScale(const TensorRequest& request, const std::vector<float>& window, NumberFormat format) {
    if (request.scale) return *request.scale;
    if (algorithmOf(request) == kernels::AmaxAlgorithm::MostRecent && window[0] == 0) {
        const float newest = window.back();
        return kernels::delayedScale(&newest, 1, kernels::AmaxAlgorithm::MostRecent, targetOf(format), request.margin,
                                     1);
    }
    return kernels::delayedScale(window.data(), static_cast<int>(window.size()), algorithmOf(request), targetOf(format),
                                 request.margin, 1);
}

float amaxOf(const float* values, int64_t count) {
    float amax = 0;
    for (int64_t i = 0; i < count; ++i)
        if (std::fabs(values[i]) > amax) amax = std::fabs(values[i]);
    return amax;
}

void countOne(TensorCounters& counters, NumberFormat format, float x, float scaled, uint32_t code) {
    const double magnitude = std::fabs(decodeAs(format, code));
    const FormatFacts& facts = formatFacts(format);
    ++counters.elements;
    counters.zeros += x == 0;
    counters.underflow += x != 0 && magnitude == 0;
    counters.subnormal += magnitude > 0 && magnitude < facts.smallestNormal;
    counters.overRange +=
        std::fabs(scaled) > std::nextafter(static_cast<float>(facts.largest), std::numeric_limits<float>::infinity());
    counters.clipped += std::fabs(scaled) >= clipThreshold(format);
    counters.inf += std::isinf(x);
    counters.nan += std::isnan(x);
}

bool onGpu(const TensorRequest& request) {
    return request.device != "cpu";
}

bool isFp8(NumberFormat format) {
    return format == NumberFormat::E4m3 || format == NumberFormat::E5m2;
}

kernels::DType fp8TypeOf(NumberFormat format) {
    return format == NumberFormat::E4m3 ? kernels::DType::E4M3 : kernels::DType::E5M2;
}

/// What a GPU's ops do not cast, in words.
void checkDevice(const TensorRequest& request, NumberFormat format, const std::vector<float>& inputs) {
    if (!onGpu(request)) return;
    if (!isBlockRecipe(request.recipe) && !isFp8(format))
        refuse("device", fmt::format("{} is cast on the CPU alone; allowed there: e4m3, e5m2, nvfp4", request.format));
    if (request.recipe != "nvfp4") return;
    for (const float value : inputs)
        if (!std::isnan(value) && kernels::roundToBf16(value) != value)
            refuse("device", fmt::format("nvfp4 casts BF16 values there, {} is none; allowed: --dtype bf16", value));
}

void takeCounters(TensorResult& result, const kernels::TensorSlot& slot) {
    const kernels::CastCounters& c = slot.counters;
    result.counters = {c.elements, c.zeros, c.underflow, c.subnormal, c.overRange, c.clipped, c.inf, c.nan};
}

/// Casts FP8 values with one scale by the engine's own op.
void castByEngine(TensorResult& result, NumberFormat format, float scale) {
    if (onGpu(result.request)) {
        const GpuCasts::Cast cast = GpuCasts(result.request.device).cast(result.inputs, fp8TypeOf(format), scale);
        result.codes.assign(cast.codes.begin(), cast.codes.end());
        return takeCounters(result, cast.slot);
    }
    const auto count = static_cast<int64_t>(result.inputs.size());
    std::vector<uint8_t> codes(result.inputs.size());
    kernels::TensorSlot slot;
    kernels::Quantize op;
    op.rows = 1;
    op.cols = count;
    op.inType = kernels::DType::F32;
    op.in = result.inputs.data();
    op.roundToBf16 = false;
    op.target.format = fp8TypeOf(format);
    op.target.codes = codes.data();
    op.target.scale = &scale;
    op.target.slot = &slot;
    kernels::SerialExecutor executor;
    kernels::CpuContext context{&executor, kernels::bestIsa(), nullptr, 0};
    context.workspaceBytes = (kernels::workspaceCpu(op, context) + 511) / 256 * 256;
    const std::unique_ptr<void, void (*)(void*)> workspace(std::aligned_alloc(256, context.workspaceBytes), std::free);
    context.workspace = workspace.get();
    kernels::runCpu(op, context);
    result.codes.assign(codes.begin(), codes.end());
    takeCounters(result, slot);
}

void castWithScale(TensorResult& result, NumberFormat format, float scale) {
    const float scaleInv = 1.0f / scale;
    result.scale = scale;
    result.scaleInv = scaleInv;
    if (isFp8(format)) {
        castByEngine(result, format, scale);
    } else {
        result.codes.resize(result.inputs.size());
        for (size_t i = 0; i < result.inputs.size(); ++i) {
            const float scaled = result.inputs[i] * scale;
            result.codes[i] = encodeAs(format, scaled, result.request.roundUp);
            countOne(result.counters, format, result.inputs[i], scaled, result.codes[i]);
        }
    }
    result.dequantized.resize(result.inputs.size());
    for (size_t i = 0; i < result.codes.size(); ++i)
        result.dequantized[i] = decodeAs(format, result.codes[i]) * scaleInv;
}

struct BlockShape {
    kernels::BlockRule rule;
    int64_t rows = 1, cols = 128;
};

BlockShape blockShapeOf(const TensorRequest& request, NumberFormat format) {
    BlockShape shape;
    shape.rule.format = format == NumberFormat::E2m1   ? kernels::DType::E2M1
                        : format == NumberFormat::E4m3 ? kernels::DType::E4M3
                                                       : kernels::DType::E5M2;
    shape.rule.powerOfTwo = request.powerOfTwo;
    shape.rule.epsilon = request.epsilon;
    shape.rule.largestScale = kernels::floatFromBits(request.dtype == "bf16" ? 0x7F7F0000u : kernels::kFloatMaxFinite);
    if (request.recipe == "block128x128") shape.rows = 128;
    if (request.recipe == "mxfp8") shape.rule.kind = kernels::BlockKind::Mxfp8, shape.cols = 32;
    if (request.recipe == "nvfp4") shape.rule.kind = kernels::BlockKind::Nvfp4, shape.cols = 16;
    return shape;
}

/// Exchanges values, codes, scaleInv and counters for the GPU's; where it writes values alone, codes are those of the
/// values under the scales of the blocks.
void castBlocksOnGpu(TensorResult& result, const BlockShape& shape, kernels::BlockCast& cast) {
    const TensorRequest& request = result.request;
    GpuCasts::BlockValues there =
        GpuCasts(request.device)
            .castBlocks(shape.rule, result.inputs, request.rows, request.cols, shape.rows, shape.cols);
    cast.values = std::move(there.values);
    for (size_t i = 0; i < there.scaleInv.size(); ++i) cast.scales[i].scaleInv = there.scaleInv[i];
    takeCounters(result, there.slot);
    if (!there.codes.empty()) {
        cast.codes.assign(there.codes.begin(), there.codes.end());
        return;
    }
    if (shape.rule.kind == kernels::BlockKind::Nvfp4) cast.tensorScale = there.tensorScale;
    for (size_t i = 0; i < cast.values.size(); ++i) {
        const auto row = static_cast<int64_t>(i) / request.cols, col = static_cast<int64_t>(i) % request.cols;
        const kernels::BlockScale& scale =
            cast.scales[static_cast<size_t>(row / shape.rows * cast.blocksAcross + col / shape.cols)];
        const float unit = scale.scaleInv == 0 ? 0 : cast.values[i] / scale.scaleInv;
        cast.codes[i] = kernels::encodeScaled(unit, shape.rule.format);
    }
}

/// As the engine casts the row copy of a tensor.
void castBlocks(TensorResult& result, NumberFormat format) {
    const int64_t rows = result.request.rows, cols = result.request.cols;
    const BlockShape shape = blockShapeOf(result.request, format);
    kernels::BlockCast cast = kernels::castBlocks(shape.rule, result.inputs.data(), rows, cols, shape.rows, shape.cols);
    if (onGpu(result.request)) castBlocksOnGpu(result, shape, cast);
    const bool fp4 = shape.rule.kind == kernels::BlockKind::Nvfp4;
    const float tensorInv = 1.0f / cast.tensorScale;
    if (fp4) result.scale = cast.tensorScale, result.scaleInv = tensorInv;
    for (size_t i = 0; i < cast.scales.size(); ++i) {
        const kernels::BlockScale& scale = cast.scales[i];
        TensorBlock block;
        block.row = static_cast<int64_t>(i) / cast.blocksAcross,
        block.col = static_cast<int64_t>(i) % cast.blocksAcross;
        block.amax = cast.amax[i];
        block.scale = scale.scale;
        block.scaleInv = fp4 ? scale.scaleInv * tensorInv : scale.scaleInv;
        if (shape.rule.kind != kernels::BlockKind::Block128) block.scaleCode = scale.code;
        result.blocks.push_back(block);
    }
    for (size_t i = 0; i < cast.codes.size(); ++i) {
        const auto row = static_cast<int64_t>(i) / cols, col = static_cast<int64_t>(i) % cols;
        const kernels::BlockScale& scale =
            cast.scales[static_cast<size_t>(row / shape.rows * cast.blocksAcross + col / shape.cols)];
        const uint32_t code = fp4 ? (cast.codes[i] & 7u) | (cast.codes[i] >> 4 & 8u) : cast.codes[i];
        result.codes.push_back(code);
        result.dequantized.push_back(fp4 ? cast.values[i] * tensorInv : cast.values[i]);
        if (onGpu(result.request)) continue;
        const bool dead = scale.scaleInv == 0;  // nvfp4: the block's own scale underflowed, all its values are 0
        countOne(result.counters, format, result.inputs[i], dead ? 0 : result.inputs[i] * scale.scale, dead ? 0 : code);
    }
}

/// Error and range over the finite values.
void measure(TensorResult& result) {
    double squares = 0, errors = 0, smallest = kInf, largest = 0;
    int64_t finite = 0;
    for (size_t i = 0; i < result.inputs.size(); ++i) {
        const double x = result.inputs[i];
        if (!std::isfinite(x)) continue;
        const double error = result.dequantized[i] - x;
        ++finite;
        squares += x * x;
        errors += error * error;
        if (x == 0) continue;
        smallest = std::min(smallest, std::fabs(x));
        largest = std::max(largest, std::fabs(x));
    }
    result.mse = finite ? errors / static_cast<double>(finite) : kNan;
    result.sqnrDb = squares == 0 ? kNan : errors == 0 ? kInf : 10 * std::log10(squares / errors);
    if (largest > 0) result.dynamicRange = std::log2(largest / smallest);
}

float currentScaleOf(const TensorResult& result, NumberFormat format) {
    const TensorRequest& request = result.request;
    if (onGpu(request))
        return GpuCasts(request.device)
            .currentScale(result.inputs, fp8TypeOf(format), request.powerOfTwo, request.epsilon);
    return kernels::currentScale(result.amax, targetOf(format), request.powerOfTwo, request.epsilon);
}

bool updateDelayed(const TensorRequest& request, NumberFormat format, DelayedState& next) {
    if (onGpu(request))
        return GpuCasts(request.device)
            .delayedUpdate(next.history, algorithmOf(request), fp8TypeOf(format), request.margin, next.scale);
    return kernels::delayedUpdate(next.history.data(), static_cast<int>(next.history.size()), algorithmOf(request),
                                  targetOf(format), request.margin, next.scale);
}

}  // namespace

TensorResult runTensorBench(const TensorRequest& given) {
    TensorRequest request = given;
    if (request.recipe == "nvfp4") request.format = "e2m1";
    const NumberFormat format = formatOf(request);
    checkWords(request, format);
    checkNumbers(request);
    TensorResult result;
    result.inputs = request.values;
    if (request.dtype == "bf16")
        for (float& value : result.inputs) value = kernels::roundToBf16(value);
    result.request = request;
    result.request.values.clear();
    if (request.cols == 0) {
        result.request.rows = 1;
        result.request.cols = static_cast<int64_t>(request.values.size());
    }
    checkDevice(request, format, result.inputs);
    result.amax = amaxOf(result.inputs.data(), static_cast<int64_t>(result.inputs.size()));
    if (isBlockRecipe(request.recipe)) {
        castBlocks(result, format);
    } else if (request.recipe == "current") {
        castWithScale(result, format, currentScaleOf(result, format));
    } else if (request.recipe == "fixed") {
        castWithScale(result, format, request.scale.value_or(1.0f));
    } else {
        DelayedState next{startWindow(request), 1, true};
        result.request.historyLength = static_cast<int>(next.history.size());
        next.scale = startScale(request, next.history, format);
        castWithScale(result, format, next.scale);
        next.history[0] = std::max(next.history[0], result.amax);
        next.updated = updateDelayed(request, format, next);
        result.next = std::move(next);
    }
    measure(result);
    return result;
}

std::vector<TensorResult> tensorWhatIf(const TensorRequest& request) {
    struct Variant {
        const char* recipe;
        const char* format;
        bool powerOfTwo;
    };
    constexpr Variant kVariants[] = {
        {"current", "e4m3", false},     {"current", "e4m3", true},  {"current", "e5m2", false},
        {"current", "e5m2", true},      {"delayed", "e4m3", false}, {"delayed", "e5m2", false},
        {"fixed", "e4m3", false},       {"fixed", "e5m2", false},   {"block1x128", "e4m3", true},
        {"block128x128", "e4m3", true}, {"mxfp8", "e4m3", true},    {"mxfp8", "e5m2", true},
        {"nvfp4", "e2m1", true}};
    std::vector<TensorResult> results;
    for (const Variant& variant : kVariants) {
        TensorRequest one = request;
        one.recipe = variant.recipe;
        one.format = variant.format;
        one.powerOfTwo = variant.powerOfTwo;
        if (one.recipe == "fixed") one.scale.reset();
        results.push_back(runTensorBench(one));
    }
    return results;
}

std::vector<DecodedCode> decodeTensorCodes(const std::vector<uint32_t>& codes, const std::string& format, float scale) {
    TensorRequest request;
    request.format = format;
    request.scale = scale;
    const NumberFormat known = formatOf(request);
    checkNumbers(request);
    std::vector<DecodedCode> values;
    values.reserve(codes.size());
    for (uint32_t code : codes) values.push_back({code, decodeAs(known, code) * (1.0f / scale)});
    return values;
}

namespace {

/// Updates that an Inf in the window still keeps the scale for: entry `slot` takes part in that many further updates.
int frozenFor(const std::vector<float>& window, bool max) {
    for (int slot = static_cast<int>(window.size()) - 1; max && slot >= 1; --slot)
        if (std::isinf(window[static_cast<size_t>(slot)])) return slot;
    return 0;
}

/// Slot whose entry the rule picks, newest first among equals; slot 0 for most_recent.
int rulingSlot(const std::vector<float>& window, bool max) {
    size_t ruling = 0;
    for (size_t slot = window.size() - 1; max && slot >= 1; --slot)
        if (window[slot] > window[ruling] || std::isnan(window[ruling])) ruling = slot;
    return static_cast<int>(ruling);
}

}  // namespace

std::vector<TraceRow> traceDelayed(const TensorRequest& request, const std::vector<float>& amax) {
    const NumberFormat format = formatOf(request);
    TensorRequest delayed = request;
    delayed.recipe = "delayed";
    delayed.values.clear();
    delayed.rows = 1;
    delayed.cols = 0;
    checkWords(delayed, format);
    checkNumbers(delayed);
    checkDevice(delayed, format, {});
    const bool max = request.algorithm == "max";
    std::vector<float> window = startWindow(delayed);
    const int length = static_cast<int>(window.size());
    float scale = startScale(delayed, window, format);
    std::optional<float> ruling;
    int age = 0;
    std::vector<TraceRow> rows;
    for (size_t i = 0; i < amax.size(); ++i) {
        TraceRow row;
        row.update = static_cast<int>(i) + 1;
        row.amax = amax[i];
        row.scaleUsed = scale;
        window[0] = std::isnan(amax[i]) ? amax[i] : std::max(window[0], amax[i]);
        const int slot = rulingSlot(window, max);
        const float entry = window[static_cast<size_t>(slot)];
        DelayedState state{std::move(window), scale, true};
        row.updated = updateDelayed(delayed, format, state);
        window = std::move(state.history), scale = state.scale;
        if (row.updated) ++age;
        if (row.updated && entry > 0 && std::isfinite(entry)) {
            ruling = entry;
            age = slot == 0 ? 0 : length - slot;  // the newest closed entry came with the update before
        }
        row.window = window;
        row.nextScale = scale;
        row.rulingEntry = ruling;
        row.age = ruling ? age : 0;
        row.frozenFor = frozenFor(window, max);
        rows.push_back(std::move(row));
    }
    return rows;
}

}  // namespace mantissa::experiments
