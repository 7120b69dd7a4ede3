#include "engine/data/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/data/corpus_files.h"

namespace mantissa::engine {
namespace {

constexpr uint8_t kQuestionMark = '?' - 31;

bool isUtf8(const std::vector<uint8_t>& bytes) {
    for (size_t i = 0; i < bytes.size();) {
        const int length = utf8Length(bytes.data(), bytes.size(), i);
        if (length == 0) return false;
        i += static_cast<size_t>(length);
    }
    return true;
}

}  // namespace

int utf8Length(const uint8_t* bytes, size_t size, size_t at) {
    const uint8_t first = bytes[at];
    if (first < 0x80) return 1;
    const int length = first >= 0xF0 && first <= 0xF4 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
    if (length == 0 || first > 0xF4 || at + static_cast<size_t>(length) > size) return 0;
    for (int i = 1; i < length; ++i)
        if ((bytes[at + static_cast<size_t>(i)] & 0xC0) != 0x80) return 0;
    const uint8_t second = bytes[at + 1];
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F)) return 0;  // overlong, surrogates
    if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) return 0;  // overlong, beyond U+10FFFF
    return length;
}

bool looksBinary(const std::vector<uint8_t>& bytes) {
    const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(bytes.size(), 1 << 16));
    return std::find(bytes.begin(), end, 0) != end;
}

void tokenizeChars96(std::vector<uint8_t>& bytes, const std::string& where, TextCount& count) {
    // The byte order mark of UTF-32 LE begins with that of UTF-16 LE.
    constexpr uint8_t kUtf32[2][4] = {{0xFF, 0xFE, 0, 0}, {0, 0, 0xFE, 0xFF}};
    for (const auto& mark : kUtf32)
        if (bytes.size() >= sizeof mark && bytes.size() % sizeof mark == 0 &&
            std::equal(std::begin(mark), std::end(mark), bytes.begin()))
            refuseData(where, "is UTF-32 text; allowed: UTF-8, Latin-1");
    if (bytes.size() >= 2 && ((bytes[0] == 0xFF && bytes[1] == 0xFE) || (bytes[0] == 0xFE && bytes[1] == 0xFF)))
        refuseData(where, "is UTF-16 text; allowed: UTF-8, Latin-1");
    const auto nul = std::find(bytes.begin(), bytes.end(), 0);
    if (nul != bytes.end()) refuseData(where, fmt::format("is not text: NUL byte at offset {}", nul - bytes.begin()));
    const bool utf8 = isUtf8(bytes);
    size_t at = bytes.size() >= 3 && bytes[0] == 0xEF && bytes[1] == 0xBB && bytes[2] == 0xBF ? 3 : 0;
    TextCount own;
    size_t kept = 0;  // never ahead of `at`
    while (at < bytes.size()) {
        const uint8_t byte = bytes[at];
        at += utf8 ? static_cast<size_t>(utf8Length(bytes.data(), bytes.size(), at)) : 1;
        ++own.characters;
        if (byte >= 32 && byte <= 126)
            bytes[kept++] = static_cast<uint8_t>(byte - 31);
        else if (byte == '\n')
            bytes[kept++] = 0;
        else if (byte == '\t')
            bytes[kept++] = ' ' - 31;
        else if (byte != '\r') {
            bytes[kept++] = kQuestionMark;
            ++own.replaced;
        }
    }
    bytes.resize(kept);
    if (own.replaced * 2 > own.characters)
        refuseData(
            where,
            fmt::format(
                "{} of {} characters are outside the 96 printable ones; another tokenizer fits better; allowed: bytes",
                own.replaced, own.characters));
    count.characters += own.characters;
    count.replaced += own.replaced;
}

}  // namespace mantissa::engine
