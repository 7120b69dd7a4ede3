#include "experiments/job/corpus_check.h"

#include <fmt/format.h>

#include <filesystem>

#include "engine/data/token_source.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace {

std::string identityText(const engine::CorpusIdentity& corpus) {
    return fmt::format("{} tokens with hash {:016x}", corpus.tokens, corpus.hash);
}

}  // namespace

std::string absoluteDataPath(const std::string& path) {
    namespace fs = std::filesystem;
    if (path.empty() || path.starts_with("text:")) return path;
    std::error_code code;
    const fs::path absolute = fs::absolute(path, code);
    if (code) return path;
    // Behind a link, "a/.." is not the folder that a stands in: what has one stays as it is written.
    return path.find("..") == std::string::npos ? absolute.lexically_normal().string() : absolute.string();
}

void keepDataPath(RunStore& store, const RunSummary& run, RunSpec& spec) {
    const ParsedSpec stored = parseSpec(store.document(run.id).specJson);
    if (stored.ok() && absoluteDataPath(stored.spec.data.path) == absoluteDataPath(spec.data.path))
        spec.data.path = stored.spec.data.path;
}

void checkCorpus(RunStore& store, const RunSummary& run, const RunSpec& spec, int64_t step, bool any) {
    const auto now = engine::TokenSource::open(spec.data, spec.trainer.model.context, spec.trainer.seed);
    const RunDocument document = store.document(run.id);
    const ParsedSpec stored = parseSpec(document.specJson);
    if (any || !document.corpus || !stored.ok()) return;
    const engine::DataConfig &before = stored.spec.data, &after = spec.data;
    if (absoluteDataPath(before.path) != absoluteDataPath(after.path) || before.tokenizer != after.tokenizer ||
        before.vocabulary != after.vocabulary)
        return;
    const auto corpus = now->identity();
    if (!corpus || *corpus == *document.corpus) return;
    throw Error(ErrorCode::InvalidFile,
                fmt::format("data.path: {}: is not the text that run {} was trained on: {} were recorded, {} are there "
                            "now; allowed: the text put back, or another run on what is there now by mantissa-run fork "
                            "{} --at {} --set data.path={}",
                            after.path, run.name, identityText(*document.corpus), identityText(*corpus), run.name,
                            step < 0 ? run.step : step, after.path));
}

}  // namespace mantissa::experiments
