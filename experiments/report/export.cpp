#include "experiments/report/export.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <optional>

#include "engine/plan/precision_plan.h"
#include "experiments/store/run_store_numerics.h"
#include "experiments/text/number_text.h"
#include "experiments/text/output_file.h"
#include "kernels/error.h"

namespace mantissa::experiments {

namespace fs = std::filesystem;

namespace {

/// float32 statistics are written with the digits of a float32; counters and scalars as what they are.
std::string valueText(const std::string& name, double value) {
    const bool statistic = name.rfind("numerics/", 0) == 0;
    if (!statistic || value == std::floor(value)) return numberText(value);
    return numberText(static_cast<float>(value));
}

std::string csvName(const std::string& name) {
    return name.find_first_of(",\"\n") == std::string::npos ? name : "\"" + name + "\"";
}

/// The series if it has points; else it is noted.
std::optional<Series> seriesOf(RunStore& store, const std::string& id, const std::string& name, ExportGaps& gaps) {
    Series series = store.series(id, name);
    if (!series.steps.empty()) return series;
    gaps.empty.push_back(name);
    return std::nullopt;
}

std::string csv(RunStore& store, const std::string& id, const std::vector<std::string>& names, ExportGaps& gaps) {
    std::string out = names.size() == 1 ? "step,value\n" : "series,step,value\n";
    for (const auto& name : names) {
        const auto series = seriesOf(store, id, name, gaps);
        for (size_t i = 0; series && i < series->steps.size(); ++i)
            out += fmt::format("{}{},{}\n", names.size() == 1 ? "" : csvName(name) + ",", series->steps[i],
                               valueText(name, series->values[i]));
    }
    return out;
}

std::string json(RunStore& store, const std::string& id, const std::vector<std::string>& names, ExportGaps& gaps) {
    std::string out = "{";
    for (const auto& name : names) {
        const auto series = seriesOf(store, id, name, gaps);
        if (!series) continue;
        out += fmt::format("{}\n\"{}\": {{\"steps\": [", out.size() == 1 ? "" : ",", name);
        for (size_t i = 0; i < series->steps.size(); ++i)
            out += fmt::format("{}{}", i == 0 ? "" : ",", series->steps[i]);
        out += "], \"values\": [";
        for (size_t i = 0; i < series->values.size(); ++i) {
            const std::string text = valueText(name, series->values[i]);
            out += std::isfinite(series->values[i]) ? fmt::format("{}{}", i == 0 ? "" : ",", text)
                                                    : fmt::format("{}\"{}\"", i == 0 ? "" : ",", text);
        }
        out += "]}";
    }
    return out + "\n}\n";
}

/// NumPy's format 1.0: float64 (n, 2), rows [step, value].
std::string npy(const Series& series) {
    std::string header =
        fmt::format("{{'descr': '<f8', 'fortran_order': False, 'shape': ({}, 2), }}", series.steps.size());
    header += std::string(63 - (10 + header.size()) % 64, ' ') + "\n";
    std::string out = std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 0xFF) +
                      static_cast<char>(header.size() >> 8) + header;
    for (size_t i = 0; i < series.steps.size(); ++i) {
        const double row[2] = {static_cast<double>(series.steps[i]), series.values[i]};
        out.append(reinterpret_cast<const char*>(row), sizeof row);
    }
    return out;
}

}  // namespace

std::vector<std::string> matchingSeries(RunStore& store, const std::string& id, const std::string& glob) {
    std::vector<std::string> globs, names;
    for (size_t at = 0; at <= glob.size();) {
        const size_t comma = std::min(glob.find(',', at), glob.size());
        if (comma > at) globs.push_back(glob.substr(at, comma - at));
        at = comma + 1;
    }
    std::vector<std::string> all = store.seriesNames(id);
    // Derived statistics are not listed but can be named.
    for (const auto& entry : store.document(id).catalogue)
        if (entry.recipe != "bf16")
            for (int s = static_cast<int>(Statistic::Kurtosis) + 1; s < static_cast<int>(Statistic::Count); ++s)
                all.push_back(numericsName(entry, static_cast<Statistic>(s)));
    for (const auto& name : all)
        for (const auto& pattern : globs)
            if (engine::globMatches(pattern, name)) {
                names.push_back(name);
                break;
            }
    return names;
}

std::string exportText(RunStore& store, const std::string& id, const std::vector<std::string>& names,
                       ExportFormat format, ExportGaps* gaps) {
    ExportGaps own;
    std::string text;
    if (format == ExportFormat::Csv)
        text = csv(store, id, names, own);
    else if (format == ExportFormat::Json)
        text = json(store, id, names, own);
    else if (const auto series = names.size() == 1 ? seriesOf(store, id, names[0], own) : std::nullopt)
        text = npy(*series);
    own.unreadable = unreadablePieces(store, id);
    if (gaps) *gaps = std::move(own);
    return text;
}

ExportGaps exportFile(RunStore& store, const std::string& id, const std::vector<std::string>& names,
                      ExportFormat format, const std::string& path) {
    ExportGaps gaps;
    const auto refuseNothing = [&] {
        if (gaps.empty.size() == names.size() && gaps.unreadable == 0)
            throw Error(ErrorCode::InvalidConfig, "none of the series to export has a point");
    };
    if (format != ExportFormat::Npy || names.size() == 1) {
        checkOutput(path);
        const std::string text = exportText(store, id, names, format, &gaps);
        refuseNothing();
        writeFile(path, text);
        return gaps;
    }
    for (const auto& name : names) {
        const auto series = seriesOf(store, id, name, gaps);
        if (!series) continue;
        std::error_code code;
        fs::create_directories(path, code);
        if (code) throw Error(ErrorCode::Io, fmt::format("{} cannot be made: {}", path, code.message()));
        std::string file = name;
        for (char& c : file)
            if (c == '/') c = '.';
        writeFile(path + "/" + file + ".npy", npy(*series));
    }
    gaps.unreadable = unreadablePieces(store, id);
    refuseNothing();
    return gaps;
}

}  // namespace mantissa::experiments
