#include "experiments/report/forecast.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "engine/plan/precision_plan.h"
#include "engine/thread_pool.h"
#include "experiments/job/process_memory.h"
#include "experiments/report/device_choice.h"
#include "experiments/store/run_store.h"
#include "kernels/backend.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace fs = std::filesystem;

namespace {

/// Bytes that the corpus takes in memory; opening it is the only way to know, so answers are kept by what was asked.
uint64_t corpusBytes(const RunSpec& spec, std::string& problem) {
    static std::mutex mutex;
    static std::map<std::string, uint64_t> known;
    const auto& data = spec.data;
    const std::string key = fmt::format("{}|{}|{}|{}|{}|{}", data.path, data.tokenizer, data.validationFraction,
                                        data.vocabulary, spec.trainer.model.context, spec.trainer.seed);
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
    try {
        return known[key] =
                   engine::TokenSource::open(data, spec.trainer.model.context, spec.trainer.seed)->bytesInMemory();
    } catch (const Error& error) {
        problem = error.what();
        return 0;
    }
}

/// GFLOP/s of one fprop product of the mode's operand type, timed once for each mode and thread count.
double timedRate(engine::PrecisionMode mode, const engine::DeviceChoice& device) {
    static std::mutex mutex;
    static std::map<std::string, double> known;
    const bool low = mode == engine::PrecisionMode::Bf16 || mode == engine::PrecisionMode::Fp8;
    const std::string key = fmt::format("{}|{}|{}", low, device.threads, device.isa);
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
    constexpr int64_t m = 512, n = 512, k = 512;
    engine::ThreadPool pool(device.threads);
    const auto backend = kernels::createCpuBackend(pool, device.isa);
    std::vector<float> a(m * k, 0.5f), b(n * k, 0.25f), out(m * n);  // big enough for both types
    kernels::Matmul op;
    op.m = m, op.n = n, op.k = k;
    op.a.data = a.data(), op.b.data = b.data(), op.out = out.data();
    op.a.ld = op.b.ld = k;
    op.ldOut = n;
    op.a.type = op.b.type = op.outType = low ? kernels::DType::BF16 : kernels::DType::F32;
    std::vector<unsigned char> scratch(backend->workspace(op) + 256);
    backend->bindWorkspace(reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 255) / 256 * 256),
                           scratch.size() - 256);
    double best = 1e9;
    const auto start = std::chrono::steady_clock::now();
    do {
        const auto begin = std::chrono::steady_clock::now();
        backend->run(op);
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    } while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(100));
    return known[key] = 2.0 * m * n * k / best / 1e9;
}

/// Memory free on a device now; 0 when not known.
uint64_t freeBytes(const std::string& device) {
    if (device == "cpu") return availableMemory();
    for (const auto& info : kernels::probeCuda())
        if (info.id == device && info.usable) return info.memoryFree;
    return 0;
}

/// Part of a whole step's time that products take on the CPU at small widths; the rest is attention, norms, casts and
/// the optimizer.
constexpr double kProductShare = 0.5;

void forecastTime(const RunSpec& spec, const engine::DeviceChoice& device, RunStore* store, Forecast& out) {
    const RunSummary* like = nullptr;
    std::vector<RunSummary> all;
    if (store != nullptr) all = store->runs();
    const std::string model = spec.modelName(), recipe = spec.recipeName();
    const std::string wanted = concreteDevice(device.device);
    for (const auto& run : all)
        if (run.model == model && run.recipe == recipe && run.device == wanted && run.tokensPerSecond > 0 &&
            run.step >= 20)
            like = &run;
    if (like != nullptr) {
        out.tokensPerSecond = like->tokensPerSecond;
        out.basis = fmt::format("from run {} on {}", like->name, like->deviceName);
    } else if (wanted != "cpu") {
        out.basis = "no run of this model and recipe on this GPU yet";
        return;
    } else {
        const double rate = timedRate(spec.trainer.precision.mode, device);
        out.tokensPerSecond = rate * 1e9 * kProductShare / engine::Trainer::flopsPerToken(spec.trainer.model);
        out.basis =
            fmt::format("rough: from a product timed on this CPU ({:.0f} GFLOP/s), taken as half of a step", rate);
    }
    double evaluations = spec.evalEvery > 0 ? static_cast<double>(spec.trainer.steps / spec.evalEvery) : 1;
    // Evaluation runs the forward pass only: a third of a step's work for the same tokens.
    const double evalTokens =
        evaluations * spec.trainer.evalBatches * spec.trainer.batch * spec.trainer.model.context / 3;
    out.seconds = (static_cast<double>(out.totalTokens) + evalTokens) / out.tokensPerSecond;
}

void forecastSpace(const RunSpec& spec, RunStore* store, Forecast& out) {
    // FP32 weights and two moments.
    out.checkpointBytes = static_cast<uint64_t>(out.parameters) * 12;
    const uint64_t tensors = spec.trainer.precision.mode == engine::PrecisionMode::Fp8
                                 ? static_cast<uint64_t>(spec.trainer.model.layers) * 12 + 3
                                 : 0;
    // 140 bytes of scalars a step; 20 bytes a tensor for the cheap set after compaction (measured on nano and minigpt).
    out.storeBytes = static_cast<uint64_t>(spec.trainer.steps) * (140 + tensors * 20);
    std::error_code code;
    const fs::path folder = fs::path(store != nullptr ? store->path() : defaultStorePath()).parent_path();
    const auto space = fs::space(folder.empty() ? "." : folder, code);
    if (!code) out.diskFreeBytes = space.available;
}

}  // namespace

Forecast forecast(const RunSpec& spec, const engine::DeviceChoice& given, RunStore* store) {
    Forecast out;
    const engine::DeviceChoice device = resolveDevice(given);
    out.parameters = engine::Trainer::parameterCount(spec.trainer.model);
    out.tokensPerStep = int64_t{spec.trainer.batch} * spec.trainer.accumulation * spec.trainer.model.context;
    out.totalTokens = out.tokensPerStep * spec.trainer.steps;
    std::string problem;
    const uint64_t corpus = corpusBytes(spec, problem);
    try {
        const engine::MemoryPlan plan = engine::Trainer::plan(spec.trainer, device, corpus);
        out.bytes = plan.total();
        out.by = {{"weights", plan.weights},         {"gradients", plan.gradients}, {"moments", plan.moments},
                  {"activations", plan.activations}, {"workspace", plan.workspace}, {"host", plan.host}};
        out.note = plan.note;
        out.availableBytes = freeBytes(concreteDevice(device.device));
        out.fits = out.availableBytes == 0 || out.bytes <= out.availableBytes;
        forecastTime(spec, device, store, out);
    } catch (const Error& error) {
        out.note = error.what();
        out.fits = false;
    }
    if (!problem.empty()) out.note = problem;
    forecastSpace(spec, store, out);
    return out;
}

std::vector<engine::EffectivePrecision> plannedPrecision(const RunSpec& spec) {
    const engine::PrecisionPlan plan = engine::makePrecisionPlan(spec.trainer.model, spec.trainer.precision);
    const char* const gemms[] = {"fprop", "dgrad", "wgrad"};
    const std::string plain =
        engine::modeName(spec.trainer.precision.mode == engine::PrecisionMode::Fp8 ? engine::PrecisionMode::Bf16
                                                                                   : spec.trainer.precision.mode);
    const std::string input = plan.inputFormat == kernels::DType::E5M2 ? "e5m2" : "e4m3",
                      weight = plan.weightFormat == kernels::DType::E5M2 ? "e5m2" : "e4m3";
    const std::string grad = plan.gradFormat == kernels::DType::E5M2 ? "e5m2" : "e4m3";
    std::vector<engine::EffectivePrecision> rows;
    for (const auto& linear : plan.linears)
        for (int gemm = 0; gemm < engine::kGemms; ++gemm) {
            engine::EffectivePrecision row;
            row.layer = linear.layerName;
            row.linear = linear.name;
            row.gemm = gemms[gemm];
            const bool fp8 = linear.fp8(static_cast<kernels::Gemm>(gemm));
            const std::string operands[3][2] = {{input, weight}, {grad, weight}, {grad, input}};
            row.a = fp8 ? operands[gemm][0] : plain;
            row.b = fp8 ? operands[gemm][1] : plain;
            row.recipe = fp8 ? engine::recipeName(linear.recipe[gemm]) : plain;
            rows.push_back(std::move(row));
        }
    return rows;
}

}  // namespace mantissa::experiments
