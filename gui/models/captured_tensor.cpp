#include "gui/models/captured_tensor.h"

#include <algorithm>
#include <cmath>

#include "experiments/tensor_input.h"
#include "gui/format/numbers.h"

namespace mantissa::gui {

using namespace experiments;

namespace {

constexpr int64_t kCast = int64_t{1} << 20;

}  // namespace

BlockMap blockMap(const TensorResult& result) {
    BlockMap map;
    for (const TensorBlock& block : result.blocks) {
        map.rows = std::max(map.rows, int(block.row) + 1);
        map.cols = std::max(map.cols, int(block.col) + 1);
    }
    if (size_t(map.rows) * size_t(map.cols) != result.blocks.size()) return {};
    map.scale.resize(result.blocks.size());
    map.amax.resize(result.blocks.size());
    for (const TensorBlock& block : result.blocks) {
        const size_t index = size_t(block.row) * size_t(map.cols) + size_t(block.col);
        map.scale[index] = block.scale;
        map.amax[index] = block.amax;
    }
    return map;
}

double BlockMap::range() const {
    double low = INFINITY, high = 0;
    for (const float value : amax)
        if (value > 0 && std::isfinite(value)) {
            low = std::min(low, double(value));
            high = std::max(high, double(value));
        }
    return high > 0 ? std::log2(high / low) : NAN;
}

QString castName(const TensorRequest& request) {
    const QString recipe = QString::fromStdString(request.recipe),
                  format = QString::fromStdString(request.format).toUpper();
    const QString name = recipe == QLatin1String("fixed")          ? QStringLiteral("fixed at 1")
                         : recipe == QLatin1String("delayed")      ? recipe
                         : recipe == QLatin1String("block1x128")   ? QStringLiteral("blocks 1 × 128")
                         : recipe == QLatin1String("block128x128") ? QStringLiteral("blocks 128 × 128")
                         : recipe == QLatin1String("current")
                             ? request.powerOfTwo ? QStringLiteral("current, 2ⁿ") : QStringLiteral("current")
                             : recipe.toUpper();
    return recipe == QLatin1String("nvfp4") ? name : name + QStringLiteral(", ") + format;
}

WhatIfRow castRow(const TensorResult& result) {
    const auto n = double(std::max<uint64_t>(1, result.counters.elements));
    WhatIfRow row;
    row.setting = castName(result.request);
    row.underflow = double(result.counters.underflow) / n;
    row.clipped = double(result.counters.clipped) / n;
    row.sqnr = result.sqnrDb;
    row.clippedToken = row.clipped > 0 ? Token::Warn : Token::Text;
    row.tooltip = QStringLiteral("%1: of %2 elements, all cast, %3 underflow and %4 clip; mean squared error %5")
                      .arg(row.setting, formatCount(qint64(result.counters.elements)),
                           formatCount(qint64(result.counters.underflow)), formatCount(qint64(result.counters.clipped)),
                           QString::number(result.mse, 'g', 4));
    return row;
}

CapturedReport readCaptured(RunStore& store, const std::string& id, int tensor, int64_t step) {
    CapturedReport report;
    report.tensor = tensor;
    const RunDocument document = store.document(id);
    if (tensor < 0 || tensor >= int(document.catalogue.size())) return report;
    const std::string name = engine::tensorName(document.catalogue[size_t(tensor)]);
    const CapturedTensor* found = nullptr;
    const auto all = capturedTensors(store, id);
    for (const CapturedTensor& one : all)
        if (one.name == name && (step < 0 || one.step <= step)) found = &one;
    if (!found) return report;
    TensorValues values = readTensorFile(found->path);
    report.step = found->step;
    report.rows = values.rows;
    report.cols = values.cols;
    const int64_t kept = std::max<int64_t>(1, std::min(values.rows, kCast / std::max<int64_t>(1, values.cols)));
    report.whole = kept == values.rows;
    TensorRequest request;
    request.rows = kept;
    request.cols = values.cols;
    values.values.resize(size_t(kept * values.cols));
    request.values = std::move(values.values);
    for (const TensorResult& result : tensorWhatIf(request)) {
        if (result.request.recipe == "delayed") continue;  // replayed above, from the recorded amaxes
        report.list.push_back(castRow(result));
        report.maps.push_back(blockMap(result));
    }
    return report;
}

}  // namespace mantissa::gui
