// The tools that every page with linked charts has at the right end of the tab bar.
#pragma once

#include <QToolButton>
#include <functional>

class QHBoxLayout;

namespace mantissa::gui {

class PlotView;
class XLink;

/// A row without margins in a widget of its own, to be owned by `parent`.
QWidget* makeToolRow(QWidget* parent, QHBoxLayout** row);
QToolButton* addZoomBack(QHBoxLayout* row, XLink& link);
QToolButton* addFollow(QHBoxLayout* row, XLink& link);
/// A menu to copy, show or export the chart that `view` gives when it opens.
QToolButton* addExport(QHBoxLayout* row, std::function<PlotView*()> view);

}  // namespace mantissa::gui
