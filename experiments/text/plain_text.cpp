#include "experiments/text/plain_text.h"

#include <algorithm>
#include <cstdint>

#include "engine/data/tokenizer.h"

namespace mantissa::experiments {

namespace {

bool isControl(char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

}  // namespace

bool isUtf8(const std::string& text) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
    for (size_t at = 0; at < text.size();) {
        const int length = engine::utf8Length(bytes, text.size(), at);
        if (length == 0) return false;
        at += static_cast<size_t>(length);
    }
    return true;
}

bool hasControls(const std::string& text) {
    return std::any_of(text.begin(), text.end(), isControl);
}

std::string plainText(const std::string& text, size_t limit) {
    std::string plain;
    size_t count = 0;
    const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
    for (size_t at = 0; at < text.size();) {
        if (limit > 0 && ++count > limit) return plain + "…";
        const int length = engine::utf8Length(bytes, text.size(), at);
        // U+0080 … U+009F are control characters too, in two bytes.
        const bool control = isControl(text[at]) || (length == 2 && bytes[at] == 0xC2 && bytes[at + 1] < 0xA0);
        if (length == 0 || control)
            plain += '?';
        else
            plain.append(text, at, static_cast<size_t>(length));
        at += static_cast<size_t>(std::max(length, 1));
    }
    return plain;
}

}  // namespace mantissa::experiments
