#include "engine/checkpoint/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kernels/error.h"

namespace mantissa::engine {

namespace {

constexpr size_t kBlock = size_t{1} << 20;

[[noreturn]] void ioError(const std::string& path, const char* what) {
    throw Error(ErrorCode::Io, path + ": " + what + ": " + std::strerror(errno));
}

uint32_t updateCrc(uint32_t crc, const void* data, size_t bytes) {
    const auto* next = static_cast<const Bytef*>(data);
    uLong value = crc;
    while (bytes > 0) {
        const size_t part = std::min(bytes, kBlock);
        value = crc32(value, next, static_cast<uInt>(part));
        next += part;
        bytes -= part;
    }
    return static_cast<uint32_t>(value);
}

}  // namespace

FileWriter::FileWriter(const std::string& path) : path_(path) {
    file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file_ < 0) ioError(path_, "cannot be written");
}

FileWriter::~FileWriter() {
    if (file_ >= 0) ::close(file_);
}

void FileWriter::write(const void* data, size_t bytes) {
    crc_ = updateCrc(crc_, data, bytes);
    const auto* next = static_cast<const char*>(data);
    size_ += bytes;
    while (bytes > 0) {
        const ssize_t written = ::write(file_, next, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) ioError(path_, "write failed");
        next += written;
        bytes -= static_cast<size_t>(written);
    }
}

void FileWriter::overwrite(uint64_t offset, const void* data, size_t bytes) {
    if (::pwrite(file_, data, bytes, static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes))
        ioError(path_, "write failed");
}

void FileWriter::finish() {
    if (::fsync(file_) != 0) ioError(path_, "sync failed");
    const int file = file_;
    file_ = -1;
    if (::close(file) != 0) ioError(path_, "close failed");
}

FileReader::FileReader(const std::string& path) : path_(path) {
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) fail(std::string("cannot be read: ") + std::strerror(errno));
    struct stat status {};
    const bool regular = ::fstat(file_, &status) == 0 && S_ISREG(status.st_mode);
    if (!regular) {
        ::close(file_);
        fail("is not a file");
    }
    size_ = static_cast<uint64_t>(status.st_size);
}

FileReader::~FileReader() {
    if (file_ >= 0) ::close(file_);
}

void FileReader::fail(const std::string& reason) const {
    throw Error(ErrorCode::InvalidFile, path_ + ": " + reason);
}

void FileReader::read(uint64_t offset, void* data, size_t bytes) const {
    if (offset > size_ || bytes > size_ - offset)
        fail("is cut off: " + std::to_string(size_) + " bytes, at least " + std::to_string(offset + bytes) +
             " expected");
    auto* next = static_cast<char*>(data);
    while (bytes > 0) {
        const ssize_t got = ::pread(file_, next, bytes, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) fail(got < 0 ? std::string("read failed: ") + std::strerror(errno) : "is cut off");
        next += got;
        offset += static_cast<uint64_t>(got);
        bytes -= static_cast<size_t>(got);
    }
}

uint32_t FileReader::crc(uint64_t offset, uint64_t bytes) const {
    std::vector<char> block(std::min<uint64_t>(bytes, kBlock));
    uint32_t crc = 0;
    while (bytes > 0) {
        const size_t part = static_cast<size_t>(std::min<uint64_t>(bytes, kBlock));
        read(offset, block.data(), part);
        crc = updateCrc(crc, block.data(), part);
        offset += part;
        bytes -= part;
    }
    return crc;
}

void syncDirectory(const std::string& directory) {
    const int file = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) ioError(directory, "cannot be opened");
    const bool synced = ::fsync(file) == 0;
    ::close(file);
    if (!synced) ioError(directory, "sync failed");
}

}  // namespace mantissa::engine
