// A row of joined buttons of which one is chosen: statistic, role.
#pragma once

#include <QStringList>
#include <QWidget>

namespace mantissa::gui {

/// 28 px high; Left and Right choose. Narrower than its texts need: it scrolls so that the chosen one is in sight.
class SegmentedBar : public QWidget {
    Q_OBJECT
  public:
    explicit SegmentedBar(const QString& name, const QStringList& segments, QWidget* parent = nullptr);
    void setToolTips(const QStringList& texts) { toolTips_ = texts; }
    int current() const { return current_; }
    void setCurrent(int index);
    void clearCurrent();  ///< none is chosen, without a signal
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

  signals:
    void currentChanged(int index);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool event(QEvent* event) override;
    void focusInEvent(QFocusEvent*) override { update(); }
    void focusOutEvent(QFocusEvent*) override { update(); }

  private:
    std::vector<double> edges() const;
    int segmentAt(double x) const;
    QString name_;
    QStringList segments_, toolTips_;
    int current_ = 0, hovered_ = -1;
};

}  // namespace mantissa::gui
