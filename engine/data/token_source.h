// Text and token files as one array of token ids with a train / validation split and deterministic windows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mantissa::engine {

struct DataConfig {
    std::string path =
        "text:kjv";  ///< text:kjv, text:generated, a file, a folder, a .bin / .u16 token file (glob allowed)
    std::string tokenizer = "auto";  ///< auto, chars96, bytes, tokens
    double validationFraction = 0.05;
    int vocabulary = 96;  ///< of the model; ids at or above it are refused
};

/// What tells one corpus from another: every token of training and validation part, in order.
struct CorpusIdentity {
    int64_t tokens = 0;
    uint64_t hash = 0;  ///< of the ids as little-endian bytes, eight at a time (token_source.cpp)
    bool operator==(const CorpusIdentity&) const = default;
};

/// Immutable once made; shared by trainer and forecasts. Windows: window i of the training part has context + 1 tokens;
/// which start it has depends on (seed, corpus, i) alone, by a keyed permutation of the non-overlapping windows, epoch
/// by epoch (each epoch with a new offset within the window). Thread: const members from any thread.
class TokenSource {
  public:
    /// Reads, decodes (UTF-8; Latin-1 when it is not valid UTF-8; gzip by its magic; CRLF) and tokenizes.
    /// `validationWindows` at least 64 windows of `context` must fit, else InvalidFile. Throws InvalidFile with one
    /// sentence naming path and reason.
    static std::shared_ptr<const TokenSource> open(const DataConfig& config, int context, uint64_t seed);
    virtual ~TokenSource() = default;

    virtual int64_t trainTokens() const = 0;
    virtual int64_t validationTokens() const = 0;
    virtual int64_t trainWindows() const = 0;  ///< of one epoch
    virtual int64_t validationWindows() const = 0;
    virtual int vocabulary() const = 0;  ///< ids are below it
    /// context + 1 tokens of training window `index` (any index >= 0) into `out`.
    virtual void trainWindow(int64_t index, int32_t* out) const = 0;
    virtual void validationWindow(int64_t index, int32_t* out) const = 0;
    virtual std::optional<double> entropyRate() const = 0;  ///< nats/token, of generated text
    virtual int64_t replacedCharacters() const = 0;  ///< characters outside the tokenizer's set, shown to the user
    virtual std::string description() const = 0;     ///< "KJV Bible, 4.30 M characters, 96 printable characters"
    virtual uint64_t bytesInMemory() const = 0;
    /// Nothing for text that is made on demand: its settings say all. Reads the whole corpus (some GB/s).
    virtual std::optional<CorpusIdentity> identity() const { return std::nullopt; }
};

}  // namespace mantissa::engine
