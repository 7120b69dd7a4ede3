// New run: presets and earlier runs, the form, what it will need, what runs in FP8. Not modal.
#pragma once

#include <QDialog>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QScrollArea>
#include <QTimer>

#include "gui/dialogs/forecast_panel.h"
#include "gui/dialogs/spec_form.h"
#include "gui/widgets/glyph_label.h"

namespace mantissa::gui {

class RunController;

class LaunchDialog : public QDialog {
    Q_OBJECT
  public:
    LaunchDialog(RunController& controller, QWidget* parent = nullptr);

    /// A spec as JSON; errors in it are shown in the foot.
    void setSpec(const QString& json);
    /// Marks the preset in the list and fills nothing in; a name that the list has not takes the mark away.
    void markPreset(const QString& name);
    SpecForm& form() { return *form_; }
    QPushButton* startButton() const { return start_; }
    ForecastPanel& forecastPanel() { return *forecast_; }
    QListWidget& presetList() { return *list_; }

  protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void showEvent(QShowEvent* event) override;

  private:
    QWidget* makeHead();
    QWidget* makeList();
    QWidget* makeFoot();
    void fillList();
    void fitColumns();
    void chooseEntry(int row);
    void edited();
    void askForecast();
    void updateButtons();
    void start();
    void startTwin();
    void queue();
    void launch(const experiments::RunSpec& spec, const QString& name);
    void openSpec();
    void toggleCell(const QStringList& layers, const QString& linear, int gemm, bool bf16);

    RunController& controller_;
    QWidget* side_;
    QLineEdit* search_;
    QListWidget* list_;
    QScrollArea *fields_, *right_;
    SpecForm* form_;
    ForecastPanel* forecast_;
    GlyphLabel* footIcon_;
    TextLabel* foot_;
    QPushButton *start_, *queue_, *twin_;
    QTimer forecastTimer_;
};

}  // namespace mantissa::gui
