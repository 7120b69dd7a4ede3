#include "engine/numerics.h"

namespace mantissa::engine {

const char* roleName(TensorRole role) {
    switch (role) {
        case TensorRole::Input: return "input";
        case TensorRole::Weight: return "weight";
        case TensorRole::GradOutput: return "grad_output";
    }
    return "?";
}

const char* roleShortName(TensorRole role) {
    switch (role) {
        case TensorRole::Input: return "x";
        case TensorRole::Weight: return "w";
        case TensorRole::GradOutput: return "dy";
    }
    return "?";
}

std::string tensorName(const CatalogueEntry& entry) {
    return entry.layer + "/" + (entry.linear.empty() ? "head" : entry.linear) + "/" + roleName(entry.role);
}

}  // namespace mantissa::engine
