// The ladder: the same model with one optimisation added at a time, each rung a stored run; and the sweep that finds
// from which width on FP8 pays. Both are kept in the store, so that pages and tables can be redrawn from it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/spec/run_spec.h"
#include "experiments/store/run_store.h"

namespace mantissa::experiments {

enum class LadderMode : uint8_t { Rungs, Widths };
enum class RungState : uint8_t { NotRun, Running, Measured, Failed, Stopped };
const char* rungStateName(RungState state);  ///< "not_run", "running", "measured", "failed", "stopped"

/// Phases of a step in the order of the store: matmul, attention, norm / cast / elementwise, optimizer, gap.
inline constexpr int kLadderPhases = 5;
extern const char* const
    kLadderPhaseNames[kLadderPhases];  ///< "matmul", "attention", "elementwise", "optimizer", "gap"

/// One setting of the ladder.
struct RungPlan {
    std::string key;    ///< "fp32_unfused", "fused_adamw", "fused_norm", "bf16", "fp8_delayed", "fp8_current", ...
    std::string title;  ///< "+ fused AdamW"
    std::string note;   ///< "all tensors in one pass"
    int before = -1;    ///< index of the rung that it is compared with; -1: none
    int width = 0;      ///< model.width
    RunSpec spec;
};

/// What is asked for. Steps are optimizer steps; the first `warmup` of them are not timed.
struct LadderRequest {
    LadderMode mode = LadderMode::Rungs;
    RunSpec base;             ///< model, data, batch; precision.mode and the switches are set by each rung
    std::vector<int> widths;  ///< Widths: of the sweep, ascending
    int warmup = 5, steps = 20;
};

/// The rungs of a request in order. Throws InvalidConfig when a width cannot be cut into heads of the base's width.
std::vector<RungPlan> ladderRungs(const LadderRequest& request);
/// Half, once, twice and four times the base's width.
std::vector<int> defaultWidths(const RunSpec& base);

/// A rung as measured: medians over the timed steps.
struct RungResult {
    std::string key, title, note, run;  ///< run: ULID, "" when there is none
    int before = -1, width = 0;
    RungState state = RungState::NotRun;
    std::string text;    ///< why it failed
    bool refused = false;  ///< failed before step 0: the device is missing or the plan needs more memory than it has
    bool native = true;  ///< false: some product ran emulated
    int64_t step = 0;    ///< steps done so far
    int64_t timedSteps = 0;
    double stepMs = 0, spreadMs = 0;                   ///< median; half the distance between the quartiles
    bool hasSpread() const { return timedSteps > 1; }  ///< one step alone has none
    double phaseMs[kLadderPhases] = {};
    double tokensPerSecond = 0;
    uint64_t planBytes = 0;  ///< what is allocated before step 0; nothing is allocated later
    uint64_t peakBytes = 0;  ///< resident memory at its peak (CPU); 0: not measured
    std::map<std::string, uint64_t> planBy;
    std::optional<double> millijoulesPerToken;  ///< absent where the device does not measure energy long enough
};

/// A ladder as stored.
struct LadderResult {
    std::string id, preset;  ///< id: ULID
    LadderMode mode = LadderMode::Rungs;
    int warmup = 0, steps = 0;
    int64_t createdMs = 0, tokensPerStep = 0;
    int batch = 0, context = 0, layers = 0;
    std::string device, deviceName, isa;
    int threads = 0;
    std::vector<RungResult> rungs;

    const RungResult* find(const std::string& key, int width = 0) const;  ///< width 0: any
    const RungResult* before(const RungResult& rung) const;               ///< measured predecessor; null: none
};

/// Half the 95 % interval of the median's difference to the predecessor's, ms: 1.96 times the standard errors of both
/// medians, each 1.2533 σ / √n with σ = 1.4826 times the spread (normal steps). Infinite with less than two steps or
/// no predecessor.
double noiseMs(const LadderResult& ladder, const RungResult& rung);
/// Whether the time a rung brought can be told from the noise; true also where there is nothing to compare with.
bool told(const LadderResult& ladder, const RungResult& rung);
/// What a rung brought against its predecessor: "−25.3 ms, −2.3 GiB", "×9.7, −22.6 GiB", "start"; "time not told (±
/// 17.2 ms)" where the noise is larger than the difference; "" when not measured.
std::string whatItBrought(const LadderResult& ladder, const RungResult& rung);

/// From which width on FP8 is faster than BF16.
struct Crossover {
    struct Point {
        int width = 0;
        double bf16Ms = 0, fp8Ms = 0;
        bool told = true;  ///< the two differ by more than their steps scatter
        double ratio() const { return bf16Ms / fp8Ms; }
    };
    std::vector<Point> points;    ///< measured pairs, by width
    std::optional<double> width;  ///< interpolated over log2 of the width between its neighbours
    std::string text;             ///< "crosses at d = 980", or in words why there is none
};
Crossover crossover(const LadderResult& ladder);

/// Ladders of a store by id with preset and device, newest last.
struct LadderEntry {
    std::string id, preset, device;
    LadderMode mode = LadderMode::Rungs;
    int64_t createdMs = 0;
};
std::vector<LadderEntry> ladders(RunStore& store);
/// The newest of a preset and mode on a device ("" any), "" when there is none.
std::string newestLadder(RunStore& store, const std::string& preset, LadderMode mode);
/// The ladder of a request before anything was run.
LadderResult plannedLadder(const LadderRequest& request);
/// Reads document, runs and series. Throws InvalidConfig when there is no such ladder.
LadderResult readLadder(RunStore& store, const std::string& id);

/// What the store keeps of a ladder: the request and which run each rung became.
struct LadderDocument {
    std::string id;
    LadderRequest request;
    std::string device;
    int threads = 0;
    int64_t createdMs = 0;
    std::vector<std::string> runs;   ///< by rung; "" not run
    std::vector<std::string> texts;  ///< by rung: why it has no run
};
void writeLadder(RunStore& store, const LadderDocument& document);
LadderDocument readLadderDocument(RunStore& store, const std::string& id);

/// CSV, C locale, full precision; a row a rung.
std::string ladderCsv(const LadderResult& ladder);

}  // namespace mantissa::experiments
