// Which tensor and step the Numerics page shows: clicks, links, alerts and keys.
#include <QComboBox>
#include <QKeyEvent>
#include <QLineEdit>
#include <QToolButton>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/pages/live_health.h"
#include "gui/pages/numerics_page.h"
#include "gui/plot/heat_widgets.h"
#include "gui/widgets/segmented_bar.h"

namespace mantissa::gui {

void NumericsPage::selectTensor(int tensor) {
    tensor_ = tensor;
    nobodyChose_ = false;
    const auto& catalogue = run_.document().catalogue;
    if (tensor < 0 || tensor >= int(catalogue.size())) {
        inspector_->clear(
            run_.loaded() && catalogue.empty()
                ? QStringLiteral("No tensor was probed in this run. Probes can be switched on while it runs.")
                : QStringLiteral("Choose a row of the heatmap."));
        clearTensor();
        return;
    }
    if (view_->currentIndex() == kLayerByStep && int(catalogue[size_t(tensor)].role) != roles_->current()) {
        roles_->setCurrent(int(catalogue[size_t(tensor)].role));
    }
    if (const int row = heat_->rowOfTensor(tensor); row >= 0 && row != heat_->selected()) {
        QSignalBlocker quiet(heat_);
        heat_->select(row);
    }
    grid_->setMarked(tensor);
    if (mode_ != Mode::Heatmap) {
        return;  // read when the heatmap is shown again
    }
    const QString title = tensorTitle(catalogue[size_t(tensor)]);
    const QString plain = title + QStringLiteral(": not cast, nothing recorded");
    const bool cast = isFp8(catalogue[size_t(tensor)]);
    amaxHint_->setText(cast ? title + QStringLiteral(", log₂") : plain);
    countersHint_->setText(cast ? title + QStringLiteral(", % of elements, log") : plain);
    loadTensor();
    loadReport();
    loadWhatIf();
}

void NumericsPage::showTensor(const QString& tensor, qint64 step) {
    setMode(Mode::Heatmap);
    step_ = step;
    const auto& catalogue = run_.document().catalogue;
    if (catalogue.empty()) {
        wantedTensor_ = tensor;
        return;
    }
    for (size_t t = 0; t < catalogue.size(); ++t) {
        if (QString::fromStdString(engine::tensorName(catalogue[t])) == tensor) {
            selectTensor(int(t));
        }
    }
    if (step >= 0) {
        link_.setCursor(double(step));
    }
}

void NumericsPage::goToTensor(const QString& text) {
    const auto& catalogue = run_.document().catalogue;
    for (size_t t = 0; t < catalogue.size(); ++t) {
        if (tensorTitle(catalogue[t]).contains(text, Qt::CaseInsensitive) ||
            QString::fromStdString(engine::tensorName(catalogue[t])).contains(text, Qt::CaseInsensitive)) {
            selectTensor(int(t));
            heat_->setFocus();
            return;
        }
    }
}

/// The first non-finite value has a view of its own; without one, the first alert of a tensor is shown.
void NumericsPage::firstTrouble() {
    if (modeButtons_[int(Mode::Trouble)]->isVisibleTo(tools_)) {
        setMode(mode_ == Mode::Trouble ? Mode::Heatmap : Mode::Trouble);
        return;
    }
    const experiments::RunEvent* first = nullptr;
    for (const auto& event : run_.events()) {
        if (event.kind == "alert" && event.tensorIndex >= 0 && !first) {
            first = &event;
        }
    }
    if (!first) {
        return;
    }
    step_ = first->step;
    selectTensor(first->tensorIndex);
    const double half = std::max(20.0, (link_.extent().high - link_.extent().low) / 40);
    link_.setView(double(first->step) - half, double(first->step) + half);
    link_.setCursor(double(first->step));
}

void NumericsPage::stepAlert(int direction) {
    const double from = std::isnan(link_.cursor()) ? link_.extent().high + 1 : link_.cursor();
    const experiments::RunEvent* best = nullptr;
    for (const auto& event : run_.events()) {
        if (event.kind != "alert" || (direction > 0 ? double(event.step) <= from : double(event.step) >= from)) {
            continue;
        }
        if (!best || (direction > 0 ? event.step < best->step : event.step > best->step)) {
            best = &event;
        }
    }
    if (best) {
        step_ = best->step;
        if (best->tensorIndex >= 0) {
            selectTensor(best->tensorIndex);
        }
        link_.setCursor(double(best->step));
    }
}

void NumericsPage::keyPressEvent(QKeyEvent* event) {
    if (event->modifiers() & (Qt::ControlModifier | Qt::AltModifier)) {
        Page::keyPressEvent(event);
        return;
    }
    switch (event->key()) {
        case Qt::Key_BracketLeft:
            setStatistic(statistic_ - 1);
            return;
        case Qt::Key_BracketRight:
            setStatistic(statistic_ + 1);
            return;
        case Qt::Key_G:
            setMode(mode_ == Mode::Diagnosis ? Mode::Heatmap : Mode::Diagnosis);
            return;
        case Qt::Key_X:
            roles_->setCurrent(0);
            return;
        case Qt::Key_W:
            roles_->setCurrent(1);
            return;
        case Qt::Key_D:
            roles_->setCurrent(2);
            return;
        case Qt::Key_N:
            stepAlert(event->modifiers() & Qt::ShiftModifier ? -1 : 1);
            return;
        case Qt::Key_T:
            firstTrouble();
            return;
        case Qt::Key_Slash:
            goTo_->setFocus();
            return;
        default:
            Page::keyPressEvent(event);
    }
}

}  // namespace mantissa::gui
