// Faults put into a run on purpose, for tests and tours: see PlantedFault.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/model/step_program.h"

namespace mantissa::engine {

/// Why a fault cannot be planted in this model under this plan, as FaultPlanter would say, or why it would never come
/// (a step after the last); "" when it can and will.
std::string faultRefusal(const PlantedFault& fault, const TrainerConfig& config);

/// Thread: the trainer's.
class FaultPlanter {
  public:
    /// Throws InvalidConfig, naming the fault, when a target does not exist or cannot have that fault under this plan.
    FaultPlanter(const TrainerConfig& config, const PrecisionPlan& plan, const ParameterLayout& layout);

    /// Before the passes of `step`. True: masters changed, their copies must be made again.
    bool before(int64_t step, StepProgram& program, kernels::Backend& backend);
    /// After the step's update.
    void after(int64_t step, StepProgram& program, kernels::Backend& backend);
    /// Whether the passes of `step` get planted values.
    bool plantsValues(int64_t step) const;
    /// The program was built again: what kept scales or codes from moving up to `step` is gone with the old one.
    void rebuilt(int64_t step);
    bool none() const { return faults_.empty(); }

  private:
    struct Fault {
        PlantedFault planted;
        int linear = 0;
        bool ended = false;
        std::vector<uint8_t> codes, transposed;  ///< stale_weight
    };
    void scaleChannel(const Fault& fault, StepProgram& program, kernels::Backend& backend) const;

    std::vector<Fault> faults_;
};

}  // namespace mantissa::engine
