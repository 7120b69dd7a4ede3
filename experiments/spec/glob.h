// Patterns with * (any text, also empty, also with dots and slashes) and ? (one character).
#pragma once

#include <string_view>

namespace mantissa::experiments {

/// Whole-text match, linear in practice (one backtrack point). Bytes, not characters.
constexpr bool globMatch(std::string_view pattern, std::string_view text) {
    size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*')
            star = p++, mark = t;
        else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t]))
            ++p, ++t;
        else if (star != std::string_view::npos)
            p = star + 1, t = ++mark;
        else
            return false;
    }
    while (p < pattern.size() && pattern[p] == '*') ++p;
    return p == pattern.size();
}

}  // namespace mantissa::experiments
