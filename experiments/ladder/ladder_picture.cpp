#include "experiments/ladder/ladder_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/text/number_text.h"

namespace mantissa::experiments {

namespace {

// The light theme's tokens (gui/theme/tokens.cpp), which this layer cannot include.
constexpr uint32_t kPanel = 0xFFFFFF, kText = 0x191C20, kText2 = 0x464D57, kText3 = 0x5C646F, kLine = 0xDDE1E6,
                   kHover = 0xE8EBEF, kMemory = 0x79808A, kOk = 0x16734A, kBad = 0xBF2A20, kSeries = 0xD46215;
constexpr uint32_t kPhases[kLadderPhases] = {0x3F78C8, 0x1F947E, 0x9560AE, 0xB9832A, 0xA3ABB6};
constexpr double kTop = 84, kRow = 46, kBarLeft = 236, kBarWidth = 330, kMemoryLeft = 812, kMemoryWidth = 110;

std::string threeDigits(double value) {
    const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
    return fmt::format("{:.{}f}", value, decimals);
}

void head(const LadderResult& ladder, Canvas& canvas) {
    const std::string what = ladder.mode == LadderMode::Rungs ? "Ladder" : "FP8 over BF16 by width";
    canvas.text(16, 26,
                fmt::format("{}: {}, {} × {} tokens, {}", what, ladder.preset, ladder.batch, ladder.context,
                            ladder.deviceName.empty() ? ladder.device : ladder.deviceName),
                kText);
    std::string note = fmt::format("{} warm-up and {} timed steps a rung, medians", ladder.warmup, ladder.steps);
    if (ladder.device == "cpu" && !ladder.isa.empty())  // no instruction set: nothing ran
        note += fmt::format("; {}, {} threads, FP8 emulated", ladder.isa, ladder.threads);
    canvas.text(16, 46, note, kText3);
}

/// A sentence in the room of the bars and figures: two lines of whole words, the rest cut off.
void sentence(const std::string& words, double y, uint32_t colour, Canvas& canvas) {
    constexpr size_t kLine = 125;
    size_t cut = words.size() <= kLine ? words.size() : words.rfind(' ', kLine);
    if (cut == std::string::npos) cut = words.size();
    canvas.text(kBarLeft, y + 14, words.substr(0, cut), colour);
    if (cut == words.size()) return;
    std::string rest = words.substr(cut + 1);
    if (rest.size() > kLine) rest = rest.substr(0, rest.rfind(' ', kLine)) + " …";
    canvas.text(kBarLeft, y + 31, rest, colour);
}

void row(const LadderResult& ladder, const RungResult& rung, double y, double slowest, double largest, Canvas& canvas) {
    canvas.text(16, y + 14, rung.title, kText);
    canvas.text(16, y + 31, rung.note, kText3);
    if (rung.state != RungState::Measured) {
        const bool failed = rung.state == RungState::Failed;
        sentence(rung.text.empty() && !failed ? "not run" : rung.text, y, failed ? kBad : kText3, canvas);
        return;
    }
    double x = kBarLeft;
    for (int phase = 0; phase < kLadderPhases; ++phase) {
        const double length = slowest > 0 ? rung.phaseMs[phase] / slowest * kBarWidth : 0;
        canvas.rect(x, y + 3, std::max(0.0, length - 0.5), 14, kPhases[phase]);
        x += length;
    }
    const RungResult* before = ladder.before(rung);
    const bool faster = before && told(ladder, rung) && rung.stepMs < before->stepMs;
    canvas.text(kBarLeft, y + 31, whatItBrought(ladder, rung), faster ? kOk : kText2);
    canvas.text(680, y + 14,
                fmt::format("{} ± {}", threeDigits(rung.stepMs), rung.hasSpread() ? threeDigits(rung.spreadMs) : "–"),
                kText, Canvas::Anchor::Right);
    canvas.text(732, y + 14, before && told(ladder, rung) ? fmt::format("{:.2f}", before->stepMs / rung.stepMs) : "–",
                kText2, Canvas::Anchor::Right);
    canvas.text(800, y + 14, threeDigits(rung.tokensPerSecond / 1000), kText2, Canvas::Anchor::Right);
    canvas.rect(kMemoryLeft, y + 3, kMemoryWidth, 14, kHover);
    if (largest > 0)
        canvas.rect(kMemoryLeft, y + 3, static_cast<double>(rung.planBytes) / largest * kMemoryWidth, 14, kMemory);
    canvas.text(1000, y + 14, bytesText(rung.planBytes), kText, Canvas::Anchor::Right);
    if (rung.millijoulesPerToken)
        canvas.text(1084, y + 14, threeDigits(*rung.millijoulesPerToken), kText2, Canvas::Anchor::Right);
}

void rungs(const LadderResult& ladder, Canvas& canvas) {
    double slowest = 0, largest = 0;
    bool energy = false;
    for (const RungResult& rung : ladder.rungs) {
        if (rung.state != RungState::Measured) continue;
        double sum = 0;
        for (const double phase : rung.phaseMs) sum += phase;
        slowest = std::max(slowest, sum);
        largest = std::max(largest, static_cast<double>(rung.planBytes));
        energy = energy || rung.millijoulesPerToken;
    }
    canvas.text(16, kTop - 12, "Rung", kText2);
    canvas.text(kBarLeft, kTop - 12, "Time of a step, by phase", kText2);
    canvas.text(680, kTop - 12, "ms", kText2, Canvas::Anchor::Right);
    canvas.text(732, kTop - 12, "× before", kText2, Canvas::Anchor::Right);
    canvas.text(800, kTop - 12, "k tokens/s", kText2, Canvas::Anchor::Right);
    canvas.text(kMemoryLeft, kTop - 12, "Peak memory", kText2);
    if (energy) canvas.text(1084, kTop - 12, "mJ/token", kText2, Canvas::Anchor::Right);
    canvas.rect(0, kTop - 4, kPictureWidth, 1, kLine);
    double y = kTop + 6;
    for (const RungResult& rung : ladder.rungs) {
        row(ladder, rung, y, slowest, largest, canvas);
        y += kRow;
    }
    const char* names[kLadderPhases] = {"matmul", "attention", "norm, cast", "optimizer", "gap"};
    double x = kBarLeft;
    for (int phase = 0; phase < kLadderPhases; ++phase) {
        canvas.rect(x, y + 3, 9, 9, kPhases[phase]);
        canvas.text(x + 14, y + 12, names[phase], kText2);
        x += 86;
    }
}

void widths(const LadderResult& ladder, Canvas& canvas) {
    const Crossover cross = crossover(ladder);
    canvas.text(kPictureWidth - 16, 26, cross.text, kText, Canvas::Anchor::Right);
    if (cross.points.empty()) return;
    double low = 1, high = 1;
    for (const auto& point : cross.points) low = std::min(low, point.ratio()), high = std::max(high, point.ratio());
    const double room = std::max(0.05, (high - low) * 0.1);
    low -= room, high += room;
    const double left = 60, right = kPictureWidth - 30, top = 70, bottom = 330;
    const double first = std::log2(cross.points.front().width), last = std::log2(cross.points.back().width);
    const auto xOf = [&](double width) {
        return last > first ? left + 20 + (std::log2(width) - first) / (last - first) * (right - left - 40)
                            : (left + right) / 2;
    };
    const auto yOf = [&](double ratio) { return bottom - (ratio - low) / (high - low) * (bottom - top); };
    const double step = high - low > 2 ? 0.5 : high - low > 0.8 ? 0.2 : high - low > 0.3 ? 0.1 : 0.05;
    for (double tick = std::ceil(low / step) * step; tick <= high; tick += step) {
        canvas.rect(left, yOf(tick), right - left, 1, kLine);
        canvas.text(left - 8, yOf(tick) + 4, fmt::format("{:.2f}", tick), kText3, Canvas::Anchor::Right);
    }
    for (double x = left; x < right; x += 9) canvas.rect(x, yOf(1), 5, 1, kText2);
    // At the end where the curve is farther from the line.
    const bool atLeft = std::abs(cross.points.front().ratio() - 1) > std::abs(cross.points.back().ratio() - 1);
    canvas.text(atLeft ? left : right, yOf(1) - 5, "break-even", kText2,
                atLeft ? Canvas::Anchor::Left : Canvas::Anchor::Right);
    for (size_t i = 0; i < cross.points.size(); ++i) {
        const auto& point = cross.points[i];
        const double x = xOf(point.width), y = yOf(point.ratio());
        if (i > 0) canvas.line(xOf(cross.points[i - 1].width), yOf(cross.points[i - 1].ratio()), x, y, kSeries);
        canvas.rect(x - 3, y - 3, 7, 7, kSeries);
        canvas.text(x + 12, bottom + 22, std::to_string(point.width), kText3, Canvas::Anchor::Right);
        canvas.text(x + 30, bottom + 40, fmt::format("{} / {} ms", threeDigits(point.bf16Ms), threeDigits(point.fp8Ms)),
                    kText3, Canvas::Anchor::Right);
    }
}

class SvgCanvas final : public Canvas {
  public:
    explicit SvgCanvas(int height) {
        text_ = fmt::format(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
            "font-family=\"Roboto, DejaVu Sans, sans-serif\" font-size=\"13\">\n"
            "<rect width=\"{0}\" height=\"{1}\" fill=\"#{2:06X}\"/>\n",
            kPictureWidth, height, kPanel);
    }
    void rect(double x, double y, double width, double height, uint32_t colour) override {
        text_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#{:06X}\"/>\n",
                             x, y, width, height, colour);
    }
    void line(double x0, double y0, double x1, double y1, uint32_t colour) override {
        text_ += fmt::format(
            "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#{:06X}\" stroke-width=\"2\"/>\n",
            x0, y0, x1, y1, colour);
    }
    void text(double x, double y, const std::string& words, uint32_t colour, Anchor anchor) override {
        std::string escaped;
        for (const char c : words)
            escaped += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
        text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"#{:06X}\"{}>{}</text>\n", x, y, colour,
                             anchor == Anchor::Right ? " text-anchor=\"end\"" : "", escaped);
    }
    std::string take() { return text_ + "</svg>\n"; }

  private:
    std::string text_;
};

}  // namespace

int pictureHeight(const LadderResult& ladder) {
    return ladder.mode == LadderMode::Widths ? 390 : static_cast<int>(kTop + 40 + kRow * ladder.rungs.size());
}

void drawLadder(const LadderResult& ladder, Canvas& canvas) {
    head(ladder, canvas);
    if (ladder.mode == LadderMode::Widths)
        widths(ladder, canvas);
    else
        rungs(ladder, canvas);
}

std::string ladderSvg(const LadderResult& ladder) {
    SvgCanvas canvas(pictureHeight(ladder));
    drawLadder(ladder, canvas);
    return canvas.take();
}

}  // namespace mantissa::experiments
