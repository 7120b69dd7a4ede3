#include "gui/pages/empty_page.h"

#include <QGridLayout>
#include <QHBoxLayout>
#include <QPainter>
#include <QPushButton>
#include <QVBoxLayout>
#include <functional>

#include "gui/format/numbers.h"
#include "gui/theme/icons.h"
#include "gui/widgets/card.h"
#include "gui/widgets/glyph_label.h"

namespace mantissa::gui {
namespace {

Card* choice(Glyph glyph, const QString& title, const QString& text, const QString& button, bool primary,
             const std::function<void()>& call) {
    auto* card = new Card;
    card->body()->setContentsMargins(16, 14, 16, 16);
    card->body()->setSpacing(8);
    auto* head = new QHBoxLayout;
    head->setSpacing(8);
    head->addWidget(new GlyphLabel(glyph, Token::Accent, 20, card));
    head->addWidget(new TextLabel(title, Token::Text, TextSize::Title, true, card), 1);
    card->body()->addLayout(head);
    auto* label = new TextLabel(text, Token::Text2, TextSize::Body, false, card);
    label->setWordWrap(true);
    label->setAlignment(Qt::AlignTop | Qt::AlignLeft);
    label->setMinimumHeight(3 * label->fontMetrics().lineSpacing());
    card->body()->addWidget(label, 1);
    auto* push = new QPushButton(button, card);
    push->setAccessibleName(button);
    push->setToolTip(text);
    if (primary) push->setProperty("kind", QStringLiteral("primary"));
    QObject::connect(push, &QPushButton::clicked, card, call);
    card->body()->addWidget(push);
    return card;
}

}  // namespace

EmptyPage::EmptyPage(QWidget* parent) : QWidget(parent) {
    setAccessibleName(tr("First start"));
    auto* outer = new QVBoxLayout(this);
    outer->setContentsMargins(24, 12, 24, 12);
    outer->addStretch(2);
    auto* middle = new QWidget(this);
    middle->setMaximumWidth(760);
    auto* column = new QVBoxLayout(middle);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(8);
    column->addWidget(new TextLabel(tr("Train something small first"), Token::Text, TextSize::Figure, true, middle));
    auto* intro = new TextLabel(
        tr("The nano preset learns the letters of an English text, visibly, in about a minute on two processor "
           "cores. Every tensor of every layer shows its amax, scale and counters meanwhile."),
        Token::Text2, TextSize::Body, false, middle);
    intro->setWordWrap(true);
    column->addWidget(intro);
    column->addSpacing(8);
    auto* cards = new QHBoxLayout;
    cards->setSpacing(10);
    cards->addWidget(choice(Glyph::Play, tr("Start nano"),
                            tr("0.8 M parameters, FP8 with delayed scaling, then the same run in BF16"),
                            tr("Start both"), true, [this] { Q_EMIT startBothRequested(); }),
                     1);
    cards->addWidget(choice(Glyph::Folder, tr("Open"), tr("a store of earlier runs, or a run spec"), tr("Open…"), false,
                            [this] { Q_EMIT openRequested(); }),
                     1);
    cards->addWidget(choice(Glyph::Numbers, tr("Look at a number"),
                            tr("its code in E4M3, E5M2, BF16 and FP16, its neighbours and its rounding error"),
                            tr("Open Formats"), false, [this] { Q_EMIT formatsRequested(); }),
                     1);
    column->addLayout(cards);
    column->addSpacing(16);
    auto* head = new QHBoxLayout;
    head->setSpacing(8);
    head->addWidget(new GlyphLabel(Glyph::Chip, Token::Text2, 16, middle));
    head->addWidget(new TextLabel(tr("This machine"), Token::Text, TextSize::Body, true, middle), 1);
    column->addLayout(head);
    machine_ = new QGridLayout;
    machine_->setHorizontalSpacing(10);
    machine_->setVerticalSpacing(7);
    machine_->setColumnStretch(2, 1);
    column->addLayout(machine_);
    column->addSpacing(4);
    column->addWidget(new TextLabel(tr("A store or spec dropped anywhere on this window opens. Press ? for the keys."),
                                    Token::Text3, TextSize::Small, false, middle));
    auto* row = new QHBoxLayout;
    row->addStretch(1);
    row->addWidget(middle, 100);
    row->addStretch(1);
    outer->addLayout(row);
    outer->addStretch(3);
    machineLine(0, true, tr("Asking this machine"), tr("a moment"));
}

void EmptyPage::machineLine(int row, bool good, const QString& what, const QString& why) {
    for (int column = 0; column < 3; ++column)
        if (QLayoutItem* item = machine_->itemAtPosition(row, column)) {
            machine_->removeItem(item);
            item->widget()->deleteLater();
            delete item;
        }
    machine_->addWidget(new GlyphLabel(good ? Glyph::Check : Glyph::Info, good ? Token::Ok : Token::Text2, 16, this),
                        row, 0, Qt::AlignTop);
    auto* name = new TextLabel(what, Token::Text, TextSize::Body, false, this);
    auto* reason = new TextLabel(why, Token::Text2, TextSize::Body, false, this);
    name->setMinimumWidth(190);
    name->setWordWrap(true);
    reason->setWordWrap(true);
    machine_->addWidget(name, row, 1, Qt::AlignTop);
    machine_->addWidget(reason, row, 2, Qt::AlignTop);
}

void EmptyPage::setDevices(const std::vector<experiments::DeviceReport>& reports) {
    int row = 0;
    for (const auto& report : reports) {
        const bool cpu = report.device == "cpu";
        const QString name = QString::fromStdString(report.name);
        if (cpu)
            machineLine(row++, true,
                        tr("CPU, %n threads, %1", nullptr, report.threads).arg(QString::fromStdString(report.isa)),
                        tr("%1; every format and recipe, with the codes and scales of the GPU, bit for bit").arg(name));
        else if (report.usable)
            machineLine(row++, true, name, tr("%1 free").arg(formatSize(static_cast<double>(report.memoryFree))));
        else
            machineLine(row++, false, QString::fromStdString(report.reason),
                        tr("runs on a GPU are off; nothing else is missing"));
    }
    machineLine(row, true, tr("Text to learn from"),
                tr("King James Bible where Debian's bible-kjv is installed; a generated text with known entropy"));
}

}  // namespace mantissa::gui
