#include "gui/pages/ladder_page.h"

#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QLineEdit>
#include <QRegularExpression>
#include <QSaveFile>
#include <QScrollArea>
#include <QSpinBox>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "experiments/ladder/ladder_picture.h"
#include "experiments/report/forecast.h"
#include "gui/controller/run_controller.h"
#include "gui/format/numbers.h"
#include "gui/theme/icons.h"
#include "gui/widgets/figures_card.h"
#include "gui/widgets/ladder_charts.h"
#include "gui/widgets/ladder_rows.h"
#include "gui/widgets/wrong_mark.h"

namespace mantissa::gui {

using experiments::LadderMode;
using experiments::LadderOptions;
using experiments::LadderRequest;
using experiments::LadderResult;

namespace {

constexpr int kLoadTopic = 1, kStartTopic = 2, kExportTopic = 3;

LadderRequest requestOf(const std::string& preset, LadderMode mode, std::vector<int> widths, int warmup, int steps) {
    LadderRequest request;
    request.mode = mode;
    request.base = experiments::presetSpec(preset);
    request.widths = std::move(widths);
    request.warmup = warmup, request.steps = steps;
    return request;
}

/// The model of the newest ladder or sweep that one of these presets made; `otherwise` when there is none.
std::string newestPreset(experiments::RunStore& store, const QStringList& presets, const QString& otherwise) {
    QString newest = otherwise;
    for (const experiments::LadderEntry& entry : experiments::ladders(store)) {
        const QString preset = QString::fromStdString(entry.preset);
        if (presets.contains(preset)) newest = preset;
    }
    return newest.toStdString();
}

/// Whether there is something to see in it: a measurement, or why there is none.
bool tells(const LadderResult& ladder) {
    return std::any_of(ladder.rungs.begin(), ladder.rungs.end(), [](const experiments::RungResult& rung) {
        return rung.state == experiments::RungState::Measured || rung.state == experiments::RungState::Failed;
    });
}

/// `going` where it is given; else the newest ladder of rungs that tells something, else the newest.
void readRungs(experiments::RunStore& store, LadderView& view, const LadderRequest& request, const std::string& going) {
    std::vector<std::string> ids;
    for (const experiments::LadderEntry& entry : experiments::ladders(store))
        if (entry.preset == request.base.preset && entry.mode == LadderMode::Rungs) ids.push_back(entry.id);
    const auto read = [&store](const std::string& id) {
        return std::make_shared<LadderResult>(experiments::readLadder(store, id));
    };
    if (!going.empty()) {
        view.rungs = read(going);
        return;
    }
    for (size_t i = ids.size(); i-- > 0;) {
        const auto ladder = read(ids[i]);
        if (!tells(*ladder)) continue;
        view.rungs = ladder;
        view.newerStopped = i + 1 < ids.size();
        return;
    }
    view.rungs = ids.empty() ? std::make_shared<LadderResult>(experiments::plannedLadder(request)) : read(ids.back());
}

/// On the reading thread. going: id of the ladder of rungs that is being measured, "" when none is.
LadderView readView(experiments::RunStore& store, const std::string& preset, int warmup, int steps,
                    const std::string& going) {
    LadderView view;
    view.preset = QString::fromStdString(preset);
    const LadderRequest request = requestOf(preset, LadderMode::Rungs, {}, warmup, steps);
    view.defaultWidths = experiments::defaultWidths(request.base);
    const std::string widths = experiments::newestLadder(store, preset, LadderMode::Widths);
    readRungs(store, view, request, going);
    if (!widths.empty()) view.widths = std::make_shared<LadderResult>(experiments::readLadder(store, widths));
    const auto plans = experiments::ladderRungs(request);
    for (size_t i = 0; i < view.rungs->rungs.size(); ++i) {
        const bool wanted = i < plans.size() && view.rungs->rungs[i].state == experiments::RungState::NotRun;
        view.forecastSeconds.push_back(wanted ? experiments::forecast(plans[i].spec, {}, &store).seconds : 0);
    }
    return view;
}

}  // namespace

LadderPage::LadderPage(RunController& controller, QWidget* parent) : Page(controller, parent) {
    setAccessibleName(tr("Ladder"));
    makeTools();
    auto* outer = new QVBoxLayout(this);
    outer->setContentsMargins(0, 0, 0, 0);
    auto* scroll = new QScrollArea(this);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidgetResizable(true);
    scroll->setFocusPolicy(Qt::NoFocus);
    outer->addWidget(scroll);
    auto* content = new QWidget(scroll);
    auto* column = new QVBoxLayout(content);
    column->setContentsMargins(12, 12, 12, 12);
    column->setSpacing(10);
    figures_ = new FiguresCard(content);
    column->addWidget(figures_);
    trouble_ = new TextLabel(QString(), Token::Bad, TextSize::Body, false, content);
    trouble_->setWordWrap(true);
    trouble_->hide();
    column->addWidget(trouble_);
    column->addWidget(makeRungs(), 3);
    auto* below = new QHBoxLayout;
    below->setSpacing(10);
    auto* last = new Card(tr("The last rungs on their own scale"), tr("ms"), content);
    last_ = new LastRungs(last);
    last->body()->addWidget(last_);
    below->addWidget(last, 3);
    below->addWidget(makeWidths(), 2);
    column->addLayout(below, 2);
    scroll->setWidget(content);
    timer_.setInterval(200);
    connect(&timer_, &QTimer::timeout, this, &LadderPage::tick);
    connect(&controller, &RunController::runsChanged, this, [this] { changed(); });
    connect(&controller, &RunController::storeOpened, this, [this] {
        chosen_ = false;
        changed();
    });
}

LadderPage::~LadderPage() = default;

QToolButton* LadderPage::button(int glyph, const QString& text, const QString& tip, QWidget* parent) {
    auto* result = new QToolButton(parent);
    result->setIcon(icon(Glyph(glyph)));
    result->setText(text);
    result->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    result->setToolTip(tip);
    result->setAccessibleName(text);
    return result;
}

void LadderPage::makeTools() {
    tools_ = new QWidget(this);
    auto* row = new QHBoxLayout(tools_);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(8);
    presets_ = new QComboBox(tools_);
    presets_->setAccessibleName(tr("Model"));
    presets_->setToolTip(tr("The model whose ladder is shown and run"));
    for (const auto& preset : experiments::presets())
        if (preset.isBase) presets_->addItem(QString::fromStdString(preset.name));
    presets_->setCurrentText(QStringLiteral("nano"));
    connect(presets_, &QComboBox::currentTextChanged, this, [this] {
        chosen_ = true;
        problem_.clear();
        changed();
    });
    row->addWidget(presets_);
    run_ = button(int(Glyph::Play), tr("Run ladder"), tr("Run all rungs on this machine"), tools_);
    connect(run_, &QToolButton::clicked, this, [this] {
        if (!busy()) return runRungs();
        // The second half of a double click stops nothing.
        if (sinceStart_.elapsed() > QApplication::doubleClickInterval()) stop();
    });
    row->addWidget(run_);
}

Card* LadderPage::makeRungs() {
    rungsCard_ = new Card(tr("Rungs"), QString(), this);
    const auto spin = [this](const QString& text, int low, int value, const QString& tip) {
        rungsCard_->headTools()->addWidget(new TextLabel(text, Token::Text2, TextSize::Small, false, rungsCard_));
        auto* box = new QSpinBox(rungsCard_);
        box->setRange(low, 100000);
        box->setValue(value);
        box->setButtonSymbols(QAbstractSpinBox::NoButtons);
        box->setFixedHeight(28);
        box->setFixedWidth(QFontMetrics(box->font()).horizontalAdvance(QStringLiteral("000000")) + 14);
        box->setAccessibleName(text);
        box->setToolTip(tip);
        rungsCard_->headTools()->addWidget(box);
        return box;
    };
    warmup_ = spin(tr("Warm-up"), 0, 5, tr("Steps of a rung before the timed ones"));
    steps_ = spin(tr("Timed"), 1, 20, tr("Steps of a rung whose median is shown"));
    connect(steps_, &QSpinBox::editingFinished, this, [this] { changed(); });
    again_ = button(int(Glyph::Play), tr("Run again"), tr("Measure all rungs anew"), rungsCard_);
    connect(again_, &QToolButton::clicked, this, [this] { runRungs(); });
    copy_ = button(int(Glyph::Copy), tr("Copy"), tr("Copy the table as text"), rungsCard_);
    connect(copy_, &QToolButton::clicked, this, [this] { QApplication::clipboard()->setText(rows_->asText()); });
    export_ = button(int(Glyph::Export), tr("Export"), tr("Write the ladder as PNG, SVG or CSV"), rungsCard_);
    connect(export_, &QToolButton::clicked, this, [this] { chooseFile(view_.rungs.get()); });
    for (QToolButton* tool : {again_, copy_, export_}) rungsCard_->headTools()->addWidget(tool);
    rows_ = new LadderRows(rungsCard_);
    connect(rows_, &LadderRows::runRequested, this, [this](int rung) {
        if (view_.rungs && size_t(rung) < view_.rungs->rungs.size()) runRungs({view_.rungs->rungs[size_t(rung)].key});
    });
    connect(rows_, &LadderRows::openRequested, this, &LadderPage::runRequested);
    rungsCard_->body()->addWidget(rows_);
    return rungsCard_;
}

Card* LadderPage::makeWidths() {
    widthsCard_ = new Card(tr("FP8 over BF16 by width"), QString(), this);
    crossing_ = new TextLabel(QString(), Token::Text2, TextSize::Small, false, widthsCard_);
    widthsCard_->headTools()->addWidget(crossing_);
    chart_ = new WidthChart(widthsCard_);
    widthsCard_->body()->addWidget(chart_, 1);
    auto* row = new QHBoxLayout;
    row->setContentsMargins(12, 0, 12, 8);
    row->setSpacing(8);
    row->addWidget(new TextLabel(tr("Widths"), Token::Text2, TextSize::Small, false, widthsCard_));
    widths_ = new QLineEdit(widthsCard_);
    widths_->setAccessibleName(tr("Widths of the sweep"));
    widths_->setToolTip(tr("Model widths, separated by commas; each a multiple of the model's head width"));
    widths_->setFixedHeight(24);
    row->addWidget(widths_, 1);
    sweep_ = button(int(Glyph::Play), tr("Run"), tr("Measure BF16 and FP8 at each width"), widthsCard_);
    sweep_->setAccessibleName(tr("Run the sweep over widths"));
    connect(sweep_, &QToolButton::clicked, this, &LadderPage::runWidths);
    row->addWidget(sweep_);
    exportWidths_ = button(int(Glyph::Export), tr("Export"), tr("Write the sweep as PNG, SVG or CSV"), widthsCard_);
    connect(exportWidths_, &QToolButton::clicked, this, [this] { chooseFile(view_.widths.get()); });
    row->addWidget(exportWidths_);
    widthsCard_->body()->addLayout(row);
    return widthsCard_;
}

void LadderPage::choosePreset(const QString& name) {
    chosen_ = true;
    presets_->setCurrentText(name);
}

QString LadderPage::preset() const {
    return presets_->currentText();
}

LadderRequest LadderPage::request(LadderMode mode, std::vector<int> widths) const {
    return requestOf(preset().toStdString(), mode, std::move(widths), warmup_->value(), steps_->value());
}

/// Nothing when a word of the field is no width; then the page says so and the field is marked.
std::optional<std::vector<int>> LadderPage::wantedWidths() {
    std::vector<int> widths;
    problem_.clear();
    static const QRegularExpression separators(QStringLiteral("[,;\\s]+"));
    for (const QString& word : widths_->text().split(separators, Qt::SkipEmptyParts)) {
        widths.push_back(word.toInt());
        if (widths.back() <= 0 && problem_.isEmpty())
            problem_ =
                tr("Widths: \"%1\" is no width; each is a whole number, a multiple of the model's head width, for "
                   "example %2.")
                    .arg(word, widths_->placeholderText());
    }
    try {
        if (problem_.isEmpty() && !widths.empty()) experiments::ladderRungs(request(LadderMode::Widths, widths));
    } catch (const std::exception& error) {
        problem_ = QString::fromUtf8(error.what());
    }
    markWrong(widths_, !problem_.isEmpty());
    if (!problem_.isEmpty()) return std::nullopt;
    return widths.empty() ? view_.defaultWidths : widths;
}

void LadderPage::runRungs(const std::vector<std::string>& only) {
    LadderOptions options;
    options.request = request(LadderMode::Rungs);
    options.only = only;
    if (!only.empty() && view_.rungs) options.ladder = view_.rungs->id;
    start(std::move(options));
}

void LadderPage::runWidths() {
    const std::optional<std::vector<int>> widths = wantedWidths();
    if (!widths) return showBusy();
    LadderOptions options;
    options.request = request(LadderMode::Widths, *widths);
    start(std::move(options));
}

/// The job is made on another thread: it opens the store.
void LadderPage::start(LadderOptions options) {
    if (busy()) return;
    starting_ = chosen_ = true;
    stopWanted_ = false;
    sinceStart_.start();
    problem_.clear();
    jobMode_ = options.request.mode;
    options.store = controller().store().path.toStdString();
    controller().compute(
        this, kStartTopic, [options = std::move(options)] { return std::make_shared<experiments::LadderJob>(options); },
        [this](std::shared_ptr<experiments::LadderJob> job) {
            starting_ = false;
            job_ = std::move(job);
            if (stopWanted_) job_->stop();
            doneSeen_ = -1;
            timer_.start();
            tick();
        },
        [this](const QString& error) {
            starting_ = false;
            problem_ = error;
            changed();
            showBusy();
            Q_EMIT ended();
        });
    showAll();
}

void LadderPage::stop() {
    stopWanted_ = true;
    if (job_) job_->stop();
}

void LadderPage::tick() {
    if (!job_) return;
    const experiments::LadderProgress now = job_->progress();
    const QString rung = QString::fromStdString(now.rung);
    status_ = rung.isEmpty() ? QString()
                             : tr("Ladder %1 of %2: %3, step %4 of %5")
                                   .arg(std::min(now.done + 1, now.rungs))
                                   .arg(now.rungs)
                                   .arg(rung, formatCount(now.step), formatCount(now.steps));
    if (now.ended) {
        timer_.stop();
        problem_ = QString::fromStdString(now.failed);
        status_.clear();
        job_.reset();  // its thread has ended
    }
    if (now.ended || now.done != doneSeen_) {
        doneSeen_ = now.done;
        changed();
    } else if (isVisible()) {
        showBusy();
        showAll();
    }
    Q_EMIT statusTextChanged();
    if (now.ended) Q_EMIT ended();
}

void LadderPage::refresh() {
    const QString name = preset();
    QStringList among;  // empty: the model was picked
    for (int i = 0; i < presets_->count() && !chosen_ && !busy(); ++i) among << presets_->itemText(i);
    const int warmup = warmup_->value(), steps = steps_->value();
    const std::string going = job_ && jobMode_ == LadderMode::Rungs ? job_->id() : std::string();
    controller().load(
        this, kLoadTopic,
        [name, among, warmup, steps, going](experiments::RunStore& store) {
            return readView(store, newestPreset(store, among, name), warmup, steps, going);
        },
        [this](LadderView view) {
            if (!chosen_) {
                const QSignalBlocker quiet(presets_);
                presets_->setCurrentText(view.preset);
            }
            view_ = std::move(view);
            showAll();
        },
        [this](const QString& error) {
            problem_ = error;
            showBusy();
        });
}

void LadderPage::chooseFile(const LadderResult* ladder) {
    if (!ladder) return;
    const QString name = QStringLiteral("ladder-%1.png").arg(preset());
    auto* dialog = new QFileDialog(this, tr("Export the ladder"), name, tr("PNG (*.png);;SVG (*.svg);;CSV (*.csv)"));
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setAcceptMode(QFileDialog::AcceptSave);
    connect(dialog, &QFileDialog::fileSelected, this,
            [this, copy = *ladder](const QString& path) { exportTo(path, copy); });
    dialog->open();
}

bool LadderPage::exportTo(const QString& path, const LadderResult& ladder) {
    const bool csv = path.endsWith(QLatin1String(".csv")), svg = path.endsWith(QLatin1String(".svg"));
    if (!csv && !svg && !path.endsWith(QLatin1String(".png"))) {
        problem_ = tr("Not written: %1 names no format by its ending; there are .png, .svg and .csv.").arg(path);
        showBusy();
        return false;
    }
    controller().compute(
        this, kExportTopic,
        [path, csv, svg, ladder] {
            const std::string body = csv   ? experiments::ladderCsv(ladder)
                                     : svg ? experiments::ladderSvg(ladder)
                                           : experiments::ladderPng(ladder);
            QSaveFile file(path);
            const bool written =
                file.open(QIODevice::WriteOnly) && file.write(body.data(), qint64(body.size())) >= 0 && file.commit();
            return written ? QString() : tr("Not written: %1: %2.").arg(path, file.errorString());
        },
        [this, path](const QString& trouble) {
            problem_ = trouble;
            if (trouble.isEmpty()) Q_EMIT controller().done(tr("Written: %1").arg(path));
            showBusy();
        },
        [this](const QString& error) {
            problem_ = error;
            showBusy();
        });
    return true;
}

}  // namespace mantissa::gui
