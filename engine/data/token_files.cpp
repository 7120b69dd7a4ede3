#include "engine/data/token_files.h"

#include <fmt/format.h>

#include <cstring>

#include "engine/data/corpus_files.h"

namespace mantissa::engine {
namespace {

constexpr int32_t kLlmcMagic = 20240520;    // GPT-2 tokens as uint16, version 1
constexpr int32_t kLlmcMagic32 = 20240801;  // Llama tokens as uint32
constexpr size_t kLlmcHeaderBytes = 256 * sizeof(int32_t);

}  // namespace

bool isTokenFileName(const std::string& name) {
    for (const char* ending : {".bin", ".u16", ".bin.gz", ".u16.gz"})
        if (name.ends_with(ending)) return true;
    return false;
}

void readTokenFile(std::vector<uint8_t>& bytes, const std::string& where, int vocabulary) {
    size_t at = 0;
    if (bytes.size() >= sizeof(int32_t)) {
        int32_t magic = 0;
        std::memcpy(&magic, bytes.data(), sizeof magic);
        if (magic == kLlmcMagic32)
            refuseData(where, "holds 32-bit tokens of llm.c (magic 20240801); allowed: 16-bit tokens (20240520)");
        if (magic == kLlmcMagic) {
            if (bytes.size() < kLlmcHeaderBytes)
                refuseData(where,
                           fmt::format("the header of an llm.c token file has 1024 bytes, the file {}", bytes.size()));
            int32_t header[3];
            std::memcpy(header, bytes.data(), sizeof header);
            if (header[1] != 1)
                refuseData(where, fmt::format("version {} of llm.c's token files; allowed: 1", header[1]));
            const size_t held = (bytes.size() - kLlmcHeaderBytes) / 2;
            if (header[2] < 0 || static_cast<size_t>(header[2]) != held || (bytes.size() - kLlmcHeaderBytes) % 2)
                refuseData(where, fmt::format("the header promises {} tokens, the file holds {} bytes of them",
                                              header[2], bytes.size() - kLlmcHeaderBytes));
            at = kLlmcHeaderBytes;
        }
    }
    if ((bytes.size() - at) % 2)
        refuseData(where, fmt::format("{} bytes are no whole number of 16-bit tokens", bytes.size() - at));
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    for (size_t i = 0; i < bytes.size(); i += 2) {
        const int token = bytes[i] | bytes[i + 1] << 8;
        if (token >= vocabulary)
            refuseData(where,
                       fmt::format("token {} at position {} is not below model.vocabulary {}{}", token, i / 2,
                                   vocabulary, at > 0 ? "" : " (read as 16-bit tokens: it has no header of llm.c)"));
    }
}

}  // namespace mantissa::engine
