#include "kernels/device/cuda/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

namespace mantissa::kernels::cuda {

namespace {

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

/// Folders below `root` (a virtual environment or a conda prefix) in which wheels put CUDA's libraries.
void appendWheelFolders(const std::string& root, std::vector<std::string>& folders) {
    if (root.empty()) return;
    std::error_code ignored;
    const std::filesystem::path lib = std::filesystem::path(root) / "lib";
    for (const auto& entry : std::filesystem::directory_iterator(lib, ignored)) {
        const std::string name = entry.path().filename().string();
        if (name.rfind("python", 0) != 0) continue;
        const std::string packages = (entry.path() / "site-packages" / "nvidia").string();
        folders.push_back(packages + "/cu13/lib");
        folders.push_back(packages + "/cublas/lib");
        folders.push_back(packages + "/cudnn/lib");
    }
}

}  // namespace

bool isAbsence(const std::string& error) {
    return error.empty() || error.find("No such file") != std::string::npos;
}

Library Library::open(const std::vector<std::string>& candidates, std::string& error) {
    Library library;
    error.clear();
    for (const std::string& candidate : candidates) {
        library.handle_ = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library.handle_) {
            library.path_ = candidate;
            return library;
        }
        const char* text = dlerror();
        if (text && isAbsence(error)) error = text;
    }
    return library;
}

void* Library::symbol(const char* name) const {
    return handle_ ? dlsym(handle_, name) : nullptr;
}

std::vector<std::string> cudaLibraryCandidates(const std::vector<std::string>& sonames) {
    std::vector<std::string> folders;
    const auto add = [&folders](const std::string& root, const char* below) {
        if (!root.empty()) folders.push_back(root + below);
    };
    add(environment("MANTISSA_CUDA_DIR"), "");
    add(environment("MANTISSA_CUDA_DIR"), "/lib64");
    folders.push_back("");  // the loader's own search path
    for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
        add(environment(name), "/lib64");
        add(environment(name), "/lib");
    }
    folders.push_back("/usr/local/cuda/lib64");
    folders.push_back("/opt/cuda/lib64");
    appendWheelFolders(environment("VIRTUAL_ENV"), folders);
    add(environment("CONDA_PREFIX"), "/lib");
    appendWheelFolders(environment("CONDA_PREFIX"), folders);

    std::vector<std::string> candidates;
    for (const std::string& folder : folders) {
        for (const std::string& soname : sonames) {
            candidates.push_back(folder.empty() ? soname : folder + "/" + soname);
        }
    }
    return candidates;
}

}  // namespace mantissa::kernels::cuda
