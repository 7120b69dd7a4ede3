// The values of the tokens, series and maps. Contrasts are computed in tests/gui/theme_test.cpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include "gui/theme/theme.h"

namespace mantissa::gui {
namespace {

struct TokenRow {
    const char* name;
    QRgb dark, light;
};

constexpr TokenRow kTokens[] = {
    {"window", 0xff14161a, 0xffeef0f3},    {"panel", 0xff1a1d22, 0xffffffff},    {"raised", 0xff22262d, 0xfff4f6f8},
    {"hover", 0xff2b3038, 0xffe8ebef},     {"sel", 0xff223a5c, 0xffd6e5fa},      {"line", 0xff2a2f37, 0xffdde1e6},
    {"line2", 0xff414853, 0xffb9c0c9},     {"grid", 0xff262a31, 0xffeceef1},     {"text", 0xffe8eaed, 0xff191c20},
    {"text2", 0xffb0b7c1, 0xff464d57},     {"text3", 0xff929aa6, 0xff5c646f},    {"disabled", 0xff616975, 0xff9aa1ab},
    {"accent", 0xff6fb0ff, 0xff1459b8},    {"fill", 0xff2a6bd0, 0xff1d5fc4},     {"onfill", 0xffffffff, 0xffffffff},
    {"ok", 0xff4fc98b, 0xff16734a},        {"warn", 0xfff0b44c, 0xff8a5a00},     {"bad", 0xffff7d73, 0xffbf2a20},
    {"nonfinite", 0xffff4fc3, 0xffc2006f}, {"okbg", 0xff1a2c24, 0xffe6f4ec},     {"warnbg", 0xff2e2718, 0xfffbf1dc},
    {"badbg", 0xff331f20, 0xfffbe7e5},     {"infobg", 0xff1b2838, 0xffe5effb},   {"matmul", 0xff4c86d6, 0xff3f78c8},
    {"attention", 0xff3bb39b, 0xff1f947e}, {"normcast", 0xffb07cc6, 0xff9560ae}, {"optimizer", 0xffd9a441, 0xffb9832a},
    {"gap", 0xff59616d, 0xffa3abb6},
};
static_assert(std::size(kTokens) == static_cast<size_t>(Token::Count));

struct SeriesRow {
    QRgb dark, light;
    std::vector<qreal> dash;
    Marker marker;
};

const SeriesRow& seriesRow(int index) {
    static const SeriesRow rows[kSeriesCount] = {
        {0xff7aa1fa, 0xff4350ba, {}, Marker::Circle},
        {0xfff7a846, 0xffd46215, {6, 3}, Marker::Square},
        {0xff49e8c3, 0xff049f8a, {8, 3, 2, 3}, Marker::Triangle},
        {0xffd06288, 0xff911a60, {2, 2.5}, Marker::Diamond},
        {0xffb18c20, 0xff434800, {12, 4}, Marker::TriangleDown},
        {0xff8977d2, 0xff8868d8, {8, 3, 2, 3, 2, 3}, Marker::Cross},
        {0xffa5b8c7, 0xff60697a, {}, Marker::Plus},
        {0xffd9848a, 0xffae4b27, {4, 2}, Marker::Star},
    };
    return rows[((index % kSeriesCount) + kSeriesCount) % kSeriesCount];
}

struct Stop {
    double position;
    QRgb color;
};
using Stops = std::array<Stop, 5>;

const Stops& stops(ColorMap map, bool dark) {
    static const Stops heatDark = {
        {{0, 0xff22262d}, {.22, 0xff3a2a5e}, {.48, 0xff9a2f6c}, {.75, 0xffee6b3b}, {1, 0xffffe9a0}}};
    static const Stops heatLight = {
        {{0, 0xfff6f7f9}, {.22, 0xfff8dca6}, {.48, 0xffef8c4c}, {.75, 0xffbe2c50}, {1, 0xff470e3e}}};
    static const Stops magDark = {
        {{0, 0xff1f2547}, {.3, 0xff2b5e8c}, {.58, 0xff2f9e93}, {.82, 0xff93d36c}, {1, 0xfff7f4a8}}};
    static const Stops magLight = {
        {{0, 0xfff4f3d2}, {.22, 0xffa9d88b}, {.46, 0xff3fa895}, {.74, 0xff2b5e8c}, {1, 0xff1b2048}}};
    static const Stops divDark = {
        {{0, 0xff8cc2ff}, {.25, 0xff3868a8}, {.5, 0xff22262d}, {.75, 0xffa8562f}, {1, 0xffffb48a}}};
    static const Stops divLight = {
        {{0, 0xff0f4fa8}, {.25, 0xff8db4e6}, {.5, 0xfff4f6f8}, {.75, 0xffedae88}, {1, 0xffa83a08}}};
    switch (map) {
        case ColorMap::Heat:
            return dark ? heatDark : heatLight;
        case ColorMap::Mag:
            return dark ? magDark : magLight;
        case ColorMap::Div:
            break;
    }
    return dark ? divDark : divLight;
}

double toLinear(double srgb) {
    return srgb <= 0.04045 ? srgb / 12.92 : std::pow((srgb + 0.055) / 1.055, 2.4);
}
double toSrgb(double linear) {
    linear = std::clamp(linear, 0.0, 1.0);
    return linear <= 0.0031308 ? linear * 12.92 : 1.055 * std::pow(linear, 1 / 2.4) - 0.055;
}

/// OKLab (Björn Ottosson, 2020), from sRGB.
std::array<double, 3> toOklab(QRgb color) {
    const double r = toLinear(qRed(color) / 255.0), g = toLinear(qGreen(color) / 255.0),
                 b = toLinear(qBlue(color) / 255.0);
    const double l = std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
    const double m = std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
    const double s = std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
    return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
            1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
            0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

QRgb fromOklab(const std::array<double, 3>& lab) {
    const auto cube = [](double x) { return x * x * x; };
    const double l = cube(lab[0] + 0.3963377774 * lab[1] + 0.2158037573 * lab[2]);
    const double m = cube(lab[0] - 0.1055613458 * lab[1] - 0.0638541728 * lab[2]);
    const double s = cube(lab[0] - 0.0894841775 * lab[1] - 1.2914855480 * lab[2]);
    const double r = 4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s;
    const double g = -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s;
    const double b = -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s;
    const auto byte = [](double x) { return static_cast<int>(std::lround(255 * toSrgb(x))); };
    return qRgb(byte(r), byte(g), byte(b));
}

double luminance(const QColor& c) {
    return 0.2126 * toLinear(c.redF()) + 0.7152 * toLinear(c.greenF()) + 0.0722 * toLinear(c.blueF());
}

}  // namespace

QColor Theme::tokenColor(Token token, bool dark) {
    const TokenRow& row = kTokens[static_cast<int>(token)];
    return QColor(dark ? row.dark : row.light);
}

const char* Theme::tokenName(Token token) {
    return kTokens[static_cast<int>(token)].name;
}

SeriesStyle Theme::seriesStyle(int index, bool dark) {
    const SeriesRow& row = seriesRow(index);
    return {QColor(dark ? row.dark : row.light), QVector<qreal>(row.dash.begin(), row.dash.end()), row.marker};
}

MapTable Theme::mapTable(ColorMap map, bool dark) {
    const Stops& table = stops(map, dark);
    MapTable out{};
    for (int i = 0; i < kMapSize; ++i) {
        const double position = i / double(kMapSize - 1);
        size_t upper = 1;
        while (upper + 1 < table.size() && position > table[upper].position) ++upper;
        const Stop &a = table[upper - 1], &b = table[upper];
        const double t = std::clamp((position - a.position) / (b.position - a.position), 0.0, 1.0);
        const auto from = toOklab(a.color), to = toOklab(b.color);
        out[i] = fromOklab(
            {from[0] + t * (to[0] - from[0]), from[1] + t * (to[1] - from[1]), from[2] + t * (to[2] - from[2])});
    }
    return out;
}

QColor mix(const QColor& a, const QColor& b, double share) {
    const auto part = [share](float x, float y) { return static_cast<float>(x + (y - x) * share); };
    return QColor::fromRgbF(part(a.redF(), b.redF()), part(a.greenF(), b.greenF()), part(a.blueF(), b.blueF()));
}

double contrast(const QColor& a, const QColor& b) {
    const double la = luminance(a), lb = luminance(b);
    return (std::max(la, lb) + 0.05) / (std::min(la, lb) + 0.05);
}

}  // namespace mantissa::gui
