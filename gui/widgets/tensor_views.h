// Painted parts of the inspector: amax window, exponents against the range of the scale, facts.
#pragma once

#include <QWidget>
#include <vector>

#include "experiments/store/run_types.h"
#include "gui/theme/theme.h"

namespace mantissa::gui {

/// Limits of a tensor's FP8 format, in the units of `stored`.
struct Fp8Range {
    double largest = 448;     ///< M
    int leastNormal = -6;     ///< log2 of the smallest normal
    int leastSubnormal = -9;  ///< log2 of the smallest subnormal
    const char* name = "E4M3";
};
Fp8Range fp8Range(const std::string& format);

/// Every entry of the window a bar (log2), the one that rules marked with its step and when it leaves; non-finite
/// entries a cross.
class AmaxWindowView : public QWidget {
    Q_OBJECT
  public:
    explicit AmaxWindowView(QWidget* parent = nullptr);
    void setWindow(const experiments::AmaxWindow& window);
    QSize sizeHint() const override { return {320, 88}; }

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    experiments::AmaxWindow window_;
};

/// Share of values a binade with the range that the scale in force holds; subnormals hatched, shares outside named.
class ExponentsView : public QWidget {
    Q_OBJECT
  public:
    explicit ExponentsView(QWidget* parent = nullptr);
    void setExponents(const experiments::Exponents& exponents, const Fp8Range& range, double scale, double amax);
    QSize sizeHint() const override { return {320, 122}; }

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    experiments::Exponents exponents_;
    Fp8Range range_;
    double scale_ = 1, amax_ = 0;
};

struct Fact {
    QString name, value, tooltip;
    Token token = Token::Text;
    QString copy;  ///< full precision; "" = value
};

/// Names left, numbers right, in two columns. Ctrl+C copies "name value" lines.
class FactGrid : public QWidget {
    Q_OBJECT
  public:
    explicit FactGrid(QWidget* parent = nullptr);
    void setFacts(std::vector<Fact> left, std::vector<Fact> right);
    QString text() const;
    QSize sizeHint() const override;

  protected:
    void paintEvent(QPaintEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool event(QEvent* event) override;
    void focusInEvent(QFocusEvent*) override { update(); }
    void focusOutEvent(QFocusEvent*) override { update(); }

  private:
    std::vector<Fact> left_, right_;
};

/// Rounded labels in a row.
class ChipRow : public QWidget {
    Q_OBJECT
  public:
    explicit ChipRow(QWidget* parent = nullptr);
    void setChips(const QStringList& chips, const std::vector<Token>& tokens = {});
    QSize sizeHint() const override { return {300, height()}; }

  protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent*) override { place(); }

  private:
    void place();  ///< chips that do not fit beside the others begin another line
    std::vector<QRectF> places_;
    QStringList chips_;
    std::vector<Token> tokens_;
};

}  // namespace mantissa::gui
