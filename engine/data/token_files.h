// Files that already hold token ids: llm.c's .bin and raw little-endian uint16.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mantissa::engine {

/// Checks a token file and leaves its ids in `bytes`, little-endian uint16, without the header (in place: a corpus is
/// not held twice). llm.c: 256 int32 of header (20240520, version 1, count), then uint16 ids; without that magic the
/// bytes are raw uint16 ids. Throws InvalidFile naming the file: another version, a count that the size contradicts, an
/// odd number of bytes, an id at or above `vocabulary` with its position.
void readTokenFile(std::vector<uint8_t>& bytes, const std::string& where, int vocabulary);

/// True for names that hold tokens: .bin, .u16 (and either with .gz).
bool isTokenFileName(const std::string& name);

}  // namespace mantissa::engine
