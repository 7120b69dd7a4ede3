#include "gui/models/run_list_model.h"

#include <QDateTime>
#include <QLocale>
#include <algorithm>
#include <cmath>
#include <limits>

#include "gui/format/numbers.h"

namespace mantissa::gui {
namespace {

constexpr quintptr kGroupId = std::numeric_limits<quintptr>::max();

/// Key for sorting by a number; not measured and NaN are NaN.
double sortNumber(const RunInfo& run, int column) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    switch (column) {
        case RunListModel::Step:
            return static_cast<double>(run.step);
        case RunListModel::ValLoss:
            return run.hasValLoss ? run.valLoss : none;
        case RunListModel::TrainLoss:
            return run.hasLoss ? run.loss : none;
        case RunListModel::Rate:
            return run.tokensPerSecond > 0 ? run.tokensPerSecond : none;
        case RunListModel::Seed:
            return static_cast<double>(run.seed);
        case RunListModel::Started:
            return static_cast<double>(run.createdMs);
        case RunListModel::State:
            return static_cast<double>(run.state);
        default:
            return none;
    }
}

bool isTextColumn(int column) {
    return column == RunListModel::Name || column == RunListModel::Recipe || column == RunListModel::Device ||
           column == RunListModel::Tags;
}

QString stepText(const RunInfo& run) {
    switch (run.state) {
        case RunState::Queued:
            return QObject::tr("next");
        case RunState::Refused:
            return notMeasured();
        case RunState::Running:
        case RunState::Paused:
            return run.steps > 0 ? QString::number(100 * run.step / run.steps) + QStringLiteral("\u00a0%")
                                 : formatCount(run.step);
        default:
            return formatShortCount(run.step);
    }
}

}  // namespace

QString RunListModel::cellText(const RunInfo& run, int column) {
    switch (column) {
        case State:
            return runStateName(run.state);
        case Name:
            return run.name;
        case Step:
            return stepText(run);
        case ValLoss:
            return run.hasValLoss ? formatLoss(run.valLoss) : run.nonFinite() ? QStringLiteral("NaN") : notMeasured();
        case TrainLoss:
            return run.hasLoss ? formatLoss(run.loss) : notMeasured();
        case Rate:
            return run.tokensPerSecond > 0 ? formatRate(run.tokensPerSecond) : notMeasured();
        case Recipe:
            return run.recipe;
        case Seed:
            return QString::number(run.seed);
        case Device:
            return run.device;
        case Tags:
            return run.tags.join(QStringLiteral(", "));
        case Started:
            return QLocale().toString(QDateTime::fromMSecsSinceEpoch(run.createdMs), QLocale::ShortFormat);
        default:
            return QString();
    }
}

QString RunListModel::shortName(const RunInfo& run, const QString& group) {
    const QString prefix = group + QLatin1Char('-');
    return run.name.startsWith(prefix) && run.name.size() > prefix.size() ? run.name.mid(prefix.size()) : run.name;
}

QString RunListModel::groupOf(const RunInfo& run) const {
    switch (groupBy_) {
        case GroupBy::Model:
            return run.model;
        case GroupBy::Recipe:
            return run.recipe;
        case GroupBy::Seed:
            return tr("seed %1").arg(run.seed);
        case GroupBy::Tag:
            return run.tags.isEmpty() ? tr("no tag") : run.tags.first();
        case GroupBy::None:
            break;
    }
    return tr("all runs");
}

bool RunListModel::lessThan(const RunInfo& a, const RunInfo& b) const {
    const bool ascending = sortOrder_ == Qt::AscendingOrder;
    if (sortColumn_ >= 0 && isTextColumn(sortColumn_)) {
        const int order = cellText(a, sortColumn_).localeAwareCompare(cellText(b, sortColumn_));
        if (order != 0) return ascending ? order < 0 : order > 0;
    } else if (sortColumn_ >= 0) {
        const double x = sortNumber(a, sortColumn_), y = sortNumber(b, sortColumn_);
        if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
        if (!std::isnan(x) && x != y) return ascending ? x < y : x > y;
    }
    return a.createdMs != b.createdMs ? a.createdMs > b.createdMs : a.id > b.id;
}

QVector<RunListModel::Group> RunListModel::arrange() const {
    QVector<Group> groups;
    QHash<QString, int> place;
    for (int row = static_cast<int>(runs_.size()) - 1; row >= 0; --row) {  // newest run's group first
        if (!filter_.matches(runs_[row])) continue;
        const QString title = groupOf(runs_[row]);
        auto it = place.find(title);
        if (it == place.end()) {
            it = place.insert(title, static_cast<int>(groups.size()));
            groups.push_back({title, {}});
        }
        groups[*it].rows.push_back(row);
    }
    for (Group& group : groups)
        std::sort(group.rows.begin(), group.rows.end(), [this](int a, int b) { return lessThan(runs_[a], runs_[b]); });
    return groups;
}

void RunListModel::rebuild() {
    beginResetModel();
    groups_ = arrange();
    endResetModel();
}

void RunListModel::setRuns(const QVector<RunInfo>& runs) {
    const QStringList before = shownIds();
    QStringList titles;
    for (const Group& group : groups_) titles << group.title;
    const QVector<RunInfo> old = std::exchange(runs_, runs);
    const QVector<Group> fresh = arrange();
    QStringList after, freshTitles;
    for (const Group& group : fresh) {
        freshTitles << group.title;
        for (int row : group.rows) after << runs_[row].id;
    }
    if (before == after && titles == freshTitles && old.size() == runs_.size()) {
        groups_ = fresh;
        for (int g = 0; g < groups_.size(); ++g) {
            const QModelIndex parent = index(g, 0);
            const int last = static_cast<int>(groups_[g].rows.size()) - 1;
            if (last >= 0) Q_EMIT dataChanged(index(0, 0, parent), index(last, ColumnCount - 1, parent));
        }
        return;
    }
    beginResetModel();
    groups_ = fresh;
    endResetModel();
}

void RunListModel::updateRun(const RunInfo& run) {
    const QModelIndex at = indexOf(run.id, 0);
    const auto it = std::find_if(runs_.begin(), runs_.end(), [&run](const RunInfo& old) { return old.id == run.id; });
    if (it == runs_.end()) return;
    *it = run;
    if (!at.isValid() || !filter_.matches(run)) {
        if (at.isValid() != filter_.matches(run)) rebuild();
        return;
    }
    Q_EMIT dataChanged(at, at.siblingAtColumn(ColumnCount - 1));
}

void RunListModel::setFilter(const RunFilter& filter) {
    filter_ = filter;
    rebuild();
}

void RunListModel::setGroupBy(GroupBy groupBy) {
    groupBy_ = groupBy;
    rebuild();
}

void RunListModel::sort(int column, Qt::SortOrder order) {
    if (column == sortColumn_ && order == sortOrder_) return;
    sortColumn_ = column;
    sortOrder_ = order;
    rebuild();
}

int RunListModel::shownCount() const {
    int count = 0;
    for (const Group& group : groups_) count += static_cast<int>(group.rows.size());
    return count;
}

QStringList RunListModel::shownIds() const {
    QStringList ids;
    for (const Group& group : groups_)
        for (int row : group.rows) ids << runs_[row].id;
    return ids;
}

QModelIndex RunListModel::indexOf(const QString& id, int column) const {
    for (int g = 0; g < groups_.size(); ++g)
        for (int r = 0; r < groups_[g].rows.size(); ++r)
            if (runs_[groups_[g].rows[r]].id == id) return index(r, column, index(g, 0));
    return {};
}

const RunInfo* RunListModel::info(const QModelIndex& index) const {
    if (!index.isValid() || index.internalId() == kGroupId) return nullptr;
    return &runs_[groups_[static_cast<int>(index.internalId())].rows[index.row()]];
}

QModelIndex RunListModel::index(int row, int column, const QModelIndex& parent) const {
    if (!hasIndex(row, column, parent)) return {};
    return createIndex(row, column, parent.isValid() ? static_cast<quintptr>(parent.row()) : kGroupId);
}

QModelIndex RunListModel::parent(const QModelIndex& child) const {
    if (!child.isValid() || child.internalId() == kGroupId) return {};
    return createIndex(static_cast<int>(child.internalId()), 0, kGroupId);
}

int RunListModel::rowCount(const QModelIndex& parent) const {
    if (!parent.isValid()) return static_cast<int>(groups_.size());
    if (parent.internalId() != kGroupId || parent.column() != 0) return 0;
    return static_cast<int>(groups_[parent.row()].rows.size());
}

int RunListModel::columnCount(const QModelIndex&) const {
    return ColumnCount;
}

QVariant RunListModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const RunInfo* run = info(index);
    if (!run) {
        const QString& title = groups_[index.row()].title;
        if (role == GroupRole || (role == Qt::DisplayRole && index.column() == 0)) return title;
        return {};
    }
    const QString& group = groups_[static_cast<int>(index.internalId())].title;
    switch (role) {
        case Qt::DisplayRole:
            return index.column() == Name ? shortName(*run, group) : cellText(*run, index.column());
        case InfoRole:
            return QVariant::fromValue(*run);
        case IdRole:
            return run->id;
        case Qt::TextAlignmentRole:
            return int((isTextColumn(index.column()) ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
        case Qt::ToolTipRole:
            if (index.column() == ValLoss && run->hasValLoss)
                return tr("Validation loss %1 nats/token at step %2")
                    .arg(formatNumber(run->valLoss, 7), formatCount(run->valStep));
            return run->message.isEmpty()
                       ? tr("%1: %2, step %3 of %4")
                             .arg(run->name, runStateName(run->state), formatCount(run->step), formatCount(run->steps))
                       : tr("%1: %2. %3").arg(run->name, runStateName(run->state), run->message);
        case Qt::AccessibleTextRole:
            return tr("%1 %2").arg(headerData(index.column(), Qt::Horizontal, Qt::ToolTipRole).toString(),
                                   cellText(*run, index.column()));
        default:
            return {};
    }
}

QVariant RunListModel::headerData(int section, Qt::Orientation orientation, int role) const {
    static const char* const heads[] = {"",       "Run",  "Step",   "Val loss", "Train loss", "Tokens/s",
                                        "Recipe", "Seed", "Device", "Tags",     "Started"};
    static const char* const tips[] = {
        "State",
        "Run: name without the group's prefix",
        "Step reached, or percent of the plan while the run goes",
        "Validation loss, nats/token: mean over the fixed validation windows, training state untouched",
        "Train loss of the last step, nats/token: mean cross-entropy, natural log",
        "Tokens of a step ÷ time between step ends, median of the last steps, in the end of all",
        "Precision mode and recipe",
        "Seed: equal seeds see the same tokens",
        "Device",
        "Tags",
        "When the run was made"};
    if (orientation != Qt::Horizontal || section < 0 || section >= ColumnCount) return {};
    if (role == Qt::DisplayRole) return tr(heads[section]);
    if (role == Qt::ToolTipRole) return tr(tips[section]);
    if (role == Qt::TextAlignmentRole)
        return int((isTextColumn(section) || section == State ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    return {};
}

Qt::ItemFlags RunListModel::flags(const QModelIndex& index) const {
    if (!index.isValid()) return Qt::NoItemFlags;
    return info(index) ? Qt::ItemIsEnabled | Qt::ItemIsSelectable | Qt::ItemNeverHasChildren : Qt::ItemIsEnabled;
}

}  // namespace mantissa::gui
