#include "engine/data/corpus_files.h"

#include <fmt/format.h>
#include <glob.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "kernels/device/device_info.h"
#include "kernels/error.h"

namespace mantissa::engine {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> globFiles(const std::string& pattern) {
    glob_t found = {};
    std::vector<std::string> files;
    if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
        std::error_code error;
        for (size_t i = 0; i < found.gl_pathc; ++i)
            if (fs::is_regular_file(found.gl_pathv[i], error)) files.emplace_back(found.gl_pathv[i]);
    }
    ::globfree(&found);
    return files;
}

std::string mebibytes(uint64_t bytes) {
    return bytes >= uint64_t{10} << 30 ? fmt::format("{} GiB", bytes >> 30)
                                       : fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

/// Ends with a sentence when `size` bytes are too many, for this program or for the memory that is free.
void checkSize(const std::string& path, uint64_t size, uint64_t memory, const char* what) {
    if (size > kMaxCorpusBytes) refuseData(path, std::string(what) + " more than 8 GiB; allowed: 8 GiB of text");
    if (size > memory)
        refuseData(path, fmt::format("{} more than the {} of memory that a text may take here; allowed: less", what,
                                     mebibytes(memory)));
}

std::vector<std::string> folderFiles(const std::string& folder) {
    if (::access(folder.c_str(), R_OK | X_OK) != 0)
        refuseData(folder, std::string("the folder cannot be opened: ") + std::strerror(errno));
    std::vector<std::string> files;
    uint64_t size = 0;
    const uint64_t memory = corpusMemory();
    std::error_code error;
    fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end;
    for (; !error && it != end; it.increment(error)) {
        const bool hidden = it->path().filename().string().starts_with(".");
        std::error_code ignored;
        if (hidden && it->is_directory(ignored)) it.disable_recursion_pending();
        if (hidden || !it->is_regular_file(ignored)) continue;
        files.push_back(it->path().string());
        if (const uintmax_t one = it->file_size(ignored); !ignored) size += one;
        checkSize(folder, size, memory, "the folder holds");
        if (files.size() > kMaxCorpusFiles)
            refuseData(folder, fmt::format("the folder holds more than {} files; allowed: {}", kMaxCorpusFiles,
                                           kMaxCorpusFiles));
    }
    if (error) refuseData(folder, "the folder cannot be read: " + error.message());
    return files;
}

/// The same for `size` bytes unpacked from `packed` ones.
void checkUnpacked(const std::string& path, uint64_t size, uint64_t packed, uint64_t memory) {
    checkSize(path, size, memory, "unpacks to");
    if (size > kAlwaysUnpacked && size / kMostUnpacked > packed)
        refuseData(path, fmt::format("its {} unpack to more than {}, over {} to 1, which is no text; allowed: gzip of "
                                     "at most {} to 1",
                                     mebibytes(packed), mebibytes(std::max(packed * kMostUnpacked, kAlwaysUnpacked)),
                                     kMostUnpacked, kMostUnpacked));
}

std::vector<uint8_t> gunzip(const std::string& path, const std::vector<uint8_t>& packed, uint64_t memory) {
    z_stream stream = {};
    if (inflateInit2(&stream, 15 + 16) != Z_OK) refuseData(path, "gzip could not be started");
    const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);
    std::vector<uint8_t> text;
    std::vector<uint8_t> block(1 << 16);
    size_t taken = 0;
    int state = Z_OK;
    while (taken < packed.size()) {
        stream.next_in = const_cast<uint8_t*>(packed.data() + taken);
        stream.avail_in = static_cast<uInt>(std::min<size_t>(packed.size() - taken, 1u << 30));
        stream.next_out = block.data();
        stream.avail_out = static_cast<uInt>(block.size());
        const uInt before = stream.avail_in;
        state = inflate(&stream, Z_NO_FLUSH);
        taken += before - stream.avail_in;
        text.insert(text.end(), block.data(), block.data() + (block.size() - stream.avail_out));
        checkUnpacked(path, text.size(), packed.size(), memory);
        if (state == Z_STREAM_END) {
            // Another member may follow; anything else behind the last one is padding.
            if (taken + 2 > packed.size() || packed[taken] != 0x1F || packed[taken + 1] != 0x8B) return text;
            inflateReset(&stream);
        } else if (state != Z_OK && state != Z_BUF_ERROR) {
            refuseData(path, fmt::format("the gzip data is damaged: {}", stream.msg ? stream.msg : "unknown error"));
        } else if (before == stream.avail_in && stream.avail_out == block.size()) {
            break;
        }
    }
    refuseData(path, "the gzip data ends too early: the file is torn");
}

fs::path dataFolder() {
    if (const char* folder = std::getenv("XDG_DATA_HOME"); folder && *folder) return fs::path(folder) / "mantissa";
    if (const char* home = std::getenv("HOME"); home && *home) return fs::path(home) / ".local/share/mantissa";
    return {};
}

/// What Debian's `bible` prints for the whole text; empty when it fails.
std::string runBible() {
    std::FILE* pipe = ::popen("/usr/bin/bible gen1:1-rev22:21 2>/dev/null </dev/null", "r");
    if (!pipe) return {};
    std::string text;
    char block[1 << 16];
    for (size_t n; (n = std::fread(block, 1, sizeof block, pipe)) > 0;) text.append(block, n);
    return ::pclose(pipe) == 0 ? text : std::string();
}

/// Writes under a temporary name, then renames. False when the operating system refuses.
bool writeAtomically(const fs::path& target, const std::string& text) {
    const fs::path part = target.string() + fmt::format(".{}.part", ::getpid());
    std::error_code error;
    fs::create_directories(target.parent_path(), error);
    std::FILE* out = std::fopen(part.c_str(), "wb");
    if (!out) return false;
    bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
    written = std::fflush(out) == 0 && ::fsync(::fileno(out)) == 0 && written;
    written = std::fclose(out) == 0 && written;
    if (written) fs::rename(part, target, error);
    if (written && !error) return true;
    fs::remove(part, error);
    return false;
}

}  // namespace

void refuseData(const std::string& where, const std::string& why) {
    throw Error(ErrorCode::InvalidFile, "data.path: " + where + ": " + why);
}

std::vector<std::string> corpusFiles(const std::string& path) {
    if (path.empty()) refuseData("\"\"", "is empty; allowed: text:kjv, text:generated, a file, a folder, a glob");
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    std::vector<std::string> files;
    if (fs::is_regular_file(status)) return {path};
    if (fs::is_directory(status)) {
        files = folderFiles(path);
        if (files.empty()) refuseData(path, "the folder holds no files");
    } else if (fs::exists(status)) {
        refuseData(path, "is not a regular file or folder");
    } else {
        files = globFiles(path);
        if (files.empty()) refuseData(path, "no such file or folder");
    }
    std::sort(files.begin(), files.end());
    return files;
}

uint64_t corpusMemory() {
    const kernels::DeviceInfo machine = kernels::probeCpu();
    if (machine.memoryTotal == 0) return kMaxCorpusBytes;  // not known
    return std::max(machine.memoryFree, machine.memoryTotal / 2);
}

std::vector<uint8_t> readCorpusFile(const std::string& path, uint64_t memory) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
    if (!file) refuseData(path, std::string("cannot be opened: ") + std::strerror(errno));
    std::error_code error;
    const uintmax_t size = fs::file_size(path, error);
    if (!error) checkSize(path, size, memory, "holds");
    std::vector<uint8_t> bytes;
    if (!error) bytes.reserve(size);
    uint8_t block[1 << 16];
    for (size_t n; (n = std::fread(block, 1, sizeof block, file.get())) > 0;) {
        bytes.insert(bytes.end(), block, block + n);
        checkSize(path, bytes.size(), memory, "holds");
    }
    if (std::ferror(file.get())) refuseData(path, std::string("cannot be read: ") + std::strerror(errno));
    if (bytes.size() >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B) return gunzip(path, bytes, memory);
    return bytes;
}

std::string kjvFile() {
    const fs::path folder = dataFolder();
    const fs::path own = folder.empty() ? fs::path() : folder / "text/kjv.txt";
    std::error_code error;
    for (const fs::path& candidate : {own, fs::path("/usr/share/mantissa/kjv.txt")})
        if (!candidate.empty() && fs::is_regular_file(candidate, error) && fs::file_size(candidate, error) > 0)
            return candidate.string();
    if (!own.empty() && fs::exists("/usr/bin/bible", error)) {
        const std::string text = runBible();
        if (text.size() < 1000000) refuseData("text:kjv", "\"/usr/bin/bible gen1:1-rev22:21\" did not print the text");
        if (!writeAtomically(own, text)) refuseData("text:kjv", own.string() + " cannot be written");
        return own.string();
    }
    refuseData("text:kjv",
               fmt::format("the text is not installed: {} is missing, and so is the program /usr/bin/bible (Debian "
                           "package bible-kjv) that makes it",
                           own.empty() ? std::string("/usr/share/mantissa/kjv.txt") : own.string()));
}

}  // namespace mantissa::engine
