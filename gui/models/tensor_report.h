// What the store holds about one tensor at one step, and what that means in two sentences.
#pragma once

#include <cmath>
#include <memory>
#include <optional>

#include "experiments/store/run_store.h"
#include "gui/models/alarm_rules.h"
#include "gui/widgets/message_kind.h"

namespace mantissa::gui {

/// Everything about one tensor at one step, read on the background thread.
struct TensorReport {
    int tensor = -1;
    int64_t step = 0;
    std::shared_ptr<const engine::NumericsRecord> record;
    std::optional<experiments::AmaxWindow> window;
    experiments::Exponents exponents;
    double sqnr = NAN, kurtosis = NAN;
    int64_t probedStep = 0;  ///< of sqnr and kurtosis
    int64_t overSince = 0;   ///< first step of the stretch over the underflow limit that still lasts; 0: none
    double before = NAN;     ///< median underflow of the 100 steps before that stretch
};
/// step < 0: the newest. Null tensor (-1) when the run has no such record.
TensorReport readTensor(experiments::RunStore& store, const std::string& id, int tensor, int64_t step);

/// Finding and outlook in two sentences: value, since, before; cause.
struct Verdict {
    MessageKind kind = MessageKind::Ok;
    QString finding, outlook;
};
Verdict verdictOf(const TensorReport& report, const engine::CatalogueEntry& entry);
/// Verdict of a tensor that no product reads in FP8: which setting keeps it out, and that nothing of it is recorded,
/// since amax, scale and counters come from the cast.
Verdict plainVerdict(const engine::CatalogueEntry& entry, const experiments::RunSpec& spec);

}  // namespace mantissa::gui
