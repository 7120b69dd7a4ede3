// mantissa_bench [matmul|attention|quantize|pool|step]... [--threads N] [--isa NAME] [--seconds S] [--model NAME]
// [--processor-time]: timings of single ops on the CPU, checked before they are timed, and of whole steps. Times are
// wall clock
// (--processor-time: of one thread on the processor); bodies of a table run interleaved.
// mantissa_bench train [--device D] --config nano,minigpt4,S32,M32,L16,X4 --precision
// bf16,fp8-delayed,fp8-current,fp8-block128
// [--statistics on|off] [--clip on|off] [--probe-every N] [--all-probes-every N] [--steps N]: whole training steps.
// mantissa_bench ops --device cuda|cpu --config M32: every op of a step with its share of what the device does at best.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>

#include "bench.h"
#include "kernels/device/device_info.h"
#include "kernels/error.h"

namespace mantissa::bench {

namespace {

struct Benchmark {
    const char* name;
    void (*run)(const Options&, engine::ThreadPool&);
};
constexpr Benchmark kBenchmarks[] = {{"matmul", matmulBench},
                                     {"attention", attentionBench},
                                     {"quantize", quantizeBench},
                                     {"pool", poolBench},
                                     {"step", stepBench}};

int run(int count, char** arguments) {
    Options options;
    options.isa = kernels::bestIsa();
    std::vector<std::string> wanted;
    for (int i = 1; i < count; ++i) {
        const std::string argument = arguments[i];
        const bool hasValue = i + 1 < count;
        if (argument == "--threads" && hasValue)
            options.threads = std::stoi(arguments[++i]);
        else if (argument == "--isa" && hasValue)
            options.isa = kernels::parseIsa(arguments[++i]);
        else if (argument == "--seconds" && hasValue)
            options.seconds = std::stod(arguments[++i]);
        else if (argument == "--model" && hasValue)
            options.model = arguments[++i];
        else if (argument == "--device" && hasValue)
            options.device = arguments[++i];
        else if (argument == "--config" && hasValue)
            options.configurations = arguments[++i];
        else if (argument == "--precision" && hasValue)
            options.precisions = arguments[++i];
        else if (argument == "--statistics" && hasValue)
            options.statistics = std::string(arguments[++i]) != "off";
        else if (argument == "--clip" && hasValue)
            options.clip = std::string(arguments[++i]) != "off";
        else if (argument == "--steps" && hasValue)
            options.steps = std::stoi(arguments[++i]);
        else if (argument == "--probe-every" && hasValue)
            options.probeEvery = std::stoi(arguments[++i]);
        else if (argument == "--all-probes-every" && hasValue)
            options.allProbesEvery = std::stoi(arguments[++i]);
        else if (argument == "--processor-time")
            useProcessorTime(), options.threads = 1;
        else
            wanted.push_back(argument);
    }
    if (wanted == std::vector<std::string>{"train"} || wanted == std::vector<std::string>{"ops"}) {
        fmt::print("commit {}\n", MANTISSA_COMMIT);
        wanted[0] == "train" ? trainBench(options) : opsBench(options);
        return 0;
    }
    for (const std::string& name : wanted)
        if (std::none_of(std::begin(kBenchmarks), std::end(kBenchmarks),
                         [&](const Benchmark& b) { return name == b.name; })) {
            fmt::print(
                stderr,
                "mantissa_bench: \"{}\" is not a benchmark; allowed: matmul, attention, quantize, pool, step, or "
                "train or ops alone\n",
                name);
            return 2;
        }
    engine::ThreadPool pool(options.threads);
    fmt::print("{}, {}, {} threads, commit {}\n", kernels::probeCpu().name, kernels::isaName(options.isa),
               pool.threadCount(), MANTISSA_COMMIT);
    for (const Benchmark& benchmark : kBenchmarks)
        if (wanted.empty() || std::find(wanted.begin(), wanted.end(), benchmark.name) != wanted.end())
            benchmark.run(options, pool);
    return 0;
}

}  // namespace

}  // namespace mantissa::bench

int main(int count, char** arguments) {
    try {
        return mantissa::bench::run(count, arguments);
    } catch (const mantissa::Error& error) {
        fmt::print(stderr, "error: mantissa_bench: {}\n", error.what());
        return error.code() == mantissa::ErrorCode::InvalidConfig ? 2 : 1;
    } catch (const std::exception& error) {
        fmt::print(stderr, "mantissa_bench: {}\n", error.what());
        return 1;
    }
}
