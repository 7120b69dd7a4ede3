#include "experiments/job/process_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace mantissa::experiments {

namespace {

/// "VmHWM:   1234 kB" in a file of such lines; bytes.
uint64_t field(const char* file, const std::string& name) {
    std::ifstream in(file);
    std::string line;
    while (std::getline(in, line))
        if (line.rfind(name + ":", 0) == 0) {
            uint64_t kib = 0;
            std::istringstream(line.substr(name.size() + 1)) >> kib;
            return kib << 10;
        }
    return 0;
}

uint64_t number(const char* file) {
    std::ifstream in(file);
    uint64_t value = 0;
    return in >> value ? value : std::numeric_limits<uint64_t>::max();
}

}  // namespace

uint64_t residentMemory() {
    std::ifstream in("/proc/self/statm");
    uint64_t total = 0, resident = 0;
    in >> total >> resident;
    return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

uint64_t peakResidentMemory() {
    return field("/proc/self/status", "VmHWM");
}

void resetPeakMemory() {
    std::ofstream("/proc/self/clear_refs") << "5";
}

uint64_t availableMemory() {
    const uint64_t machine = field("/proc/meminfo", "MemAvailable");
    const uint64_t limit = number("/sys/fs/cgroup/memory.max"), used = number("/sys/fs/cgroup/memory.current");
    if (limit == std::numeric_limits<uint64_t>::max() || used == std::numeric_limits<uint64_t>::max()) return machine;
    return std::min(machine, limit > used ? limit - used : 0);
}

uint64_t totalMemory() {
    return std::min(field("/proc/meminfo", "MemTotal"), number("/sys/fs/cgroup/memory.max"));
}

}  // namespace mantissa::experiments
