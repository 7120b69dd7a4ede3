// What all charts of the Live page share: the tools at the right of the tabs, and X as steps, tokens or time.
#include <QComboBox>
#include <QHBoxLayout>
#include <QToolButton>
#include <cmath>

#include "gui/pages/live_page.h"
#include "gui/plot/chart_tools.h"
#include "gui/widgets/card.h"

namespace mantissa::gui {

namespace {

/// From a step to the X axis: the step itself, the tokens seen after it, or the seconds that it and all before it took.
class AxisMap {
  public:
    AxisMap(bool tokens, bool time, const RunSeries& run) {
        const auto& trainer = run.spec().trainer;
        if (tokens) perStep_ = double(trainer.batch) * double(trainer.accumulation) * double(trainer.model.context);
        if (time) seconds_ = run.metric(QStringLiteral("seconds"));
    }
    /// NaN: the time is not known yet.
    double operator()(double step) const {
        if (!seconds_ || step <= 0) return step * perStep_;
        return seconds_->empty() || step > seconds_->lastX() ? NAN : double(seconds_->y(seconds_->lowerBound(step)));
    }

  private:
    double perStep_ = 1;
    std::shared_ptr<SeriesPyramid> seconds_;
};

}  // namespace

void LivePage::buildTools() {
    QHBoxLayout* row = nullptr;
    tools_ = makeToolRow(this, &row);
    axisLabel_ = new TextLabel(QStringLiteral("X"), Token::Text2, TextSize::Small, false, tools_);
    row->addWidget(axisLabel_);
    axis_ = new QComboBox(tools_);
    axis_->addItems({QStringLiteral("step"), QStringLiteral("tokens"), QStringLiteral("time")});
    axis_->setAccessibleName(QStringLiteral("X axis"));
    axis_->setToolTip(
        QStringLiteral("X axis of all charts of this page: steps, tokens seen, or the time of the steps "
                       "(evaluations and checkpoints left out)"));
    connect(axis_, &QComboBox::currentIndexChanged, this, [this] {
        link_.reset();
        rebuild();
    });
    row->addWidget(axis_);
    smoothingLabel_ = new TextLabel(QStringLiteral("Smoothing"), Token::Text2, TextSize::Small, false, tools_);
    row->addWidget(smoothingLabel_);
    smoothing_ = new QComboBox(tools_);
    smoothing_->addItem(QStringLiteral("auto"), kAutoSmoothing);
    for (double alpha : {0.0, 0.6, 0.9, 0.97, 0.99, 0.997}) {
        smoothing_->addItem(alpha == 0 ? QStringLiteral("none") : QLocale().toString(alpha), alpha);
    }
    smoothing_->setAccessibleName(QStringLiteral("Smoothing"));
    smoothing_->setToolTip(QStringLiteral(
        "Exponential moving average with debias divisor over all steps, as TensorBoard's; non-finite steps "
        "are skipped. auto: the average reaches back over at most 2 % of the steps so far."));
    connect(smoothing_, &QComboBox::currentIndexChanged, this,
            [this] { setSmoothing(smoothing_->currentData().toDouble()); });
    row->addWidget(smoothing_);
    back_ = addZoomBack(row, link_);
    follow_ = addFollow(row, link_);
    addExport(row, [this] { return loss_; });
}

LivePage::XAxis LivePage::xAxis() const {
    return XAxis(axis_->currentIndex());
}

/// Where a step of a run lies on the page's X axis; NaN: not known yet.
double LivePage::xOfStep(const RunSeries& series, double step) const {
    return AxisMap(xAxis() == kTokens, xAxis() == kTime, series)(step);
}

/// The curve itself over steps, else a copy that extendMapped() keeps up to date.
std::shared_ptr<SeriesPyramid> LivePage::onAxis(const RunSeries& series, std::shared_ptr<SeriesPyramid> data) {
    if (xAxis() == kStep) {
        return data;
    }
    mapped_.push_back({&series, data, std::make_shared<SeriesPyramid>()});
    return mapped_.back().to;
}

void LivePage::extendMapped() {
    for (Mapped& curve : mapped_) {
        const AxisMap map(xAxis() == kTokens, xAxis() == kTime, *curve.run);
        for (size_t i = curve.to->size(); i < curve.from->size(); ++i) {
            const double x = map(curve.from->x(i));
            if (!std::isfinite(x) || !curve.to->append(x, curve.from->y(i))) {
                break;
            }
        }
    }
}

void LivePage::setAxisOptions(PlotView* view, bool unit) {
    PlotOptions options = view->options();
    const int axis = xAxis();
    options.xUnit = !unit             ? QString()
                    : axis == kTime   ? QStringLiteral("s")
                    : axis == kTokens ? QStringLiteral("M tokens")
                                      : QStringLiteral("step");
    options.xScaleFactor = axis == kTokens ? 1e-6 : 1;
    options.wholeX = axis == kStep;
    view->setOptions(options);
}

void LivePage::resizeEvent(QResizeEvent* event) {
    Page::resizeEvent(event);
    for (QLabel* label : {axisLabel_, smoothingLabel_}) {
        label->setVisible(width() >= 1100);  // the tools share the row of the tabs; the fields have tooltips
    }
}

}  // namespace mantissa::gui
