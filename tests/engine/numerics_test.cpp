// What the engine sees of its own numbers: probes change nothing, shadow products are right, captured tensors are those
// of the step that follows, and the first non-finite value is named where it was planted.
#include "engine/numerics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/trainer.h"
#include "kernels/error.h"
#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "tests/support/engine_configs.h"

namespace mantissa::engine {
namespace {

using test::tinyConfig;
using test::tokensFor;

constexpr RecipeKind kRecipes[] = {RecipeKind::Delayed,  RecipeKind::Current, RecipeKind::Fixed,
                                   RecipeKind::Block128, RecipeKind::Mxfp8,   RecipeKind::Nvfp4};

TrainerConfig withoutProbes(TrainerConfig config) {
    config.probes = {};
    config.probes.every = 0;
    config.probes.counters = config.probes.opChecks = false;
    return config;
}

TrainerConfig withAllProbes(TrainerConfig config) {
    config.probes.every = config.probes.histograms = config.probes.shadowEvery = 1;
    return config;
}

TEST(Probes, AllOnChangeNoBit) {
    for (RecipeKind recipe : kRecipes) {
        TrainerConfig base = tinyConfig(PrecisionMode::Fp8, recipe);
        base.accumulation = 2;
        base.precision.headFp8 = recipe != RecipeKind::Fixed;
        const TrainerConfig off = withoutProbes(base), on = withAllProbes(base);
        Trainer without(off, {"cpu", 2, ""}, tokensFor(off)), with(on, {"cpu", 2, ""}, tokensFor(on));
        for (int i = 0; i < 4; ++i) {
            const StepMetrics a = without.step(), b = with.step();
            ASSERT_EQ(a.loss, b.loss) << static_cast<int>(recipe) << " step " << i;
            EXPECT_TRUE(a.numerics->ops.empty());
            EXPECT_FALSE(b.numerics->ops.empty());
            EXPECT_EQ(b.numerics->shadow.size(), 27u);
        }
        EXPECT_EQ(without.stateHash(), with.stateHash()) << static_cast<int>(recipe);
    }
}

TEST(Probes, LookingLeavesTheStateUntouched) {
    for (RecipeKind recipe : kRecipes) {
        const TrainerConfig config = tinyConfig(PrecisionMode::Fp8, recipe);
        Trainer watched(config, {"cpu", 2, ""}, tokensFor(config)), alone(config, {"cpu", 2, ""}, tokensFor(config));
        watched.step(), alone.step();
        const uint64_t hash = watched.stateHash();
        for (int tensor : {0, 1, 17, 24}) watched.captureTensor(tensor);
        EXPECT_EQ(watched.stateHash(), hash) << static_cast<int>(recipe);
        watched.evaluate();
        EXPECT_EQ(watched.stateHash(), hash) << static_cast<int>(recipe);
        watched.blockScales(3);
        ProbeConfig probes = config.probes;
        probes.shadowEvery = 1;
        watched.setProbes(probes);
        EXPECT_EQ(watched.stateHash(), hash) << static_cast<int>(recipe);
        for (int i = 0; i < 3; ++i) EXPECT_EQ(watched.step().loss, alone.step().loss) << static_cast<int>(recipe);
        EXPECT_EQ(watched.stateHash(), alone.stateHash()) << static_cast<int>(recipe);
    }
}

/// Switched on while it runs, shadow products show in the memory plan, and the map of what ran stays that of training.
TEST(Probes, ShadowSwitchedOnShowsInThePlan) {
    TrainerConfig config = tinyConfig(PrecisionMode::Fp8, RecipeKind::Delayed);
    Trainer later(config, {"cpu", 2, ""}, tokensFor(config));
    const size_t without = later.memoryPlan().total();
    later.step();
    const auto before = later.effectivePrecision();
    ProbeConfig probes = config.probes;
    probes.shadowEvery = 1;
    later.setProbes(probes);
    EXPECT_FALSE(later.step().numerics->shadow.empty());
    config.probes = probes;
    const Trainer fromStart(config, {"cpu", 2, ""}, tokensFor(config));
    EXPECT_GT(later.memoryPlan().total(), without);
    EXPECT_EQ(later.memoryPlan().total(), fromStart.memoryPlan().total());
    const auto after = later.effectivePrecision();
    ASSERT_EQ(after.size(), before.size());
    for (size_t i = 0; i < after.size(); ++i)
        EXPECT_EQ(after[i].a + after[i].b + after[i].recipe, before[i].a + before[i].b + before[i].recipe) << i;
    probes.shadowEvery = 0;
    later.setProbes(probes);
    EXPECT_EQ(later.memoryPlan().total(), without);
}

/// amax and counters that the next step reports are those of the captured values.
TEST(Capture, IsTheTensorOfTheNextStep) {
    for (RecipeKind recipe : {RecipeKind::Delayed, RecipeKind::Current}) {
        TrainerConfig config = tinyConfig(PrecisionMode::Fp8, recipe);
        config.probes.every = 1;
        config.precision.headFp8 = true;
        Trainer trainer(config, {"cpu", 2, ""}, tokensFor(config));
        for (int i = 0; i < 3; ++i) trainer.step();
        std::vector<std::vector<float>> captured;
        for (size_t i = 0; i < trainer.catalogue().size(); ++i)
            captured.push_back(trainer.captureTensor(static_cast<int>(i)));
        const auto record = trainer.step().numerics;
        for (size_t i = 0; i < captured.size(); ++i) {
            const CatalogueEntry& entry = trainer.catalogue()[i];
            const TensorNumerics& seen = record->tensors[i];
            ASSERT_EQ(captured[i].size(), static_cast<size_t>(entry.rows * entry.cols)) << tensorName(entry);
            float amax = 0;
            double squares = 0, errors = 0;
            uint64_t underflow = 0;
            const auto format = entry.format == "e4m3" ? kernels::DType::E4M3 : kernels::DType::E5M2;
            for (float x : captured[i]) {
                const float back =
                    kernels::decodeFp8(kernels::encodeFp8(x * seen.scale, format), format) * (1 / seen.scale);
                amax = std::max(amax, std::fabs(x));
                underflow += x != 0 && back == 0;
                squares += static_cast<double>(x) * x;
                errors += (static_cast<double>(back) - x) * (static_cast<double>(back) - x);
            }
            EXPECT_EQ(amax, seen.amax) << tensorName(entry);
            EXPECT_EQ(underflow, seen.counters[2]) << tensorName(entry);
            EXPECT_NEAR(10 * std::log10(squares / errors), seen.sqnrDb, 1e-4) << tensorName(entry);
        }
    }
    const TrainerConfig config = tinyConfig(PrecisionMode::Fp8);
    Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
    EXPECT_FALSE(trainer.captureTensor(2).empty());  // before the first step
    EXPECT_THROW(trainer.captureTensor(27), Error);
    EXPECT_THROW(trainer.captureTensor(-1), Error);
}

/// fprop of h.0 mlp.fc1 from captured tensors, by the definition: codes, exact products, BF16 output, all in double.
TEST(Shadow, IsTheErrorOfTheProduct) {
    TrainerConfig config = tinyConfig(PrecisionMode::Fp8, RecipeKind::Current);
    config.probes.shadowEvery = 2;
    config.probes.shadowMatch = {"h.0.mlp.fc1"};
    Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
    EXPECT_TRUE(trainer.step().numerics->shadow.empty());
    const int input = 4, weight = 5;
    const std::vector<float> x = trainer.captureTensor(input), w = trainer.captureTensor(weight);
    const std::vector<float> bias = trainer.weight("h.0.mlp.fc1.bias");
    const auto record = trainer.step().numerics;
    ASSERT_EQ(record->shadow.size(), 3u);
    const ShadowRow& row = record->shadow[0];
    EXPECT_EQ(row.linear, 2);
    EXPECT_EQ(row.gemm, 0);
    EXPECT_EQ(row.rows, 64);
    const int64_t m = 256, k = 64, n = 256;
    const auto cast = [&](float value, int tensor) {
        const float scale = record->tensors[static_cast<size_t>(tensor)].scale;
        return kernels::decodeE4m3(kernels::encodeE4m3(value * scale)) * (1.0 / scale);
    };
    double wanted = 0, error = 0;
    for (int64_t sample = 0; sample < 64; ++sample)
        for (int64_t column = 0; column < n; ++column) {
            const int64_t line = sample * m / 64;
            double exact = 0, got = 0;
            for (int64_t i = 0; i < k; ++i) {
                const float a = x[static_cast<size_t>(line * k + i)], b = w[static_cast<size_t>(column * k + i)];
                exact += static_cast<double>(a) * b;
                got += cast(a, input) * cast(b, weight);
            }
            const double plus = kernels::roundToBf16(bias[static_cast<size_t>(column)]);
            const double off = kernels::roundToBf16(static_cast<float>(got + plus)) - (exact + plus);
            wanted += exact * exact;
            error += off * off;
        }
    EXPECT_NEAR(row.sqnrDb, 10 * std::log10(wanted / error), 0.02);
    EXPECT_NEAR(row.relativeError, std::sqrt(error / wanted), 1e-3 * row.relativeError + 1e-5);
    EXPECT_GT(row.sqnrDb, 20);
    EXPECT_LT(row.sqnrDb, 45);
}

TEST(Shadow, RanksBf16AboveFp8AndFp8AboveFp4) {
    double worst[3];
    int i = 0;
    for (auto [mode, recipe] :
         {std::pair{PrecisionMode::Bf16, RecipeKind::Bf16}, std::pair{PrecisionMode::Fp8, RecipeKind::Mxfp8},
          std::pair{PrecisionMode::Fp8, RecipeKind::Nvfp4}}) {
        TrainerConfig config = tinyConfig(mode, recipe);
        config.probes.shadowEvery = 1;
        Trainer trainer(config, {"cpu", 2, ""}, tokensFor(config));
        const auto record = trainer.step().numerics;
        ASSERT_EQ(record->shadow.size(), 27u);
        worst[i] = 1e9;
        for (const ShadowRow& row : record->shadow)
            if (row.linear != 8) worst[i] = std::min(worst[i], row.sqnrDb);
        ++i;
    }
    std::printf("worst SQNR: bf16 %.1f dB, mxfp8 %.1f dB, nvfp4 %.1f dB\n", worst[0], worst[1], worst[2]);
    EXPECT_GT(worst[0], worst[1] + 10);
    EXPECT_GT(worst[1], worst[2] + 5);
    TrainerConfig config = tinyConfig(PrecisionMode::Fp8);
    config.probes.shadowEvery = 1;
    config.probes.shadowMatch = {"h.9.*"};
    EXPECT_THROW(Trainer(config, {"cpu", 1, ""}, tokensFor(config)), Error);
}

PlantedFault fault(FaultKind kind, const std::string& target, int64_t channel, double value = 1000) {
    return {kind, 3, target, channel, value};
}

/// Runs to the planted step and gives its report; the steps before have none.
StepMetrics metricsOfFault(const PlantedFault& planted, NonfinitePolicy policy, RecipeKind recipe,
                           uint64_t* hashes = nullptr) {
    TrainerConfig config = tinyConfig(PrecisionMode::Fp8, recipe);
    config.faults = {planted};
    config.nonfinite = policy;
    config.accumulation = 2;
    Trainer trainer(config, {"cpu", 2, ""}, tokensFor(config));
    for (int i = 1; i < planted.step; ++i) {
        const StepMetrics metrics = trainer.step();
        EXPECT_TRUE(metrics.finite);
        EXPECT_EQ(metrics.trouble, nullptr);
    }
    const StepMetrics metrics = trainer.step();
    if (hashes) *hashes = trainer.stateHash();
    return metrics;
}

TEST(Trouble, NamesThePlantedPlace) {
    struct Case {
        PlantedFault planted;
        const char *layer, *op, *tensor;
        int64_t row, col;
        bool backward, loss, nan;
    };
    const Case cases[] = {{fault(FaultKind::WeightNan, "h.1.mlp.fc1/weight", 64 * 5 + 7), "h.1", "mlp.fc1.weight",
                           "h.1.mlp.fc1/weight", 5, 7, false, true, true},
                          {fault(FaultKind::WeightNan, "h.0.attn.qkv/weight", 3), "h.0", "attn.qkv.weight",
                           "h.0.attn.qkv/weight", 0, 3, false, true, true},
                          {fault(FaultKind::ActivationInf, "h.0.mlp.fc2/output", 11), "h.0", "mlp.fc2",
                           "h.0.mlp.fc2/output", 0, 11, false, true, false},
                          {fault(FaultKind::ActivationInf, "h.1.attn.proj/output", 2), "h.1", "attn.proj",
                           "h.1.attn.proj/output", 0, 2, false, true, false},
                          {fault(FaultKind::GradientNan, "h.1.mlp.fc2/grad_input", 9), "h.1", "mlp.fc2",
                           "h.1.mlp.fc2/grad_input", 0, 9, true, false, true},
                          {fault(FaultKind::GradientNan, "h.0.attn.qkv/grad_input", 1), "h.0", "attn.qkv",
                           "h.0.attn.qkv/grad_input", 0, 1, true, false, true}};
    for (const Case& c : cases)
        for (NonfinitePolicy policy : {NonfinitePolicy::Skip, NonfinitePolicy::Continue})
            for (RecipeKind recipe : {RecipeKind::Delayed, RecipeKind::Current, RecipeKind::Mxfp8}) {
                const StepMetrics metrics = metricsOfFault(c.planted, policy, recipe);
                EXPECT_FALSE(metrics.finite);
                ASSERT_NE(metrics.trouble, nullptr);
                const TroubleReport& report = *metrics.trouble;
                EXPECT_EQ(report.step, 3);
                EXPECT_EQ(report.first.layer, c.layer) << report.text;
                EXPECT_EQ(report.first.op, c.op) << report.text;
                EXPECT_EQ(report.tensor, c.tensor) << report.text;
                EXPECT_EQ(report.row, c.row) << report.text;
                EXPECT_EQ(report.col, c.col) << report.text;
                EXPECT_EQ(report.first.backward, c.backward) << report.text;
                EXPECT_EQ(report.reachedLoss, c.loss) << report.text;
                EXPECT_EQ(std::isnan(report.value), c.nan) << report.text;
                EXPECT_EQ(report.flight.size(), 2u);
                EXPECT_FALSE(report.chain.empty());
                EXPECT_NE(report.text.find(c.tensor), std::string::npos);
            }
}

/// With the optimizer skipped the state is that of a run which was not looked into.
TEST(Trouble, InspectionLeavesTheStateUntouched) {
    for (RecipeKind recipe : kRecipes) {
        if (recipe == RecipeKind::Fixed) continue;
        const PlantedFault planted = fault(FaultKind::GradientNan, "h.1.mlp.fc2/grad_input", 9);
        uint64_t inspected = 0;
        metricsOfFault(planted, NonfinitePolicy::Skip, recipe, &inspected);
        TrainerConfig config = tinyConfig(PrecisionMode::Fp8, recipe);
        config.accumulation = 2;
        Trainer healthy(config, {"cpu", 2, ""}, tokensFor(config));
        for (int i = 0; i < 2; ++i) healthy.step();
        const std::vector<float> weight = healthy.weight("h.1.mlp.fc2.weight");
        config.faults = {planted};
        TrainerConfig blind = config;
        blind.probes.opChecks = false, blind.probes.flightSteps = 0;  // no inspection
        Trainer unseen(blind, {"cpu", 2, ""}, tokensFor(blind)), trainer(config, {"cpu", 2, ""}, tokensFor(config));
        for (int i = 0; i < 2; ++i) unseen.step(), trainer.step();
        EXPECT_EQ(unseen.step().trouble, nullptr);
        EXPECT_NE(trainer.step().trouble, nullptr);
        EXPECT_EQ(trainer.weight("h.1.mlp.fc2.weight"), weight);
        EXPECT_EQ(trainer.stateHash(), unseen.stateHash());
        EXPECT_EQ(trainer.stateHash(), inspected);
        const StepMetrics next = trainer.step();  // and it goes on
        EXPECT_TRUE(next.finite);
        EXPECT_EQ(next.trouble, nullptr);
        EXPECT_FALSE(next.numerics->ops.empty());  // looked at in full for a while
        EXPECT_TRUE(next.numerics->tensors[0].dear);
    }
}

TEST(Trouble, ProbedStepsCountEveryOp) {
    TrainerConfig config = tinyConfig(PrecisionMode::Fp8);
    config.probes.every = 1;
    config.faults = {fault(FaultKind::ActivationInf, "h.0.mlp.fc2/output", 4)};
    Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
    for (int i = 0; i < 2; ++i)
        for (const OpCheck& check : trainer.step().numerics->ops) EXPECT_EQ(check.nan + check.inf, 0u) << opName(check);
    const auto record = trainer.step().numerics;
    const auto first =
        std::find_if(record->ops.begin(), record->ops.end(), [](const OpCheck& c) { return c.nan + c.inf > 0; });
    ASSERT_NE(first, record->ops.end());
    EXPECT_EQ(opName(*first), "h.0 mlp.fc2");
    EXPECT_EQ(first->inf, 1u);
    EXPECT_EQ(first->element, 4u);
}

TEST(Faults, ScalesFreezeOrNeverMove) {
    TrainerConfig config = tinyConfig(PrecisionMode::Fp8);
    config.precision.historyLength = 4;
    config.faults = {fault(FaultKind::FreezeScaleInf, "h.0.mlp.fc1/input", 0),
                     {FaultKind::NeverUpdate, 1, "h.1.mlp.fc1/input", 0, 0}};
    Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
    trainer.step(), trainer.step();
    const float frozen = trainer.window(4).scale;
    for (int i = 0; i < 3; ++i) {  // window of 4: slots 3, 2 and 1 hold the Inf
        trainer.step();
        EXPECT_EQ(trainer.window(4).scale, frozen) << i;
    }
    trainer.step();
    EXPECT_NE(trainer.window(4).scale, frozen);
    EXPECT_EQ(trainer.window(12).updates, 0u);
    EXPECT_EQ(trainer.window(12).scale, 1);
    trainer.setPrecision([&] {
        PrecisionConfig current = config.precision;
        current.recipe = RecipeKind::Current;
        return current;
    }());
    trainer.step();
    EXPECT_NE(trainer.window(12).scale, 1);
}

TEST(Faults, StaleWeightIsSeen) {
    TrainerConfig config = tinyConfig(PrecisionMode::Fp8);
    config.probes.every = 1;
    config.faults = {fault(FaultKind::StaleWeight, "h.1.mlp.fc1/weight", 0)};
    Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
    for (int step = 1; step <= 5; ++step) {
        const auto record = trainer.step().numerics;
        for (size_t i = 0; i < record->tensors.size(); ++i)
            EXPECT_EQ(record->tensors[i].staleCodes > 0, step > 3 && i == 13)
                << step << " " << tensorName(trainer.catalogue()[i]);
    }
    PrecisionConfig other = config.precision;
    other.historyLength = 8;
    trainer.setPrecision(other);  // builds the copies again
    EXPECT_EQ(trainer.step().numerics->tensors[13].staleCodes, 0u);
}

TEST(Faults, OutlierChannelKeepsTheFunction) {
    for (PrecisionMode mode : {PrecisionMode::Fp32, PrecisionMode::Fp8}) {
        TrainerConfig config = tinyConfig(mode), healthy = config;
        config.faults = {fault(FaultKind::OutlierChannel, "h.0.mlp.fc1/input", 5, 1024)};
        Trainer trainer(config, {"cpu", 2, ""}, tokensFor(config)), other(healthy, {"cpu", 2, ""}, tokensFor(healthy));
        StepMetrics metrics, reference;
        for (int i = 0; i < 3; ++i) metrics = trainer.step(), reference = other.step();
        if (mode == PrecisionMode::Fp32) {
            EXPECT_NEAR(metrics.loss, reference.loss, 1e-5);
        }
        if (mode == PrecisionMode::Fp8) {
            EXPECT_GT(metrics.numerics->tensors[4].amax, 100 * reference.numerics->tensors[4].amax);
            EXPECT_GT(metrics.numerics->tensors[4].counters[5], 200u);  // clipped, at least that channel
        }
    }
}

TEST(Faults, WrongOnesAreRefused) {
    const auto refused = [](const PlantedFault& planted, const char* part) {
        TrainerConfig config = tinyConfig(PrecisionMode::Fp8);
        config.faults = {planted};
        try {
            Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
            ADD_FAILURE() << planted.target;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::InvalidConfig);
            EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
        }
    };
    refused(fault(FaultKind::WeightNan, "h.7.mlp.fc1/weight", 0), "no such tensor");
    refused(fault(FaultKind::WeightNan, "h.0.mlp.fc1/input", 0), "weight");
    refused(fault(FaultKind::WeightNan, "h.0.mlp.fc1/weight", 1 << 20), "allowed: 0 ... 16383");
    refused(fault(FaultKind::OutlierChannel, "h.0.mlp.fc2/input", 0), "attn.qkv");
    refused(fault(FaultKind::OutlierChannel, "lm_head/input", 0), "untied");
}

}  // namespace
}  // namespace mantissa::engine
