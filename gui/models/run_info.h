// Summary of a run as lists and cards show it: the store's row with Qt strings, made on a background thread.
#pragma once

#include <QDateTime>
#include <QMetaType>
#include <QString>
#include <QStringList>
#include <limits>

#include "experiments/store/run_types.h"

namespace mantissa::gui {

using RunState = experiments::RunStatus;

struct RunInfo {
    QString id, name;
    QString model;   ///< "nano", "gpt2-124m", "d128 L4": the group of the list
    QString recipe;  ///< "fp8 delayed", "bf16"
    QString preset, device, deviceName;
    QString message;  ///< why it was refused, failed or diverged; "" else
    QString note;
    QStringList tags;
    QString parent;         ///< run it was forked from
    qint64 parentStep = 0;  ///< 0: from the start
    RunState state = RunState::Queued;
    qint64 step = 0, steps = 0;
    quint64 seed = 0;
    bool hasLoss = false, hasValLoss = false;  ///< measured at all; a measured NaN keeps the value NaN
    double loss = std::numeric_limits<double>::quiet_NaN();
    double lastFiniteLoss = std::numeric_limits<double>::quiet_NaN();
    double valLoss = std::numeric_limits<double>::quiet_NaN();
    double lastFiniteValLoss = std::numeric_limits<double>::quiet_NaN();
    qint64 valStep = 0;
    qint64 tokens = 0;
    double tokensPerSecond = 0;  ///< 0 = not measured
    double seconds = 0;          ///< training time so far
    quint64 planBytes = 0, peakBytes = 0;
    int alerts = 0, worstAlert = 0;
    int styleIndex = 0;  ///< colour, dash and marker; stored with the run
    bool baseline = false;
    bool ownedHere = false;  ///< runs in this process: commands go straight to its job
    qint64 createdMs = 0, startedMs = 0, endedMs = 0;

    bool going() const { return experiments::isActive(state); }
    bool ended() const { return !going() && state != RunState::Queued; }
    /// A validation or training loss that is not finite.
    bool nonFinite() const;
};

RunInfo makeRunInfo(const experiments::RunSummary& row);
/// The store's row again, with what this process knows newer; for filters and columns shared with the command line.
experiments::RunSummary makeSummary(const RunInfo& info);
/// "running", "finished" … as in the store.
QString runStateName(RunState state);

}  // namespace mantissa::gui

Q_DECLARE_METATYPE(mantissa::gui::RunInfo)
