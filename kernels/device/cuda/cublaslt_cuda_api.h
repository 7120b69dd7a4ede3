// cuBLASLt opened at run time into a table of function pointers typed from cublasLt.h.
#pragma once

#include <cublasLt.h>

#include <string>

namespace mantissa::kernels::cuda {

#define MANTISSA_CUBLASLT_FUNCTIONS(X)                                                                               \
    X(Create)                                                                                                        \
    X(Destroy) X(GetVersion) X(Matmul) X(MatmulAlgoGetHeuristic) X(MatmulAlgoConfigGetAttribute) X(MatmulDescCreate) \
        X(MatmulDescDestroy) X(MatmulDescSetAttribute) X(MatrixLayoutCreate) X(MatrixLayoutDestroy)                  \
            X(MatmulPreferenceCreate) X(MatmulPreferenceDestroy) X(MatmulPreferenceSetAttribute) X(GetStatusString)

struct CublasLtApi {
#define MANTISSA_CUBLASLT_POINTER(name) decltype(&cublasLt##name) name = nullptr;
    MANTISSA_CUBLASLT_FUNCTIONS(MANTISSA_CUBLASLT_POINTER)
#undef MANTISSA_CUBLASLT_POINTER
    std::string path;
};

/// The library, opened once a process; nullptr with one sentence in `reason` when it is missing or too old.
/// Opening takes 0.1 to 0.5 s, so it is done only once a device is there. Thread: any.
const CublasLtApi* cublasLt(std::string& reason);

}  // namespace mantissa::kernels::cuda
