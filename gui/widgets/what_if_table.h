// What other settings would make of a tensor: one row a setting, shares below and above the range, SQNR where known.
#pragma once

#include <QTableWidget>
#include <cmath>
#include <vector>

#include "gui/theme/theme.h"

namespace mantissa::gui {

struct WhatIfRow {
    QString setting;
    double underflow = NAN, clipped = NAN;  ///< shares of all elements; NaN: not known
    double sqnr = NAN;                      ///< dB
    QString note;                           ///< behind the clipped share: "once"
    QString tooltip;
    bool asItIs = false;  ///< the setting in force
    bool usable = true;   ///< can be applied
    Token underflowToken = Token::Text, clippedToken = Token::Text;
};

/// Up and Down choose a row, Ctrl+C copies the table as TSV.
class WhatIfTable : public QTableWidget {
    Q_OBJECT
  public:
    explicit WhatIfTable(QWidget* parent = nullptr);
    /// withSqnr: a fourth column. The row chosen before stays chosen when a setting of that name is still there.
    void setRows(std::vector<WhatIfRow> rows, bool withSqnr, const QString& clippedHead);
    const std::vector<WhatIfRow>& rows() const { return rows_; }
    int chosen() const { return currentRow(); }
    QString tsv() const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return sizeHint(); }

  Q_SIGNALS:
    void chosenChanged(int row);

  protected:
    void keyPressEvent(QKeyEvent* event) override;
    bool viewportEvent(QEvent* event) override;

  private:
    void fill();
    std::vector<WhatIfRow> rows_;
    bool withSqnr_ = false;
};

}  // namespace mantissa::gui
