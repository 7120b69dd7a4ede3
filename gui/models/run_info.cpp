#include "gui/models/run_info.h"

#include <array>

namespace mantissa::gui {
namespace {

constexpr std::array<const char*, 9> kNames = {"queued",      "running", "paused",   "finished", "stopped",
                                               "interrupted", "failed",  "diverged", "refused"};

}  // namespace

QString runStateName(RunState state) {
    return QString::fromLatin1(kNames[static_cast<size_t>(state)]);
}

RunState runStateFromName(const QString& name) {
    for (size_t i = 0; i < kNames.size(); ++i)
        if (name == QLatin1String(kNames[i])) return static_cast<RunState>(i);
    return RunState::Interrupted;
}

}  // namespace mantissa::gui
