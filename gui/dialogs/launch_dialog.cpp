#include "gui/dialogs/launch_dialog.h"

#include <QApplication>
#include <QClipboard>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QPainter>
#include <QScrollArea>
#include <QScrollBar>
#include <QShortcut>
#include <QStyledItemDelegate>
#include <QToolButton>
#include <QVBoxLayout>

#include "gui/controller/run_controller.h"
#include "gui/format/numbers.h"
#include "gui/models/plan_rules.h"
#include "gui/theme/icons.h"
#include "gui/widgets/search_field.h"

namespace mantissa::gui {
namespace {

enum Topic { kForecast = 1, kDevices, kFile, kSpecOfRun };
enum EntryRole { kSummary = Qt::UserRole, kPreset, kRun };

/// Two lines: name in medium, summary below in text2; a head is one small line.
class EntryDelegate : public QStyledItemDelegate {
  public:
    using QStyledItemDelegate::QStyledItemDelegate;
    QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex& index) const override {
        return {10, index.data(kSummary).isValid() ? 44 : 30};
    }
    void paint(QPainter* p, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        const QRect rect = option.rect.adjusted(0, 1, 0, -1);
        p->save();
        p->setRenderHint(QPainter::Antialiasing);
        const bool entry = index.data(kSummary).isValid();
        if (entry && option.state & (QStyle::State_Selected | QStyle::State_MouseOver)) {
            p->setPen(option.state & QStyle::State_HasFocus ? QPen(color(Token::Accent)) : QPen(Qt::NoPen));
            p->setBrush(color(option.state & QStyle::State_Selected ? Token::Sel : Token::Hover));
            p->drawRoundedRect(QRectF(rect).adjusted(.5, .5, -.5, -.5), 4, 4);
        }
        const QRect text = rect.adjusted(10, 0, -8, 0);
        p->setFont(uiFont(entry ? TextSize::Body : TextSize::Small, true));
        p->setPen(color(entry ? Token::Text : Token::Text2));
        if (!entry) {
            p->drawText(text, Qt::AlignBottom | Qt::AlignLeft, index.data().toString());
        } else {
            p->drawText(text.adjusted(0, 5, 0, 0), Qt::AlignTop | Qt::AlignLeft,
                        p->fontMetrics().elidedText(index.data().toString(), Qt::ElideMiddle, text.width()));
            p->setFont(uiFont(TextSize::Small));
            p->setPen(color(Token::Text2));
            p->drawText(text.adjusted(0, 0, 0, -6), Qt::AlignBottom | Qt::AlignLeft,
                        p->fontMetrics().elidedText(index.data(kSummary).toString(), Qt::ElideRight, text.width()));
        }
        p->restore();
    }
};

}  // namespace

LaunchDialog::LaunchDialog(RunController& controller, QWidget* parent) : QDialog(parent), controller_(controller) {
    setWindowTitle(tr("New run"));
    setAccessibleName(tr("New run"));
    setModal(false);
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    column->addWidget(makeHead());
    column->addWidget(new Separator(Qt::Horizontal, this));
    auto* middle = new QHBoxLayout;
    middle->setSpacing(0);
    middle->addWidget(makeList());
    middle->addWidget(new Separator(Qt::Vertical, this));
    const auto scrolled = [this](QWidget* widget, const QString& name) {
        auto* area = new QScrollArea(this);
        area->setWidget(widget);
        area->setWidgetResizable(true);
        area->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
        area->setFocusPolicy(Qt::NoFocus);
        area->setAccessibleName(name);
        area->viewport()->setAutoFillBackground(false);
        widget->setAutoFillBackground(false);
        return area;
    };
    form_ = new SpecForm(this);
    forecast_ = new ForecastPanel(this);
    fields_ = scrolled(form_, tr("Fields"));
    middle->addWidget(fields_, 1);
    middle->addWidget(new Separator(Qt::Vertical, this));
    right_ = scrolled(forecast_, tr("Forecast"));
    middle->addWidget(right_);
    column->addLayout(middle, 1);
    column->addWidget(new Separator(Qt::Horizontal, this));
    column->addWidget(makeFoot());
    setMinimumSize(960, 520);
    const QSize room = parent ? parent->window()->size() - QSize(32, 32) : QSize(1120, 756);
    resize(std::min(1120, room.width()), std::min(756, room.height()));

    forecastTimer_.setSingleShot(true);
    forecastTimer_.setInterval(80);
    connect(&forecastTimer_, &QTimer::timeout, this, &LaunchDialog::askForecast);
    connect(form_, &SpecForm::edited, this, &LaunchDialog::edited);
    connect(&forecast_->grid(), &PlanGrid::cellToggled, this, &LaunchDialog::toggleCell);
    connect(&controller_, &RunController::runsChanged, this, &LaunchDialog::updateButtons);
    connect(&controller_, &RunController::runChanged, this, [this](const QString& id) {
        const RunInfo* info = controller_.run(id);
        if (!info) return;
        for (int row = 0; row < list_->count(); ++row)
            if (list_->item(row)->data(kRun).toString() == id)
                list_->item(row)->setData(kSummary, runStateName(info->state));
        if (form_->errors().isEmpty()) updateButtons();
    });
    for (const QKeySequence& key : {QKeySequence(Qt::CTRL | Qt::Key_Return), QKeySequence(Qt::CTRL | Qt::Key_Enter)})
        connect(new QShortcut(key, this), &QShortcut::activated, this, [this] {
            if (start_->isEnabled()) start();
        });
    // On Start, where the dialog begins, Return alone starts too; in the form it ends an entry.
    for (const Qt::Key key : {Qt::Key_Return, Qt::Key_Enter})
        connect(new QShortcut(key, start_, nullptr, nullptr, Qt::WidgetShortcut), &QShortcut::activated, this,
                [this] { start(); });
    start_->setFocus();
    controller_.compute(
        this, kDevices, [] { return experiments::deviceReports(); },
        [this](const std::vector<experiments::DeviceReport>& reports) { form_->setDevices(reports); });
    fillList();
    markPreset(QStringLiteral("nano"));  // before the list has the focus, which would choose its first row
    form_->setSpec(experiments::presetSpec("nano"));
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

QWidget* LaunchDialog::makeHead() {
    auto* head = new QWidget(this);
    head->setFixedHeight(52);
    auto* row = new QHBoxLayout(head);
    row->setContentsMargins(20, 0, 16, 0);
    row->addWidget(new TextLabel(tr("New run"), Token::Text, TextSize::Title, true, head));
    row->addStretch(1);
    const auto tool = [this, head, row](Glyph glyph, const QString& text, const QString& tip) {
        auto* button = new QToolButton(head);
        button->setIcon(icon(glyph));
        button->setText(text);
        button->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
        button->setToolTip(tip);
        button->setAccessibleName(text);
        row->addWidget(button);
        return button;
    };
    connect(tool(Glyph::Folder, tr("Open spec"), tr("Fill the form from a JSON file")), &QToolButton::clicked, this,
            &LaunchDialog::openSpec);
    connect(tool(Glyph::Copy, tr("Copy as JSON"), tr("The whole spec, as mantissa-run takes it")),
            &QToolButton::clicked, this,
            [this] { QApplication::clipboard()->setText(QString::fromStdString(form_->spec().toJson())); });
    return head;
}

QWidget* LaunchDialog::makeList() {
    auto* side = new QWidget(this);
    side->setFixedWidth(214);
    side_ = side;
    auto* column = new QVBoxLayout(side);
    column->setContentsMargins(12, 12, 12, 8);
    column->setSpacing(8);
    search_ = new SearchField(Glyph::Search, tr("Filter presets"), side);
    search_->setAccessibleName(tr("Filter presets"));
    search_->setToolTip(tr("Words of a preset's or run's name"));
    column->addWidget(search_);
    list_ = new QListWidget(side);
    list_->setItemDelegate(new EntryDelegate(list_));
    list_->setMouseTracking(true);
    list_->setAccessibleName(tr("Presets and earlier runs"));
    list_->setToolTip(tr("Fills the form"));
    column->addWidget(list_, 1);
    connect(search_, &QLineEdit::textChanged, this, &LaunchDialog::fillList);
    connect(list_, &QListWidget::currentRowChanged, this, &LaunchDialog::chooseEntry);
    return side;
}

QWidget* LaunchDialog::makeFoot() {
    auto* foot = new QWidget(this);
    foot->setFixedHeight(52);
    auto* row = new QHBoxLayout(foot);
    row->setContentsMargins(20, 0, 20, 0);
    row->setSpacing(8);
    footIcon_ = new GlyphLabel(Glyph::Check, Token::Ok, 16, foot);
    foot_ = new TextLabel(QString(), Token::Text2, TextSize::Body, false, foot);
    foot_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    row->addWidget(footIcon_);
    row->addWidget(foot_, 1);
    const auto button = [foot, row](const QString& text) {
        auto* push = new QPushButton(text, foot);
        push->setAccessibleName(text);
        push->setAutoDefault(false);
        row->addWidget(push);
        return push;
    };
    QPushButton* cancel = button(tr("Cancel"));
    cancel->setToolTip(tr("Closes without starting (Esc)"));
    twin_ = button(tr("Start with its BF16 twin"));
    queue_ = button(tr("Queue"));
    start_ = button(tr("Start"));
    start_->setProperty("kind", QStringLiteral("primary"));
    connect(cancel, &QPushButton::clicked, this, &LaunchDialog::reject);
    connect(twin_, &QPushButton::clicked, this, &LaunchDialog::startTwin);
    connect(queue_, &QPushButton::clicked, this, &LaunchDialog::queue);
    connect(start_, &QPushButton::clicked, this, &LaunchDialog::start);
    return foot;
}

void LaunchDialog::fillList() {
    const QSignalBlocker blocker(list_);
    list_->clear();
    const QString words = search_->text().trimmed();
    const auto add = [this](const QString& name, const QString& summary, int role, const QString& value) {
        auto* item = new QListWidgetItem(name, list_);
        item->setData(kSummary, summary);
        item->setData(role, value);
    };
    for (const experiments::PresetInfo& preset : experiments::presets()) {
        const QString name = QString::fromStdString(preset.name);
        if (words.isEmpty() ? !preset.isBase : !name.contains(words, Qt::CaseInsensitive)) continue;
        add(name, tr("%1 weights").arg(formatShortCount(preset.parameters)), kPreset, name);
        list_->item(list_->count() - 1)->setToolTip(QString::fromStdString(preset.summary));
    }
    QVector<RunInfo> earlier;
    for (auto it = controller_.runs().crbegin(); it != controller_.runs().crend() && earlier.size() < 6; ++it)
        if (it->name.contains(words, Qt::CaseInsensitive)) earlier << *it;
    if (earlier.isEmpty()) return;
    auto* head = new QListWidgetItem(tr("From your runs"), list_);
    head->setFlags(Qt::NoItemFlags);
    for (const RunInfo& info : earlier) add(info.name, runStateName(info.state), kRun, info.id);
}

void LaunchDialog::chooseEntry(int row) {
    const QListWidgetItem* item = list_->item(row);
    if (!item) return;
    if (item->data(kPreset).isValid())
        return form_->setSpec(experiments::presetSpec(item->data(kPreset).toString().toStdString()));
    const QString id = item->data(kRun).toString();
    if (id.isEmpty()) return;
    controller_.load(
        this, kSpecOfRun,
        [id](experiments::RunStore& store) {
            return QString::fromStdString(store.document(id.toStdString()).specJson);
        },
        [this](const QString& json) { setSpec(json); });
}

void LaunchDialog::setSpec(const QString& json) {
    const experiments::ParsedSpec parsed = experiments::parseSpec(json.toStdString());
    if (parsed.ok()) return form_->setSpec(parsed.spec);
    const auto& error = parsed.errors.front();
    foot_->setText(QString::fromStdString(error.path.empty() ? error.message : error.path + ": " + error.message));
    footIcon_->set(Glyph::Bad, Token::Bad);
}

void LaunchDialog::edited() {
    updateButtons();
    if (!form_->errors().isEmpty()) return forecast_->setStale(tr("of the last valid fields"));
    forecast_->setPlan(experiments::plannedPrecision(form_->spec()));
    forecastTimer_.start();
}

void LaunchDialog::updateButtons() {
    const QVector<FieldError>& errors = form_->errors();
    QString why;
    if (!errors.isEmpty()) {
        QStringList names;
        for (const FieldError& error : errors)
            if (!names.contains(error.title)) names << error.title;
        why = names.size() == 1
                  ? tr("1 field to correct: %1").arg(names.first())
                  : tr("%1 fields to correct: %2").arg(names.size()).arg(names.join(QStringLiteral(", ")));
        footIcon_->set(Glyph::Bad, Token::Bad);
    } else {
        footIcon_->set(Glyph::Check, Token::Ok);
    }
    const bool going = controller_.goingCount() > 0;
    foot_->setText(!why.isEmpty() ? why
                   : going        ? tr("A run is going: this one starts when the device is free")
                                  : tr("Ready to start"));
    foot_->setToolTip(foot_->text());
    const bool fp8 = form_->spec().trainer.precision.mode == engine::PrecisionMode::Fp8;
    start_->setEnabled(why.isEmpty());
    start_->setToolTip(why.isEmpty() ? tr("Start this run and close the dialog (Ctrl+Return)") : why);
    queue_->setEnabled(why.isEmpty());
    queue_->setToolTip(why.isEmpty() ? tr("Add this run to the queue and keep the dialog open for the next") : why);
    twin_->setEnabled(why.isEmpty() && fp8);
    twin_->setToolTip(!why.isEmpty() ? why
                      : fp8          ? tr("Start this run and, after it, the same run in BF16: same seed, same tokens")
                                     : tr("Only an FP8 run has a BF16 twin"));
}

void LaunchDialog::askForecast() {
    const experiments::RunSpec spec = form_->spec();
    engine::DeviceChoice device;
    device.device = form_->device();
    controller_.load(
        this, kForecast,
        [spec, device](experiments::RunStore& store) { return experiments::forecast(spec, device, &store); },
        [this, spec](const experiments::Forecast& forecast) { forecast_->setForecast(forecast, spec); },
        [this](const QString& error) { forecast_->setStale(error); });
}

void LaunchDialog::launch(const experiments::RunSpec& spec, const QString& name) {
    experiments::JobOptions options;
    options.name = name.toStdString();
    options.device.device = form_->device();
    controller_.start(spec, std::move(options));
}

void LaunchDialog::start() {
    launch(form_->spec(), form_->name());
    accept();
}

void LaunchDialog::queue() {
    launch(form_->spec(), form_->name());
}

void LaunchDialog::startTwin() {
    experiments::RunSpec twin = form_->spec();
    twin.trainer.precision.mode = engine::PrecisionMode::Bf16;
    twin.trainer.precision.rules.clear();
    launch(form_->spec(), form_->name());
    launch(twin, QString::fromStdString(twin.defaultName()));
    accept();
}

void LaunchDialog::openSpec() {
    auto* dialog = new QFileDialog(this, tr("Open spec"), QString(), tr("Run specs (*.json);;All files (*)"));
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    connect(dialog, &QFileDialog::fileSelected, this, [this](const QString& path) {
        controller_.compute(
            this, kFile, [path] { return experiments::readSpecFile(path.toStdString()); },
            [this](const experiments::ParsedSpec& parsed) {
                if (parsed.ok()) return form_->setSpec(parsed.spec);
                const auto& error = parsed.errors.front();
                foot_->setText(
                    QString::fromStdString(error.path.empty() ? error.message : error.path + ": " + error.message));
                footIcon_->set(Glyph::Bad, Token::Bad);
            });
    });
    dialog->open();
}

void LaunchDialog::toggleCell(const QStringList& layers, const QString& linear, int gemm, bool bf16) {
    form_->setRules(
        toggledRules(form_->clickedRules(), layers, linear, gemm, bf16, form_->spec().trainer.precision.recipe));
}

void LaunchDialog::resizeEvent(QResizeEvent* event) {
    QDialog::resizeEvent(event);
    fitColumns();
}

void LaunchDialog::showEvent(QShowEvent* event) {
    QDialog::showEvent(event);
    fitColumns();
}

void LaunchDialog::fitColumns() {
    side_->setFixedWidth(width() < 1080 ? 150 : 214);
    // Both scroll up and down only: what the widest row needs is the least width. Asked of them once they are shown:
    // before, their fields do not know their style.
    const int fields = form_->minimumSizeHint().width() + fields_->verticalScrollBar()->sizeHint().width();
    const int least = forecast_->sizeHint().width() + right_->verticalScrollBar()->sizeHint().width();
    const int lines = 2;  // the separators
    fields_->setMinimumWidth(fields);
    right_->setFixedWidth(std::max(least, std::min(366, width() - side_->width() - fields - lines)));
}

void LaunchDialog::markPreset(const QString& name) {
    const QList<QListWidgetItem*> found = list_->findItems(name, Qt::MatchExactly);
    const QSignalBlocker quiet(list_);
    const bool preset = !found.isEmpty() && found.first()->data(kPreset).isValid();
    list_->setCurrentItem(preset ? found.first() : nullptr);
}

void LaunchDialog::paintEvent(QPaintEvent*) {
    QPainter(this).fillRect(rect(), color(Token::Panel));
}

}  // namespace mantissa::gui
