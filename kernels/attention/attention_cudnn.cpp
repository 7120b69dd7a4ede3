#include "kernels/attention/attention_cudnn.h"

#ifdef MANTISSA_HAVE_CUDNN_FRONTEND

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <cudnn_frontend.h>
#pragma GCC diagnostic pop

#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>

#include "kernels/device/cuda/cuda_launch.h"
#include "kernels/device/cuda/library.h"
#include "kernels/error.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // cudnn-frontend asks its user to define it
}

namespace mantissa::kernels::cuda {

namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// Engine and kernel of the forward pass. Of what cuDNN 9.14 and 9.19 offer it was the fastest at every shape tried on
/// an H200; 9.14 itself ranks another first at head width 64 (M32: 168 microseconds a layer instead of 156).
constexpr const char* kStoredChoice = "eng2_k24=7";

enum Uid : int64_t { kQ = 1, kK, kV, kO, kStats, kDO, kDQ, kDK, kDV };

/// cuDNN's calls that change anything are not made from two threads at once.
std::mutex& guard() {
    static std::mutex mutex;
    return mutex;
}

struct Shape {
    int64_t batch, context, heads, width;
    DType type;
    bool backward;
    auto key() const { return std::make_tuple(batch, context, heads, width, static_cast<int>(type), backward); }
};

struct Plan {
    std::shared_ptr<fe::graph::Graph> graph;
    int64_t workspace = 0;
};

/// (B, H, T, D) inside rows of `row` elements, from column `head * D` on.
Tensor tensorOf(fe::graph::Graph& graph, const Shape& s, int64_t uid, int64_t row) {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_uid(uid)
                            .set_dim({s.batch, s.heads, s.context, s.width})
                            .set_stride({s.context * row, s.width, row, 1}));
}

void describeOutput(const Tensor& tensor, const Shape& s, int64_t uid, int64_t row) {
    tensor->set_output(true)
        .set_uid(uid)
        .set_dim({s.batch, s.heads, s.context, s.width})
        .set_stride({s.context * row, s.width, row, 1});
}

void describeStats(const Tensor& tensor, const Shape& s) {
    tensor->set_uid(kStats)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim({s.batch, s.heads, s.context, 1})
        .set_stride({s.heads * s.context, s.context, 1, 1});
}

std::shared_ptr<fe::graph::Graph> describe(const Shape& s) {
    auto graph = std::make_shared<fe::graph::Graph>();
    graph->set_io_data_type(s.type == DType::BF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const int64_t out = s.heads * s.width, qkv = 3 * out;
    const float scale = 1.0f / std::sqrt(static_cast<float>(s.width));
    const Tensor q = tensorOf(*graph, s, kQ, qkv), k = tensorOf(*graph, s, kK, qkv), v = tensorOf(*graph, s, kV, qkv);
    if (!s.backward) {
        auto [o, stats] = graph->sdpa(q, k, v,
                                      fe::graph::SDPA_attributes()
                                          .set_name("attention")
                                          .set_generate_stats(true)
                                          .set_causal_mask(true)
                                          .set_attn_scale(scale));
        describeOutput(o, s, kO, out);
        stats->set_output(true);
        describeStats(stats, s);
        return graph;
    }
    const Tensor o = tensorOf(*graph, s, kO, out), dO = tensorOf(*graph, s, kDO, out);
    const Tensor stats = graph->tensor(fe::graph::Tensor_attributes());
    describeStats(stats, s);
    auto [dQ, dK, dV] = graph->sdpa_backward(q, k, v, o, dO, stats,
                                             fe::graph::SDPA_backward_attributes()
                                                 .set_name("attention_backward")
                                                 .set_causal_mask(true)
                                                 .set_attn_scale(scale)
                                                 .set_deterministic_algorithm(true));
    describeOutput(dQ, s, kDQ, qkv);
    describeOutput(dK, s, kDK, qkv);
    describeOutput(dV, s, kDV, qkv);
    return graph;
}

class Cudnn final : public CudnnAttention {
  public:
    explicit Cudnn(cudnnHandle_t handle) : handle_(handle) {}

    std::string version() const override {
        const size_t number = fe::detail::get_backend_version();
        return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
               std::to_string(number % 100);
    }
    bool supports(const AttentionForward& op) override { return plan(shapeOf(op, false)) != nullptr; }
    bool supports(const AttentionBackward& op) override { return plan(shapeOf(op, true)) != nullptr; }
    size_t workspaceBytes(const AttentionForward& op) override { return bytesOf(plan(shapeOf(op, false))); }
    size_t workspaceBytes(const AttentionBackward& op) override { return bytesOf(plan(shapeOf(op, true))); }

    void run(const LaunchContext& context, const AttentionForward& op, void* workspace) override {
        auto* qkv = static_cast<char*>(const_cast<void*>(op.qkv));
        const int64_t step = op.heads * op.headWidth * 2;  // bytes from Q to K and from K to V
        std::unordered_map<int64_t, void*> pack{
            {kQ, qkv}, {kK, qkv + step}, {kV, qkv + 2 * step}, {kO, op.out}, {kStats, op.lse}};
        execute(context, *plan(shapeOf(op, false)), pack, workspace);
    }
    void run(const LaunchContext& context, const AttentionBackward& op, void* workspace) override {
        auto* qkv = static_cast<char*>(const_cast<void*>(op.qkv));
        auto* dQkv = static_cast<char*>(op.dQkv);
        const int64_t step = op.heads * op.headWidth * 2;
        std::unordered_map<int64_t, void*> pack{{kQ, qkv},
                                                {kK, qkv + step},
                                                {kV, qkv + 2 * step},
                                                {kO, const_cast<void*>(op.out)},
                                                {kStats, const_cast<float*>(op.lse)},
                                                {kDO, const_cast<void*>(op.dOut)},
                                                {kDQ, dQkv},
                                                {kDK, dQkv + step},
                                                {kDV, dQkv + 2 * step}};
        execute(context, *plan(shapeOf(op, true)), pack, workspace);
    }

  private:
    template <class Op>
    static Shape shapeOf(const Op& op, bool backward) {
        return {op.batch, op.context, op.heads, op.headWidth, op.type, backward};
    }
    static size_t bytesOf(const Plan* plan) { return plan ? static_cast<size_t>(plan->workspace) : 0; }

    /// nullptr: the library has none. Made once, also the refusal.
    const Plan* plan(const Shape& shape) {
        if (shape.type != DType::BF16 && shape.type != DType::F16) return nullptr;
        // Short sequences leave its tiles half empty; they are the own kernels'.
        if ((shape.width != 64 && shape.width != 128) || shape.context < 128) return nullptr;
        const std::lock_guard lock(guard());
        const auto found = plans_.find(shape.key());
        if (found != plans_.end()) return found->second.graph ? &found->second : nullptr;
        Plan& made = plans_[shape.key()];
        try {
            auto graph = describe(shape);
            if (graph->validate().is_good() && graph->build_operation_graph(handle_).is_good() &&
                graph->create_execution_plans({fe::HeurMode_t::A}).is_good() && build(*graph) &&
                graph->get_workspace_size(made.workspace).is_good()) {
                made.graph = graph;
            }
        } catch (const std::exception&) {
            made.graph = nullptr;  // the frontend throws where a symbol or library is missing
        }
        return made.graph ? &made : nullptr;
    }

    /// The stored choice where the library offers it, else the first plan that can be built, in the library's order.
    bool build(fe::graph::Graph& graph) {
        const int64_t count = graph.get_execution_plan_count();
        for (const bool stored : {true, false}) {
            for (int64_t i = 0; i < count; ++i) {
                std::string name;
                if (stored &&
                    (!graph.get_plan_name_at_index(i, name).is_good() || name.find(kStoredChoice) == std::string::npos))
                    continue;
                if (graph.build_plan_at_index(handle_, i).is_good()) return true;
            }
        }
        return false;
    }

    void execute(const LaunchContext& context, const Plan& plan, std::unordered_map<int64_t, void*>& pack,
                 void* workspace) {
        const std::lock_guard lock(guard());
        fe::detail::set_stream(handle_, context.stream);
        auto status = plan.graph->execute(handle_, pack, workspace);
        if (!status.is_good()) throw Error(ErrorCode::DeviceFailure, "cuDNN attention: " + status.get_message());
    }

    cudnnHandle_t handle_;
    std::map<decltype(Shape{}.key()), Plan> plans_;
};

struct Opened {
    CudnnAttention* attention = nullptr;
    std::string why;  ///< when it is nullptr
};

/// Opens the library and makes a handle for the current device.
Opened open() {
    const char* choice = std::getenv("MANTISSA_ATTENTION");
    if (choice && std::string(choice) == "own") return {nullptr, "MANTISSA_ATTENTION is own"};
    try {
        if (!fe::cudnn_dlhandle) {
            std::string error;
            static const Library library = Library::open(cudaLibraryCandidates({"libcudnn.so.9"}), error);
            fe::cudnn_dlhandle = library.handle();
            if (!fe::cudnn_dlhandle)
                return {nullptr,
                        isAbsence(error) ? "libcudnn.so.9 was not found" : "libcudnn.so.9 cannot be loaded: " + error};
        }
        cudnnHandle_t handle = nullptr;
        const cudnnStatus_t status = fe::detail::create_handle(&handle);
        if (status != CUDNN_STATUS_SUCCESS)
            return {nullptr, std::string("cudnnCreate: ") + fe::detail::get_error_string(status)};
        return {new Cudnn(handle), ""};
    } catch (const std::exception& error) {
        return {nullptr, std::string("cuDNN: ") + error.what()};
    }
}

const Opened& opened() {
    static std::map<int, Opened> byDevice;
    static std::mutex mutex;
    int device = 0;
    cudaGetDevice(&device);
    const std::lock_guard lock(mutex);
    const auto found = byDevice.find(device);
    if (found != byDevice.end()) return found->second;
    return byDevice[device] = open();
}

}  // namespace

CudnnAttention* cudnnAttention() {
    return opened().attention;
}

std::string whyNoCudnnAttention() {
    return opened().why;
}

}  // namespace mantissa::kernels::cuda

#else

namespace mantissa::kernels::cuda {
CudnnAttention* cudnnAttention() {
    return nullptr;
}

std::string whyNoCudnnAttention() {
    return "this build has none, for " MANTISSA_CUDNN_LACKING;
}
}  // namespace mantissa::kernels::cuda

#endif
