// Shared libraries opened at run time: the driver, cuBLASLt, NVML. None of them is linked, so one binary serves
// machines with and without a GPU, a driver or a toolkit.
#pragma once

#include <string>
#include <vector>

namespace mantissa::kernels::cuda {

/// One opened library; closed never (drivers and cuBLASLt keep threads and device state of their own).
class Library {
  public:
    Library() = default;
    /// The first of `candidates` (file names or absolute paths) that opens; else empty, with the loader's text in
    /// `error`: of the first one that is there and cannot be loaded, else of an absent one.
    static Library open(const std::vector<std::string>& candidates, std::string& error);
    explicit operator bool() const { return handle_ != nullptr; }
    const std::string& path() const { return path_; }
    void* handle() const { return handle_; }
    void* symbol(const char* name) const;  ///< nullptr when absent

  private:
    void* handle_ = nullptr;
    std::string path_;
};

/// Whether a text of Library::open() only says that there is no such file.
bool isAbsence(const std::string& error);

/// Where users have CUDA's libraries: own setting MANTISSA_CUDA_DIR, the loader's search path, CUDA_HOME and CUDA_PATH,
/// /usr/local/cuda, /opt/cuda, wheels of $VIRTUAL_ENV, $CONDA_PREFIX. `sonames` in order of preference.
std::vector<std::string> cudaLibraryCandidates(const std::vector<std::string>& sonames);

}  // namespace mantissa::kernels::cuda
