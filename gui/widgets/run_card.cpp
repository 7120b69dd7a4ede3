#include "gui/widgets/run_card.h"

#include <QApplication>
#include <QClipboard>
#include <QDateTime>
#include <QHBoxLayout>
#include <QLocale>
#include <QPainter>
#include <QSet>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/controller/run_controller.h"
#include "gui/format/numbers.h"
#include "gui/theme/icons.h"

namespace mantissa::gui {
namespace {

constexpr int kDocumentTopic = 1;

struct CardDocument {
    QString data, effective;
};

CardDocument makeDocument(const experiments::RunDocument& document) {
    CardDocument out;
    out.data = QString::fromStdString(document.dataDescription);
    int fp8 = 0;
    for (const auto& row : document.precision)
        fp8 += row.recipe != "bf16" && row.recipe != "fp32" && row.recipe != "fp16" && row.recipe != "tf32";
    if (!document.precision.empty()) {
        bool native = false;
        for (const auto& row : document.precision) native |= row.native;
        out.effective = QObject::tr("%1 of %2 products in FP8%3")
                            .arg(fp8)
                            .arg(document.precision.size())
                            .arg(fp8 > 0 && !native ? QObject::tr(", emulated") : QString());
    }
    return out;
}

QString startedText(const RunInfo& info) {
    if (info.startedMs == 0) return notMeasured();
    const QDateTime at = QDateTime::fromMSecsSinceEpoch(info.startedMs);
    const QString clock = QLocale().toString(at.time(), QStringLiteral("HH:mm"));
    const QString day =
        at.date() == QDate::currentDate() ? QObject::tr("today") : QLocale().toString(at.date(), QLocale::ShortFormat);
    if (!info.ended()) return QObject::tr("%1 %2").arg(day, clock);
    return QObject::tr("%1 %2, took %3").arg(day, clock, formatDuration(info.seconds));
}

}  // namespace

QString seedList(std::vector<quint64> seeds) {
    constexpr qsizetype kParts = 6;
    std::sort(seeds.begin(), seeds.end());
    seeds.erase(std::unique(seeds.begin(), seeds.end()), seeds.end());
    QStringList parts;
    for (size_t first = 0; first < seeds.size();) {
        size_t last = first;
        while (last + 1 < seeds.size() && seeds[last + 1] == seeds[last] + 1) ++last;
        if (last - first < 2) last = first;
        parts << (last > first ? QStringLiteral("%1 to %2").arg(seeds[first]).arg(seeds[last])
                               : QString::number(seeds[first]));
        first = last + 1;
    }
    if (parts.size() <= kParts) return parts.join(QStringLiteral(", "));
    return QStringLiteral("%1, … (%2 seeds)")
        .arg(parts.mid(0, kParts - 1).join(QStringLiteral(", ")))
        .arg(seeds.size());
}

RunCard::RunCard(RunController& controller, QWidget* parent) : QWidget(parent), controller_(controller) {
    auto* outer = new QVBoxLayout(this);
    outer->setContentsMargins(0, 0, 0, 0);
    outer->setSpacing(0);
    outer->addWidget(new Separator(Qt::Horizontal, this));
    auto* head = new QHBoxLayout;
    head->setContentsMargins(12, 10, 12, 6);
    title_ = new TextLabel(QString(), Token::Text, TextSize::Body, true, this);
    title_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    copy_ = new QToolButton(this);
    copy_->setIcon(icon(Glyph::Copy));
    copy_->setToolTip(tr("Copy these facts as text"));
    copy_->setAccessibleName(tr("Copy the facts of the run"));
    head->addWidget(title_, 1);
    head->addWidget(copy_);
    outer->addLayout(head);
    grid_ = new QGridLayout;
    grid_->setContentsMargins(12, 0, 12, 0);
    grid_->setHorizontalSpacing(12);
    grid_->setVerticalSpacing(5);
    grid_->setColumnStretch(1, 1);
    outer->addLayout(grid_);
    note_ = new TextLabel(QString(), Token::Text2, TextSize::Body, false, this);
    note_->setWordWrap(true);
    note_->setContentsMargins(12, 8, 12, 0);
    outer->addWidget(note_);
    outer->addSpacing(12);
    connect(copy_, &QToolButton::clicked, this, [this] { QApplication::clipboard()->setText(asText()); });
    connect(&controller_, &RunController::runsChanged, this, &RunCard::refresh);
    connect(&controller_, &RunController::runChanged, this, [this](const QString& id) {
        if (ids_.size() > 1 || ids_.contains(id))
            refresh();  // of many it shows the baseline, which need not be one of them
    });
    hide();
}

void RunCard::setRuns(const QStringList& ids) {
    ids_ = ids;
    if (ids.size() == 1 && documentOf_ != ids.first()) {
        data_.clear();
        effective_.clear();
        loadDocument(ids.first());
    }
    refresh();
}

void RunCard::loadDocument(const QString& id) {
    documentOf_ = id;
    controller_.load(
        this, kDocumentTopic,
        [id](experiments::RunStore& store) { return makeDocument(store.document(id.toStdString())); },
        [this](const CardDocument& document) {
            data_ = document.data;
            effective_ = document.effective;
            refresh();
        },
        [](const QString&) {});
}

void RunCard::setRow(const QString& name, const QString& value, Token token) {
    if (value.isEmpty()) return;
    if (used_ == rows_.size()) {
        auto* key = new TextLabel(name, Token::Text3, TextSize::Body, false, this);
        auto* text = new TextLabel(value, token, TextSize::Body, false, this);
        text->setWordWrap(true);
        text->setTextInteractionFlags(Qt::TextSelectableByMouse);
        text->setFocusPolicy(Qt::NoFocus);
        grid_->addWidget(key, used_, 0, Qt::AlignTop);
        grid_->addWidget(text, used_, 1);
        rows_.push_back({key, text});
    }
    auto& [key, text] = rows_[used_++];
    key->setText(name);
    text->setText(value);
    text->setToken(token);
    key->show();
    text->show();
}

void RunCard::refresh() {
    used_ = 0;
    const RunInfo* info = ids_.size() == 1 ? controller_.run(ids_.first()) : nullptr;
    setVisible(info || ids_.size() > 1);
    if (info)
        showOne(*info);
    else if (ids_.size() > 1)
        showMany();
    for (int i = used_; i < rows_.size(); ++i) {
        rows_[i].first->hide();
        rows_[i].second->hide();
    }
}

void RunCard::showOne(const RunInfo& info) {
    title_->setText(info.name);
    title_->setToolTip(info.id);
    // The plan read back from what ran exists from the first step on.
    if (effective_.isEmpty() && info.step > 0 && documentOf_ == info.id) loadDocument(info.id);
    const bool bad =
        info.state == RunState::Failed || info.state == RunState::Refused || info.state == RunState::Diverged;
    setRow(tr("State"), info.message.isEmpty() || bad ? runStateName(info.state) : info.message,
           bad                                   ? Token::Bad
           : info.state == RunState::Interrupted ? Token::Warn
                                                 : Token::Text);
    if (bad) setRow(tr("Reason"), info.message, Token::Bad);
    setRow(tr("Recipe"), info.recipe);
    setRow(tr("Effective"), effective_);
    if (!info.parent.isEmpty()) {
        const RunInfo* parent = controller_.run(info.parent);
        const QString name = parent ? parent->name : tr("a run that was deleted");
        setRow(tr("Forked from"), info.parentStep > 0 ? tr("%1, step %2").arg(name, formatCount(info.parentStep))
                                                      : tr("%1, from the start").arg(name));
    }
    setRow(tr("Data"), data_);
    setRow(tr("Device"), info.deviceName.isEmpty() ? info.device : info.deviceName);
    setRow(tr("Seed"), QString::number(info.seed));
    setRow(tr("Started"), startedText(info));
    const RunInfo* baseline = controller_.run(controller_.baseline());
    setRow(tr("Baseline"), info.baseline ? tr("this run") : baseline ? baseline->name : QString());
    setRow(tr("Tags"), info.tags.join(QStringLiteral(", ")));
    note_->setText(info.note);
    note_->setVisible(!info.note.isEmpty());
}

void RunCard::showMany() {
    title_->setText(tr("%1 runs selected").arg(ids_.size()));
    title_->setToolTip(QString());
    QSet<QString> models, recipes, devices;
    std::vector<quint64> seeds;
    for (const QString& id : ids_)
        if (const RunInfo* info = controller_.run(id)) {
            models << info->model;
            recipes << info->recipe;
            devices << info->device;
            seeds.push_back(info->seed);
        }
    const auto list = [](const QSet<QString>& set) {
        QStringList values(set.begin(), set.end());
        values.sort();
        return values.join(QStringLiteral(", "));
    };
    const RunInfo* baseline = controller_.run(controller_.baseline());
    setRow(tr("Baseline"), baseline ? baseline->name : tr("none pinned: space pins a run"));
    setRow(tr("Model"), list(models));
    setRow(tr("Recipes"), list(recipes));
    setRow(tr("Seeds"), seedList(std::move(seeds)));
    setRow(tr("Device"), list(devices));
    note_->hide();
}

QString RunCard::asText() const {
    QString text = title_->text() + QLatin1Char('\n');
    for (int i = 0; i < used_; ++i)
        text += rows_[i].first->text() + QLatin1Char('\t') + rows_[i].second->text() + QLatin1Char('\n');
    return text;
}

}  // namespace mantissa::gui
