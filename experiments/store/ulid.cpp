#include "experiments/store/ulid.h"

#include <chrono>
#include <fstream>
#include <random>

namespace mantissa::experiments {

int64_t nowMs() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::string makeUlid() {
    static const char* const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    std::string id(26, '0');
    uint64_t time = static_cast<uint64_t>(nowMs());
    for (int i = 9; i >= 0; --i, time >>= 5) id[static_cast<size_t>(i)] = digits[time & 31];
    std::random_device random;
    for (size_t i = 10; i < 26; ++i) id[i] = digits[random() & 31];
    return id;
}

std::string bootId() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    file >> id;
    return id;
}

}  // namespace mantissa::experiments
