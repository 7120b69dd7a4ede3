// JobRunner and its store: commits, a full disk, a file that has gone, the end of the run.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/job/job_runner.h"
#include "experiments/job/process_memory.h"
#include "experiments/text/number_text.h"

namespace mantissa::experiments {

void JobRunner::flush(bool force, bool full) {
    if (!force && secondsSince(lastFlush_) < kFlushSeconds) return;
    lastFlush_ = Clock::now();
    watchStore();
    const bool good = writer_->flush(full);
    if (good == storageTrouble_)
        postStorage(!good);
    else if (!good)
        postStorage(true);
}

/// Says how much waits in memory and, from the rate so far, how long the room lasts.
void JobRunner::postStorage(bool trouble) {
    JobStorage storage;
    storage.trouble = trouble;
    storage.bufferedSeconds = writer_->bufferedSeconds();
    if (trouble && storage.bufferedSeconds > 0 && writer_->bufferedBytes() > 0) {
        const double rate = static_cast<double>(writer_->bufferedBytes()) / storage.bufferedSeconds;
        storage.roomSeconds =
            static_cast<double>(writer_->bufferLimit() - std::min(writer_->bufferLimit(), writer_->bufferedBytes())) /
            rate;
    }
    storage.text =
        trouble ? fmt::format("{}. The run goes on; {}statistics wait in memory, with room for {}.", writer_->problem(),
                              storage.bufferedSeconds < 1 ? "" : durationText(storage.bufferedSeconds) + " of ",
                              durationText(storage.roomSeconds))
                : "The store takes points again.";
    const bool changed = trouble != storageTrouble_;
    storageTrouble_ = trouble;
    mailbox_.post(storage);
    if (changed) tellStorage(trouble ? "disk_full" : "", storage.text);
}

/// An alert of this kind, or a notice when there is none.
void JobRunner::tellStorage(const std::string& kind, const std::string& text) {
    RunEvent row;
    row.step = stepper_ ? stepper_->stepIndex() : 0;
    row.kind = kind.empty() ? "notice" : "alert";
    row.alert = kind;
    row.severity = kind.empty() ? 0 : 2;
    row.text = text;
    post(row);
}

/// A file that somebody deletes, moves or replaces under a run still takes what is written, and nobody would find it.
void JobRunner::watchStore() {
    if (storeAway_ || store_->inPlace()) return;
    storeAway_ = true;
    JobStorage storage;
    storage.trouble = true;
    storage.text = fmt::format(
        "{} was deleted, moved or replaced while this run writes to it. The run goes on; in its end all of it is saved "
        "beside it.",
        store_->path());
    mailbox_.post(storage);
    tellStorage("store_gone", storage.text);
}

void JobRunner::rescueStore(JobEnded& ended) {
    ended.notStored =
        fmt::format("{} was deleted, moved or replaced while run {} wrote to it; ", store_->path(), plan_.name);
    try {
        ended.notStored += fmt::format("everything is saved in {}, which belongs back in its place", store_->rescue());
    } catch (const std::exception& error) {
        ended.notStored += fmt::format("it could not be saved beside it ({})", error.what());
    }
}

void JobRunner::finish(RunStatus status, const std::string& reason) {
    JobEnded ended;
    ended.status = status;
    ended.reason = reason;
    ended.step = stepper_ && !before_ ? stepper_->stepIndex() : plan_.checkpointStep;
    ended.loss = loss_;
    ended.validationLoss = validationLoss_;
    ended.seconds = seconds_;
    ended.tokensPerSecond = rates_.median();
    const uint64_t peak = peakResidentMemory();
    if (stepper_ && peak > residentBefore_) ended.peakBytes = peak - residentBefore_;
    try {
        if (before_) {
            writeStatus(*store_, plan_.runId, before_->status, before_->statusText);
        } else if (writer_) {
            writer_->setPeakBytes(ended.peakBytes);
            if (ended.tokensPerSecond > 0) writer_->setThroughput(ended.tokensPerSecond);
            tellAudits();
            event("ended",
                  status == RunStatus::Finished ? fmt::format("Finished after {} steps.", ended.step) : reason);
            writer_->setStatus(status, reason);
            watchStore();
            // On a full disk the end waits a little for room; after that what is in memory is lost, and the run reads
            // "interrupted".
            for (int tries = 0; !writer_->flush(true) && tries < 50 && !stopNow_; ++tries) mailbox_.waitForCommand(200);
            if (storeAway_) rescueStore(ended);
            if (writer_->somethingWaits())
                ended.notStored = fmt::format("{}: steps after {} and the end of the run are not in the store",
                                              writer_->problem(), store_->run(plan_.runId).value_or(RunSummary{}).step);
            writer_->compactAll();
        }
    } catch (const std::exception& error) {
        if (ended.reason.empty()) ended.reason = error.what();
    }
    mailbox_.post(std::move(ended));
}

}  // namespace mantissa::experiments
