// Diagnosis: what is wrong where and since when, the evidence, the likely cause, what would help, what a change
// brought.
#pragma once

#include <QPushButton>
#include <QTableWidget>
#include <memory>
#include <optional>

#include "experiments/report/diagnosis.h"
#include "experiments/spec/run_spec.h"
#include "gui/models/run_info.h"
#include "gui/widgets/card.h"
#include "gui/widgets/message_strip.h"
#include "gui/widgets/note_list.h"

class QVBoxLayout;

namespace mantissa::gui {

/// The spec with the fields of a proposed change; empty with a sentence in `why` when it does not take them.
std::optional<experiments::RunSpec> withChange(const experiments::RunSpec& spec,
                                               const experiments::ProposedChange& change, QString* why);

class DiagnosisView : public QWidget {
    Q_OBJECT
  public:
    explicit DiagnosisView(QWidget* parent = nullptr);
    /// run: null when it left the list. The finding chosen before stays chosen when there is one of its kind and place.
    void showDiagnosis(std::shared_ptr<const experiments::Diagnosis> diagnosis, const experiments::RunSpec& spec,
                       const RunInfo* run);
    void showReading();
    const experiments::Diagnosis* diagnosis() const { return diagnosis_.get(); }
    void choose(int finding);
    int chosen() const { return finding_; }
    QTableWidget* changes() const { return changes_; }
    QPushButton* applyButton() const { return apply_; }
    QPushButton* forkButton() const { return fork_; }
    QPushButton* lookOverButton() const { return edit_; }

  Q_SIGNALS:
    /// Show a series of a chart at a step ("numerics/h.1/…/clipped_share", "loss").
    void evidenceRequested(const QString& series, qint64 step);
    void tensorRequested(int tensor, qint64 step);
    void applyRequested(const QString& specJson);
    /// step 0: from the start. now: at once, else after a look at the fork dialog.
    void forkRequested(qint64 step, const QString& specJson, bool now);
    void runRequested(const QString& id);

  private:
    QWidget* buildDetail();
    void fillDetail();
    void fillChanges(const experiments::Finding& finding);
    void updateButtons();
    void addEvidence(const experiments::Evidence& evidence);
    void addApplied(const experiments::AppliedChange& applied);
    const experiments::ProposedChange* chosenChange() const;

    std::shared_ptr<const experiments::Diagnosis> diagnosis_;
    experiments::RunSpec spec_;
    bool going_ = false;
    int finding_ = -1;
    Card *list_ = nullptr, *detail_ = nullptr;
    NoteList* notes_ = nullptr;
    QWidget* content_ = nullptr;
    MessageStrip* what_ = nullptr;
    TextLabel *cause_ = nullptr, *why_ = nullptr, *empty_ = nullptr;
    QPushButton* place_ = nullptr;
    QVBoxLayout *evidence_ = nullptr, *applied_ = nullptr;
    QWidget *changesPart_ = nullptr, *appliedPart_ = nullptr;
    QTableWidget* changes_ = nullptr;
    QPushButton *apply_ = nullptr, *fork_ = nullptr, *edit_ = nullptr;
};

}  // namespace mantissa::gui
