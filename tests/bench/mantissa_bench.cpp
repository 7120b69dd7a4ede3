// Reads the command line of mantissa_bench and runs what it asks for; kUsage says what there is.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <string>
#include <vector>

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

constexpr const char* kUsage =
    R"(Timings of single ops on the CPU, checked before they are timed, and of whole training steps.
usage: mantissa_bench [matmul|attention|quantize|pool|step]... [options]   on the CPU; all of them where none is named
       mantissa_bench train [options]   whole steps as a user gets them, on any device
       mantissa_bench ops [options]     every op of a step with its share of what the device does at best
  --threads N              CPU threads, 0 to 4096 (0: all)
  --seconds S              about so much time for one table (default 1)
  --isa NAME               sse, avx2, avx512, avx512bf16 (default: the best here)
  --model NAME             matmul, attention, step: nano or minigpt alone
  --processor-time         matmul, attention, quantize, pool, step: one thread on the processor, not wall clock
  --device D               train: auto, cpu, cuda or cuda:N; ops: cpu or cuda
  --config LIST            train, ops: nano, minigpt4, S32, M32, L16, X4 (default nano)
  --precision LIST         train: fp32, tf32, fp16, bf16, fp8-delayed, fp8-current, fp8-block128; +head after an FP8 one
  --statistics on|off      train: the counters of every cast
  --clip on|off            train: gradient norm and clipping
  --steps N                train: exactly so many timed steps
  --probe-every N          train: SQNR, kurtosis and op counts every N steps
  --all-probes-every N     train: exponents and shadow products too
Exit codes: 0 done, 1 failed, 2 bad input, 4 device or memory refused.
Example: mantissa_bench train --config nano --precision bf16,fp8-delayed --device cpu
)";

[[noreturn]] void refuse(const std::string& name, const std::string& text, const std::string& allowed) {
    throw Error(ErrorCode::InvalidConfig, fmt::format("{}: \"{}\"; allowed: {}", name, text, allowed));
}

template <class Number>
Number number(const std::string& name, const std::string& text, Number least, Number most) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most))
        refuse(name, text, fmt::format("a number {} … {}", least, most));
    return value;
}

std::string oneOf(const std::string& name, const std::string& text, const std::vector<std::string>& words) {
    if (std::find(words.begin(), words.end(), text) == words.end())
        refuse(name, text, fmt::format("{}", fmt::join(words, ", ")));
    return text;
}

/// Takes one option with its value. False where there is no such option.
bool take(Options& options, const std::string& name, const std::string& value) {
    constexpr int kMost = 1000000;
    if (name == "--threads")
        options.threads = number(name, value, 0, 4096);
    else if (name == "--isa")
        options.isa = kernels::parseIsa(value);
    else if (name == "--seconds")
        options.seconds = number(name, value, 0.0, 86400.0);
    else if (name == "--model")
        options.model = oneOf(name, value, {"nano", "minigpt"});
    else if (name == "--device")
        options.device = value;
    else if (name == "--config")
        options.configurations = value;
    else if (name == "--precision")
        options.precisions = value;
    else if (name == "--statistics")
        options.statistics = oneOf(name, value, {"on", "off"}) == "on";
    else if (name == "--clip")
        options.clip = oneOf(name, value, {"on", "off"}) == "on";
    else if (name == "--steps")
        options.steps = number(name, value, 0, kMost);
    else if (name == "--probe-every")
        options.probeEvery = number(name, value, 0, kMost);
    else if (name == "--all-probes-every")
        options.allProbesEvery = number(name, value, 0, kMost);
    else
        return false;
    return true;
}

/// Reads the options; returns the benchmarks that are named.
std::vector<std::string> parse(const std::vector<std::string>& arguments, Options& options) {
    std::vector<std::string> wanted;
    for (size_t i = 0; i < arguments.size(); ++i) {
        const std::string& argument = arguments[i];
        if (argument == "--processor-time") {
            useProcessorTime(), options.threads = 1;
        } else if (!argument.starts_with('-')) {
            wanted.push_back(argument);
        } else if (i + 1 < arguments.size() && take(options, argument, arguments[i + 1])) {
            ++i;
        } else {
            refuse("option", argument, "what --help lists, each with its value");
        }
    }
    return wanted;
}

/// Throws InvalidConfig where the benchmarks do not exist or do not go with each other or the device.
void check(const std::vector<std::string>& wanted, const Options& options) {
    for (const std::string& name : wanted) {
        if (name == "train" || name == "ops") {
            if (wanted.size() > 1) refuse("benchmark", fmt::format("{}", fmt::join(wanted, " ")), name + " alone");
            continue;
        }
        if (std::none_of(std::begin(kBenchmarks), std::end(kBenchmarks),
                         [&](const Benchmark& b) { return name == b.name; }))
            refuse("benchmark", name, "matmul, attention, quantize, pool, step, or train or ops alone");
    }
    if (wanted == std::vector<std::string>{"ops"})
        oneOf("--device", options.device, {"auto", "cpu", "cuda", "cuda:0"});
    else if (wanted != std::vector<std::string>{"train"} && options.device != "auto" && options.device != "cpu")
        refuse("--device", options.device, "cpu; train and ops measure a GPU");
}

int run(const std::vector<std::string>& arguments) {
    for (const std::string& argument : arguments)
        if (argument == "--help" || argument == "-h") {
            fmt::print("{}", kUsage);
            return 0;
        }
    Options options;
    options.isa = kernels::bestIsa();
    const std::vector<std::string> wanted = parse(arguments, options);
    check(wanted, options);
    if (wanted == std::vector<std::string>{"train"} || wanted == std::vector<std::string>{"ops"}) {
        fmt::print("commit {}\n", MANTISSA_COMMIT);
        wanted[0] == "train" ? trainBench(options) : opsBench(options);
        return 0;
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
    using mantissa::ErrorCode;
    try {
        return mantissa::bench::run({arguments + 1, arguments + count});
    } catch (const mantissa::Error& error) {
        fmt::print(stderr, "error: mantissa_bench: {}\n", error.what());
        if (error.code() == ErrorCode::InvalidConfig) return 2;
        return error.code() == ErrorCode::DeviceUnavailable || error.code() == ErrorCode::OutOfMemory ? 4 : 1;
    } catch (const std::exception& error) {
        fmt::print(stderr, "error: mantissa_bench: {}\n", error.what());
        return 1;
    }
}
