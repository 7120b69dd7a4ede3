#include "gui/models/run_filter.h"

#include "experiments/report/run_filter.h"

namespace mantissa::gui {

RunFilter::RunFilter(const QString& text) {
    if (text.trimmed().isEmpty()) return;
    try {
        test_ = experiments::compileFilter(text.toStdString());
    } catch (const std::exception& exception) {
        error_ = QString::fromStdString(exception.what());
    }
}

}  // namespace mantissa::gui
