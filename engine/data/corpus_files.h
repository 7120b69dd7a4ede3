// Finding and reading corpus files: a file, a folder, a glob; gzip undone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mantissa::engine {

/// Error form of data files: "data.path: WHERE: WHY". Throws InvalidFile.
[[noreturn]] void refuseData(const std::string& where, const std::string& why);

/// The regular files that `path` names, sorted by name: the file itself, every file below a folder (hidden ones left
/// out), or what a glob (*, ?, [...]) matches. Throws InvalidFile when there is none, or when a folder's are too many
/// or together larger than a corpus may be: a wrong folder ("/") is refused before anything of it is read.
std::vector<std::string> corpusFiles(const std::string& path);

inline constexpr uint64_t kMaxCorpusBytes = uint64_t{8} << 30;
inline constexpr size_t kMaxCorpusFiles = 1'000'000;  ///< of a folder
/// Text packs 3 to 5 to 1, tables of numbers up to 30 to 1: what unpacks to more than kMostUnpacked times its size and
/// kAlwaysUnpacked fills the memory and teaches nothing.
inline constexpr uint64_t kMostUnpacked = 200, kAlwaysUnpacked = uint64_t{64} << 20;

/// Bytes of memory that a corpus may take now: what is free, or half of the machine where a cache fills the rest.
uint64_t corpusMemory();

/// Whole content, gunzipped when it starts with the gzip magic (several members are joined). At most kMaxCorpusBytes
/// and `memory`. Throws InvalidFile: unreadable, torn gzip, too large, unpacks to more than the limits above.
std::vector<uint8_t> readCorpusFile(const std::string& path, uint64_t memory = corpusMemory());

/// Path of the King James text: the data folder's copy, or one installed system-wide; made from Debian's program
/// `bible` when neither is there (written atomically into the data folder). Throws InvalidFile with what to install.
std::string kjvFile();

}  // namespace mantissa::engine
