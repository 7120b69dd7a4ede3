#include "gui/dialogs/forecast_panel.h"

#include <QGridLayout>
#include <QHBoxLayout>
#include <QPainter>
#include <QVBoxLayout>

#include "gui/format/numbers.h"

namespace mantissa::gui {
namespace {

const char* const kCategories[] = {"weights", "gradients", "moments", "activations", "workspace", "host"};

/// 8 px square in a memory grey.
class Swatch : public QWidget {
  public:
    Swatch(int category, QWidget* parent) : QWidget(parent), category_(category) {
        setFixedSize(8, 8);
        connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
    }

  protected:
    void paintEvent(QPaintEvent*) override {
        QPainter(this).fillRect(rect(), Theme::instance().memoryColor(category_));
    }

  private:
    int category_;
};

QHBoxLayout* head(QWidget* parent, const QString& title, TextLabel** hint, TextLabel** value) {
    auto* row = new QHBoxLayout;
    row->setSpacing(8);
    row->addWidget(new TextLabel(title, Token::Text, TextSize::Body, true, parent));
    *hint = new TextLabel(QString(), Token::Text3, TextSize::Small, false, parent);
    row->addWidget(*hint);
    row->addStretch(1);
    *value = new TextLabel(QString(), Token::Text, TextSize::Body, true, parent);
    row->addWidget(*value);
    return row;
}

QString categoryNote(int category, const experiments::RunSpec& spec) {
    using engine::PrecisionMode;
    const auto mode = spec.trainer.precision.mode;
    switch (category) {
        case 0:
            return mode == PrecisionMode::Fp8    ? QObject::tr("FP32 masters, BF16 and FP8 copies")
                   : mode == PrecisionMode::Bf16 ? QObject::tr("FP32 masters, BF16 copies")
                   : mode == PrecisionMode::Fp16 ? QObject::tr("FP32 masters, FP16 copies")
                                                 : QObject::tr("FP32");
        case 1:
            return spec.trainer.accumulation == 1 ? QObject::tr("over freed activations") : QObject::tr("FP32");
        case 2:
            return QObject::tr("AdamW, FP32");
        case 3:
            return mode == PrecisionMode::Fp8 ? QObject::tr("FP8 where a linear reads them") : QString();
        case 4:
            return QObject::tr("matmul, loss, probes");
        default:
            return QObject::tr("text and buffers");
    }
}

}  // namespace

void ForecastPanel::addRow(QGridLayout& grid, int row, const QString& name, const QString& tip, TextLabel** value) {
    auto* key = new TextLabel(name, Token::Text2, TextSize::Body, false, this);
    *value = new TextLabel(notMeasured(), Token::Text, TextSize::Body, false, this);
    (*value)->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
    key->setToolTip(tip);
    (*value)->setToolTip(tip);
    grid.addWidget(key, row, 0);
    grid.addWidget(*value, row, 1);
}

ForecastPanel::ForecastPanel(QWidget* parent) : QWidget(parent) {
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(20, 16, 20, 16);
    column->setSpacing(8);
    TextLabel* unused = nullptr;
    column->addLayout(head(this, tr("Memory"), &unused, &memoryHead_));
    memoryHead_->setToolTip(tr("The plan's bytes at the moment of the peak, and what is free on the device now"));
    bar_ = new MemoryBar(this);
    column->addWidget(bar_);
    auto* memory = new QGridLayout;
    memory->setHorizontalSpacing(8);
    memory->setVerticalSpacing(4);
    memory->setColumnStretch(2, 1);
    for (int i = 0; i < 6; ++i) {
        memory->addWidget(new Swatch(i, this), i, 0);
        memory->addWidget(new TextLabel(QLatin1String(kCategories[i]), Token::Text2, TextSize::Body, false, this), i,
                          1);
        memoryNote_[i] = new TextLabel(QString(), Token::Text3, TextSize::Small, false, this);
        memoryNote_[i]->setWordWrap(true);
        memory->addWidget(memoryNote_[i], i, 2);
        memory_[i] = new TextLabel(notMeasured(), Token::Text, TextSize::Body, false, this);
        memory->addWidget(memory_[i], i, 3, Qt::AlignRight);
    }
    column->addLayout(memory);
    column->addSpacing(4);
    column->addWidget(new Separator(Qt::Horizontal, this));
    column->addSpacing(4);

    auto* timeHead = new QHBoxLayout;
    timeHead->addWidget(new TextLabel(tr("Time and space"), Token::Text, TextSize::Body, true, this));
    timeHead->addSpacing(8);
    basis_ = new TextLabel(QString(), Token::Text3, TextSize::Small, false, this);
    basis_->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
    basis_->setWordWrap(true);
    timeHead->addWidget(basis_, 1);
    column->addLayout(timeHead);
    auto* time = new QGridLayout;
    time->setVerticalSpacing(4);
    time->setColumnStretch(1, 1);
    addRow(*time, 0, tr("Step"), tr("Tokens of a step ÷ forecast throughput"), &step_);
    addRow(*time, 1, tr("Throughput"), tr("Forecast from the basis named above"), &rate_);
    addRow(*time, 2, tr("Whole run"), tr("Steps × step time, evaluations and checkpoints included"), &whole_);
    addRow(*time, 3, tr("Tokens"), tr("Tokens of a step and of the whole run"), &tokens_);
    addRow(*time, 4, tr("Store"), tr("Estimated size of the run's series, and what is free on the disk"), &store_);
    addRow(*time, 5, tr("Checkpoints"), tr("How many are kept, and the size of one"), &checkpoints_);
    column->addLayout(time);
    column->addSpacing(4);
    column->addWidget(new Separator(Qt::Horizontal, this));
    column->addSpacing(4);

    column->addLayout(head(this, tr("Precision plan"), &unused, &planCount_));
    unused->setText(tr("fprop, dgrad, wgrad"));
    grid_ = new PlanGrid(this);
    column->addWidget(grid_);
    column->addWidget(
        new TextLabel(tr("e4 E4M3     e5 E5M2 gradient     bf BF16"), Token::Text2, TextSize::Small, false, this));
    note_ = new TextLabel(QString(), Token::Text3, TextSize::Small, false, this);
    note_->setWordWrap(true);
    column->addWidget(note_);
    column->addStretch(1);
}

void ForecastPanel::setStale(const QString& why) {
    basis_->setText(why);
    for (TextLabel* label : memory_) label->setToken(Token::Text3);
    for (TextLabel* label : {memoryHead_, step_, rate_, whole_, tokens_, store_, checkpoints_})
        label->setToken(Token::Text3);
}

void ForecastPanel::setPlan(const std::vector<engine::EffectivePrecision>& plan) {
    grid_->setPlan(plan);
    planCount_->setText(tr("%1 of %2 in FP8").arg(grid_->fp8Products()).arg(grid_->products()));
}

void ForecastPanel::setForecast(const experiments::Forecast& f, const experiments::RunSpec& spec) {
    const auto size = [](uint64_t bytes) { return formatSize(static_cast<double>(bytes)); };
    memoryHead_->setText(f.availableBytes > 0 ? tr("%1 of %2 free").arg(size(f.bytes), size(f.availableBytes))
                                              : size(f.bytes));
    memoryHead_->setToken(f.fits ? Token::Text : Token::Bad);
    QVector<double> bytes;
    const SizeUnit unit = sizeUnit(static_cast<double>(f.bytes));
    for (int i = 0; i < 6; ++i) {
        const auto it = f.by.find(kCategories[i]);
        const double value = it == f.by.end() ? 0 : static_cast<double>(it->second);
        bytes << value;
        memory_[i]->setText(formatSizeIn(value, unit) + QChar(u'\u00a0') + unit.name);
        memory_[i]->setToken(Token::Text);
        memoryNote_[i]->setText(categoryNote(i, spec));
    }
    bar_->setValues(bytes, f.fits ? std::min(static_cast<double>(f.availableBytes), 4.0 * static_cast<double>(f.bytes))
                                  : static_cast<double>(f.availableBytes));
    const bool timed = f.tokensPerSecond > 0;
    basis_->setText(timed ? QString::fromStdString(f.basis) : tr("no basis yet"));
    step_->setText(timed ? formatMilliseconds(1e3 * static_cast<double>(f.tokensPerStep) / f.tokensPerSecond)
                         : notMeasured());
    rate_->setText(timed ? tr("%1 tokens/s").arg(formatRate(f.tokensPerSecond)) : notMeasured());
    whole_->setText(timed ? formatTimeLeft(f.seconds) : notMeasured());
    tokens_->setText(tr("%1 × %2").arg(formatCount(f.tokensPerStep), formatCount(spec.trainer.steps)));
    store_->setText(f.diskFreeBytes > 0 ? tr("%1, of %2 free").arg(size(f.storeBytes), size(f.diskFreeBytes))
                                        : size(f.storeBytes));
    checkpoints_->setText(spec.checkpoint.keep > 0
                              ? tr("%1 each, keep %2").arg(size(f.checkpointBytes)).arg(spec.checkpoint.keep)
                              : tr("%1 each, keep all").arg(size(f.checkpointBytes)));
    for (TextLabel* label : {step_, rate_, whole_, tokens_, store_, checkpoints_}) label->setToken(Token::Text);
    QStringList notes;
    if (!f.note.empty()) {
        QString note = QString::fromStdString(f.note);
        note[0] = note[0].toUpper();
        notes << (note.endsWith(QLatin1Char('.')) ? note : note + QLatin1Char('.'));
    }
    const int padded = (spec.trainer.model.vocabulary + 63) / 64 * 64;
    if (padded != spec.trainer.model.vocabulary)
        notes << tr("Vocabulary %1 is padded to %2.")
                     .arg(formatCount(spec.trainer.model.vocabulary), formatCount(padded));
    note_->setText(notes.join(QLatin1Char(' ')));
    note_->setToken(f.fits ? Token::Text3 : Token::Bad);
}

}  // namespace mantissa::gui
