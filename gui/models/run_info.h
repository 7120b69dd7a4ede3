// Summary of a run as lists and cards show it: plain values, made on the reading thread.
#pragma once

#include <QDateTime>
#include <QMetaType>
#include <QString>
#include <QStringList>
#include <QVector>
#include <limits>

namespace mantissa::gui {

enum class RunState { Queued, Running, Paused, Finished, Stopped, Interrupted, Failed, Diverged, Refused };

struct RunInfo {
    QString id, name;
    QString model;   ///< "nano", or "L4 d128" when no preset is named
    QString recipe;  ///< "fp8-delayed", "bf16", "fp32" ...: mode and recipe as preset suffix
    QString device;  ///< "cpu", "cuda:0"
    QString deviceName;
    QString message;  ///< why it was refused, failed or diverged; "" else
    QString note;
    QStringList tags;
    QString pairOf;  ///< id of the run it was started together with, "" = none
    QString specJson;
    RunState state = RunState::Queued;
    qint64 step = 0, steps = 0;
    quint64 seed = 0;
    double loss = std::numeric_limits<double>::quiet_NaN();
    double valLoss = std::numeric_limits<double>::quiet_NaN();
    bool hasLoss = false, hasValLoss = false;  ///< measured at all; a measured NaN keeps the value NaN
    double lastFiniteLoss = std::numeric_limits<double>::quiet_NaN();
    double tokensPerSecond = 0;  ///< 0 = not measured
    double seconds = 0;          ///< training time so far
    quint64 planBytes = 0, peakBytes = 0;
    int alerts = 0;
    int styleIndex = 0;  ///< colour, dash and marker; stored with the run
    QDateTime started, ended;
    bool ownedHere = false;  ///< runs in this process: commands go straight to its job

    bool going() const { return state == RunState::Running || state == RunState::Paused; }
};

/// "running", "finished" ... as in the store.
QString runStateName(RunState state);
/// Inverse; an unknown word gives Interrupted.
RunState runStateFromName(const QString& name);

}  // namespace mantissa::gui

Q_DECLARE_METATYPE(mantissa::gui::RunInfo)
