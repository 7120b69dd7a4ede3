// The places of a training pass whose outputs can be looked at, in order of execution.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/numerics.h"

namespace mantissa::engine {

/// One op's output, or a parameter just before the op that reads it.
struct OpSite {
    OpCheck check;           ///< names alone
    std::string tensor;      ///< "h.2.mlp.fc1/output"
    int64_t cols = 0;        ///< of the output as a matrix
    int castSlot = -1;       ///< the cast that counts this output where it leaves no plain value; -1: none
    bool parameter = false;  ///< looked at in inspections alone
};

/// Filled by the planning pass, which visits every place; from then on the numbers stand.
class OpSites {
  public:
    /// Number of the place; added at the end when it is new.
    int number(const OpSite& site) {
        const std::string key = site.check.layer + "\n" + site.check.op + (site.check.backward ? "\nb" : "\nf");
        const auto [at, added] = numbers_.emplace(key, static_cast<int>(sites_.size()));
        if (added) sites_.push_back(site);
        return at->second;
    }
    const std::vector<OpSite>& all() const { return sites_; }

  private:
    std::map<std::string, int> numbers_;
    std::vector<OpSite> sites_;
};

}  // namespace mantissa::engine
