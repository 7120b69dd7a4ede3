#include "experiments/store/step_record.h"

#include <algorithm>

#include "experiments/store/bytes.h"
#include "experiments/store/step_visit.h"

namespace mantissa::experiments {

namespace {
constexpr uint8_t kExponentsVersion = 1;
constexpr uint64_t kMaxBins = 4096;
}  // namespace

std::vector<uint8_t> encodeStep(const StepRecord& record, const engine::NumericsRecord* numerics) {
    ByteWriter out;
    out.u8(kStepVersion);
    out.u8(record.probed ? 1 : 0);
    out.u8(static_cast<uint8_t>(record.scalars.size()));
    for (const auto& [metric, value] : record.scalars) {
        out.u8(static_cast<uint8_t>(metric));
        out.f64(value);
    }
    out.varint(numerics == nullptr ? 0 : numerics->tensors.size());
    if (numerics == nullptr) return out.take();
    for (const auto& tensor : numerics->tensors) {
        const bool cast = tensor.counters[0] > 0;
        const uint8_t flags = cast ? kStepCast | (tensor.dear ? kStepDear : 0) : tensor.amax != 0 ? kStepAmaxOnly : 0;
        out.u8(flags);
        if (flags == 0) continue;
        out.f32(tensor.amax);
        if (!cast) continue;
        out.f32(tensor.scale);
        for (const uint64_t counter : tensor.counters) out.varint(counter);
        if (tensor.dear)
            for (const float value : {tensor.minNonZero, tensor.mse, tensor.sqnrDb, tensor.kurtosis}) out.f32(value);
    }
    return out.take();
}

std::optional<StepRecord> decodeStep(BlobView blob, int64_t step) {
    StepRecord record;
    record.step = step;
    const bool good = visitStep(
        blob,
        [&](bool probed, uint64_t tensors) {
            record.probed = probed;
            record.tensors.resize(tensors);
        },
        [&](Metric metric, double value) { record.scalars.emplace_back(metric, value); },
        [&](uint64_t index, const engine::TensorNumerics& numerics) {
            record.tensors[index] = numerics;
            if (!numerics.dear) {
                auto& tensor = record.tensors[index];
                tensor.minNonZero = tensor.mse = tensor.sqnrDb = tensor.kurtosis = 0;
            }
            return true;
        });
    return good ? std::optional<StepRecord>(std::move(record)) : std::nullopt;
}

namespace {

/// False: there was nothing to write.
bool encodeExtras(const engine::NumericsRecord& numerics, ByteWriter& out) {
    out.varint(numerics.shadow.size());
    for (const auto& row : numerics.shadow) {
        out.varint(static_cast<uint64_t>(row.linear));
        out.u8(static_cast<uint8_t>(row.gemm));
        out.f64(row.sqnrDb);
        out.f64(row.relativeError);
        out.varint(static_cast<uint64_t>(row.rows));
    }
    const auto spoilt = [](const engine::OpCheck& check) { return check.nan + check.inf > 0; };
    const auto ops = std::count_if(numerics.ops.begin(), numerics.ops.end(), spoilt);
    out.varint(static_cast<uint64_t>(ops));
    for (const auto& check : numerics.ops) {
        if (!spoilt(check)) continue;
        out.text(check.layer);
        out.text(check.op);
        out.u8(check.backward ? 1 : 0);
        out.varint(check.nan);
        out.varint(check.inf);
        out.varint(check.element + 1);  // kNoElement becomes 0
    }
    const auto isStale = [](const engine::TensorNumerics& tensor) { return tensor.staleCodes > 0; };
    const auto stale = std::count_if(numerics.tensors.begin(), numerics.tensors.end(), isStale);
    out.varint(static_cast<uint64_t>(stale));
    for (size_t i = 0; i < numerics.tensors.size(); ++i) {
        if (!isStale(numerics.tensors[i])) continue;
        out.varint(i);
        out.varint(numerics.tensors[i].staleCodes);
    }
    return !numerics.shadow.empty() || ops > 0 || stale > 0;
}

}  // namespace

std::vector<uint8_t> encodeExponents(const engine::NumericsRecord& numerics) {
    bool any = false;
    ByteWriter out;
    out.u8(kExponentsVersion);
    out.varint(numerics.tensors.size());
    for (const auto& tensor : numerics.tensors) {
        const auto& counts = tensor.exponents;
        size_t first = 0, last = counts.size();
        while (first < last && counts[first] == 0) ++first;
        while (last > first && counts[last - 1] == 0) --last;
        out.varint(counts.size());
        if (counts.empty()) continue;
        any = true;
        out.varint(first);
        out.varint(last - first);
        for (size_t i = first; i < last; ++i) out.varint(counts[i]);
    }
    const bool extras = encodeExtras(numerics, out);
    return any || extras ? out.take() : std::vector<uint8_t>();
}

std::vector<uint32_t> decodeExponents(BlobView blob, int tensor) {
    ByteReader in(blob.data, blob.size);
    if (in.u8() != kExponentsVersion) return {};
    const uint64_t tensors = in.varint();
    for (uint64_t t = 0; t < tensors && in.ok() && static_cast<int64_t>(t) <= tensor; ++t) {
        const uint64_t bins = in.varint();
        if (bins == 0) continue;
        const uint64_t first = in.varint(), count = in.varint();
        if (!in.ok() || bins > kMaxBins || first > bins || count > bins - first) return {};
        std::vector<uint32_t> counts(bins);
        for (uint64_t i = 0; i < count; ++i) counts[first + i] = static_cast<uint32_t>(in.varint());
        if (in.ok() && static_cast<int64_t>(t) == tensor) return counts;
    }
    return {};
}

ProbeExtras decodeExtras(BlobView blob) {
    ByteReader in(blob.data, blob.size);
    if (in.u8() != kExponentsVersion) return {};
    const uint64_t tensors = in.varint();
    for (uint64_t t = 0; t < tensors && in.ok(); ++t) {
        if (in.varint() == 0) continue;
        in.varint();
        for (uint64_t count = in.varint(); count > 0 && in.ok(); --count) in.varint();
    }
    if (in.left() == 0) return {};  // of a version that measured nothing else
    ProbeExtras extras;
    for (uint64_t n = in.varint(); n > 0 && in.ok(); --n) {
        engine::ShadowRow row;
        row.linear = static_cast<int>(in.varint());
        row.gemm = in.u8();
        row.sqnrDb = in.f64();
        row.relativeError = in.f64();
        row.rows = static_cast<int64_t>(in.varint());
        extras.shadow.push_back(row);
    }
    for (uint64_t n = in.varint(); n > 0 && in.ok(); --n) {
        engine::OpCheck check;
        check.layer = in.text();
        check.op = in.text();
        check.backward = in.u8() != 0;
        check.nan = in.varint();
        check.inf = in.varint();
        check.element = in.varint() - 1;
        extras.ops.push_back(std::move(check));
    }
    for (uint64_t n = in.varint(); n > 0 && in.ok(); --n) {
        const auto tensor = static_cast<int>(in.varint());
        extras.stale.emplace_back(tensor, in.varint());
    }
    return in.ok() ? extras : ProbeExtras{};
}

std::optional<double> statisticValue(const engine::TensorNumerics& tensor, Statistic statistic) {
    const bool cast = tensor.counters[0] > 0;
    if (statistic == Statistic::Amax)
        return cast || tensor.amax != 0 ? std::optional<double>(tensor.amax) : std::nullopt;
    if (!cast) return std::nullopt;
    if (statistic == Statistic::Scale) return tensor.scale;
    if (isCounter(statistic))
        return static_cast<double>(
            tensor.counters[static_cast<int>(statistic) - static_cast<int>(Statistic::Elements)]);
    if (!tensor.dear) return std::nullopt;
    switch (statistic) {
        case Statistic::MinNonZero:
            return tensor.minNonZero;
        case Statistic::Mse:
            return tensor.mse;
        case Statistic::SqnrDb:
            return tensor.sqnrDb;
        case Statistic::Kurtosis:
            return tensor.kurtosis;
        default:
            return std::nullopt;
    }
}

}  // namespace mantissa::experiments
