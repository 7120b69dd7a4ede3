// The painted parts of the Formats page: codes with their bits, values around a number, ranges.
#pragma once

#include <QVector>
#include <QWidget>

#include "experiments/format_info.h"

namespace mantissa::gui {

/// The number in all formats; shared by the three widgets.
struct FormatView {
    double number = 0.1;
    float scale = 1;
    QVector<experiments::NumberFormat> formats;
    QVector<experiments::CodedNumber> coded;  ///< one a format
};

/// A row a format: bits as boxes, code, value, error, neighbours, limits. A click or space flips a bit; arrows move.
class CodesTable : public QWidget {
    Q_OBJECT
  public:
    explicit CodesTable(QWidget* parent = nullptr);
    void setView(const FormatView& view);
    QString asText() const;  ///< TSV, C locale
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return sizeHint(); }
    QRect bitRect(int row, int bit) const;  ///< bit 0 = sign (leftmost)

  Q_SIGNALS:
    void codeChosen(mantissa::experiments::NumberFormat format, quint32 code);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    bool event(QEvent* event) override;

  private:
    QVector<int> columnRights() const;
    void flip(int row, int bit);
    int bitsLeft() const;
    FormatView view_;
    int row_ = 0, bit_ = 1;
};

/// Each tick is one code; the arrow is the rounding error.
class NumberLines : public QWidget {
    Q_OBJECT
  public:
    explicit NumberLines(QWidget* parent = nullptr);
    void setView(const FormatView& view);
    QSize minimumSizeHint() const override { return {300, 26 + 38 * static_cast<int>(view_.formats.size()) + 22}; }

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    void paintLine(QPainter& p, int row, double low, double high);
    FormatView view_;
};

/// log2 of the range of each format, subnormals hatched, the number as a dashed line.
class RangeBars : public QWidget {
    Q_OBJECT
  public:
    explicit RangeBars(QWidget* parent = nullptr);
    void setView(const FormatView& view);
    QSize minimumSizeHint() const override { return {300, 10 + 26 * static_cast<int>(view_.formats.size()) + 24}; }

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    FormatView view_;
};

/// Decimal text of an exact value, at most 9 digits; powers of two beyond ±10 as 2ⁿ.
QString exactText(double value);
/// "2⁻¹⁶".
QString powerOfTwoText(int exponent);

}  // namespace mantissa::gui
