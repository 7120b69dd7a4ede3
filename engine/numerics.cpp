#include "engine/numerics.h"

#include "engine/config.h"

namespace mantissa::engine {

const char* roleName(TensorRole role) {
    switch (role) {
        case TensorRole::Input:
            return "input";
        case TensorRole::Weight:
            return "weight";
        case TensorRole::GradOutput:
            return "grad_output";
    }
    return "?";
}

const char* roleShortName(TensorRole role) {
    switch (role) {
        case TensorRole::Input:
            return "x";
        case TensorRole::Weight:
            return "w";
        case TensorRole::GradOutput:
            return "dy";
    }
    return "?";
}

const char* faultKindName(FaultKind kind) {
    switch (kind) {
        case FaultKind::OutlierChannel:
            return "outlier_channel";
        case FaultKind::WeightNan:
            return "weight_nan";
        case FaultKind::FreezeScaleInf:
            return "freeze_scale_inf";
        case FaultKind::NeverUpdate:
            return "never_update";
        case FaultKind::StaleWeight:
            return "stale_weight";
        case FaultKind::ActivationInf:
            return "activation_inf";
        case FaultKind::GradientNan:
            return "gradient_nan";
    }
    return "?";
}

std::string opName(const OpCheck& check) {
    return check.layer + (check.op.empty() ? "" : " " + check.op) + (check.backward ? " (backward)" : "");
}

std::string tensorName(const CatalogueEntry& entry) {
    return entry.layer + "/" + (entry.linear.empty() ? "head" : entry.linear) + "/" + roleName(entry.role);
}

}  // namespace mantissa::engine
