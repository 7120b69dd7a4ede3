#include "experiments/report/probe_cost.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>

#include "engine/data/token_source.h"

namespace mantissa::experiments {

namespace {

constexpr int kWarmUp = 3, kFewest = 5;
/// Of one kind's turn on a GPU: its clocks follow the power of what ran before, and a run reads its results one step
/// late. A single step between two of another kind would tell of neither (GPT-2 124M on an H200: the cheap set 8 %).
constexpr double kTurnMs = 300;

double medianOf(std::vector<double> values) {
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// Of one step, the mean of `steps`; metrics: the last one's.
double milliseconds(engine::Trainer& trainer, int steps, engine::StepMetrics& metrics) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 1; i <= steps; ++i) metrics = trainer.step(i < steps);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / steps;
}

int stepsOfTurn(const engine::Trainer& trainer, double stepMs) {
    if (trainer.deviceId() == "cpu" || !(stepMs > 0)) return 1;
    return std::clamp(static_cast<int>(std::ceil(kTurnMs / stepMs)), 1, 1000);
}

bool same(double a, double b) {
    return std::memcmp(&a, &b, sizeof(a)) == 0;
}

/// Interval of the median by ranks (binomial, normal approximation).
void interval(std::vector<double> values, double& low, double& high) {
    std::sort(values.begin(), values.end());
    const double n = static_cast<double>(values.size()), half = 0.98 * std::sqrt(n);
    const auto at = [&](double rank) { return values[static_cast<size_t>(std::clamp(std::floor(rank), 0.0, n - 1))]; };
    low = at(n / 2 - half);
    high = at(n / 2 + half);
}

/// Everything that looks at a run between two steps, and the state before and after.
std::vector<ProbeCost::Audit> audit(engine::Trainer& trainer) {
    std::vector<ProbeCost::Audit> audits;
    const auto look = [&](std::string what, const std::function<void()>& body) {
        const uint64_t before = trainer.stateHash();
        body();
        audits.push_back({std::move(what), before, trainer.stateHash()});
    };
    look("an evaluation", [&] { trainer.evaluate(); });
    look("the capture of every tensor, its passes run again", [&] {
        for (size_t tensor = 0; tensor < trainer.catalogue().size(); ++tensor)
            trainer.captureTensor(static_cast<int>(tensor));
    });
    look("switching all probes off and on", [&] {
        const engine::ProbeConfig probes = trainer.config().probes;
        trainer.setProbes({});
        trainer.setProbes(probes);
    });
    return audits;
}

}  // namespace

ProbeCost measureProbeCost(const RunSpec& spec, const engine::DeviceChoice& device, double seconds,
                           const std::function<bool()>& stop, const std::function<void(int)>& onRound) {
    const auto data = engine::TokenSource::open(spec.data, spec.trainer.model.context, spec.trainer.seed);
    std::unique_ptr<engine::Trainer> trainers[3];
    for (int kind = 0; kind < 3; ++kind) {
        RunSpec one = spec;
        engine::ProbeConfig& probes = one.trainer.probes;
        probes.counters = kind > 0;
        probes.opChecks = kind > 1;
        probes.flightSteps = 0;
        probes.every = probes.histograms = probes.shadowEvery = kind > 1 ? 1 : 0;
        probes.shadowMatch.clear();
        one.trainer.steps = 1 << 30;
        trainers[kind] = std::make_unique<engine::Trainer>(one.trainer, device, data);
    }
    ProbeCost cost;
    std::vector<double> times[3], cheap, everything;
    const auto start = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    for (int round = -kWarmUp; (elapsed() < seconds || cost.rounds < kFewest) && !(stop && stop()); ++round) {
        engine::StepMetrics metrics[3];
        double took[3];
        for (int turn = 0; turn < 3; ++turn) {  // another order each round: none always follows the same one
            const int kind = (round + kWarmUp) % 2 == 0 ? turn : 2 - turn;
            took[kind] = milliseconds(*trainers[kind], cost.turnSteps, metrics[kind]);
        }
        for (int kind = 1; kind < 3; ++kind)
            cost.identical = cost.identical && same(metrics[kind].loss, metrics[0].loss) &&
                             same(metrics[kind].gradientNorm, metrics[0].gradientNorm);
        if (round == -1) cost.turnSteps = stepsOfTurn(*trainers[0], took[0]);
        if (round < 0) continue;
        ++cost.rounds;
        for (int kind = 0; kind < 3; ++kind) times[kind].push_back(took[kind]);
        cheap.push_back(took[1] / took[0] - 1);
        everything.push_back(took[2] / took[1] - 1);
        if (onRound) onRound(cost.rounds);
    }
    if (cost.rounds == 0) return cost;
    cost.plainMs = medianOf(times[0]);
    cost.cheapMs = medianOf(times[1]);
    cost.everythingMs = medianOf(times[2]);
    cost.cheap = medianOf(cheap);
    interval(cheap, cost.cheapLow, cost.cheapHigh);
    cost.everything = medianOf(everything);
    interval(everything, cost.everythingLow, cost.everythingHigh);
    for (int kind = 1; kind < 3; ++kind)
        cost.identical = cost.identical && trainers[kind]->stateHash() == trainers[0]->stateHash();
    if (!(stop && stop())) cost.audits = audit(*trainers[2]);
    return cost;
}

ProbedSteps probedSteps(RunStore& store, const std::string& id, int64_t last) {
    const RunDocument document = store.document(id);
    const Series series = store.series(id, "step_ms");
    if (document.specs.empty() || series.steps.empty()) return {};
    const auto& [since, text] = document.specs.back();
    const ParsedSpec parsed = parseSpec(text);
    if (!parsed.ok()) return {};
    const engine::ProbeConfig& probes = parsed.spec.trainer.probes;
    const auto taken = [](int64_t step, int64_t every) { return every > 0 && step % every == 0; };
    const int64_t from = std::max(since + 1, series.steps.back() - last + 1);  // the first step sets things up
    std::vector<double> probed, plain;
    for (size_t i = 0; i < series.steps.size(); ++i) {
        const int64_t step = series.steps[i];
        if (step < from || !(series.values[i] > 0)) continue;
        (taken(step, probes.every) || taken(step, probes.shadowEvery) ? probed : plain).push_back(series.values[i]);
    }
    if (static_cast<int>(probed.size()) < kFewest || static_cast<int>(plain.size()) < kFewest) return {};
    const double rate = static_cast<double>(probed.size()) / static_cast<double>(probed.size() + plain.size());
    return {medianOf(probed), medianOf(plain), rate};
}

}  // namespace mantissa::experiments
