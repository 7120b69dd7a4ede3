// The filter expression of the run list: "loss < 2 and recipe = delayed".
#pragma once

#include <QString>
#include <QStringList>
#include <functional>

#include "gui/models/run_info.h"

namespace mantissa::gui {

/// Grammar: or-terms of and-terms of [not] ( … ) | field op value | word. op: < <= > >= = != ~ (contains). A bare word
/// is found in name, recipe, model and tags. Numbers compare as numbers; NaN matches only "= nan". "=" on text matches
/// the whole text or one of its words, without case.
class RunFilter {
  public:
    /// An empty text matches everything.
    explicit RunFilter(const QString& text = QString());

    bool ok() const { return error_.isEmpty(); }
    /// A sentence that names what is wrong and what is allowed.
    const QString& error() const { return error_; }
    bool matches(const RunInfo& run) const { return !test_ || test_(run); }
    static QStringList fields();

  private:
    std::function<bool(const RunInfo&)> test_;
    QString error_;
};

}  // namespace mantissa::gui
