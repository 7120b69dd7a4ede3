// Shared by the tests of experiments/: temporary folders, a scripted trainer, files compared byte by byte.
#pragma once

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "experiments/job/stepper.h"
#include "experiments/job/training_job.h"
#include "experiments/store/run_store.h"
#include "kernels/error.h"

namespace mantissa::experiments::test {

/// A folder of its own, removed at the end.
class TempFolder {
  public:
    TempFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "mantissa-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr) std::abort();
        path_ = pattern;
    }
    ~TempFolder() {
        std::error_code code;
        std::filesystem::remove_all(path_, code);
    }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

inline std::string readAll(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline void writeAll(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}

/// The sentence of the Error that `body` throws; "" when it throws none.
template <typename Body>
std::string sentence(Body body) {
    try {
        body();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

/// What a scripted step does; change the fields before the job starts.
struct Script {
    double seconds = 0;  ///< of a step
    std::function<double(int64_t)> loss = [](int64_t step) { return 4.0 / std::sqrt(static_cast<double>(step)); };
    std::function<void(engine::NumericsRecord&)> numerics;  ///< changes a step's record
    std::function<void(engine::StepMetrics&)> metrics;      ///< changes a step's metrics
    bool fp8StateMissing = false;
    std::function<void()> evaluated;          ///< called by evaluate()
    std::optional<uint64_t>* hash = nullptr;  ///< what stateHash gives; nullptr: nothing
    std::function<void(int64_t)> before;      ///< called before each step, on the job's thread
};

/// Numbers by formula: loss from the script, tensors with amax step / 64, scale 112 and counters that grow with the
/// step.
class FakeStepper : public Stepper {
  public:
    FakeStepper(const RunSpec& spec, Script script) : spec_(spec), script_(std::move(script)) {}

    engine::StepMetrics step() override {
        if (script_.before) script_.before(step_ + 1);
        if (script_.seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(script_.seconds));
        ++step_;
        engine::StepMetrics m;
        m.step = step_;
        m.loss = script_.loss(step_);
        m.gradientNorm = std::isfinite(m.loss) ? 1.0 / static_cast<double>(step_) : NAN;
        m.learningRate = 0.001 * factor_;
        m.tokens = 256;
        m.seconds = script_.seconds;
        m.finite = std::isfinite(m.loss);
        m.applied = m.finite;
        auto record = std::make_shared<engine::NumericsRecord>();
        record->step = step_;
        record->probed = probes_.every > 0 && step_ % probes_.every == 0;
        for (const auto& entry : catalogue()) {
            engine::TensorNumerics t;
            const bool weight = entry.role == engine::TensorRole::Weight;
            t.amax = weight ? 0.5f : static_cast<float>(step_) / 64;
            t.scale = 112;
            t.counters[0] = static_cast<uint64_t>(entry.rows * entry.cols);
            t.counters[1] = static_cast<uint64_t>(step_);
            t.dear = record->probed;
            if (t.dear) {
                t.minNonZero = 1e-6f;
                t.mse = 1e-7f * static_cast<float>(step_);
                t.sqnrDb = 31.5f;
                t.kurtosis = 3;
                t.exponents.assign(280, 0);
                t.exponents[150] = static_cast<uint32_t>(step_);
            }
            record->tensors.push_back(std::move(t));
        }
        if (script_.numerics) script_.numerics(*record);
        m.numerics = record;
        if (script_.metrics) script_.metrics(m);
        return m;
    }
    std::optional<uint64_t> stateHash() const override { return script_.hash ? *script_.hash : std::nullopt; }
    engine::EvalResult evaluate() override {
        if (script_.evaluated) script_.evaluated();
        return {script_.loss(step_) + 0.1, 1024, 0};
    }
    int64_t stepIndex() const override { return step_; }
    int64_t tokensSeen() const override { return step_ * 256; }
    engine::MemoryPlan memoryPlan() const override {
        engine::MemoryPlan plan;
        plan.weights = 1000;
        plan.moments = 2000;
        plan.workspace = probes_.shadowEvery > 0 ? 500 : 0;
        return plan;
    }
    std::vector<engine::CatalogueEntry> catalogue() const override {
        using engine::TensorRole;
        std::vector<engine::CatalogueEntry> list;
        for (int layer = 0; layer < 2; ++layer)
            for (const TensorRole role : {TensorRole::Input, TensorRole::Weight})
                list.push_back({"h." + std::to_string(layer), "mlp.fc1", role, "e4m3", "delayed", 256, 64});
        for (int layer = 0; layer < 2; ++layer)
            list.push_back(
                {"h." + std::to_string(layer), "mlp.fc1", TensorRole::GradOutput, "e5m2", "delayed", 256, 256});
        return list;
    }
    std::vector<engine::EffectivePrecision> effectivePrecision() const override {
        return {{"h.0", "mlp.fc1", "fprop", "e4m3", "e4m3", "bf16", "delayed", false, "scripted"}};
    }
    void setLearningRateFactor(double factor) override { factor_ = factor; }
    void setProbes(const engine::ProbeConfig& probes) override { probes_ = probes; }
    std::vector<std::string> setPrecision(const engine::PrecisionConfig& precision) override {
        if (precision.margin > 60) throw Error(ErrorCode::InvalidConfig, "the scripted trainer takes no such margin");
        spec_.trainer.precision = precision;
        return {"Scripted: windows kept."};
    }
    std::vector<float> captureTensor(int index) override { return std::vector<float>(256 * 64, 0.5f + index); }
    engine::WindowState window(int) const override { return {}; }
    void saveCheckpoint(const std::string& directory) const override {
        std::filesystem::create_directories(directory);
        writeAll(directory + "/state", std::to_string(step_));
    }
    engine::LoadNote loadCheckpoint(const std::string& directory, bool) override {
        step_ = std::stoll(readAll(directory + "/state"));
        engine::LoadNote note;
        note.fp8StateMissing = script_.fp8StateMissing;
        return note;
    }
    Facts facts() const override {
        Facts facts;
        facts.device = "cpu";
        facts.deviceName = "Scripted CPU";
        facts.isa = "none";
        facts.determinismClass = "x86-fma";
        facts.data = "no text";
        facts.threads = 1;
        facts.parameters = 1234;
        return facts;
    }

  private:
    RunSpec spec_;
    Script script_;
    engine::ProbeConfig probes_{};
    double factor_ = 1;
    int64_t step_ = 0;
};

inline JobOptions fakeOptions(const std::string& store, Script script = {}) {
    JobOptions options;
    options.store = store;
    options.headless = true;
    options.makeStepper = [script](const RunSpec& spec, const engine::DeviceChoice&,
                                   const std::function<void(const std::string&)>&) {
        return std::make_unique<FakeStepper>(spec, script);
    };
    return options;
}

inline RunSpec fakeSpec(int64_t steps) {
    RunSpec spec = presetSpec("tiny");
    spec.trainer.steps = steps;
    spec.evalEvery = 50;
    spec.checkpoint.every = 100;
    return spec;
}

/// Runs a job to its end; returns its last message.
inline JobEnded runFake(const RunSpec& spec, JobOptions options, std::string* id = nullptr,
                        std::vector<JobMessage>* messages = nullptr) {
    TrainingJob job(spec, std::move(options));
    if (id != nullptr) *id = job.runId();
    job.join();
    JobEnded ended;
    for (auto& message : job.drain()) {
        if (const auto* last = std::get_if<JobEnded>(&message)) ended = *last;
        if (messages != nullptr) messages->push_back(std::move(message));
    }
    return ended;
}

}  // namespace mantissa::experiments::test
