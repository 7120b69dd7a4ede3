// The X range, cursor and zoom history that the charts of one page share.
#pragma once

#include <QObject>
#include <limits>
#include <vector>

namespace mantissa::gui {

/// One visible X range for several charts. Following: the range ends at the newest data and moves with it; a zoom or
/// pan that leaves the tail turns that off, and new data never moves a range that does not follow. GUI thread only.
class XLink : public QObject {
    Q_OBJECT
  public:
    struct Range {
        double low = 0, high = 1;
        bool operator==(const Range& other) const { return low == other.low && high == other.high; }
    };
    explicit XLink(QObject* parent = nullptr) : QObject(parent) {}

    /// What there is: first and last x of all data. Grows the view while it follows.
    void setExtent(double low, double high);
    Range extent() const { return extent_; }
    Range view() const { return view_; }
    /// remember: puts the present view on the history. The view is kept inside the extent and not narrower than
    /// minimumSpan().
    void setView(double low, double high, bool remember = true);
    void showAll();
    void zoom(double factor, double around);
    void pan(double amount);
    void back();
    void forward();
    bool canBack() const { return !past_.empty(); }
    bool canForward() const { return !future_.empty(); }
    bool follows() const { return follow_; }
    void setFollow(bool on);
    bool showsAll() const { return all_; }
    void setMinimumSpan(double span) { minimumSpan_ = span; }

    double cursor() const { return cursor_; }  ///< NaN: none
    void setCursor(double x);
    void clearCursor() { setCursor(std::numeric_limits<double>::quiet_NaN()); }
    /// Forgets history and zoom: another run is shown.
    void reset();

  signals:
    void viewChanged();
    void cursorChanged();
    void followChanged(bool on);
    void historyChanged();

  private:
    Range allRange() const;
    void apply(Range range, bool all);

    Range extent_{0, 1}, view_{0, 1};
    std::vector<Range> past_, future_;
    double cursor_ = std::numeric_limits<double>::quiet_NaN();
    double minimumSpan_ = 4;
    bool follow_ = true, all_ = true;
};

}  // namespace mantissa::gui
