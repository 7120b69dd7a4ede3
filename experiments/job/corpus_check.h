// Whether a run that goes on reads the text that it was begun on.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/spec/run_spec.h"
#include "experiments/store/run_store.h"

namespace mantissa::experiments {

/// The path as the store keeps it: files, folders and globs from the root, text:kjv and its like as they are.
std::string absoluteDataPath(const std::string& path);

/// The stored run's way of writing data.path, where both name the same place.
void keepDataPath(RunStore& store, const RunSummary& run, RunSpec& spec);

/// Reads the corpus of `spec`, as the trainer will, and compares it with what `run` recorded when it began; a fork on
/// another data.path, tokenizer or vocabulary is not compared, nor is a run that recorded nothing (made before there
/// was a record, or on generated text). step: of the checkpoint, for the sentence. any: whatever is there is meant.
/// Throws InvalidFile naming path, recorded and present text, and the way out; what TokenSource::open throws.
void checkCorpus(RunStore& store, const RunSummary& run, const RunSpec& spec, int64_t step, bool any);

}  // namespace mantissa::experiments
