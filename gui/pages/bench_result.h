// What the tensor bench found: scale, counters and next state; codes, blocks and all recipes, or decoded codes, or
// updates of the delayed rule.
#pragma once

#include <QStackedWidget>
#include <QTableView>
#include <QVector>

#include "gui/models/bench_tables.h"
#include "gui/models/captured_tensor.h"
#include "gui/widgets/card.h"

class QGridLayout;

namespace mantissa::gui {

class BlockMapView;
class SegmentedBar;

/// Made on a background thread. One of result, decoded and trace is set.
struct BenchOutput {
    SharedTensor result;
    std::vector<WhatIfRow> recipes;  ///< the values under every recipe
    BlockMap blocks;
    SharedDecoded decoded;
    SharedTrace trace;
    std::string format;
    bool fresh = false;  ///< a delayed scale that was never updated
};

class BenchResultView : public QWidget {
    Q_OBJECT
  public:
    explicit BenchResultView(QWidget* parent = nullptr);
    void showOutput(BenchOutput output);

    enum Part { Codes, Recipes, Blocks };
    void setPart(Part part);
    const BenchOutput& output() const { return output_; }
    const BenchModel& table() const { return *model_; }
    const BenchModel& blocks() const { return *blockModel_; }
    WhatIfTable& recipes() const { return *recipes_; }
    /// "scale ×" → "448"; "" when there is no such fact.
    QString fact(const QString& name) const;

  protected:
    void resizeEvent(QResizeEvent* event) override;

  private:
    QTableView* makeTable(BenchModel*& model, const QString& name, QWidget* parent);
    void setFact(const QString& name, const QString& value, const QString& tip, Token token = Token::Text);
    void showFacts();
    void showTraceFacts();
    void fitColumns(QTableView* table);
    void fitShown();

    BenchOutput output_;
    Card *factsCard_, *listCard_;
    QGridLayout* facts_;
    QVector<QPair<TextLabel*, TextLabel*>> factRows_;
    int used_ = 0;
    SegmentedBar* parts_;
    QStackedWidget* stack_;
    BenchModel *model_ = nullptr, *blockModel_ = nullptr;
    QTableView *table_ = nullptr, *blockTable_ = nullptr;
    WhatIfTable* recipes_;
    BlockMapView* map_;
    TextLabel* mapHint_;
};

}  // namespace mantissa::gui
