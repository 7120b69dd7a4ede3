// P09: every picture of the README names its runs and the command that drew it; the command draws it again from the
// recorded store in tests/data/pictures, and another run gives another picture.
#include <gtest/gtest.h>

#include <QDir>
#include <QFile>
#include <QImage>
#include <QProcess>
#include <QRegularExpression>
#include <QTemporaryDir>
#include <cstdio>
#include <cstdlib>

#include "experiments/store/run_store.h"
#include "gui/theme/fonts.h"

namespace {

const QString kSource = QStringLiteral(MANTISSA_SOURCE_DIR) + QLatin1Char('/');
constexpr double kSame = 0.015;  ///< share of pixels that may differ: a date, the age of a run

struct Picture {
    QString file;
    QStringList runs, arguments;
};

/// Rows "| `docs/NAME.png` | RUN-ID … | `mantissa …` |" of the README.
QVector<Picture> readmePictures() {
    QFile readme(kSource + QStringLiteral("README.md"));
    EXPECT_TRUE(readme.open(QIODevice::ReadOnly));
    static const QRegularExpression row(
        QStringLiteral("^\\| `(docs/[^`]+\\.png)` \\| ([^|]+) \\| `mantissa ([^`]+)` \\|"),
        QRegularExpression::MultilineOption);
    static const QRegularExpression id(QStringLiteral("\\b01[0-9A-Z]{24}\\b"));
    QVector<Picture> pictures;
    for (auto it = row.globalMatch(QString::fromUtf8(readme.readAll())); it.hasNext();) {
        const auto match = it.next();
        Picture picture{match.captured(1), {}, match.captured(3).split(QLatin1Char(' '))};
        for (auto ids = id.globalMatch(match.captured(2)); ids.hasNext();) picture.runs << ids.next().captured();
        pictures << picture;
    }
    return pictures;
}

QString valueOf(const QStringList& arguments, const char* option) {
    return arguments.value(arguments.indexOf(QLatin1String(option)) + 1);
}

/// What the command draws, from a copy of its store.
QImage drawn(const QTemporaryDir& folder, QStringList arguments, const QString& select = QString()) {
    const QString store = folder.filePath(QStringLiteral("copy.mantissa"));
    const QString picture = folder.filePath(QStringLiteral("drawn.png"));
    for (const QString& old : QDir(folder.path()).entryList({QStringLiteral("copy.mantissa*")}, QDir::Files))
        QFile::remove(folder.filePath(old));
    EXPECT_TRUE(QFile::copy(kSource + valueOf(arguments, "--store"), store));
    QFile::setPermissions(store, QFile::ReadOwner | QFile::WriteOwner);
    arguments[arguments.indexOf(QStringLiteral("--store")) + 1] = store;
    arguments[arguments.indexOf(QStringLiteral("--screenshot")) + 1] = picture;
    if (!select.isEmpty()) arguments[arguments.indexOf(QStringLiteral("--select")) + 1] = select;
    QProcess program;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert(QStringLiteral("QT_QPA_PLATFORM"), QStringLiteral("offscreen"));
    environment.insert(QStringLiteral("XDG_CONFIG_HOME"), folder.path());
    program.setProcessEnvironment(environment);
    program.start(QStringLiteral(MANTISSA_PROGRAM), arguments);
    EXPECT_TRUE(program.waitForFinished(120000));
    EXPECT_EQ(program.exitCode(), 0) << program.readAllStandardError().toStdString();
    return QImage(picture).convertToFormat(QImage::Format_RGB32);
}

/// Share of pixels that differ at half the size: releases of FreeType draw the edges of letters differently, which is 2
/// to 3 % of the pixels at full size (Ubuntu 24.04 against Debian 12) and none at half of it; another run is 9 %.
double differing(const QImage& full, const QImage& again) {
    if (full.size() != again.size() || full.isNull()) return 1;
    const auto half = [](const QImage& image) {
        return image.scaled(image.size() / 2, Qt::IgnoreAspectRatio, Qt::SmoothTransformation)
            .convertToFormat(QImage::Format_RGB32);
    };
    const QImage a = half(full), b = half(again);
    qint64 count = 0;
    for (int y = 0; y < a.height(); ++y) {
        const auto* p = reinterpret_cast<const QRgb*>(a.constScanLine(y));
        const auto* q = reinterpret_cast<const QRgb*>(b.constScanLine(y));
        for (int x = 0; x < a.width(); ++x)
            count += std::abs(qRed(p[x]) - qRed(q[x])) > 40 || std::abs(qGreen(p[x]) - qGreen(q[x])) > 40 ||
                     std::abs(qBlue(p[x]) - qBlue(q[x])) > 40;
    }
    return double(count) / double(qint64(a.width()) * a.height());
}

TEST(ReadmePictures, NameRunsOfTheRecordedStore) {
    const auto pictures = readmePictures();
    ASSERT_GE(pictures.size(), 3);
    QFile readme(kSource + QStringLiteral("README.md"));
    ASSERT_TRUE(readme.open(QIODevice::ReadOnly));
    const QString text = QString::fromUtf8(readme.readAll());
    // A picture without a row has no command.
    static const QRegularExpression shown(QStringLiteral("\\]\\((docs/[^)]+\\.png)\\)"));
    for (auto it = shown.globalMatch(text); it.hasNext();) {
        const QString file = it.next().captured(1);
        EXPECT_TRUE(std::any_of(pictures.begin(), pictures.end(), [&](const Picture& p) { return p.file == file; }))
            << file.toStdString();
    }
    for (const Picture& picture : pictures) {
        QTemporaryDir folder;
        const QString copy = folder.filePath(QStringLiteral("copy.mantissa"));
        ASSERT_TRUE(QFile::copy(kSource + valueOf(picture.arguments, "--store"), copy)) << picture.file.toStdString();
        mantissa::experiments::RunStore store(copy.toStdString(), mantissa::experiments::RunStore::Mode::ReadOnly);
        ASSERT_FALSE(picture.runs.isEmpty());
        for (const QString& run : picture.runs) EXPECT_TRUE(store.run(run.toStdString())) << run.toStdString();
        EXPECT_EQ(valueOf(picture.arguments, "--screenshot"), picture.file);
    }
}

TEST(ReadmePictures, AreDrawnAgainByTheirCommands) {
    if (!mantissa::gui::uiFont(mantissa::gui::TextSize::Body).family().contains(QLatin1String("Roboto")))
        GTEST_SKIP() << "the pictures were drawn with Roboto, which is not installed";
    for (const Picture& picture : readmePictures()) {
        QTemporaryDir folder;
        const QImage kept = QImage(kSource + picture.file).convertToFormat(QImage::Format_RGB32);
        const QImage again = drawn(folder, picture.arguments);
        const double share = differing(kept, again);
        std::printf("%s: %.2f %% of the pixels differ\n", qPrintable(picture.file), 100 * share);
        EXPECT_LE(share, kSame) << picture.file.toStdString() << ": draw it again with scripts/readme-pictures.sh";
    }
}

TEST(ReadmePictures, AnotherRunGivesAnotherPicture) {
    const auto pictures = readmePictures();
    const auto live = std::find_if(pictures.begin(), pictures.end(), [](const Picture& picture) {
        return valueOf(picture.arguments, "--page") == QLatin1String("live");
    });
    ASSERT_NE(live, pictures.end());
    QTemporaryDir folder;
    const QImage kept = QImage(kSource + live->file).convertToFormat(QImage::Format_RGB32);
    EXPECT_GT(differing(kept, drawn(folder, live->arguments, QStringLiteral("nano-bf16-s1"))), kSame);
}

}  // namespace
