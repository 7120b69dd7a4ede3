// Curves, verdicts, numbers and parting points of the Compare page, made from what was read.
#include <QComboBox>
#include <QLabel>
#include <QSet>
#include <QTableView>
#include <algorithm>
#include <cmath>
#include <iterator>

#include "gui/format/numbers.h"
#include "gui/models/alarm_rules.h"
#include "gui/pages/compare_page.h"
#include "gui/widgets/card.h"
#include "gui/widgets/figures_card.h"
#include "gui/widgets/note_list.h"

namespace mantissa::gui {

using namespace experiments;

namespace {

constexpr size_t kFew = 8;         ///< groups with a style of their own
constexpr size_t kFewPoints = 10;  ///< of a curve: with fewer, each counts for its scale

/// Inside a group the name shows only what varies: "nano · bf16" and "nano · fp8 delayed" lose "nano · ".
template <class Groups>
void stripCommon(Groups& groups) {
    const QString separator = QStringLiteral(" · ");
    while (groups.size() > 1) {
        const qsizetype end = groups.front().name.indexOf(separator);
        if (end < 0) {
            return;
        }
        const QString prefix = groups.front().name.left(end + separator.size());
        for (const auto& group : groups) {
            if (!group.name.startsWith(prefix) || group.name.size() <= prefix.size()) {
                return;
            }
        }
        for (auto& group : groups) {
            group.name = group.name.mid(prefix.size());
        }
    }
}

/// "h.0/mlp.fc1/grad_output" as "h.0 fc1 · dy".
QString shortTensor(const std::string& name) {
    const QStringList parts = QString::fromStdString(name).split(QLatin1Char('/'));
    if (parts.size() != 3) {
        return QString::fromStdString(name);
    }
    const QString role = parts[2] == QLatin1String("input")    ? QStringLiteral("x")
                         : parts[2] == QLatin1String("weight") ? QStringLiteral("w")
                                                               : QStringLiteral("dy");
    return QStringLiteral("%1 %2 · %3").arg(parts[0], shortLinear(parts[1].toStdString()), role);
}

}  // namespace

std::vector<ComparePage::Group> ComparePage::groups() const {
    std::vector<Group> result;
    const auto styleOf = [this](const QString& id) {
        return controller().run(id) ? controller().run(id)->styleIndex : 0;
    };
    if (compared_ && !comparison_.groups.empty()) {
        QSet<int> used;
        for (const GroupVerdict& verdict : comparison_.groups) {
            Group group;
            group.name = QString::fromStdString(verdict.name);
            for (const std::string& id : verdict.runs) {
                group.runs << QString::fromStdString(id);
            }
            if (group.runs.size() == 1 && controller().run(group.runs.first())) {
                group.name = controller().run(group.runs.first())->name;
            }
            // Colours go round after eight runs: a group takes that of its first run whose colour no other group has.
            group.style = styleOf(group.runs.value(0));
            for (const QString& id : group.runs) {
                if (!used.contains(styleOf(id) % kSeriesCount)) {
                    group.style = styleOf(id);
                    break;
                }
            }
            used.insert(group.style % kSeriesCount);
            group.verdict = &verdict;
            result.push_back(std::move(group));
        }
        stripCommon(result);
        // A group takes the last run of each seed. What was run before with the same settings and seed stands alone.
        std::vector<Group> repeats;
        for (const QString& id : order())
            if (std::none_of(result.begin(), result.end(), [&](const Group& one) { return one.runs.contains(id); }))
                repeats.push_back({controller().run(id) ? controller().run(id)->name : id, {id}, styleOf(id), nullptr});
        if (result.size() + repeats.size() <= kFew)
            std::move(repeats.begin(), repeats.end(), std::back_inserter(result));
        return result;
    }
    for (const QString& id : order()) {
        result.push_back({controller().run(id) ? controller().run(id)->name : id, {id}, styleOf(id), nullptr});
    }
    return result;
}

void ComparePage::rebuildCurves() {
    const std::vector<Group> all = groups();
    const bool few = all.size() <= kFew;
    const bool time = axis() == Axis::Time, tokens = axis() == Axis::Tokens;
    PlotOptions options = curves_->options();
    PlotOptions below = difference_->options();
    const bool loss = metric() == QStringLiteral("val_loss") || metric() == QStringLiteral("loss");
    options.title = metric_->currentText();
    options.title[0] = options.title[0].toUpper();
    options.yScale = metric() == QStringLiteral("tokens_per_s") ? ScaleKind::Linear : ScaleKind::Log;
    options.value = loss ? std::function<QString(double)>([](double v) { return formatLoss(v); })
                         : [](double v) { return formatNumber(v, 4); };
    const QString belowKind = below_->currentData().toString();
    // Losses over different texts or tokenizers say nothing about each other.
    const bool sameData = std::none_of(comparison_.config.begin(), comparison_.config.end(),
                                       [](const ConfigRow& row) { return row.path.rfind("data.", 0) == 0; });
    const bool showBelow = few && all.size() > 1 && !belowKind.isEmpty() && (sameData || !loss);
    const bool ratio = belowKind == QStringLiteral("ratio");
    for (PlotOptions* o : {&options, &below}) {
        o->xUnit = time ? QStringLiteral("s") : tokens ? QStringLiteral("M tokens") : QStringLiteral("step");
        o->xScaleFactor = tokens ? 1e-6 : 1;
        o->wholeX = !time && !tokens;
    }
    options.xLabels = !showBelow;
    options.margins.setBottom(showBelow ? 8 : 24);
    below.plusSign = !ratio;
    below.value = ratio ? std::function<QString(double)>([](double v) { return formatRatio(v); })
                        : [](double v) { return formatLossDifference(v); };
    curveCard_->setTitle(options.title);
    curveCard_->setHint(loss && !sameData ? QStringLiteral("different data or tokenizers: losses cannot be compared")
                        : loss            ? lossUnit_ + QStringLiteral(", log")
                        : options.yScale == ScaleKind::Log ? QStringLiteral("log")
                                                           : QStringLiteral("tokens/s"));

    PlotContent content, gaps;
    double low = INFINITY, high = -INFINITY;
    const Group* base = all.empty() ? nullptr : &all.front();
    const auto seedOf = [this](const QString& id) { return controller().run(id) ? controller().run(id)->seed : 0; };
    for (size_t g = 0; g < all.size(); ++g) {
        const Group& group = all[g];
        std::vector<SharedCurve> curves;
        for (const QString& id : group.runs) {
            const auto found = loaded_.find(id);
            if (found != loaded_.end() && !found->curve->empty()) {
                curves.push_back(found->curve);
                low = std::min(low, found->curve->firstX());
                high = std::max(high, found->curve->lastX());
            }
        }
        if (curves.empty()) {
            continue;
        }
        const SeriesStyle style = Theme::instance().series(group.style);
        const CurveGroup mean = few ? meanOf(curves) : CurveGroup{};
        PlotCurve curve;
        curve.name = group.name;
        curve.ink = Ink::run(group.style);
        if (few) {
            if (mean.low) {
                content.bands.push_back({mean.low, mean.high, Ink::run(group.style, 0.16)});
            }
            curve.data = mean.mean;
            curve.width = 1.8;
            curve.dash = style.dash;
            curve.runMarker = style.marker;
            curve.id = group.runs.first();
            content.curves.push_back(curve);
        } else {
            for (size_t r = 0; r < curves.size(); ++r) {  // thin, in the colour of the group
                curve.data = curves[r];
                curve.width = 1;
                curve.inLegend = false;
                curve.id = group.runs[int(r)];
                curve.name = controller().run(curve.id) ? controller().run(curve.id)->name : curve.id;
                content.curves.push_back(curve);
            }
        }
        if (showBelow && base && g > 0) {
            std::vector<std::pair<SharedCurve, SharedCurve>> pairs;
            for (const QString& id : group.runs) {
                for (const QString& other : base->runs) {
                    if (loaded_.contains(id) && loaded_.contains(other) &&
                        (seedOf(id) == seedOf(other) || (group.runs.size() == 1 && base->runs.size() == 1))) {
                        pairs.emplace_back(loaded_[id].curve, loaded_[other].curve);
                        break;
                    }
                }
            }
            const CurveGroup gap = pairs.empty() ? CurveGroup{} : differenceOf(pairs, ratio);
            if (gap.mean && !gap.mean->empty()) {
                // A group that does not train would flatten the rest: it leaves the scale.
                const bool trains = !group.verdict || group.verdict->verdict != "does not train";
                if (gap.low && trains) {
                    gaps.bands.push_back({gap.low, gap.high, Ink::run(group.style, 0.16)});
                }
                PlotCurve line = curve;
                line.data = gap.mean;
                line.width = 1.5;
                line.dash = style.dash;
                line.runMarker.reset();
                line.inLegend = true;
                line.name = group.name;
                line.sizesY = trains;
                gaps.curves.push_back(line);
            }
        }
    }
    if (high >= low) {
        size_t fewest = kFewPoints;  // of a curve of the lower chart
        for (const PlotCurve& gap : gaps.curves) fewest = std::min(fewest, gap.data->size());
        link_.setMinimumSpan(time ? 0.1 : tokens ? 1000 : 4);
        link_.setExtent(std::min(low, axis() == Axis::Step ? 0.0 : low), high);
        // The first fifth is the fall from the start: it may leave the scale, where that is not much of a curve.
        if (fewest >= kFewPoints) below.sizeFrom = low + 0.2 * (high - low);
    }
    if (loss && floor_) {
        content.lines.push_back(
            {*floor_, QStringLiteral("entropy floor %1").arg(formatLoss(*floor_)), Ink::of(Token::Text2), true});
    }
    curves_->setOptions(options);
    curves_->setContent(std::move(content));
    difference_->setVisible(showBelow);
    belowHead_->setVisible(showBelow);
    belowLine_->setVisible(showBelow);
    if (showBelow) {
        gaps.lines.push_back({ratio ? 1.0 : 0.0, QString(), Ink::run(base ? base->style : 0), true});
        if (loss && !ratio) {
            gaps.lines.push_back({0.01, QStringLiteral("limit 0.01"), Ink::of(Token::Text2), false, true, true});
            gaps.lines.push_back({-0.01, QString(), Ink::of(Token::Text2), false, true});
            below.minimumSpan = 0.01;
        }
        belowTitle_->setText(ratio ? QStringLiteral("Ratio") : QStringLiteral("Difference"));
        belowHint_->setText(
            QStringLiteral("to %1, paired by seed%2")
                .arg(base ? base->name : QString(), gaps.bands.empty() ? QString() : QStringLiteral(", ± 1 sd")));
        difference_->setOptions(below);
        difference_->setContent(std::move(gaps));
    }
    const QString status = !failedRuns_.isEmpty()
                               ? QStringLiteral("Cannot be read: %1").arg(failedRuns_.join(QStringLiteral(", ")))
                           : loaded_.size() < visibleRuns().size()
                               ? QStringLiteral("%1 of %2 curves read").arg(loaded_.size()).arg(visibleRuns().size())
                           : visibleRuns().size() == 1 ? QStringLiteral("1 run")
                           : few                       ? QStringLiteral("%1 runs compared").arg(visibleRuns().size())
                                 : QStringLiteral("%1 runs drawn as one layer").arg(visibleRuns().size());
    if (status != status_) {
        status_ = status;
        Q_EMIT statusTextChanged();
    }
}

double ComparePage::Finals::mean(const QStringList& of, const char* name) const {
    double sum = 0;
    int count = 0;
    for (const QString& id : of) {
        const ComparedRun* run = runs.value(id);
        const auto found = run ? run->final.find(name) : decltype(run->final.find(name)){};
        if (run && found != run->final.end()) {
            sum += found->second;
            ++count;
        }
    }
    return count ? sum / count : NAN;
}

ComparePage::Finals ComparePage::finals(const std::vector<Group>& groups) const {
    Finals result;
    for (const ComparedRun& run : comparison_.runs) {
        result.runs.insert(QString::fromStdString(run.run.id), &run);
    }
    if (!groups.empty()) {
        result.baseSpeed = result.mean(groups.front().runs, "tokens_per_s");
    }
    return result;
}

FinalRow ComparePage::finalRow(const Group& group, const Finals& finals) const {
    FinalRow row;
    row.name = group.name;
    row.id = group.runs.value(0);
    row.series = group.style;
    row.runs = int(group.runs.size());
    row.validation = finals.mean(group.runs, "val_loss");
    row.tokensPerSecond = finals.mean(group.runs, "tokens_per_s");
    row.stepMs = finals.mean(group.runs, "step_ms");
    row.peakBytes = finals.mean(group.runs, "peak_bytes");
    row.ratio = finals.baseSpeed > 0 ? row.tokensPerSecond / finals.baseSpeed : NAN;
    row.baseline = group.runs.contains(effectiveBaseline());
    for (const QString& id : group.runs) {
        if (const RunInfo* info = controller().run(id)) {
            row.state = runStateName(info->state);
            row.alerts += info->alerts;
            row.bad = row.bad || info->nonFinite();
        }
    }
    if (const GroupVerdict* verdict = group.verdict) {
        row.pairs = verdict->pairs;
        if (row.runs > 1) {
            row.sd = verdict->sd;
        }
        if (!row.baseline && verdict->pairs > 0) {
            row.difference = verdict->difference;
            row.p = verdict->pairs > 1 ? verdict->p : NAN;
        }
        row.bad = row.bad || verdict->verdict == "does not train";
    }
    if (std::isnan(row.difference) && !row.baseline) {
        if (const ComparedRun* run = finals.runs.value(row.id)) {
            const auto found = run->difference.find("val_loss");
            row.difference = found == run->difference.end() ? NAN : found->second;
        }
    }
    return row;
}

void ComparePage::rebuildFinal() {
    std::vector<FinalRow> rows;
    const std::vector<Group> all = groups();
    const Finals numbers = finals(all);
    size_t most = 1;
    qsizetype repeats = visibleRuns().size();  // that groups() leaves out
    for (const Group& group : all) {
        repeats -= group.runs.size();
        most = std::max(most, size_t(group.runs.size()));
        if (all.size() <= kFew || group.runs.size() == 1) {
            rows.push_back(finalRow(group, numbers));
            continue;
        }
        for (const QString& id : group.runs) {  // many runs: a row each
            Group single{controller().run(id) ? controller().run(id)->name : id, {id}, group.style, nullptr};
            rows.push_back(finalRow(single, numbers));
        }
    }
    QString what = most > 1 && all.size() <= kFew
                       ? QStringLiteral("mean ± standard deviation of up to %1 seeds").arg(most)
                   : rows.size() == 1 ? QStringLiteral("1 run")
                                      : QStringLiteral("%1 runs").arg(rows.size());
    if (compared_ && repeats > 0)
        what += QStringLiteral(", %1 with settings and seed of a later one left out").arg(repeats);
    const QString where = QString::fromStdString(comparedAt(comparison_));
    finalHint_->setText(where.isEmpty() ? what : QStringLiteral("%1 · %2").arg(what, where));
    final_->setRows(std::move(rows));
    for (int column = 0; column < FinalNumbersModel::kColumns; ++column)
        finalTable_->setColumnHidden(column, !final_->hasValues(column));
}

void ComparePage::rebuildVerdicts() {
    std::vector<Figure> figures;
    const std::vector<Group> all = groups();
    const Finals numbers = finals(all);
    for (const Group& group : all) {
        if (figures.size() == kFew) {
            break;
        }
        const FinalRow row = finalRow(group, numbers);
        Figure figure;
        figure.series = group.style;
        figure.label = group.name;
        if (row.baseline) {
            figure.badge = QStringLiteral("baseline");
            figure.badgeToken = Token::Text2;
            figure.badgeGlyph = int(Glyph::Pin);
            figure.value = std::isnan(row.validation) ? notMeasured() : formatNumber(row.validation, 5);
            figure.unit =
                std::isnan(row.sd) ? lossUnit_ : QStringLiteral("± %1  %2").arg(formatNumber(row.sd, 2), lossUnit_);
            figure.meaning = QStringLiteral("reference for all differences");
        } else {
            figure.value = row.bad && std::isnan(row.validation) ? QStringLiteral("NaN")
                           : std::isnan(row.difference)          ? notMeasured()
                                                                 : formatLossDifference(row.difference);
            figure.unit = group.verdict && row.runs > 1
                              ? QStringLiteral("± %1  %2").arg(formatNumber(group.verdict->differenceSd, 2), lossUnit_)
                              : lossUnit_;
            const QString words = group.verdict ? QString::fromStdString(group.verdict->verdict) : QString();
            const bool good = words.startsWith(QStringLiteral("no difference")) ||
                              words.startsWith(QStringLiteral("within")) || words.startsWith(QStringLiteral("better"));
            const bool bad = words.startsWith(QStringLiteral("does not")) || words.startsWith(QStringLiteral("worse"));
            figure.badge = words.isEmpty()
                               ? (row.pairs == 1 || row.runs == 1 ? QStringLiteral("one seed, no spread") : QString())
                               : words;
            figure.badgeToken = bad ? Token::Bad : good ? Token::Ok : Token::Text2;
            figure.badgeGlyph = bad ? int(Glyph::Bad) : good ? int(Glyph::Check) : -1;
            QStringList gains;
            if (row.ratio > 0) {
                gains << QStringLiteral("%1 tokens/s").arg(formatRatio(row.ratio));
            }
            const FinalRow base = all.empty() ? FinalRow() : finalRow(all.front(), numbers);
            if (row.peakBytes > 0 && base.peakBytes > 0) {
                gains << QStringLiteral("%1 memory").arg(formatChange(row.peakBytes / base.peakBytes - 1));
            }
            figure.meaning = gains.join(QStringLiteral(", "));
            if (group.verdict) {
                const GroupVerdict& v = *group.verdict;
                figure.tooltip =
                    QStringLiteral("n = %1, mean difference %2, sd %3, 95 % interval %4 to %5, p = %6")
                        .arg(v.pairs)
                        .arg(formatLossDifference(v.difference), formatNumber(v.differenceSd, 2),
                             formatLossDifference(v.low), formatLossDifference(v.high), formatNumber(v.p, 2));
            }
        }
        figures.push_back(std::move(figure));
    }
    if (figures.size() == 1) {
        figures.front().meaning = QStringLiteral("Pick a second run in the list: Ctrl+click");
    }
    verdicts_->setFigures(std::move(figures));
}

/// Where one group parts from the baseline, in words: the run with the baseline's seed stands for it, as runs of
/// different seeds differ from the first step on.
Note ComparePage::partingNote(const Group& group, const RunInfo& base) const {
    Note note;
    note.series = group.style;
    note.title = group.name;
    const RunInfo* run = nullptr;
    for (const QString& id : group.runs) {
        const RunInfo* info = controller().run(id);
        run = info && (!run || info->seed == base.seed) ? info : run;
    }
    if (!run) {
        return note;
    }
    const auto fp8 = [](const RunInfo& info) { return info.recipe.startsWith(QLatin1String("fp8")); };
    if (!fp8(*run)) {
        note.detail = QStringLiteral("casts nothing to FP8: no statistics to compare");
    } else if (!fp8(base)) {
        note.detail = QStringLiteral("the baseline has no FP8 statistics to compare with");
    } else if (run->seed != base.seed) {
        note.detail = QStringLiteral("has no run with the baseline's seed %1").arg(base.seed);
    } else {
        note.detail = QStringLiteral("amax and scale stay within 10 % of the baseline's in all common steps");
    }
    for (size_t i = 0; i < comparison_.parts.size(); ++i) {
        const PartingPoint& part = comparison_.parts[i];
        if (part.step > 0 && QString::fromStdString(part.run) == run->id) {
            note.detail =
                QStringLiteral("parts at step %1, %2: %3 %4, baseline %5")
                    .arg(formatCount(part.step), shortTensor(part.tensor), QString::fromStdString(part.statistic),
                         formatNumber(part.value, 3), formatNumber(part.baseline, 3));
            note.key = int(i);
        }
    }
    return note;
}

void ComparePage::rebuildParts() {
    std::vector<Note> notes;
    const std::vector<Group> all = groups();
    const RunInfo* base = controller().run(effectiveBaseline());
    for (size_t g = 1; compared_ && base && g < all.size(); ++g) {
        notes.push_back(partingNote(all[g], *base));
    }
    parts_->setNotes(std::move(notes), visibleRuns().size() < 2 ? QStringLiteral("Pick a second run.")
                                       : compared_ ? QStringLiteral("All of these runs are seeds of one setting.")
                                                   : QStringLiteral("Reading the statistics."));
}

void ComparePage::showConfig() {
    // A column a group, with the values of its first run; the seeds inside a group are no difference between settings.
    QStringList names;
    std::vector<size_t> columns;
    const std::vector<Group> all = groups();
    for (const Group& group : all) {
        for (size_t i = 0; i < comparison_.runs.size(); ++i) {
            if (QString::fromStdString(comparison_.runs[i].run.id) == group.runs.value(0)) {
                names << group.name;
                columns.push_back(i);
                break;
            }
        }
    }
    std::vector<ConfigRow> rows;
    for (const ConfigRow& row : comparison_.config) {
        ConfigRow shown{row.path, {}};
        for (size_t column : columns) {
            shown.values.push_back(column < row.values.size() ? row.values[column] : std::string());
        }
        const bool differs = std::any_of(shown.values.begin(), shown.values.end(),
                                         [&](const std::string& v) { return v != shown.values.front(); });
        if (differs || all.size() < 2) {
            rows.push_back(std::move(shown));
        }
    }
    configHint_->setText(rows.size() == 1 ? QStringLiteral("1 field differs")
                                          : QStringLiteral("%1 fields differ").arg(rows.size()));
    config_->setRows(std::move(rows), names);
    configTable_->resizeColumnsToContents();
}

}  // namespace mantissa::gui
