// Checkpoints: bit-identical resume (C10, P04), missing FP8 state, and files that cannot be used.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/checkpoint/safetensors.h"
#include "engine/trainer.h"
#include "kernels/error.h"
#include "tests/support/engine_configs.h"

namespace mantissa::engine {
namespace {

namespace fs = std::filesystem;
using test::tinyConfig;
using test::tokensFor;

class Checkpoint : public testing::Test {
  protected:
    Checkpoint() {
        char name[] = "/tmp/mantissa_checkpoint_XXXXXX";
        folder_ = mkdtemp(name);
    }
    ~Checkpoint() override { fs::remove_all(folder_); }
    std::string path(const std::string& name) const { return (folder_ / name).string(); }

    static TrainerConfig config(PrecisionMode mode = PrecisionMode::Fp8, RecipeKind recipe = RecipeKind::Delayed) {
        TrainerConfig config = tinyConfig(mode, recipe);
        config.accumulation = 2;
        config.batch = 2;
        return config;
    }
    fs::path folder_;
};

/// Losses of the steps that were run.
std::vector<double> run(Trainer& trainer, int64_t until) {
    std::vector<double> losses;
    while (trainer.stepIndex() < until) losses.push_back(trainer.step().loss);
    return losses;
}

std::vector<char> bytesOf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void writeBytes(const std::string& path, const std::vector<char>& bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST_F(Checkpoint, ResumeIsBitIdenticalCaseC10) {
    const TrainerConfig config = this->config();
    Trainer whole(config, {"cpu", 1, ""}, tokensFor(config));
    const std::vector<double> losses = run(whole, 40);
    {
        Trainer first(config, {"cpu", 2, ""}, tokensFor(config));
        run(first, 20);
        first.saveCheckpoint(path("step20"));
    }
    Trainer second(config, {"cpu", 3, ""}, tokensFor(config));
    const LoadNote note = second.loadCheckpoint(path("step20"), false);
    EXPECT_FALSE(note.fp8StateMissing);
    EXPECT_TRUE(note.text.empty()) << note.text;
    EXPECT_EQ(second.stepIndex(), 20);
    EXPECT_EQ(second.tokensSeen(), 20 * 256);
    const std::vector<double> rest = run(second, 40);
    ASSERT_EQ(rest.size(), 20u);
    for (size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i], losses[20 + i]) << "step " << 21 + i;
    EXPECT_EQ(second.stateHash(), whole.stateHash());
    for (int tensor = 0; tensor < 27; ++tensor) {
        EXPECT_EQ(second.window(tensor).scale, whole.window(tensor).scale);
        EXPECT_EQ(second.window(tensor).history, whole.window(tensor).history);
        EXPECT_EQ(second.window(tensor).updates, whole.window(tensor).updates);
    }
}

TEST_F(Checkpoint, ResumeInEveryPrecision) {
    for (const auto& [mode, recipe] :
         {std::pair{PrecisionMode::Fp16, RecipeKind::Bf16}, std::pair{PrecisionMode::Fp32, RecipeKind::Bf16},
          std::pair{PrecisionMode::Bf16, RecipeKind::Bf16}, std::pair{PrecisionMode::Fp8, RecipeKind::Current}}) {
        const TrainerConfig config = this->config(mode, recipe);
        Trainer whole(config, {"cpu", 1, ""}, tokensFor(config)), first(config, {"cpu", 1, ""}, tokensFor(config));
        run(whole, 8);
        run(first, 5);
        first.saveCheckpoint(path("c"));
        Trainer second(config, {"cpu", 2, ""}, tokensFor(config));
        run(second, 2);  // a trainer that has moved on takes the checkpoint's state entirely
        second.loadCheckpoint(path("c"), false);
        run(second, 8);
        EXPECT_EQ(second.stateHash(), whole.stateHash()) << static_cast<int>(mode);
    }
}

/// A rate at which FP16 overflows: skipped steps halve the loss scale, so that it is no longer the one a run begins
/// with.
TEST_F(Checkpoint, ResumeKeepsTheLossScale) {
    TrainerConfig config = this->config(PrecisionMode::Fp16, RecipeKind::Bf16);
    config.optimizer.learningRate = 1000;
    Trainer whole(config, {"cpu", 1, ""}, tokensFor(config));
    for (int i = 0; i < 6; ++i) whole.step();
    whole.saveCheckpoint(path("scaled"));
    Trainer resumed(config, {"cpu", 2, ""}, tokensFor(config));
    resumed.loadCheckpoint(path("scaled"), false);
    const double scale = whole.step().lossScale;
    EXPECT_LT(scale, 65536);
    EXPECT_GE(scale, 1);
    EXPECT_EQ(resumed.step().lossScale, scale);
    EXPECT_EQ(resumed.stateHash(), whole.stateHash());
}

TEST_F(Checkpoint, Fp8FromBf16SaysThatScalesStartAtOne) {
    const TrainerConfig bf16 = config(PrecisionMode::Bf16), fp8 = config();
    Trainer first(bf16, {"cpu", 1, ""}, tokensFor(bf16));
    run(first, 3);
    first.saveCheckpoint(path("bf16"));
    EXPECT_FALSE(readCheckpointInfo(path("bf16")).hasFp8State);
    EXPECT_EQ(readCheckpointInfo(path("bf16")).precision, "bf16");
    Trainer second(fp8, {"cpu", 1, ""}, tokensFor(fp8));
    run(second, 2);
    const LoadNote note = second.loadCheckpoint(path("bf16"), false);
    EXPECT_TRUE(note.fp8StateMissing);
    EXPECT_NE(note.text.find("24 of 24"), std::string::npos) << note.text;
    EXPECT_NE(note.text.find("scale 1"), std::string::npos) << note.text;
    EXPECT_EQ(second.stepIndex(), 3);
    EXPECT_EQ(second.window(0).scale, 1);
    EXPECT_EQ(second.window(0).updates, 0u);
}

TEST_F(Checkpoint, AnotherHistoryLengthKeepsTheNewest) {
    const TrainerConfig one = config();
    TrainerConfig other = one;
    other.precision.historyLength = 8;
    Trainer first(one, {"cpu", 1, ""}, tokensFor(one));
    run(first, 3);
    first.saveCheckpoint(path("l16"));
    Trainer second(other, {"cpu", 1, ""}, tokensFor(other));
    EXPECT_FALSE(second.loadCheckpoint(path("l16"), false).fp8StateMissing);
    for (int tensor = 0; tensor < static_cast<int>(first.catalogue().size()); ++tensor) {
        const WindowState from = first.window(tensor), to = second.window(tensor);
        EXPECT_EQ(from.scale, to.scale);
        EXPECT_EQ(from.updates, to.updates);
        if (from.history.empty()) continue;
        ASSERT_EQ(to.history.size(), 8u);
        EXPECT_TRUE(std::equal(to.history.begin() + 1, to.history.end(), from.history.end() - 7));
    }
}

TEST_F(Checkpoint, OtherClassMustBeAllowed) {
    const TrainerConfig config = this->config(PrecisionMode::Fp32);
    Trainer sse(config, {"cpu", 1, "sse"}, tokensFor(config)), best(config, {"cpu", 1, ""}, tokensFor(config));
    if (sse.determinismClass() == best.determinismClass()) GTEST_SKIP() << "this processor has one class only";
    run(sse, 1);
    sse.saveCheckpoint(path("sse"));
    EXPECT_THROW(best.loadCheckpoint(path("sse"), false), Error);
    EXPECT_EQ(best.stepIndex(), 0);
    const LoadNote note = best.loadCheckpoint(path("sse"), true);
    EXPECT_TRUE(note.otherClass);
    EXPECT_NE(note.text.find("not bit-identical from step 2"), std::string::npos) << note.text;
}

TEST_F(Checkpoint, WeightsFileIsPlainSafetensors) {
    const TrainerConfig config = this->config();
    Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
    run(trainer, 2);
    trainer.saveCheckpoint(path("c"));
    const FileReader file(path("c") + "/weights.safetensors");
    const SafetensorsIndex index = readSafetensorsIndex(file);
    int64_t count = 0;
    for (const SafetensorsEntry& entry : index.entries) {
        count += entry.count();
        EXPECT_EQ(readSafetensorsValues(file, entry), trainer.weight(entry.name)) << entry.name;
    }
    EXPECT_EQ(count, Trainer::parameterCount(config.model));
    ASSERT_NE(index.find("h.1.attn.qkv.weight"), nullptr);
    EXPECT_EQ(index.find("h.1.attn.qkv.weight")->shape, (std::vector<int64_t>{192, 64}));
    EXPECT_EQ(index.find("wte.weight")->shape, (std::vector<int64_t>{96, 64}));
}

TEST_F(Checkpoint, BadFilesAreRefusedAndChangeNothing) {
    const TrainerConfig config = this->config();
    Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
    run(trainer, 2);
    trainer.saveCheckpoint(path("good"));
    const auto state = bytesOf(path("good") + "/state.mantissa"),
               weights = bytesOf(path("good") + "/weights.safetensors");
    Trainer other(config, {"cpu", 1, ""}, tokensFor(config));
    run(other, 1);
    const uint64_t before = other.stateHash();
    int tried = 0;
    const auto expectRefused = [&](const std::string& directory) {
        ++tried;
        try {
            other.loadCheckpoint(directory, false);
            ADD_FAILURE() << "a bad checkpoint was loaded, case " << tried;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::InvalidFile) << error.what();
            EXPECT_NE(std::string(error.what()).find(directory), std::string::npos) << error.what();
        }
        EXPECT_EQ(other.stateHash(), before);
    };
    expectRefused(path("absent"));
    const auto damaged = [&](std::vector<char> newState, std::vector<char> newWeights) {
        fs::remove_all(path("bad"));
        fs::create_directories(path("bad"));
        writeBytes(path("bad") + "/state.mantissa", newState);
        writeBytes(path("bad") + "/weights.safetensors", newWeights);
        expectRefused(path("bad"));
    };
    const auto cut = [](std::vector<char> bytes, size_t size) {
        bytes.resize(size);
        return bytes;
    };
    const auto flip = [](std::vector<char> bytes, size_t at) {
        bytes[at] = static_cast<char>(bytes[at] ^ 4);
        return bytes;
    };
    for (size_t size : {size_t{0}, size_t{7}, size_t{100}, state.size() / 2, state.size() - 1})
        damaged(cut(state, size), weights);
    for (size_t size : {size_t{0}, size_t{7}, size_t{100}, weights.size() / 2, weights.size() - 1})
        damaged(state, cut(weights, size));
    for (size_t at = 0; at < state.size(); at += state.size() / 23) damaged(flip(state, at), weights);
    for (size_t at = 0; at < weights.size(); at += weights.size() / 23) damaged(state, flip(weights, at));
    damaged(std::vector<char>(5000, 'x'), weights);
    damaged(state, std::vector<char>(5000, 'x'));
    EXPECT_EQ(tried, 1 + 10 + 48 + 2);

    TrainerConfig wider = config;
    wider.model.ffn = 128;
    Trainer another(wider, {"cpu", 1, ""}, tokensFor(wider));
    try {
        another.loadCheckpoint(path("good"), false);
        FAIL();
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("ffn is 256 there and 128 here"), std::string::npos) << error.what();
    }
}

TEST_F(Checkpoint, SavingReplacesAtomically) {
    const TrainerConfig config = this->config();
    Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
    run(trainer, 1);
    trainer.saveCheckpoint(path("c"));
    run(trainer, 2);
    fs::create_directories(path("c.tmp"));  // left by a crash
    writeBytes(path("c.tmp") + "/state.mantissa", {'x'});
    trainer.saveCheckpoint(path("c"));
    EXPECT_EQ(readCheckpointInfo(path("c")).step, 2);
    EXPECT_FALSE(fs::exists(path("c.tmp")));
    EXPECT_FALSE(fs::exists(path("c.old")));
    // Killed between the two renames: the former checkpoint is still found.
    fs::rename(path("c"), path("c.old"));
    EXPECT_EQ(readCheckpointInfo(path("c")).step, 2);
}

TEST_F(Checkpoint, UnwritableFolderIsASentence) {
    const TrainerConfig config = this->config();
    Trainer trainer(config, {"cpu", 1, ""}, tokensFor(config));
    writeBytes(path("file"), {'x'});
    try {
        trainer.saveCheckpoint(path("file") + "/c");
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::Io);
        EXPECT_NE(std::string(error.what()).find(path("file")), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace mantissa::engine
