// The filter field of the run list: the same expressions as on the command line, errors as a sentence.
#pragma once

#include <QString>
#include <functional>

#include "gui/models/run_info.h"

namespace mantissa::gui {

/// "loss < 2 and recipe = delayed"; grammar and fields in experiments/report/run_filter.h. An empty text matches
/// everything.
class RunFilter {
  public:
    explicit RunFilter(const QString& text = QString());

    bool ok() const { return error_.isEmpty(); }
    /// A sentence that names what is wrong and what is allowed.
    const QString& error() const { return error_; }
    bool matches(const RunInfo& run) const { return !test_ || test_(makeSummary(run)); }

  private:
    std::function<bool(const experiments::RunSummary&)> test_;
    QString error_;
};

}  // namespace mantissa::gui
