// Delayed and current scales against values recorded from Transformer Engine, and the cases C02, C03, C04, N03, N04.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/device/cpu_ops.h"
#include "kernels/formats/fp8.h"
#include "kernels/scaling/scaling.h"
#include "tests/support/golden.h"

namespace mantissa::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

nlohmann::json goldenJson(const std::string& name) {
    const auto bytes = test::goldenBytes(name);
    return nlohmann::json::parse(bytes.begin(), bytes.end());
}

TEST(DelayedScaling, RecordedSequencesOfTransformerEngine) {
    const auto json = goldenJson("te/a_delayed.json");
    const auto amax = test::goldenArray<float>("te/a_crafted_amax.f32.bin");
    const auto recorded = test::goldenArray<float>("te/a_crafted.bin");
    const int sequences = static_cast<int>(json["names"].size()), updates = json["steps"];
    ASSERT_EQ(amax.size(), static_cast<size_t>(sequences * updates));
    size_t compared = 0;
    for (const auto& entry : json["index"]) {
        const int length = entry["L"];
        const float largest = entry["format"] == "e4m3" ? 448.0f : 57344.0f;
        const auto algorithm = entry["algo"] == "max" ? AmaxAlgorithm::Max : AmaxAlgorithm::MostRecent;
        const float* scales = recorded.data() + entry["offset"].get<size_t>() / sizeof(float);
        const float* histories = scales + updates * sequences;
        for (int s = 0; s < sequences; ++s) {
            std::vector<float> window(length, 0.0f);
            float scale = 1;
            for (int u = 0; u < updates; ++u) {
                window[0] = amax[u * sequences + s];
                delayedUpdate(window.data(), length, algorithm, largest, entry["margin"], scale);
                ASSERT_EQ(floatBits(scale), floatBits(scales[u * sequences + s]))
                    << entry["key"] << " " << json["names"][s] << " update " << u + 1;
                for (int i = 0; i < length; ++i) {
                    const float expected = histories[(u * length + i) * sequences + s];
                    ASSERT_TRUE(std::isnan(expected) ? std::isnan(window[i])
                                                     : floatBits(window[i]) == floatBits(expected))
                        << entry["key"] << " " << json["names"][s] << " update " << u + 1 << " slot " << i;
                }
                ++compared;
            }
        }
    }
    EXPECT_EQ(compared, json["index"].size() * static_cast<size_t>(sequences * updates));
}

std::vector<float> trace(const std::vector<float>& amax, int length, AmaxAlgorithm algorithm,
                         std::vector<float>* window = nullptr, int windowAfter = 0) {
    std::vector<float> history(length, 0.0f), used;
    float scale = 1;
    for (size_t i = 0; i < amax.size(); ++i) {
        used.push_back(scale);
        history[0] = std::fmax(history[0], amax[i]);
        delayedUpdate(history.data(), length, algorithm, 448.0f, 0, scale);
        if (window && static_cast<int>(i) + 1 == windowAfter) *window = history;
    }
    used.push_back(scale);
    return used;
}

TEST(DelayedScaling, CaseC02) {
    const std::vector<float> amax = {2, 8, 1, 0.5f, 0.25f, 0.25f, 0.25f, 0.25f};
    std::vector<float> window;
    EXPECT_EQ(trace(amax, 4, AmaxAlgorithm::Max, &window, 2),
              (std::vector<float>{1, 224, 56, 56, 56, 56, 448, 896, 1792}));
    EXPECT_EQ(window, (std::vector<float>{0, 0, 2, 8}));
    trace(amax, 4, AmaxAlgorithm::Max, &window, 5);
    EXPECT_EQ(window, (std::vector<float>{0, 1, 0.5f, 0.25f}));
    EXPECT_EQ(trace(amax, 4, AmaxAlgorithm::MostRecent),
              (std::vector<float>{1, 224, 56, 448, 896, 1792, 1792, 1792, 1792}));
}

TEST(DelayedScaling, CaseC03) {
    EXPECT_EQ(trace({4, 0, 0, 2}, 3, AmaxAlgorithm::Max), (std::vector<float>{1, 112, 112, 112, 112}));
    EXPECT_EQ(trace({4, 0, 0, 2}, 3, AmaxAlgorithm::MostRecent).back(), 224.0f);
    std::vector<float> window;
    trace({4, 0, 0, 2}, 3, AmaxAlgorithm::Max, &window, 3);
    EXPECT_EQ(window, (std::vector<float>{0, 0, 4}));
    trace({4, 0, 0, 2}, 3, AmaxAlgorithm::Max, &window, 4);
    EXPECT_EQ(window, (std::vector<float>{0, 4, 2}));
}

TEST(DelayedScaling, CaseN03) {
    const float window[] = {0.5f, 3.5f, 7, 2};
    EXPECT_EQ(delayedScale(window, 4, AmaxAlgorithm::Max, 448, 0, 1), 64.0f);
    EXPECT_EQ(delayedScale(window, 4, AmaxAlgorithm::Max, 448, 1, 1), 32.0f);
    EXPECT_EQ(delayedScale(window, 4, AmaxAlgorithm::MostRecent, 448, 0, 1), 896.0f);
    for (float bad : {0.0f, kInf, std::nanf("")}) {
        EXPECT_EQ(delayedScale(&bad, 1, AmaxAlgorithm::MostRecent, 448, 0, 3), 3.0f);
        EXPECT_EQ(delayedScale(&bad, 1, AmaxAlgorithm::Max, 448, 0, 3), 3.0f);
    }
    const float tiny = 1e-37f;
    EXPECT_EQ(delayedScale(&tiny, 1, AmaxAlgorithm::Max, 448, 0, 1), std::numeric_limits<float>::max());
    EXPECT_EQ(1.0f / std::numeric_limits<float>::max(), floatFromBits(0x00200000u));
}

TEST(DelayedScaling, UpdateOfATable) {
    // Four tensors: input, weight (optimizer skipped), one that did not run, one under current scaling.
    ScalingTensor tensors[4];
    float history[8] = {0, 5, 0, 5, 0, 5, 0, 5};
    TensorSlot slots[4];
    ScaleEntry table[4];
    for (int i = 0; i < 4; ++i) {
        tensors[i].historyLength = 2;
        tensors[i].historyOffset = 2 * i;
        slots[i].amax = i == 2 ? 0.0f : 8.0f;
    }
    tensors[1].isWeight = 1;
    tensors[3].delayed = 0;
    uint32_t applied = 0;
    DelayedUpdate op{4, tensors, slots, history, table, &applied};
    CpuContext context;
    runCpu(op, context);
    EXPECT_EQ(table[0].scale, 56.0f);
    EXPECT_EQ(table[0].scaleInv, 1.0f / 56.0f);
    EXPECT_EQ(table[0].updates, 1u);
    EXPECT_EQ(table[0].lastChange, 1u);
    EXPECT_EQ(history[0], 0.0f);
    EXPECT_EQ(history[1], 8.0f);
    for (int i : {1, 2, 3}) {
        EXPECT_EQ(table[i].scale, 1.0f) << i;
        EXPECT_EQ(table[i].updates, 0u) << i;
        EXPECT_EQ(history[2 * i], 0.0f) << i;
        EXPECT_EQ(history[2 * i + 1], 5.0f) << i;
    }
    applied = 1;
    runCpu(op, context);
    EXPECT_EQ(table[1].scale, 56.0f);
    EXPECT_EQ(table[0].updates, 2u);
    EXPECT_EQ(table[0].lastChange, 1u) << "the same scale again is no change";
}

TEST(CurrentScaling, CasesC04AndN04) {
    const float rows[][5] = {{0, 1, 1, 1, 1},
                             {1, 448, 256, 57344, 32768},
                             {3, 149.333328f, 128, 19114.666f, 16384},
                             {448, 1, 1, 128, 128},
                             {449, 0.997772813f, 0.5f, 127.71492f, 64},
                             {kInf, 1, 1, 1, 1}};
    for (const auto& row : rows) {
        EXPECT_FLOAT_EQ(currentScale(row[0], 448, false, 0), row[1]);
        EXPECT_EQ(currentScale(row[0], 448, true, 0), row[2]);
        EXPECT_FLOAT_EQ(currentScale(row[0], 57344, false, 0), row[3]);
        EXPECT_EQ(currentScale(row[0], 57344, true, 0), row[4]);
    }
    EXPECT_EQ(currentScale(1e-37f, 448, false, 0), std::numeric_limits<float>::max());
    EXPECT_EQ(currentScale(1e-37f, 448, true, 0), 0x1p127f);
    EXPECT_EQ(currentScale(0, 448, false, 1e-6f), 448.0f / 1e-6f);
    EXPECT_EQ(currentScale(std::nanf(""), 448, false, 0), 1.0f);
    EXPECT_EQ(encodeE4m3(3.0f * currentScale(3, 448, true, 0)), 0x7C);
    EXPECT_EQ(encodeE4m3(3.0f * currentScale(3, 448, false, 0)), 0x7E);
}

TEST(CurrentScaling, RecordedScalesOfTransformerEngine) {
    const auto json = goldenJson("te/c_current.json");
    int compared = 0;
    for (const auto& [key, entry] : json["scales"].items()) {
        const float largest = key.find("e4m3") != std::string::npos ? 448.0f : 57344.0f;
        const bool powerOfTwo = key.find("pow2=1") != std::string::npos;
        const float epsilon = key.find("eps=0.0") != std::string::npos ? 0.0f : 1e-6f;
        for (size_t i = 0; i < entry["amax"]["hex"].size(); ++i) {
            const float amax = floatFromBits(test::hexBits(entry["amax"]["hex"][i]));
            // The multi-tensor kernel flushes a subnormal amax to 0; the casts and this program do not.
            if (std::fpclassify(amax) == FP_SUBNORMAL && epsilon == 0) continue;
            EXPECT_EQ(floatBits(currentScale(amax, largest, powerOfTwo, epsilon)),
                      test::hexBits(entry["scale"]["hex"][i]))
                << key << " amax " << amax;
            ++compared;
        }
    }
    EXPECT_GT(compared, 150);
}

}  // namespace
}  // namespace mantissa::kernels
