#include "engine/data/token_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

#include "engine/data/corpus_files.h"
#include "engine/data/generated_text.h"
#include "engine/data/token_files.h"
#include "engine/data/tokenizer.h"
#include "engine/data/window_order.h"
#include "kernels/error.h"

namespace mantissa::engine {
namespace {

constexpr int64_t kMinValidationWindows = 64;

[[noreturn]] void refuseConfig(const std::string& field, const std::string& why) {
    throw Error(ErrorCode::InvalidConfig, field + ": " + why);
}

void checkConfig(const DataConfig& config, int context) {
    if (!(config.validationFraction > 0 && config.validationFraction < 1))
        refuseConfig("data.validation_fraction",
                     fmt::format("{} is outside its range; allowed: 0 < fraction < 1", config.validationFraction));
    if (context < 1)
        refuseConfig("model.context", fmt::format("{} is outside its range; allowed: 1 and more", context));
    if (config.vocabulary < 2 || config.vocabulary > 65536)
        refuseConfig("model.vocabulary",
                     fmt::format("{} is outside its range; allowed: 2 ... 65536", config.vocabulary));
    if (config.tokenizer != "auto" && config.tokenizer != "chars96" && config.tokenizer != "bytes" &&
        config.tokenizer != "tokens")
        refuseConfig("data.tokenizer",
                     fmt::format("\"{}\" is unknown; allowed: auto, chars96, bytes, tokens", config.tokenizer));
}

/// FNV-1a over words of eight bytes, the last one filled up with zeros; the shift brings high bits down, which a
/// product alone never does. Every step is a bijection of the hash, so that one changed word always shows.
uint64_t hashBytes(const std::vector<uint8_t>& bytes) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
        uint64_t word = 0;
        std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 32;
    }
    return hash;
}

/// A corpus in memory, split into a training head and a validation tail.
template <class Id>
class MemorySource final : public TokenSource {
  public:
    struct Facts {
        int vocabulary = 0;
        int64_t replaced = 0;
        std::string description, where;
    };

    /// tokens: ids of sizeof(Id) bytes each, little-endian.
    MemorySource(std::vector<uint8_t> tokens, Facts facts, double validationFraction, int context, uint64_t seed)
        : tokens_(std::move(tokens)), facts_(std::move(facts)), context_(context), seed_(seed) {
        const int64_t total = totalTokens();
        const int64_t leastValidation = kMinValidationWindows * context_ + 1, leastTraining = 2 * context_;
        if (total < leastValidation + leastTraining)
            refuseData(
                facts_.where,
                fmt::format("{} tokens are too few: {} validation windows and 1 training window of model.context {} "
                            "need {}",
                            total, kMinValidationWindows, context_, leastValidation + leastTraining));
        const auto wanted = static_cast<int64_t>(std::llround(static_cast<double>(total) * validationFraction));
        validationStart_ = total - std::clamp(wanted, leastValidation, total - leastTraining);
    }

    int64_t trainTokens() const override { return validationStart_; }
    int64_t validationTokens() const override { return totalTokens() - validationStart_; }
    /// Every offset within a window leaves this many whole windows.
    int64_t trainWindows() const override { return trainTokens() / context_ - 1; }
    int64_t validationWindows() const override { return (validationTokens() - 1) / context_; }
    int vocabulary() const override { return facts_.vocabulary; }
    void trainWindow(int64_t index, int32_t* out) const override {
        const int64_t windows = trainWindows();
        const auto epoch = static_cast<uint64_t>(index / windows);
        copy(epochOffset(context_, seed_, epoch) + permutedWindow(index % windows, windows, seed_, epoch) * context_,
             out);
    }
    void validationWindow(int64_t index, int32_t* out) const override {
        copy(validationStart_ + index % validationWindows() * context_, out);
    }
    std::optional<double> entropyRate() const override { return std::nullopt; }
    int64_t replacedCharacters() const override { return facts_.replaced; }
    std::string description() const override { return facts_.description; }
    uint64_t bytesInMemory() const override { return tokens_.capacity(); }
    std::optional<CorpusIdentity> identity() const override {
        return CorpusIdentity{totalTokens(), hashBytes(tokens_)};
    }

  private:
    int64_t totalTokens() const { return static_cast<int64_t>(tokens_.size() / sizeof(Id)); }
    void copy(int64_t start, int32_t* out) const {
        const uint8_t* from = tokens_.data() + start * static_cast<int64_t>(sizeof(Id));
        for (int64_t i = 0; i <= context_; ++i, from += sizeof(Id)) {
            Id id;
            std::memcpy(&id, from, sizeof id);
            out[i] = id;
        }
    }

    std::vector<uint8_t> tokens_;
    Facts facts_;
    int64_t context_, validationStart_ = 0;
    uint64_t seed_;
};

/// Windows made on demand; training and validation are apart by their seeds.
class GeneratedSource final : public TokenSource {
  public:
    GeneratedSource(int vocabulary, int context, uint64_t seed)
        : source_(vocabulary), vocabulary_(vocabulary), context_(context), seed_(seed) {}

    int64_t trainTokens() const override { return trainWindows() * context_; }
    int64_t validationTokens() const override { return validationWindows() * context_; }
    int64_t trainWindows() const override { return int64_t{1} << 32; }
    int64_t validationWindows() const override { return 4096; }
    int vocabulary() const override { return vocabulary_; }
    void trainWindow(int64_t index, int32_t* out) const override {
        source_.generate(seed_ * 2 + 1, static_cast<uint64_t>(index), context_ + 1, out);
    }
    void validationWindow(int64_t index, int32_t* out) const override {
        source_.generate(0, static_cast<uint64_t>(index % validationWindows()), context_ + 1,
                         out);  // the same for every seed
    }
    std::optional<double> entropyRate() const override { return source_.entropyRate(); }
    int64_t replacedCharacters() const override { return 0; }
    std::string description() const override {
        return fmt::format("generated text, {} tokens of vocabulary, {:.4f} nats/token at best", vocabulary_,
                           source_.entropyRate());
    }
    uint64_t bytesInMemory() const override { return source_.bytesInMemory(); }

  private:
    MarkovSource source_;
    int vocabulary_, context_;
    uint64_t seed_;
};

std::string million(int64_t count) {
    if (count >= 1000000) return fmt::format("{:.2f} M", static_cast<double>(count) / 1e6);
    return count >= 10000 ? fmt::format("{:.1f} k", static_cast<double>(count) / 1e3) : std::to_string(count);
}

enum class Kind { Chars96, Bytes, Tokens };

Kind chooseKind(const DataConfig& config, const std::vector<std::string>& files) {
    if (config.tokenizer == "tokens") return Kind::Tokens;
    if (config.tokenizer == "chars96") return Kind::Chars96;
    if (config.tokenizer == "bytes") return Kind::Bytes;
    if (std::all_of(files.begin(), files.end(), isTokenFileName)) return Kind::Tokens;
    return config.vocabulary == 256 ? Kind::Bytes : Kind::Chars96;
}

struct Corpus {
    std::vector<uint8_t> bytes;  ///< one byte a token, or two (token files)
    TextCount count;
    int64_t skipped = 0;
};

/// Adds a file's tokens; the first one moves in, so that a corpus of one file is never held twice.
void append(std::vector<uint8_t>& all, std::vector<uint8_t> more) {
    if (all.empty() && all.capacity() == 0)
        all = std::move(more);
    else
        all.insert(all.end(), more.begin(), more.end());
}

Corpus readCorpus(const DataConfig& config, const std::vector<std::string>& files, Kind kind) {
    Corpus corpus;
    std::error_code error;
    uintmax_t bytes = 0;
    for (const std::string& file : files) bytes += std::filesystem::file_size(file, error);
    if (!error && files.size() > 1 && bytes <= kMaxCorpusBytes) corpus.bytes.reserve(bytes);
    for (const std::string& file : files) {
        std::vector<uint8_t> content = readCorpusFile(file);
        if (content.empty() && files.size() == 1) refuseData(file, "the file is empty");
        if (kind == Kind::Tokens) {
            readTokenFile(content, file, config.vocabulary);
        } else if (kind == Kind::Bytes) {
            corpus.count.characters += static_cast<int64_t>(content.size());
        } else if (files.size() > 1 && looksBinary(content)) {
            ++corpus.skipped;  // a picture between texts; the description says how many
            continue;
        } else {
            tokenizeChars96(content, file, corpus.count);
        }
        append(corpus.bytes, std::move(content));
    }
    if (corpus.skipped == static_cast<int64_t>(files.size())) refuseData(config.path, "no file of it is text");
    if (corpus.bytes.capacity() > corpus.bytes.size() + corpus.bytes.size() / 16) corpus.bytes.shrink_to_fit();
    return corpus;
}

std::string describe(const DataConfig& config, const std::vector<std::string>& files, const Corpus& corpus, Kind kind) {
    std::string name = config.path == "text:kjv" ? "KJV Bible" : std::filesystem::path(config.path).filename().string();
    if (name.empty()) name = config.path;
    if (files.size() > 1)
        name += fmt::format(" ({} files{})", files.size(),
                            corpus.skipped ? fmt::format(", {} skipped as not text", corpus.skipped) : "");
    if (kind == Kind::Tokens)
        return fmt::format("{}, {} tokens", name, million(static_cast<int64_t>(corpus.bytes.size() / 2)));
    if (kind == Kind::Bytes) return fmt::format("{}, {} bytes", name, million(corpus.count.characters));
    return fmt::format("{}, {} characters, 96 printable characters", name,
                       million(static_cast<int64_t>(corpus.bytes.size())));
}

}  // namespace

std::shared_ptr<const TokenSource> TokenSource::open(const DataConfig& config, int context, uint64_t seed) {
    checkConfig(config, context);
    if (config.path == "text:generated") return std::make_shared<GeneratedSource>(config.vocabulary, context, seed);
    if (config.path.starts_with("text:") && config.path != "text:kjv")
        refuseData(config.path, "no such built-in text; allowed: text:kjv, text:generated, a path");
    const std::vector<std::string> files =
        config.path == "text:kjv" ? std::vector{kjvFile()} : corpusFiles(config.path);
    const Kind kind = chooseKind(config, files);
    const int needed = kind == Kind::Chars96 ? kChars96 : kind == Kind::Bytes ? 256 : config.vocabulary;
    if (config.vocabulary < needed)
        refuseConfig("model.vocabulary",
                     fmt::format("{} is too small for tokenizer {}; allowed: {} and more", config.vocabulary,
                                 kind == Kind::Bytes ? "bytes" : "chars96", needed));
    Corpus corpus = readCorpus(config, files, kind);
    const std::string text = describe(config, files, corpus, kind);
    if (kind == Kind::Tokens)
        return std::make_shared<MemorySource<uint16_t>>(std::move(corpus.bytes),
                                                        MemorySource<uint16_t>::Facts{needed, 0, text, config.path},
                                                        config.validationFraction, context, seed);
    return std::make_shared<MemorySource<uint8_t>>(
        std::move(corpus.bytes), MemorySource<uint8_t>::Facts{needed, corpus.count.replaced, text, config.path},
        config.validationFraction, context, seed);
}

}  // namespace mantissa::engine
