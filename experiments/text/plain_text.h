// Text from outside (names, notes, bytes of a file) made fit for one line of a terminal.
#pragma once

#include <cstddef>
#include <string>

namespace mantissa::experiments {

/// Control characters and bytes that are no UTF-8 become "?"; more than `limit` characters end in "…" (0: no limit).
std::string plainText(const std::string& text, size_t limit = 0);
/// True when every byte belongs to a character of UTF-8.
bool isUtf8(const std::string& text);
/// True when the text has a control character (line end, tab, escape …).
bool hasControls(const std::string& text);

}  // namespace mantissa::experiments
