#include "gui/settings.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QSaveFile>
#include <QStandardPaths>

namespace mantissa::gui {

Settings::Settings(const QString& path) : path_(path) {
    if (path_.isEmpty())
        path_ = QStandardPaths::writableLocation(QStandardPaths::AppConfigLocation) + QStringLiteral("/layout.json");
    QFile file(path_);
    if (!file.open(QIODevice::ReadOnly)) return;
    QJsonParseError error;
    const QJsonDocument document = QJsonDocument::fromJson(file.readAll(), &error);
    file.close();
    if (error.error == QJsonParseError::NoError && document.isObject()) {
        values_ = document.object();
        return;
    }
    damaged_ = true;
    const QString kept = path_ + QStringLiteral(".bad");
    QFile::remove(kept);
    QFile::rename(path_, kept);
}

bool Settings::save() const {
    QDir().mkpath(QFileInfo(path_).absolutePath());
    QSaveFile file(path_);
    if (!file.open(QIODevice::WriteOnly)) return false;
    file.write(QJsonDocument(values_).toJson());
    return file.commit();
}

}  // namespace mantissa::gui
