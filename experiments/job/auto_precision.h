// Automatic precision: watches underflow, clipping, staleness and shadow error of every linear and moves single
// products between FP8 recipes and BF16, with hysteresis. Each move is a decision with its evidence.
//
// A tensor is read by two products (input: fprop, wgrad; weight: fprop, dgrad; grad_output: dgrad, wgrad), and the FP8
// products of one linear share a recipe. So a linear climbs the ladder as a whole while another FP8 recipe is left; on
// the rung "bf16" only the products that read the bad tensor leave FP8. After `hold` good steps one rung back is tried;
// when the trouble comes back there, the next trial waits twice as long.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/numerics.h"
#include "engine/trainer.h"
#include "experiments/spec/run_spec.h"
#include "experiments/spec/spec_fields.h"

namespace mantissa::experiments {

class AutoPrecision {
  public:
    struct Decision {
        int64_t step = 0;
        std::string layer, linear, tensor;  ///< tensor: the one whose evidence decided; "" for a trial back
        uint8_t gemms = 7;                  ///< bit 0 fprop, 1 dgrad, 2 wgrad
        std::string from, to;               ///< recipes
        std::string text;  ///< "h.1 mlp.fc1: delayed → current: input underflow 12 % for 8 steps (limit 2 %)."
    };

    AutoPrecision(const AutoPrecisionSpec& spec, const engine::PrecisionConfig& base,
                  const std::vector<engine::CatalogueEntry>& catalogue);
    /// Looks at one step; the decisions it leads to, none most of the time.
    std::vector<Decision> observe(const engine::StepMetrics& metrics);
    /// The base setting with a rule for every linear that has moved: what the next step is to run with.
    engine::PrecisionConfig precision() const;
    const engine::PrecisionConfig& base() const { return base_; }
    /// The person changed the setting: what was decided stays laid over it.
    void setBase(const engine::PrecisionConfig& base) { base_ = base; }

  private:
    struct Linear {
        std::string layer, name, recipe;  ///< recipe of rung 0; "bf16": not watched
        int tensors[3] = {-1, -1, -1};    ///< catalogue index by role
        int rung = 0;                     ///< 0: its own recipe; i: ladder[i − 1]
        uint8_t plain = 0;                ///< products in BF16 on the last rung
        int bad[3] = {}, good = 0, shadowBad[3] = {};
        int hold = 0;          ///< good steps before the next trial back
        int64_t trialAt = -1;  ///< step of the newest trial back; −1: none
    };
    struct Verdict {
        bool bad = false;
        std::string evidence;
    };
    Verdict judge(const Linear& linear, int role, const engine::TensorNumerics& numerics) const;
    void climb(Linear& linear, int role, uint8_t gemms, const std::string& evidence, int64_t step,
               std::vector<Decision>& out);
    void stepBack(Linear& linear, int64_t step, std::vector<Decision>& out);
    const std::string& recipeAt(const Linear& linear, int rung) const;

    AutoPrecisionSpec spec_;
    engine::PrecisionConfig base_;
    std::vector<Linear> linears_;
};

}  // namespace mantissa::experiments
