// Inputs of weight gradients that stay from forward on, where a device has room: the same bits, one write less.
#include <gtest/gtest.h>

#include <memory>

#include "engine/trainer_core.h"
#include "tests/support/engine_configs.h"
#include "tests/support/forwarding_backend.h"

namespace mantissa::engine {
namespace {

using test::tinyConfig;
using test::tokensFor;

/// The CPU under another name and with as much memory as a test likes; counts how often backward makes an input again.
class Device final : public test::ForwardingBackend {
  public:
    Device(kernels::Backend& inner, uint64_t memory, uint64_t free) : ForwardingBackend(inner), info_(inner.info()) {
        info_.id = "elsewhere";
        info_.memoryTotal = memory, info_.memoryFree = free;
        onNormBackward = [this](kernels::NormBackward& op) { madeAgain += op.outAgain ? 1 : 0; };
        onActivationBackward = [this](kernels::ActivationBackward& op) { madeAgain += op.outAgain ? 1 : 0; };
    }
    const kernels::DeviceInfo& info() const override { return info_; }
    int madeAgain = 0;

  private:
    kernels::DeviceInfo info_;
};

struct Outcome {
    uint64_t hash = 0;
    std::vector<double> losses;
    int madeAgain = 0;
    size_t activations = 0;
};

constexpr uint64_t kRoom = uint64_t{1} << 40;
constexpr int kSteps = 3;

Outcome train(const TrainerConfig& config, uint64_t memory, bool share = true, uint64_t free = kRoom) {
    kernels::SerialExecutor executor;
    const auto inner = kernels::createCpuBackend(executor);
    Device device(*inner, memory, free);
    TrainerCore core(config, device, tokensFor(config), share);
    Outcome outcome;
    for (int step = 0; step < kSteps; ++step) outcome.losses.push_back(core.step().loss);
    outcome.madeAgain = device.madeAgain;
    outcome.losses.push_back(core.evaluate().loss);
    outcome.hash = core.stateHash();
    outcome.activations = core.memoryPlan().activations;
    return outcome;
}

void expectSameBits(const Outcome& kept, const Outcome& again, const std::string& what) {
    EXPECT_EQ(kept.losses, again.losses) << what;
    EXPECT_EQ(kept.hash, again.hash) << what;
}

TEST(KeptInputs, SameBitsMoreMemoryNothingMadeAgain) {
    for (PrecisionMode mode : {PrecisionMode::Fp32, PrecisionMode::Fp16, PrecisionMode::Bf16}) {
        TrainerConfig config = tinyConfig(mode, RecipeKind::Bf16);
        config.probes.shadowEvery = 2;
        const Outcome kept = train(config, kRoom), again = train(config, 0);
        expectSameBits(kept, again, modeName(mode));
        EXPECT_EQ(kept.madeAgain, 0);
        EXPECT_EQ(again.madeAgain, 3 * config.model.layers * kSteps);  // two norms and an activation
        EXPECT_GT(kept.activations, again.activations);
    }
}

TEST(KeptInputs, StayWhereTheDeviceHasTwiceTheRoomAlone) {
    const TrainerConfig config = tinyConfig(PrecisionMode::Bf16, RecipeKind::Bf16);
    const Outcome kept = train(config, kRoom);
    const uint64_t parameters = makeParameterLayout(config.model).size;
    const uint64_t least = 2 * (kept.activations + 18 * parameters);
    EXPECT_GT(train(config, least / 2).madeAgain, 0);
    EXPECT_EQ(train(config, least).madeAgain, 0);
    EXPECT_GT(train(config, least, true, least / 5 * 3).madeAgain, 0) << "others use the device too";
}

/// Products of one linear in different types: an input stays only where forward writes it in plain values anyway.
TEST(KeptInputs, SameBitsUnderRules) {
    for (RecipeKind recipe : {RecipeKind::Delayed, RecipeKind::Current, RecipeKind::Block128})
        for (uint8_t gemms = 1; gemms < 7; ++gemms)
            for (bool share : {true, false}) {
                TrainerConfig config = tinyConfig(PrecisionMode::Fp8, recipe);
                config.model.layers = 3;
                config.precision.rules = {{"h.1.*", gemms, RecipeKind::Bf16}, {"h.2.mlp.*", 7, RecipeKind::Bf16}};
                const Outcome kept = train(config, kRoom, share), again = train(config, 0, share);
                expectSameBits(kept, again, std::string(recipeName(recipe)) + ", products " + std::to_string(gemms));
                EXPECT_LT(kept.madeAgain, again.madeAgain);
            }
}

}  // namespace
}  // namespace mantissa::engine
