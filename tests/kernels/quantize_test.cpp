// The quantize op on every instruction set: codes and counters are exact, against recorded tables, cases and a plain
// recount.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "tests/support/cpu_run.h"
#include "tests/support/golden.h"

namespace mantissa::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Result {
    std::vector<uint8_t> codes;
    TensorSlot slot;
};

/// isa < 0: the reference.
template <class T>
Result cast(const std::vector<T>& values, DType format, float scale, int isa, bool roundToBf16 = true,
            bool stochastic = false, int64_t cols = 0, float amaxBefore = 0) {
    Result result;
    result.codes.resize(values.size() + 1, 0xAA);
    result.slot.amax = amaxBefore;
    Quantize op;
    op.cols = cols ? cols : static_cast<int64_t>(values.size());
    op.rows = op.cols ? static_cast<int64_t>(values.size()) / op.cols : 0;
    op.inType = sizeof(T) == 2 ? DType::BF16 : DType::F32;
    op.in = values.data();
    op.roundToBf16 = roundToBf16;
    op.target = {format, result.codes.data(), nullptr, &scale, &result.slot, true, false, true, true, stochastic, 77};
    if (isa < 0)
        runReference(op);
    else
        test::runOnCpu(op, static_cast<Isa>(isa));
    EXPECT_EQ(result.codes.back(), 0xAA) << "written past the end";
    result.codes.pop_back();
    return result;
}

std::vector<int> isas() {
    std::vector<int> list;
    for (Isa isa : test::supportedIsas()) list.push_back(static_cast<int>(isa));
    return list;
}

/// Sums of the same terms in another order. An error may be infinite (or NaN) where the dequantised value is.
bool nearlySame(double a, double b) {
    if (!std::isfinite(a) || !std::isfinite(b)) return std::isnan(a) == std::isnan(b) && std::isinf(a) == std::isinf(b);
    return std::fabs(a - b) <= 1e-12 * b;
}

void expectSame(const Result& a, const Result& b, const std::string& what) {
    ASSERT_EQ(a.codes, b.codes) << what;
    EXPECT_EQ(std::memcmp(&a.slot.counters, &b.slot.counters, sizeof(CastCounters)), 0) << what;
    EXPECT_EQ(floatBits(a.slot.amax), floatBits(b.slot.amax)) << what;
    EXPECT_EQ(floatBits(a.slot.scaleUsed), floatBits(b.slot.scaleUsed)) << what;
    EXPECT_EQ(a.slot.dear.minNonZero, b.slot.dear.minNonZero) << what;
    EXPECT_EQ(std::memcmp(a.slot.dear.exponents, b.slot.dear.exponents, sizeof(a.slot.dear.exponents)), 0) << what;
    // The reference adds one by one, the op over 16 lanes: at most n double roundings apart.
    EXPECT_TRUE(nearlySame(a.slot.dear.sumSquares, b.slot.dear.sumSquares)) << what;
    EXPECT_TRUE(nearlySame(a.slot.dear.sumSquaredError, b.slot.dear.sumSquaredError)) << what;
    EXPECT_TRUE(nearlySame(a.slot.dear.sumFourth, b.slot.dear.sumFourth)) << what;
}

std::vector<uint16_t> allBf16() {
    std::vector<uint16_t> values(65536);
    for (int i = 0; i < 65536; ++i) values[i] = static_cast<uint16_t>(i);
    return values;
}

std::vector<uint16_t> toBf16(const std::vector<float>& values) {
    std::vector<uint16_t> bits(values.size());
    for (size_t i = 0; i < values.size(); ++i) bits[i] = encodeBf16(values[i]);
    return bits;
}

TEST(Quantize, AllBf16PatternsAtManyScalesOnEveryInstructionSet) {
    for (DType format : {DType::E4M3, DType::E5M2}) {
        for (float scale :
             {1.0f, 0.37f, 448.0f / 3, 0x1p-20f, 0x1p20f, 1e30f, 1e-30f, std::numeric_limits<float>::max(), 0x1p-126f,
              0x1.3p-140f, 0.99999994f, 1.0000001f, 57344.0f / 1.7f}) {
            const Result reference = cast(allBf16(), format, scale, -1);
            for (int isa : isas()) {
                const std::string what = std::string(dtypeName(format)) + " scale " + std::to_string(scale) + " " +
                                         isaName(static_cast<Isa>(isa));
                expectSame(cast(allBf16(), format, scale, isa), reference, what);
            }
        }
    }
}

TEST(Quantize, RecordedBytesOfTransformerEngine) {
    const auto bytes = test::goldenBytes("te/b_codes.json");
    const auto json = nlohmann::json::parse(bytes.begin(), bytes.end());
    const auto fp32 = test::goldenArray<float>("te/b_fp32_inputs.bin");
    int files = 0;
    for (const auto& [name, entry] : json["files"].items()) {
        const auto expected = test::goldenBytes("te/" + name);
        const float scale = floatFromBits(test::hexBits(entry["scale"][0]));
        const DType format = name.find("e4m3") != std::string::npos ? DType::E4M3 : DType::E5M2;
        EXPECT_EQ(floatBits(1.0f / scale), test::hexBits(entry["scale_inv"]["hex"][0])) << name;
        for (int isa : isas()) {
            const Result result = name.find("bf16") != std::string::npos ? cast(allBf16(), format, scale, isa)
                                                                         : cast(fp32, format, scale, isa, false);
            EXPECT_EQ(result.codes, expected) << name;
            EXPECT_EQ(floatBits(result.slot.amax), test::hexBits(entry["amax"]["hex"][0])) << name;
        }
        ++files;
    }
    EXPECT_EQ(files, 12);
}

TEST(Quantize, RecordedAmaxOfTransformerEngineWithNanAndInf) {
    const auto bytes = test::goldenBytes("te/b_codes.json");
    const auto json = nlohmann::json::parse(bytes.begin(), bytes.end());
    int cases = 0;
    for (const auto& [name, entry] : json["amax_cases"].items()) {
        const auto codes = test::hexBytes(entry["row_only"]["codes"]);
        std::vector<float> values;
        for (uint8_t code : codes) {
            const bool infinite = (code & 0x7F) == 0x7E && name.find("inf") != std::string::npos;
            values.push_back(infinite ? (code & 0x80 ? -kInf : kInf) : decodeE4m3(code));
        }
        if (name.find("sub ") == 0) values[0] = 1e-40f;
        const bool bf16 = name.find("bfloat16") != std::string::npos;
        const float before = std::stof(name.substr(name.find("fill") + 4));
        const float expected = floatFromBits(test::hexBits(entry["row_only"]["amax"]["hex"][0]));
        for (int isa : isas()) {
            const Result result = bf16 ? cast(toBf16(values), DType::E4M3, 1, isa, true, false, 0, before)
                                       : cast(values, DType::E4M3, 1, isa, false, false, 0, before);
            EXPECT_EQ(floatBits(result.slot.amax), floatBits(expected)) << name;
            EXPECT_EQ(result.codes, codes) << name;
        }
        ++cases;
    }
    EXPECT_GE(cases, 12);
}

TEST(Quantize, CurrentScalingAsRecordedFromTransformerEngine) {
    const auto bytes = test::goldenBytes("te/c_current.json");
    const auto json = nlohmann::json::parse(bytes.begin(), bytes.end());
    int cases = 0;
    for (const auto& [key, entry] : json["cases"].items()) {
        const std::string input = key.substr(0, key.find(" | "));
        std::vector<float> values;
        for (const auto& text : json["inputs_dec"][input])
            values.push_back(std::strtof(text.get<std::string>().c_str(), nullptr));
        const bool allEqual = input.find("all_") == 0 || input == "zeros" || input == "minus_zeros";
        values.resize(256, allEqual ? values[0] : 0.0f);
        const bool bf16 = key.find("bfloat16") != std::string::npos;
        const DType format = key.find("e4m3") != std::string::npos ? DType::E4M3 : DType::E5M2;
        const float epsilon = key.find("eps=0.0") != std::string::npos ? 0.0f : 1e-6f;
        const auto codes = test::hexBytes(entry["codes"]);
        for (int isa : isas()) {
            auto run = [&](float scale) {
                return bf16 ? cast(toBf16(values), format, scale, isa) : cast(values, format, scale, isa, false);
            };
            const float scale =
                currentScale(run(1).slot.amax, maxFinite(format), key.find("pow2=1") != std::string::npos, epsilon);
            EXPECT_EQ(floatBits(1.0f / scale), test::hexBits(entry["scale_inv"]["hex"][0])) << key;
            const Result result = run(scale);
            for (size_t i = 0; i < codes.size(); ++i) {
                EXPECT_EQ(result.codes[i], codes[i]) << key << " element " << i;
                const float back = decodeFp8(result.codes[i], format) * (1.0f / scale);
                const float expected = std::strtof(entry["dequantized_dec"][i].get<std::string>().c_str(), nullptr);
                EXPECT_TRUE(std::isnan(expected) ? std::isnan(back) : back == expected) << key << " element " << i;
            }
        }
        ++cases;
    }
    EXPECT_EQ(cases, 336);
}

double sqnr(const TensorSlot& slot) {
    return 10 * std::log10(slot.dear.sumSquares / slot.dear.sumSquaredError);
}
double mse(const TensorSlot& slot) {
    return slot.dear.sumSquaredError / static_cast<double>(slot.counters.elements);
}

TEST(Quantize, CaseC04Vector) {
    const std::vector<float> values = {3, -1.5f, .75f, .1f, .01f, .001f, 0, -3};
    for (int isa : isas()) {
        const Result plain = cast(values, DType::E4M3, currentScale(3, 448, false, 0), isa, false);
        EXPECT_EQ(plain.codes, test::hexBytes("7EF66E573C2200FE"));
        EXPECT_NEAR(mse(plain.slot), 2.543e-8, 5e-12);
        const Result pow2 = cast(values, DType::E4M3, currentScale(3, 448, true, 0), isa, false);
        EXPECT_EQ(pow2.codes, test::hexBytes("7CF46C553A2000FC"));
        EXPECT_NEAR(mse(pow2.slot), 3.121e-7, 5e-11);
        EXPECT_EQ(plain.slot.counters.underflow + pow2.slot.counters.underflow, 0u);
    }
}

TEST(Quantize, CaseC07) {
    std::vector<float> values;
    for (int k = 1; k <= 16; ++k) values.push_back(static_cast<float>(k) / 1024);
    const float expected[] = {0, 2, 4, 4, 4, 6, 8, 8, 8, 10, 12, 12, 12, 14, 16, 16};
    for (int isa : isas()) {
        const Result fresh = cast(values, DType::E4M3, 1, isa);
        for (int k = 0; k < 16; ++k) EXPECT_EQ(decodeE4m3(fresh.codes[k]) * 1024, expected[k]);
        EXPECT_EQ(fresh.slot.counters.underflow, 1u);
        EXPECT_NEAR(mse(fresh.slot), 4.768e-7, 5e-11);
        EXPECT_NEAR(sqnr(fresh.slot), 22.72, 0.005);
        const Result current = cast(values, DType::E4M3, currentScale(16.0f / 1024, 448, false, 0), isa);
        EXPECT_EQ(current.slot.scaleUsed, 28672.0f);
        EXPECT_EQ(current.slot.counters.underflow, 0u);
        EXPECT_NEAR(sqnr(current.slot), 31.58, 0.005);
        const Result over =
            cast(std::vector<float>{448, 449, 463, 464, 465, 480, 500, 1000}, DType::E4M3, 1, isa, false);
        EXPECT_EQ(over.slot.counters.overRange, 7u);
        EXPECT_EQ(over.slot.counters.clipped, 4u);
    }
}

TEST(Quantize, CasesN05AndN06) {
    for (int isa : isas()) {
        for (bool bf16 : {false, true}) {
            const std::vector<float> values = {1, 449, 464, 465, 1000, kInf, kNan, -500};
            // In BF16 449 becomes 448 and 465 becomes 464; the case is about FP32.
            const CastCounters counters = cast(values, DType::E4M3, 1, isa, bf16).slot.counters;
            EXPECT_EQ(counters.overRange, bf16 ? 5u : 6u);
            EXPECT_EQ(counters.clipped, bf16 ? 3u : 4u);
            EXPECT_EQ(counters.nan, 1u);
            EXPECT_EQ(counters.inf + counters.nan, 2u);
            EXPECT_EQ(counters.elements, 8u);
        }
        const Result n06 = cast(std::vector<float>{1, 1.1f, 2.3f, -3.7f}, DType::E4M3, 1, isa, false);
        EXPECT_EQ(n06.codes, test::hexBytes("383941C7"));
        EXPECT_NEAR(mse(n06.slot), 0.00140625, 5e-9);  // 1.1, 2.3 and -3.7 are not FP32 numbers
        EXPECT_NEAR(n06.slot.dear.sumSquares / 4, 5.2975, 1e-6);
        EXPECT_NEAR(sqnr(n06.slot), 35.760, 5e-4);
    }
}

TEST(Quantize, CaseN12ExpectedSqnrOfNormalValues) {
    std::mt19937 random(12);
    std::normal_distribution<float> normal;
    std::vector<float> values(1000000);
    for (float& value : values) value = normal(random);
    const auto bits = toBf16(values);
    for (int isa : isas()) {
        const float amax = cast(bits, DType::E4M3, 1, isa).slot.amax;
        EXPECT_NEAR(sqnr(cast(bits, DType::E4M3, currentScale(amax, 448, false, 0), isa).slot), 31.57, 0.05);
        EXPECT_NEAR(sqnr(cast(bits, DType::E5M2, currentScale(amax, 57344, false, 0), isa).slot), 25.58, 0.05);
    }
}

TEST(Quantize, AwkwardSizesAndSpecialValuesEverywhere) {
    std::mt19937 random(3);
    for (size_t n : {1, 2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 1000, 1023, 1024, 1025, 4097}) {
        std::vector<uint16_t> values(n);
        for (auto& value : values) {
            value = static_cast<uint16_t>(random());
            const uint32_t kind = random() % 16;
            if (kind == 0) value = 0x7FC0;
            if (kind == 1) value = 0xFF80;
            if (kind == 2) value = 0x8000;
        }
        for (DType format : {DType::E4M3, DType::E5M2})
            for (float scale : {1.0f, 3.3e5f}) {
                const Result reference = cast(values, format, scale, -1);
                for (int isa : isas())
                    expectSame(cast(values, format, scale, isa), reference, "n " + std::to_string(n));
            }
    }
    for (int isa : isas()) EXPECT_EQ(cast(std::vector<uint16_t>{}, DType::E4M3, 1, isa).slot.counters.elements, 0u);
}

TEST(Quantize, RandomFp32EqualsTheReference) {
    std::mt19937 random(4);
    std::vector<float> values(200003);
    for (float& value : values) value = floatFromBits(random());
    for (DType format : {DType::E4M3, DType::E5M2})
        for (bool roundToBf16 : {false, true})
            for (bool stochastic : {false, true}) {
                const Result reference = cast(values, format, 7.5f, -1, roundToBf16, stochastic);
                for (int isa : isas())
                    expectSame(cast(values, format, 7.5f, isa, roundToBf16, stochastic), reference,
                               isaName(static_cast<Isa>(isa)));
            }
}

/// Runs tiles backwards, as if other threads took them.
class BackwardExecutor final : public Executor {
  public:
    int threadCount() const override { return 1; }
    void run(int64_t tiles, FunctionRef<void(int64_t, int)> body) override {
        for (int64_t tile = tiles - 1; tile >= 0; --tile) body(tile, 0);
    }
};

struct FullResult {
    std::vector<uint8_t> codes, transposed;
    std::vector<float> bias;
    TensorSlot slot;
};

FullResult castFull(const std::vector<uint16_t>& values, int64_t rows, int64_t cols, int isa, bool accumulate,
                    Executor& executor) {
    FullResult result;
    result.codes.resize(values.size());
    result.transposed.resize(values.size());
    result.bias.assign(cols, 2.0f);
    float scale = 64;
    Quantize op;
    op.rows = rows;
    op.cols = cols;
    op.in = values.data();
    op.target = {DType::E5M2,
                 result.codes.data(),
                 result.transposed.data(),
                 &scale,
                 &result.slot,
                 true,
                 false,
                 true,
                 true,
                 false,
                 0};
    op.dbias = result.bias.data();
    op.accumulateBias = accumulate;
    if (isa < 0)
        runReference(op);
    else
        test::runOnCpu(op, static_cast<Isa>(isa), executor);
    return result;
}

TEST(Quantize, TransposeBiasAndOrderOfTiles) {
    std::mt19937 random(6);
    std::normal_distribution<float> normal;
    for (auto [rows, cols] : {std::pair<int64_t, int64_t>{1, 1}, {3, 17}, {100, 130}, {257, 768}, {2, 1500}}) {
        std::vector<uint16_t> values(rows * cols);
        for (auto& value : values) value = encodeBf16(normal(random));
        SerialExecutor forward;
        BackwardExecutor backward;
        const FullResult reference = castFull(values, rows, cols, -1, true, forward);
        FullResult first;
        for (int isa : isas()) {
            const FullResult result = castFull(values, rows, cols, isa, true, forward);
            EXPECT_EQ(result.codes, reference.codes);
            EXPECT_EQ(result.transposed, reference.transposed);
            for (int64_t c = 0; c < cols; ++c) EXPECT_NEAR(result.bias[c], reference.bias[c], 1e-6 * rows * 6) << c;
            const FullResult other = castFull(values, rows, cols, isa, true, backward);
            EXPECT_EQ(std::memcmp(&result.slot, &other.slot, sizeof(TensorSlot)), 0);
            EXPECT_EQ(result.bias, other.bias);
            if (first.codes.empty()) first = result;
            EXPECT_EQ(std::memcmp(&result.slot, &first.slot, sizeof(TensorSlot)), 0)
                << "dear sums differ between instruction sets";
            EXPECT_EQ(result.bias, first.bias);
        }
    }
}

TEST(Quantize, CastsOfOneStepMergeInTheSlot) {
    for (int isa : isas()) {
        TensorSlot slot;
        float scale = 1;
        for (float amax : {5.0f, 2.0f}) {
            const std::vector<uint16_t> values = toBf16({amax, 0, 1000 * amax, 0x1p-12f});
            uint8_t codes[4];
            Quantize op;
            op.rows = 2;
            op.cols = 2;
            op.in = values.data();
            op.target = {DType::E4M3, codes, nullptr, &scale, &slot, true, false, false, false, false, 0};
            test::runOnCpu(op, static_cast<Isa>(isa));
        }
        EXPECT_EQ(slot.amax, 4992.0f);
        EXPECT_EQ(slot.counters.elements, 8u);
        EXPECT_EQ(slot.counters.zeros, 2u);
        EXPECT_EQ(slot.counters.underflow, 2u);
        EXPECT_EQ(slot.counters.clipped, 2u);
        EXPECT_EQ(slot.dear.sumSquares, 0.0) << "the dear set was not asked for";
    }
}

TEST(Quantize, AmaxPassWritesNoCodesAndCountsNothing) {
    for (int isa : isas()) {
        const std::vector<uint16_t> values = toBf16({1, -9, kNan, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, -11});
        std::vector<uint8_t> codes(values.size(), 0xAA);
        TensorSlot slot;
        Quantize op;
        op.rows = 1;
        op.cols = static_cast<int64_t>(values.size());
        op.in = values.data();
        op.target = {DType::E4M3, codes.data(), nullptr, nullptr, &slot, true, true, false, false, false, 0};
        test::runOnCpu(op, static_cast<Isa>(isa));
        EXPECT_EQ(slot.amax, 11.0f);
        EXPECT_EQ(slot.counters.elements, 0u);
        EXPECT_EQ(codes, std::vector<uint8_t>(values.size(), 0xAA));
    }
}

TEST(Quantize, WithoutCountersOnlyAmaxAndScaleAreKept) {
    for (int isa : isas()) {
        const auto values = allBf16();
        const Result counted = cast(values, DType::E4M3, 3, isa);
        Result result;
        result.codes.resize(values.size());
        float scale = 3;
        Quantize op;
        op.rows = 256;
        op.cols = 256;
        op.in = values.data();
        op.target = {
            DType::E4M3, result.codes.data(), nullptr, &scale, &result.slot, false, false, true, true, false, 0};
        test::runOnCpu(op, static_cast<Isa>(isa));
        EXPECT_EQ(result.codes, counted.codes);
        EXPECT_EQ(result.slot.amax, kInf);
        EXPECT_EQ(result.slot.scaleUsed, 3.0f);
        EXPECT_EQ(result.slot.counters.elements, 0u);
        EXPECT_EQ(result.slot.dear.sumSquares, 0.0);
        Result reference;
        op.target.slot = &reference.slot;
        runReference(op);
        EXPECT_EQ(std::memcmp(&result.slot, &reference.slot, sizeof(TensorSlot)), 0);
    }
}

TEST(Quantize, RefusesWhatItCannotDo) {
    float value = 1, scale = 1;
    Quantize op;
    op.rows = op.cols = 1;
    op.in = &value;
    op.inType = DType::F16;
    op.target.format = DType::E4M3;
    op.target.scale = &scale;
    EXPECT_THROW(test::runOnCpu(op, Isa::Sse), Error);
    op.inType = DType::F32;
    op.target.format = DType::BF16;
    EXPECT_THROW(test::runOnCpu(op, Isa::Sse), Error);
    op.target.format = DType::E4M3;
    op.rows = -1;
    EXPECT_THROW(test::runOnCpu(op, Isa::Sse), Error);
}

}  // namespace
}  // namespace mantissa::kernels
