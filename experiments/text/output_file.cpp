#include "experiments/text/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "kernels/error.h"

namespace mantissa::experiments {

namespace fs = std::filesystem;

namespace {

constexpr int kMostLinks = 40;  // as Linux follows

/// 0, or the errno of what went wrong.
int writeInto(const std::string& path, int flags, const std::string& text) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0644);
    if (file < 0) return errno;
    int cause = 0;
    for (size_t done = 0; cause == 0 && done < text.size();) {
        const ssize_t count = ::write(file, text.data() + done, text.size() - done);
        if (count > 0)
            done += static_cast<size_t>(count);
        else if (count == 0 || errno != EINTR)
            cause = count == 0 ? EIO : errno;
    }
    // Devices and pipes have nothing to sync (EINVAL, ENOTSUP).
    if (cause == 0 && ::fsync(file) != 0 && errno != EINVAL && errno != ENOTSUP) cause = errno;
    if (::close(file) != 0 && cause == 0) cause = errno;
    return cause;
}

int replaceFile(const std::string& target, const std::string& text) {
    const std::string temporary = fmt::format("{}.{}.tmp", target, ::getpid());
    int cause = writeInto(temporary, O_CREAT | O_TRUNC, text);
    if (cause == 0 && ::rename(temporary.c_str(), target.c_str()) != 0) cause = errno;
    if (cause != 0) ::unlink(temporary.c_str());
    return cause;
}

}  // namespace

std::string followLinks(const std::string& path) {
    fs::path at = path;
    std::error_code code;
    for (int links = 0; fs::is_symlink(fs::symlink_status(at, code)); ++links) {
        if (links == kMostLinks)
            throw Error(ErrorCode::Io, fmt::format("{} cannot be written: {}", path, std::strerror(ELOOP)));
        const fs::path next = fs::read_symlink(at, code);
        if (code) break;
        at = at.parent_path() / next;  // an absolute one takes the place of all before it
    }
    return at.string();
}

namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& target, int cause) {
    const std::string named = target == path ? path : fmt::format("{} -> {}", path, target);
    throw Error(ErrorCode::Io, fmt::format("{} cannot be written: {}", named, std::strerror(cause)));
}

}  // namespace

void checkOutput(const std::string& path) {
    const std::string target = followLinks(path);
    std::error_code code;
    const fs::file_status status = fs::status(target, code);
    if (fs::is_directory(status)) refuse(path, target, EISDIR);
    const bool special = fs::exists(status) && !fs::is_regular_file(status);
    const std::string folder = fs::path(target).parent_path().string();
    const std::string& place = special ? target : folder;
    if (::access(place.empty() ? "." : place.c_str(), special ? W_OK : W_OK | X_OK) != 0) refuse(path, target, errno);
}

void writeFile(const std::string& path, const std::string& text) {
    const std::string target = followLinks(path);
    std::error_code code;
    const fs::file_status status = fs::status(target, code);
    int cause = 0;
    if (fs::is_directory(status))
        cause = EISDIR;
    else if (fs::exists(status) && !fs::is_regular_file(status))
        cause = writeInto(target, 0, text);
    else
        cause = replaceFile(target, text);
    if (cause != 0) refuse(path, target, cause);
}

}  // namespace mantissa::experiments
