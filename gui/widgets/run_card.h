// Card under the run list: recipe, effective precision, data, device, seed, start, baseline, note of the selected run.
#pragma once

#include <QGridLayout>
#include <QToolButton>
#include <QWidget>
#include <map>
#include <vector>

#include "gui/models/run_info.h"
#include "gui/widgets/card.h"

namespace mantissa::gui {

class RunController;

class RunCard : public QWidget {
    Q_OBJECT
  public:
    explicit RunCard(RunController& controller, QWidget* parent = nullptr);
    /// One run: its facts; several: a summary of what is compared; none: hidden.
    void setRuns(const QStringList& ids);
    QString asText() const;  ///< "name value" lines for the clipboard

  private:
    void refresh();
    void showOne(const RunInfo& info);
    void showMany();
    void setRow(const QString& name, const QString& value, Token token = Token::Text);
    void loadDocument(const QString& id);

    RunController& controller_;
    QStringList ids_;
    TextLabel *title_, *note_;
    QToolButton* copy_;
    QGridLayout* grid_;
    QVector<QPair<TextLabel*, TextLabel*>> rows_;
    int used_ = 0;
    QString documentOf_;
    QString data_, effective_;
};

/// Seeds by size, each once, three and more in a row as "1 to 20"; of more than six parts the first five, and how many
/// seeds there are: "1, 3, 5, 7, 9, … (40 seeds)".
QString seedList(std::vector<quint64> seeds);

}  // namespace mantissa::gui
