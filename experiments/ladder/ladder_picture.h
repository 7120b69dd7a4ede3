// The ladder as a picture without a display: bars by phase, memory, what each rung brought; or FP8 over BF16 by width.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/ladder/ladder.h"

namespace mantissa::experiments {

/// What a picture is drawn on. Coordinates in pixels, origin at the top left; colours 0xRRGGBB.
class Canvas {
  public:
    enum class Anchor : uint8_t { Left, Right };
    virtual ~Canvas() = default;
    virtual void rect(double x, double y, double width, double height, uint32_t colour) = 0;
    virtual void line(double x0, double y0, double x1, double y1, uint32_t colour) = 0;
    /// y: of the base line. UTF-8.
    virtual void text(double x, double y, const std::string& text, uint32_t colour, Anchor anchor = Anchor::Left) = 0;
};

constexpr int kPictureWidth = 1100;
int pictureHeight(const LadderResult& ladder);
void drawLadder(const LadderResult& ladder, Canvas& canvas);

std::string ladderSvg(const LadderResult& ladder);
std::string ladderPng(const LadderResult& ladder);

}  // namespace mantissa::experiments
