#include "experiments/report/device_report.h"

#include "experiments/job/process_memory.h"
#include "kernels/device/device_info.h"

namespace mantissa::experiments {

namespace {

std::vector<CapabilityRow> rows(const std::vector<kernels::Capability>& list) {
    std::vector<CapabilityRow> out;
    for (const auto& entry : list) out.push_back({entry.what, entry.why});
    return out;
}

DeviceReport report(const kernels::DeviceInfo& info) {
    DeviceReport r;
    r.device = info.id;
    r.name = info.name;
    r.isa = info.isa;
    r.determinismClass = info.determinismClass;
    r.threads = info.threads;
    r.memoryTotal = info.memoryTotal;
    r.memoryFree = info.memoryFree;
    r.usable = info.usable;
    r.reason = info.reason;
    r.native = rows(info.native);
    r.emulated = rows(info.emulated);
    r.missing = rows(info.missing);
    return r;
}

}  // namespace

std::vector<DeviceReport> deviceReports() {
    std::vector<DeviceReport> reports = {report(kernels::probeCpu())};
    for (const auto& info : kernels::probeCuda()) reports.push_back(report(info));
    return reports;
}

}  // namespace mantissa::experiments
