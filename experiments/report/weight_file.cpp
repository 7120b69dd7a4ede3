#include "experiments/report/weight_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "experiments/format_codec.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace {

constexpr int kFirstExponent = -150, kBins = 280;  // as the engine's histograms
constexpr uint64_t kChunk = 1u << 16;              // elements between two looks at the file's length
constexpr uint64_t kKeptBytes = 64u << 20;         // read and still mapped in

double half(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31) return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
    return sign * (exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24));
}

/// Decodes `count` elements that begin at `from`, which need not be aligned.
template <typename Stored, typename Convert>
void decode(const uint8_t* from, size_t count, double* out, Convert convert) {
    for (size_t i = 0; i < count; ++i) {
        Stored stored;
        std::memcpy(&stored, from + i * sizeof(Stored), sizeof(Stored));
        out[i] = convert(stored);
    }
}

/// 256 values of an FP8 type, decoded once.
const std::vector<double>& fp8Table(bool e5m2) {
    static const auto make = [](const char* format) {
        std::vector<uint32_t> codes(256);
        for (uint32_t i = 0; i < 256; ++i) codes[i] = i;
        std::vector<double> values;
        for (const DecodedCode& code : decodeTensorCodes(codes, format, 1.0f)) values.push_back(code.value);
        return values;
    };
    static const std::vector<double> e4m3 = make("e4m3"), e5m2Table = make("e5m2");
    return e5m2 ? e5m2Table : e4m3;
}

size_t elementSize(const std::string& type) {
    if (type == "F64" || type == "I64" || type == "U64") return 8;
    if (type == "F32" || type == "I32" || type == "U32") return 4;
    if (type == "F16" || type == "BF16" || type == "I16" || type == "U16") return 2;
    return 1;
}

void decodeType(const std::string& type, const uint8_t* from, size_t count, double* out) {
    const auto plain = [](auto value) { return static_cast<double>(value); };
    if (type == "F32") return decode<float>(from, count, out, plain);
    if (type == "F64") return decode<double>(from, count, out, plain);
    if (type == "F16") return decode<uint16_t>(from, count, out, half);
    if (type == "BF16")
        return decode<uint16_t>(from, count, out, [](uint16_t bits) {
            return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
        });
    if (type == "F8_E4M3" || type == "F8_E5M2") {
        const std::vector<double>& table = fp8Table(type == "F8_E5M2");
        return decode<uint8_t>(from, count, out, [&](uint8_t code) { return table[code]; });
    }
    if (type == "F8_E8M0")
        return decode<uint8_t>(from, count, out, [](uint8_t code) {
            return code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
        });
    if (type == "I64") return decode<int64_t>(from, count, out, plain);
    if (type == "U64") return decode<uint64_t>(from, count, out, plain);
    if (type == "I32") return decode<int32_t>(from, count, out, plain);
    if (type == "U32") return decode<uint32_t>(from, count, out, plain);
    if (type == "I16") return decode<int16_t>(from, count, out, plain);
    if (type == "U16") return decode<uint16_t>(from, count, out, plain);
    if (type == "I8") return decode<int8_t>(from, count, out, plain);
    return decode<uint8_t>(from, count, out, plain);  // U8, BOOL
}

/// Sums of one pass.
struct Sums {
    WeightStatistics s;
    std::vector<uint64_t> bins = std::vector<uint64_t>(kBins);
    double one = 0, two = 0, four = 0;

    void add(const double* values, size_t count) {
        for (size_t i = 0; i < count; ++i) {
            const double x = values[i];
            const auto bits = std::bit_cast<uint64_t>(x);
            const int exponent = static_cast<int>(bits >> 52 & 2047) - 1023;
            if (exponent == 1024) {
                ++((bits & 0xFFFFFFFFFFFFFull) ? s.nan : s.inf);
                continue;
            }
            const double square = x * x;
            one += x;
            two += square;
            four += square * square;
            if (x == 0) {
                ++s.zeros;
            } else {
                ++bins[static_cast<size_t>(std::clamp(exponent - kFirstExponent, 0, kBins - 1))];
                const double magnitude = std::fabs(x);
                s.amax = std::max(s.amax, magnitude);
                if (s.minNonZero == 0 || magnitude < s.minNonZero) s.minNonZero = magnitude;
            }
            if (!(x >= s.least)) s.least = x;
            if (!(x <= s.greatest)) s.greatest = x;
        }
        s.elements += count;
    }

    WeightStatistics result() {
        const double finite = static_cast<double>(s.elements - s.nan - s.inf);
        if (finite > 0) {
            s.mean = one / finite;
            s.deviation = std::sqrt(std::max(0.0, two / finite - s.mean * s.mean));
            if (two > 0) s.kurtosis = finite * four / (two * two);
        }
        s.exponents.firstExponent = kFirstExponent;
        for (const uint64_t count : bins)
            s.exponents.counts.push_back(
                static_cast<uint32_t>(std::min<uint64_t>(count, std::numeric_limits<uint32_t>::max())));
        return s;
    }
};

}  // namespace

struct WeightFile::Impl {
    std::string path;
    engine::SafetensorsIndex index;
    int file = -1;
    uint64_t size = 0;
    const uint8_t* bytes = nullptr;

    ~Impl() {
        if (bytes) munmap(const_cast<uint8_t*>(bytes), size);
        if (file >= 0) close(file);
    }
    [[noreturn]] void fail(const std::string& why) const { throw Error(ErrorCode::InvalidFile, path + ": " + why); }
    /// What has been read once does not stay in this program's memory; the system may keep it.
    void leave(uint64_t from, uint64_t to) const {
        const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
        from = from / page * page, to = to / page * page;
        if (to > from) madvise(const_cast<uint8_t*>(bytes) + from, to - from, MADV_DONTNEED);
    }
    /// A page beyond the end of a file that was cut short would end the program.
    void checkLength() const {
        struct stat now {};
        if (fstat(file, &now) != 0 || static_cast<uint64_t>(now.st_size) < size)
            fail("was cut short while it was open");
    }
};

WeightFile::WeightFile(const std::string& path) : impl_(std::make_unique<Impl>()) {
    impl_->path = path;
    {
        const engine::FileReader reader(path);
        impl_->index = engine::readSafetensorsIndex(reader);
        impl_->size = reader.size();
    }
    impl_->file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (impl_->file < 0) impl_->fail(std::strerror(errno));
    impl_->checkLength();
    void* mapped = mmap(nullptr, impl_->size, PROT_READ, MAP_SHARED, impl_->file, 0);
    if (mapped == MAP_FAILED) impl_->fail(std::string("cannot be mapped: ") + std::strerror(errno));
    impl_->bytes = static_cast<const uint8_t*>(mapped);
}

WeightFile::~WeightFile() = default;

const std::string& WeightFile::path() const {
    return impl_->path;
}
uint64_t WeightFile::bytes() const {
    return impl_->size;
}
const std::vector<engine::SafetensorsEntry>& WeightFile::entries() const {
    return impl_->index.entries;
}
const std::map<std::string, std::string>& WeightFile::metadata() const {
    return impl_->index.metadata;
}

WeightStatistics WeightFile::statistics(size_t index, const std::function<bool(double)>& goOn) const {
    const engine::SafetensorsEntry& entry = impl_->index.entries.at(index);
    const auto count = static_cast<uint64_t>(entry.count());
    const size_t size = elementSize(entry.dtype);
    std::vector<double> values(std::min<uint64_t>(kChunk, count));
    Sums sums;
    uint64_t left = entry.offset;  // bytes before it have been left
    for (uint64_t at = 0; at < count; at += kChunk) {
        const size_t n = static_cast<size_t>(std::min<uint64_t>(kChunk, count - at));
        impl_->checkLength();
        decodeType(entry.dtype, impl_->bytes + entry.offset + at * size, n, values.data());
        sums.add(values.data(), n);
        if (const uint64_t end = entry.offset + (at + n) * size; end - left >= kKeptBytes || at + n == count)
            impl_->leave(std::exchange(left, end), end);
        if (goOn && at / kChunk % 32 == 31 && !goOn(static_cast<double>(at + n) / static_cast<double>(count)))
            return {};
    }
    return sums.result();
}

WeightSample WeightFile::sample(size_t index, int64_t limit) const {
    const engine::SafetensorsEntry& entry = impl_->index.entries.at(index);
    const int64_t count = entry.count();
    WeightSample sample;
    sample.cols = entry.shape.empty() ? count : std::max<int64_t>(1, entry.shape.back());
    const int64_t rows = count / std::max<int64_t>(1, sample.cols);
    const int64_t wanted = std::max<int64_t>(1, std::min(rows, limit / sample.cols));
    sample.whole = wanted == rows && count <= limit;
    const int64_t band = std::min<int64_t>(128, wanted), bands = std::max<int64_t>(1, wanted / band);
    const int64_t cut = std::min(sample.cols, limit);  // a row longer than the limit is cut
    const size_t size = elementSize(entry.dtype);
    std::vector<double> line(static_cast<size_t>(cut));
    impl_->checkLength();
    const auto take = [&](int64_t row) {
        decodeType(entry.dtype, impl_->bytes + entry.offset + static_cast<uint64_t>(row * sample.cols) * size,
                   static_cast<size_t>(cut), line.data());
        for (const double value : line) sample.values.push_back(static_cast<float>(value));
    };
    if (count == 0) return sample;
    if (sample.whole) {
        for (int64_t row = 0; row < rows; ++row) take(row);
        sample.rows = rows;
    } else {
        for (int64_t b = 0; b < bands; ++b)
            for (int64_t row = 0; row < band; ++row) take((rows - band) * b / std::max<int64_t>(1, bands - 1) + row);
        sample.rows = bands * band;
    }
    sample.cols = cut;
    return sample;
}

std::vector<WeightWhatIf> weightWhatIf(const WeightSample& sample) {
    if (sample.values.empty()) return {};
    TensorRequest request;
    request.values = sample.values;
    request.rows = sample.rows;
    request.cols = sample.cols;
    std::vector<WeightWhatIf> rows;
    for (const TensorResult& result : tensorWhatIf(request)) {
        const TensorRequest& as = result.request;
        // A delayed scale needs a history, which a file does not have: that row would only repeat "fixed".
        if (as.recipe == "delayed") continue;
        std::string format = as.format;
        for (char& c : format) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
        const std::string recipe = as.recipe == "fixed"          ? "fixed at 1"
                                   : as.recipe == "block1x128"   ? "blocks 1 × 128"
                                   : as.recipe == "block128x128" ? "blocks 128 × 128"
                                   : as.recipe == "mxfp8"        ? "MXFP8"
                                   : as.recipe == "nvfp4"        ? "NVFP4"
                                   : as.powerOfTwo               ? "current, 2ⁿ"
                                                                 : "current";
        const auto n = static_cast<double>(std::max<uint64_t>(1, result.counters.elements));
        rows.push_back({recipe + ", " + format, static_cast<double>(result.counters.underflow) / n,
                        static_cast<double>(result.counters.clipped) / n, result.sqnrDb});
    }
    return rows;
}

}  // namespace mantissa::experiments
