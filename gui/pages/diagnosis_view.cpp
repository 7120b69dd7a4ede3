#include "gui/pages/diagnosis_view.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QScrollArea>
#include <QStyle>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/format/numbers.h"
#include "gui/theme/fonts.h"
#include "gui/widgets/glyph_label.h"

namespace mantissa::gui {

using experiments::AppliedChange;
using experiments::Diagnosis;
using experiments::Evidence;
using experiments::ProposedChange;
using experiments::RunSpec;

namespace {

QString text(const std::string& utf8) {
    return QString::fromStdString(utf8);
}

void clear(QLayout* layout) {
    while (QLayoutItem* item = layout->takeAt(0)) {
        if (item->layout()) clear(item->layout());
        if (item->widget()) item->widget()->deleteLater();
        delete item;
    }
}

TextLabel* wrapped(const QString& words, Token token, QWidget* parent) {
    auto* label = new TextLabel(words, token, TextSize::Body, false, parent);
    label->setWordWrap(true);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse);
    return label;
}

QString stretch(const experiments::Finding& finding) {
    return finding.ongoing || finding.lastStep <= finding.firstStep
               ? QObject::tr("since %1").arg(formatCount(finding.firstStep))
               : QObject::tr("%1 … %2").arg(formatCount(finding.firstStep), formatCount(finding.lastStep));
}

}  // namespace

std::optional<RunSpec> withChange(const RunSpec& spec, const ProposedChange& change, QString* why) {
    RunSpec changed = spec;
    *why = QString();
    for (const experiments::SpecChange& set : change.sets) {
        const auto errors = experiments::setPath(changed, set.path, set.value);
        if (!errors.empty()) *why = text(errors.front().path + ": " + errors.front().message);
    }
    if (why->isEmpty())
        if (const auto errors = experiments::validate(changed); !errors.empty())
            *why = text(errors.front().path + ": " + errors.front().message);
    return why->isEmpty() ? std::optional(changed) : std::nullopt;
}

DiagnosisView::DiagnosisView(QWidget* parent) : QWidget(parent) {
    auto* columns = new QHBoxLayout(this);
    columns->setContentsMargins(0, 0, 0, 0);
    columns->setSpacing(10);
    list_ = new Card(tr("Findings"), QString(), this);
    list_->setMinimumWidth(300);
    notes_ = new NoteList(tr("Findings"), list_);
    notes_->setToolTip(tr("Up and Down choose a finding; the one that explains most stands first"));
    list_->body()->addWidget(notes_, 1);
    columns->addWidget(list_, 2);
    columns->addWidget(buildDetail(), 3);
    connect(notes_, &NoteList::chosen, this, [this](const Note& note) { choose(note.key); });
    showReading();
}

QWidget* DiagnosisView::buildDetail() {
    detail_ = new Card(tr("What happens"), QString(), this);
    place_ = new QPushButton(detail_);
    place_->setToolTip(tr("Opens the tensor in the heatmap at the first step of the trouble"));
    detail_->headTools()->addWidget(place_);
    auto* scroll = new QScrollArea(detail_);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidgetResizable(true);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->viewport()->setAutoFillBackground(false);
    detail_->body()->addWidget(scroll, 1);
    auto* inside = new QWidget(scroll);
    scroll->setWidget(inside);
    inside->setAutoFillBackground(false);
    auto* outer = new QVBoxLayout(inside);
    outer->setContentsMargins(12, 10, 12, 12);
    empty_ = wrapped(QString(), Token::Text2, inside);
    outer->addWidget(empty_);
    content_ = new QWidget(inside);
    outer->addWidget(content_);
    outer->addStretch(1);
    auto* rows = new QVBoxLayout(content_);
    rows->setContentsMargins(0, 0, 0, 0);
    rows->setSpacing(8);
    what_ = new MessageStrip(content_);
    rows->addWidget(what_);
    const auto head = [rows](const QString& title, QWidget* parent) {
        rows->addSpacing(4);
        rows->addWidget(new TextLabel(title, Token::Text, TextSize::Body, true, parent));
    };
    head(tr("Likely cause"), content_);
    cause_ = wrapped(QString(), Token::Text2, content_);
    rows->addWidget(cause_);
    head(tr("Evidence"), content_);
    evidence_ = new QVBoxLayout;
    evidence_->setSpacing(0);
    rows->addLayout(evidence_);

    changesPart_ = new QWidget(content_);
    auto* change = new QVBoxLayout(changesPart_);
    change->setContentsMargins(0, 4, 0, 0);
    change->setSpacing(6);
    change->addWidget(
        new TextLabel(tr("What would help, best first"), Token::Text, TextSize::Body, true, changesPart_));
    changes_ = new QTableWidget(0, 3, changesPart_);
    changes_->setHorizontalHeaderLabels({tr("Change"), tr("Expected"), tr("How")});
    for (int c = 0; c < 3; ++c) changes_->horizontalHeaderItem(c)->setTextAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    changes_->verticalHeader()->hide();
    changes_->verticalHeader()->setDefaultSectionSize(26);
    changes_->horizontalHeader()->setSectionResizeMode(0, QHeaderView::Stretch);
    changes_->horizontalHeader()->setSectionResizeMode(1, QHeaderView::ResizeToContents);
    changes_->horizontalHeader()->setSectionResizeMode(2, QHeaderView::ResizeToContents);
    changes_->setShowGrid(false);
    changes_->setEditTriggers(QAbstractItemView::NoEditTriggers);
    changes_->setSelectionBehavior(QAbstractItemView::SelectRows);
    changes_->setSelectionMode(QAbstractItemView::SingleSelection);
    changes_->setTabKeyNavigation(false);
    changes_->setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    changes_->setAccessibleName(tr("Changes that would help"));
    changes_->setToolTip(tr("Up and Down choose a change; the buttons below take it"));
    change->addWidget(changes_);
    why_ = wrapped(QString(), Token::Text3, changesPart_);
    change->addWidget(why_);
    auto* buttons = new QHBoxLayout;
    apply_ = new QPushButton(tr("Apply now"), changesPart_);
    apply_->setProperty("kind", QStringLiteral("primary"));
    apply_->setToolTip(tr("Takes the change between two steps of the run that goes"));
    fork_ = new QPushButton(changesPart_);
    fork_->setAccessibleName(tr("Fork with the change"));
    fork_->setToolTip(tr("Makes a child run with the chosen change"));
    buttons->addWidget(apply_);
    buttons->addWidget(fork_);
    edit_ = new QPushButton(tr("Look over first…"), changesPart_);
    edit_->setAccessibleName(edit_->text());
    edit_->setToolTip(tr("Opens the fork dialog with the change filled in"));
    buttons->addWidget(edit_);
    buttons->addStretch(1);
    change->addLayout(buttons);
    rows->addWidget(changesPart_);

    appliedPart_ = new QWidget(content_);
    auto* brought = new QVBoxLayout(appliedPart_);
    brought->setContentsMargins(0, 4, 0, 0);
    brought->setSpacing(6);
    brought->addWidget(
        new TextLabel(tr("What was changed, and what it brought"), Token::Text, TextSize::Body, true, appliedPart_));
    applied_ = new QVBoxLayout;
    applied_->setSpacing(8);
    brought->addLayout(applied_);
    rows->addWidget(appliedPart_);

    connect(place_, &QPushButton::clicked, this, [this] {
        const auto& finding = diagnosis_->findings[size_t(finding_)];
        Q_EMIT tensorRequested(finding.tensorIndex, finding.firstStep);
    });
    connect(changes_, &QTableWidget::currentCellChanged, this, &DiagnosisView::updateButtons);
    connect(apply_, &QPushButton::clicked, this, [this] {
        QString why;
        if (const ProposedChange* change = chosenChange())
            if (const auto spec = withChange(spec_, *change, &why)) Q_EMIT applyRequested(text(spec->toJson(-1)));
    });
    const auto fork = [this](bool now) {
        QString why;
        if (const ProposedChange* change = chosenChange())
            if (const auto spec = withChange(spec_, *change, &why))
                Q_EMIT forkRequested(std::max<qint64>(0, change->forkStep), text(spec->toJson(-1)), now);
    };
    connect(fork_, &QPushButton::clicked, this, [fork] { fork(true); });
    connect(edit_, &QPushButton::clicked, this, [fork] { fork(false); });
    return detail_;
}

void DiagnosisView::showReading() {
    diagnosis_.reset();
    finding_ = -1;
    notes_->setNotes({}, tr("Reading what was recorded."));
    list_->setHint(QString());
    fillDetail();
}

void DiagnosisView::showDiagnosis(std::shared_ptr<const Diagnosis> diagnosis, const RunSpec& spec, const RunInfo* run) {
    QString kept;
    const auto key = [](const experiments::Finding& finding) { return text(finding.kind + " " + finding.place()); };
    if (diagnosis_ && finding_ >= 0) kept = key(diagnosis_->findings[size_t(finding_)]);
    diagnosis_ = std::move(diagnosis);
    spec_ = spec;
    going_ = run && run->going();
    finding_ = diagnosis_->findings.empty() ? -1 : 0;
    std::vector<Note> notes;
    for (int i = 0; i < int(diagnosis_->findings.size()); ++i) {
        const auto& finding = diagnosis_->findings[size_t(i)];
        if (key(finding) == kept) finding_ = i;
        Note note;
        note.glyph = int(finding.severity > 1 ? Glyph::Bad : Glyph::Warning);
        note.token = finding.severity > 1 ? Token::Bad : Token::Warn;
        note.title = text(finding.place());
        note.right = stretch(finding);
        note.rightToken = Token::Text2;
        note.detail = text(finding.what);
        if (note.detail.startsWith(note.title + QStringLiteral(": ")))  // the place stands above
            note.detail = note.detail.mid(note.title.size() + 2);
        note.key = i;
        note.step = double(finding.firstStep);
        notes.push_back(note);
    }
    notes_->setNotes(std::move(notes), text(diagnosis_->summary));
    list_->setHint(tr("%1 over %2 steps")
                       .arg(diagnosis_->findings.size() == 1 ? tr("1 finding")
                                                             : tr("%1 findings").arg(diagnosis_->findings.size()),
                            formatCount(diagnosis_->steps)));
    fillDetail();
}

void DiagnosisView::choose(int finding) {
    if (!diagnosis_ || finding < 0 || finding >= int(diagnosis_->findings.size())) return;
    finding_ = finding;
    fillDetail();
}

void DiagnosisView::fillDetail() {
    const bool any = diagnosis_ && finding_ >= 0;
    content_->setVisible(any);
    place_->setVisible(any && diagnosis_->findings[size_t(finding_)].tensorIndex >= 0);
    empty_->setVisible(!any);
    if (!any) {
        empty_->setText(diagnosis_ ? text(diagnosis_->summary) : QString());
        return;
    }
    const auto& finding = diagnosis_->findings[size_t(finding_)];
    place_->setText(tr("Show in heatmap"));
    place_->setAccessibleName(tr("Show %1 in the heatmap").arg(text(finding.place())));
    what_->showMessage(finding.severity > 1 ? MessageKind::Bad : MessageKind::Warn, text(finding.what));
    cause_->setText(text(finding.cause));
    clear(evidence_);
    for (const Evidence& evidence : finding.evidence) addEvidence(evidence);
    fillChanges(finding);
    clear(applied_);
    for (const AppliedChange& applied : finding.applied) addApplied(applied);
    appliedPart_->setVisible(!finding.applied.empty());
}

void DiagnosisView::addEvidence(const Evidence& evidence) {
    const QString words = text(evidence.text);
    if (evidence.series.empty()) {
        evidence_->addWidget(wrapped(words, Token::Text2, content_));
        return;
    }
    auto* link = new QToolButton(content_);
    link->setIcon(icon(Glyph::ArrowRight, Token::Accent));
    link->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    link->setText(words);
    link->setAccessibleName(words);
    link->setToolTip(tr("Shows %1 at step %2").arg(text(evidence.series), formatCount(evidence.step)));
    link->setFocusPolicy(Qt::StrongFocus);
    connect(link, &QToolButton::clicked, this,
            [this, series = text(evidence.series), step = evidence.step] { Q_EMIT evidenceRequested(series, step); });
    auto* row = new QHBoxLayout;
    row->addWidget(link);
    row->addStretch(1);
    evidence_->addLayout(row);
}

void DiagnosisView::addApplied(const AppliedChange& applied) {
    auto* row = new QHBoxLayout;
    row->setSpacing(8);
    row->addWidget(new GlyphLabel(applied.ended ? Glyph::Check : Glyph::Warning,
                                  applied.ended ? Token::Ok : Token::Warn, 16, appliedPart_),
                   0, Qt::AlignTop);
    auto* words = new QVBoxLayout;
    words->setSpacing(1);
    words->addWidget(
        wrapped(tr("%1, step %2, in %3").arg(text(applied.text), formatCount(applied.step), text(applied.runName)),
                Token::Text, appliedPart_));
    words->addWidget(wrapped(text(applied.brought), Token::Text2, appliedPart_));
    row->addLayout(words, 1);
    if (!applied.run.empty() && diagnosis_ && applied.run != diagnosis_->run) {
        auto* open = new QPushButton(tr("Show run"), appliedPart_);
        open->setAccessibleName(tr("Show run %1").arg(text(applied.runName)));
        open->setToolTip(tr("Selects %1 in the run list").arg(text(applied.runName)));
        connect(open, &QPushButton::clicked, this, [this, id = text(applied.run)] { Q_EMIT runRequested(id); });
        row->addWidget(open, 0, Qt::AlignTop);
    }
    applied_->addLayout(row);
}

void DiagnosisView::fillChanges(const experiments::Finding& finding) {
    changesPart_->setVisible(!finding.changes.empty());
    const QSignalBlocker quiet(changes_);
    changes_->setRowCount(int(finding.changes.size()));
    for (int r = 0; r < int(finding.changes.size()); ++r) {
        const ProposedChange& change = finding.changes[size_t(r)];
        const QString how =
            change.needsFork
                ? change.forkStep > 0 ? tr("fork from %1").arg(formatCount(change.forkStep)) : tr("start again")
            : change.live && going_ ? tr("while it runs")
                                    : tr("fork");
        const QString cells[] = {text(change.title), text(change.expected), how};
        for (int c = 0; c < 3; ++c) {
            auto* item = new QTableWidgetItem(cells[c]);
            QStringList sets;
            for (const auto& set : change.sets)
                sets << QStringLiteral("%1: %2 → %3").arg(text(set.path), text(set.before), text(set.value));
            item->setToolTip(sets.isEmpty() ? cells[c] : sets.join(QLatin1Char('\n')));
            item->setFont(uiFont(TextSize::Body, r == 0 && c == 0));
            changes_->setItem(r, c, item);
        }
    }
    changes_->setFixedHeight(26 * int(finding.changes.size()) + 28);
    if (!finding.changes.empty()) changes_->setCurrentCell(0, 0);
    updateButtons();
}

const ProposedChange* DiagnosisView::chosenChange() const {
    if (!diagnosis_ || finding_ < 0) return nullptr;
    const auto& changes = diagnosis_->findings[size_t(finding_)].changes;
    const int row = changes_->currentRow();
    return row >= 0 && row < int(changes.size()) ? &changes[size_t(row)] : nullptr;
}

void DiagnosisView::updateButtons() {
    const ProposedChange* change = chosenChange();
    QString why;
    const bool takes = change && withChange(spec_, *change, &why).has_value();
    const bool live = takes && change->live && !change->needsFork && going_;
    apply_->setEnabled(live);
    apply_->setAccessibleName(tr("Apply now"));
    apply_->setToolTip(live                ? tr("The running job takes %1 between two steps").arg(text(change->title))
                       : !change           ? tr("No change is chosen")
                       : !why.isEmpty()    ? why
                       : !going_           ? tr("The run is not going: fork with the change instead")
                       : change->needsFork ? tr("The state is spoilt: only going on from before the trouble helps")
                                           : tr("This change cannot be made while the run goes"));
    fork_->setEnabled(takes);
    edit_->setEnabled(takes);
    fork_->setText(change && change->forkStep > 0 ? tr("Fork from %1").arg(formatCount(change->forkStep))
                                                  : tr("Start again with it"));
    fork_->setAccessibleName(fork_->text());
    const QString queue = going_ ? tr("; it waits until the device is free") : QString();
    fork_->setToolTip(!takes                 ? why
                      : change->forkStep > 0 ? tr("Starts a child run from before the trouble%1").arg(queue)
                                             : tr("No checkpoint from before the trouble is on disk: starts a child "
                                                  "run from the first step%1")
                                                   .arg(queue));
    // One primary button: the way that works.
    for (auto [button, primary] : {std::pair(apply_, live), std::pair(fork_, !live)}) {
        button->setProperty("kind", primary ? QStringLiteral("primary") : QString());
        button->style()->unpolish(button);
        button->style()->polish(button);
    }
    why_->setText(why);
    why_->setVisible(!why.isEmpty());
}

}  // namespace mantissa::gui
