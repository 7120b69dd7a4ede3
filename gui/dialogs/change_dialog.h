// Change a run: fields and plan cells while it goes, or a child run from one of its checkpoints (or from now) with
// changed fields. Not modal.
#pragma once

#include <QCheckBox>
#include <QComboBox>
#include <QDialog>
#include <QLineEdit>
#include <QPushButton>
#include <optional>

#include "experiments/spec/run_spec.h"
#include "experiments/store/run_types.h"
#include "gui/widgets/card.h"
#include "gui/widgets/glyph_label.h"
#include "gui/widgets/plan_grid.h"

class QGridLayout;

namespace mantissa::gui {

class RunController;

class ChangeDialog : public QDialog {
    Q_OBJECT
  public:
    enum class Mode { WhileItRuns, Fork };
    ChangeDialog(RunController& controller, const QString& run, Mode mode, QWidget* parent = nullptr);

    /// The form shows this spec's values; what differs from the run's own counts as changed. Before or after the run
    /// was read.
    void setSpec(const QString& specJson);
    /// Fork: the checkpoint of this step is chosen ("now" for −1).
    void setForkStep(qint64 step);

    bool ready() const { return ready_; }
    const std::vector<experiments::SpecDifference>& changes() const { return changes_; }
    QString problem() const { return problem_.isEmpty() ? blocked_ : problem_; }
    QWidget* input(const QString& path) const { return inputs_.value(path); }
    QPushButton* goButton() const { return go_; }
    QComboBox* fromField() const { return from_; }
    PlanGrid& asked() const { return *asked_; }
    PlanGrid& effective() const { return *effective_; }

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    struct Loaded;
    QWidget* makeForm();
    QWidget* makePlans();
    QWidget* makeFoot();
    void addHead(QGridLayout& grid, const QString& title);
    QWidget* addField(QGridLayout& grid, const QString& title, const QString& path, QWidget* input,
                      const QString& note);
    void take(Loaded loaded);
    void fillFrom(const std::vector<experiments::CheckpointRow>& checkpoints);
    void fillFields();
    void edited();
    void showFoot();
    void toggleCell(const QStringList& layers, const QString& linear, int gemm, bool bf16);
    void go();
    void fork();
    void forkFromCheckpoint(qint64 step);
    void waitForCheckpoint(qint64 since, int tries);
    QString valueText(const QString& path) const;

    RunController& controller_;
    QString run_, runName_;
    Mode mode_;
    bool ready_ = false, filling_ = false, busy_ = false;
    experiments::RunSpec original_, shown_, edited_;
    std::optional<QString> wantedSpec_;
    std::optional<qint64> wantedStep_;
    std::vector<engine::PrecisionRule> rules_;
    std::vector<experiments::SpecDifference> changes_;
    QString problem_, wrongPath_;  ///< of the fields
    QString blocked_;              ///< why nothing can start, whatever the fields say
    QHash<QString, QWidget*> inputs_;
    int row_ = 0;
    QComboBox* from_ = nullptr;
    QLineEdit *name_ = nullptr, *others_ = nullptr;
    QCheckBox* stop_ = nullptr;
    PlanGrid *asked_ = nullptr, *effective_ = nullptr;
    TextLabel *head_ = nullptr, *askedHead_ = nullptr, *effectiveHead_ = nullptr, *foot_ = nullptr;
    GlyphLabel* footIcon_ = nullptr;
    QPushButton* go_ = nullptr;
};

}  // namespace mantissa::gui
