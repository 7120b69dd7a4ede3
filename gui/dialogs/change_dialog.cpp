#include "gui/dialogs/change_dialog.h"

#include <QDateTime>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QPainter>
#include <QScrollArea>
#include <QScrollBar>
#include <QShortcut>
#include <QStyle>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>

#include "experiments/report/forecast.h"
#include "gui/controller/run_controller.h"
#include "gui/format/numbers.h"
#include "gui/models/plan_rules.h"

namespace mantissa::gui {

using experiments::RunSpec;

namespace {

enum Topic { kLoad = 1, kCheckpoint };
constexpr int kLabel = 104, kWaitMs = 200, kWaitTries = 300;

QString plain(const std::string& json) {
    QString text = QString::fromStdString(json);
    if (text.size() > 1 && text.startsWith(QLatin1Char('"')) && text.endsWith(QLatin1Char('"')))
        text = text.mid(1, text.size() - 2);
    return text;
}

/// What a person typed, as setPath takes it: numbers in the locale's writing become C numbers.
std::string typed(const QString& text) {
    if (const auto number = parseNumber(text)) return exact(*number).toStdString();
    return text.trimmed().toStdString();
}

}  // namespace

/// What the dialog reads of the run.
struct ChangeDialog::Loaded {
    experiments::RunDocument document;
    experiments::ParsedSpec spec;
    std::vector<experiments::CheckpointRow> checkpoints;
};

ChangeDialog::ChangeDialog(RunController& controller, const QString& run, Mode mode, QWidget* parent)
    : QDialog(parent), controller_(controller), run_(run), mode_(mode) {
    const RunInfo* info = controller.run(run);
    runName_ = info ? info->name : run;
    const QString title = mode == Mode::Fork ? tr("Fork %1").arg(runName_) : tr("Change %1").arg(runName_);
    setWindowTitle(title);
    setAccessibleName(title);
    setModal(false);
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    auto* head = new QHBoxLayout;
    head->setContentsMargins(20, 14, 20, 12);
    head->setSpacing(12);
    head->addWidget(new TextLabel(title, Token::Text, TextSize::Title, true, this));
    head_ = new TextLabel(mode == Mode::Fork ? tr("A child run that goes on from there with the changed fields")
                                             : tr("Taken between two steps and marked on every chart"),
                          Token::Text3, TextSize::Small, false, this);
    head->addWidget(head_);
    head->addStretch(1);
    column->addLayout(head);
    column->addWidget(new Separator(Qt::Horizontal, this));
    auto* middle = new QHBoxLayout;
    middle->setSpacing(0);
    const auto scrolled = [this](QWidget* widget, const QString& name) {
        auto* area = new QScrollArea(this);
        area->setWidget(widget);
        area->setWidgetResizable(true);
        area->setFocusPolicy(Qt::NoFocus);
        area->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
        area->setAccessibleName(name);
        area->viewport()->setAutoFillBackground(false);
        widget->setAutoFillBackground(false);
        return area;
    };
    QWidget* form = makeForm();
    QScrollArea* fields = scrolled(form, tr("Fields"));
    // Scrolls up and down only: what the widest row needs is the least width.
    fields->setMinimumWidth(form->minimumSizeHint().width() + fields->verticalScrollBar()->sizeHint().width());
    middle->addWidget(fields, 1);
    middle->addWidget(new Separator(Qt::Vertical, this));
    QScrollArea* plans = scrolled(makePlans(), tr("Precision plans"));
    plans->setFixedWidth(366);
    middle->addWidget(plans);
    column->addLayout(middle, 1);
    column->addWidget(new Separator(Qt::Horizontal, this));
    column->addWidget(makeFoot());
    setMinimumHeight(480);
    const QSize room = parent ? parent->window()->size() - QSize(32, 32) : QSize(1000, 640);
    resize(std::min(1000, room.width()), std::min(640, room.height()));
    for (const QKeySequence& key : {QKeySequence(Qt::CTRL | Qt::Key_Return), QKeySequence(Qt::CTRL | Qt::Key_Enter)})
        connect(new QShortcut(key, this), &QShortcut::activated, this, [this] {
            if (go_->isEnabled()) go();
        });
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
    connect(&controller_, &RunController::runChanged, this, [this](const QString& id) {
        if (id == run_) showFoot();
    });
    showFoot();
    controller_.load(
        this, kLoad,
        [id = run.toStdString()](experiments::RunStore& store) {
            Loaded loaded;
            loaded.document = store.document(id);
            loaded.spec = experiments::parseSpec(loaded.document.specJson);
            loaded.checkpoints = store.checkpoints(id);
            return loaded;
        },
        [this](Loaded loaded) { take(std::move(loaded)); });
}

void ChangeDialog::addHead(QGridLayout& grid, const QString& title) {
    grid.addWidget(new TextLabel(title, Token::Text, TextSize::Body, true, this), row_++, 0, 1, 3);
}

QWidget* ChangeDialog::addField(QGridLayout& grid, const QString& title, const QString& path, QWidget* input,
                                const QString& note) {
    auto* label = new TextLabel(title, Token::Text2, TextSize::Body, false, this);
    label->setFixedWidth(kLabel);
    label->setBuddy(input);
    input->setAccessibleName(title);
    const auto allowed = path.isEmpty() ? std::vector<std::string>() : experiments::allowedValues(path.toStdString());
    QStringList words;
    for (const std::string& word : allowed) words << QString::fromStdString(word);
    input->setToolTip(words.isEmpty() ? note : tr("%1: %2").arg(path, words.join(QStringLiteral(", "))));
    input->setFixedWidth(190);
    grid.addWidget(label, row_, 0);
    grid.addWidget(input, row_, 1);
    grid.addWidget(new TextLabel(note, Token::Text3, TextSize::Small, false, this), row_++, 2);
    if (!path.isEmpty()) inputs_.insert(path, input);
    if (auto* edit = qobject_cast<QLineEdit*>(input))
        connect(edit, &QLineEdit::textEdited, this, &ChangeDialog::edited);
    else if (auto* box = qobject_cast<QComboBox*>(input))
        connect(box, &QComboBox::currentIndexChanged, this, &ChangeDialog::edited);
    return input;
}

QWidget* ChangeDialog::makeForm() {
    auto* form = new QWidget(this);
    auto* grid = new QGridLayout(form);
    grid->setContentsMargins(20, 14, 20, 14);
    grid->setHorizontalSpacing(12);
    grid->setVerticalSpacing(8);
    grid->setColumnStretch(2, 1);
    if (mode_ == Mode::Fork) {
        addHead(*grid, tr("From"));
        from_ = new QComboBox(form);
        addField(*grid, tr("Step"), QString(), from_, tr("the child goes on from there"));
        name_ = new QLineEdit(form);
        addField(*grid, tr("Name"), QString(), name_, tr("empty: made from the spec"));
        stop_ = new QCheckBox(tr("Stop %1 there").arg(runName_), form);
        stop_->setToolTip(tr("Else the child waits until the device is free"));
        stop_->setChecked(true);
        grid->addWidget(stop_, row_++, 1, 1, 2);
    }
    const auto combo = [&](const char* path) {
        auto* box = new QComboBox(form);
        for (const std::string& word : experiments::allowedValues(path)) box->addItem(QString::fromStdString(word));
        return box;
    };
    addHead(*grid, tr("Precision"));
    addField(*grid, tr("Recipe"), QStringLiteral("precision.recipe"), combo("precision.recipe"),
             tr("of every FP8 product"));
    addField(*grid, tr("History"), QStringLiteral("precision.history_length"), new QLineEdit(form),
             tr("entries of the amax window; the newest are kept"));
    addField(*grid, tr("Algorithm"), QStringLiteral("precision.algorithm"), combo("precision.algorithm"),
             tr("which entry of the window rules"));
    addField(*grid, tr("Margin"), QStringLiteral("precision.margin"), new QLineEdit(form),
             tr("binades kept free above amax"));
    addHead(*grid, tr("Optimizer"));
    addField(*grid, tr("Learning rate"), QStringLiteral("optimizer.learning_rate"), new QLineEdit(form),
             tr("base rate; the schedule's shape stays"));
    addHead(*grid, tr("Probes"));
    addField(*grid, tr("Costly figures"), QStringLiteral("probes.every"), new QLineEdit(form),
             tr("steps apart: SQNR, kurtosis, smallest value; 0 is never"));
    addField(*grid, tr("Exponents every"), QStringLiteral("probes.histograms"), new QLineEdit(form),
             tr("steps, of the probed ones; 0 is never"));
    addField(*grid, tr("Shadow every"), QStringLiteral("probes.shadow_every"), new QLineEdit(form),
             tr("steps: products again in higher precision; 0 is never"));
    if (mode_ == Mode::Fork) {
        addHead(*grid, tr("Other fields"));
        others_ = new QLineEdit(form);
        addField(*grid, tr("Set"), QString(), others_, tr("e.g. train.steps=2000 optimizer.weight_decay=0.05"));
        others_->setFixedWidth(190);
        others_->setToolTip(tr("PATH=VALUE, separated by spaces, as mantissa-run fork --set takes them"));
    }
    grid->setRowStretch(row_, 1);
    return form;
}

QWidget* ChangeDialog::makePlans() {
    auto* side = new QWidget(this);
    auto* rows = new QVBoxLayout(side);
    rows->setContentsMargins(20, 14, 20, 14);
    rows->setSpacing(8);
    const auto plan = [&](const QString& title, TextLabel** count) {
        auto* head = new QHBoxLayout;
        head->addWidget(new TextLabel(title, Token::Text, TextSize::Body, true, side));
        head->addWidget(new TextLabel(tr("fprop, dgrad, wgrad"), Token::Text3, TextSize::Small, false, side));
        head->addStretch(1);
        *count = new TextLabel(QString(), Token::Text, TextSize::Body, true, side);
        head->addWidget(*count);
        rows->addLayout(head);
        auto* grid = new PlanGrid(side);
        rows->addWidget(grid);
        return grid;
    };
    asked_ = plan(tr("Asked"), &askedHead_);
    asked_->setAccessibleName(tr("Precision plan asked for"));
    rows->addSpacing(6);
    rows->addWidget(new Separator(Qt::Horizontal, side));
    rows->addSpacing(6);
    effective_ = plan(tr("Effective"), &effectiveHead_);
    effective_->setAccessibleName(tr("Precision as it ran"));
    effective_->setToolTip(tr("Read back from the products that ran; cannot be edited"));
    rows->addWidget(
        new TextLabel(tr("e4 E4M3     e5 E5M2 gradient     bf BF16"), Token::Text2, TextSize::Small, false, side));
    rows->addStretch(1);
    connect(asked_, &PlanGrid::cellToggled, this, &ChangeDialog::toggleCell);
    return side;
}

QWidget* ChangeDialog::makeFoot() {
    auto* foot = new QWidget(this);
    foot->setMinimumHeight(52);
    auto* row = new QHBoxLayout(foot);
    row->setContentsMargins(20, 8, 20, 8);
    row->setSpacing(8);
    footIcon_ = new GlyphLabel(Glyph::Info, Token::Text3, 16, foot);
    foot_ = new TextLabel(QString(), Token::Text2, TextSize::Body, false, foot);
    foot_->setWordWrap(true);
    row->addWidget(footIcon_);
    row->addWidget(foot_, 1);
    auto* cancel = new QPushButton(tr("Cancel"), foot);
    cancel->setAccessibleName(tr("Cancel"));
    cancel->setToolTip(tr("Closes without a change (Esc)"));
    cancel->setAutoDefault(false);
    go_ = new QPushButton(mode_ == Mode::Fork ? tr("Fork") : tr("Apply between two steps"), foot);
    go_->setAccessibleName(go_->text());
    go_->setProperty("kind", QStringLiteral("primary"));
    go_->setAutoDefault(false);
    row->addWidget(cancel);
    row->addWidget(go_);
    connect(cancel, &QPushButton::clicked, this, &ChangeDialog::reject);
    connect(go_, &QPushButton::clicked, this, &ChangeDialog::go);
    return foot;
}

void ChangeDialog::take(Loaded loaded) {
    if (!loaded.spec.ok()) {
        blocked_ = QString::fromStdString(loaded.spec.errors.front().message);
        return showFoot();
    }
    original_ = shown_ = edited_ = loaded.spec.spec;
    rules_ = original_.trainer.precision.rules;
    effective_->setPlan(loaded.document.precision);
    effectiveHead_->setText(loaded.document.precision.empty()
                                ? tr("after the first step")
                                : tr("%1 of %2 in FP8").arg(effective_->fp8Products()).arg(effective_->products()));
    if (from_) fillFrom(loaded.checkpoints);
    ready_ = true;
    fillFields();
    if (wantedSpec_) setSpec(*wantedSpec_);
    if (wantedStep_) setForkStep(*wantedStep_);
    edited();
}

void ChangeDialog::fillFrom(const std::vector<experiments::CheckpointRow>& checkpoints) {
    const QSignalBlocker quiet(from_);
    const RunInfo* info = controller_.run(run_);
    const bool going = info && info->going();
    if (going) from_->addItem(tr("now, at step %1").arg(formatCount(info->step)), -1);
    for (auto row = checkpoints.rbegin(); row != checkpoints.rend(); ++row)
        if (row->onDisk)
            from_->addItem(tr("step %1, %2").arg(formatCount(row->step), formatSize(double(row->bytes))),
                           qlonglong(row->step));
    from_->addItem(tr("the start"), qlonglong(0));
    stop_->setVisible(going);
    connect(from_, &QComboBox::currentIndexChanged, this,
            [this] { stop_->setEnabled(from_->currentData().toLongLong() < 0); });
}

void ChangeDialog::setForkStep(qint64 step) {
    wantedStep_ = step;
    if (!ready_ || !from_) return;
    const int index = from_->findData(qlonglong(step));
    if (index >= 0) from_->setCurrentIndex(index);
}

void ChangeDialog::setSpec(const QString& specJson) {
    wantedSpec_ = specJson;
    if (!ready_) return;
    const auto parsed = experiments::parseSpec(specJson.toStdString());
    if (!parsed.ok()) return;
    shown_ = parsed.spec;
    rules_ = shown_.trainer.precision.rules;
    fillFields();
    edited();
}

QString ChangeDialog::valueText(const QString& path) const {
    return plain(experiments::getPath(shown_, path.toStdString()));
}

void ChangeDialog::fillFields() {
    filling_ = true;
    for (auto it = inputs_.cbegin(); it != inputs_.cend(); ++it) {
        if (auto* edit = qobject_cast<QLineEdit*>(it.value()))
            edit->setText(valueText(it.key()));
        else if (auto* box = qobject_cast<QComboBox*>(it.value()))
            box->setCurrentText(valueText(it.key()));
    }
    filling_ = false;
}

void ChangeDialog::edited() {
    if (filling_ || !ready_) return;
    RunSpec spec = shown_;
    problem_ = QString();
    wrongPath_ = QString();
    const auto set = [&](const QString& path, const std::string& value) {
        const auto errors = experiments::setPath(spec, path.toStdString(), value);
        if (errors.empty() || !wrongPath_.isEmpty()) return;
        wrongPath_ = path;
        QStringList allowed;
        for (const std::string& word : errors.front().allowed) allowed << QString::fromStdString(word);
        problem_ = tr("%1: %2; allowed: %3")
                       .arg(path, QString::fromStdString(errors.front().message), allowed.join(QStringLiteral(", ")));
    };
    for (auto it = inputs_.cbegin(); it != inputs_.cend(); ++it) {
        const auto* edit = qobject_cast<QLineEdit*>(it.value());
        const auto* box = qobject_cast<QComboBox*>(it.value());
        const QString text = edit ? edit->text() : box->currentText();
        if (text != valueText(it.key())) set(it.key(), edit ? typed(text) : text.toStdString());
    }
    spec.trainer.precision.rules = rules_;
    if (others_)
        for (const QString& word : others_->text().split(QLatin1Char(' '), Qt::SkipEmptyParts)) {
            const int equals = int(word.indexOf(QLatin1Char('=')));
            if (equals <= 0) {
                if (wrongPath_.isEmpty()) problem_ = tr("“%1” is not PATH=VALUE").arg(word), wrongPath_ = word;
                continue;
            }
            set(word.left(equals), word.mid(equals + 1).toStdString());
        }
    for (auto it = inputs_.cbegin(); it != inputs_.cend(); ++it) {
        it.value()->setProperty("wrong", it.key() == wrongPath_);
        it.value()->style()->unpolish(it.value());
        it.value()->style()->polish(it.value());
    }
    if (problem_.isEmpty())
        if (const auto errors = experiments::validate(spec); !errors.empty())
            problem_ = QString::fromStdString(errors.front().path + ": " + errors.front().message);
    if (wrongPath_.isEmpty()) {
        edited_ = spec;
        changes_ = experiments::differences(original_, edited_);
    }
    if (problem_.isEmpty()) {
        asked_->setPlan(experiments::plannedPrecision(edited_));
        askedHead_->setText(tr("%1 of %2 in FP8").arg(asked_->fp8Products()).arg(asked_->products()));
    }
    showFoot();
}

void ChangeDialog::showFoot() {
    const RunInfo* info = controller_.run(run_);
    const bool going = info && info->going();
    QString why = problem();
    if (why.isEmpty() && !ready_) why = tr("Reading the run.");
    if (why.isEmpty() && mode_ == Mode::WhileItRuns && !going)
        why = tr("%1 is not going: fork it with the changes instead.").arg(runName_);
    if (why.isEmpty() && mode_ == Mode::WhileItRuns)
        for (const auto& change : changes_)
            if (!experiments::isLivePath(change.path))
                why = tr("%1 cannot change while the run goes; a fork can.").arg(QString::fromStdString(change.path));
    const bool nothing = mode_ == Mode::WhileItRuns && changes_.empty();
    footIcon_->set(!problem().isEmpty() ? Glyph::Bad : Glyph::Info, !problem().isEmpty() ? Token::Bad : Token::Text3);
    QStringList lines;
    for (const auto& change : changes_)
        lines << QStringLiteral("%1: %2 → %3")
                     .arg(QString::fromStdString(change.path), plain(change.left), plain(change.right));
    QString words = lines.join(QStringLiteral("; "));
    if (words.size() > 220) words = tr("%1 fields changed").arg(changes_.size());
    foot_->setText(busy_              ? tr("Writing the checkpoint to go on from.")
                   : !why.isEmpty()   ? why
                   : changes_.empty() ? mode_ == Mode::Fork
                                            ? tr("Nothing changed: the child repeats the run from there.")
                                            : tr("Nothing is changed yet.")
                                      : words);
    foot_->setToolTip(lines.join(QLatin1Char('\n')));
    go_->setEnabled(why.isEmpty() && !nothing && !busy_);
    go_->setToolTip(!why.isEmpty() ? why
                    : nothing      ? tr("Nothing is changed yet")
                                   : tr("%1 (Ctrl+Return)").arg(go_->text()));
}

void ChangeDialog::toggleCell(const QStringList& layers, const QString& linear, int gemm, bool bf16) {
    rules_ = toggledRules(rules_, layers, linear, gemm, bf16, edited_.trainer.precision.recipe);
    edited();
}

void ChangeDialog::go() {
    if (mode_ == Mode::Fork) return fork();
    controller_.change(run_, changes_);
    accept();
}

void ChangeDialog::fork() {
    const qint64 step = from_->currentData().toLongLong();
    if (step >= 0) return forkFromCheckpoint(step);
    busy_ = true;
    showFoot();
    const qint64 since = QDateTime::currentMSecsSinceEpoch();
    if (stop_->isChecked())
        controller_.stop(run_);  // writes a checkpoint, then ends
    else
        controller_.checkpoint(run_);
    waitForCheckpoint(since, kWaitTries);
}

void ChangeDialog::forkFromCheckpoint(qint64 step) {
    experiments::JobOptions options;
    options.forkRun = run_.toStdString();
    options.resumeStep = step;
    if (const RunInfo* info = controller_.run(run_)) options.device.device = info->device.toStdString();
    options.name = name_->text().trimmed().toStdString();
    controller_.start(edited_, std::move(options));
    accept();
}

/// The store is asked until a checkpoint written after `since` is in it; the job may be in another process.
void ChangeDialog::waitForCheckpoint(qint64 since, int tries) {
    controller_.load(
        this, kCheckpoint,
        [id = run_.toStdString(), since](experiments::RunStore& store) {
            qint64 newest = -1;
            for (const auto& row : store.checkpoints(id))
                if (row.onDisk && row.timeMs >= since) newest = std::max<qint64>(newest, row.step);
            return newest;
        },
        [this, since, tries](qint64 newest) {
            if (newest >= 0) return forkFromCheckpoint(newest);
            if (tries > 0)
                return QTimer::singleShot(kWaitMs, this, [this, since, tries] { waitForCheckpoint(since, tries - 1); });
            busy_ = false;
            blocked_ = tr("%1 wrote no checkpoint within a minute; nothing was started.").arg(runName_);
            showFoot();
        });
}

void ChangeDialog::paintEvent(QPaintEvent*) {
    QPainter(this).fillRect(rect(), color(Token::Panel));
}

}  // namespace mantissa::gui
