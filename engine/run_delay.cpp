#include "engine/run_delay.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace mantissa::engine {

RunDelay::RunDelay() : file_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}

RunDelay::~RunDelay() {
    if (file_ >= 0) close(file_);
}

double RunDelay::seconds() const {
    char text[96];
    const ssize_t length = file_ < 0 ? -1 : pread(file_, text, sizeof text - 1, 0);
    if (length <= 0) return 0;
    text[length] = 0;
    unsigned long long running = 0, waiting = 0;
    return std::sscanf(text, "%llu %llu", &running, &waiting) == 2 ? 1e-9 * static_cast<double>(waiting) : 0;
}

}  // namespace mantissa::engine
