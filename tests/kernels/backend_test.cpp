// The host backends and the probes: memory, workspace, recordings, phase times, what the device says of itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/elementwise_cases.h"

namespace mantissa::test {
namespace {

using kernels::Backend;

TEST(CpuBackend, MemoryIsZeroedAlignedAndGivenBack) {
    kernels::SerialExecutor executor;
    const auto backend = kernels::createCpuBackend(executor);
    for (size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, size_t{4} << 20, (size_t{9} << 20) + 5}) {
        auto* memory = static_cast<uint8_t*>(backend->allocate(bytes));
        ASSERT_NE(memory, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 256, 0u);
        EXPECT_TRUE(std::all_of(memory, memory + bytes, [](uint8_t b) { return b == 0; }));
        std::fill(memory, memory + bytes, uint8_t{1});
        backend->release(memory);
    }
    backend->release(nullptr);
}

TEST(CpuBackend, SaysHowManyBytesItCouldNotAllocate) {
    kernels::SerialExecutor executor;
    const auto backend = kernels::createCpuBackend(executor);
    for (size_t bytes : {size_t{1} << 60, SIZE_MAX - 10}) {
        try {
            backend->allocate(bytes);
            FAIL() << bytes;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::OutOfMemory);
            EXPECT_THAT(error.what(), testing::HasSubstr(std::to_string(bytes)));
        }
    }
}

TEST(CpuBackend, AsksForExactlyTheWorkspaceThatItUses) {
    ThreadExecutor executor(3);
    const auto backend = kernels::createCpuBackend(executor);
    NormBackwardData data({130, 96, DType::BF16, DType::E5M2}, kernels::NormKind::LayerNorm);
    const size_t bytes = backend->workspace(data.op());
    ASSERT_GT(bytes, 0u);
    std::vector<uint64_t> memory(bytes / 8 + 64, 0x5A5A5A5A5A5A5A5Aull);
    auto* start = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(memory.data()) + 255) / 256 * 256);
    backend->bindWorkspace(start, bytes);
    backend->run(data.op());
    for (const auto* p = start + bytes; p < reinterpret_cast<uint8_t*>(memory.data() + memory.size()); ++p)
        ASSERT_EQ(*p, 0x5A);
    EXPECT_TRUE(std::any_of(start + bytes - 4096, start + bytes, [](uint8_t b) { return b != 0x5A; }));
    backend->bindWorkspace(start, bytes - 1);
    try {
        backend->run(data.op());
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::ShapeMismatch);
        EXPECT_THAT(error.what(), testing::HasSubstr(std::to_string(bytes)));
    }
}

TEST(CpuBackend, RecordingsRunOnReplayOnly) {
    kernels::SerialExecutor executor;
    for (const auto& backend : {kernels::createCpuBackend(executor), kernels::createReferenceBackend()}) {
        std::vector<float> values(100, 0.0f);
        Backend* device = backend.get();
        const auto recording = device->record([&values, device] {
            device->run(kernels::Fill{100, values.data(), 3.0f});
        });
        EXPECT_EQ(values[5], 0);
        device->replay(*recording);
        EXPECT_EQ(values[99], 3);
        values[7] = 0;
        device->replay(*recording);
        EXPECT_EQ(values[7], 3);
    }
}

TEST(CpuBackend, PhaseTimesGoToThePhaseOfTheOp) {
    kernels::SerialExecutor executor;
    const auto backend = kernels::createCpuBackend(executor);
    std::vector<float> values(1 << 22);
    std::vector<double> partials(128);
    backend->run(kernels::Fill{1 << 22, values.data(), 1.0f});
    kernels::PhaseTimes times = backend->takePhaseTimes();
    const auto seconds = [&](kernels::Phase phase) { return times.seconds[static_cast<int>(phase)]; };
    EXPECT_GT(seconds(kernels::Phase::Elementwise), 0);
    EXPECT_EQ(seconds(kernels::Phase::Optimizer), 0);
    backend->run(kernels::SumSquares{1 << 22, values.data(), partials.data()});
    times = backend->takePhaseTimes();
    EXPECT_GT(seconds(kernels::Phase::Optimizer), 0);
    EXPECT_EQ(seconds(kernels::Phase::Elementwise), 0);
    EXPECT_EQ(seconds(kernels::Phase::Matmul), 0);
}

TEST(CpuBackend, TakesTheInstructionSetAskedForAndRefusesOthers) {
    kernels::SerialExecutor executor;
    for (kernels::Isa isa : supportedIsas()) {
        const auto backend = kernels::createCpuBackend(executor, kernels::isaName(isa));
        EXPECT_EQ(backend->info().isa, kernels::isaName(isa));
        EXPECT_EQ(backend->info().determinismClass, isa == kernels::Isa::Sse ? "x86-sse" : "x86-fma");
        EXPECT_FALSE(backend->nativeFp8());
        EXPECT_FALSE(backend->needsTransposedCodes());
    }
    try {
        kernels::createCpuBackend(executor, "neon");
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidConfig);
        EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("neon"), testing::HasSubstr("sse")));
    }
}

TEST(Probe, DescribesTheProcessor) {
    const kernels::DeviceInfo info = kernels::probeCpu();
    EXPECT_EQ(info.id, "cpu");
    EXPECT_FALSE(info.name.empty());
    EXPECT_TRUE(info.usable);
    EXPECT_GE(info.threads, 1);
    EXPECT_GT(info.memoryTotal, info.memoryFree);
    EXPECT_GT(info.memoryFree, 1u << 20);
    EXPECT_FALSE(info.native.empty());
    const auto mentions = [](const std::vector<kernels::Capability>& list, const std::string& what) {
        return std::any_of(list.begin(), list.end(),
                           [&](const auto& c) { return c.what.find(what) != std::string::npos; });
    };
    EXPECT_TRUE(mentions(info.emulated, "FP8"));
    EXPECT_NE(mentions(info.native, "BF16"), mentions(info.emulated, "BF16"));
    for (const auto* list : {&info.native, &info.emulated, &info.missing})
        for (const auto& c : *list) EXPECT_FALSE(c.why.empty()) << c.what;
}

TEST(Probe, CudaGivesDevicesOrOneReason) {
    const std::vector<kernels::DeviceInfo> devices = kernels::probeCuda();
    ASSERT_FALSE(devices.empty());
    for (const kernels::DeviceInfo& device : devices) {
        EXPECT_THAT(device.id, testing::StartsWith("cuda:"));
        EXPECT_TRUE(device.usable || device.reason.ends_with("."));
    }
}

}  // namespace
}  // namespace mantissa::test
