#include "engine/checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_set>

#include "kernels/error.h"

namespace mantissa::engine {

namespace {

constexpr uint64_t kLargestHeader = 100'000'000;  // the format's own limit
constexpr int64_t kLargestCount = int64_t{1} << 48;

/// Bytes of an element; 0: a type the format does not have.
int64_t elementBytes(const std::string& dtype) {
    static const std::map<std::string, int64_t> kBytes = {
        {"F64", 8}, {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4},  {"U32", 4},     {"F16", 2},     {"BF16", 2},
        {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
    const auto found = kBytes.find(dtype);
    return found == kBytes.end() ? 0 : found->second;
}

float halfToFloat(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, exponent = bits >> 10 & 31u,
                   fraction = bits & 1023u;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
    if (exponent > 0) return std::bit_cast<float>(sign | (exponent + 112u) << 23 | fraction << 13);
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -value : value;
}

SafetensorsEntry parseEntry(const FileReader& file, const std::string& name, const nlohmann::json& value,
                            uint64_t dataStart) {
    SafetensorsEntry entry;
    entry.name = name;
    entry.dtype = value.at("dtype").get<std::string>();
    const int64_t size = elementBytes(entry.dtype);
    if (size == 0)
        file.fail("tensor " + name + " has the unknown type " + entry.dtype +
                  "; allowed: F64, F32, F16, BF16, F8_E4M3, F8_E5M2, F8_E8M0, I64, I32, I16, I8, U64, U32, U16, U8, "
                  "BOOL");
    int64_t count = 1;
    for (const nlohmann::json& dimension : value.at("shape")) {
        const auto extent = dimension.get<int64_t>();
        if (extent < 0 || (extent > 0 && count > kLargestCount / extent))
            file.fail("tensor " + name + " has an impossible shape");
        entry.shape.push_back(extent);
        count *= extent;
    }
    const auto begin = value.at("data_offsets").at(0).get<uint64_t>(),
               end = value.at("data_offsets").at(1).get<uint64_t>();
    if (end < begin || end - begin != static_cast<uint64_t>(count * size))
        file.fail("tensor " + name + ": its offsets do not fit its shape");
    if (end > file.size() - dataStart)
        file.fail("is cut off: tensor " + name + " ends at byte " + std::to_string(dataStart + end) + " of " +
                  std::to_string(file.size()));
    entry.offset = dataStart + begin;
    entry.bytes = end - begin;
    return entry;
}

/// Walks over a header and stops at the second entry with one name. (A parse with a callback would do both at once, but
/// looks through all entries before it at the end of each: 56 s for a header of 50,000 tensors.)
class NameCheck final : public nlohmann::json_sax<nlohmann::json> {
  public:
    std::string twice;

    bool key(string_t& name) override {
        if (depth_ != 1 || names_.insert(name).second) return true;
        twice = name;
        return false;
    }
    bool start_object(size_t) override { return ++depth_, true; }
    bool end_object() override { return --depth_, true; }
    bool start_array(size_t) override { return ++depth_, true; }
    bool end_array() override { return --depth_, true; }
    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(number_integer_t) override { return true; }
    bool number_unsigned(number_unsigned_t) override { return true; }
    bool number_float(number_float_t, const string_t&) override { return true; }
    bool string(string_t&) override { return true; }
    bool binary(binary_t&) override { return true; }
    bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

  private:
    int depth_ = 0;
    std::unordered_set<std::string> names_;
};

/// Of two entries with one name a parser keeps one without a word; the format forbids them.
nlohmann::json parseHeader(const FileReader& file, const std::string& text) {
    NameCheck check;
    nlohmann::json::sax_parse(text, &check);
    if (!check.twice.empty()) file.fail("has two tensors with the name " + check.twice);
    return nlohmann::json::parse(text);
}

}  // namespace

int64_t SafetensorsEntry::count() const {
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    return count;
}

const SafetensorsEntry* SafetensorsIndex::find(const std::string& name) const {
    for (const SafetensorsEntry& entry : entries)
        if (entry.name == name) return &entry;
    return nullptr;
}

SafetensorsIndex readSafetensorsIndex(const FileReader& file) {
    uint64_t length = 0;
    file.read(0, &length, sizeof(length));
    if (length < 2 || length > file.size() - sizeof(length)) file.fail("is not a safetensors file");
    if (length > kLargestHeader)
        file.fail("is not a safetensors file, or its header of " + std::to_string(length) +
                  " bytes is too long; allowed: up to " + std::to_string(kLargestHeader));
    std::string text(length, '\0');
    file.read(sizeof(length), text.data(), text.size());
    SafetensorsIndex index;
    try {
        const nlohmann::json header = parseHeader(file, text);
        if (!header.is_object()) file.fail("is not a safetensors file");
        for (const auto& [name, value] : header.items()) {
            if (name == "__metadata__")
                index.metadata = value.get<std::map<std::string, std::string>>();
            else
                index.entries.push_back(parseEntry(file, name, value, sizeof(length) + length));
        }
    } catch (const nlohmann::json::exception&) {
        file.fail("has a damaged safetensors header");
    }
    std::sort(index.entries.begin(), index.entries.end(),
              // A tensor without elements stands before the one that begins where it ends.
              [](const auto& a, const auto& b) { return std::tie(a.offset, a.bytes) < std::tie(b.offset, b.bytes); });
    for (size_t i = 1; i < index.entries.size(); ++i)
        if (index.entries[i].offset < index.entries[i - 1].offset + index.entries[i - 1].bytes)
            file.fail("tensors " + index.entries[i - 1].name + " and " + index.entries[i].name + " overlap");
    return index;
}

std::vector<float> readSafetensorsValues(const FileReader& file, const SafetensorsEntry& entry) {
    std::vector<float> values(static_cast<size_t>(entry.count()));
    if (entry.dtype == "F32") {
        file.read(entry.offset, values.data(), values.size() * sizeof(float));
        return values;
    }
    if (entry.dtype != "BF16" && entry.dtype != "F16")
        file.fail("tensor " + entry.name + " is of type " + entry.dtype + "; allowed: F32, BF16, F16");
    std::vector<uint16_t> bits(values.size());
    file.read(entry.offset, bits.data(), bits.size() * sizeof(uint16_t));
    const bool half = entry.dtype == "F16";
    for (size_t i = 0; i < bits.size(); ++i)
        values[i] = half ? halfToFloat(bits[i]) : std::bit_cast<float>(static_cast<uint32_t>(bits[i]) << 16);
    return values;
}

std::string makeSafetensorsHeader(std::vector<SafetensorsEntry>& entries,
                                  const std::map<std::string, std::string>& metadata) {
    nlohmann::ordered_json header;
    if (!metadata.empty()) header["__metadata__"] = metadata;
    uint64_t offset = 0;
    for (SafetensorsEntry& entry : entries) {
        entry.bytes = static_cast<uint64_t>(entry.count() * elementBytes(entry.dtype));
        header[entry.name] = {
            {"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {offset, offset + entry.bytes}}};
        entry.offset = offset;
        offset += entry.bytes;
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t length = text.size();
    std::string bytes(sizeof(length), '\0');
    std::memcpy(bytes.data(), &length, sizeof(length));
    bytes += text;
    for (SafetensorsEntry& entry : entries) entry.offset += bytes.size();
    return bytes;
}

}  // namespace mantissa::engine
