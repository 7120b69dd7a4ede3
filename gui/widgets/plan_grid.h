// The precision plan as a grid: layers by linear by product (fprop, dgrad, wgrad); cells toggle between the recipe and
// BF16.
#pragma once

#include <QSet>
#include <QVector>
#include <QWidget>

#include "experiments/report/forecast.h"

namespace mantissa::gui {

class PlanGrid : public QWidget {
    Q_OBJECT
  public:
    explicit PlanGrid(QWidget* parent = nullptr);

    /// Rows of plannedPrecision(). Equal neighbouring layers share a row, but the first and last two of a model stay
    /// apart.
    void setPlan(const std::vector<engine::EffectivePrecision>& plan);
    int fp8Products() const { return fp8_; }
    int products() const { return total_; }
    bool hasFp8Recipe() const { return fp8_ > 0; }

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return sizeHint(); }

  Q_SIGNALS:
    /// layers: names of the row ("h.2" … ), linear "attn.qkv", "" for lm_head, gemm 0 fprop, 1 dgrad, 2 wgrad; bf16:
    /// what the cells shall become.
    void cellToggled(const QStringList& layers, const QString& linear, int gemm, bool bf16);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    bool event(QEvent* event) override;

  private:
    struct Row {
        QString title;
        QStringList layers;
        QVector<QString> cells;  ///< "e4", "e5", "bf", "32", … in order of linear, gemm
        QStringList linears;
    };
    QRect cellRect(int row, int column) const;
    QPair<int, int> cellAt(const QPoint& position) const;
    void toggle(int row, int column, bool bf16);
    QString cellName(int row, int column) const;
    int labelWidth() const;
    int rowTop(int row) const;

    QVector<Row> rows_;
    int fp8_ = 0, total_ = 0;
    int row_ = 0, column_ = 0;
    bool painting_ = false;
    QSet<QPair<int, int>> painted_;
};

}  // namespace mantissa::gui
