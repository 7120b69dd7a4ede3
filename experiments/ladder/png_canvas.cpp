// The ladder's picture as PNG: rectangles, lines and the glyphs of resources/font, packed with zlib (PNG: ISO/IEC
// 15948).
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <vector>

#include "experiments/ladder/ladder_picture.h"
#include "experiments/spec/resources.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace {

constexpr int kGlyphRows = 17, kGlyphBase = 13, kGlyphLeft = 1;

struct Glyph {
    double advance = 0;
    int width = 0;
    std::string grey;  ///< kGlyphRows * width hex digits
};

std::map<uint32_t, Glyph> readGlyphs() {
    std::map<uint32_t, Glyph> glyphs;
    std::istringstream lines(resourceText("font/glyphs13.txt"));
    for (std::string line; std::getline(lines, line);) {
        if (line.empty() || line[0] == '#') continue;
        std::istringstream fields(line);
        uint32_t code = 0;
        int advance = 0;
        Glyph glyph;
        fields >> code >> advance >> glyph.width >> glyph.grey;
        glyph.advance = advance / 64.0;
        glyphs[code] = std::move(glyph);
    }
    return glyphs;
}

/// Code points of UTF-8; what is no UTF-8 becomes "?".
std::vector<uint32_t> codePoints(const std::string& text) {
    std::vector<uint32_t> codes;
    for (size_t i = 0; i < text.size();) {
        const auto byte = static_cast<uint8_t>(text[i]);
        const size_t more = byte < 0x80 ? 0 : byte >> 5 == 6 ? 1 : byte >> 4 == 14 ? 2 : byte >> 3 == 30 ? 3 : 9;
        if (more == 9 || i + more >= text.size()) {
            codes.push_back('?');
            ++i;
            continue;
        }
        uint32_t code = more == 0 ? byte : byte & (0x3F >> more);
        for (size_t k = 1; k <= more; ++k) code = code << 6 | (static_cast<uint8_t>(text[i + k]) & 0x3F);
        codes.push_back(code);
        i += more + 1;
    }
    return codes;
}

class PngCanvas final : public Canvas {
  public:
    explicit PngCanvas(int height)
        : height_(height), pixels_(static_cast<size_t>(kPictureWidth) * static_cast<size_t>(height) * 3, 0xFF) {}

    void rect(double x, double y, double width, double height, uint32_t colour) override {
        const int top = static_cast<int>(std::lround(y)), bottom = static_cast<int>(std::lround(y + height));
        const double right = x + width;
        for (int row = top; row < std::max(bottom, top + (height > 0 ? 1 : 0)); ++row)
            for (int column = static_cast<int>(std::floor(x)); column < std::ceil(right); ++column)
                blend(column, row, colour, std::min(right, column + 1.0) - std::max(x, double(column)));
    }
    void line(double x0, double y0, double x1, double y1, uint32_t colour) override {
        const double dx = x1 - x0, dy = y1 - y0, length = std::max(1e-9, std::hypot(dx, dy));
        const int left = static_cast<int>(std::min(x0, x1)) - 2, right = static_cast<int>(std::max(x0, x1)) + 2;
        const int top = static_cast<int>(std::min(y0, y1)) - 2, bottom = static_cast<int>(std::max(y0, y1)) + 2;
        for (int row = top; row <= bottom; ++row)
            for (int column = left; column <= right; ++column) {
                const double px = column + 0.5 - x0, py = row + 0.5 - y0;
                const double along = (px * dx + py * dy) / length, across = std::fabs(px * dy - py * dx) / length;
                if (along < 0 || along > length) continue;
                blend(column, row, colour, std::clamp(1.5 - across, 0.0, 1.0));
            }
    }
    void text(double x, double y, const std::string& words, uint32_t colour, Anchor anchor) override {
        static const std::map<uint32_t, Glyph> glyphs = readGlyphs();
        std::vector<const Glyph*> line;
        double width = 0;
        for (const uint32_t code : codePoints(words)) {
            auto found = glyphs.find(code);
            if (found == glyphs.end()) found = glyphs.find('?');
            line.push_back(&found->second);
            width += found->second.advance;
        }
        double at = anchor == Anchor::Right ? x - width : x;
        for (const Glyph* glyph : line) {
            const int left = static_cast<int>(std::lround(at)) - kGlyphLeft;
            const int top = static_cast<int>(std::lround(y)) - kGlyphBase;
            for (int row = 0; row < kGlyphRows; ++row)
                for (int column = 0; column < glyph->width; ++column) {
                    const char digit = glyph->grey[static_cast<size_t>(row * glyph->width + column)];
                    const int grey = digit <= '9' ? digit - '0' : digit - 'a' + 10;
                    if (grey) blend(left + column, top + row, colour, grey / 15.0);
                }
            at += glyph->advance;
        }
    }

    std::string png() const {
        std::string raw;
        raw.reserve(pixels_.size() + static_cast<size_t>(height_));
        const size_t stride = static_cast<size_t>(kPictureWidth) * 3;
        for (int row = 0; row < height_; ++row) {
            raw += '\0';  // filter: none
            raw.append(reinterpret_cast<const char*>(pixels_.data()) + static_cast<size_t>(row) * stride, stride);
        }
        std::string packed(compressBound(raw.size()), '\0');
        uLongf size = packed.size();
        if (compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(raw.data()),
                      raw.size(), 9) != Z_OK)
            throw Error(ErrorCode::Io, "the picture could not be packed");
        packed.resize(size);
        const std::string header = number(kPictureWidth) + number(static_cast<uint32_t>(height_)) +
                                   std::string("\x08\x02\0\0\0", 5);  // 8 bits, RGB
        return std::string("\x89PNG\r\n\x1a\n", 8) + chunk("IHDR", header) + chunk("IDAT", packed) + chunk("IEND", "");
    }

  private:
    void blend(int x, int y, uint32_t colour, double share) {
        if (x < 0 || y < 0 || x >= kPictureWidth || y >= height_ || share <= 0) return;
        uint8_t* pixel = &pixels_[(static_cast<size_t>(y) * kPictureWidth + static_cast<size_t>(x)) * 3];
        for (int i = 0; i < 3; ++i) {
            const int wanted = colour >> (16 - 8 * i) & 0xFF;
            pixel[i] = static_cast<uint8_t>(std::lround(pixel[i] + (wanted - pixel[i]) * std::min(share, 1.0)));
        }
    }
    static std::string number(uint32_t value) {
        std::string bytes;
        for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
        return bytes;
    }
    static std::string chunk(const std::string& type, const std::string& data) {
        const std::string body = type + data;
        const uLong sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
        return number(static_cast<uint32_t>(data.size())) + body + number(static_cast<uint32_t>(sum));
    }

    int height_;
    std::vector<uint8_t> pixels_;
};

}  // namespace

std::string ladderPng(const LadderResult& ladder) {
    PngCanvas canvas(pictureHeight(ladder));
    drawLadder(ladder, canvas);
    return canvas.png();
}

}  // namespace mantissa::experiments
