// What the benchmarks share: measuring, the machine's measured peaks, printing.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/thread_pool.h"
#include "kernels/device/cpu_memory.h"
#include "kernels/device/cpu_ops.h"

namespace mantissa::bench {

struct Options {
    int threads = 0;
    kernels::Isa isa = kernels::Isa::Sse;
    double seconds = 1;  ///< about this much time for one table
    std::string model;   ///< only this preset, when given
    // Of `train`:
    std::string device = "auto", configurations = "nano", precisions = "bf16,fp8-delayed";
    bool statistics = true;  ///< the cheap counters
    int probeEvery = 0;      ///< dear statistics every N steps; 0: never
    int allProbesEvery = 0;  ///< also exponents and shadow products of every linear; 0: never
    bool clip = true;        ///< gradient norm and clipping
    int steps = 0;           ///< exactly so many timed steps; 0: at least 20 and `seconds`
};

/// A model and batch that the peers' figures exist for.
struct Configuration {
    const char* name;
    engine::ModelConfig model;
    int batch;
};
/// Those that --config names. Throws InvalidConfig with the allowed names.
std::vector<Configuration> configurationsOf(const Options& options);

/// Bytes read and written a second by a plain copy: of the processor's memory, or of the current CUDA device's (0 in a
/// build without CUDA).
double copyRate(bool gpu);

/// With one thread on a busy machine: counts the calling thread's processor time instead of wall clock. Set before the
/// first measurement.
void useProcessorTime();

struct Timing {
    double best = 0, median = 0, worst = 0;  ///< seconds
};
Timing summarize(std::vector<double> seconds);

/// Each round calls every body once, in order, so that a neighbour's noise falls on all of them: at least 5 rounds
/// after a warm-up round, then until `seconds` have passed.
std::vector<Timing> measureInterleaved(const std::vector<std::function<void()>>& bodies, double seconds);

/// GFLOP/s of independent multiply-adds on all workers, measured once: F32, or BF16 dot products where the instruction
/// set has them (else the F32 figure, which is what BF16 runs on there).
double peakGflops(engine::ThreadPool& pool, kernels::Isa isa, bool bf16);

/// Memory as the engine gives it to ops (huge pages), and a workspace that grows with them.
class Workspace {
  public:
    Workspace(engine::ThreadPool& pool, kernels::Isa isa) { context_.executor = &pool, context_.isa = isa; }
    template <class Op>
    kernels::CpuContext of(const Op& op) {
        const size_t needed = workspaceCpu(op, context_);
        if (needed > context_.workspaceBytes) {
            context_.workspace = memory_.allocate(needed);
            context_.workspaceBytes = needed;
        }
        return context_;
    }
    /// A copy of `bytes` at `from`.
    void* copy(const void* from, size_t bytes) {
        void* to = memory_.allocate(bytes);
        std::memcpy(to, from, bytes);
        return to;
    }

  private:
    kernels::CpuMemory memory_;
    kernels::CpuContext context_;
};

void matmulBench(const Options& options, engine::ThreadPool& pool);
void attentionBench(const Options& options, engine::ThreadPool& pool);
void quantizeBench(const Options& options, engine::ThreadPool& pool);
void trainBench(const Options& options);
void opsBench(const Options& options);
void poolBench(const Options& options, engine::ThreadPool& pool);
void stepBench(const Options& options, engine::ThreadPool& pool);

}  // namespace mantissa::bench
