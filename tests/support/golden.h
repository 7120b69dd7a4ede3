// Reading of the recorded values in tests/data.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace mantissa::test {

/// Whole file below tests/data; throws when it is missing, so that a test can't pass on an empty table.
inline std::vector<uint8_t> goldenBytes(const std::string& name) {
    std::ifstream file(std::string(MANTISSA_TEST_DATA) + "/" + name, std::ios::binary);
    if (!file) throw std::runtime_error("tests/data/" + name + " is missing");
    std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (bytes.empty()) throw std::runtime_error("tests/data/" + name + " is empty");
    return bytes;
}

template <class T>
std::vector<T> goldenArray(const std::string& name) {
    const std::vector<uint8_t> bytes = goldenBytes(name);
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
}

inline uint32_t hexBits(const std::string& hex) {
    return static_cast<uint32_t>(std::stoul(hex, nullptr, 16));
}

inline std::vector<uint8_t> hexBytes(const std::string& hex) {
    std::vector<uint8_t> bytes(hex.size() / 2);
    for (size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
    return bytes;
}

}  // namespace mantissa::test
