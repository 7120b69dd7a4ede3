// P14: the peak of resident memory while training is the forecast, within 5 % or 24 MiB, whichever is larger. Each case
// runs in a process of its own, because the peak (VmHWM) is a process's.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "engine/trainer.h"
#include "tests/support/engine_configs.h"

namespace mantissa::engine {
namespace {

/// A field of /proc/self/status in bytes.
int64_t statusBytes(const std::string& field) {
    std::ifstream file("/proc/self/status");
    std::string word;
    int64_t kilobytes = 0;
    while (file >> word)
        if (word == field + ":" && file >> kilobytes) return kilobytes * 1024;
    return -1;
}

struct Peak {
    int64_t measured = 0, planned = 0;
};

Peak trainInChild(const TrainerConfig& config) {
    int channel[2];
    if (pipe(channel) != 0) return {};
    const pid_t child = fork();
    if (child == 0) {
        const auto tokens = test::tokensFor(config);
        const int64_t before = statusBytes("VmRSS");
        Peak peak;
        {
            Trainer trainer(config, {"cpu", 2, ""}, tokens);
            trainer.step();
            trainer.evaluate();
            peak = {statusBytes("VmHWM") - before, static_cast<int64_t>(trainer.memoryPlan().total())};
        }
        const bool written = write(channel[1], &peak, sizeof(peak)) == sizeof(peak);
        _exit(written ? 0 : 1);
    }
    close(channel[1]);
    Peak peak;
    const bool complete = read(channel[0], &peak, sizeof(peak)) == sizeof(peak);
    close(channel[0]);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(complete && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return peak;
}

void expectForecast(TrainerConfig config, const char* name) {
    constexpr int64_t kMebibyte = 1 << 20;
    const std::pair<PrecisionMode, RecipeKind> modes[] = {{PrecisionMode::Fp32, RecipeKind::Bf16},
                                                          {PrecisionMode::Bf16, RecipeKind::Bf16},
                                                          {PrecisionMode::Fp8, RecipeKind::Delayed},
                                                          {PrecisionMode::Fp8, RecipeKind::Current}};
    for (const auto& [mode, recipe] : modes) {
        config.precision.mode = mode;
        config.precision.recipe = recipe;
        const Peak peak = trainInChild(config);
        std::printf("%s %s %s: planned %.1f MiB, peak %.1f MiB\n", name, mode == PrecisionMode::Fp8 ? "fp8" : "",
                    recipe == RecipeKind::Current ? "current" : "", static_cast<double>(peak.planned) / kMebibyte,
                    static_cast<double>(peak.measured) / kMebibyte);
        EXPECT_LE(std::abs(peak.measured - peak.planned), std::max<int64_t>(24 * kMebibyte, peak.planned / 20))
            << name << " mode " << static_cast<int>(mode);
    }
}

TEST(MemoryForecast, Nano) {
    TrainerConfig config;
    config.precision.historyLength = 16;
    expectForecast(config, "nano");
}

TEST(MemoryForecast, TwoLayersOfMinigpt) {
    TrainerConfig config;
    config.model = {96, 768, 12, 2, 3072, 256, true};
    config.batch = 2;
    config.evalBatches = 1;
    expectForecast(config, "minigpt, 2 layers, batch 2");
}

}  // namespace
}  // namespace mantissa::engine
