// What survives a restart: window, splitter, open page, columns, theme, zoom. One JSON file, written atomically.
#pragma once

#include <QJsonObject>
#include <QJsonValue>
#include <QString>

namespace mantissa::gui {

/// GUI thread only. A damaged file gives the defaults and is kept beside as ".bad".
class Settings {
  public:
    /// path "": layout.json in the configuration folder of the program.
    explicit Settings(const QString& path = QString());

    QJsonValue value(const QString& key) const { return values_.value(key); }
    void setValue(const QString& key, const QJsonValue& value) { values_.insert(key, value); }
    /// Returns false when the file cannot be written; what was there stays.
    bool save() const;
    const QString& path() const { return path_; }
    bool wasDamaged() const { return damaged_; }

  private:
    QString path_;
    QJsonObject values_;
    bool damaged_ = false;
};

}  // namespace mantissa::gui
