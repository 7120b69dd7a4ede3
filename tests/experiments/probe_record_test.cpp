// What probed steps measure beside statistics: written, read back, kept apart from histograms; the first trouble.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiments/job/first_trouble.h"
#include "experiments/store/step_record.h"
#include "tests/experiments/support.h"

namespace mantissa::experiments {
namespace {

engine::NumericsRecord example() {
    engine::NumericsRecord record;
    record.tensors.resize(3);
    record.tensors[1].exponents.assign(280, 0);
    record.tensors[1].exponents[7] = 9;
    record.tensors[2].staleCodes = 77;
    record.shadow = {{1, 2, 31.25, 0.0273, 64}, {0, 0, INFINITY, 0, 64}};
    record.ops = {{"h.0", "norm1", false, 0, 0, engine::kNoElement},
                  {"h.1", "mlp.fc1", true, 3, 1, 4096},
                  {"lm_head", "loss", false, 1, 0, engine::kNoElement}};
    return record;
}

TEST(ProbeRecord, ReadsBackWhatWasWritten) {
    const auto blob = encodeExponents(example());
    const ProbeExtras extras = decodeExtras({blob.data(), blob.size()});
    ASSERT_EQ(extras.shadow.size(), 2u);
    EXPECT_EQ(extras.shadow[0].linear, 1);
    EXPECT_EQ(extras.shadow[0].gemm, 2);
    EXPECT_EQ(extras.shadow[0].sqnrDb, 31.25);
    EXPECT_EQ(extras.shadow[0].rows, 64);
    EXPECT_TRUE(std::isinf(extras.shadow[1].sqnrDb));
    ASSERT_EQ(extras.ops.size(), 2u) << "ops without non-finite values are not kept";
    EXPECT_EQ(engine::opName(extras.ops[0]), "h.1 mlp.fc1 (backward)");
    EXPECT_EQ(extras.ops[0].element, 4096u);
    EXPECT_EQ(extras.ops[1].element, engine::kNoElement);
    ASSERT_EQ(extras.stale.size(), 1u);
    EXPECT_EQ(extras.stale[0], (std::pair<int, uint64_t>(2, 77)));
    EXPECT_EQ(decodeExponents({blob.data(), blob.size()}, 1).at(7), 9u);
}

TEST(ProbeRecord, DamagedAndOlderBlobsReadAsNothing) {
    const auto blob = encodeExponents(example());
    for (size_t size = 0; size < blob.size(); ++size) {
        const ProbeExtras extras = decodeExtras({blob.data(), size});
        EXPECT_TRUE(extras.shadow.empty() && extras.ops.empty() && extras.stale.empty()) << size;
    }
    engine::NumericsRecord nothing;
    nothing.tensors.resize(3);
    EXPECT_TRUE(encodeExponents(nothing).empty());
}

TEST(ProbeRecord, TheStoreFindsMeasurementsAndHistogramsOfTheirOwnSteps) {
    test::TempFolder folder;
    test::Script script;
    script.numerics = [](engine::NumericsRecord& record) {
        for (auto& tensor : record.tensors)
            if (record.step % 20 != 0) tensor.exponents.clear();
        if (record.step % 5 == 0) record.shadow = {{1, 2, 20.0 + static_cast<double>(record.step), 0.1, 8}};
        if (record.step == 40) record.ops = {{"h.1", "gelu", false, 0, 2, 5}};
        if (record.step >= 60) record.tensors[3].staleCodes = static_cast<uint64_t>(record.step);
    };
    std::string id;
    test::runFake(test::fakeSpec(70), test::fakeOptions(folder / "s", script), &id);
    RunStore store(folder / "s", RunStore::Mode::ReadOnly);
    const auto shadow = store.shadow(id, 10, 30);
    ASSERT_EQ(shadow.size(), 5u);
    EXPECT_EQ(shadow[0].step, 10);
    EXPECT_EQ(shadow[0].layer, "h.1");
    EXPECT_EQ(shadow[0].linear, "mlp.fc1");
    EXPECT_EQ(shadow[0].gemm, "wgrad");
    EXPECT_EQ(shadow[0].sqnrDb, 30);
    const auto ops = store.opChecks(id, 1, -1);
    ASSERT_EQ(ops.size(), 1u);
    EXPECT_EQ(ops[0].step, 40);
    EXPECT_EQ(ops[0].check.inf, 2u);
    const auto stale = store.staleWeights(id, 1, -1);
    ASSERT_EQ(stale.size(), 11u);
    EXPECT_EQ(stale[0].tensorIndex, 3);
    EXPECT_EQ(store.exponents(id, 0, 39).step, 20) << "step 35 has a measurement, not a histogram";
    const auto histograms = store.exponentsRange(id, 0, 1, 50);
    ASSERT_EQ(histograms.size(), 2u);
    EXPECT_EQ(histograms[1].step, 40);
    EXPECT_EQ(histograms[1].counts.at(150), 40u);
}

TEST(FirstTrouble, IsToldInWordsThatPeopleAndProgramsRead) {
    engine::TroubleReport report;
    report.step = 26;
    report.first = {"h.1", "attn.proj.weight", false, 1, 0, 70};
    report.tensor = "h.1.attn.proj/weight";
    report.row = 1;
    report.col = 6;
    report.value = NAN;
    report.chain = {{"h.1", "attn.proj", false, 256, 0, 0}, {"lm_head", "loss", false, 1, 0, 0}};
    report.reachedLoss = true;
    report.text = "A sentence.";
    const auto json = nlohmann::json::parse(troubleJson(report));
    EXPECT_EQ(json["step"], 26);
    EXPECT_EQ(json["place"], "h.1 attn.proj.weight");
    EXPECT_EQ(json["value"], "NaN");
    EXPECT_EQ(json["chain"][1]["place"], "lm_head loss");
    EXPECT_TRUE(json["reached_loss"].get<bool>());
}

}  // namespace
}  // namespace mantissa::experiments
