// The stored choices of cuBLASLt's algorithms: found for their own product alone, one a product.
#include "kernels/matmul/stored_choices.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace mantissa::kernels::cuda {
namespace {

Matmul productOf(const StoredChoice& choice) {
    Matmul op;
    op.gemm = choice.gemm, op.m = choice.m, op.n = choice.n, op.k = choice.k, op.accumulate = choice.accumulate;
    op.a.type = op.b.type = choice.fp8 ? DType::E4M3 : DType::BF16;
    if (choice.fp8 && choice.gemm != Gemm::Fprop) op.a.type = DType::E5M2;
    return op;
}

TEST(StoredChoices, EachIsFoundAndOnlyOnce) {
    std::set<std::tuple<bool, Gemm, int64_t, int64_t, int64_t, bool>> seen;
    for (const StoredChoice& choice : kStoredChoices) {
        EXPECT_TRUE(seen.insert({choice.fp8, choice.gemm, choice.m, choice.n, choice.k, choice.accumulate}).second);
        EXPECT_EQ(storedChoice(productOf(choice), kStoredVersion, kStoredCapability), &choice);
    }
}

TEST(StoredChoices, ProductsWithBlockScalesHaveTheirOwn) {
    const float scale = 1;
    std::set<std::tuple<Gemm, int64_t, int64_t, int64_t, bool>> seen;
    for (const StoredChoice& choice : kStoredBlockChoices) {
        EXPECT_TRUE(seen.insert({choice.gemm, choice.m, choice.n, choice.k, choice.accumulate}).second);
        Matmul op = productOf(choice);
        op.a.blockScaleInv = op.b.blockScaleInv = &scale;
        EXPECT_EQ(storedChoice(op, kStoredVersion, kStoredCapability), &choice);
        EXPECT_EQ(storedChoice(op, kStoredVersion + 1, kStoredCapability), nullptr);
    }
    Matmul op = productOf(kStoredChoices[0]);
    op.a.blockScaleInv = op.b.blockScaleInv = &scale;
    EXPECT_EQ(storedChoice(op, kStoredVersion, kStoredCapability), nullptr) << "the choice for one scale a tensor";
}

TEST(StoredChoices, OtherLibraryChipShapeAndTypesHaveNone) {
    const Matmul op = productOf(kStoredChoices[0]);
    EXPECT_EQ(storedChoice(op, kStoredVersion + 1, kStoredCapability), nullptr);
    EXPECT_EQ(storedChoice(op, kStoredVersion, 100), nullptr);
    Matmul other = op;
    other.m += 64;
    EXPECT_EQ(storedChoice(other, kStoredVersion, kStoredCapability), nullptr);
    other = op;
    other.a.type = other.b.type = DType::F16;
    EXPECT_EQ(storedChoice(other, kStoredVersion, kStoredCapability), nullptr);
    other = op;
    other.accumulate = !op.accumulate;
    EXPECT_EQ(storedChoice(other, kStoredVersion, kStoredCapability), nullptr);
}

}  // namespace
}  // namespace mantissa::kernels::cuda
