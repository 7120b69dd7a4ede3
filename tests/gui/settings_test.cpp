// Settings file: values survive, a damaged file gives the defaults and is kept, nothing half written.
#include "gui/settings.h"

#include <gtest/gtest.h>

#include <QFile>
#include <QTemporaryDir>

namespace {

using mantissa::gui::Settings;

TEST(Settings, ValuesSurvive) {
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("a/b/layout.json"));
    Settings first(path);
    EXPECT_FALSE(first.wasDamaged());
    first.setValue(QStringLiteral("page"), QStringLiteral("numerics"));
    ASSERT_TRUE(first.save());
    EXPECT_EQ(Settings(path).value(QStringLiteral("page")).toString(), QStringLiteral("numerics"));
}

TEST(Settings, DamagedFileIsKeptAsBad) {
    QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("layout.json"));
    for (const QByteArray& content :
         {QByteArray("{\"page\": "), QByteArray("[1,2]"), QByteArray(), QByteArray("\xff\x00\x01", 3)}) {
        QFile file(path);
        ASSERT_TRUE(file.open(QIODevice::WriteOnly));
        file.write(content);
        file.close();
        Settings settings(path);
        EXPECT_TRUE(settings.wasDamaged());
        EXPECT_TRUE(settings.value(QStringLiteral("page")).isUndefined());
        EXPECT_FALSE(QFile::exists(path));
        QFile kept(path + QStringLiteral(".bad"));
        ASSERT_TRUE(kept.open(QIODevice::ReadOnly));
        EXPECT_EQ(kept.readAll(), content);
        ASSERT_TRUE(settings.save());
        EXPECT_FALSE(Settings(path).wasDamaged());
    }
}

TEST(Settings, SaveSaysWhenItCannotWrite) {
    Settings settings(QStringLiteral("/proc/nowhere/layout.json"));
    EXPECT_FALSE(settings.save());
}

}  // namespace
