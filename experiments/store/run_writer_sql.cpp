// The statements of RunWriter; they run inside the transaction of flush().
#include <fmt/format.h>

#include "experiments/store/run_writer.h"
#include "experiments/store/ulid.h"
#include "kernels/error.h"

namespace mantissa::experiments {

void writeStatus(RunStore& store, const std::string& ulid, RunStatus status, const std::string& text) {
    Transaction transaction(store.database());
    store.database()
        .cached("UPDATE run SET status = ?, status_text = ? WHERE ulid = ? AND hidden = 0")
        .bind(statusName(status))
        .bind(text)
        .bind(ulid)
        .run();
    transaction.commit();
}

void RunWriter::openSegment() {
    Database& database = store_.database();
    Statement& newest = database.cached("SELECT coalesce(max(segment), -1) FROM segment WHERE run = ?");
    newest.bind(run_);
    const int64_t segment = newest.step() ? newest.integer(0) + 1 : 0;
    newest.reset();
    database.cached("INSERT INTO segment(run, segment, first_step, started_ms) VALUES (?, ?, ?, ?)")
        .bind(run_)
        .bind(segment)
        .bind(firstStep_)
        .bind(nowMs())
        .run();
    segment_ = segment;
}

void RunWriter::writePending(const Pending& item) {
    Database& database = store_.database();
    switch (item.kind) {
        case Pending::Kind::Step:
            database.cached("INSERT INTO step_blob(run, segment, step, data) VALUES (?, ?, ?, ?)")
                .bind(run_)
                .bind(segment_)
                .bind(item.step)
                .bind(item.data)
                .run();
            if (!item.exponents.empty())
                database.cached("INSERT INTO exponents(run, segment, step, data) VALUES (?, ?, ?, ?)")
                    .bind(run_)
                    .bind(segment_)
                    .bind(item.step)
                    .bind(item.exponents)
                    .run();
            return;
        case Pending::Kind::Evaluation:
            database.cached("INSERT OR REPLACE INTO evaluation(run, segment, step, loss) VALUES (?, ?, ?, ?)")
                .bind(run_)
                .bind(segment_)
                .bind(item.step)
                .bind(item.loss)
                .run();
            return;
        case Pending::Kind::Event: {
            const RunEvent& e = item.event;
            database
                .cached(
                    "INSERT INTO event(run, step, time_ms, kind, text, alert, severity, layer, tensor, tensor_index) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
                .bind(run_)
                .bind(e.step)
                .bind(e.timeMs)
                .bind(e.kind)
                .bind(e.text)
                .bind(e.alert)
                .bind(e.severity)
                .bind(e.layer)
                .bind(e.tensor)
                .bind(e.tensorIndex)
                .run();
            return;
        }
        case Pending::Kind::Checkpoint:
            // A checkpoint written again after a resume stands once, as the newest.
            database.cached("DELETE FROM checkpoint WHERE run = ? AND path = ?")
                .bind(run_)
                .bind(item.checkpoint.path)
                .run();
            database.cached("INSERT INTO checkpoint(run, step, time_ms, path, bytes) VALUES (?, ?, ?, ?, ?)")
                .bind(run_)
                .bind(item.checkpoint.step)
                .bind(item.checkpoint.timeMs)
                .bind(item.checkpoint.path)
                .bind(item.checkpoint.bytes)
                .run();
            return;
        case Pending::Kind::DropCheckpoint:
            database.cached("UPDATE checkpoint SET on_disk = 0 WHERE run = ? AND path = ?")
                .bind(run_)
                .bind(item.checkpoint.path)
                .run();
            return;
    }
}

void RunWriter::writeSummaries() {
    for (const auto& [metric, changed] : changed_) {
        const auto found = summaries_.find(metric);
        Database& database = store_.database();
        if (found == summaries_.end()) {
            database.cached("DELETE FROM metric_summary WHERE run = ? AND metric = ?")
                .bind(run_)
                .bind(static_cast<int>(metric))
                .run();
            continue;
        }
        const MetricSummary& s = found->second;
        database
            .cached(
                "INSERT OR REPLACE INTO metric_summary(run, metric, last, min, max, best, last_finite, last_step, "
                "count, non_finite) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
            .bind(run_)
            .bind(static_cast<int>(metric))
            .bind(s.last)
            .bind(s.min)
            .bind(s.max)
            .bind(s.best)
            .bind(s.lastFinite)
            .bind(s.lastStep)
            .bind(s.count)
            .bind(s.nonFinite)
            .run();
    }
}

void RunWriter::writeRow() {
    Database& database = store_.database();
    database
        .cached(
            "UPDATE run SET status = ?, status_text = ?, step = ?, steps = ?, has_loss = ?, loss = ?, finite_loss = ?, "
            "has_val = ?, val_loss = ?, "
            "finite_val = ?, val_step = ?, tokens_per_s = ?, tokens = ?, device = ?, device_name = ?, started_ms = ?, "
            "ended_ms = ?, commit_ms = ?, "
            "seconds = ?, plan_bytes = ?, peak_bytes = ?, alerts = ?, worst_alert = ?, segment = ? WHERE id = ? AND "
            "hidden = 0")
        .bind(statusName(row_.status))
        .bind(row_.statusText)
        .bind(row_.step)
        .bind(row_.steps)
        .bind(int{row_.hasLoss})
        .bind(row_.loss)
        .bind(row_.lastFiniteLoss)
        .bind(int{row_.hasValidation})
        .bind(row_.validationLoss)
        .bind(row_.lastFiniteValidation)
        .bind(row_.validationStep)
        .bind(row_.tokensPerSecond)
        .bind(row_.tokens)
        .bind(row_.device)
        .bind(row_.deviceName)
        .bind(row_.startedMs)
        .bind(row_.endedMs)
        .bind(nowMs())
        .bind(row_.seconds)
        .bind(row_.planBytes)
        .bind(row_.peakBytes)
        .bind(row_.alerts)
        .bind(row_.worstAlert)
        .bind(segment_ < 0 ? 0 : segment_)
        .bind(run_)
        .run();
    if (database.changes() == 0)
        throw Error(ErrorCode::InvalidConfig,
                    fmt::format("{}: run {} was deleted while it was going", store_.path(), ulid_));
    if (documentDirty_)
        database.cached("UPDATE document SET spec = ?, catalogue = ?, details = ? WHERE run = ?")
            .bind(document_)
            .bind(catalogue_)
            .bind(details_)
            .bind(run_)
            .run();
    if (precisionDirty_)
        database.cached("UPDATE document SET precision = ? WHERE run = ?").bind(precision_).bind(run_).run();
}

}  // namespace mantissa::experiments
