// The inspector of one tensor: name, format, who reads it, verdict, amax window, exponents, facts.
#pragma once

#include "gui/models/alarm_rules.h"
#include "gui/models/captured_tensor.h"
#include "gui/models/run_series.h"
#include "gui/models/tensor_report.h"
#include "gui/models/what_if_rows.h"
#include "gui/widgets/card.h"
#include "gui/widgets/message_strip.h"
#include "gui/widgets/tensor_views.h"
#include "gui/widgets/what_if_table.h"

class QPushButton;
class QVBoxLayout;
class QToolButton;

namespace mantissa::gui {

class BlockMapView;

class Inspector : public Card {
    Q_OBJECT
  public:
    explicit Inspector(QWidget* parent = nullptr);
    /// A report without a record shows that nothing was recorded.
    void showTensor(const experiments::RunDocument& document, const experiments::RunSpec& spec,
                    const TensorReport& report);
    void clear(const QString& why);
    QString verdictText() const;
    void clearWhatIf();
    /// The tensor of a run that goes can be captured.
    void setGoing(bool going);
    /// going: the running job can take a change.
    void showWhatIf(const experiments::RunDocument& document, const experiments::RunSpec& spec, WhatIfReport report,
                    bool going);
    /// Nothing to show when the tensor was not captured.
    void showCaptured(CapturedReport report);
    WhatIfTable* whatIfTable() const { return whatIf_; }
    WhatIfTable* capturedTable() const { return cast_; }
    QPushButton* useButton() const { return use_; }
    QPushButton* forkButton() const { return fork_; }

  Q_SIGNALS:
    /// The chosen row of the what-if as a spec: for the running job (live), or for a fork.
    void specRequested(const QString& specJson, bool live);
    void captureRequested(const QString& tensor);

  private:
    void buildWhatIf(QVBoxLayout& rows);
    void buildCaptured(QVBoxLayout& rows);
    void showBlocks();
    void updateButtons();
    void requestSpec(bool live);
    void fillFacts(const engine::CatalogueEntry& entry, const TensorReport& report);
    TextLabel *name_ = nullptr, *step_ = nullptr, *windowHint_ = nullptr, *exponentHint_ = nullptr, *empty_ = nullptr;
    ChipRow* chips_ = nullptr;
    MessageStrip* verdict_ = nullptr;
    QWidget *content_ = nullptr, *windowPart_ = nullptr, *exponentPart_ = nullptr;
    AmaxWindowView* window_ = nullptr;
    ExponentsView* exponents_ = nullptr;
    FactGrid* facts_ = nullptr;
    QWidget *whatIfPart_ = nullptr, *whatIfFoot_ = nullptr;  ///< the foot stays in view while the rest scrolls
    TextLabel* whatIfHint_ = nullptr;
    WhatIfTable* whatIf_ = nullptr;
    QPushButton *use_ = nullptr, *fork_ = nullptr;
    QToolButton* capture_ = nullptr;
    QString tensorName_;
    QWidget *capturedPart_ = nullptr, *blockPart_ = nullptr;
    TextLabel *capturedHint_ = nullptr, *blockHint_ = nullptr;
    WhatIfTable* cast_ = nullptr;
    BlockMapView* blocks_ = nullptr;
    CapturedReport captured_;
    WhatIfReport report_;
    engine::CatalogueEntry entry_;
    experiments::RunSpec spec_;
    bool going_ = false;
};

}  // namespace mantissa::gui
