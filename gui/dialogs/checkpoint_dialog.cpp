#include "gui/dialogs/checkpoint_dialog.h"

#include <QApplication>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QPainter>
#include <QPointer>
#include <QScrollArea>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>
#include <thread>

#include "gui/format/numbers.h"
#include "gui/widgets/search_field.h"

namespace mantissa::gui {

using experiments::WeightFile;
using experiments::WeightStatistics;

namespace {

QString shapeText(const engine::SafetensorsEntry& entry) {
    QStringList parts;
    for (const int64_t extent : entry.shape) parts << formatCount(extent);
    return parts.isEmpty() ? QObject::tr("one value") : parts.join(QStringLiteral(" × "));
}

/// Runs `call` on the GUI thread unless `dialog` is gone by then.
template <class Call>
void toGui(const QPointer<QObject>& dialog, Call call) {
    if (!qApp) return;  // the program ends
    QMetaObject::invokeMethod(
        qApp,
        [dialog, call = std::move(call)]() mutable {
            if (dialog) call();
        },
        Qt::QueuedConnection);
}

}  // namespace

/// Shared with the threads.
struct CheckpointDialog::Reading {
    std::atomic<bool> stopped{false};  ///< the dialog is gone
    std::atomic<int> wanted{-1};       ///< row whose what-if is asked for
};

void WeightModel::setFile(std::shared_ptr<const WeightFile> file) {
    beginResetModel();
    file_ = std::move(file);
    read_.assign(file_->entries().size(), std::nullopt);
    readCount_ = 0;
    endResetModel();
}

void WeightModel::setStatistics(int row, const WeightStatistics& statistics) {
    if (!read_[size_t(row)]) ++readCount_;
    read_[size_t(row)] = statistics;
    Q_EMIT dataChanged(index(row, Amax), index(row, NonFinite));
}

int WeightModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() || !file_ ? 0 : int(file_->entries().size());
}

int WeightModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : ColumnCount;
}

QVariant WeightModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const engine::SafetensorsEntry& entry = file_->entries()[size_t(index.row())];
    const auto& read = read_[size_t(index.row())];
    const int column = index.column();
    if (role == Qt::TextAlignmentRole)
        return int((column <= Shape ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    if (role == Qt::ForegroundRole && column == NonFinite && read && read->nan + read->inf > 0)
        return color(Token::Nonfinite);
    if (role == Qt::UserRole) {  // what the table sorts by
        switch (column) {
            case Size:
                return qulonglong(entry.bytes);
            case Amax:
                return read ? read->amax : -1.0;
            case NonFinite:
                return read ? double(read->nan + read->inf) : -1.0;
            case Shape:
                return qlonglong(entry.count());
            default:
                break;
        }
    }
    if (role != Qt::DisplayRole && role != Qt::ToolTipRole && role != Qt::UserRole) return {};
    switch (column) {
        case Name:
            return QString::fromStdString(entry.name);
        case Type:
            return QString::fromStdString(entry.dtype);
        case Shape:
            return shapeText(entry);
        case Size:
            return formatSize(double(entry.bytes));
        case Amax:
            return !read ? notMeasured() : role == Qt::ToolTipRole ? exact(read->amax) : formatScale(read->amax);
        default:
            return !read ? notMeasured() : formatCount(qint64(read->nan + read->inf));
    }
}

QVariant WeightModel::headerData(int section, Qt::Orientation orientation, int role) const {
    static const char* const heads[] = {"Tensor", "Type", "Shape", "Size", "amax", "NaN, Inf"};
    static const char* const tips[] = {"Name in the file",
                                       "Stored type",
                                       "Extents, the last is the row",
                                       "Bytes in the file",
                                       "Largest finite magnitude",
                                       "Elements that are not finite"};
    if (orientation != Qt::Horizontal) return {};
    if (role == Qt::DisplayRole) return tr(heads[section]);
    if (role == Qt::ToolTipRole) return tr(tips[section]);
    if (role == Qt::TextAlignmentRole)
        return int((section <= Shape ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    return {};
}

CheckpointDialog::CheckpointDialog(const QString& path, QWidget* parent)
    : QDialog(parent),
      reading_(std::make_shared<Reading>()),
      reader_(std::make_unique<Worker>()),
      caster_(std::make_unique<Worker>()) {
    setWindowTitle(tr("Checkpoint inspector: %1").arg(QFileInfo(path).fileName()));
    setAccessibleName(tr("Checkpoint inspector"));
    setModal(false);
    resize(1040, 700);
    setMinimumSize(860, 480);
    auto* rows = new QVBoxLayout(this);
    rows->setContentsMargins(12, 12, 12, 12);
    rows->setSpacing(10);
    problem_ = new MessageStrip(this);
    rows->addWidget(problem_);
    auto* columns = new QHBoxLayout;
    columns->setSpacing(10);
    columns->addWidget(makeList(), 1);
    columns->addWidget(makeDetail());
    rows->addLayout(columns, 1);
    connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
    open(path);
}

CheckpointDialog::~CheckpointDialog() {
    reading_->stopped = true;
    // A cast of a million values may take half a second: the threads end on their own, not on the GUI thread's time.
    std::thread([reader = std::move(reader_), caster = std::move(caster_)] {}).detach();
}

QWidget* CheckpointDialog::makeList() {
    auto* card = new Card(tr("Tensors"), QString(), this);
    progress_ = new TextLabel(tr("opening"), Token::Text3, TextSize::Small, false, card);
    card->headTools()->addWidget(progress_);
    path_ = new TextLabel(QString(), Token::Text3, TextSize::Small, false, card);
    path_->setContentsMargins(12, 0, 12, 0);
    path_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    search_ = new SearchField(Glyph::Search, tr("Part of a name, e.g. h.3.mlp"), card);
    search_->setAccessibleName(tr("Filter tensors"));
    search_->setToolTip(tr("Shows the tensors whose name holds this text (Ctrl+F)"));
    model_ = new WeightModel(this);
    filter_ = new QSortFilterProxyModel(this);
    filter_->setSourceModel(model_);
    filter_->setFilterCaseSensitivity(Qt::CaseInsensitive);
    filter_->setSortRole(Qt::UserRole);
    table_ = new QTableView(card);
    table_->setModel(filter_);
    table_->setAccessibleName(tr("Tensors of the file"));
    table_->setToolTip(tr("Up and Down choose a tensor; a click on a head sorts"));
    table_->setSortingEnabled(true);
    table_->sortByColumn(-1, Qt::AscendingOrder);
    table_->setShowGrid(false);
    table_->setSelectionBehavior(QAbstractItemView::SelectRows);
    table_->setSelectionMode(QAbstractItemView::SingleSelection);
    table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table_->setTabKeyNavigation(false);
    table_->verticalHeader()->hide();
    table_->verticalHeader()->setDefaultSectionSize(24);
    table_->horizontalHeader()->setSectionResizeMode(QHeaderView::Interactive);
    table_->horizontalHeader()->setSectionResizeMode(WeightModel::Name, QHeaderView::Stretch);
    table_->horizontalHeader()->setHighlightSections(false);
    auto* field = new QHBoxLayout;
    field->setContentsMargins(12, 0, 12, 8);
    field->addWidget(search_);
    card->body()->addWidget(path_);
    card->body()->addSpacing(6);
    card->body()->addLayout(field);
    card->body()->addWidget(table_, 1);
    connect(search_, &QLineEdit::textChanged, filter_, &QSortFilterProxyModel::setFilterFixedString);
    connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this] { showRow(chosenRow()); });
    auto* find = new QAction(this);
    find->setShortcut(QKeySequence::Find);
    connect(find, &QAction::triggered, search_, [this] { search_->setFocus(); });
    addAction(find);
    return card;
}

QWidget* CheckpointDialog::makeDetail() {
    auto* card = new Card(QString(), QString(), this);
    card->setFixedWidth(372);
    card->setAccessibleName(tr("Tensor"));
    auto* scroll = new QScrollArea(card);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidgetResizable(true);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->viewport()->setAutoFillBackground(false);
    card->body()->addWidget(scroll);
    detail_ = new QWidget(scroll);
    scroll->setWidget(detail_);
    detail_->setAutoFillBackground(false);
    auto* rows = new QVBoxLayout(detail_);
    rows->setContentsMargins(12, 10, 12, 10);
    rows->setSpacing(6);
    name_ = new TextLabel(tr("Choose a tensor."), Token::Text, TextSize::Title, true, detail_);
    name_->setWordWrap(true);
    rows->addWidget(name_);
    chips_ = new ChipRow(detail_);
    rows->addWidget(chips_);
    const auto head = [this, rows](const QString& title, TextLabel** hint) {
        auto* row = new QHBoxLayout;
        row->addWidget(new TextLabel(title, Token::Text, TextSize::Body, true, detail_));
        *hint = new TextLabel(QString(), Token::Text3, TextSize::Small, false, detail_);
        row->addWidget(*hint);
        row->addStretch(1);
        rows->addLayout(row);
    };
    facts_ = new FactGrid(detail_);
    rows->addWidget(facts_);
    rows->addWidget(new Separator(Qt::Horizontal, detail_));
    head(tr("Exponents"), &exponentHint_);
    exponents_ = new ExponentsView(detail_);
    rows->addWidget(exponents_);
    rows->addWidget(new Separator(Qt::Horizontal, detail_));
    head(tr("What if"), &whatIfHint_);
    whatIf_ = new WhatIfTable(detail_);
    rows->addWidget(whatIf_);
    rows->addStretch(1);
    for (QWidget* part : {static_cast<QWidget*>(chips_), static_cast<QWidget*>(facts_),
                          static_cast<QWidget*>(exponents_), static_cast<QWidget*>(whatIf_)})
        part->hide();
    return card;
}

void CheckpointDialog::open(const QString& path) {
    path_->setText(path);
    path_->setToolTip(path);
    reader_->post([guard = QPointer<QObject>(this), this, path] {
        try {
            auto file = std::make_shared<const WeightFile>(path.toStdString());
            toGui(guard, [this, file] { take(file); });
        } catch (const std::exception& error) {
            toGui(guard, [this, text = QString::fromStdString(error.what())] {
                problem_->showMessage(MessageKind::Bad, text, tr("Nothing of this file can be shown."));
                progress_->setText(QString());
            });
        }
    });
}

void CheckpointDialog::take(std::shared_ptr<const WeightFile> file) {
    const QFontMetrics metrics(uiFont(TextSize::Body));
    int shape = 90;
    for (const auto& entry : file->entries()) shape = std::max(shape, metrics.horizontalAdvance(shapeText(entry)) + 24);
    model_->setFile(std::move(file));
    // The statistics come later: room for what will stand in the columns.
    const int widths[] = {0,
                          metrics.horizontalAdvance(QStringLiteral("F8_E4M3")) + 24,
                          std::min(shape, 240),
                          metrics.horizontalAdvance(QStringLiteral("999 MiB")) + 24,
                          metrics.horizontalAdvance(QStringLiteral("9.999e−99")) + 24,
                          metrics.horizontalAdvance(QStringLiteral("NaN, Inf")) + 32};
    for (int c = 1; c < WeightModel::ColumnCount; ++c) table_->setColumnWidth(c, widths[c]);
    updateProgress();
    if (filter_->rowCount() > 0) table_->selectRow(0);
    readNext();
}

/// Statistics of all tensors, the chosen one first, on the reading thread.
void CheckpointDialog::readNext() {
    int next = chosenRow();
    if (next < 0 || model_->statistics(next)) {
        next = -1;
        for (int row = 0; next < 0 && row < model_->rowCount(); ++row)
            if (!model_->statistics(row)) next = row;
    }
    updateProgress();
    if (next < 0) return;
    reader_->post([guard = QPointer<QObject>(this), this, next, file = model_->file(), reading = reading_] {
        try {
            const WeightStatistics read =
                file->statistics(size_t(next), [&](double) { return !reading->stopped.load(); });
            if (reading->stopped) return;
            toGui(guard, [this, next, read] {
                model_->setStatistics(next, read);
                if (chosenRow() == next) showRow(next);
                readNext();
            });
        } catch (const std::exception& error) {
            toGui(guard, [this, text = QString::fromStdString(error.what())] {
                problem_->showMessage(MessageKind::Bad, text, tr("What was read before stays on view."));
            });
        }
    });
}

void CheckpointDialog::updateProgress() {
    const int all = model_->rowCount();
    progress_->setText(model_->readCount() < all
                           ? tr("%1 of %2 read").arg(formatCount(model_->readCount()), formatCount(all))
                           : tr("%1 tensors, %2").arg(formatCount(all), formatSize(double(model_->file()->bytes()))));
}

bool CheckpointDialog::ready() const {
    return model_->rowCount() > 0 && model_->readCount() == model_->rowCount();
}

int CheckpointDialog::chosenRow() const {
    const QModelIndex index = table_->selectionModel()->currentIndex();
    return index.isValid() ? filter_->mapToSource(index).row() : -1;
}

void CheckpointDialog::choose(int row) {
    table_->selectRow(filter_->mapFromSource(model_->index(row, 0)).row());
}

void CheckpointDialog::showRow(int row) {
    if (row < 0 || !model_->file()) return;
    const engine::SafetensorsEntry& entry = model_->file()->entries()[size_t(row)];
    name_->setText(QString::fromStdString(entry.name));
    chips_->setChips({QString::fromStdString(entry.dtype), shapeText(entry), formatSize(double(entry.bytes))});
    chips_->show();
    const auto& read = model_->statistics(row);
    exponents_->setVisible(read.has_value());
    facts_->setVisible(read.has_value());
    if (read) {
        fillFacts(*read);
        const Fp8Range range = fp8Range("e4m3");
        exponents_->setExponents(read->exponents, range, read->amax > 0 ? range.largest / read->amax : 1, read->amax);
        exponentHint_->setText(tr("log₂ |x|, E4M3 at amax → 448"));
    } else {
        exponentHint_->setText(tr("being read"));
    }
    if (reading_->wanted != row) askWhatIf(row);
}

void CheckpointDialog::fillFacts(const WeightStatistics& s) {
    const auto number = [](const QString& name, double value, const QString& tip) {
        return Fact{name, std::isnan(value) ? notMeasured() : formatNumber(value, 4), tip, Token::Text, exact(value)};
    };
    const auto count = [](const QString& name, uint64_t value, const QString& tip, Token token = Token::Text) {
        return Fact{name, formatCount(qint64(value)), tip, token, QString::number(value)};
    };
    std::vector<Fact> left{number(tr("amax"), s.amax, tr("Largest finite magnitude.")),
                           number(tr("smallest"), s.minNonZero, tr("Smallest non-zero magnitude.")),
                           number(tr("least"), s.least, tr("Smallest finite value.")),
                           number(tr("greatest"), s.greatest, tr("Largest finite value.")),
                           number(tr("mean"), s.mean, tr("Of the finite values."))};
    std::vector<Fact> right{
        count(tr("elements"), s.elements, tr("Product of the extents.")),
        count(tr("zeros"), s.zeros, tr("Exact zeros, both signs.")),
        count(tr("NaN"), s.nan, tr("Elements that are NaN."), s.nan ? Token::Nonfinite : Token::Text),
        count(tr("Inf"), s.inf, tr("Infinite elements."), s.inf ? Token::Nonfinite : Token::Text),
        number(tr("deviation"), s.deviation, tr("Standard deviation of the finite values.")),
    };
    left.push_back(
        {tr("range"),
         s.minNonZero > 0 ? tr("%1 binades").arg(formatNumber(std::log2(s.amax / s.minNonZero), 3)) : notMeasured(),
         tr("log₂(amax ÷ smallest non-zero magnitude)."),
         Token::Text,
         {}});
    right.push_back(
        number(tr("kurtosis"), s.kurtosis, tr("n·Σx⁴ ÷ (Σx²)², not centred; 3 for a normal distribution.")));
    facts_->setFacts(std::move(left), std::move(right));
}

void CheckpointDialog::askWhatIf(int row) {
    reading_->wanted = row;
    whatIf_->hide();
    whatIfHint_->setText(tr("casting"));
    caster_->post([guard = QPointer<QObject>(this), this, row, file = model_->file(), reading = reading_] {
        if (reading->stopped || reading->wanted != row) return;
        try {
            const experiments::WeightSample sample = file->sample(size_t(row));
            std::vector<WhatIfRow> rows;
            for (const experiments::WeightWhatIf& one : experiments::weightWhatIf(sample)) {
                WhatIfRow shown;
                shown.setting = QString::fromStdString(one.setting);
                shown.underflow = one.underflow;
                shown.clipped = one.clipped;
                shown.sqnr = one.sqnrDb;
                shown.clippedToken = one.clipped > 0 ? Token::Warn : Token::Text;
                shown.underflowToken = one.underflow > 0.05   ? Token::Bad
                                       : one.underflow > 1e-3 ? Token::Warn
                                                              : Token::Text;
                rows.push_back(shown);
            }
            const QString basis = sample.whole ? tr("all elements cast")
                                               : tr("%1 × %2 elements cast, evenly spaced rows")
                                                     .arg(formatCount(sample.rows), formatCount(sample.cols));
            toGui(guard, [this, row, rows, basis] {
                if (reading_->wanted != row) return;
                whatIfHint_->setText(basis);
                whatIf_->setRows(rows, true, tr("Clipped"));
                whatIf_->show();
            });
        } catch (const std::exception& error) {
            toGui(guard, [this, text = QString::fromStdString(error.what())] { whatIfHint_->setText(text); });
        }
    });
}

void CheckpointDialog::paintEvent(QPaintEvent*) {
    QPainter(this).fillRect(rect(), color(Token::Window));
}

}  // namespace mantissa::gui
