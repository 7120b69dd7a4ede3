#include "gui/plot/chart_tools.h"

#include <QHBoxLayout>
#include <QMenu>
#include <utility>

#include "gui/plot/plot_view.h"
#include "gui/theme/icons.h"

namespace mantissa::gui {
namespace {

QToolButton* addTool(QHBoxLayout* row, Glyph glyph, const QString& name, const QString& tip) {
    auto* button = new QToolButton(row->parentWidget());
    button->setIcon(icon(glyph));
    button->setAccessibleName(name);
    button->setToolTip(tip);
    row->addWidget(button);
    return button;
}

}  // namespace

QWidget* makeToolRow(QWidget* parent, QHBoxLayout** row) {
    auto* tools = new QWidget(parent);
    *row = new QHBoxLayout(tools);
    (*row)->setContentsMargins(0, 0, 0, 0);
    (*row)->setSpacing(8);
    return tools;
}

QToolButton* addZoomBack(QHBoxLayout* row, XLink& link) {
    QToolButton* back = addTool(row, Glyph::Undo, QStringLiteral("Zoom back"), QStringLiteral("Zoom back (Alt+←)"));
    back->setEnabled(false);
    QObject::connect(back, &QToolButton::clicked, &link, &XLink::back);
    QObject::connect(&link, &XLink::historyChanged, back, [back, &link] { back->setEnabled(link.canBack()); });
    return back;
}

QToolButton* addFollow(QHBoxLayout* row, XLink& link) {
    QToolButton* follow =
        addTool(row, Glyph::Follow, QStringLiteral("Follow"), QStringLiteral("Keep the newest steps in view (F)"));
    follow->setText(QStringLiteral("Follow"));
    follow->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    follow->setCheckable(true);
    follow->setChecked(true);
    QObject::connect(follow, &QToolButton::clicked, &link, &XLink::setFollow);
    QObject::connect(&link, &XLink::followChanged, follow, &QToolButton::setChecked);
    return follow;
}

QToolButton* addExport(QHBoxLayout* row, std::function<PlotView*()> view) {
    QToolButton* exporting =
        addTool(row, Glyph::Export, QStringLiteral("Export"), QStringLiteral("Copy, show or export the chart"));
    exporting->setPopupMode(QToolButton::InstantPopup);
    auto* menu = new QMenu(exporting);
    QObject::connect(menu, &QMenu::aboutToShow, menu,
                     [menu, view = std::move(view)] {  // filled anew: it shows the scale in force
                         qDeleteAll(menu->findChildren<QMenu*>());
                         menu->clear();
                         view()->fillMenu(*menu);
                     });
    exporting->setMenu(menu);
    return exporting;
}

}  // namespace mantissa::gui
