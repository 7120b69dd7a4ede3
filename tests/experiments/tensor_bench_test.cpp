// The tensor bench through its command: cases C01 - C07, N01 - N06, N10, N12, N14, block scaling as recorded from
// Transformer Engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "experiments/tensor_bench.h"
#include "experiments/tensor_input.h"
#include "kernels/error.h"
#include "kernels/formats/half.h"
#include "tests/experiments/tensor_run.h"
#include "tests/support/golden.h"

namespace mantissa::experiments {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> words(const std::string& text) {
    std::istringstream in(text);
    return {std::istream_iterator<std::string>(in), {}};
}

TEST(TensorCommand, CaseC01) {
    const json out = run({"--values",
                          "0,-0,1,0.3952,-0.1,17,19,448,449,464,465,1e30,inf,-inf,nan,0x1p-9,0x1p-10,0x1.000002p-10,"
                          "0x1.8p-9,0x1.4p-8,-0x1p-10",
                          "--format", "e4m3"});
    EXPECT_EQ(out["codes"].get<std::vector<std::string>>(),
              words("00 80 38 2D 9D 58 5A 7E 7E 7E 7E 7E 7E FE 7F 01 00 01 02 02 80"));
    EXPECT_EQ(out["scale"], 1.0);
    EXPECT_EQ(out["dequantized"][3], 0.40625);
    EXPECT_EQ(out["dequantized"][14], "NaN");
    EXPECT_EQ(out["amax"], "Infinity");
}

TEST(TensorCommand, CaseC02Trace) {
    const json out = run({"--trace", "2,8,1,0.5,0.25,0.25,0.25,0.25", "--format", "e4m3", "--history-length", "4"});
    std::vector<double> used, ruling;
    std::vector<int> ages;
    for (const json& row : out) {
        used.push_back(row["scale_used"]);
        ruling.push_back(row["ruling_entry"]);
        ages.push_back(row["age"]);
        EXPECT_EQ(row["frozen_for"], 0);
    }
    EXPECT_THAT(used, ElementsAre(1, 224, 56, 56, 56, 56, 448, 896));
    EXPECT_EQ(out[7]["next_scale"], 1792.0);
    EXPECT_EQ(out[7]["next_scale_bits"], "44E00000");
    EXPECT_THAT(ruling, ElementsAre(2, 8, 8, 8, 8, 1, 0.5, 0.25))
        << "the 8 rules updates 2 to 5 and leaves at update 6";
    EXPECT_THAT(ages, ElementsAre(0, 0, 1, 2, 3, 3, 3, 0));
    EXPECT_EQ(out[1]["window"], json({0, 0, 2, 8}));
    EXPECT_EQ(out[4]["window"], json({0, 1, 0.5, 0.25}));
    const json recent =
        run({"--trace", "2,8,1,0.5,0.25,0.25,0.25,0.25", "--history-length", "4", "--algorithm", "most_recent"});
    used.clear();
    for (const json& row : recent) used.push_back(row["scale_used"]);
    EXPECT_THAT(used, ElementsAre(1, 224, 56, 448, 896, 1792, 1792, 1792));
}

TEST(TensorCommand, CaseC02CastOfStep2) {
    const json out = run({"--values", "8,-4,2,1", "--recipe", "delayed", "--format", "e4m3", "--history", "0,0,0,2"});
    EXPECT_EQ(out["scale"], 224.0);
    EXPECT_EQ(out["codes"], json({"7E", "FE", "7E", "76"}));
    EXPECT_EQ(out["dequantized"], json({2.0, -2.0, 2.0, 1.0}));
    EXPECT_EQ(out["counters"]["over_range"], 2);
    EXPECT_EQ(out["next"]["scale"], 56.0);
    EXPECT_EQ(out["next"]["history"], json({0, 0, 2, 8}));
}

TEST(TensorCommand, CaseC03) {
    const json out = run({"--trace", "4,0,0,2", "--history-length", "3"});
    for (const json& row : out) EXPECT_EQ(row["next_scale"], 112.0);
    EXPECT_EQ(out[0]["updated"], true);
    EXPECT_EQ(out[1]["updated"], false);
    EXPECT_EQ(out[2]["updated"], false);
    EXPECT_EQ(out[2]["window"], json({0, 0, 4}));
    EXPECT_EQ(out[3]["window"], json({0, 4, 2}));
    EXPECT_EQ(run({"--trace", "4,0,0,2", "--history-length", "3", "--algorithm", "most_recent"})[3]["next_scale"],
              224.0);
    const json cast = run({"--values", "0,0", "--history", "0,4", "--recipe", "delayed"});
    EXPECT_EQ(cast["next"]["updated"], false);
    EXPECT_EQ(cast["next"]["history"], json({0, 4}));
}

TEST(TensorCommand, AnInfInTheWindowFreezesTheScaleAndSaysForHowLong) {
    const json out = run({"--trace", "4,inf,1,1,1,1,1", "--history-length", "4"});
    std::vector<double> next;
    std::vector<int> frozen;
    for (const json& row : out) {
        next.push_back(row["next_scale"]);
        frozen.push_back(row["frozen_for"]);
    }
    EXPECT_THAT(next, ElementsAre(112, 112, 112, 112, 112, 448, 448));
    EXPECT_THAT(frozen, ElementsAre(0, 3, 2, 1, 0, 0, 0))
        << "three more updates keep the scale, the one after moves it";
    EXPECT_EQ(out[1]["ruling_entry"], 4.0);
    EXPECT_EQ(out[1]["amax"], "Infinity");
    EXPECT_EQ(run({"--trace", "inf,1", "--history-length", "1"})[1]["next_scale"], 448.0);
    EXPECT_TRUE(run({"--trace", "inf"})[0]["ruling_entry"].is_null());
}

TEST(TensorCommand, CaseC04) {
    const std::tuple<const char*, float, float, float, float> rows[] = {
        {"0", 1, 1, 1, 1},
        {"1", 448, 256, 57344, 32768},
        {"3", 149.333328f, 128, 19114.666f, 16384},
        {"448", 1, 1, 128, 128},
        {"449", 0.997772813f, 0.5f, 127.71492f, 64},
        {"inf", 1, 1, 1, 1},
        {"1e-37", std::numeric_limits<float>::max(), 0x1p127f, std::numeric_limits<float>::max(), 0x1p127f}};
    for (const auto& [amax, e4m3, e4m3Pow2, e5m2, e5m2Pow2] : rows) {
        auto scale = [&](const char* format, bool pow2) {
            std::vector<std::string> arguments = {"--values", amax, "--recipe", "current", "--format", format};
            if (pow2) arguments.push_back("--pow2");
            return run(arguments)["scale"].get<float>();
        };
        EXPECT_FLOAT_EQ(scale("e4m3", false), e4m3) << amax;
        EXPECT_EQ(scale("e4m3", true), e4m3Pow2) << amax;
        EXPECT_FLOAT_EQ(scale("e5m2", false), e5m2) << amax;
        EXPECT_EQ(scale("e5m2", true), e5m2Pow2) << amax;
    }
    const std::string vector = "3,-1.5,.75,.1,.01,.001,0,-3";
    const json plain = run({"--values", vector, "--recipe", "current"});
    EXPECT_EQ(plain["codes"].get<std::vector<std::string>>(), words("7E F6 6E 57 3C 22 00 FE"));
    EXPECT_NEAR(plain["mse"], 2.543e-8, 5e-12);
    EXPECT_EQ(plain["counters"]["underflow"], 0);
    const json pow2 = run({"--values", vector, "--recipe", "current", "--pow2"});
    EXPECT_EQ(pow2["codes"].get<std::vector<std::string>>(), words("7C F4 6C 55 3A 20 00 FC"));
    EXPECT_NEAR(pow2["mse"], 3.121e-7, 5e-11);
}

TEST(TensorCommand, CaseC05Mxfp8) {
    const std::tuple<const char*, const char*, int, const char*> rows[] = {
        {"0", "e4m3", 0, "00"},     {"0.5", "e4m3", 118, "78"},  {"1", "e4m3", 119, "78"},   {"2", "e4m3", 120, "78"},
        {"3", "e4m3", 120, "7C"},   {"448", "e4m3", 127, "7E"},  {"449", "e4m3", 128, "76"}, {"896", "e4m3", 128, "7E"},
        {"897", "e4m3", 129, "76"}, {"1000", "e4m3", 129, "78"}, {"0.001", "e4m3", 109, ""}, {"1", "e5m2", 112, ""},
        {"57344", "e5m2", 127, ""}, {"57345", "e5m2", 128, ""}};
    for (const auto& [amax, format, scale, code] : rows) {
        const json out = run({"--values", amax, "--recipe", "mxfp8", "--format", format});
        EXPECT_EQ(std::stoi(out["blocks"][0]["scale_code"].get<std::string>(), nullptr, 16), scale) << amax;
        EXPECT_TRUE(*code == 0 || out["codes"][0] == code) << amax << out["codes"];
    }
    std::string values = "1,";
    for (int i = 0; i < 31; ++i) values += "0,";
    const json two = run({"--values", values + "448", "--recipe", "mxfp8"});
    EXPECT_EQ(two["blocks"].size(), 2u);
    EXPECT_EQ(two["blocks"][1]["col"], 1);
    EXPECT_TRUE(two["scale"].is_null());
}

/// amax 6: S = 2688 / 6 = 448; the first block's E4M3 scale is 448 (7E), the second's RN(448 / 6) = 72 (69).
TEST(TensorBench, Nvfp4ByHand) {
    TensorRequest request;
    request.values.assign(32, 0.0f);
    request.values[0] = 6, request.values[1] = -2.5f, request.values[16] = 1, request.values[17] = -0.5f;
    request.recipe = "nvfp4";
    request.device = tensorDevice();
    const TensorResult result = runTensorBench(request);
    EXPECT_EQ(result.request.format, "e2m1");
    EXPECT_EQ(result.scale, 448);
    ASSERT_EQ(result.blocks.size(), 2u);
    EXPECT_EQ(result.blocks[0].scaleCode, 0x7E);
    EXPECT_EQ(result.blocks[1].scaleCode, 0x69);
    EXPECT_FLOAT_EQ(result.blocks[1].scaleInv, 72.0f / 448);
    EXPECT_EQ(result.codes[0], 0x7u);
    EXPECT_EQ(result.codes[1], 0xCu);   // -2: a tie
    EXPECT_EQ(result.codes[16], 0x7u);  // 448 / 72 = 6.22
    EXPECT_EQ(result.codes[17], 0xDu);  // -3.11: -3
    EXPECT_FLOAT_EQ(result.dequantized[16], 6 * 72.0f / 448);
    EXPECT_EQ(result.counters.overRange, 1u);
    EXPECT_EQ(result.counters.clipped, 0u);
}

TEST(TensorCommand, CaseC06WhatIf) {
    std::string values;
    for (int i = 0; i < 32; ++i) values += "0x1p-" + std::to_string(i) + ",";
    const json out = run({"--values", values, "--what-if"});
    auto underflow = [&](const char* recipe, const char* format, bool pow2) {
        for (const json& one : out)
            if (one["recipe"] == recipe && one["format"] == format && one["pow2"] == pow2)
                return one["counters"]["underflow"].get<int>();
        return -1;
    };
    EXPECT_EQ(underflow("current", "e4m3", false), 13);
    EXPECT_EQ(underflow("current", "e4m3", true), 14);
    EXPECT_EQ(underflow("mxfp8", "e4m3", true), 14);
    EXPECT_EQ(underflow("block1x128", "e4m3", true), 14);
    EXPECT_EQ(underflow("block128x128", "e4m3", true), 14);
    EXPECT_EQ(underflow("current", "e5m2", false), 0);
    EXPECT_EQ(underflow("mxfp8", "e5m2", true), 0);
    EXPECT_EQ(underflow("fixed", "e4m3", false), 22);
    EXPECT_EQ(underflow("fixed", "e5m2", false), 15);
    EXPECT_THAT(runText({"--values", values, "--what-if"}), HasSubstr("13 (40.62 %)"));
}

TEST(TensorCommand, CaseC07) {
    const json fresh =
        run({"--values",
             "0x1p-10,0x2p-10,0x3p-10,0x4p-10,0x5p-10,0x6p-10,0x7p-10,0x8p-10,0x9p-10,0xAp-10,0xBp-10,0xCp-10,"
             "0xDp-10,0xEp-10,0xFp-10,0x10p-10",
             "--recipe", "delayed"});
    std::vector<double> times1024;
    for (double value : fresh["dequantized"]) times1024.push_back(value * 1024);
    EXPECT_THAT(times1024, ElementsAre(0, 2, 4, 4, 4, 6, 8, 8, 8, 10, 12, 12, 12, 14, 16, 16));
    EXPECT_EQ(fresh["scale"], 1.0);
    EXPECT_EQ(fresh["next"]["history"].size(), 1024u);
    EXPECT_EQ(fresh["counters"]["underflow"], 1);
    EXPECT_NEAR(fresh["mse"], 4.768e-7, 5e-11);
    EXPECT_NEAR(fresh["sqnr_db"], 22.72, 0.005);
    const json over = run({"--values", "448,449,463,464,465,480,500,1000"});
    EXPECT_EQ(over["counters"]["over_range"], 7);
    EXPECT_EQ(over["counters"]["clipped"], 4);
}

TEST(TensorCommand, CasesN01N02N14Codes) {
    EXPECT_EQ(run({"--codes", "01 07,08 55 C3 7E"})["dequantized"],
              json({0.001953125, 0.013671875, 0.015625, 13.0, -2.75, 448.0}));
    EXPECT_EQ(run({"--codes", "7F,FF"})["dequantized"], json({"NaN", "NaN"}));
    EXPECT_EQ(run({"--codes", "0x55,C3,7B,7C", "--format", "e5m2"})["dequantized"],
              json({80.0, -3.5, 57344.0, "Infinity"}));
    EXPECT_EQ(run({"--values", "0x1p-9", "--format", "e5m2"})["codes"][0], "18");
    EXPECT_EQ(run({"--values", "2.5,3.5,5,nan", "--format", "e2m1"})["codes"], json({"4", "6", "6", "7"}));
    EXPECT_EQ(run({"--values", "0.00223214286", "--format", "e8m0", "--round", "down"})["codes"][0], "76");
    EXPECT_EQ(run({"--values", "0.00223214286", "--format", "e8m0", "--round", "up"})["codes"][0], "77");
    EXPECT_EQ(run({"--values", "3.4028235e38,1", "--format", "bf16"})["codes"], json({"7F80", "3F80"}));
    EXPECT_EQ(run({"--values", "0.1,65520", "--format", "fp16"})["codes"], json({"2E66", "7C00"}));
    EXPECT_EQ(run({"--values", "1.0625000001,0x1.100002p0", "--dtype", "bf16"})["codes"], json({"38", "38"}))
        << "double rounding";
    EXPECT_EQ(run({"--values", "0x1.100002p0"})["codes"][0], "39");
}

TEST(TensorCommand, CasesN03N04N05N06N10) {
    const auto scale = [](std::vector<std::string> more) {
        std::vector<std::string> arguments = {"--values", "1", "--recipe", "delayed", "--history", "0.5,3.5,7,2"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(arguments)["scale"].get<double>();
    };
    EXPECT_EQ(scale({}), 64);
    EXPECT_EQ(scale({"--margin", "1"}), 32);
    EXPECT_EQ(scale({"--algorithm", "most_recent"}), 896);
    EXPECT_EQ(run({"--values", "1", "--history", "0,3.5,7,2", "--algorithm", "most_recent"})["scale"], 224.0);
    EXPECT_EQ(run({"--values", "1", "--history", "1e-37"})["scale_bits"], "7F7FFFFF");
    EXPECT_EQ(run({"--values", "1", "--history", "1e-37"})["scale_inv_bits"], "00200000");
    EXPECT_EQ(run({"--values", "1", "--history", "0,2", "--history-length", "4"})["next"]["history"],
              json({0, 0, 2, 1}));
    EXPECT_EQ(run({"--values", "3", "--recipe", "current", "--pow2"})["codes"][0], "7C");
    EXPECT_EQ(run({"--values", "3", "--recipe", "current"})["codes"][0], "7E");
    const json n05 = run({"--values", "1,449,464,465,1000,inf,nan,-500"});
    EXPECT_EQ(n05["counters"]["over_range"], 6);
    EXPECT_EQ(n05["counters"]["clipped"], 4);
    EXPECT_EQ(n05["counters"]["nan"], 1);
    EXPECT_EQ(n05["counters"]["inf"], 1);
    const json n06 = run({"--values", "1,1.1,2.3,-3.7"});
    EXPECT_EQ(n06["codes"], json({"38", "39", "41", "C7"}));
    EXPECT_NEAR(n06["mse"], 0.00140625, 5e-9);
    EXPECT_NEAR(n06["sqnr_db"], 35.760, 5e-4);
    EXPECT_EQ(run({"--values", "0,0x1p-9,8"})["dynamic_range"], 12.0);
    EXPECT_TRUE(run({"--values", "0,0"})["dynamic_range"].is_null());
    EXPECT_EQ(run({"--values", "0,0"})["sqnr_db"], "NaN");
    EXPECT_EQ(run({"--values", "1"})["sqnr_db"], "Infinity");
}

TEST(TensorBench, CaseN12) {
    std::mt19937 random(12);
    std::normal_distribution<float> normal;
    TensorRequest request;
    request.values.resize(1000000);
    for (float& value : request.values) value = normal(random);
    request.dtype = "bf16";
    request.recipe = "current";
    request.device = tensorDevice();
    EXPECT_NEAR(runTensorBench(request).sqnrDb, 31.57, 0.05);
    request.format = "e5m2";
    EXPECT_NEAR(runTensorBench(request).sqnrDb, 25.58, 0.05);
}

TEST(TensorBench, BlockScalingAsRecordedFromTransformerEngine) {
    const auto bits = test::goldenArray<uint16_t>("te/d_input_256x384.bf16.bin");
    ASSERT_EQ(bits.size(), 256u * 384);
    TensorRequest request;
    request.rows = 256;
    request.cols = 384;
    request.dtype = "bf16";
    for (uint16_t value : bits) request.values.push_back(kernels::decodeBf16(value));
    for (bool square : {false, true}) {
        for (bool pow2 : {false, true}) {
            const std::string name =
                std::string("te/d_e4m3_") + (square ? "2d" : "1d") + "_pow2" + (pow2 ? "1" : "0") + "_rowwise_";
            const auto codes = test::goldenBytes(name + "data.bin");
            const auto scales = test::goldenArray<uint32_t>(name + "scale_inv.bin");
            request.recipe = square ? "block128x128" : "block1x128";
            request.powerOfTwo = pow2;
            request.device = tensorDevice();
            const TensorResult result = runTensorBench(request);
            ASSERT_EQ(result.codes.size(), codes.size());
            size_t wrong = 0;
            for (size_t i = 0; i < codes.size(); ++i) wrong += result.codes[i] != codes[i];
            EXPECT_EQ(wrong, 0u) << name;
            for (const TensorBlock& block : result.blocks) {
                const size_t at = square ? block.row * 4 + block.col : block.col * 256 + block.row;
                EXPECT_EQ(__builtin_bit_cast(uint32_t, block.scaleInv), scales[at])
                    << name << block.row << "," << block.col;
            }
            EXPECT_EQ(result.blocks.size(), square ? 6u : 768u);
        }
    }
}

TEST(TensorBench, SingleBlocksAsRecordedFromTransformerEngine) {
    const auto bytes = test::goldenBytes("te/d_block.json");
    const json recorded = json::parse(bytes.begin(), bytes.end())["single_block"];
    for (const auto& [key, entry] : recorded.items()) {
        TensorRequest request;
        request.values = {std::strtof(key.substr(5).c_str(), nullptr)};
        request.recipe = "block1x128";
        request.dtype = key.find("bfloat16") != std::string::npos ? "bf16" : "f32";
        request.powerOfTwo = key.find("pow2=1") != std::string::npos;
        request.device = tensorDevice();
        const TensorResult result = runTensorBench(request);
        EXPECT_EQ(__builtin_bit_cast(uint32_t, result.blocks[0].scaleInv), test::hexBits(entry["scale_inv"]["hex"][0]))
            << key;
        EXPECT_EQ(result.codes[0], test::hexBits(entry["code"])) << key;
    }
    EXPECT_GE(recorded.size(), 36u);
}

class TensorFiles : public testing::Test {
  protected:
    void SetUp() override {
        folder_ = std::filesystem::temp_directory_path() / ("mantissa_tensor_" + std::to_string(::getpid()));
        std::filesystem::create_directories(folder_);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    std::string write(const std::string& name, const std::string& content) {
        std::ofstream(folder_ / name, std::ios::binary) << content;
        return (folder_ / name).string();
    }
    std::filesystem::path folder_;
};

std::string safetensors(const std::string& header, const std::string& data) {
    const uint64_t size = header.size();
    return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
}

TEST_F(TensorFiles, CsvAndSafetensors) {
    const json csv = run({"--file", write("a.csv", "1, 2,3\r\n-inf,nan,0.5\n\n")});
    EXPECT_EQ(csv["shape"], json({2, 3}));
    EXPECT_EQ(csv["codes"], json({"38", "40", "44", "FE", "7F", "30"}));
    EXPECT_EQ(run({"--file", write("b.csv", "1\n2\n3\n4\n")})["shape"], json({1, 4}));
    EXPECT_EQ(run({"--file", (folder_ / "b.csv").string(), "--shape", "2,2"})["shape"], json({2, 2}));
    const float values[4] = {1, 2, 3, 4};
    const std::string data(reinterpret_cast<const char*>(values), 16);
    const auto one =
        write("one.safetensors", safetensors(R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})", data));
    EXPECT_EQ(run({"--file", one})["shape"], json({2, 2}));
    EXPECT_EQ(run({"--file", one + ":w"})["codes"], json({"38", "40", "44", "48"}));
    EXPECT_THAT(sentence({"--file", one + ":v"}), HasSubstr("no tensor \"v\"; allowed: w"));
    const auto two = write(
        "two.safetensors",
        safetensors(
            R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
            data));
    EXPECT_THAT(sentence({"--file", two}), HasSubstr("which tensor? FILE.safetensors:NAME; allowed: a, b"));
    EXPECT_EQ(run({"--file", two + ":b"})["codes"], json({"44", "48"}));
    EXPECT_THAT(sentence({"--file", write("bad.safetensors", "garbage")}), HasSubstr("bad.safetensors"));
}

TEST_F(TensorFiles, BadInputHasOneSentence) {
    EXPECT_THAT(sentence({"--values", "1,2,x"}),
                HasSubstr("tensor: values: value 3 \"x\" is not a number; allowed: decimal numbers, nan, inf, -inf"));
    EXPECT_THAT(sentence({"--values", "1,,2"}), HasSubstr("value 2 \"\""));
    EXPECT_THAT(sentence({"--values", "1 2"}), HasSubstr("value 1 \"1 2\""));
    EXPECT_THAT(sentence({"--file", write("x.csv", "1,2\n3,abc\n")}), HasSubstr("x.csv: value 4 \"abc\""));
    EXPECT_THAT(sentence({"--file", write("e.csv", "\n\n")}), HasSubstr("e.csv: holds no values"));
    EXPECT_THAT(sentence({"--file", (folder_ / "none.csv").string()}), HasSubstr("none.csv: no such file"));
    EXPECT_THAT(sentence({}), HasSubstr("allowed: one of --values, --codes, --file, --normal, --trace"));
    EXPECT_THAT(sentence({"--values", "1", "--format", "e3m4"}),
                HasSubstr("format: \"e3m4\" is unknown; allowed: e4m3"));
    EXPECT_THAT(sentence({"--values", "1", "--recipe", "odd"}),
                HasSubstr("recipe: \"odd\" is unknown; allowed: delayed, current"));
    EXPECT_THAT(sentence({"--values", "1", "--recipe", "current", "--format", "bf16"}), HasSubstr("allowed: fixed"));
    EXPECT_THAT(sentence({"--values", "1", "--scale", "0"}),
                HasSubstr("scale: 0 is no scale; allowed: finite numbers above 0"));
    EXPECT_THAT(sentence({"--values", "1", "--scale", "nan"}), HasSubstr("scale: nan"));
    EXPECT_THAT(sentence({"--values", "1,2,3", "--shape", "2,2"}), HasSubstr("shape: 2,2 does not hold the 3 values"));
    EXPECT_THAT(sentence({"--values", "1", "--shape", "axb"}), HasSubstr("allowed: rows,columns"));
    EXPECT_THAT(sentence({"--values", "1", "--shape", "9223372036854775807,9223372036854775807"}), HasSubstr("shape"));
    EXPECT_THAT(sentence({"--values", "1", "--history", "1,-2"}), HasSubstr("history: entry 2 is -2"));
    EXPECT_THAT(sentence({"--values", "1", "--history", "1,2", "--history-length", "1"}),
                HasSubstr("allowed: 2 and more"));
    EXPECT_THAT(sentence({"--values", "1", "--algorithm", "least"}), HasSubstr("allowed: max, most_recent"));
    EXPECT_THAT(sentence({"--values", "1", "--dtype", "f64"}), HasSubstr("allowed: f32, bf16"));
    EXPECT_THAT(sentence({"--values", "1", "--margin", "1000"}), HasSubstr("margin: 1000"));
    EXPECT_THAT(sentence({"--codes", "7E,1FF"}), HasSubstr("code 2 \"1FF\" is no e4m3 code; allowed: 0 ... FF"));
    EXPECT_THAT(sentence({"--values", "1", "--device", "gpu"}), HasSubstr("device: \"gpu\" is unknown"));
    EXPECT_THAT(sentence({"--values", "1", "--device", "cuda:x"}), HasSubstr("\"cuda:x\" is not a device"));
    EXPECT_THAT(sentence({"--values", "1", "--device", "cuda", "--format", "fp16"}),
                HasSubstr("device: fp16 is cast on the CPU alone; allowed there: e4m3, e5m2, nvfp4"));
    EXPECT_THAT(sentence({"--values", "1.0001", "--device", "cuda", "--recipe", "nvfp4"}),
                HasSubstr("allowed: --dtype bf16"));
    if (!hasGpu()) {
        EXPECT_THAT(sentence({"--values", "1", "--device", "cuda"}, 4),
                    AnyOf(HasSubstr("cuda"), HasSubstr("has no CUDA backend")));  // built with or without it
    }
}

TEST_F(TensorFiles, RandomTextAndFilesGiveValuesOrASentence) {
    std::mt19937 random(std::getenv("MANTISSA_FUZZ_SEED") ? std::stoul(std::getenv("MANTISSA_FUZZ_SEED")) : 1);
    const int rounds = std::getenv("MANTISSA_FUZZ_ROUNDS") ? std::stoi(std::getenv("MANTISSA_FUZZ_ROUNDS")) : 2000;
    const std::string alphabet = "0123456789+-.eExXpPinfaN,,,\n \t;";
    const float values[4] = {1, 2, 3, 4};
    const std::string whole = safetensors(R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})",
                                          std::string(reinterpret_cast<const char*>(values), 16));
    int good = 0, refused = 0;
    for (int round = 0; round < rounds; ++round) {
        std::string text;
        const bool file = round % 4 == 0;
        if (file) {
            text = whole;
            for (int change = static_cast<int>(random() % 4); change >= 0; --change)
                text[random() % text.size()] = static_cast<char>(random());
            if (random() % 3 == 0) text.resize(random() % text.size());
        } else {
            for (size_t n = random() % 12; n > 0; --n) text += alphabet[random() % alphabet.size()];
        }
        try {
            const TensorValues input =
                file ? readTensorFile(write("fuzz.safetensors", text)) : parseTensorValues(text, "tensor: values");
            EXPECT_EQ(input.rows * input.cols, static_cast<int64_t>(input.values.size())) << text;
            ++good;
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
            ++refused;
        }
    }
    EXPECT_GT(good, rounds / 50);
    EXPECT_GT(refused, rounds / 50);
}

TEST(TensorCommand, ListsAreCutUnlessAll) {
    std::string values;
    for (int i = 0; i < 5000; ++i) values += "1,";
    EXPECT_EQ(run({"--values", values})["codes"].size(), 4096u);
    EXPECT_EQ(run({"--values", values})["count"], 5000);
    EXPECT_EQ(run({"--values", values, "--all"})["codes"].size(), 5000u);
    EXPECT_THAT(runText({"--values", values}), HasSubstr("4936 more; --all shows them"));
}

}  // namespace
}  // namespace mantissa::experiments
