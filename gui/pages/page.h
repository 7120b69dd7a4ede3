// Base class of a page: what is selected, and the rule that a hidden page does no work.
#pragma once

#include <QString>
#include <QStringList>
#include <QWidget>

namespace mantissa::gui {

class RunController;

/// A page of the window's stack. All slots run on the GUI thread and return at once: data comes through
/// RunController::load(). MainWindow calls the setters; a page that is hidden only notes what changed, and refresh() is
/// called when it is shown again.
class Page : public QWidget {
    Q_OBJECT
  public:
    explicit Page(RunController& controller, QWidget* parent = nullptr) : QWidget(parent), controller_(controller) {}

    /// The selected run ("" = none).
    void setRun(const QString& id) {
        if (id == run_) return;
        run_ = id;
        changed();
    }
    /// All selected runs, in list order; holds run() first.
    void setVisibleRuns(const QStringList& ids) {
        if (ids == visibleRuns_) return;
        visibleRuns_ = ids;
        changed();
    }
    /// The pinned baseline ("" = none).
    void setBaseline(const QString& id) {
        if (id == baseline_) return;
        baseline_ = id;
        changed();
    }
    const QString& run() const { return run_; }
    const QStringList& visibleRuns() const { return visibleRuns_; }
    const QString& baseline() const { return baseline_; }
    RunController& controller() const { return controller_; }

    /// Widgets for the right end of the tab bar while this page is open (X axis, smoothing, Follow ...); owned by the
    /// page. May be null.
    virtual QWidget* tools() { return nullptr; }
    /// Panel that becomes a drawer below 1280 px (FP8 health, inspector, differences). May be null.
    virtual QWidget* sidePanel() { return nullptr; }
    /// One line for the right end of the status bar.
    virtual QString statusText() const { return QString(); }
    /// Asks the page to show a tensor ("h.9/mlp.fc2/grad_output") at a step (< 0: newest). Default: nothing.
    virtual void showTensor(const QString& tensor, qint64 step) {
        Q_UNUSED(tensor);
        Q_UNUSED(step);
    }

    /// Brings a step into view and puts the cursor there. Default: nothing.
    virtual void showStep(qint64 step) { Q_UNUSED(step); }

  signals:
    void statusTextChanged();
    /// Go to another page's tensor: MainWindow opens Numerics.
    void tensorRequested(const QString& tensor, qint64 step);
    void pageRequested(const QString& name);
    /// Start the given run again with another precision: opens the launch dialog with the spec (JSON) filled in.
    void launchRequested(const QString& specJson);
    /// Go on from a checkpoint of a run as a child with this spec: opens the fork dialog. step 0: from the start; -1:
    /// from now.
    void forkRequested(const QString& run, qint64 step, const QString& specJson);
    /// The running job takes what this spec changes between two steps.
    void changeRequested(const QString& run, const QString& specJson);
    /// Select another run.
    void runRequested(const QString& run);
    /// Show a scalar metric ("loss") at a step on the Live page.
    void metricRequested(const QString& metric, qint64 step);

  protected:
    /// Selection, baseline or data changed while visible, or the page was shown: load what is needed, then repaint.
    virtual void refresh() = 0;

    /// Call when data changed: refreshes now when visible, else at the next show.
    void changed() {
        stale_ = true;
        if (isVisible()) {
            stale_ = false;
            refresh();
        }
    }
    void showEvent(QShowEvent* event) override {
        QWidget::showEvent(event);
        if (stale_) changed();
    }

  private:
    RunController& controller_;
    QString run_, baseline_;
    QStringList visibleRuns_;
    bool stale_ = true;
};

}  // namespace mantissa::gui
