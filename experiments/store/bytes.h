// Little-endian byte strings with variable-length integers; readers check every length, since a file may be damaged.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace mantissa::experiments {

class ByteWriter {
  public:
    void u8(uint8_t value) { bytes_.push_back(value); }
    /// LEB128: seven bits a byte, lowest first.
    void varint(uint64_t value) {
        while (value >= 0x80) bytes_.push_back(static_cast<uint8_t>(value | 0x80)), value >>= 7;
        bytes_.push_back(static_cast<uint8_t>(value));
    }
    void zigzag(int64_t value) { varint((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63)); }
    void text(const std::string& value) {
        varint(value.size());
        raw(value.data(), value.size());
    }
    void f32(float value) { raw(&value, sizeof value); }
    void f64(double value) { raw(&value, sizeof value); }
    std::vector<uint8_t> take() { return std::move(bytes_); }
    size_t size() const { return bytes_.size(); }

  private:
    void raw(const void* data, size_t size) {
        const auto* begin = static_cast<const uint8_t*>(data);
        bytes_.insert(bytes_.end(), begin, begin + size);
    }
    std::vector<uint8_t> bytes_;
};

/// After a read past the end, ok() is false for good and all further values are 0.
class ByteReader {
  public:
    ByteReader(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
    uint8_t u8() { return need(1) ? *at_++ : 0; }
    uint64_t varint() {
        uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            const uint8_t byte = u8();
            value |= static_cast<uint64_t>(byte & 0x7F) << shift;
            if ((byte & 0x80) == 0) return value;
        }
        ok_ = false;
        return 0;
    }
    int64_t zigzag() {
        const uint64_t value = varint();
        return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
    }
    std::string text() {
        const uint64_t size = varint();
        if (size > left()) ok_ = false;
        if (!ok_) return {};
        std::string value(reinterpret_cast<const char*>(at_), size);
        at_ += size;
        return value;
    }
    float f32() { return raw<float>(); }
    double f64() { return raw<double>(); }
    bool ok() const { return ok_; }
    size_t left() const { return static_cast<size_t>(end_ - at_); }

  private:
    bool need(size_t size) {
        if (left() < size) ok_ = false;
        return ok_;
    }
    template <typename Value>
    Value raw() {
        Value value{};
        if (need(sizeof value)) std::memcpy(&value, at_, sizeof value), at_ += sizeof value;
        return value;
    }
    const uint8_t* at_;
    const uint8_t* end_;
    bool ok_ = true;
};

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the store is little-endian");

}  // namespace mantissa::experiments
