// The versioned binary file beside the weights: named sections, each with its length and checksum.
//
// Layout, little-endian: "MNTSTATE", u32 version, u32 sections, then per section 16 bytes name (zero padded), u64
// offset, u64 bytes, u32 CRC-32, u32 zero; then u32 CRC-32 of all before it, u32 zero; then the sections' bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/checkpoint/file_io.h"

namespace mantissa::engine {

inline constexpr uint32_t kStateVersion = 1;

struct StateSection {
    std::string name;  ///< at most 16 characters
    uint64_t offset = 0, bytes = 0;
    uint32_t crc = 0;
};

/// begin("a"); write...; begin("b"); write...; finish(). The table is filled in at the end.
class StateWriter {
  public:
    StateWriter(const std::string& path, int sections);
    void begin(const std::string& name);
    void write(const void* data, size_t bytes) { file_.write(data, bytes); }
    void finish();  ///< to disk; the number of sections must be the one announced

  private:
    void close();
    FileWriter file_;
    size_t announced_;
    std::vector<StateSection> sections_;
};

/// Opens, checks the table and all checksums. Throws InvalidFile: foreign, newer version, cut off, damaged (which
/// section).
class StateReader {
  public:
    explicit StateReader(const std::string& path);
    const StateSection* find(const std::string& name) const;
    /// The section, whole. expectedBytes: 0 means any.
    std::vector<char> read(const std::string& name, uint64_t expectedBytes = 0) const;
    const FileReader& file() const { return file_; }

  private:
    FileReader file_;
    std::vector<StateSection> sections_;
};

}  // namespace mantissa::engine
