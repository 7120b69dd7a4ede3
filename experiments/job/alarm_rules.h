// The limits of a tensor's statistics, in one place: the alerts of the training job, the health of the last steps and
// the lines in the charts are all made from them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/numerics.h"
#include "experiments/spec/run_spec.h"

namespace mantissa::experiments {

/// In the order in which findings are ranked; a non-finite element stands before all of them.
enum class AlarmKind : uint8_t { Clipped, Underflow, Stale, Wasted, Kurtosis, Count };

/// A value is over the limit when it stands above it in `steps` recorded steps running.
struct AlarmRule {
    const char* alert;  ///< RunEvent::alert
    double amber = 0;
    double red = 0;  ///< infinity: never
    int steps = 1;
};

/// By the limits of a run's spec. Clipped, underflow: shares of all elements. Stale: amax ÷ the amax that the scale was
/// made from. Wasted: the inverse of it. Kurtosis: ÷ its value at step 100.
///
/// The defaults start from the diagnostics notes (3.3: clipped in three steps running, underflow of gradients 0.1 and 5
/// %, staleness 2 and 16, kurtosis × 10), which call them a design choice. Two are wider, so that a run that loses
/// nothing is quiet. Over 600 steps of `nano` (delayed scaling, 0.002 nats from BF16) half of all tensors clip one to
/// three of 16 384 or more elements in three steps running while they grow: amber begins at 0.01 % (a tenth of red). dy
/// of mlp.fc1 and attn.qkv underflow by 0.1 to 0.3 % for hundreds of steps, where GELU's slope is nearly zero: amber
/// begins at 1 %. Without a scale 70 % underflow from step 1.
AlarmRule alarmRule(AlarmKind kind, const AlarmSpec& limits = {});

/// Underflow counts for gradients only (x after GELU holds many values near zero, and they carry nothing); kurtosis for
/// x and w only (FOG and He et al. measured activations; dy gets sparse as a model learns); staleness and wasted range
/// for delayed scaling only.
bool alarmApplies(AlarmKind kind, const engine::CatalogueEntry& entry);

/// The largest value that stood for the rule's number of steps: the maximum over all stretches of so many values of the
/// smallest in it. NaN breaks a stretch. 0 when there is none.
double standingValue(const AlarmRule& rule, std::span<const double> values);

/// 0 quiet, 1 amber, 2 red.
int alarmLevel(const AlarmRule& rule, double standing);

}  // namespace mantissa::experiments
