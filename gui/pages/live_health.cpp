#include "gui/pages/live_health.h"

#include <QPushButton>
#include <QVBoxLayout>
#include <cmath>

#include "gui/format/numbers.h"

namespace mantissa::gui {

using namespace experiments;

namespace {

constexpr int kWindow = 100;  ///< steps over which the rules are replayed

/// Ticks of the health scale: how often the amber limit.
QString limitText(double ratio) {
    return ratio == 1  ? QStringLiteral("limit")
           : ratio < 1 ? QStringLiteral("1/%1").arg(std::lround(1 / ratio))
                       : QStringLiteral("×%1").arg(std::lround(ratio));
}

}  // namespace

Glyph eventGlyph(const RunEvent& event) {
    if (event.kind == "alert") {
        return event.severity >= 2 ? Glyph::Bad : Glyph::Warning;
    }
    return event.kind == "checkpoint"                           ? Glyph::Flag
           : event.kind == "command"                            ? Glyph::Swap
           : event.kind == "resumed" || event.kind == "started" ? Glyph::Play
           : event.kind == "ended"                              ? Glyph::Stop
                                                                : Glyph::Info;
}

Token eventToken(const RunEvent& event) {
    if (event.kind == "alert") {
        return event.alert == "non_finite" ? Token::Nonfinite : event.severity >= 2 ? Token::Bad : Token::Warn;
    }
    return event.kind == "command" || event.kind == "resumed" ? Token::Accent : Token::Text2;
}

std::vector<PlotEvent> railEvents(const std::vector<RunEvent>& events) {
    std::vector<PlotEvent> result;
    for (const RunEvent& event : events) {
        if (event.kind != "started" && event.kind != "ended" && event.step > 0) {
            result.push_back(
                {double(event.step), eventGlyph(event), eventToken(event), QString::fromStdString(event.text)});
        }
    }
    return result;
}

HealthCard::HealthCard(RunController& controller, RunSeries& series, QWidget* parent)
    : Card(QStringLiteral("FP8 health"), QStringLiteral("against the limits, last 100 steps"), parent),
      controller_(controller),
      series_(series) {
    fp8_ = new QWidget(this);
    auto* top = new QVBoxLayout(fp8_);
    top->setContentsMargins(12, 0, 12, 8);
    top->setSpacing(4);
    grid_ = new HealthGrid(fp8_);
    bar_ = new ColorBar(fp8_);
    hover_ = new TextLabel(QString(), Token::Text2, TextSize::Small, false, fp8_);
    hover_->setFixedHeight(16);
    top->addWidget(grid_);
    top->addWidget(bar_);
    top->addWidget(hover_);
    body()->addWidget(fp8_);

    bf16_ = new QWidget(this);
    auto* plain = new QVBoxLayout(bf16_);
    plain->setContentsMargins(12, 0, 12, 12);
    bf16Text_ = new TextLabel(QString(), Token::Text2, TextSize::Body, false, bf16_);
    bf16Text_->setWordWrap(true);
    twin_ = new QPushButton(QStringLiteral("Start the FP8 twin"), bf16_);
    twin_->setToolTip(QStringLiteral("Opens the launch dialog with this run in FP8: same seed, same tokens"));
    plain->addWidget(bf16Text_);
    plain->addWidget(twin_);
    bf16_->hide();
    body()->addWidget(bf16_);

    addSection(QStringLiteral("Look at first"));
    first_ = new NoteList(QStringLiteral("Look at first"), this);
    first_->setFixedHeight(24);
    body()->addWidget(first_);
    auto* buttons = new QVBoxLayout;
    buttons->setContentsMargins(12, 4, 12, 10);
    open_ = new QPushButton(QStringLiteral("Open in Numerics"), this);
    open_->setToolTip(QStringLiteral("Shows the first of these tensors in Numerics"));
    buttons->addWidget(open_);
    body()->addLayout(buttons);
    addSection(QStringLiteral("Events"));
    events_ = new NoteList(QStringLiteral("Events, newest first"), this);
    body()->addWidget(events_, 1);

    later_.setSingleShot(true);
    connect(&later_, &QTimer::timeout, this, &HealthCard::load);
    connect(&series, &RunSeries::eventsChanged, this, &HealthCard::showEvents);
    connect(&series, &RunSeries::documentChanged, this, &HealthCard::showBf16);
    connect(&series, &RunSeries::reset, this, [this] {
        take(RunHealth());
        showEvents();
        load();
    });
    connect(grid_, &HealthGrid::hovered, hover_, &QLabel::setText);
    const auto openTensor = [this](int tensor, double step) {
        const auto& catalogue = series_.document().catalogue;
        if (tensor >= 0 && tensor < int(catalogue.size())) {
            Q_EMIT tensorRequested(QString::fromStdString(engine::tensorName(catalogue[size_t(tensor)])), qint64(step));
        }
    };
    connect(grid_, &HealthGrid::tensorClicked, this, [openTensor](int tensor) { openTensor(tensor, -1); });
    connect(first_, &NoteList::chosen, this, [openTensor](const Note& note) { openTensor(note.key, note.step); });
    connect(events_, &NoteList::chosen, this, [this, openTensor](const Note& note) {
        note.key >= 0 ? openTensor(note.key, note.step) : Q_EMIT stepRequested(note.step);
    });
    connect(open_, &QPushButton::clicked, this,
            [this, openTensor] { openTensor(findings_.empty() ? 0 : findings_.front().tensor, -1); });
    connect(twin_, &QPushButton::clicked, this, [this] {
        RunSpec spec = series_.spec();
        spec.trainer.precision.mode = engine::PrecisionMode::Fp8;
        Q_EMIT twinRequested(QString::fromStdString(spec.toJson(-1)));
    });
    take(RunHealth());
}

void HealthCard::setRun(const RunInfo* run) {
    going_ = run && run->going();
}

void HealthCard::refresh() {
    const int wait = sinceLoad_.isValid() ? std::max<int>(0, 1000 - int(sinceLoad_.elapsed())) : 0;
    if (!later_.isActive()) {
        later_.start(wait);
    }
}

void HealthCard::load() {
    sinceLoad_.restart();
    if (series_.id().isEmpty()) {
        return;
    }
    const std::string id = series_.id().toStdString();
    controller_.load(
        this, 0, [id](RunStore& store) { return tensorHealth(store, id, kWindow); },
        [this](RunHealth health) { take(std::move(health)); });
}

void HealthCard::take(RunHealth health) {
    run_ = std::move(health);
    const auto& catalogue = series_.document().catalogue;
    QStringList layers, linears;
    fp8Tensors_ = 0;
    for (const auto& entry : catalogue) {
        const QString layer = QString::fromStdString(entry.layer), linear = shortLinear(entry.linear);
        if (entry.linear.empty()) {
            continue;  // the head has its own row only when it runs in FP8
        }
        if (!layers.contains(layer)) {
            layers << layer;
        }
        if (!linears.contains(linear)) {
            linears << linear;
        }
        fp8Tensors_ += isFp8(entry) ? 1 : 0;
    }
    const QStringList roles{QStringLiteral("x"), QStringLiteral("w"), QStringLiteral("dy")};
    const int columns = int(linears.size()) * 3;
    std::vector<GridCell> cells(size_t(layers.size() * columns));
    for (size_t t = 0; t < catalogue.size(); ++t) {
        const auto& entry = catalogue[t];
        const int layer = int(layers.indexOf(QString::fromStdString(entry.layer))),
                  linear = int(linears.indexOf(shortLinear(entry.linear)));
        if (entry.linear.empty() || layer < 0 || linear < 0) {
            continue;
        }
        GridCell& cell = cells[size_t(layer * columns + linear * 3 + int(entry.role))];
        cell.tensor = int(t);
        cell.bf16 = !isFp8(entry);
        cell.name = tensorTitle(entry);
        if (t < run_.tensors.size() && run_.tensors[t].recorded) {
            const TensorHealth& tensor = run_.tensors[t];
            cell.value = float(tensor.ratio);
            cell.state = tensor.nonFinite ? CellState::NonFinite : CellState::Value;
            cell.text = healthText(tensor.kind, tensor.standing);
        }
    }
    const HeatScale scale = healthScale();
    bar_->setScale(scale, limitText, limitText);
    grid_->setCells(layers, linears, roles, std::move(cells), scale);
    findings_ = gui::findings(run_, catalogue, series_.events());
    std::vector<Note> notes;
    for (size_t i = 0; i < findings_.size() && i < 3; ++i) {
        const Finding& found = findings_[i];
        const Token token = found.rank == 0 ? Token::Nonfinite : found.level == 2 ? Token::Bad : Token::Warn;
        notes.push_back({int(found.level == 2 ? Glyph::Bad : Glyph::Warning), token, -1, QString(),
                         tensorTitle(catalogue[size_t(found.tensor)]), found.what, found.since, token, found.tensor,
                         -1});
    }
    first_->setNotes(notes, !catalogue.empty() && fp8Tensors_ == 0 ? QStringLiteral("No tensor is cast to FP8.")
                            : run_.empty()                         ? QStringLiteral("First statistics after step 1.")
                                                                   : QStringLiteral("No tensor is over a limit."));
    first_->setFixedHeight(first_->contentHeight() + 2);
    grid_->setMarked(findings_.empty() ? -1 : findings_.front().tensor);
    open_->setEnabled(fp8Tensors_ > 0);
    showBf16();
    Q_EMIT healthChanged();
}

void HealthCard::showBf16() {
    const bool none = !series_.document().catalogue.empty() && fp8Tensors_ == 0;
    fp8_->setVisible(!none);
    bf16_->setVisible(none);
    if (none) {
        const int layers = series_.spec().trainer.model.layers;
        bf16Text_->setText(QStringLiteral("This run has no tensor in FP8. The %1 linears attn.qkv, attn.proj, mlp.fc1 "
                                          "and mlp.fc2 of %2 layers could run in it.")
                               .arg(4 * layers)
                               .arg(layers));
    }
    if (run_.empty() && !series_.document().catalogue.empty() && grid_->accessibleDescription().isEmpty()) {
        refresh();
    }
}

void HealthCard::showEvents() {
    std::vector<Note> notes;
    const auto& events = series_.events();
    for (auto event = events.rbegin(); event != events.rend() && notes.size() < 500; ++event) {
        Note note;
        note.glyph = int(eventGlyph(*event));
        note.token = eventToken(*event);
        note.lead = formatCount(event->step);
        note.title = QString::fromStdString(event->text);
        if (!event->layer.empty() && event->tensorIndex >= 0 &&
            event->tensorIndex < int(series_.document().catalogue.size())) {
            note.detail = tensorTitle(series_.document().catalogue[size_t(event->tensorIndex)]);
            const QString prefix = QString::fromStdString(event->layer + " " + event->tensor + ": ");
            if (note.title.startsWith(prefix)) {  // the tensor stands in the second line
                note.title = note.title.mid(prefix.size());
            }
        }
        note.key = event->tensorIndex;
        note.step = double(event->step);
        notes.push_back(note);
    }
    events_->setNotes(std::move(notes), QStringLiteral("Checkpoints, commands and alerts appear here."));
}

}  // namespace mantissa::gui
