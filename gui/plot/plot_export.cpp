// What a chart shows as a picture, as CSV and as a table.
#include <QAbstractTableModel>
#include <QDialog>
#include <QHeaderView>
#include <QPainter>
#include <QSaveFile>
#include <QSvgGenerator>
#include <QTableView>
#include <QThreadPool>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "gui/format/numbers.h"
#include "gui/plot/plot_layers.h"
#include "gui/plot/plot_view.h"

namespace mantissa::gui {

namespace {

/// The x of all curves in [low, high], each once, ascending.
std::vector<double> unionOfX(const std::vector<PlotCurve>& curves, double low, double high) {
    std::vector<double> result;
    for (const PlotCurve& curve : curves) {
        if (!curve.data) {
            continue;
        }
        for (size_t i = curve.data->lowerBound(low); i < curve.data->size() && curve.data->x(i) <= high; ++i) {
            result.push_back(curve.data->x(i));
        }
    }
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
}

/// Index of the sample at exactly x, or none.
std::optional<size_t> sampleAt(const SeriesPyramid& data, double x) {
    const size_t i = data.lowerBound(x);
    return i < data.size() && data.x(i) == x ? std::optional(i) : std::nullopt;
}

QString csvField(QString text) {
    if (text.contains(QLatin1Char(',')) || text.contains(QLatin1Char('"')) || text.contains(QLatin1Char('\n'))) {
        text = QLatin1Char('"') + text.replace(QLatin1Char('"'), QStringLiteral("\"\"")) + QLatin1Char('"');
    }
    return text;
}

QString csvText(const std::vector<PlotCurve>& all, const QString& unit, double factor, XLink::Range range) {
    std::vector<PlotCurve> curves;
    QString text = csvField(unit.isEmpty() ? QStringLiteral("x") : unit);
    for (const PlotCurve& curve : all) {
        if (curve.data) {
            curves.push_back(curve);
            text += QLatin1Char(',') + csvField(curve.name);
        }
    }
    text += QLatin1Char('\n');
    for (double x : unionOfX(curves, range.low, range.high)) {
        text += exact(x * factor);
        for (const PlotCurve& curve : curves) {
            const auto i = sampleAt(*curve.data, x);
            text += QLatin1Char(',');
            if (i) {  // samples are float32: nine digits read back to the same float
                const float y = curve.data->y(*i);
                text += std::isfinite(y) ? QString::number(double(y), 'g', 9) : exact(double(y));
            }
        }
        text += QLatin1Char('\n');
    }
    return text;
}

/// The samples behind a chart; copies of the shared series, so it stays true to what was shown.
class PlotTable : public QAbstractTableModel {
  public:
    PlotTable(const PlotView& view, QObject* parent) : QAbstractTableModel(parent), unit_(view.options().xUnit) {
        for (const PlotCurve& curve : view.content().curves) {
            if (curve.data) {
                curves_.push_back(curve);
            }
        }
        const auto range = view.xRange();
        xs_ = unionOfX(curves_, range.low, range.high);
        factor_ = view.options().xScaleFactor;
    }
    int rowCount(const QModelIndex& parent = {}) const override { return parent.isValid() ? 0 : int(xs_.size()); }
    int columnCount(const QModelIndex& parent = {}) const override {
        return parent.isValid() ? 0 : int(curves_.size()) + 1;
    }
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override {
        if (orientation != Qt::Horizontal || role != Qt::DisplayRole) {
            return {};
        }
        return section == 0 ? unit_ : curves_[size_t(section - 1)].name;
    }
    QVariant data(const QModelIndex& index, int role) const override {
        if (role == Qt::TextAlignmentRole) {
            return int(Qt::AlignRight | Qt::AlignVCenter);
        }
        if (role != Qt::DisplayRole) {
            return {};
        }
        const double x = xs_[size_t(index.row())];
        if (index.column() == 0) {
            return formatNumber(x * factor_, 7);
        }
        const SeriesPyramid& data = *curves_[size_t(index.column() - 1)].data;
        const auto i = sampleAt(data, x);
        return i ? formatNumber(double(data.y(*i)), 7) : QString();
    }

  private:
    std::vector<PlotCurve> curves_;
    std::vector<double> xs_;
    QString unit_;
    double factor_ = 1;
};

}  // namespace

QImage PlotView::picture(double ratio) {
    ensurePolished();
    placePlot();
    updateAxes();
    const QImage kept = raster_;
    const std::vector<uint8_t> marks = marks_;
    raster_ = drawCurves(ratio);
    QImage image(viewport()->size() * ratio, QImage::Format_ARGB32_Premultiplied);
    image.setDevicePixelRatio(ratio);
    image.fill(color(Token::Panel));
    QPainter painter(&image);
    painter.setRenderHint(QPainter::TextAntialiasing);
    scene()->render(&painter, QRectF(QPointF(), QSizeF(viewport()->size())),
                    QRectF(QPointF(), QSizeF(viewport()->size())));
    painter.end();
    raster_ = kept;
    marks_ = marks;
    return image;
}

bool PlotView::savePng(const QString& path) {
    QSaveFile file(path);
    return file.open(QIODevice::WriteOnly) && picture(2).save(&file, "PNG") && file.commit();
}

bool PlotView::saveSvg(const QString& path) {
    placePlot();
    updateAxes();
    QSaveFile file(path);
    if (!file.open(QIODevice::WriteOnly)) {
        return false;
    }
    QSvgGenerator generator;
    generator.setOutputDevice(&file);
    generator.setSize(viewport()->size());
    generator.setViewBox(QRect(QPoint(), viewport()->size()));
    generator.setTitle(options_.title);
    QPainter painter(&generator);
    painter.fillRect(QRect(QPoint(), viewport()->size()), color(Token::Panel));
    vectorExport_ = true;
    scene()->render(&painter, QRectF(QPointF(), QSizeF(viewport()->size())),
                    QRectF(QPointF(), QSizeF(viewport()->size())));
    vectorExport_ = false;
    painter.end();
    return file.commit();
}

QString PlotView::csv(bool visibleOnly) const {
    const auto range = visibleOnly ? xRange() : XLink::Range{-INFINITY, INFINITY};
    return csvText(content_.curves, options_.xUnit, options_.xScaleFactor, range);
}

void PlotView::exportPng(const QString& path) {
    QThreadPool::globalInstance()->start([image = picture(2), path] {
        QSaveFile file(path);
        if (file.open(QIODevice::WriteOnly) && image.save(&file, "PNG")) {
            file.commit();
        }
    });
}

void PlotView::exportCsv(const QString& path) const {
    std::vector<PlotCurve> curves = content_.curves;
    for (PlotCurve& curve : curves) {  // own copies: the shared ones grow while the file is written
        if (curve.data) {
            curve.data = std::make_shared<SeriesPyramid>(*curve.data);
        }
    }
    const auto range = xRange();
    QThreadPool::globalInstance()->start(
        [curves = std::move(curves), path, range, unit = options_.xUnit, factor = options_.xScaleFactor] {
            QSaveFile file(path);
            if (file.open(QIODevice::WriteOnly) && file.write(csvText(curves, unit, factor, range).toUtf8()) >= 0) {
                file.commit();
            }
        });
}

bool PlotView::saveCsv(const QString& path) const {
    QSaveFile file(path);
    return file.open(QIODevice::WriteOnly) && file.write(csv().toUtf8()) >= 0 && file.commit();
}

void PlotView::showData() {
    auto* dialog = new QDialog(window());
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setWindowTitle(QStringLiteral("%1: data").arg(options_.title));
    dialog->resize(520, 560);
    auto* layout = new QVBoxLayout(dialog);
    auto* table = new QTableView(dialog);
    table->setTabKeyNavigation(false);
    table->setModel(new PlotTable(*this, table));
    table->verticalHeader()->hide();
    table->verticalHeader()->setDefaultSectionSize(24);
    table->setAccessibleName(dialog->windowTitle());
    layout->addWidget(table);
    dialog->show();
}

}  // namespace mantissa::gui
