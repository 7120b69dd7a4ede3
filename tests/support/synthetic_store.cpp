#include "tests/support/synthetic_store.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "experiments/spec/run_spec.h"
#include "experiments/store/run_store.h"
#include "experiments/store/run_writer.h"
#include "experiments/store/ulid.h"

namespace mantissa::tests {

using namespace experiments;

namespace {

constexpr int kBias = 150, kBins = 280;  // bins of engine::TensorNumerics::exponents: floor(log2|x|) + 150

std::vector<engine::CatalogueEntry> catalogueOf(const RunSpec& spec, bool fp8) {
    std::vector<engine::CatalogueEntry> result;
    const int d = spec.trainer.model.width, f = spec.trainer.model.ffn;
    const auto add = [&](engine::TensorRole role) {
        for (int layer = 0; layer < spec.trainer.model.layers; ++layer) {
            for (const char* linear : {"attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"}) {
                for (int pass = 0; pass < (role == engine::TensorRole::GradOutput ? 1 : 2); ++pass) {
                    engine::CatalogueEntry entry;
                    entry.layer = "h." + std::to_string(layer);
                    entry.linear = linear;
                    entry.role = role == engine::TensorRole::GradOutput ? role
                                 : pass                                 ? engine::TensorRole::Weight
                                                                        : engine::TensorRole::Input;
                    entry.format = !fp8 ? "bf16" : entry.role == engine::TensorRole::GradOutput ? "e5m2" : "e4m3";
                    entry.recipe = fp8 ? "delayed" : "bf16";
                    entry.rows = pass ? f : 2048;
                    entry.cols = d;
                    result.push_back(entry);
                }
            }
        }
    };
    add(engine::TensorRole::Input);
    add(engine::TensorRole::GradOutput);
    return result;
}

/// One tensor whose values are log-normal around 2^centre: shares follow from the range that the scale leaves.
engine::TensorNumerics statistics(const engine::CatalogueEntry& entry, double centre, double spread, float amax,
                                  float scale, bool dear) {
    engine::TensorNumerics t;
    const bool e5m2 = entry.format == "e5m2";
    const double least = (e5m2 ? -17 : -10) - std::log2(double(scale)),
                 normal = (e5m2 ? -14 : -6) - std::log2(double(scale));
    const double largest = e5m2 ? 57344 : 448;
    const auto below = [&](double exponent) {
        return 0.5 * std::erfc((centre - exponent) / (spread * std::sqrt(2.0)));
    };
    const uint64_t elements = uint64_t(entry.rows * entry.cols);
    t.amax = amax;
    t.scale = scale;
    t.counters[0] = elements;
    t.counters[1] = elements / 1000;
    t.counters[2] = uint64_t(double(elements) * below(least));
    t.counters[3] = uint64_t(double(elements) * std::max(0.0, below(normal) - below(least)));
    if (double(amax) * double(scale) > largest * 1.3) {
        t.counters[4] = 40;
        t.counters[5] = 31;
    }
    if (dear) {
        t.dear = true;
        t.minNonZero = float(std::exp2(centre - 12));
        t.mse = 1e-9f;
        t.sqnrDb = float((e5m2 ? 25.6 : 31.5) - 40 * below(normal));
        t.kurtosis = float(3 + std::exp2(std::log2(double(amax)) - centre) * 0.2);
        t.exponents.assign(kBins, 0);
        for (int bin = 1; bin < 277; ++bin) {
            const double exponent = bin - kBias;
            const double share = below(exponent + 1) - below(exponent);
            t.exponents[size_t(bin)] = exponent > std::log2(double(amax)) ? 0 : uint32_t(double(elements) * share);
        }
    }
    return t;
}

}  // namespace

std::string addSyntheticRun(const std::string& path, const SyntheticRun& run) {
    RunStore store(path, RunStore::Mode::ReadWrite);
    RunSpec spec = presetSpec(run.preset);
    spec.trainer.steps = run.steps;
    spec.trainer.seed = run.seed;
    spec.trainer.precision.historyLength = run.historyLength;
    if (!run.fp8) {
        spec.trainer.precision.mode = engine::PrecisionMode::Bf16;
    }
    const std::string id = makeUlid();
    insertRun(store, id, spec, run.name, {}, "cpu");
    RunWriter writer(store, id, 1);
    RunDocument document;
    document.specJson = spec.toJson(-1);
    document.determinismClass = "x86-fma";
    document.isa = "avx512bf16";
    document.threads = 2;
    document.parameters = 820000;
    document.planBytes = {{"weights", 14u << 20},     {"gradients", 0},         {"moments", 9u << 20},
                          {"activations", 61u << 20}, {"workspace", 20u << 20}, {"host", 7u << 20}};
    document.dataDescription = "invented";
    document.trouble = run.trouble;
    document.catalogue = catalogueOf(spec, run.fp8);
    writer.setDocument(document);
    writer.setDevice("cpu", "Invented processor", 111u << 20);
    writer.setSteps(run.steps);
    std::mt19937_64 random(run.seed * 977 + (run.fp8 ? 1 : 0));
    std::normal_distribution<double> normal, sharedNormal;  // one a generator: each keeps a spare value
    std::mt19937_64 shared(run.seed);                       // the same tokens for all runs of a seed
    const auto& catalogue = document.catalogue;
    const size_t tensors = catalogue.size();
    const size_t spiked = tensors ? tensors - 2 : 0;
    std::vector<std::vector<float>> history(tensors);
    double clock = 0;
    for (int64_t step = 1; step <= run.done; ++step) {
        const double tokenNoise = sharedNormal(shared), t = double(step);
        StepRecord record;
        record.step = step;
        record.probed = step % spec.trainer.probes.every == 0;
        double loss = 1.25 + 3.3 * std::exp(-t / (0.035 * double(run.steps))) +
                      0.9 * std::exp(-t / (0.35 * double(run.steps))) + 0.035 * tokenNoise + 0.004 * normal(random) +
                      run.lossOffset;
        double norm = 0.42 + 2.2 * std::exp(-t / (0.02 * double(run.steps))) + 0.05 * std::fabs(normal(random));
        if (run.spikeAt && step >= run.spikeAt && step < run.spikeAt + 3) {
            norm = 14.2 / double(1 + step - run.spikeAt);
            loss += 0.5 / double(1 + step - run.spikeAt);
        }
        const bool bad = run.nonFiniteFrom && step >= run.nonFiniteFrom && step <= run.nonFiniteTo;
        if (bad) {
            loss = norm = NAN;
        }
        const double ms = (49.6 / run.speed + 0.5 * std::fabs(normal(random)) + (step % 97 == 0 ? 5 : 0)) /
                          (step > run.done - run.fastLast ? 3 : 1);
        clock += ms / 1e3;
        const double tokens = 2048;
        const double warm = std::min(1.0, t / 40.0),
                     cosine =
                         0.1 + 0.45 * (1 + std::cos(3.14159265 *
                                                    std::min(1.0, std::max(0.0, (t - 40) / (double(run.steps) - 40)))));
        record.scalars = {{Metric::Loss, loss},
                          {Metric::GradNorm, norm},
                          {Metric::LearningRate, 5e-3 * warm * (t <= 40 ? 1 : cosine)},
                          {Metric::Tokens, tokens * t},
                          {Metric::TokensPerSecond, tokens / ms * 1e3},
                          {Metric::StepMs, ms},
                          {Metric::MemoryBytes, 118.0 * (1 << 20)},
                          {Metric::PhaseMatmul, ms * (run.fp8 ? 0.42 : 0.55)},
                          {Metric::PhaseAttention, ms * 0.13},
                          {Metric::PhaseElementwise, ms * 0.24},
                          {Metric::PhaseOptimizer, ms * 0.1},
                          {Metric::Seconds, clock}};
        if (run.scalarsOnly)
            record.scalars = {{Metric::Loss, loss}, {Metric::Tokens, tokens * t}, {Metric::Seconds, clock}};
        engine::NumericsRecord numerics;
        numerics.step = step;
        numerics.probed = record.probed;
        for (size_t i = 0; i < tensors && !run.scalarsOnly; ++i) {
            const auto& entry = catalogue[i];
            if (!run.fp8) {
                numerics.tensors.emplace_back();  // as the engine has it: statistics come from the cast
                continue;
            }
            const bool gradient = entry.role == engine::TensorRole::GradOutput;
            const double centre = gradient                                   ? -23 - 0.2 * double(i % 7)
                                  : entry.role == engine::TensorRole::Weight ? -5
                                                                             : -1;
            float amax = float(std::exp2(centre + (gradient ? 12 : 4) + 0.25 * normal(random)));
            if (gradient && i == spiked && run.spikeAt == step) {
                amax *= 90000;
            } else if (gradient && i + 3 == tensors && run.spikeAt == step) {
                amax *= 9000;
            }
            auto& window = history[i];
            const float largest = gradient ? 57344.f : 448.f;
            const float ruling = window.empty() ? 0 : *std::max_element(window.begin(), window.end());
            const float scale = ruling > 0 ? largest / ruling : 1.f;
            engine::TensorNumerics one = statistics(entry, centre, gradient ? 2.4 : 1.6, amax, scale, record.probed);
            if (!run.exponents) one.exponents.clear();
            if (bad && i == spiked) {
                one.counters[7] = 3;
            }
            numerics.tensors.push_back(one);
            window.push_back(amax);
            if (int(window.size()) > run.historyLength - 1) {
                window.erase(window.begin());
            }
        }
        writer.addStep(record, run.scalarsOnly ? nullptr : &numerics);
        if (step % (run.scalarsOnly ? std::max<int64_t>(1, run.steps / 20) : std::max<int64_t>(50, run.steps / 200)) ==
                0 ||
            step == run.done) {
            writer.addEvaluation(step, bad ? NAN : loss - 0.035 * tokenNoise + 0.012 + 0.003 * normal(random));
        }
        if (step % (run.steps / 3 + 1) == 0) {
            writer.addEvent({0, step, 0, "checkpoint", "Checkpoint written.", "", 0, "", "", -1});
        }
        if (run.spikeAt && step == run.spikeAt + 4 && tensors) {
            writer.addEvent({0, step, 0, "alert", "Underflow over 0.1 % of dy.", "underflow", 1,
                             catalogue[spiked].layer, catalogue[spiked].linear + "/grad_output", int(spiked)});
        }
        if (run.nonFiniteFrom == step) {
            writer.addEvent({0, step, 0, "alert", "The loss is not finite.", "non_finite", 2,
                             tensors ? catalogue[spiked].layer : "", "", tensors ? int(spiked) : -1});
        }
        if (step % std::max<int64_t>(200, run.steps / 50) == 0) {
            writer.flush();
        }
    }
    writer.setStatus(statusFromName(run.status).value_or(RunStatus::Finished));
    writer.setPeakBytes(121u << 20);
    writer.flush(true);
    return id;
}

}  // namespace mantissa::tests
