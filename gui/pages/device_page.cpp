#include "gui/pages/device_page.h"

#include <QApplication>
#include <QClipboard>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QPainter>
#include <QScrollArea>
#include <QStyledItemDelegate>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/controller/run_controller.h"
#include "gui/format/numbers.h"
#include "gui/theme/icons.h"

namespace mantissa::gui {
namespace {

constexpr int kTopic = 1;

QToolButton* headButton(Glyph glyph, const QString& text, const QString& tip, QWidget* parent) {
    auto* button = new QToolButton(parent);
    button->setIcon(icon(glyph));
    button->setText(text);
    button->setToolButtonStyle(text.isEmpty() ? Qt::ToolButtonIconOnly : Qt::ToolButtonTextBesideIcon);
    button->setToolTip(tip);
    button->setAccessibleName(text.isEmpty() ? tip : text);
    return button;
}

QString shortName(const experiments::DeviceReport& report) {
    if (report.device == "cpu") return QStringLiteral("CPU");
    QString name = QString::fromStdString(report.name);
    return name.remove(QStringLiteral("NVIDIA ")).remove(QStringLiteral("GeForce "));
}

/// State of one capability on one device: 0 native, 1 emulated, 2 missing, -1 not named.
int stateOf(const experiments::DeviceReport& report, const std::string& what, QString* why) {
    const std::vector<experiments::CapabilityRow>* lists[] = {&report.native, &report.emulated, &report.missing};
    for (int state = 0; state < 3; ++state)
        for (const auto& row : *lists[state])
            if (row.what == what) {
                *why = QString::fromStdString(row.why);
                return state;
            }
    return -1;
}

/// Cells begin under the text of their head.
class PaddedDelegate : public QStyledItemDelegate {
  public:
    using QStyledItemDelegate::QStyledItemDelegate;
    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        QStyleOptionViewItem inner = option;
        inner.rect.adjust(kPadding, 0, -kPadding, 0);
        if (option.state & QStyle::State_Selected) painter->fillRect(option.rect, color(Token::Sel));
        QStyledItemDelegate::paint(painter, inner, index);
    }
    QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        return QStyledItemDelegate::sizeHint(option, index) + QSize(2 * kPadding, 0);
    }

  private:
    static constexpr int kPadding = 5;  ///< and the style's own 3
};

}  // namespace

DevicePage::DevicePage(RunController& controller, QWidget* parent) : Page(controller, parent) {
    setAccessibleName(tr("Device"));
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(12, 12, 12, 12);
    column->setSpacing(10);
    cards_ = new QHBoxLayout;
    cards_->setSpacing(10);
    column->addLayout(cards_);
    waiting_ = new TextLabel(tr("Asking processor and driver"), Token::Text2, TextSize::Body, false, this);
    column->addWidget(waiting_);
    auto* what = new Card(tr("What runs where"),
                          tr("native: the chip has it. Emulated: the same codes and scales, the product in a wider "
                             "format, and the run says so"),
                          this);
    QToolButton* copy = headButton(Glyph::Copy, tr("Copy"), tr("Copy the table as text"), what);
    connect(copy, &QToolButton::clicked, this, [this] { QApplication::clipboard()->setText(asText()); });
    what->headTools()->addWidget(copy);
    table_ = new QTableWidget(what);
    table_->setTabKeyNavigation(false);
    table_->setAccessibleName(tr("What runs where"));
    table_->setToolTip(tr("Capability by device: native, emulated or absent, and why"));
    table_->verticalHeader()->hide();
    table_->verticalHeader()->setDefaultSectionSize(28);
    table_->setShowGrid(false);
    table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table_->setSelectionBehavior(QAbstractItemView::SelectRows);
    table_->setWordWrap(true);
    table_->setItemDelegate(new PaddedDelegate(table_));
    table_->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    what->body()->addWidget(table_);
    column->addWidget(what, 1);
    connect(&Theme::instance(), &Theme::changed, this, &DevicePage::rebuildTable);
}

void DevicePage::ask() {
    controller().compute(
        this, kTopic, [] { return experiments::deviceReports(); },
        [this](const std::vector<experiments::DeviceReport>& reports) { setReports(reports); },
        [this](const QString& error) { waiting_->setText(error); });
}

void DevicePage::setReports(const std::vector<experiments::DeviceReport>& reports) {
    reports_ = reports;
    waiting_->hide();
    rebuildCards();
    rebuildTable();
    Q_EMIT reportsChanged(reports_);
}

QString DevicePage::shortText() const {
    const experiments::DeviceReport* used = nullptr;
    for (const auto& report : reports_)
        if (report.usable && (!used || report.device != "cpu")) used = &report;
    if (!used) return tr("Asking");
    // Products with one scale a tensor; those with block scales have rows of their own.
    const bool native = std::any_of(used->native.begin(), used->native.end(),
                                    [](const auto& row) { return row.what.rfind("FP8 E4M3", 0) == 0; });
    return native ? tr("%1 \u00b7 FP8 native").arg(shortName(*used))
                  : tr("%1 \u00b7 FP8 emulated").arg(shortName(*used));
}

Card* DevicePage::makeCard(const experiments::DeviceReport& report, bool used) {
    auto* card = new Card(report.device == "cpu" ? tr("CPU")
                          : report.usable        ? QString::fromStdString(report.name)
                                                 : tr("GPU"),
                          used            ? tr("used for new runs")
                          : report.usable ? tr("can be chosen for a run")
                                          : tr("not usable"),
                          this);
    QToolButton* again = headButton(Glyph::Play, tr("Ask again"), tr("Ask processor and driver again"), card);
    connect(again, &QToolButton::clicked, this, &DevicePage::ask);
    card->headTools()->addWidget(again);
    auto* grid = new QGridLayout;
    grid->setContentsMargins(12, 0, 12, 12);
    grid->setHorizontalSpacing(16);
    grid->setVerticalSpacing(5);
    grid->setColumnStretch(1, 1);
    int row = 0;
    const auto fact = [&](const QString& name, const QString& value) {
        if (value.isEmpty()) return;
        auto* text = new TextLabel(value, Token::Text, TextSize::Body, false, card);
        text->setWordWrap(true);
        grid->addWidget(new TextLabel(name, Token::Text3, TextSize::Body, false, card), row, 0, Qt::AlignTop);
        grid->addWidget(text, row++, 1);
    };
    if (!report.usable) fact(tr("Reason"), QString::fromStdString(report.reason));
    if (report.usable) {
        fact(report.device == "cpu" ? tr("Processor") : tr("Name"), QString::fromStdString(report.name));
        fact(tr("Instruction set"), QString::fromStdString(report.isa));
        fact(tr("Determinism class"), QString::fromStdString(report.determinismClass));
        fact(tr("Threads"), report.threads > 0 ? formatCount(report.threads) : QString());
    }
    if (report.memoryTotal > 0)
        fact(tr("Memory"), tr("%1, %2 free")
                               .arg(formatSize(static_cast<double>(report.memoryTotal)),
                                    formatSize(static_cast<double>(report.memoryFree))));
    card->body()->addLayout(grid);
    card->body()->addStretch(1);
    return card;
}

void DevicePage::rebuildCards() {
    while (QLayoutItem* item = cards_->takeAt(0)) {
        if (item->widget()) item->widget()->deleteLater();
        delete item;
    }
    const experiments::DeviceReport* used = nullptr;
    for (const auto& report : reports_)
        if (report.usable && (!used || report.device != "cpu")) used = &report;
    for (const auto& report : reports_) cards_->addWidget(makeCard(report, &report == used), 1);
}

void DevicePage::rebuildTable() {
    std::vector<std::string> names;
    for (const auto& report : reports_)
        for (const auto* list : {&report.native, &report.emulated, &report.missing})
            for (const auto& row : *list)
                if (std::find(names.begin(), names.end(), row.what) == names.end()) names.push_back(row.what);
    std::vector<const experiments::DeviceReport*> shown;
    for (const auto& report : reports_)
        if (!report.native.empty() || !report.emulated.empty() || !report.missing.empty()) shown.push_back(&report);
    table_->clear();
    table_->setColumnCount(1 + 2 * static_cast<int>(shown.size()));
    table_->setRowCount(static_cast<int>(names.size()));
    QStringList heads = {tr("Capability")};
    for (const auto* report : shown) heads << shortName(*report) << tr("How, or why not");
    table_->setHorizontalHeaderLabels(heads);
    const QString words[] = {tr("native"), tr("emulated"), tr("absent")};
    const Token tokens[] = {Token::Ok, Token::Warn, Token::Text2};
    const Glyph glyphs[] = {Glyph::Check, Glyph::Info, Glyph::Close};
    for (int r = 0; r < table_->rowCount(); ++r) {
        table_->setItem(r, 0, new QTableWidgetItem(QString::fromStdString(names[r])));
        for (int d = 0; d < static_cast<int>(shown.size()); ++d) {
            QString why;
            const int state = stateOf(*shown[d], names[r], &why);
            auto* item = new QTableWidgetItem(state < 0 ? notMeasured() : words[state]);
            if (state >= 0) {
                item->setIcon(icon(glyphs[state], tokens[state], tokens[state]));
                item->setForeground(color(state == 0 ? Token::Text : tokens[state]));
            }
            table_->setItem(r, 1 + 2 * d, item);
            auto* reason = new QTableWidgetItem(why);
            reason->setForeground(color(Token::Text2));
            reason->setToolTip(why);
            table_->setItem(r, 2 + 2 * d, reason);
        }
    }
    for (int c = 0; c < table_->columnCount(); ++c) {
        const bool reason = c > 0 && c % 2 == 0;
        table_->horizontalHeader()->setSectionResizeMode(c,
                                                         reason ? QHeaderView::Stretch : QHeaderView::ResizeToContents);
    }
    table_->resizeRowsToContents();
}

QString DevicePage::asText() const {
    QString text;
    QStringList line;
    for (int c = 0; c < table_->columnCount(); ++c) line << table_->horizontalHeaderItem(c)->text();
    text = line.join(QLatin1Char('\t')) + QLatin1Char('\n');
    for (int r = 0; r < table_->rowCount(); ++r) {
        line.clear();
        for (int c = 0; c < table_->columnCount(); ++c)
            line << (table_->item(r, c) ? table_->item(r, c)->text() : QString());
        text += line.join(QLatin1Char('\t')) + QLatin1Char('\n');
    }
    return text;
}

void DevicePage::refresh() {
    table_->resizeRowsToContents();
}

}  // namespace mantissa::gui
