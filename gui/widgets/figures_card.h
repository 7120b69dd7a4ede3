// A row of figures in one card: label, number with unit, and one line that says what the number means here.
#pragma once

#include <vector>

#include "gui/widgets/card.h"

namespace mantissa::gui {

struct Figure {
    QString label, value, unit;
    QString meaning;  ///< against baseline, plan, peak or limit
    Token meaningToken = Token::Text2;
    int glyph = -1;   ///< Glyph before the meaning; -1: none
    QString tooltip;  ///< how the number is made
    QString badge;    ///< right end of the label's row (Compare: the verdict)
    Token badgeToken = Token::Text2;
    int badgeGlyph = -1;
    int series = -1;  ///< line sample before the label
};

/// 78 px high. Columns get their width from their longest text, so no figure is cut; a column never jumps while its
/// number grows: the widths only grow. Numbers are real text for assistive tools.
class FiguresCard : public Card {
    Q_OBJECT
  public:
    explicit FiguresCard(QWidget* parent = nullptr);
    void setFigures(std::vector<Figure> figures);
    const std::vector<Figure>& figures() const { return figures_; }
    /// Numbers in text3 with their age: the run goes but nothing came for two seconds.
    void setStale(const QString& age);

  protected:
    void paintEvent(QPaintEvent* event) override;
    bool event(QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

  private:
    int columnAt(double x) const;
    std::vector<double> edges() const;
    std::vector<Figure> figures_;
    QString stale_;
};

}  // namespace mantissa::gui
