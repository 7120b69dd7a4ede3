#include "gui/pages/refused_page.h"

#include <QApplication>
#include <QClipboard>
#include <QGridLayout>
#include <QHeaderView>
#include <QPushButton>
#include <QVBoxLayout>

#include "experiments/report/device_choice.h"
#include "gui/controller/run_controller.h"
#include "gui/format/numbers.h"

namespace mantissa::gui {
namespace {

constexpr int kTopic = 1;
const char* const kCategories[] = {"weights", "gradients", "moments", "activations", "workspace", "host"};

/// Changes that keep the run's meaning as far as they can, in that order. Reads which devices there are.
std::vector<FittingChange> changesOf(const experiments::RunSpec& spec, const std::string& device) {
    std::vector<FittingChange> list;
    const auto add = [&](const QString& text, const QString& effect, const std::string& on, auto&& change) {
        FittingChange entry{text, effect, on, spec, {}};
        change(entry.spec);
        if (experiments::validate(entry.spec).empty()) list.push_back(std::move(entry));
    };
    const auto arrow = [](int from, int to) { return QObject::tr("%1 to %2").arg(formatCount(from), formatCount(to)); };
    for (const int part : {2, 4, 8}) {
        const int batch = spec.trainer.batch, accumulation = spec.trainer.accumulation;
        if (batch % part != 0) continue;
        add(QObject::tr("micro-batch %1, accumulation %2")
                .arg(arrow(batch, batch / part), arrow(accumulation, accumulation * part)),
            QObject::tr("none: same tokens a step"), device, [=](experiments::RunSpec& s) {
                s.trainer.batch = batch / part;
                s.trainer.accumulation = accumulation * part;
            });
    }
    const int context = spec.trainer.model.context;
    add(QObject::tr("context %1, batch %2")
            .arg(arrow(context, context / 2), arrow(spec.trainer.batch, spec.trainer.batch * 2)),
        QObject::tr("shorter context"), device, [=](experiments::RunSpec& s) {
            s.trainer.model.context = context / 2;
            s.trainer.batch *= 2;
        });
    add(QObject::tr("layers %1").arg(arrow(spec.trainer.model.layers, spec.trainer.model.layers / 2)),
        QObject::tr("another model"), device,
        [](experiments::RunSpec& s) { s.trainer.model.layers = std::max(1, s.trainer.model.layers / 2); });
    if (experiments::concreteDevice(experiments::resolveDevice({device, 0, ""}).device) != "cpu")
        add(QObject::tr("CPU instead of the GPU"), QObject::tr("same codes and scales, slow"), "cpu",
            [](experiments::RunSpec&) {});
    return list;
}

}  // namespace

RefusedPage::RefusedPage(RunController& controller, QWidget* parent) : QWidget(parent), controller_(controller) {
    setAccessibleName(tr("Refused run"));
    auto* row = new QHBoxLayout(this);
    row->setContentsMargins(12, 12, 12, 12);
    row->setSpacing(10);
    planCard_ = new Card(tr("What the plan needs"), QStringLiteral(" "), this);
    auto* body = planCard_->body();
    auto* plan = new QVBoxLayout;
    plan->setContentsMargins(12, 4, 12, 12);
    plan->setSpacing(6);
    limit_ = new TextLabel(QString(), Token::Bad, TextSize::Small, true, planCard_);
    limit_->setAlignment(Qt::AlignRight);
    plan->addWidget(limit_);
    bar_ = new MemoryBar(planCard_);
    bar_->setFixedHeight(28);
    plan->addWidget(bar_);
    auto* grid = new QGridLayout;
    grid->setColumnStretch(0, 1);
    grid->setVerticalSpacing(6);
    for (int i = 0; i < 7; ++i) {
        grid->addWidget(new TextLabel(i < 6 ? QString::fromLatin1(kCategories[i]) : tr("together"), Token::Text2,
                                      TextSize::Body, false, planCard_),
                        i, 0);
        values_[i] = new TextLabel(notMeasured(), Token::Text, TextSize::Body, true, planCard_);
        grid->addWidget(values_[i], i, 1, Qt::AlignRight);
    }
    plan->addLayout(grid);
    body->addLayout(plan);
    planCard_->addSection(tr("Changes that make it fit"), tr("each computed by the same plan"));
    table_ = new QTableWidget(0, 4, planCard_);
    table_->setTabKeyNavigation(false);
    table_->setHorizontalHeaderLabels({tr("Change"), tr("Needs"), tr("Result"), tr("Effect on the result")});
    for (int c = 0; c < 4; ++c) table_->horizontalHeaderItem(c)->setTextAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    table_->setAccessibleName(tr("Changes that make it fit"));
    table_->setToolTip(tr("Choose one, then apply it"));
    table_->verticalHeader()->hide();
    table_->setShowGrid(false);
    table_->setSelectionBehavior(QAbstractItemView::SelectRows);
    table_->setSelectionMode(QAbstractItemView::SingleSelection);
    table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    table_->horizontalHeader()->setStretchLastSection(true);
    body->addWidget(table_, 1);
    auto* buttons = new QHBoxLayout;
    buttons->setContentsMargins(12, 8, 12, 12);
    buttons->setSpacing(8);
    const auto button = [this, buttons](const QString& text, const QString& tip) {
        auto* push = new QPushButton(text, planCard_);
        push->setAccessibleName(text);
        push->setToolTip(tip);
        buttons->addWidget(push);
        return push;
    };
    apply_ = button(tr("Apply and start"), tr("Starts the run with the chosen change"));
    apply_->setProperty("kind", QStringLiteral("primary"));
    edit_ = button(tr("Edit the run…"), tr("Opens the launch dialog with this run's spec"));
    copy_ = button(tr("Copy the plan"), tr("Copies the memory plan as text"));
    buttons->addStretch(1);
    body->addLayout(buttons);
    row->addWidget(planCard_, 1);
    nowCard_ = new Card(tr("On this device now"), QString(), this);
    nowCard_->setFixedWidth(300);
    auto* now = new QGridLayout;
    now->setContentsMargins(12, 4, 12, 12);
    now->setColumnStretch(0, 1);
    free_ = new TextLabel(notMeasured(), Token::Text, TextSize::Body, false, nowCard_);
    need_ = new TextLabel(notMeasured(), Token::Text, TextSize::Body, false, nowCard_);
    now->addWidget(new TextLabel(tr("free"), Token::Text2, TextSize::Body, false, nowCard_), 0, 0);
    now->addWidget(free_, 0, 1, Qt::AlignRight);
    now->addWidget(new TextLabel(tr("the plan needs"), Token::Text2, TextSize::Body, false, nowCard_), 1, 0);
    now->addWidget(need_, 1, 1, Qt::AlignRight);
    nowCard_->body()->addLayout(now);
    nowCard_->body()->addStretch(1);
    row->addWidget(nowCard_);
    connect(apply_, &QPushButton::clicked, this, &RefusedPage::apply);
    connect(edit_, &QPushButton::clicked, this,
            [this] { Q_EMIT editRequested(QString::fromStdString(answer_.spec.toJson())); });
    connect(copy_, &QPushButton::clicked, this, [this] { QApplication::clipboard()->setText(planText()); });
    connect(table_, &QTableWidget::itemSelectionChanged, this, [this] {
        const int chosen = table_->currentRow();
        const bool fits =
            chosen >= 0 && chosen < static_cast<int>(answer_.changes.size()) && answer_.changes[chosen].forecast.fits;
        apply_->setEnabled(fits);
        apply_->setToolTip(fits ? tr("Starts the run with the chosen change") : tr("Choose a change that fits"));
    });
    connect(&Theme::instance(), &Theme::changed, this, &RefusedPage::showChanges);
}

void RefusedPage::setRun(const QString& id) {
    if (id == id_) return;
    id_ = id;
    const RunInfo* info = controller_.run(id);
    const std::string device = info && !info->device.isEmpty() ? info->device.toStdString() : "auto";
    if (info)
        planCard_->setHint(info->deviceName.isEmpty() ? info->name : tr("%1, %2").arg(info->name, info->deviceName));
    controller_.load(
        this, kTopic,
        [id, device](experiments::RunStore& store) {
            Answer answer;
            answer.device = device;
            const auto parsed = experiments::parseSpec(store.document(id.toStdString()).specJson);
            if (!parsed.ok()) return answer;
            answer.spec = parsed.spec;
            const auto forecastOn = [&store](const experiments::RunSpec& spec, const std::string& on) {
                engine::DeviceChoice choice;
                choice.device = on;
                return experiments::forecast(spec, choice, &store);
            };
            answer.plan = forecastOn(answer.spec, device);
            answer.changes = changesOf(answer.spec, device);
            for (FittingChange& change : answer.changes) change.forecast = forecastOn(change.spec, change.device);
            return answer;
        },
        [this](Answer answer) { show(std::move(answer)); });
}

void RefusedPage::show(Answer answer) {
    answer_ = std::move(answer);
    showPlan(answer_.plan);
    showChanges();
}

void RefusedPage::showPlan(const experiments::Forecast& plan) {
    const auto total = static_cast<double>(plan.bytes), available = static_cast<double>(plan.availableBytes);
    QVector<double> bytes;
    for (int i = 0; i < 6; ++i) {
        const auto it = plan.by.find(kCategories[i]);
        bytes << (it == plan.by.end() ? 0 : static_cast<double>(it->second));
        values_[i]->setText(formatSize(bytes[i]));
    }
    values_[6]->setText(formatSize(total));
    bar_->setValues(bytes, available);
    limit_->setText(total > available ? tr("%1 too much").arg(formatSize(total - available)) : tr("fits now"));
    limit_->setToken(total > available ? Token::Bad : Token::Ok);
    free_->setText(formatSize(available));
    need_->setText(formatSize(total));
}

void RefusedPage::showChanges() {
    table_->setRowCount(static_cast<int>(answer_.changes.size()));
    int first = -1;
    for (int r = 0; r < table_->rowCount(); ++r) {
        const FittingChange& change = answer_.changes[r];
        const auto need = static_cast<double>(change.forecast.bytes),
                   available = static_cast<double>(change.forecast.availableBytes);
        const bool fits = change.forecast.fits;
        const QString result = fits               ? tr("fits, %1 spare").arg(formatSize(available - need))
                               : need > available ? tr("still %1 too much").arg(formatSize(need - available))
                                                  : QString::fromStdString(change.forecast.note);
        const QString cells[] = {change.text, formatSize(need), result, change.effect};
        for (int c = 0; c < 4; ++c) {
            auto* item = new QTableWidgetItem(cells[c]);
            if (c == 2) item->setForeground(color(fits ? Token::Ok : Token::Bad));
            table_->setItem(r, c, item);
        }
        if (fits && first < 0) first = r;
    }
    if (first >= 0) table_->selectRow(first);
    apply_->setEnabled(first >= 0);
}

void RefusedPage::apply() {
    const int chosen = table_->currentRow();
    if (chosen < 0 || chosen >= static_cast<int>(answer_.changes.size())) return;
    experiments::JobOptions options;
    options.device.device = answer_.changes[chosen].device;
    controller_.start(answer_.changes[chosen].spec, std::move(options));
}

QString RefusedPage::planText() const {
    QString text;
    for (const char* category : kCategories) {
        const auto it = answer_.plan.by.find(category);
        text +=
            QStringLiteral("%1\t%2\n").arg(QLatin1String(category)).arg(it == answer_.plan.by.end() ? 0 : it->second);
    }
    return text + tr("together\t%1\nfree\t%2\n").arg(answer_.plan.bytes).arg(answer_.plan.availableBytes);
}

}  // namespace mantissa::gui
