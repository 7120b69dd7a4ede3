#include "experiments/tensor_bench_gpu.h"

#include <map>
#include <memory>

#include "engine/plan/device_memory.h"
#include "experiments/report/device_choice.h"
#include "kernels/formats/block_layout.h"
#include "kernels/formats/half.h"

namespace mantissa::experiments {

namespace {

using engine::DeviceMemory;
using kernels::Backend;
using kernels::DType;

Backend& opened(const std::string& device) {
    thread_local std::map<std::string, std::unique_ptr<Backend>> backends;
    resolveDevice({device, 0, ""});
    const std::string concrete = concreteDevice(device);
    std::unique_ptr<Backend>& backend = backends[concrete];
    if (!backend) backend = kernels::createCudaBackend(std::stoi(concrete.substr(concrete.find(':') + 1)));
    return *backend;
}

template <class T>
DeviceMemory uploaded(Backend& backend, const T* values, size_t count) {
    DeviceMemory memory(backend, std::max<size_t>(1, count * sizeof(T)));
    backend.upload(memory.data(), values, count * sizeof(T));
    return memory;
}

template <class Op>
void runOp(Backend& backend, const Op& op) {
    const size_t bytes = backend.workspace(op);
    DeviceMemory workspace(backend, std::max<size_t>(256, bytes));
    backend.bindWorkspace(workspace.data(), workspace.bytes());
    backend.run(op);
    backend.synchronize();
    backend.bindWorkspace(nullptr, 0);
}

}  // namespace

GpuCasts::GpuCasts(const std::string& device) : backend_(opened(device)) {}

kernels::Quantize GpuCasts::quantizeOf(const void* in, size_t count, DType format) const {
    kernels::Quantize op;
    op.rows = 1, op.cols = static_cast<int64_t>(count);
    op.inType = DType::F32;
    op.in = in;
    op.roundToBf16 = false;
    op.target.format = format;
    return op;
}

GpuCasts::Cast GpuCasts::cast(const std::vector<float>& values, DType format, float scale) {
    Cast result;
    result.codes.resize(values.size());
    const DeviceMemory in = uploaded(backend_, values.data(), values.size());
    const DeviceMemory scaleThere = uploaded(backend_, &scale, 1), slot = uploaded(backend_, &result.slot, 1);
    DeviceMemory codes(backend_, std::max<size_t>(1, values.size()));
    kernels::Quantize op = quantizeOf(in.data(), values.size(), format);
    op.target.codes = static_cast<uint8_t*>(codes.data());
    op.target.scale = static_cast<const float*>(scaleThere.data());
    op.target.slot = static_cast<kernels::TensorSlot*>(slot.data());
    runOp(backend_, op);
    backend_.download(result.codes.data(), codes.data(), result.codes.size());
    backend_.download(&result.slot, slot.data(), sizeof(result.slot));
    return result;
}

float GpuCasts::currentScale(const std::vector<float>& values, DType format, bool powerOfTwo, float epsilon) {
    const kernels::TensorSlot none;
    kernels::ScaleEntry entry;
    const DeviceMemory in = uploaded(backend_, values.data(), values.size());
    const DeviceMemory slot = uploaded(backend_, &none, 1), entryThere = uploaded(backend_, &entry, 1);
    kernels::Quantize amax = quantizeOf(in.data(), values.size(), format);
    amax.target.amaxOnly = true;
    amax.target.slot = static_cast<kernels::TensorSlot*>(slot.data());
    amax.target.scale = &static_cast<const kernels::ScaleEntry*>(entryThere.data())->scale;
    runOp(backend_, amax);
    kernels::CurrentScale op;
    op.format = format;
    op.slot = static_cast<const kernels::TensorSlot*>(slot.data());
    op.entry = static_cast<kernels::ScaleEntry*>(entryThere.data());
    op.powerOfTwo = powerOfTwo;
    op.epsilon = epsilon;
    runOp(backend_, op);
    backend_.download(&entry, entryThere.data(), sizeof(entry));
    return entry.scale;
}

bool GpuCasts::delayedUpdate(std::vector<float>& window, kernels::AmaxAlgorithm algorithm, DType format, int margin,
                             float& scale) {
    kernels::ScalingTensor tensor;
    tensor.format = format;
    tensor.margin = margin;
    tensor.historyLength = static_cast<int32_t>(window.size());
    tensor.algorithm = algorithm;
    kernels::TensorSlot amax;
    amax.amax = window[0];
    kernels::ScaleEntry entry;
    entry.scale = scale, entry.scaleInv = 1.0f / scale;
    const DeviceMemory tensors = uploaded(backend_, &tensor, 1), slots = uploaded(backend_, &amax, 1);
    const DeviceMemory history = uploaded(backend_, window.data(), window.size());
    const DeviceMemory table = uploaded(backend_, &entry, 1);
    kernels::DelayedUpdate op;
    op.count = 1;
    op.tensors = static_cast<const kernels::ScalingTensor*>(tensors.data());
    op.slots = static_cast<const kernels::TensorSlot*>(slots.data());
    op.history = static_cast<float*>(history.data());
    op.table = static_cast<kernels::ScaleEntry*>(table.data());
    runOp(backend_, op);
    backend_.download(window.data(), history.data(), window.size() * sizeof(float));
    backend_.download(&entry, table.data(), sizeof(entry));
    scale = entry.scale;
    return entry.updates > 0;
}

GpuCasts::BlockValues GpuCasts::castBlocks(const kernels::BlockRule& rule, const std::vector<float>& values,
                                           int64_t rows, int64_t cols, int64_t blockRows, int64_t blockCols) {
    BlockValues result;
    kernels::ScaleEntry entry;
    const DeviceMemory in = uploaded(backend_, values.data(), values.size());
    const DeviceMemory slot = uploaded(backend_, &result.slot, 1), entryThere = uploaded(backend_, &entry, 1);
    kernels::BlockQuantize op;
    op.rows = rows, op.cols = cols;
    op.inType = DType::F32;
    op.in = in.data();
    op.kind = rule.kind;
    op.format = rule.format;
    op.blockRows = static_cast<int>(blockRows), op.blockCols = static_cast<int>(blockCols);
    op.rowEntry = static_cast<kernels::ScaleEntry*>(entryThere.data());
    op.slot = static_cast<kernels::TensorSlot*>(slot.data());
    op.roundToBf16 = rule.kind == kernels::BlockKind::Nvfp4;
    if (rule.kind == kernels::BlockKind::Block128) {
        op.powerOfTwo = rule.powerOfTwo, op.epsilon = rule.epsilon, op.largestScale = rule.largestScale;
        castToCodes(op, result);
    } else {
        castToValues(op, result);
    }
    backend_.download(&result.slot, slot.data(), sizeof(result.slot));
    backend_.download(&entry, entryThere.data(), sizeof(entry));
    result.tensorScale = entry.scale;
    return result;
}

void GpuCasts::castToValues(kernels::BlockQuantize& op, BlockValues& result) {
    const auto count = static_cast<size_t>(op.rows * op.cols);
    const DeviceMemory out(backend_, std::max<size_t>(2, count * sizeof(uint16_t)));
    op.rowValues = out.data();
    runOp(backend_, op);
    std::vector<uint16_t> bits(count);
    backend_.download(bits.data(), out.data(), bits.size() * sizeof(uint16_t));
    for (const uint16_t one : bits) result.values.push_back(kernels::floatFromBits(static_cast<uint32_t>(one) << 16));
}

void GpuCasts::castToCodes(kernels::BlockQuantize& op, BlockValues& result) {
    const bool square = op.blockRows > 1;
    std::vector<float> inOrder(static_cast<size_t>(kernels::blockScaleCount(op.rows, op.cols, square)));
    result.codes.resize(static_cast<size_t>(op.rows * op.cols));
    const DeviceMemory codes(backend_, std::max<size_t>(1, result.codes.size()));
    const DeviceMemory scales(backend_, std::max<size_t>(1, inOrder.size()) * sizeof(float));
    op.rowCodes = {static_cast<uint8_t*>(codes.data()), static_cast<float*>(scales.data())};
    runOp(backend_, op);
    backend_.download(result.codes.data(), codes.data(), result.codes.size());
    backend_.download(inOrder.data(), scales.data(), inOrder.size() * sizeof(float));
    const auto scaleInvOf = [&](int64_t row, int64_t col) {
        return inOrder[static_cast<size_t>(kernels::blockScaleIndex(op.rows, op.cols, square, row, col))];
    };
    for (int64_t row = 0; row < op.rows; row += op.blockRows)
        for (int64_t col = 0; col < op.cols; col += op.blockCols) result.scaleInv.push_back(scaleInvOf(row, col));
    for (int64_t row = 0; row < op.rows; ++row)
        for (int64_t col = 0; col < op.cols; ++col)
            result.values.push_back(
                kernels::decodeFp8(result.codes[static_cast<size_t>(row * op.cols + col)], op.format) *
                scaleInvOf(row, col));
}

}  // namespace mantissa::experiments
