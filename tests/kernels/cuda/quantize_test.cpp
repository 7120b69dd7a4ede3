// Casts and scales on the GPU against the reference and the recorded values of Transformer Engine: codes, amax and
// counters are exact.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/device/cpu_ops.h"
#include "kernels/formats/fp8.h"
#include "kernels/formats/half.h"
#include "tests/support/cuda_twin.h"
#include "tests/support/golden.h"
#include "tests/support/op_cases.h"

namespace mantissa::kernels {
namespace {

using QuantizeOnGpu = test::CudaTest;
using ScalingOnGpu = test::CudaTest;

struct Setting {
    DType format = DType::E4M3;
    float scale = 1;
    bool roundToBf16 = true, stochastic = false, dear = true, transposed = true, dbias = false, codes = true;
};

bool nearlySame(double a, double b) {
    if (!std::isfinite(a) || !std::isfinite(b)) return std::isnan(a) == std::isnan(b) && std::isinf(a) == std::isinf(b);
    return std::fabs(a - b) <= 1e-12 * std::fabs(b);
}

/// Runs one cast on both and compares everything it writes. T: uint16_t (BF16 bits) or float.
template <class T>
void expectSameCast(Backend& gpu, const std::vector<T>& values, int64_t rows, int64_t cols, const Setting& s,
                    const std::string& what) {
    const size_t n = static_cast<size_t>(rows * cols);
    ASSERT_EQ(values.size(), n);
    std::vector<uint8_t> codes(n, 0xAA), transposed(n, 0xAA);
    std::vector<float> dbias(static_cast<size_t>(cols), 0.5f), scale{s.scale};
    std::vector<TensorSlot> slot(1);
    slot[0].amax = 1e-30f;
    slot[0].counters.zeros = 3;
    Quantize op;
    op.rows = rows, op.cols = cols, op.inType = sizeof(T) == 2 ? DType::BF16 : DType::F32, op.in = values.data();
    op.roundToBf16 = s.roundToBf16;
    op.target = {s.format,
                 s.codes ? codes.data() : nullptr,
                 s.transposed ? transposed.data() : nullptr,
                 scale.data(),
                 slot.data(),
                 true,
                 false,
                 s.dear,
                 s.dear,
                 s.stochastic,
                 77};
    if (s.dbias) op.dbias = dbias.data(), op.accumulateBias = true;
    test::Twins twins(gpu);
    twins.add(values), twins.add(codes), twins.add(transposed), twins.add(dbias), twins.add(scale), twins.add(slot);
    twins.run(op);
    op.target.codes = codes.data();
    runReference(op);
    const auto gotCodes = twins.get(codes), gotTransposed = twins.get(transposed);
    if (s.codes) {
        ASSERT_EQ(gotCodes, codes) << what;
    }
    if (s.transposed) {
        size_t wrong = 0;
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < cols; ++c) wrong += gotTransposed[c * rows + r] != codes[r * cols + c];
        ASSERT_EQ(wrong, 0u) << what;
    }
    const TensorSlot got = twins.get(slot)[0], &wanted = slot[0];
    EXPECT_EQ(std::memcmp(&got.counters, &wanted.counters, sizeof(CastCounters)), 0)
        << what << ": elements " << got.counters.elements << "/" << wanted.counters.elements << " zeros "
        << got.counters.zeros << "/" << wanted.counters.zeros << " underflow " << got.counters.underflow << "/"
        << wanted.counters.underflow << " subnormal " << got.counters.subnormal << "/" << wanted.counters.subnormal
        << " over " << got.counters.overRange << "/" << wanted.counters.overRange << " clipped " << got.counters.clipped
        << "/" << wanted.counters.clipped << " inf " << got.counters.inf << "/" << wanted.counters.inf << " nan "
        << got.counters.nan << "/" << wanted.counters.nan;
    EXPECT_EQ(floatBits(got.amax), floatBits(wanted.amax)) << what;
    EXPECT_EQ(floatBits(got.scaleUsed), floatBits(wanted.scaleUsed)) << what;
    if (s.dear) {
        EXPECT_EQ(got.dear.minNonZero, wanted.dear.minNonZero) << what;
        EXPECT_EQ(std::memcmp(got.dear.exponents, wanted.dear.exponents, sizeof got.dear.exponents), 0) << what;
        EXPECT_TRUE(nearlySame(got.dear.sumSquares, wanted.dear.sumSquares)) << what;
        EXPECT_TRUE(nearlySame(got.dear.sumSquaredError, wanted.dear.sumSquaredError)) << what;
        EXPECT_TRUE(nearlySame(got.dear.sumFourth, wanted.dear.sumFourth)) << what;
    }
    if (!s.dbias) return;
    const auto gotBias = twins.get(dbias);
    for (int64_t c = 0; c < cols; ++c) {
        double magnitude = 0;
        for (int64_t r = 0; r < rows; ++r) {
            const size_t i = static_cast<size_t>(r * cols + c);
            magnitude += std::fabs(sizeof(T) == 2 ? decodeBf16(static_cast<uint16_t>(values[i]))
                                                  : static_cast<float>(values[i]));
        }
        EXPECT_NEAR(gotBias[c], dbias[c], (static_cast<double>(rows) + 2) * 0x1p-24 * (magnitude + 1))
            << what << " column " << c;
    }
}

std::vector<uint16_t> allBf16() {
    std::vector<uint16_t> values(65536);
    for (int i = 0; i < 65536; ++i) values[i] = static_cast<uint16_t>(i);
    return values;
}

TEST_F(QuantizeOnGpu, AllBf16PatternsAtManyScales) {
    for (DType format : {DType::E4M3, DType::E5M2}) {
        for (float scale :
             {1.0f, 0.37f, 448.0f / 3, 0x1p-20f, 0x1p20f, 1e30f, 1e-30f, std::numeric_limits<float>::max(), 0x1p-126f,
              0x1.3p-140f, 0.99999994f, 1.0000001f, 57344.0f / 1.7f}) {
            Setting s;
            s.format = format, s.scale = scale;
            expectSameCast(*gpu_, allBf16(), 256, 256, s, dtypeName(format) + std::string(" ") + std::to_string(scale));
        }
    }
}

// Ten million FP32 numbers: random bits, so that every exponent, Inf, NaN and subnormal occurs.
TEST_F(QuantizeOnGpu, TenMillionRandomValues) {
    test::Numbers numbers(5);
    std::vector<float> values(10'000'000);
    for (float& value : values) value = floatFromBits(static_cast<uint32_t>(numbers.integer(0, 0xFFFFFFFFll)));
    for (int variant = 0; variant < 4; ++variant) {
        Setting s;
        s.format = variant % 2 ? DType::E5M2 : DType::E4M3;
        s.scale = variant < 2 ? 37.7f : 0x1p-30f;
        s.roundToBf16 = variant < 2;
        s.dear = false;
        expectSameCast(*gpu_, values, 2000, 5000, s, "variant " + std::to_string(variant));
    }
}

TEST_F(QuantizeOnGpu, AwkwardSizesAndEveryOption) {
    test::Numbers numbers(9);
    const int64_t sizes[][2] = {{1, 1},     {1, 17},    {17, 1},   {3, 8},     {33, 40},
                                {31, 1000}, {64, 1032}, {257, 65}, {16, 2056}, {1030, 24}};
    int variant = 0;
    for (const auto& size : sizes) {
        std::vector<uint16_t> half(static_cast<size_t>(size[0] * size[1]));
        std::vector<float> full(half.size());
        for (size_t i = 0; i < half.size(); ++i) {
            full[i] =
                static_cast<float>(numbers.normal() * std::pow(2.0, static_cast<double>(numbers.integer(-12, 6))));
            if (numbers.integer(0, 20) == 0) full[i] = 0;
            half[i] = encodeBf16(full[i]);
        }
        for (int options = 0; options < 8; ++options, ++variant) {
            Setting s;
            s.format = variant % 2 ? DType::E5M2 : DType::E4M3;
            s.scale = 11.3f;
            s.stochastic = options & 1, s.dear = options & 2, s.dbias = options & 4;
            s.transposed = variant % 3 != 0;
            s.codes = variant % 4 != 1 || !s.transposed;
            const std::string what =
                std::to_string(size[0]) + "x" + std::to_string(size[1]) + " options " + std::to_string(options);
            expectSameCast(*gpu_, half, size[0], size[1], s, what + " bf16");
            expectSameCast(*gpu_, full, size[0], size[1], s, what + " f32");
        }
    }
}

TEST_F(QuantizeOnGpu, AmaxOnlyTakesNothingElse) {
    const std::vector<float> values{1, -3, std::nanf(""), 2};
    std::vector<TensorSlot> slot(1);
    std::vector<uint8_t> codes(4, 0xAA);
    Quantize op;
    op.rows = 1, op.cols = 4, op.inType = DType::F32, op.in = values.data();
    op.target.format = DType::E4M3, op.target.slot = slot.data(), op.target.codes = codes.data(),
    op.target.amaxOnly = true;
    test::Twins twins(*gpu_);
    twins.add(values), twins.add(slot), twins.add(codes);
    twins.run(op);
    EXPECT_EQ(twins.get(slot)[0].amax, 3.0f);
    EXPECT_EQ(twins.get(slot)[0].counters.elements, 0u);
    EXPECT_EQ(twins.get(codes), codes);
}

TEST_F(QuantizeOnGpu, RecordedBytesOfTransformerEngine) {
    const auto bytes = test::goldenBytes("te/b_codes.json");
    const auto json = nlohmann::json::parse(bytes.begin(), bytes.end());
    const auto fp32 = test::goldenArray<float>("te/b_fp32_inputs.bin");
    const auto bf16 = allBf16();
    int files = 0;
    for (const auto& [name, entry] : json["files"].items()) {
        const auto expected = test::goldenBytes("te/" + name);
        const bool half = name.find("bf16") != std::string::npos;
        std::vector<float> scale{floatFromBits(test::hexBits(entry["scale"][0]))};
        std::vector<uint8_t> codes(expected.size());
        std::vector<TensorSlot> slot(1);
        Quantize op;
        op.rows = 1, op.cols = static_cast<int64_t>(expected.size());
        op.inType = half ? DType::BF16 : DType::F32;
        op.in = half ? static_cast<const void*>(bf16.data()) : fp32.data();
        op.roundToBf16 = false;
        op.target.format = name.find("e4m3") != std::string::npos ? DType::E4M3 : DType::E5M2;
        op.target.codes = codes.data(), op.target.scale = scale.data(), op.target.slot = slot.data();
        test::Twins twins(*gpu_);
        twins.add(bf16), twins.add(fp32), twins.add(scale), twins.add(codes), twins.add(slot);
        twins.run(op);
        EXPECT_EQ(twins.get(codes), expected) << name;
        EXPECT_EQ(floatBits(twins.get(slot)[0].amax), test::hexBits(entry["amax"]["hex"][0])) << name;
        ++files;
    }
    EXPECT_EQ(files, 12);
}

// Section c: amax, scale and codes of every recorded vector.
TEST_F(QuantizeOnGpu, RecordedCurrentScalingOfTransformerEngine) {
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
        const bool half = key.find("bfloat16") != std::string::npos;
        std::vector<uint16_t> narrow;
        for (float value : values) narrow.push_back(encodeBf16(value));
        const auto expected = test::hexBytes(entry["codes"]);
        std::vector<uint8_t> codes(values.size());
        std::vector<TensorSlot> slot(1);
        std::vector<ScaleEntry> table(1);
        Quantize op;
        op.rows = 1, op.cols = static_cast<int64_t>(values.size());
        op.inType = half ? DType::BF16 : DType::F32;
        op.in = half ? static_cast<const void*>(narrow.data()) : values.data();
        op.roundToBf16 = false;
        op.target.format = key.find("e4m3") != std::string::npos ? DType::E4M3 : DType::E5M2;
        op.target.slot = slot.data(), op.target.amaxOnly = true;
        CurrentScale scale;
        scale.slot = slot.data(), scale.entry = table.data(), scale.format = op.target.format;
        scale.powerOfTwo = key.find("pow2=1") != std::string::npos;
        scale.epsilon = key.find("eps=0.0") != std::string::npos ? 0.0f : 1e-6f;
        test::Twins twins(*gpu_);
        twins.add(narrow), twins.add(values), twins.add(codes), twins.add(slot), twins.add(table);
        twins.run(op);
        twins.run(scale);
        op.target.amaxOnly = false, op.target.codes = codes.data(), op.target.scale = &table[0].scale;
        twins.run(op);
        EXPECT_EQ(floatBits(twins.get(table)[0].scaleInv), test::hexBits(entry["scale_inv"]["hex"][0])) << key;
        const std::vector<uint8_t> got = twins.get(codes);
        for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(got[i], expected[i]) << key << " element " << i;
        ++cases;
    }
    EXPECT_EQ(cases, 336);
}

// Section a: every recorded sequence at once, a tensor of the table each.
TEST_F(ScalingOnGpu, RecordedDelayedSequencesOfTransformerEngine) {
    const auto bytes = test::goldenBytes("te/a_delayed.json");
    const auto json = nlohmann::json::parse(bytes.begin(), bytes.end());
    const auto amax = test::goldenArray<float>("te/a_crafted_amax.f32.bin");
    const auto recorded = test::goldenArray<float>("te/a_crafted.bin");
    const int sequences = static_cast<int>(json["names"].size()), updates = json["steps"];
    for (const auto& entry : json["index"]) {
        const int length = entry["L"];
        std::vector<ScalingTensor> tensors(static_cast<size_t>(sequences));
        for (int s = 0; s < sequences; ++s) {
            ScalingTensor& tensor = tensors[s];
            tensor.format = entry["format"] == "e4m3" ? DType::E4M3 : DType::E5M2;
            tensor.margin = entry["margin"];
            tensor.historyLength = length, tensor.historyOffset = s * length;
            tensor.algorithm = entry["algo"] == "max" ? AmaxAlgorithm::Max : AmaxAlgorithm::MostRecent;
        }
        std::vector<float> history(static_cast<size_t>(sequences * length), 0.0f);
        std::vector<ScaleEntry> table(static_cast<size_t>(sequences));
        std::vector<TensorSlot> slots(static_cast<size_t>(sequences));
        const float* scales = recorded.data() + entry["offset"].get<size_t>() / sizeof(float);
        const float* histories = scales + updates * sequences;
        for (int u = 0; u < updates; ++u) {
            for (int s = 0; s < sequences; ++s) slots[s].amax = amax[u * sequences + s];
            test::Twins twins(*gpu_);
            twins.add(tensors), twins.add(history), twins.add(table), twins.add(slots);
            DelayedUpdate op;
            op.count = sequences, op.tensors = tensors.data(), op.slots = slots.data();
            op.history = history.data(), op.table = table.data();
            twins.run(op);
            history = twins.get(history), table = twins.get(table);
            for (int s = 0; s < sequences; ++s) {
                ASSERT_EQ(floatBits(table[s].scale), floatBits(scales[u * sequences + s]))
                    << entry["key"] << " " << json["names"][s] << " update " << u + 1;
                ASSERT_EQ(floatBits(table[s].scaleInv), floatBits(1.0f / table[s].scale));
                for (int i = 0; i < length; ++i) {
                    const float expected = histories[(u * length + i) * sequences + s];
                    ASSERT_TRUE(std::isnan(expected) ? std::isnan(history[s * length + i])
                                                     : floatBits(history[s * length + i]) == floatBits(expected))
                        << entry["key"] << " " << json["names"][s] << " update " << u + 1 << " slot " << i;
                }
            }
        }
    }
}

TEST_F(ScalingOnGpu, UpdateOfATableAsTheReferenceDoesIt) {
    test::Numbers numbers(3);
    constexpr int kCount = 300;
    std::vector<ScalingTensor> tensors(kCount);
    std::vector<ScaleEntry> table(kCount);
    std::vector<TensorSlot> slots(kCount);
    int offset = 0;
    for (int i = 0; i < kCount; ++i) {
        tensors[i].historyLength = i % 3 == 0 ? 1024 : i % 3 == 1 ? 16 : 1 + i % 7;
        tensors[i].historyOffset = offset;
        offset += tensors[i].historyLength;
        tensors[i].format = i % 2 ? DType::E5M2 : DType::E4M3;
        tensors[i].isWeight = i % 5 == 0, tensors[i].delayed = i % 11 != 0, tensors[i].margin = i % 4 - 1;
        tensors[i].algorithm = i % 13 ? AmaxAlgorithm::Max : AmaxAlgorithm::MostRecent;
        slots[i].amax = i % 17 ? static_cast<float>(std::fabs(numbers.normal())) : 0.0f;
    }
    std::vector<float> history(static_cast<size_t>(offset));
    for (float& value : history) value = static_cast<float>(std::fabs(numbers.normal()));
    for (int i = 0; i < kCount; ++i) history[static_cast<size_t>(tensors[i].historyOffset)] = 0;
    for (uint32_t applied : {1u, 0u}) {
        std::vector<uint32_t> flag{applied};
        DelayedUpdate op;
        op.count = kCount, op.tensors = tensors.data(), op.slots = slots.data(), op.history = history.data();
        op.table = table.data(), op.applied = flag.data();
        test::Twins twins(*gpu_);
        twins.add(tensors), twins.add(history), twins.add(table), twins.add(slots), twins.add(flag);
        twins.run(op);
        runReference(op);
        EXPECT_EQ(twins.get(history), history);
        const auto got = twins.get(table);
        EXPECT_EQ(std::memcmp(got.data(), table.data(), table.size() * sizeof(ScaleEntry)), 0);
    }
}

TEST_F(ScalingOnGpu, CurrentScaleOfManyAmaxes) {
    test::Numbers numbers(4);
    std::vector<float> amaxes{0, 1, 3, 448, 449, std::numeric_limits<float>::infinity(), 1e-37f, 1e-40f, 3e38f};
    for (int i = 0; i < 300; ++i)
        amaxes.push_back(floatFromBits(static_cast<uint32_t>(numbers.integer(0, 0x7F7FFFFF))));
    std::vector<TensorSlot> slot(1);
    std::vector<ScaleEntry> entry(1);
    for (float amax : amaxes)
        for (int variant = 0; variant < 8; ++variant) {
            slot[0].amax = amax;
            CurrentScale op;
            op.format = variant & 1 ? DType::E5M2 : DType::E4M3;
            op.slot = slot.data(), op.entry = entry.data();
            op.powerOfTwo = variant & 2, op.epsilon = variant & 4 ? 1e-6f : 0.0f;
            test::Twins twins(*gpu_);
            twins.add(slot), twins.add(entry);
            twins.run(op);
            runReference(op);
            const auto got = twins.get(entry);
            ASSERT_EQ(floatBits(got[0].scale), floatBits(entry[0].scale)) << amax << " variant " << variant;
            ASSERT_EQ(floatBits(got[0].scaleInv), floatBits(entry[0].scaleInv)) << amax << " variant " << variant;
        }
}

}  // namespace
}  // namespace mantissa::kernels
