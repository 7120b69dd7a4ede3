// Matrix products through cuBLASLt: one plan (descriptor, layouts, algorithm) a shape and type, made at first use.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "kernels/device/cuda/cublaslt_cuda_api.h"
#include "kernels/device/cuda/cuda_launch.h"
#include "kernels/matmul/matmul.h"

namespace mantissa::kernels::cuda {

/// Determinism: the stored choice (stored_choices.h) or else the first valid algorithm of the library's own ranking is
/// taken and kept for the shape, the workspace has one fixed size, and everything runs on one stream; so the same
/// library and chip give the same bits. Thread: the backend's.
class MatmulLibrary {
  public:
    /// capability: major * 10 + minor; FP8 runs natively from 89 on.
    MatmulLibrary(const CublasLtApi& api, int capability);
    ~MatmulLibrary();
    MatmulLibrary(const MatmulLibrary&) = delete;
    MatmulLibrary& operator=(const MatmulLibrary&) = delete;

    size_t workspaceBytes(const Matmul& op) const;
    MatmulReport run(const LaunchContext& context, const Matmul& op);
    /// Backend::whyNoBlockCodes(); asks the library for an algorithm.
    std::string whyNoBlockCodes(const Matmul& op);

  private:
    struct Key;
    struct Plan;
    struct Pointers;
    static Key keyOf(const Matmul& op, const MatmulOperand& left, const MatmulOperand& right, bool scaled);
    static Pointers pointersOf(const Matmul& op, const MatmulOperand& left, const MatmulOperand& right, const Key& key);
    const Plan& plan(const Key& key, const Pointers& pointers, const Matmul& op);
    /// Of the ranking's `count` results: the stored choice where there is one and it is valid, else the first valid
    /// one; `count` when none is.
    int choose(const cublasLtMatmulHeuristicResult_t* results, int count, const Matmul& op) const;
    bool runsNativeFp8(const Matmul& op) const;
    const char* describe(const cublasLtMatmulAlgo_t& algorithm, int rank, const Key& key);
    const char* because(const char* name, const char* reason);
    uint32_t attribute(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which) const;

    const CublasLtApi& api_;
    int capability_;
    bool storedChoices_ = true;  ///< MANTISSA_MATMUL=first leaves the choice to the library's ranking
    cublasLtHandle_t handle_ = nullptr;
    std::map<std::string, std::unique_ptr<Plan>> plans_;
    std::set<std::string> names_;
};

}  // namespace mantissa::kernels::cuda
