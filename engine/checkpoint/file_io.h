// Files of checkpoints: whole writes that reach the disk, reads that know where they are; every failure is a sentence
// with the path.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mantissa::engine {

/// Writes one file from its beginning. Throws Io with path and the system's reason.
class FileWriter {
  public:
    explicit FileWriter(const std::string& path);
    ~FileWriter();
    FileWriter(const FileWriter&) = delete;
    FileWriter& operator=(const FileWriter&) = delete;

    void write(const void* data, size_t bytes);
    void overwrite(uint64_t offset, const void* data, size_t bytes);  ///< bytes written before; not part of crc()
    void finish();                                                    ///< fsync and close
    uint64_t size() const { return size_; }
    uint32_t crc() const { return crc_; }  ///< CRC-32 (zlib) of what write() took since resetCrc()
    void resetCrc() { crc_ = 0; }

  private:
    std::string path_;
    int file_ = -1;
    uint64_t size_ = 0;
    uint32_t crc_ = 0;
};

/// Reads one file. Throws InvalidFile: missing, not a regular file, shorter than asked for.
class FileReader {
  public:
    explicit FileReader(const std::string& path);
    ~FileReader();
    FileReader(const FileReader&) = delete;
    FileReader& operator=(const FileReader&) = delete;

    void read(uint64_t offset, void* data, size_t bytes) const;
    uint32_t crc(uint64_t offset, uint64_t bytes) const;
    uint64_t size() const { return size_; }
    const std::string& path() const { return path_; }
    [[noreturn]] void fail(const std::string& reason) const;  ///< InvalidFile "PATH: REASON"

  private:
    std::string path_;
    int file_ = -1;
    uint64_t size_ = 0;
};

/// Makes renames in a directory durable. Throws Io.
void syncDirectory(const std::string& directory);

}  // namespace mantissa::engine
