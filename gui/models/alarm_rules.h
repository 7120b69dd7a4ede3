// Statistics as the pages show them: name, unit, colour scale, alarm thresholds, definition; and the verdict on a
// tensor.
#pragma once

#include <QString>
#include <vector>

#include "experiments/report/tensor_health.h"
#include "experiments/store/run_types.h"
#include "gui/plot/heat_scale.h"

namespace mantissa::gui {

struct StatisticInfo {
    experiments::Statistic statistic;
    QString name;        ///< on the selector: "underflow"
    QString title;       ///< "Underflow"
    QString unit;        ///< "% of elements", "log₂", "dB"
    QString definition;  ///< tooltip: formula, unit, source
    bool dear = false;   ///< probed steps only
    bool share = false;
    /// Of the products instead of the tensors: fprop stands in the rows of x, dgrad of dy, wgrad of w.
    bool shadow = false;
};
/// The product whose shadow stands in the row of a tensor of that role.
const char* shadowGemm(engine::TensorRole role);

/// The statistics of the Numerics page: the first kSelectorStatistics stand on its selector, the others in its menu.
const std::vector<StatisticInfo>& shownStatistics();
inline constexpr int kSelectorStatistics = 8;
QString statisticText(const StatisticInfo& info, double value);
/// As a tick of the colour bar: shares in per cent without the sign, amounts as a power of two ("2⁻³⁰").
QString statisticTick(const StatisticInfo& info, double value);
/// Scale of the heatmap. low, high: range of the values on view, for amounts (amax, scale), which have no fixed ends.
HeatScale heatScale(const StatisticInfo& info, double low, double high);
/// Scale of the log2 ratio of two runs' values, or of their difference in dB or binades.
HeatScale differenceScale(const StatisticInfo& info);
/// Two runs' values as the heatmap of their difference shows it: log2(a / b), or a - b where the statistic is a
/// logarithm already. Both 0: 0; one of them 0: the end of the scale.
double difference(const StatisticInfo& info, double a, double b);
QString differenceText(const StatisticInfo& info, double value);

/// "h.9 fc2 · dy": as heads and lists name a tensor.
QString tensorTitle(const engine::CatalogueEntry& entry);
/// "h.9 · mlp.fc2 · dy": as the inspector names it.
QString tensorLongTitle(const engine::CatalogueEntry& entry);
QString shortLinear(const std::string& linear);  ///< "fc2", "head"
bool isFp8(const engine::CatalogueEntry& entry);

/// 0 quiet, 1 amber, 2 red: the value of one step against the limits of experiments/job/alarm_rules.h (that it must
/// stand for some steps is left to findings()).
int alarmLevel(const StatisticInfo& info, engine::TensorRole role, double value);

/// One tensor to look at, ranked: non-finite, clipped, underflow, staleness, kurtosis.
struct Finding {
    int tensor = -1;
    int rank = 0;   ///< 0: not finite, else 1 + AlarmKind
    int level = 1;  ///< 1 amber, 2 red
    double value = 0;
    QString what;   ///< "underflow 4.6 %"
    QString since;  ///< "since 17 790"
};

/// "underflow 4.6 %", "staleness 3.1", "kurtosis ×12"
QString healthText(experiments::AlarmKind kind, double standing);
std::vector<Finding> findings(const experiments::RunHealth& health,
                              const std::vector<engine::CatalogueEntry>& catalogue,
                              const std::vector<experiments::RunEvent>& events);
/// The worst of them: one that is not finite, else the one furthest over its limits. The ranking is by kind instead, so
/// that one just clipped may stand before one that all underflows. found: not empty.
const Finding& worstFinding(const std::vector<Finding>& found);
/// Colours of the health grid by TensorHealth::ratio: 1 = at the amber limit.
HeatScale healthScale();

}  // namespace mantissa::gui
