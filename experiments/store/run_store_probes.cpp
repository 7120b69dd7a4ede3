// What probed steps measured beside statistics: shadow products, non-finite ops, stale weights.
#include <algorithm>
#include <limits>

#include "experiments/store/run_store_impl.h"
#include "experiments/store/series_reader.h"
#include "experiments/store/step_record.h"
#include "kernels/quantize/quantize.h"

namespace mantissa::experiments {

namespace {

/// put(step, blob) for each probed step of the range, newest segment ruling, ascending.
template <typename Put>
void forEachBlob(Database& database, int64_t run, int64_t first, int64_t last, Put put) {
    ReadView view(database);
    SeriesReader reader(database, run);
    if (last < 0) last = std::numeric_limits<int64_t>::max();
    for (const auto& segment : reader.segments()) {
        Statement& query = database.cached(
            "SELECT step, data FROM exponents WHERE run = ? AND segment = ? AND step >= ? AND step <= ? ORDER BY step");
        query.bind(run).bind(segment.index).bind(first).bind(std::min(last, segment.cut - 1));
        while (query.step()) put(query.integer(0), query.blob(1));
        query.reset();
    }
}

template <typename Put>
void forEachProbe(Database& database, int64_t run, int64_t first, int64_t last, Put put) {
    forEachBlob(database, run, first, last, [&](int64_t step, BlobView blob) { put(step, decodeExtras(blob)); });
}

/// (layer, linear) in plan order: that of the inputs in the catalogue.
std::vector<std::pair<std::string, std::string>> linearNames(const std::vector<engine::CatalogueEntry>& catalogue) {
    std::vector<std::pair<std::string, std::string>> names;
    for (const auto& entry : catalogue)
        if (entry.role == engine::TensorRole::Input) names.emplace_back(entry.layer, entry.linear);
    return names;
}

}  // namespace

std::vector<ShadowRow> RunStore::shadow(const std::string& id, int64_t firstStep, int64_t lastStep) {
    const char* gemms[] = {"fprop", "dgrad", "wgrad"};
    const auto names = linearNames(document(id).catalogue);
    std::vector<ShadowRow> rows;
    forEachProbe(*impl_->database, impl_->readId(id), firstStep, lastStep,
                 [&](int64_t step, const ProbeExtras& extras) {
                     for (const auto& row : extras.shadow) {
                         if (row.linear < 0 || row.linear >= static_cast<int>(names.size()) || row.gemm > 2) continue;
                         const auto& name = names[static_cast<size_t>(row.linear)];
                         rows.push_back({step, name.first, name.second, gemms[row.gemm], static_cast<float>(row.sqnrDb),
                                         static_cast<float>(row.relativeError)});
                     }
                 });
    return rows;
}

std::vector<Exponents> RunStore::exponentsRange(const std::string& id, int tensor, int64_t firstStep,
                                                int64_t lastStep) {
    std::vector<Exponents> list;
    forEachBlob(*impl_->database, impl_->readId(id), firstStep, lastStep, [&](int64_t step, BlobView blob) {
        auto counts = decodeExponents(blob, tensor);
        if (!counts.empty()) list.push_back({step, -kernels::kExponentBias, std::move(counts)});
    });
    return list;
}

std::vector<OpRow> RunStore::opChecks(const std::string& id, int64_t firstStep, int64_t lastStep) {
    std::vector<OpRow> rows;
    forEachProbe(*impl_->database, impl_->readId(id), firstStep, lastStep,
                 [&](int64_t step, const ProbeExtras& extras) {
                     for (const auto& check : extras.ops) rows.push_back({step, check});
                 });
    return rows;
}

std::vector<StaleRow> RunStore::staleWeights(const std::string& id, int64_t firstStep, int64_t lastStep) {
    std::vector<StaleRow> rows;
    forEachProbe(*impl_->database, impl_->readId(id), firstStep, lastStep,
                 [&](int64_t step, const ProbeExtras& extras) {
                     for (const auto& [tensor, codes] : extras.stale) rows.push_back({step, tensor, codes});
                 });
    return rows;
}

}  // namespace mantissa::experiments
