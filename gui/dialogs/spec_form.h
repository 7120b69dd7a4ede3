// The form of the launch dialog: fields bound to paths of a run spec, each with a note beside it and an error under it.
#pragma once

#include <QCheckBox>
#include <QComboBox>
#include <QHash>
#include <QLineEdit>
#include <QWidget>
#include <functional>

#include "experiments/report/device_report.h"
#include "experiments/spec/run_spec.h"
#include "gui/widgets/card.h"

class QGridLayout;
class QHBoxLayout;

namespace mantissa::gui {

/// One field that is wrong, as the foot of the dialog names it.
struct FieldError {
    QString title, message;
};

class SpecForm : public QWidget {
    Q_OBJECT
  public:
    explicit SpecForm(QWidget* parent = nullptr);

    /// Fills all fields; what the form does not show stays in the spec.
    void setSpec(const experiments::RunSpec& spec);
    /// The spec with the fields' values. Wrong fields keep their last good value; see errors().
    const experiments::RunSpec& spec() const { return spec_; }
    const QVector<FieldError>& errors() const { return errors_; }
    QString name() const;
    std::string device() const;
    void setDevices(const std::vector<experiments::DeviceReport>& reports);
    /// Precision rules made by clicks on the plan, after those typed under "By name".
    void setRules(const std::vector<engine::PrecisionRule>& rules);
    const std::vector<engine::PrecisionRule>& clickedRules() const { return clicked_; }

    /// For tests and the dialog: the input of a field by its spec path ("optimizer.learning_rate"), "name" and
    /// "device".
    QWidget* input(const QString& path) const { return inputs_.value(path); }

  Q_SIGNALS:
    void edited();

  private:
    struct Field {
        QString title;
        QStringList paths;
        TextLabel* note = nullptr;
        TextLabel* error = nullptr;
        QWidget* errorRow = nullptr;
        QVector<QWidget*> inputs;
        std::function<void(const experiments::RunSpec&)> show;
        std::function<std::vector<experiments::SpecError>(experiments::RunSpec&)> take;
        std::function<QString(const experiments::RunSpec&)> remark;
        QWidget *label = nullptr, *row = nullptr;
        std::function<bool(const experiments::RunSpec&)> shown;
    };
    void makeRunFields();
    void makeDataFields();
    void makePrecisionFields();
    void makeTrainingFields();
    void makeFaultFields();
    void makeFaultNumbers(QComboBox* kind);
    void offerTargets();
    std::vector<experiments::SpecError> takeFault(experiments::RunSpec& spec) const;
    void addHead(const QString& title);
    Field& addField(const QString& title, const QStringList& paths, const QVector<QWidget*>& inputs);
    QLineEdit* lineEdit(const QString& path, const QString& name, int width);
    QComboBox* comboBox(const QString& path, const QString& name, const QStringList& items, int width);
    /// A text field of one path; numbers may have thin spaces and the locale's decimal sign.
    Field& addText(const QString& title, const QString& path, int width, bool number);
    std::vector<experiments::SpecError> takeText(experiments::RunSpec& spec, const QString& path, bool number) const;
    void showText(const experiments::RunSpec& spec, const QString& path);
    std::vector<experiments::SpecError> takePatterns(experiments::RunSpec& spec) const;
    void update();
    void showErrors(const std::vector<experiments::SpecError>& found);

    QGridLayout* grid_;
    int row_ = 0;
    std::vector<std::unique_ptr<Field>> fields_;
    QHash<QString, QWidget*> inputs_;
    experiments::RunSpec spec_;
    std::vector<engine::PrecisionRule> clicked_;
    std::vector<engine::PlantedFault> otherFaults_;  ///< after the one that the fields show
    QVector<FieldError> errors_;
    bool filling_ = false;
};

}  // namespace mantissa::gui
