#include "experiments/report/export.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "engine/plan/precision_plan.h"
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

std::string csv(RunStore& store, const std::string& id, const std::vector<std::string>& names) {
    std::string out = names.size() == 1 ? "step,value\n" : "series,step,value\n";
    for (const auto& name : names) {
        const Series series = store.series(id, name);
        for (size_t i = 0; i < series.steps.size(); ++i)
            out += fmt::format("{}{},{}\n", names.size() == 1 ? "" : csvName(name) + ",", series.steps[i],
                               valueText(name, series.values[i]));
    }
    return out;
}

std::string json(RunStore& store, const std::string& id, const std::vector<std::string>& names) {
    std::string out = "{";
    for (size_t n = 0; n < names.size(); ++n) {
        const Series series = store.series(id, names[n]);
        out += fmt::format("{}\n\"{}\": {{\"steps\": [", n == 0 ? "" : ",", names[n]);
        for (size_t i = 0; i < series.steps.size(); ++i) out += fmt::format("{}{}", i == 0 ? "" : ",", series.steps[i]);
        out += "], \"values\": [";
        for (size_t i = 0; i < series.values.size(); ++i) {
            const std::string text = valueText(names[n], series.values[i]);
            out += std::isfinite(series.values[i]) ? fmt::format("{}{}", i == 0 ? "" : ",", text)
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
                       ExportFormat format) {
    if (format == ExportFormat::Csv) return csv(store, id, names);
    if (format == ExportFormat::Json) return json(store, id, names);
    return names.size() == 1 ? npy(store.series(id, names[0])) : "";
}

void exportFile(RunStore& store, const std::string& id, const std::vector<std::string>& names, ExportFormat format,
                const std::string& path) {
    if (format != ExportFormat::Npy || names.size() == 1) {
        checkOutput(path);
        return writeFile(path, exportText(store, id, names, format));
    }
    std::error_code code;
    fs::create_directories(path, code);
    if (code) throw Error(ErrorCode::Io, fmt::format("{} cannot be made: {}", path, code.message()));
    for (const auto& name : names) {
        std::string file = name;
        for (char& c : file)
            if (c == '/') c = '.';
        writeFile(path + "/" + file + ".npy", npy(store.series(id, name)));
    }
}

}  // namespace mantissa::experiments
