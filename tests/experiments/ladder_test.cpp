// The ladder: rungs that are real switches, stored runs, results redrawn from the store, failures that do not stop it.
#include "experiments/ladder/ladder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "experiments/ladder/ladder_job.h"
#include "experiments/ladder/ladder_picture.h"
#include "experiments/spec/resources.h"
#include "experiments/store/database.h"
#include "tests/experiments/support.h"

namespace mantissa::experiments {
namespace {

using test::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;

LadderRequest tinyRequest(LadderMode mode = LadderMode::Rungs) {
    LadderRequest request;
    request.mode = mode;
    request.base = presetSpec("tiny");
    request.base.data.path = "text:generated";
    request.warmup = 2, request.steps = 5;
    return request;
}

LadderOptions options(const TempFolder& folder, LadderRequest request) {
    LadderOptions options;
    options.store = folder / "s.mantissa";
    options.request = std::move(request);
    options.device = {"cpu", 2, ""};
    return options;
}

LadderResult runLadder(LadderOptions options) {
    const std::string path = options.store;
    LadderJob job(std::move(options));
    job.join();
    EXPECT_EQ(job.progress().failed, "");
    RunStore store(path, RunStore::Mode::ReadOnly);
    return readLadder(store, job.id());
}

std::vector<std::string> changed(const RunSpec& before, const RunSpec& after) {
    std::vector<std::string> paths;
    for (const auto& difference : differences(before, after)) paths.push_back(difference.path);
    return paths;
}

TEST(Ladder, EachRungSwitchesOneThing) {
    const std::vector<RungPlan> rungs = ladderRungs(tinyRequest());
    ASSERT_EQ(rungs.size(), 7u);
    EXPECT_EQ(getPath(rungs[0].spec, "precision.mode"), "\"fp32\"");
    EXPECT_EQ(getPath(rungs[0].spec, "optimizer.fused"), "false");
    EXPECT_EQ(getPath(rungs[0].spec, "model.fused_norm"), "false");
    EXPECT_THAT(changed(rungs[0].spec, rungs[1].spec), ElementsAre("optimizer.fused"));
    EXPECT_THAT(changed(rungs[1].spec, rungs[2].spec), ElementsAre("model.fused_norm"));
    EXPECT_THAT(changed(rungs[2].spec, rungs[3].spec), ElementsAre("precision.mode"));
    EXPECT_THAT(changed(rungs[3].spec, rungs[4].spec), ElementsAre("precision.mode"));
    EXPECT_THAT(changed(rungs[4].spec, rungs[5].spec), ElementsAre("precision.recipe"));
    EXPECT_THAT(changed(rungs[4].spec, rungs[6].spec), ElementsAre("precision.recipe"));
    for (const RungPlan& rung : rungs) EXPECT_TRUE(validate(rung.spec).empty()) << rung.key;
}

TEST(Ladder, RunsTinyEndToEndThroughTheStore) {
    const TempFolder folder;
    const LadderResult ladder = runLadder(options(folder, tinyRequest()));
    ASSERT_EQ(ladder.rungs.size(), 7u);
    EXPECT_EQ(ladder.tokensPerStep, 4 * 64);
    EXPECT_EQ(ladder.device, "cpu");
    RunStore store(folder / "s.mantissa", RunStore::Mode::ReadOnly);
    for (const RungResult& rung : ladder.rungs) {
        ASSERT_EQ(rung.state, RungState::Measured) << rung.key << ": " << rung.text;
        EXPECT_EQ(rung.timedSteps, 5);
        EXPECT_GT(rung.stepMs, 0);
        EXPECT_NEAR(rung.tokensPerSecond, 256 / rung.stepMs * 1000, 1e-6 * rung.tokensPerSecond);
        double sum = 0;
        for (const double phase : rung.phaseMs) {
            EXPECT_GE(phase, 0);
            sum += phase;
        }
        EXPECT_GT(rung.phaseMs[0], 0) << "products were timed";
        EXPECT_GE(sum, rung.stepMs * 0.999);
        EXPECT_FALSE(rung.millijoulesPerToken) << "absent, not 0, where nothing measures it";
        const auto run = store.run(rung.run);
        ASSERT_TRUE(run);
        EXPECT_THAT(run->tags, ElementsAre("ladder"));
        EXPECT_EQ(run->step, 7);
        EXPECT_FALSE(run->hasValidation);
        EXPECT_TRUE(store.checkpoints(rung.run).empty());
    }
    // The switches change how, not what: the same bits in every step.
    const auto losses = [&](size_t rung) { return store.series(ladder.rungs[rung].run, "loss").values; };
    EXPECT_EQ(losses(0), losses(1));
    EXPECT_EQ(losses(1), losses(2));
    EXPECT_NE(losses(2), losses(3));
    EXPECT_NE(losses(3), losses(4));
    EXPECT_GT(ladder.rungs[1].planBytes, ladder.rungs[2].planBytes) << "the fused norm stores nothing in between";
    EXPECT_GT(ladder.rungs[2].planBytes, ladder.rungs[3].planBytes) << "BF16 halves the activations";
    EXPECT_TRUE(ladder.rungs[2].native);
    EXPECT_FALSE(ladder.rungs[4].native) << "FP8 on a CPU is emulated and must say so";
    EXPECT_EQ(whatItBrought(ladder, ladder.rungs[0]), "start");
    EXPECT_EQ(newestLadder(store, "tiny", LadderMode::Rungs), ladder.id);
    EXPECT_EQ(newestLadder(store, "tiny", LadderMode::Widths), "");

    const std::string csv = ladderCsv(ladder);
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 8);
    EXPECT_THAT(csv, HasSubstr("fp32_unfused,64,measured,true,"));
    EXPECT_THAT(ladderSvg(ladder), HasSubstr("+ fused AdamW"));
}

/// A stepper for every rung; BF16 cannot be made.
StepperFactory scripted(double seconds, bool bf16Fails) {
    return [=](const RunSpec& spec, const engine::DeviceChoice&,
               const std::function<void(const std::string&)>&) -> std::unique_ptr<Stepper> {
        if (bf16Fails && spec.trainer.precision.mode == engine::PrecisionMode::Bf16)
            throw Error(ErrorCode::OutOfMemory, "Not started: the plan needs 9 GiB, 1 GiB is free");
        test::Script script;
        script.seconds = seconds;
        return std::make_unique<test::FakeStepper>(spec, script);
    };
}

TEST(Ladder, MeasuresEnergyOverTenSecondsWhereThereIsACounter) {
    const TempFolder folder;
    LadderOptions given = options(folder, tinyRequest());
    given.only = {"bf16"};
    const auto start = std::chrono::steady_clock::now();
    given.makeStepper = [start](const RunSpec& spec, const engine::DeviceChoice&,
                                const std::function<void(const std::string&)>&) {
        test::Script script;
        script.seconds = 0.02;
        script.metrics = [start](engine::StepMetrics& metrics) {  // a board that draws 300 W
            const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
            metrics.device = engine::DeviceReading{300, 300 * seconds, 0, 1980, 0, 0};
        };
        return std::make_unique<test::FakeStepper>(spec, script);
    };
    const LadderResult ladder = runLadder(std::move(given));
    const RungResult& rung = *ladder.find("bf16");
    ASSERT_EQ(rung.state, RungState::Measured) << rung.text;
    EXPECT_EQ(rung.timedSteps, 5) << "steps for the energy alone are not timed";
    EXPECT_GT(rung.step, 100);
    ASSERT_TRUE(rung.millijoulesPerToken);
    RunStore store(folder / "s.mantissa", RunStore::Mode::ReadOnly);
    const Series joules = store.series(rung.run, "energy_j");
    const double seconds = (joules.values.back() - joules.values.front()) / 300;
    EXPECT_GE(seconds, 10);
    const double tokens = 256.0 * static_cast<double>(joules.steps.back() - joules.steps.front());
    EXPECT_NEAR(*rung.millijoulesPerToken, 300 * seconds / tokens * 1000, 0.03 * *rung.millijoulesPerToken);
    EXPECT_EQ(store.series(rung.run, "sm_mhz").values.back(), 1980);
    EXPECT_TRUE(store.series(rung.run, "celsius").values.empty()) << "what the board does not say has no series";
}

TEST(Ladder, AFailedRungSaysWhyAndTheNextGoesOn) {
    const TempFolder folder;
    LadderOptions given = options(folder, tinyRequest());
    given.makeStepper = scripted(0, true);
    const LadderResult ladder = runLadder(std::move(given));
    EXPECT_EQ(ladder.find("bf16")->state, RungState::Failed);
    EXPECT_THAT(ladder.find("bf16")->text, HasSubstr("the plan needs 9 GiB"));
    EXPECT_EQ(whatItBrought(ladder, *ladder.find("bf16")), "");
    for (const char* key : {"fp32_unfused", "fused_adamw", "fused_norm", "fp8_delayed", "fp8_current", "fp8_block128"})
        EXPECT_EQ(ladder.find(key)->state, RungState::Measured) << key;
    EXPECT_EQ(ladder.before(*ladder.find("fp8_delayed")), ladder.find("fused_norm")) << "compared with what there is";
}

TEST(Ladder, StopsAndFillsARungLater) {
    const TempFolder folder;
    LadderOptions given = options(folder, tinyRequest());
    given.request.steps = 1000;
    given.makeStepper = scripted(0.005, false);
    std::string id;
    {
        LadderJob job(given);
        id = job.id();
        while (job.progress().step < 3) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        job.stop();
        job.join();
        EXPECT_TRUE(job.progress().stopped);
    }
    const auto read = [&] {
        RunStore store(given.store, RunStore::Mode::ReadOnly);
        return readLadder(store, id);
    };
    EXPECT_EQ(read().rungs[0].state, RungState::Stopped);
    EXPECT_THAT(read().rungs[0].text, HasSubstr("of 1002 steps"));
    for (size_t i = 1; i < 7; ++i) EXPECT_EQ(read().rungs[i].state, RungState::NotRun);

    LadderOptions one = options(folder, {});
    one.ladder = id, one.only = {"fused_norm"};
    one.makeStepper = scripted(0, false);
    const LadderResult filled = runLadder(std::move(one));
    EXPECT_EQ(filled.id, id);
    EXPECT_EQ(filled.find("fused_norm")->state, RungState::Measured);
    EXPECT_EQ(filled.find("fused_norm")->timedSteps, 1000);
    EXPECT_EQ(filled.find("bf16")->state, RungState::NotRun);
}

TEST(Ladder, MistakesNameTheThingAndLeaveNoStore) {
    const TempFolder folder;
    LadderOptions rung = options(folder, tinyRequest()), width = options(folder, tinyRequest(LadderMode::Widths));
    rung.only = {"fp8_delayd"};
    width.request.widths = {40};
    EXPECT_THAT(test::sentence([&] { LadderJob job(rung); }),
                testing::AllOf(HasSubstr("fp8_delayd"), HasSubstr("allowed: fp32_unfused, fused_adamw")));
    EXPECT_THAT(test::sentence([&] { LadderJob job(width); }),
                testing::AllOf(HasSubstr("40"), HasSubstr("multiples of 32")));
    EXPECT_FALSE(std::filesystem::exists(folder / "s.mantissa"));
    {
        RunStore store(folder / "s.mantissa", RunStore::Mode::ReadWrite);
        EXPECT_THAT(test::sentence([&] { readLadder(store, "01XYZ"); }), HasSubstr("no such ladder"));
    }
}

TEST(Ladder, ADamagedOneHidesNoOther) {
    const TempFolder folder;
    const LadderResult good = runLadder(options(folder, tinyRequest()));
    RunStore store(folder / "s.mantissa", RunStore::Mode::ReadWrite);
    LadderDocument document;
    document.id = "0DAMAGED";
    document.request = tinyRequest();
    writeLadder(store, document);
    for (const char* value : {"{\"mode\":1}", "{\"spec\":[]}", "{\"created_ms\":\"now\"}", "[1]", "nothing"}) {
        store.database()
            .cached("UPDATE setting SET value = ? WHERE key LIKE '%0DAMAGED'")
            .bind(std::string(value))
            .run();
        const auto entries = ladders(store);
        ASSERT_EQ(entries.size(), 1u) << value;
        EXPECT_EQ(entries[0].id, good.id);
        EXPECT_THROW(readLadder(store, "0DAMAGED"), Error) << value;
    }
}

TEST(Ladder, SweepsTheWidth) {
    const TempFolder folder;
    LadderOptions given = options(folder, tinyRequest(LadderMode::Widths));
    given.request.widths = {32, 64};
    const LadderResult ladder = runLadder(std::move(given));
    ASSERT_EQ(ladder.rungs.size(), 4u);
    RunStore store(folder / "s.mantissa", RunStore::Mode::ReadOnly);
    for (const RungResult& rung : ladder.rungs) {
        EXPECT_EQ(rung.state, RungState::Measured) << rung.text;
        const RunSpec spec = parseSpec(store.document(rung.run).specJson).spec;
        EXPECT_EQ(spec.trainer.model.width, rung.width);
        EXPECT_EQ(spec.trainer.model.ffn, 4 * rung.width);
        EXPECT_EQ(spec.trainer.model.width / spec.trainer.model.heads, 32) << "heads stay as wide";
    }
    const Crossover cross = crossover(ladder);
    ASSERT_EQ(cross.points.size(), 2u);
    EXPECT_EQ(cross.points[1].bf16Ms, ladder.find("bf16", 64)->stepMs);
    EXPECT_EQ(cross.points[1].fp8Ms, ladder.find("fp8_delayed", 64)->stepMs);
    EXPECT_THAT(defaultWidths(presetSpec("tiny")), ElementsAre(32, 64, 128, 256));
}

LadderResult sweep(const std::vector<std::pair<int, double>>& ratios) {
    LadderResult ladder;
    ladder.mode = LadderMode::Widths;
    for (const auto& [width, ratio] : ratios)
        for (const char* key : {"bf16", "fp8_delayed"}) {
            RungResult rung;
            rung.key = key, rung.width = width, rung.state = RungState::Measured;
            rung.stepMs = std::string(key) == "bf16" ? 10 * ratio : 10;
            ladder.rungs.push_back(rung);
        }
    return ladder;
}

TEST(Ladder, CrossoverLiesBetweenItsNeighboursOrIsDeniedInWords) {
    const Crossover crosses = crossover(sweep({{256, 0.5}, {1024, 2}, {2048, 4}}));
    ASSERT_TRUE(crosses.width);
    EXPECT_NEAR(*crosses.width, 512, 1e-9) << "half way over log2 of the width, as the ratios are 1/2 and 2";
    EXPECT_EQ(crosses.text, "crosses at d = 512");
    EXPECT_EQ(crossover(sweep({{256, 0.5}, {512, 0.9}})).text, "no crossover: FP8 is slower from d = 256 to 512");
    EXPECT_EQ(crossover(sweep({{256, 1.1}, {512, 1.4}})).text, "no crossover: FP8 is faster from d = 256 to 512");
    EXPECT_EQ(crossover(sweep({{256, 1.1}, {512, 0.8}})).text, "no crossover: FP8 is slower at the largest width");
    EXPECT_FALSE(crossover(sweep({{256, 1.1}})).width);
    LadderResult noisy = sweep({{256, 0.5}, {512, 1.1}});
    for (RungResult& rung : noisy.rungs) rung.timedSteps = 4, rung.spreadMs = 1;
    noisy.rungs[1].before = 0, noisy.rungs[3].before = 2;
    EXPECT_EQ(crossover(noisy).text,
              "no crossover: FP8 is slower at d = 256; which is faster cannot be told at d = 512");
    for (RungResult& rung : noisy.rungs) rung.spreadMs = 100;
    EXPECT_EQ(crossover(noisy).text,
              "which is faster cannot be told at any width");
    // Down and up again: the last crossing counts.
    EXPECT_NEAR(*crossover(sweep({{64, 1.5}, {256, 0.5}, {1024, 2}})).width, 512, 1e-9);
}

TEST(Ladder, SaysWhatARungBrought) {
    LadderResult ladder;
    const auto add = [&](double ms, uint64_t bytes, int before) {
        RungResult rung;
        rung.state = RungState::Measured, rung.stepMs = ms, rung.planBytes = bytes, rung.before = before;
        rung.timedSteps = 20, rung.spreadMs = 1;
        ladder.rungs.push_back(rung);
    };
    add(605, 39ull << 30, -1), add(580, 39ull << 30, 0), add(57, 14ull << 30, 1), add(60, (14ull << 30) + (5 << 20), 2);
    EXPECT_EQ(whatItBrought(ladder, ladder.rungs[0]), "start");
    EXPECT_EQ(whatItBrought(ladder, ladder.rungs[1]), "−25.0 ms");
    EXPECT_EQ(whatItBrought(ladder, ladder.rungs[2]), "×10.2, −25.0 GiB");
    EXPECT_EQ(whatItBrought(ladder, ladder.rungs[3]), "+3.00 ms, +5.00 MiB");
    // 1.96 · 1.2533 · 1.4826 · √((1² + 4²) / 20) = 3.36 ms: more than the 3 ms.
    ladder.rungs[3].spreadMs = 4;
    EXPECT_NEAR(noiseMs(ladder, ladder.rungs[3]), 3.358, 1e-3);
    EXPECT_FALSE(told(ladder, ladder.rungs[3]));
    EXPECT_EQ(whatItBrought(ladder, ladder.rungs[3]), "time not told (± 3.36 ms), +5.00 MiB");
    EXPECT_EQ(ladderSvg(ladder).find("0.95"), std::string::npos) << "no ratio either";
    ladder.rungs[3].timedSteps = 1;
    EXPECT_FALSE(ladder.rungs[3].hasSpread());
    EXPECT_EQ(whatItBrought(ladder, ladder.rungs[3]), "time not told (one step), +5.00 MiB");
    EXPECT_THAT(ladderSvg(ladder), testing::HasSubstr("60.0 ± –"));
    EXPECT_THAT(ladderCsv(ladder), testing::HasSubstr(",60,,"));
}

/// Every bar ends before the room of a figure as wide as "3.91 ± 0.046", which is written up to x = 680.
TEST(Ladder, BarsOfThePictureEndBeforeTheirFigures) {
    LadderResult ladder;
    RungResult rung;
    rung.state = RungState::Measured, rung.stepMs = 3.91, rung.timedSteps = 20, rung.spreadMs = 0.046;
    for (double& phase : rung.phaseMs) phase = 3.91 / kLadderPhases;
    ladder.rungs.push_back(rung);
    rung.state = RungState::Failed;
    rung.text =
        "Not started: the plan needs 66.34 GiB, 22.83 GiB of memory are free on cpu; lower train.batch (activations "
        "take 48.28 GiB), model.context, model.layers or model.width";
    ladder.rungs.push_back(rung);
    const std::string svg = ladderSvg(ladder);
    int bars = 0;
    for (size_t at = 0; (at = svg.find("<rect x=\"", at)) != std::string::npos; ++at) {
        double x = 0, y = 0, width = 0, height = 0;
        ASSERT_EQ(std::sscanf(svg.c_str() + at, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"", &x, &y,
                              &width, &height),
                  4);
        if (height != 14 || x > 680) continue;  // a line, the legend or a bar of memory
        EXPECT_LE(x + width, 600);
        ++bars;
    }
    EXPECT_EQ(bars, kLadderPhases);
    EXPECT_THAT(svg, HasSubstr("model.context, model.layers or model.width<")) << "nothing of the sentence is cut off";
}

uint32_t number(const std::string& bytes, size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
    return value;
}

TEST(Ladder, PngUnpacksToItsPixels) {
    LadderResult ladder = sweep({{256, 0.5}, {1024, 2}});
    ladder.preset = "tiny", ladder.device = "cpu";
    const std::string png = ladderPng(ladder);
    ASSERT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
    const uint32_t width = number(png, 16), height = number(png, 20);
    EXPECT_EQ(width, static_cast<uint32_t>(kPictureWidth));
    EXPECT_EQ(height, static_cast<uint32_t>(pictureHeight(ladder)));
    const uint32_t size = number(png, 33);
    ASSERT_EQ(png.substr(37, 4), "IDAT");
    std::string raw(static_cast<size_t>(height) * (width * 3 + 1), '\0');
    uLongf length = raw.size();
    ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(raw.data()), &length, reinterpret_cast<const Bytef*>(png.data()) + 41,
                         size),
              Z_OK);
    EXPECT_EQ(length, raw.size());
    EXPECT_EQ(number(png, 41 + size), crc32(0, reinterpret_cast<const Bytef*>(png.data()) + 37, size + 4));
    size_t series = 0;  // the curve's colour
    for (uint32_t row = 0; row < height; ++row)
        for (uint32_t x = 0; x < width; ++x)
            series += raw.compare(row * (width * 3 + 1) + 1 + x * 3, 3, "\xD4\x62\x15") == 0;
    EXPECT_GT(series, 500u);
}

TEST(Ladder, EveryGlyphOfThePictureMovesThePen) {
    std::istringstream lines(resourceText("font/glyphs13.txt"));
    int glyphs = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.empty() || line[0] == '#') continue;
        int code = 0, advance = 0;
        std::istringstream(line) >> code >> advance;
        EXPECT_GT(advance, 0) << code;
        ++glyphs;
    }
    EXPECT_GT(glyphs, 90);
}

}  // namespace
}  // namespace mantissa::experiments
