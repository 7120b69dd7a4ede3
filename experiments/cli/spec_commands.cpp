// presets, check, plan, devices.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "engine/faults.h"
#include "experiments/cli/command.h"
#include "experiments/report/device_report.h"
#include "experiments/report/forecast.h"
#include "experiments/text/number_text.h"
#include "experiments/text/plain_text.h"
#include "kernels/error.h"

namespace mantissa::experiments::cli {

namespace {

int listPresets(const Context& context, const std::string& name) {
    if (!name.empty()) {
        try {
            std::puts(presetSpec(name).toJson(2).c_str());
        } catch (const Error& error) {
            throw Failure{kBadUsage, fmt::format("preset: {}; allowed: what mantissa-run presets lists", error.what())};
        }
        return kDone;
    }
    Json list = Json::array();
    std::vector<std::vector<std::string>> rows;
    for (const auto& info : presets()) {
        list.push_back({{"name", info.name}, {"parameters", info.parameters}, {"summary", info.summary}});
        rows.push_back({info.name, std::to_string(info.parameters), info.summary});
    }
    if (context.json)
        printJson(list);
    else
        printTable({"name", "parameters", "summary"}, rows, {false, true, false});
    return kDone;
}

/// Reads and validates a spec file, and opens the data it names.
int check(const Context& context, const std::string& path) {
    ParsedSpec parsed = readSpecFile(path);
    if (parsed.ok()) {
        try {
            engine::TokenSource::open(parsed.spec.data, parsed.spec.trainer.model.context, parsed.spec.trainer.seed);
        } catch (const Error& error) {
            parsed.errors.push_back({"data.path", error.what(), allowedValues("data.path")});
        }
        for (const auto& fault : parsed.spec.trainer.faults)
            if (const std::string refusal = engine::faultRefusal(fault, parsed.spec.trainer); !refusal.empty())
                parsed.errors.push_back({"faults", refusal, allowedValues("faults")});
    }
    if (context.json) {
        Json errors = Json::array();
        for (const auto& error : parsed.errors)
            errors.push_back({{"path", error.path}, {"message", error.message}, {"allowed", error.allowed}});
        printJson({{"ok", parsed.ok()}, {"errors", errors}});
        if (parsed.ok()) return kDone;
    }
    if (!parsed.ok()) {
        for (size_t i = 1; i < parsed.errors.size() && !context.json; ++i)
            std::printf("%s: %s\n", plainText(parsed.errors[i].path).c_str(),
                        plainText(parsed.errors[i].message).c_str());
        throw specFailure("spec: " + path, parsed.errors);
    }
    std::printf("%s is good: %s, %s\n", plainText(path).c_str(), parsed.spec.modelName().c_str(),
                parsed.spec.recipeName().c_str());
    return kDone;
}

int plan(const Context& context, const std::string& source, const std::vector<std::string>& sets,
         const engine::DeviceChoice& device) {
    const RunSpec spec = loadSpec(source, sets);
    engine::TokenSource::open(spec.data, spec.trainer.model.context, spec.trainer.seed);
    std::unique_ptr<RunStore> store;
    if (std::filesystem::exists(context.storePath()))
        store = std::make_unique<RunStore>(context.storePath(), RunStore::Mode::ReadOnly);
    const Forecast f = forecast(spec, device, store.get());
    if (f.bytes == 0) throw Failure{kRefused, "plan: " + f.note};
    if (context.json) {
        printJson({{"bytes", f.bytes},
                   {"by", f.by},
                   {"seconds", number(f.seconds)},
                   {"tokens_per_s", number(f.tokensPerSecond)},
                   {"basis", f.basis},
                   {"fits", f.fits},
                   {"available_bytes", f.availableBytes},
                   {"parameters", f.parameters},
                   {"tokens", f.totalTokens},
                   {"checkpoint_bytes", f.checkpointBytes},
                   {"store_bytes", f.storeBytes},
                   {"note", f.note}});
        return kDone;
    }
    std::printf("%s, %s: %lld parameters, %lld tokens a step, %lld in all\n\n", spec.modelName().c_str(),
                spec.recipeName().c_str(), static_cast<long long>(f.parameters),
                static_cast<long long>(f.tokensPerStep), static_cast<long long>(f.totalTokens));
    std::vector<std::vector<std::string>> rows;
    for (const char* name : {"weights", "gradients", "moments", "activations", "workspace", "host"})
        rows.push_back({name, bytesText(f.by.at(name))});
    rows.push_back({"total", bytesText(f.bytes)});
    rows.push_back({"available", bytesText(f.availableBytes) + (f.fits ? "" : ", not enough")});
    printTable({"memory", ""}, rows, {false, true});
    if (!f.note.empty()) std::printf("%s\n", f.note.c_str());
    std::printf("\n%s tokens/s, %s in all (%s)\n", digits(f.tokensPerSecond, 3).c_str(),
                durationText(f.seconds).c_str(), f.basis.c_str());
    std::printf("store %s, a checkpoint %s, %s free on the disk\n", bytesText(f.storeBytes).c_str(),
                bytesText(f.checkpointBytes).c_str(), bytesText(f.diskFreeBytes).c_str());
    return kDone;
}

int devices(const Context& context) {
    Json list = Json::array();
    for (const auto& report : deviceReports()) {
        auto rows = [](const std::vector<CapabilityRow>& capabilities) {
            Json out = Json::array();
            for (const auto& row : capabilities) out.push_back({{"what", row.what}, {"why", row.why}});
            return out;
        };
        Json native = Json::array();
        for (const auto& row : report.native) native.push_back(row.what);
        list.push_back({{"device", report.device},
                        {"name", report.name},
                        {"usable", report.usable},
                        {"reason", report.reason},
                        {"isa", report.isa},
                        {"class", report.determinismClass},
                        {"threads", report.threads},
                        {"memory_bytes", report.memoryTotal},
                        {"native", native},
                        {"emulated", rows(report.emulated)},
                        {"missing", rows(report.missing)}});
        if (context.json) continue;
        std::printf("%s: %s\n", report.device.c_str(), report.usable ? report.name.c_str() : report.reason.c_str());
        if (report.usable)
            std::printf("  %s, class %s, %d threads, %s of memory\n", report.isa.c_str(),
                        report.determinismClass.c_str(), report.threads, bytesText(report.memoryTotal).c_str());
        std::vector<std::vector<std::string>> table;
        for (const auto& row : report.native) table.push_back({row.what, "native", row.why});
        for (const auto& row : report.emulated) table.push_back({row.what, "emulated", row.why});
        for (const auto& row : report.missing) table.push_back({row.what, "missing", row.why});
        if (!table.empty()) printTable({"capability", "", "why"}, table, {false, false, false});
        std::puts("");
    }
    if (context.json) printJson(list);
    return kDone;
}

}  // namespace

void addSpecCommands(CLI::App& app, Context& context) {
    struct Options {
        std::string name, path, source = "nano";
        std::vector<std::string> sets;
        engine::DeviceChoice device;
    };
    auto options = std::make_shared<Options>();
    auto* list = app.add_subcommand("presets", "Lists the presets, or prints one as a spec");
    list->add_option("NAME", options->name, "Preset to print");
    addCommonFlags(*list, context, "mantissa-run presets nano-bf16 > my.json");
    list->callback(
        [&context, options] { context.run = [&context, options] { return listPresets(context, options->name); }; });

    auto* checking = app.add_subcommand("check", "Validates a spec and the data it names, without running");
    checking->add_option("SPEC.json", options->path, "Spec file")->required();
    addCommonFlags(*checking, context, "mantissa-run check my.json --json");
    checking->callback(
        [&context, options] { context.run = [&context, options] { return check(context, options->path); }; });

    auto* planning = app.add_subcommand("plan", "Forecasts memory and time without running");
    planning->add_option("PRESET|SPEC.json", options->source, "Preset or spec file (default: nano)");
    planning->add_option("--set", options->sets, "PATH=VALUE, repeatable")->allow_extra_args(false);
    planning->add_option("--device", options->device.device, "auto, cpu, cuda or cuda:N");
    planning->add_option("--threads", options->device.threads, "CPU threads (0: all)")->check(CLI::Range(0, 4096));
    addCommonFlags(*planning, context, "mantissa-run plan gpt2-124m --set train.batch=4");
    planning->callback([&context, options] {
        context.run = [&context, options] { return plan(context, options->source, options->sets, options->device); };
    });
}

void addDevicesCommand(CLI::App& app, Context& context) {
    auto* command =
        app.add_subcommand("devices", "What this machine does natively, what is emulated, what is missing and why");
    addCommonFlags(*command, context, "mantissa-run devices --json");
    command->callback([&context] { context.run = [&context] { return devices(context); }; });
}

}  // namespace mantissa::experiments::cli
