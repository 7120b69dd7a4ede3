#include "experiments/job/first_trouble.h"

#include <nlohmann/json.hpp>

#include "experiments/text/number_text.h"

namespace mantissa::experiments {

using Json = nlohmann::ordered_json;

std::string troubleJson(const engine::TroubleReport& report) {
    Json chain = Json::array(), flight = Json::array();
    for (const auto& check : report.chain)
        chain.push_back({{"place", engine::opName(check)}, {"nan", check.nan}, {"inf", check.inf}});
    for (const auto& record : report.flight)
        if (record) flight.push_back(record->step);
    const Json out = {{"step", report.step},
                      {"text", report.text},
                      {"place", engine::opName(report.first)},
                      {"tensor", report.tensor},
                      {"row", report.row},
                      {"col", report.col},
                      {"value", numberText(report.value)},
                      {"micro", report.micro},
                      {"backward", report.first.backward},
                      {"reached_loss", report.reachedLoss},
                      {"chain", chain},
                      {"flight", flight}};
    return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mantissa::experiments
