// A token source for tests of the engine: a noisy cycle over the vocabulary, made from a hash of (stream, position).
#pragma once

#include <memory>
#include <string>

#include "engine/data/token_source.h"

namespace mantissa::test {

/// token(i + 1) = token(i) * 5 + 7 mod vocabulary, nine times in ten; else a hashed one. Learnable: loss falls towards
/// about 0.7.
class SyntheticTokens final : public engine::TokenSource {
  public:
    SyntheticTokens(int vocabulary, int context) : vocabulary_(vocabulary), context_(context) {}
    int64_t trainTokens() const override { return int64_t{1} << 20; }
    int64_t validationTokens() const override { return int64_t{64} * (context_ + 1); }
    int64_t trainWindows() const override { return trainTokens() / (context_ + 1); }
    int64_t validationWindows() const override { return 64; }
    int vocabulary() const override { return vocabulary_; }
    void trainWindow(int64_t index, int32_t* out) const override { fill(static_cast<uint64_t>(index) * 2, out); }
    void validationWindow(int64_t index, int32_t* out) const override {
        fill(static_cast<uint64_t>(index) * 2 + 1, out);
    }
    std::optional<double> entropyRate() const override { return std::nullopt; }
    int64_t replacedCharacters() const override { return 0; }
    std::string description() const override { return "synthetic tokens"; }
    uint64_t bytesInMemory() const override { return 0; }

  private:
    static uint64_t hash(uint64_t x) {
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
        return x ^ (x >> 31);
    }
    void fill(uint64_t stream, int32_t* out) const {
        const uint64_t vocabulary = static_cast<uint64_t>(vocabulary_);
        uint64_t token = hash(stream * 977 + 1) % vocabulary;
        for (int i = 0; i <= context_; ++i) {
            out[i] = static_cast<int32_t>(token);
            const uint64_t random = hash(stream * 1000003 + static_cast<uint64_t>(i) + 17);
            token = random % 10 == 0 ? (random >> 8) % vocabulary : (token * 5 + 7) % vocabulary;
        }
    }
    int vocabulary_, context_;
};

}  // namespace mantissa::test
