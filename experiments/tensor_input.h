// Values for the tensor bench from text, CSV and safetensors files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mantissa::experiments {

struct TensorValues {
    std::vector<float> values;
    int64_t rows = 1, cols = 0;
};

/// Numbers separated by commas or line ends (spaces around them are ignored, empty lines skipped); nan, inf, -inf
/// allowed. Lines of equal length above 1 become rows, everything else is one row. `where` names the source in the
/// error. Throws InvalidConfig: 'WHERE: value 3 "x" is not a number; allowed: ...'.
TensorValues parseTensorValues(const std::string& text, const std::string& where);

/// Codes in hexadecimal, separated by commas or white space. Throws InvalidConfig naming the code.
std::vector<uint32_t> parseTensorCodes(const std::string& text, const std::string& format);

/// FILE.csv (or any text), or FILE.safetensors[:NAME] of type F32, F16, BF16; the last dimension is the row. Without a
/// name the file must hold one tensor. Throws InvalidFile or InvalidConfig naming the file and, for a wrong name, those
/// there are.
TensorValues readTensorFile(const std::string& path);

/// `count` values of the normal distribution N(0, 1) in one row: the same ones for the same seed on every machine, up
/// to the last bit of its log and cos.
TensorValues normalValues(int64_t count, uint64_t seed);

}  // namespace mantissa::experiments
