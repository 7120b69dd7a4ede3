// Recording of ops into CUDA graphs, and the time by phase.
#include <algorithm>
#include <utility>

#include "kernels/device/cuda/cuda_backend.h"
#include "kernels/device/cuda/cuda_check.h"

namespace mantissa::kernels::cuda {

namespace {

/// One replay in kTimedEvery is timed, the first time early.
constexpr uint64_t kTimedEvery = 16, kTimedPhase = 2;

#if CUDART_VERSION >= 13000
#define MANTISSA_NO_EDGE_DATA nullptr,
#else
#define MANTISSA_NO_EDGE_DATA
#endif

std::vector<cudaGraphNode_t> dependencies(cudaGraphNode_t node) {
    size_t count = 0;
    MANTISSA_CUDA_CHECK(cudaGraphNodeGetDependencies(node, nullptr, MANTISSA_NO_EDGE_DATA & count));
    std::vector<cudaGraphNode_t> nodes(count);
    if (count) MANTISSA_CUDA_CHECK(cudaGraphNodeGetDependencies(node, nodes.data(), MANTISSA_NO_EDGE_DATA & count));
    return nodes;
}

std::vector<cudaGraphNode_t> dependents(cudaGraphNode_t node) {
    size_t count = 0;
    MANTISSA_CUDA_CHECK(cudaGraphNodeGetDependentNodes(node, nullptr, MANTISSA_NO_EDGE_DATA & count));
    std::vector<cudaGraphNode_t> nodes(count);
    if (count) MANTISSA_CUDA_CHECK(cudaGraphNodeGetDependentNodes(node, nodes.data(), MANTISSA_NO_EDGE_DATA & count));
    return nodes;
}

/// Takes the event nodes out of a graph; what waited for one waits for what it waited for.
void stripEvents(cudaGraph_t graph) {
    size_t count = 0;
    MANTISSA_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
    std::vector<cudaGraphNode_t> nodes(count);
    MANTISSA_CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
    for (cudaGraphNode_t node : nodes) {
        cudaGraphNodeType type{};
        MANTISSA_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
        if (type != cudaGraphNodeTypeEventRecord) continue;
        const std::vector<cudaGraphNode_t> before = dependencies(node), after = dependents(node);
        MANTISSA_CUDA_CHECK(cudaGraphDestroyNode(node));
        for (const cudaGraphNode_t from : before)
            for (const cudaGraphNode_t to : after)
                MANTISSA_CUDA_CHECK(cudaGraphAddDependencies(graph, &from, &to, MANTISSA_NO_EDGE_DATA 1));
    }
}

}  // namespace

GraphTiming::~GraphTiming() {
    for (cudaEvent_t event : events) cudaEventDestroy(event);
}

void GraphTiming::addTo(PhaseTimes& out) const {
    if (!ran || cudaEventQuery(events.back()) != cudaSuccess) {
        cudaGetLastError();
        return;
    }
    for (size_t i = 0; i + 1 < events.size(); ++i) {
        float milliseconds = 0;
        if (cudaEventElapsedTime(&milliseconds, events[i], events[i + 1]) != cudaSuccess) {
            cudaGetLastError();
            return;
        }
        out.seconds[static_cast<int>(phases[i])] += milliseconds * 1e-3;
    }
}

GraphRecording::GraphRecording(cudaGraph_t captured, std::shared_ptr<GraphTiming> timing, cudaStream_t stream)
    : timing_(std::move(timing)) {
    cudaGraph_t stripped = nullptr;
    try {
        MANTISSA_CUDA_CHECK(cudaGraphInstantiate(&timed_, captured, 0));
        MANTISSA_CUDA_CHECK(cudaGraphClone(&stripped, captured));
        stripEvents(stripped);
        MANTISSA_CUDA_CHECK(cudaGraphInstantiate(&plain_, stripped, 0));
        MANTISSA_CUDA_CHECK(cudaGraphUpload(timed_, stream));
        MANTISSA_CUDA_CHECK(cudaGraphUpload(plain_, stream));
    } catch (...) {
        if (stripped) cudaGraphDestroy(stripped);
        cudaGraphDestroy(captured);
        throw;
    }
    cudaGraphDestroy(stripped);
    cudaGraphDestroy(captured);
}

GraphRecording::~GraphRecording() {
    if (timed_) cudaGraphExecDestroy(timed_);
    if (plain_) cudaGraphExecDestroy(plain_);
}

void GraphRecording::launch(cudaStream_t stream) {
    const bool timed = replays_++ % kTimedEvery == kTimedPhase;
    MANTISSA_CUDA_CHECK(cudaGraphLaunch(timed ? timed_ : plain_, stream));
    timing_->ran |= timed;
}

void CudaBackend::enterPhase(Phase phase) {
    if (!recording_ || (!recording_->phases.empty() && recording_->phases.back() == phase)) return;
    cudaEvent_t event = nullptr;
    MANTISSA_CUDA_CHECK(cudaEventCreate(&event));
    recording_->events.push_back(event);
    recording_->phases.push_back(phase);
    MANTISSA_CUDA_CHECK(cudaEventRecordWithFlags(event, context_.stream, cudaEventRecordExternal));
}

std::unique_ptr<Recording> CudaBackend::record(std::function<void()> ops) {
    require(!recording_, "record", "a recording is already in progress");
    // Relaxed: ops may make device tables while they are captured.
    MANTISSA_CUDA_CHECK(cudaStreamBeginCapture(context_.stream, cudaStreamCaptureModeRelaxed));
    recording_ = std::make_shared<GraphTiming>();
    cudaGraph_t graph = nullptr;
    try {
        ops();
        cudaEvent_t end = nullptr;
        MANTISSA_CUDA_CHECK(cudaEventCreate(&end));
        recording_->events.push_back(end);
        MANTISSA_CUDA_CHECK(cudaEventRecordWithFlags(end, context_.stream, cudaEventRecordExternal));
    } catch (...) {
        recording_.reset();
        cudaStreamEndCapture(context_.stream, &graph);
        if (graph) cudaGraphDestroy(graph);
        cudaGetLastError();
        throw;
    }
    const std::shared_ptr<GraphTiming> timing = std::exchange(recording_, nullptr);
    MANTISSA_CUDA_CHECK(cudaStreamEndCapture(context_.stream, &graph));
    return std::make_unique<GraphRecording>(graph, timing, context_.stream);
}

void CudaBackend::replay(Recording& recording) {
    auto& graph = static_cast<GraphRecording&>(recording);
    graph.launch(context_.stream);
    if (std::find(replayed_.begin(), replayed_.end(), graph.timing()) == replayed_.end()) {
        replayed_.push_back(graph.timing());
    }
}

PhaseTimes CudaBackend::takePhaseTimes() {
    PhaseTimes times;
    for (const auto& timing : replayed_) timing->addTo(times);
    replayed_.clear();
    return times;
}

}  // namespace mantissa::kernels::cuda
