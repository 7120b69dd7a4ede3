// Text to tokens: 96 printable characters, or bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mantissa::engine {

inline constexpr int kChars96 = 96;
/// Token 0 is the newline, tokens 1 ... 95 are ASCII 32 ... 126.
inline char chars96Text(int token) {
    return token == 0 ? '\n' : static_cast<char>(token + 31);
}

struct TextCount {
    int64_t characters = 0;  ///< read
    int64_t replaced = 0;    ///< outside the set, written as "?"
};

/// Turns text into its tokens, in place (a corpus is not held twice). The bytes are UTF-8, or Latin-1 when they are not
/// valid UTF-8; a byte order mark is dropped. Tab becomes a space, CR is dropped, other characters become "?" and are
/// counted. `where` names the file. Throws InvalidFile when the bytes are not text (a NUL byte, UTF-16, UTF-32, or more
/// than half of the characters replaced).
void tokenizeChars96(std::vector<uint8_t>& bytes, const std::string& where, TextCount& count);

/// True when the bytes hold a NUL in their first 64 KiB.
bool looksBinary(const std::vector<uint8_t>& bytes);

/// Length of the UTF-8 sequence at `bytes[at]` (1 to 4), 0 when it is not valid there.
int utf8Length(const uint8_t* bytes, size_t size, size_t at);

}  // namespace mantissa::engine
