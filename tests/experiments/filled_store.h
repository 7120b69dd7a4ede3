// Stores with runs in them, for tests of the store.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "experiments/store/database.h"
#include "experiments/store/run_writer.h"
#include "experiments/store/ulid.h"
#include "tests/experiments/support.h"

namespace mantissa::experiments::test {

inline StepRecord scalars(int64_t step, double loss) {
    return {step, step % 10 == 0, {{Metric::Loss, loss}, {Metric::Tokens, static_cast<double>(step) * 10}}, {}};
}

inline engine::NumericsRecord numericsOf(int64_t step) {
    engine::NumericsRecord record;
    record.step = step;
    record.tensors.resize(2);
    for (size_t t = 0; t < 2; ++t) {
        auto& tensor = record.tensors[t];
        tensor.amax = static_cast<float>(step) + 0.25f * static_cast<float>(t);
        tensor.scale = 448 / tensor.amax;
        tensor.counters[0] = 1000;
        tensor.counters[2] = static_cast<uint64_t>(step) * 3 + t;
        tensor.counters[7] = 1ull << 40;
        tensor.dear = step % 10 == 0;
        if (tensor.dear) tensor.mse = 1e-8f * static_cast<float>(step);
    }
    return record;
}

inline RunDocument documentOf(const RunSpec& spec) {
    RunDocument document;
    document.specJson = spec.toJson(-1);
    document.catalogue = {{"h.0", "attn.qkv", engine::TensorRole::Input, "e4m3", "delayed", 10, 100},
                          {"lm_head", "", engine::TensorRole::Weight, "e4m3", "delayed", 10, 100}};
    return document;
}

/// A store with one run; steps first … last in one segment.
struct Filled {
    explicit Filled(const std::string& path)
        : store(path, RunStore::Mode::ReadWrite), id(makeUlid()), spec(presetSpec("tiny")) {
        insertRun(store, id, spec, "a run", {"x"}, "cpu");
    }
    void write(int64_t first, int64_t last, double offset = 0, bool compact = false) {
        RunWriter writer(store, id, first);
        writer.setDocument(documentOf(spec));
        for (int64_t step = first; step <= last; ++step) {
            const auto numerics = numericsOf(step);
            writer.addStep(scalars(step, 1.0 / static_cast<double>(step) + offset), &numerics);
        }
        writer.setStatus(RunStatus::Finished);
        ASSERT_TRUE(writer.flush());
        if (compact) writer.compactAll();
    }
    RunStore store;
    std::string id;
    RunSpec spec;
};

inline std::string goodStore(const std::string& path, bool compact = true) {
    {
        Filled filled(path);
        filled.write(1, 1200, 0, compact);
        filled.store.database().checkpoint(0, true);
    }
    return readAll(path);
}

}  // namespace mantissa::experiments::test
