// Proof in a running job that looking changes nothing: training state is hashed before and after.
#include <fmt/format.h>

#include "experiments/job/job_runner.h"

namespace mantissa::experiments {

namespace {

/// What a hash has been seen to read a second; a first guess, until one has been measured.
constexpr double kHashBytesPerSecond = 5e8;
constexpr double kBytesPerParameter = 12;  ///< master and two moments, FP32

}  // namespace

/// Two hashes must fit into the share of the run's time that audits may take.
bool JobRunner::auditDue() const {
    if (plan_.spec.auditShare >= 1) return true;
    const double guess = kBytesPerParameter * static_cast<double>(document_.parameters) / kHashBytesPerSecond;
    const double once = hashSeconds_ > 0 ? hashSeconds_ : guess;
    return auditSeconds_ + 2 * once <= plan_.spec.auditShare * seconds_;
}

std::optional<uint64_t> JobRunner::hashState() {
    const auto start = Clock::now();
    const std::optional<uint64_t> hash = stepper_->stateHash();
    hashSeconds_ = std::chrono::duration<double>(Clock::now() - start).count();
    auditSeconds_ += hashSeconds_;
    return hash;
}

/// Does what only looks, and says so in an alert when training state is not the same after it.
void JobRunner::audited(const std::string& what, const std::function<void()>& look) {
    const std::optional<uint64_t> before = auditDue() ? hashState() : std::nullopt;
    look();
    if (!before) return;
    const uint64_t after = hashState().value_or(0);
    if (after == *before) {
        ++audits_[what];
        return;
    }
    RunEvent alert;
    alert.step = stepper_->stepIndex();
    alert.kind = "alert";
    alert.alert = "audit";
    alert.severity = 2;
    alert.text = fmt::format("The {} after step {} changed training state: its hash was {:016x} and is {:016x}.", what,
                             alert.step, *before, after);
    post(alert);
}

void JobRunner::tellAudits() {
    std::string list;
    for (const auto& [what, count] : audits_)
        list += fmt::format("{}{} {}{}", list.empty() ? "" : ", ", count, what,
                            count == 1 || what == "change of probes" ? "" : "s");
    if (!list.empty())
        event("audit", fmt::format("The hash of training state was the same before and after: {}.", list));
}

}  // namespace mantissa::experiments
