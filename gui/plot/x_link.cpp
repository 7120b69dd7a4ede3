#include "gui/plot/x_link.h"

#include <algorithm>
#include <cmath>

namespace mantissa::gui {

XLink::Range XLink::allRange() const {
    const double span = std::max(extent_.high - extent_.low, minimumSpan_);
    return {extent_.low, extent_.low + span * 1.02};  // the newest sample is not drawn on the very edge
}

void XLink::apply(Range range, bool all) {
    all_ = all;
    if (range == view_) {
        return;
    }
    view_ = range;
    Q_EMIT viewChanged();
}

void XLink::setExtent(double low, double high) {
    if (!std::isfinite(low) || !std::isfinite(high) || high < low) {
        return;
    }
    extent_ = {low, high};
    if (!follow_) {
        return;
    }
    if (all_) {
        apply(allRange(), true);
    } else if (const double span = view_.high - view_.low; high > view_.high || high < view_.high - span * 0.05) {
        apply({high - span * 0.98, high + span * 0.02}, false);
    }
}

void XLink::setView(double low, double high, bool remember) {
    const Range whole = allRange();
    double span = std::clamp(high - low, std::min(minimumSpan_, whole.high - whole.low), whole.high - whole.low);
    low = std::clamp(low + (high - low - span) / 2, whole.low, whole.high - span);
    const Range next{low, low + span};
    const bool all = next.high - next.low >= (whole.high - whole.low) * 0.9999;
    if (next == view_ && all == all_) {
        return;
    }
    if (remember) {
        past_.push_back(view_);
        future_.clear();
        Q_EMIT historyChanged();
    }
    const bool tail = next.high >= extent_.high;
    if (follow_ && !tail) {
        follow_ = false;
        Q_EMIT followChanged(false);
    }
    apply(next, all);
}

void XLink::showAll() {
    const Range whole = allRange();
    setView(whole.low, whole.high);
}

void XLink::zoom(double factor, double around) {
    setView(around - (around - view_.low) * factor, around + (view_.high - around) * factor);
}

void XLink::pan(double amount) {
    setView(view_.low + amount, view_.high + amount, false);
}

void XLink::back() {
    if (past_.empty()) {
        return;
    }
    const Range target = past_.back();
    past_.pop_back();
    future_.push_back(view_);
    setView(target.low, target.high, false);
    Q_EMIT historyChanged();
}

void XLink::forward() {
    if (future_.empty()) {
        return;
    }
    const Range target = future_.back();
    future_.pop_back();
    past_.push_back(view_);
    setView(target.low, target.high, false);
    Q_EMIT historyChanged();
}

void XLink::setFollow(bool on) {
    if (on == follow_) {
        return;
    }
    follow_ = on;
    if (on) {
        const double span = view_.high - view_.low;
        const bool all = all_;
        apply(all ? allRange() : Range{extent_.high - span * 0.98, extent_.high + span * 0.02}, all);
    }
    Q_EMIT followChanged(on);
}

void XLink::setCursor(double x) {
    if (x == cursor_ || (std::isnan(x) && std::isnan(cursor_))) {
        return;
    }
    cursor_ = x;
    Q_EMIT cursorChanged();
}

void XLink::reset() {
    past_.clear();
    future_.clear();
    const bool was = follow_;
    follow_ = true;
    apply(allRange(), true);
    clearCursor();
    Q_EMIT historyChanged();
    if (!was) {
        Q_EMIT followChanged(true);
    }
}

}  // namespace mantissa::gui
