#include "engine/checkpoint/state_file.h"

#include <zlib.h>

#include <cstring>

#include "kernels/error.h"

namespace mantissa::engine {

namespace {

constexpr char kMagic[8] = {'M', 'N', 'T', 'S', 'T', 'A', 'T', 'E'};
constexpr size_t kHeaderBytes = 16, kRowBytes = 40, kNameBytes = 16;
constexpr uint32_t kMostSections = 64;

uint32_t crcOf(const std::vector<char>& bytes, size_t count) {
    return static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(count)));
}

template <class T>
void put(std::vector<char>& bytes, size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof(value));
}

template <class T>
T get(const std::vector<char>& bytes, size_t at) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    return value;
}

size_t tableBytes(size_t sections) {
    return kHeaderBytes + sections * kRowBytes + 8;
}

}  // namespace

StateWriter::StateWriter(const std::string& path, int sections)
    : file_(path), announced_(static_cast<size_t>(sections)) {
    const std::vector<char> room(tableBytes(announced_), 0);
    file_.write(room.data(), room.size());
}

void StateWriter::close() {
    if (sections_.empty()) return;
    sections_.back().bytes = file_.size() - sections_.back().offset;
    sections_.back().crc = file_.crc();
}

void StateWriter::begin(const std::string& name) {
    close();
    file_.resetCrc();
    sections_.push_back({name, file_.size(), 0, 0});
}

void StateWriter::finish() {
    close();
    if (sections_.size() != announced_) throw Error(ErrorCode::ShapeMismatch, "state file: a section is missing");
    std::vector<char> table(tableBytes(announced_), 0);
    std::memcpy(table.data(), kMagic, sizeof(kMagic));
    put(table, 8, kStateVersion);
    put(table, 12, static_cast<uint32_t>(announced_));
    for (size_t i = 0; i < announced_; ++i) {
        const size_t at = kHeaderBytes + i * kRowBytes;
        std::memcpy(table.data() + at, sections_[i].name.data(), sections_[i].name.size());
        put(table, at + 16, sections_[i].offset);
        put(table, at + 24, sections_[i].bytes);
        put(table, at + 32, sections_[i].crc);
    }
    put(table, table.size() - 8, crcOf(table, table.size() - 8));
    file_.overwrite(0, table.data(), table.size());
    file_.finish();
}

StateReader::StateReader(const std::string& path) : file_(path) {
    std::vector<char> header(kHeaderBytes);
    if (file_.size() < kHeaderBytes) file_.fail("is not a state file of Mantissa");
    file_.read(0, header.data(), header.size());
    if (std::memcmp(header.data(), kMagic, sizeof(kMagic)) != 0) file_.fail("is not a state file of Mantissa");
    const auto version = get<uint32_t>(header, 8), count = get<uint32_t>(header, 12);
    if (version != kStateVersion)
        file_.fail("has version " + std::to_string(version) + "; this program reads version " +
                   std::to_string(kStateVersion));
    if (count > kMostSections) file_.fail("is damaged: its table of sections");
    std::vector<char> table(tableBytes(count));
    file_.read(0, table.data(), table.size());
    if (get<uint32_t>(table, table.size() - 8) != crcOf(table, table.size() - 8))
        file_.fail("is damaged: its table of sections");
    for (size_t i = 0; i < count; ++i) {
        const size_t at = kHeaderBytes + i * kRowBytes;
        StateSection section;
        section.name.assign(table.data() + at, strnlen(table.data() + at, kNameBytes));
        section.offset = get<uint64_t>(table, at + 16);
        section.bytes = get<uint64_t>(table, at + 24);
        section.crc = get<uint32_t>(table, at + 32);
        if (section.offset > file_.size() || section.bytes > file_.size() - section.offset)
            file_.fail("is cut off in section " + section.name);
        if (file_.crc(section.offset, section.bytes) != section.crc)
            file_.fail("is damaged in section " + section.name);
        sections_.push_back(section);
    }
}

const StateSection* StateReader::find(const std::string& name) const {
    for (const StateSection& section : sections_)
        if (section.name == name) return &section;
    return nullptr;
}

std::vector<char> StateReader::read(const std::string& name, uint64_t expectedBytes) const {
    const StateSection* section = find(name);
    if (!section) file_.fail("has no section " + name);
    if (expectedBytes != 0 && section->bytes != expectedBytes)
        file_.fail("section " + name + " has " + std::to_string(section->bytes) + " bytes, " +
                   std::to_string(expectedBytes) + " expected");
    std::vector<char> bytes(section->bytes);
    if (!bytes.empty()) file_.read(section->offset, bytes.data(), bytes.size());
    return bytes;
}

}  // namespace mantissa::engine
