// The safetensors format: 8 bytes header length (little-endian), a JSON header, then the tensors' bytes.
// Source: github.com/huggingface/safetensors, README, "Format".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/checkpoint/file_io.h"

namespace mantissa::engine {

struct SafetensorsEntry {
    std::string name, dtype;  ///< dtype as in the file: "F32", "BF16", "F16", "U8", ...
    std::vector<int64_t> shape;
    uint64_t offset = 0, bytes = 0;  ///< offset from the beginning of the file
    int64_t count() const;           ///< elements
};

struct SafetensorsIndex {
    std::vector<SafetensorsEntry> entries;  ///< by offset
    std::map<std::string, std::string> metadata;
    const SafetensorsEntry* find(const std::string& name) const;  ///< nullptr when absent
};

/// Reads and checks the header: types and shapes against sizes, no overlap, nothing beyond the file. Throws
/// InvalidFile.
SafetensorsIndex readSafetensorsIndex(const FileReader& file);
/// Values of an F32, F16 or BF16 tensor. Throws InvalidFile for another type.
std::vector<float> readSafetensorsValues(const FileReader& file, const SafetensorsEntry& entry);
/// The header for tensors that follow in this order (offset and bytes of the entries are filled in), padded to 8 bytes.
std::string makeSafetensorsHeader(std::vector<SafetensorsEntry>& entries,
                                  const std::map<std::string, std::string>& metadata);

}  // namespace mantissa::engine
