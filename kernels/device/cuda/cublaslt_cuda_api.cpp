#include "kernels/device/cuda/cublaslt_cuda_api.h"

#include <mutex>

#include "kernels/device/cuda/library.h"

namespace mantissa::kernels::cuda {

namespace {

struct Loaded {
    CublasLtApi api;
    bool usable = false;
    std::string reason;
};

Loaded load() {
    Loaded loaded;
    std::string error;
    const Library library = Library::open(cudaLibraryCandidates({"libcublasLt.so.13"}), error);
    if (!library) {
        loaded.reason = !isAbsence(error) ? "cuBLASLt of CUDA 13 cannot be loaded: " + error + "."
                                          : "cuBLASLt of CUDA 13 (libcublasLt.so.13) was not found; set "
                                            "MANTISSA_CUDA_DIR to the folder that holds it.";
        return loaded;
    }
    loaded.api.path = library.path();
    const char* missing = nullptr;
#define MANTISSA_CUBLASLT_LOAD(name)                                                                 \
    loaded.api.name = reinterpret_cast<decltype(loaded.api.name)>(library.symbol("cublasLt" #name)); \
    if (!loaded.api.name) missing = "cublasLt" #name;
    MANTISSA_CUBLASLT_FUNCTIONS(MANTISSA_CUBLASLT_LOAD)
#undef MANTISSA_CUBLASLT_LOAD
    loaded.usable = missing == nullptr;
    if (missing) loaded.reason = library.path() + " has no function " + missing + ".";
    return loaded;
}

}  // namespace

const CublasLtApi* cublasLt(std::string& reason) {
    static std::once_flag once;
    static Loaded loaded;
    std::call_once(once, [] { loaded = load(); });
    reason = loaded.reason;
    return loaded.usable ? &loaded.api : nullptr;
}

}  // namespace mantissa::kernels::cuda
