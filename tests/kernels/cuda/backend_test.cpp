// The probe, memory, recordings and phase times of the CUDA backend. The first tests also run where there is no GPU.
#include <cstdio>
#include <cstdlib>

#include "tests/support/cuda_twin.h"

namespace mantissa::kernels {
namespace {

using BackendOnGpu = test::CudaTest;

TEST(CudaProbe, SaysInOneSentenceWhatIsMissing) {
    const std::vector<DeviceInfo> devices = probeCuda();
    ASSERT_FALSE(devices.empty());
    for (const DeviceInfo& device : devices) {
        if (device.usable) {
            EXPECT_FALSE(device.name.empty());
            EXPECT_GT(device.memoryTotal, 0u);
            EXPECT_FALSE(device.native.empty());
            EXPECT_EQ(device.isa.rfind("sm_", 0), 0u);
            std::printf("%s: %s, %s\n", device.id.c_str(), device.name.c_str(), device.isa.c_str());
        } else {
            EXPECT_EQ(device.reason.back(), '.');
            EXPECT_THROW(createCudaBackend(0), Error);
        }
    }
}

TEST(CudaProbe, AMissingDeviceNumberIsNamed) {
    try {
        createCudaBackend(999);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::DeviceUnavailable);
        EXPECT_NE(std::string(error.what()), "");
    }
}

TEST_F(BackendOnGpu, MemoryComesZeroedAndGoesBothWays) {
    for (size_t bytes : {size_t{1}, size_t{1000}, size_t{3} << 20, size_t{40} << 20}) {
        std::vector<uint8_t> host(bytes), back(bytes, 1);
        void* memory = gpu_->allocate(bytes);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 256, 0u);
        gpu_->download(back.data(), memory, bytes);
        EXPECT_EQ(back, host);
        for (size_t i = 0; i < bytes; ++i) host[i] = static_cast<uint8_t>(i * 7 + i / 251);
        gpu_->upload(memory, host.data(), bytes);
        const std::vector<uint8_t> wanted = host;
        std::fill(host.begin(), host.end(), uint8_t{9});  // the host's memory may be reused at once
        gpu_->download(back.data(), memory, bytes);
        EXPECT_EQ(back, wanted);
        gpu_->release(memory);
    }
}

TEST_F(BackendOnGpu, ManySmallUploadsKeepTheirOrder) {
    std::vector<int> host(200000);
    int* memory = static_cast<int*>(gpu_->allocate(host.size() * sizeof(int)));
    for (int round = 0; round < 30; ++round)
        for (size_t at = 0; at < host.size(); at += 50000) {
            for (size_t i = 0; i < 50000; ++i) host[at + i] = round * 1000000 + static_cast<int>(at + i);
            gpu_->upload(memory + at, host.data() + at, 50000 * sizeof(int));
        }
    std::vector<int> back(host.size());
    gpu_->download(back.data(), memory, back.size() * sizeof(int));
    EXPECT_EQ(back, host);
    gpu_->release(memory);
}

TEST_F(BackendOnGpu, TooLargeAnAllocationIsTypedAndHarmless) {
    try {
        gpu_->allocate(size_t{1} << 50);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::OutOfMemory);
        EXPECT_NE(std::string(error.what()).find("1125899906842624"), std::string::npos);
    }
    void* memory = gpu_->allocate(100);
    gpu_->synchronize();
    gpu_->release(memory);
}

TEST_F(BackendOnGpu, ARecordingRunsAgainOnNewData) {
    std::vector<float> values(64, 1.0f), losses(40, 0.5f);
    std::vector<double> sum{0};
    test::Twins twins(*gpu_);
    twins.add(losses), twins.add(sum), twins.add(values);
    const SumLosses add = twins.translated(SumLosses{40, losses.data(), sum.data(), true});
    const Fill fill = twins.translated(Fill{64, values.data(), 2.0f});
    auto recording = gpu_->record([&] {
        gpu_->run(fill);
        gpu_->run(add);
    });
    EXPECT_EQ(twins.get(sum)[0], 0) << "recording must not run anything";
    EXPECT_EQ(twins.get(values), values);
    for (int i = 0; i < 40; ++i) gpu_->replay(*recording);
    EXPECT_EQ(twins.get(sum)[0], 40 * 20);
    EXPECT_EQ(twins.get(values)[63], 2.0f);
    const PhaseTimes times = gpu_->takePhaseTimes();
    EXPECT_GT(times.seconds[static_cast<int>(Phase::Elementwise)], 0);
    EXPECT_LT(times.seconds[static_cast<int>(Phase::Elementwise)], 0.01);
    EXPECT_EQ(times.seconds[static_cast<int>(Phase::Matmul)], 0);
}

TEST_F(BackendOnGpu, AFailureWhileRecordingLeavesTheBackendUsable) {
    EXPECT_THROW(gpu_->record([&] { gpu_->run(NormForward{}); }), Error);
    void* memory = gpu_->allocate(100);
    gpu_->synchronize();
    gpu_->release(memory);
}

}  // namespace
}  // namespace mantissa::kernels
