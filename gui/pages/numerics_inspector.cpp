#include "gui/pages/numerics_inspector.h"

#include <QHBoxLayout>
#include <QPushButton>
#include <QScrollArea>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/widgets/block_map.h"

namespace mantissa::gui {

using namespace experiments;

namespace {

enum Counter { kElements, kZeros, kUnderflow, kSubnormal, kOverRange, kClipped, kInf, kNan };

double share(const engine::TensorNumerics& t, Counter counter) {
    return t.counters[kElements] ? double(t.counters[counter]) / double(t.counters[kElements]) : NAN;
}

QString gemmsOf(const RunDocument& document, const engine::CatalogueEntry& entry) {
    const char* const readers[3][2] = {{"fprop", "wgrad"}, {"fprop", "dgrad"}, {"dgrad", "wgrad"}};
    QStringList used;
    for (const char* gemm : readers[int(entry.role)]) {
        const auto row = std::find_if(document.precision.begin(), document.precision.end(), [&](const auto& r) {
            return r.layer == entry.layer && (r.linear == entry.linear || entry.linear.empty()) && r.gemm == gemm;
        });
        if (row == document.precision.end() || (row->recipe != "bf16" && row->recipe != "fp32")) {
            used << QLatin1String(gemm);
        }
    }
    return used.isEmpty() ? QStringLiteral("read in BF16")
                          : QStringLiteral("used by %1").arg(used.join(QStringLiteral(", ")));
}

TextLabel* headLabel(const QString& text, const QString& hint, QBoxLayout* layout, QWidget* parent,
                     TextLabel** hintLabel) {
    auto* row = new QHBoxLayout;
    row->setContentsMargins(0, 2, 0, 0);
    auto* name = new TextLabel(text, Token::Text, TextSize::Body, true, parent);
    *hintLabel = new TextLabel(hint, Token::Text3, TextSize::Small, false, parent);
    row->addWidget(name);
    row->addWidget(*hintLabel);
    row->addStretch(1);
    layout->addLayout(row);
    return name;
}

}  // namespace

Inspector::Inspector(QWidget* parent) : Card(QString(), QString(), parent) {
    setAccessibleName(QStringLiteral("Inspector"));
    auto* scroll = new QScrollArea(this);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidgetResizable(true);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->viewport()->setAutoFillBackground(false);
    body()->addWidget(scroll);
    content_ = new QWidget(scroll);
    scroll->setWidget(content_);
    content_->setAutoFillBackground(false);  // setWidget turns it on
    auto* rows = new QVBoxLayout(content_);
    rows->setContentsMargins(12, 10, 12, 10);
    rows->setSpacing(6);
    auto* head = new QHBoxLayout;
    name_ = new TextLabel(QString(), Token::Text, TextSize::Title, true, content_);
    step_ = new TextLabel(QString(), Token::Text3, TextSize::Small, false, content_);
    head->addWidget(name_);
    head->addStretch(1);
    head->addWidget(step_);
    capture_ = new QToolButton(content_);
    capture_->setIcon(icon(Glyph::Pin));
    capture_->setAccessibleName(QStringLiteral("Capture this tensor"));
    capture_->setToolTip(QStringLiteral("Keeps the values as they enter the cast of the next step"));
    capture_->hide();
    connect(capture_, &QToolButton::clicked, this, [this] { Q_EMIT captureRequested(tensorName_); });
    head->addWidget(capture_);
    rows->addLayout(head);
    empty_ = new TextLabel(QString(), Token::Text2, TextSize::Body, false, content_);
    empty_->setWordWrap(true);
    rows->addWidget(empty_);
    chips_ = new ChipRow(content_);
    rows->addWidget(chips_);
    verdict_ = new MessageStrip(content_);
    rows->addWidget(verdict_);
    windowPart_ = new QWidget(content_);
    auto* window = new QVBoxLayout(windowPart_);
    window->setContentsMargins(0, 4, 0, 0);
    window->setSpacing(2);
    headLabel(QStringLiteral("amax window"), QString(), window, windowPart_, &windowHint_);
    window_ = new AmaxWindowView(windowPart_);
    window->addWidget(window_);
    window->addWidget(new Separator(Qt::Horizontal, windowPart_));
    rows->addWidget(windowPart_);
    exponentPart_ = new QWidget(content_);
    auto* exponents = new QVBoxLayout(exponentPart_);
    exponents->setContentsMargins(0, 0, 0, 0);
    exponents->setSpacing(2);
    headLabel(QStringLiteral("Exponents"), QString(), exponents, exponentPart_, &exponentHint_);
    exponents_ = new ExponentsView(exponentPart_);
    exponents->addWidget(exponents_);
    exponents->addWidget(new Separator(Qt::Horizontal, exponentPart_));
    rows->addWidget(exponentPart_);
    facts_ = new FactGrid(content_);
    rows->addWidget(facts_);
    buildWhatIf(*rows);
    buildCaptured(*rows);
    rows->addStretch(1);
    clear(QStringLiteral("Choose a row of the heatmap."));
}

void Inspector::clear(const QString& why) {
    name_->setText(QStringLiteral("Tensor"));
    step_->setText(QString());
    empty_->setText(why);
    empty_->show();
    for (QWidget* part : {static_cast<QWidget*>(chips_), static_cast<QWidget*>(verdict_), windowPart_, exponentPart_,
                          static_cast<QWidget*>(facts_), whatIfPart_, whatIfFoot_, capturedPart_}) {
        part->hide();
    }
}

void Inspector::buildWhatIf(QVBoxLayout& rows) {
    whatIfPart_ = new QWidget(content_);
    auto* part = new QVBoxLayout(whatIfPart_);
    part->setContentsMargins(0, 2, 0, 0);
    part->setSpacing(4);
    part->addWidget(new Separator(Qt::Horizontal, whatIfPart_));
    headLabel(QStringLiteral("What if"), QString(), part, whatIfPart_, &whatIfHint_);
    whatIf_ = new WhatIfTable(whatIfPart_);
    part->addWidget(whatIf_);
    rows.addWidget(whatIfPart_);
    whatIfFoot_ = new QWidget(this);
    auto* foot = new QVBoxLayout(whatIfFoot_);
    foot->setContentsMargins(0, 0, 0, 0);
    foot->setSpacing(0);
    foot->addWidget(new Separator(Qt::Horizontal, whatIfFoot_));
    auto* buttons = new QHBoxLayout;
    buttons->setContentsMargins(12, 8, 12, 8);
    use_ = new QPushButton(QStringLiteral("Use it"), whatIfFoot_);
    use_->setAccessibleName(use_->text());
    use_->setToolTip(QStringLiteral("Apply the chosen row to the running job between two steps"));
    use_->setProperty("kind", QStringLiteral("primary"));
    fork_ = new QPushButton(QStringLiteral("Fork with it…"), whatIfFoot_);
    fork_->setAccessibleName(QStringLiteral("Fork with it"));
    fork_->setToolTip(QStringLiteral("Start a child run with the chosen row from a checkpoint"));
    buttons->addWidget(use_, 1);
    buttons->addWidget(fork_);
    foot->addLayout(buttons);
    body()->addWidget(whatIfFoot_);
    connect(whatIf_, &WhatIfTable::chosenChanged, this, &Inspector::updateButtons);
    connect(use_, &QPushButton::clicked, this, [this] { requestSpec(true); });
    connect(fork_, &QPushButton::clicked, this, [this] { requestSpec(false); });
}

void Inspector::buildCaptured(QVBoxLayout& rows) {
    capturedPart_ = new QWidget(content_);
    auto* part = new QVBoxLayout(capturedPart_);
    part->setContentsMargins(0, 2, 0, 0);
    part->setSpacing(4);
    part->addWidget(new Separator(Qt::Horizontal, capturedPart_));
    headLabel(QStringLiteral("Captured"), QString(), part, capturedPart_, &capturedHint_);
    cast_ = new WhatIfTable(capturedPart_);
    cast_->setAccessibleName(QStringLiteral("The captured tensor under every recipe"));
    part->addWidget(cast_);
    blockPart_ = new QWidget(capturedPart_);
    auto* blocks = new QVBoxLayout(blockPart_);
    blocks->setContentsMargins(0, 2, 0, 0);
    blocks->setSpacing(2);
    headLabel(QStringLiteral("Blocks"), QString(), blocks, blockPart_, &blockHint_);
    blocks_ = new BlockMapView(blockPart_);
    blocks->addWidget(blocks_);
    part->addWidget(blockPart_);
    rows.addWidget(capturedPart_);
    connect(cast_, &WhatIfTable::chosenChanged, this, &Inspector::showBlocks);
    connect(blocks_, &BlockMapView::hovered, this,
            [this](const QString& text) { text.isEmpty() ? showBlocks() : blockHint_->setText(text); });
}

void Inspector::showCaptured(CapturedReport report) {
    const bool other = report.step != captured_.step || report.tensor != captured_.tensor;
    captured_ = std::move(report);
    capturedPart_->setVisible(captured_.step > 0);
    if (captured_.step <= 0) {
        return;
    }
    capturedHint_->setText(QStringLiteral("step %1, %2 × %3%4")
                               .arg(formatCount(captured_.step), formatCount(captured_.rows),
                                    formatCount(captured_.cols),
                                    captured_.whole ? QString() : QStringLiteral(", first rows")));
    if (other) {
        cast_->setRows(captured_.list, true, QStringLiteral("Clipped"));
        for (size_t i = 0; i < captured_.maps.size(); ++i) {
            if (!captured_.maps[i].empty()) {
                cast_->setCurrentCell(int(i), 0);  // the first with blocks: its map is on view
                break;
            }
        }
    }
    showBlocks();
}

void Inspector::showBlocks() {
    const int row = cast_->chosen();
    const bool any = row >= 0 && row < int(captured_.maps.size()) && !captured_.maps[size_t(row)].empty();
    blockPart_->setVisible(any);
    if (any) {
        const BlockMap& map = captured_.maps[size_t(row)];
        blocks_->setMap(map);
        blockHint_->setText(QStringLiteral("%1 × %2, amax of the blocks spans %3 binades")
                                .arg(formatCount(map.rows), formatCount(map.cols), formatNumber(map.range(), 3)));
    }
}

void Inspector::setGoing(bool going) {
    capture_->setVisible(going && !tensorName_.isEmpty());
}

void Inspector::clearWhatIf() {
    report_ = WhatIfReport();
    captured_ = CapturedReport();
    whatIfPart_->hide();
    whatIfFoot_->hide();
    capturedPart_->hide();
}

void Inspector::showWhatIf(const RunDocument& document, const RunSpec& spec, WhatIfReport report, bool going) {
    if (report.tensor < 0 || report.tensor >= int(document.catalogue.size()) || report.rows.empty()) {
        return clearWhatIf();
    }
    report_ = std::move(report);
    entry_ = document.catalogue[size_t(report_.tensor)];
    spec_ = spec;
    going_ = going;
    whatIfHint_->setText(QStringLiteral("estimate, replayed over %1 … %2")
                             .arg(formatCount(report_.firstStep), formatCount(report_.lastStep)));
    whatIf_->setRows(whatIfRows(report_, spec, entry_), false, QStringLiteral("Clipped"));
    whatIfPart_->show();
    whatIfFoot_->show();
    updateButtons();
}

void Inspector::updateButtons() {
    const int row = whatIf_->chosen();
    const bool chosen = row >= 0 && row < int(report_.rows.size());
    QString why = QStringLiteral("Choose a row of the table");
    const bool takes = chosen && withChoice(spec_, entry_, report_.recorded, report_.rows[size_t(row)].first, &why);
    const QString name = chosen ? choiceName(report_.rows[size_t(row)].first, report_.recorded) : QString();
    use_->setEnabled(takes && going_);
    use_->setText(takes ? QStringLiteral("Use %1").arg(name) : QStringLiteral("Use it"));
    use_->setAccessibleName(use_->text());
    use_->setToolTip(!takes    ? why
                     : !going_ ? QStringLiteral("The run is not going: fork with it instead")
                               : QStringLiteral("The running job takes it between two steps"));
    fork_->setEnabled(takes);
    fork_->setToolTip(takes ? QStringLiteral("Opens the fork dialog with this setting filled in") : why);
}

void Inspector::requestSpec(bool live) {
    const int row = whatIf_->chosen();
    QString why;
    if (row < 0 || row >= int(report_.rows.size())) {
        return;
    }
    if (const auto spec = withChoice(spec_, entry_, report_.recorded, report_.rows[size_t(row)].first, &why)) {
        Q_EMIT specRequested(QString::fromStdString(spec->toJson(-1)), live);
    }
}

QString Inspector::verdictText() const {
    return verdict_->headline();
}

void Inspector::showTensor(const RunDocument& document, const RunSpec& spec, const TensorReport& report) {
    if (report.tensor < 0 || !report.record || report.tensor >= int(document.catalogue.size())) {
        clear(QStringLiteral("No statistics of this tensor were recorded yet."));
        return;
    }
    const auto& entry = document.catalogue[size_t(report.tensor)];
    const auto& t = report.record->tensors[size_t(report.tensor)];
    name_->setText(tensorLongTitle(entry));
    tensorName_ = QString::fromStdString(engine::tensorName(entry));
    step_->setText(QStringLiteral("step %1").arg(formatCount(report.step)));
    empty_->hide();
    chips_->show();
    const bool cast = isFp8(entry) && t.counters[kElements] > 0;
    QStringList chips{QString::fromStdString(entry.format).toUpper()};
    std::vector<Token> tokens{Token::Text2};
    if (cast) {
        const bool recent = spec.trainer.precision.algorithm == engine::Algorithm::MostRecent;
        chips << (report.window && recent ? QStringLiteral("delayed, most recent")
                  : report.window
                      ? QStringLiteral("delayed, max of %1").arg(formatCount(spec.trainer.precision.historyLength))
                      : QString::fromStdString(entry.recipe));
        tokens.push_back(Token::Text2);
        if (report.window && !report.window->everUpdated && report.step > 1) {
            chips << QStringLiteral("never updated");
            tokens.push_back(Token::Warn);
        } else if (report.window && report.window->frozenFor > 0) {
            chips << QStringLiteral("frozen, leaves in %1").arg(formatCount(report.window->frozenFor));
            tokens.push_back(Token::Warn);
        }
    }
    chips << gemmsOf(document, entry);
    tokens.push_back(Token::Text2);
    chips_->setChips(chips, tokens);
    verdict_->setVisible(true);
    const Verdict verdict = cast ? verdictOf(report, entry) : plainVerdict(entry, spec);
    verdict_->showMessage(verdict.kind, verdict.finding, verdict.outlook);
    windowPart_->setVisible(cast && report.window.has_value());
    if (report.window) {
        windowHint_->setText(
            QStringLiteral("%1 entries, log₂").arg(formatCount(qint64(report.window->entries.size()))));
        window_->setWindow(*report.window);
    }
    exponentPart_->setVisible(cast);
    exponentHint_->setText(report.exponents.counts.empty() ? QString()
                                                           : QStringLiteral("log₂ |%1|, share per binade, step %2")
                                                                 .arg(QLatin1String(engine::roleShortName(entry.role)),
                                                                      formatCount(report.exponents.step)));
    exponents_->setExponents(report.exponents, fp8Range(entry.format), double(t.scale), double(t.amax));
    facts_->setVisible(cast);
    if (cast) fillFacts(entry, report);
}

void Inspector::fillFacts(const engine::CatalogueEntry& entry, const TensorReport& report) {
    const auto& t = report.record->tensors[size_t(report.tensor)];
    std::vector<Fact> left, right;
    const auto exactly = [](double value) { return QString::number(value, 'g', 9); };
    left.push_back({QStringLiteral("scale ×"), formatScale(double(t.scale)),
                    QStringLiteral("stored = x × scale; %1").arg(formatScaleExact(double(t.scale))), Token::Text,
                    exactly(double(t.scale))});
    left.push_back({QStringLiteral("scale_inv ÷"), formatScale(1 / double(t.scale)),
                    QStringLiteral("1 ÷ scale; %1").arg(formatScaleExact(1 / double(t.scale))), Token::Text,
                    exactly(1 / double(t.scale))});
    if (report.window) {
        left.push_back({QStringLiteral("set"),
                        !report.window->everUpdated ? QStringLiteral("never updated")
                        : report.window->age == 0   ? QStringLiteral("in this update")
                                                    : QStringLiteral("%1 update%2 ago")
                                                        .arg(formatCount(report.window->age),
                                                             report.window->age == 1 ? QString() : QStringLiteral("s")),
                        QStringLiteral("Updates since the scale last changed."),
                        report.window->everUpdated ? Token::Text : Token::Warn,
                        {}});
    }
    left.push_back({QStringLiteral("amax now"), formatScale(double(t.amax)),
                    QStringLiteral("Largest |x| before the cast; NaN is skipped, Inf gives Inf."),
                    std::isfinite(t.amax) ? Token::Text : Token::Nonfinite, exactly(double(t.amax))});
    const double staleness = double(t.amax) * double(t.scale) / fp8Range(entry.format).largest;
    const auto& rule = *std::find_if(shownStatistics().begin(), shownStatistics().end(),
                                     [](const StatisticInfo& s) { return s.statistic == Statistic::Staleness; });
    left.push_back({QStringLiteral("staleness"), statisticText(rule, staleness), rule.definition,
                    alarmLevel(rule, entry.role, staleness) == 2 ? Token::Bad
                    : alarmLevel(rule, entry.role, staleness)    ? Token::Warn
                                                                 : Token::Text,
                    exactly(staleness)});
    const QString probed = report.probedStep && report.probedStep != report.step
                               ? QStringLiteral(" At step %1.").arg(formatCount(report.probedStep))
                               : QString();
    left.push_back({QStringLiteral("SQNR"),
                    std::isnan(report.sqnr) ? notMeasured() : QStringLiteral("%1 dB").arg(formatNumber(report.sqnr, 3)),
                    shownStatistics()[6].definition + probed, Token::Text, exactly(report.sqnr)});
    left.push_back({QStringLiteral("kurtosis"),
                    std::isnan(report.kurtosis) ? notMeasured() : formatNumber(report.kurtosis, 3),
                    shownStatistics()[7].definition + probed, Token::Text, exactly(report.kurtosis)});

    right.push_back({QStringLiteral("elements"), formatCount(qint64(t.counters[kElements])), QString(), Token::Text,
                     QString::number(t.counters[kElements])});
    right.push_back({QStringLiteral("zeros"), formatShare(share(t, kZeros)),
                     QStringLiteral("Exact zeros before the cast: %1").arg(formatCount(qint64(t.counters[kZeros]))),
                     Token::Text, QString::number(t.counters[kZeros])});
    const double nonZero = double(t.counters[kElements] - t.counters[kZeros]);
    const int under = alarmLevel(shownStatistics()[0], entry.role, share(t, kUnderflow));
    right.push_back({QStringLiteral("underflow"), formatShare(share(t, kUnderflow)),
                     shownStatistics()[0].definition +
                         QStringLiteral(" Of the non-zero elements: %1.")
                             .arg(nonZero > 0 ? formatShare(double(t.counters[kUnderflow]) / nonZero) : notMeasured()),
                     under == 2 ? Token::Bad
                     : under    ? Token::Warn
                                : Token::Text,
                     QString::number(t.counters[kUnderflow])});
    right.push_back({QStringLiteral("subnormal"), formatShare(share(t, kSubnormal)),
                     QStringLiteral("0 < |stored| < smallest normal, divided by all elements."), Token::Text,
                     QString::number(t.counters[kSubnormal])});
    right.push_back({QStringLiteral("over range"), formatShare(share(t, kOverRange)), shownStatistics()[1].definition,
                     Token::Text, QString::number(t.counters[kOverRange])});
    right.push_back({QStringLiteral("clipped"), formatShare(share(t, kClipped)), shownStatistics()[2].definition,
                     t.counters[kClipped] ? Token::Warn : Token::Text, QString::number(t.counters[kClipped])});
    right.push_back(
        {QStringLiteral("Inf, NaN"),
         QStringLiteral("%1, %2").arg(formatCount(qint64(t.counters[kInf])), formatCount(qint64(t.counters[kNan]))),
         QStringLiteral("Counts before the cast, exact."),
         t.counters[kInf] || t.counters[kNan] ? Token::Nonfinite : Token::Text,
         QStringLiteral("%1 %2").arg(t.counters[kInf]).arg(t.counters[kNan])});
    facts_->setFacts(std::move(left), std::move(right));
}

}  // namespace mantissa::gui
