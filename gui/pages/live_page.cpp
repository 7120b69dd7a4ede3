#include "gui/pages/live_page.h"

#include <QGridLayout>
#include <QHBoxLayout>
#include <QScrollArea>
#include <QStackedWidget>
#include <QVBoxLayout>
#include <cmath>

#include "engine/schedule.h"
#include "gui/format/numbers.h"
#include "gui/pages/live_health.h"
#include "gui/plot/plot_legend.h"
#include "gui/widgets/card.h"
#include "gui/widgets/figures_card.h"
#include "gui/widgets/message_strip.h"
#include "gui/widgets/step_ledger.h"

namespace mantissa::gui {

namespace {

constexpr QMargins kLossMargins{48, 26, 12, 8};

PlotOptions chart(const QString& title) {
    PlotOptions options;
    options.title = title;
    options.xUnit = QString();
    options.margins = {48, 10, 12, 24};
    return options;
}

Card* chartCard(const QString& title, const QString& hint, PlotView* view, QWidget* parent) {
    auto* card = new Card(title, hint, parent);
    card->headTools()->addWidget(new PlotLegend(view, card));
    card->body()->setContentsMargins(2, 0, 2, 3);  // the chart's ground stays inside the rounded edge
    card->body()->addWidget(view);
    return card;
}

}  // namespace

LivePage::LivePage(RunController& controller, QWidget* parent)
    : Page(controller, parent), run_(controller), base_(controller) {
    auto* outer = new QVBoxLayout(this);
    outer->setContentsMargins(0, 0, 0, 0);
    stack_ = new QStackedWidget(this);
    outer->addWidget(stack_);
    emptyText_ = new TextLabel(QString(), Token::Text2, TextSize::Body, false, stack_);
    emptyText_->setAlignment(Qt::AlignCenter);
    emptyText_->setWordWrap(true);
    stack_->addWidget(emptyText_);

    auto* scroll = new QScrollArea(stack_);  // charts that are lower than this say nothing
    scroll->setWidgetResizable(true);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->setFocusPolicy(Qt::NoFocus);
    stack_->addWidget(scroll);
    auto* content = new QWidget(scroll);
    scroll->setWidget(content);
    auto* rows = new QVBoxLayout(content);
    rows->setContentsMargins(12, 12, 12, 12);
    rows->setSpacing(10);
    banner_ = new MessageStrip(content);
    rows->addWidget(banner_);
    figures_ = new FiguresCard(content);
    rows->addWidget(figures_);
    auto* columns = new QHBoxLayout;
    columns->setSpacing(10);
    auto* left = new QVBoxLayout;
    left->setSpacing(10);
    left->addWidget(buildLoss(), 46);
    left->addWidget(buildGrid(), 54);
    columns->addLayout(left, 1);
    health_ = new HealthCard(controller, run_, content);
    health_->setFixedWidth(292);
    columns->addWidget(health_);
    rows->addLayout(columns, 1);
    buildTools();

    connect(&run_, &RunSeries::reset, this, &LivePage::rebuild);
    connect(&base_, &RunSeries::reset, this, &LivePage::rebuild);
    connect(&run_, &RunSeries::documentChanged, this, &LivePage::rebuild);
    connect(&run_, &RunSeries::changed, this, &LivePage::extend);
    connect(&base_, &RunSeries::changed, this, &LivePage::rebuild);
    connect(&run_, &RunSeries::eventsChanged, this, &LivePage::updateEvents);
    connect(&run_, &RunSeries::failed, this, [this](const QString& text) {
        banner_->showMessage(MessageKind::Bad, QStringLiteral("This run cannot be read in full."), text);
    });
    connect(health_, &HealthCard::tensorRequested, this, &Page::tensorRequested);
    connect(health_, &HealthCard::twinRequested, this, &Page::launchRequested);
    connect(health_, &HealthCard::healthChanged, this, &LivePage::updateFigures);
    connect(health_, &HealthCard::stepRequested, this, [this](double step) {
        const double half = (link_.view().high - link_.view().low) / 8, x = xOfStep(run_, step);
        link_.setView(x - half, x + half);
        link_.setCursor(x);
    });
    connect(&controller, &RunController::runChanged, this, [this](const QString& id) {
        if (id == run() && isVisible()) planIsOver() ? rebuild() : updateState();
    });
    connect(&controller, &RunController::phaseChanged, this, [this](const QString& id) {
        if (id == run() && isVisible()) {
            updateState();
        }
    });
    connect(banner_, &MessageStrip::actionClicked, this, [this] { this->controller().resumeRun(run()); });
    ageTimer_.setInterval(1000);
    connect(&ageTimer_, &QTimer::timeout, this, [this] {
        const RunInfo* info = this->controller().run(run());
        const double age = sinceData_.isValid() ? double(sinceData_.elapsed()) / 1e3 : 0;
        const double usual = run_.recentMedian(QStringLiteral("step_ms"), 20) / 1e3;
        const bool old =
            info && info->state == RunState::Running && age > std::max(2.0, 3 * (std::isfinite(usual) ? usual : 0));
        figures_->setStale(old ? QStringLiteral("%1 old").arg(formatDuration(age)) : QString());
    });
    ageTimer_.start();
}

QWidget* LivePage::sidePanel() {
    return health_;
}

QWidget* LivePage::buildLoss() {
    PlotOptions loss;
    loss.title = QStringLiteral("Loss");
    loss.xUnit = QStringLiteral("step");
    loss.yScale = ScaleKind::Log;
    loss.robustRange = true;
    loss.readoutBox = true;
    loss.countAbove = true;
    loss.xLabels = false;
    loss.margins = kLossMargins;
    loss.value = [](double v) { return formatLoss(v); };
    loss_ = new PlotView(loss, &link_, this);
    loss_->setMinimumHeight(140);
    PlotOptions strip;
    strip.title = QStringLiteral("Difference to the baseline");
    strip.plusSign = true;
    strip.eventIcons = false;
    strip.minimumSpan = 2e-3;
    strip.margins = {48, 2, 12, 24};
    strip.value = [](double v) { return formatLossDifference(v); };
    strip_ = new PlotView(strip, &link_, this);
    strip_->setFixedHeight(84);
    Card* card = chartCard(QStringLiteral("Loss"), QStringLiteral("nats/token, log"), loss_, this);
    lossCard_ = card;
    stripHead_ = new QWidget(card);
    auto* head = new QHBoxLayout(stripHead_);
    head->setContentsMargins(12, 0, 12, 0);
    stripTitle_ = new TextLabel(QString(), Token::Text2, TextSize::Small, true, stripHead_);
    stripMean_ = new TextLabel(QString(), Token::Text2, TextSize::Small, false, stripHead_);
    head->addWidget(stripTitle_);
    head->addWidget(
        new TextLabel(QStringLiteral("same unit and smoothing"), Token::Text3, TextSize::Small, false, stripHead_));
    head->addStretch(1);
    head->addWidget(stripMean_);
    stripHead_->setFixedHeight(20);
    card->body()->addWidget(stripHead_);
    card->body()->addWidget(strip_);
    return card;
}

QWidget* LivePage::buildGrid() {
    auto* area = new QWidget(this);
    auto* grid = new QGridLayout(area);
    grid->setContentsMargins(0, 0, 0, 0);
    grid->setSpacing(10);
    PlotOptions norm = chart(QStringLiteral("Gradient norm"));
    norm.yScale = ScaleKind::Log;
    norm.eventIcons = false;
    norm.value = [](double v) { return formatNumber(v, 3); };
    norm_ = new PlotView(norm, &link_, area);
    PlotOptions rate = chart(QStringLiteral("Learning rate"));
    rate.sharesView = false;
    rate.eventIcons = false;
    rate.yFloor = 0;
    rate.value = [](double v) { return formatNumber(v, 3, 1e-2); };
    rate_ = new PlotView(rate, &link_, area);
    PlotOptions speed = chart(QStringLiteral("Throughput"));
    speed.eventIcons = false;
    speed.value = [](double v) { return formatRate(v); };
    speed.tickText = [](double v) {
        return v >= 1e6   ? formatNumber(v / 1e6, 3) + QStringLiteral(" M")
               : v >= 1e4 ? formatNumber(v / 1e3, 3) + QStringLiteral(" k")
                          : formatNumber(v, 3);
    };
    speed_ = new PlotView(speed, &link_, area);
    for (PlotView* view : {norm_, rate_, speed_}) view->setMinimumHeight(84);
    ledger_ = new StepLedger(area);
    auto* where = new Card(QStringLiteral("Where a step goes"), QString(), area);
    where->headTools()->addWidget(
        new TextLabel(QStringLiteral("median of 100 steps"), Token::Text3, TextSize::Small, false, where));
    where->body()->addWidget(ledger_);
    grid->addWidget(chartCard(QStringLiteral("Gradient norm"), QStringLiteral("before clipping, log"), norm_, area), 0,
                    0);
    grid->addWidget(chartCard(QStringLiteral("Learning rate"), QString(), rate_, area), 0, 1);
    grid->addWidget(chartCard(QStringLiteral("Throughput"), QStringLiteral("tokens/s"), speed_, area), 1, 0);
    grid->addWidget(where, 1, 1);
    for (int i : {0, 1}) {
        grid->setColumnStretch(i, 1);
        grid->setRowStretch(i, 1);
    }
    return area;
}

void LivePage::showEvent(QShowEvent* event) {
    run_.setActive(true);
    base_.setActive(true);
    Page::showEvent(event);
    extend();
}

void LivePage::hideEvent(QHideEvent* event) {
    run_.setActive(false);
    base_.setActive(false);  // a hidden page does no work
    Page::hideEvent(event);
}

void LivePage::refresh() {
    if (run() != run_.id()) {
        link_.reset();
    }
    run_.show(run());
    base_.show(baseline() == run() ? QString() : baseline());
    health_->setRun(controller().run(run()));
    updateState();
}

bool LivePage::hasBaseline() const {
    return !base_.id().isEmpty() && base_.loaded() && !base_.metric(QStringLiteral("loss"))->empty();
}

QString LivePage::baselineName() const {
    const RunInfo* info = controller().run(base_.id());
    return info ? info->name : QStringLiteral("baseline");
}

QString LivePage::lossUnit() const {
    return run_.spec().data.vocabulary == 96 ? QStringLiteral("nats/char") : QStringLiteral("nats/token");
}

void LivePage::setSmoothing(double alpha) {
    smoothingChosen_ = alpha;
    rebuild();
}

double autoSmoothing(int64_t steps) {
    double chosen = 0.6;
    for (const double alpha : {0.9, 0.97, 0.99})
        if (1 / (1 - alpha) <= 0.02 * double(steps)) chosen = alpha;
    return chosen;
}

void LivePage::extendSmoothed(const SeriesPyramid& raw, SeriesPyramid& smooth, DebiasedEma& average) {
    for (size_t i = smooth.size(); i < raw.size(); ++i) {
        smooth.append(raw.x(i), average.add(raw.y(i)));
    }
}

void LivePage::updateDifference() {
    // This smoothed loss minus the baseline's at the same step, interpolated where the baseline has no such step.
    const size_t done = difference_->size();
    for (size_t i = 0; i < smooth_->size(); ++i) {
        const double x = smooth_->x(i);
        if (done > 0 && x <= difference_->lastX()) {
            continue;
        }
        if (baseSmooth_->empty() || x > baseSmooth_->lastX() || x < baseSmooth_->firstX()) {
            continue;
        }
        const size_t j = baseSmooth_->lowerBound(x);
        double base = double(baseSmooth_->y(j));
        if (j > 0 && baseSmooth_->x(j) > x) {
            const double share = (x - baseSmooth_->x(j - 1)) / (baseSmooth_->x(j) - baseSmooth_->x(j - 1));
            base = double(baseSmooth_->y(j - 1)) * (1 - share) + base * share;
        }
        difference_->append(x, float(double(smooth_->y(i)) - base));
    }
}

void LivePage::rebuild() {
    const RunInfo* info = controller().run(run());
    const int style = info ? info->styleIndex : 0;
    const RunInfo* baseInfo = controller().run(base_.id());
    const bool base = hasBaseline();
    const Ink baseInk = Ink::run(baseInfo ? baseInfo->styleIndex : 0);
    smooth_ = std::make_shared<SeriesPyramid>();
    baseSmooth_ = std::make_shared<SeriesPyramid>();
    difference_ = std::make_shared<SeriesPyramid>();
    alpha_ = smoothingChosen_ != kAutoSmoothing ? smoothingChosen_ : autoSmoothing(qint64(run_.lastStep()));
    average_ = DebiasedEma(alpha_);
    baseAverage_ = DebiasedEma(alpha_);
    const auto raw = run_.metric(QStringLiteral("loss"));
    extendSmoothed(*raw, *smooth_, average_);
    extendSmoothed(*base_.metric(QStringLiteral("loss")), *baseSmooth_, baseAverage_);
    updateDifference();
    mapped_.clear();

    PlotContent loss;
    PlotCurve curve;
    curve.name = QStringLiteral("train, raw");
    curve.data = onAxis(run_, raw);
    curve.ink = Ink::of(Token::Text2, 0.5);
    curve.legendValue = false;
    loss.curves.push_back(curve);
    for (const auto& tail : run_.tails(QStringLiteral("loss"))) {  // superseded by a resume
        PlotCurve old = curve;
        old.data = onAxis(run_, tail);
        old.ink = Ink::of(Token::Text3, 0.3);
        old.inLegend = old.sizesY = old.snaps = false;
        old.dash = {3, 3};
        loss.curves.push_back(old);
    }
    if (base) {
        PlotCurve other;
        other.name = baselineName();
        other.data = onAxis(base_, baseSmooth_);
        other.ink = baseInk;
        other.width = 1.5;
        other.dash = {6, 4};
        other.sizesY = other.snaps = false;
        loss.curves.push_back(other);
    }
    curve.name = QStringLiteral("smoothed");
    curve.data = onAxis(run_, smooth_);
    curve.ink = Ink::run(style);
    curve.width = 2;
    curve.legendValue = true;
    loss.curves.push_back(curve);
    PlotCurve validation;
    validation.name = QStringLiteral("validation");
    validation.data = onAxis(run_, run_.metric(QStringLiteral("val_loss")));
    validation.ink = Ink::run(style);
    validation.width = 0;
    validation.sampleMarker = Marker::Circle;
    validation.snaps = false;
    loss.curves.push_back(validation);
    if (run_.document().entropyFloor) {
        loss.lines.push_back({*run_.document().entropyFloor,
                              QStringLiteral("entropy floor %1").arg(formatLoss(*run_.document().entropyFloor)),
                              Ink::of(Token::Text2)});
    }
    setAxisOptions(loss_, true);
    setAxisOptions(strip_, true);
    for (PlotView* view : {norm_, rate_, speed_}) {
        setAxisOptions(view, false);
    }
    PlotOptions options = loss_->options();
    const double warm = xOfStep(run_, double(run_.spec().trainer.schedule.warmup));
    options.robustFrom = std::isfinite(warm) ? warm : 0;
    options.xLabels = !base;
    options.margins = base ? kLossMargins : QMargins(48, 26, 12, 24);
    lossCard_->setHint(lossUnit() + QStringLiteral(", log"));
    loss_->setOptions(options);
    loss_->setContent(loss);

    strip_->setVisible(base);
    stripHead_->setVisible(base);
    if (base) {
        stripTitle_->setText(QStringLiteral("Difference to %1").arg(baselineName()));
        PlotContent strip;
        PlotCurve gap;
        gap.name = QStringLiteral("difference");
        gap.data = onAxis(run_, difference_);
        gap.ink = Ink::run(style);
        gap.width = 1.4;
        strip.curves.push_back(gap);
        strip.lines.push_back({0, QString(), baseInk, true});
        strip_->setContent(strip);
    }

    const auto single = [&](PlotView* view, const char* metric, double width) {
        PlotContent content;
        PlotCurve line;
        line.name = QStringLiteral("now");
        line.data = onAxis(run_, run_.metric(QLatin1String(metric)));
        line.ink = Ink::run(style);
        line.width = width;
        content.curves.push_back(line);
        return std::pair(view, content);
    };
    auto [normView, norm] = single(norm_, "grad_norm", 1.2);
    if (const double clip = double(run_.spec().trainer.optimizer.clip); clip > 0 && run_.loaded()) {
        norm.lines.push_back({clip, QStringLiteral("clip %1").arg(formatNumber(clip, 2)), Ink::of(Token::Text2), true});
    }
    normView->setContent(norm);

    auto [rateView, rate] = single(rate_, "lr", 2);
    planned_ = std::make_shared<SeriesPyramid>();
    const auto& trainer = run_.spec().trainer;
    const int64_t steps = std::max<int64_t>(info ? info->steps : 0, trainer.steps);
    const auto lr = run_.metric(QStringLiteral("lr"));
    const double now = lr->empty() ? 0 : lr->lastX(),
                 stepSeconds = run_.recentMedian(QStringLiteral("step_ms"), 100) / 1e3;
    // Steps to come take as long as the last hundred.
    const auto xOfPlan = [&](int64_t step) {
        return xAxis() == kTime && double(step) > now
                   ? xOfStep(run_, now) + (double(step) - now) * (std::isfinite(stepSeconds) ? stepSeconds : 0)
                   : xOfStep(run_, double(step));
    };
    if (run_.loaded() && info && !info->ended()) {
        const int64_t from = lr->empty() ? 1 : int64_t(lr->lastX());
        for (int64_t k = 0; k <= 400; ++k) {
            const int64_t step = from + (steps - from) * k / 400;
            const double x = xOfPlan(step);
            if (std::isfinite(x) && (planned_->empty() || x > planned_->lastX())) {
                planned_->append(
                    x, float(engine::scheduledRate(trainer.schedule, double(trainer.optimizer.learningRate), step,
                                                   trainer.steps)));
            }
        }
    }
    PlotCurve plan;
    plan.name = QStringLiteral("planned");
    plan.data = planned_;
    plan.ink = Ink::of(Token::Text2);
    plan.width = 1.4;
    plan.dash = {4, 3};
    plan.legendValue = plan.snaps = false;
    if (!planned_->empty()) {
        rate.curves.push_back(plan);
    }
    rateView->setContent(rate);
    const double end = xOfPlan(std::max<int64_t>(steps, 1));
    rateView->setOwnRange(0, (std::isfinite(end) && end > 0 ? end : 1) * 1.01);

    auto [speedView, speed] = single(speed_, "tokens_per_s", 1.2);
    if (const double rateOfBase = base_.recentMedian(QStringLiteral("tokens_per_s"), 100);
        base && std::isfinite(rateOfBase)) {
        speed.lines.push_back({rateOfBase, QStringLiteral("%1  %2").arg(baselineName(), formatRate(rateOfBase)),
                               Ink::of(Token::Text2), true});
    }
    speedView->setContent(speed);
    updateEvents();
    extend();
}

void LivePage::extend() {
    if (!smooth_) {
        return;
    }
    if (planIsOver()) return rebuild();
    // A run that goes grows into a longer average.
    if (smoothingChosen_ == kAutoSmoothing && autoSmoothing(qint64(run_.lastStep())) != alpha_) return rebuild();
    const auto raw = run_.metric(QStringLiteral("loss"));
    extendSmoothed(*raw, *smooth_, average_);
    if (hasBaseline()) {
        updateDifference();
    }
    extendMapped();
    if (hasBaseline()) {
        if (!difference_->empty()) {
            double sum = 0;
            size_t count = 0;
            for (size_t i = difference_->size() - std::min<size_t>(difference_->size(), 1000); i < difference_->size();
                 ++i) {
                if (std::isfinite(difference_->y(i))) {
                    sum += double(difference_->y(i));
                    ++count;
                }
            }
            stripMean_->setText(count ? QStringLiteral("mean of the last %1 steps  %2")
                                            .arg(formatCount(qint64(count)), formatLossDifference(sum / double(count)))
                                      : QString());
        }
    }
    if (!raw->empty()) {
        if (const double last = xOfStep(run_, raw->lastX()); std::isfinite(last)) {
            link_.setExtent(0, last);
        }
        sinceData_.restart();
    }
    if (!isVisible()) {
        return;
    }
    for (PlotView* view : {loss_, strip_, norm_, rate_, speed_}) {
        if (view->isVisible()) {
            view->dataChanged();
        }
    }
    health_->refresh();
    updateFigures();
    updateLedger();
    updateState();
}

void LivePage::updateEvents() {
    std::vector<PlotEvent> events = railEvents(run_.events());
    for (PlotEvent& event : events) {
        event.x = xOfStep(run_, event.x);
    }
    std::erase_if(events, [](const PlotEvent& event) { return !std::isfinite(event.x); });
    for (PlotView* view : {loss_, strip_, norm_, speed_}) {
        view->setEvents(events);
    }
}

}  // namespace mantissa::gui
