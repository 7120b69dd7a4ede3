// The desktop program: options, theme, store, window.
#include <QApplication>
#include <QCommandLineParser>
#include <QDialog>
#include <QPainter>
#include <QPixmap>
#include <QScreen>
#include <QStringList>
#include <QTimer>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "experiments/report/device_choice.h"
#include "gui/heartbeat.h"
#include "gui/main_window.h"
#include "gui/quit_signals.h"
#include "gui/theme/theme.h"

namespace {

using namespace mantissa::gui;

struct Options {
    QString store, preset, page, theme, size, screenshot, select;
    double after = 2;
    bool start = false;
};

/// Ends the program with the sentence of a wrong word on the command line.
[[noreturn]] void refuse(const QString& what, const QString& value, const QString& allowed) {
    const QString line =
        QStringLiteral("error: mantissa: %1: '%2' is not one; allowed: %3\n").arg(what, value, allowed);
    std::fputs(line.toUtf8().constData(), stderr);
    std::exit(2);
}

void checkWord(const QString& what, const QString& value, const QStringList& allowed) {
    if (!value.isEmpty() && !allowed.contains(value)) refuse(what, value, allowed.join(QStringLiteral(", ")));
}

/// "1440x900" as a size, no larger than `most` and no smaller than the window can be.
QSize windowSize(const QString& text, QSize most) {
    const QStringList parts = text.split(QLatin1Char('x'));
    bool wide = false, high = false;
    const QSize size(parts.value(0).toInt(&wide), parts.value(1).toInt(&high));
    if (parts.size() != 2 || !wide || !high || size.width() < 1 || size.height() < 1)
        refuse(QStringLiteral("--size"), text, QStringLiteral("WIDTHxHEIGHT in pixels, as 1440x900"));
    return size.boundedTo(most);
}

void checkOptions(const Options& options, const QStringList& stray) {
    checkWord(
        QStringLiteral("--page"), options.page,
        {QStringLiteral("live"), QStringLiteral("numerics"), QStringLiteral("compare"), QStringLiteral("ladder"),
         QStringLiteral("formats"), QStringLiteral("device"), QStringLiteral("diagnosis"), QStringLiteral("trouble")});
    checkWord(QStringLiteral("--theme"), options.theme,
              {QStringLiteral("dark"), QStringLiteral("light"), QStringLiteral("system")});
    if (!stray.isEmpty())
        refuse(QStringLiteral("argument"), stray.first(), QStringLiteral("the options of mantissa --help"));
}

Options parseOptions(const QApplication& app) {
    QCommandLineParser parser;
    parser.setApplicationDescription(
        QStringLiteral("Launch, watch and compare transformer training in low precision."));
    parser.addHelpOption();
    parser.addVersionOption();
    const auto option = [&parser](const char* name, const char* what, const char* value) {
        parser.addOption({QLatin1String(name), QLatin1String(what), QLatin1String(value)});
    };
    option("store", "Run store to open (else MANTISSA_STORE, else the default workspace)", "FILE");
    option("preset", "Preset to open in the launch dialog, or to start with --start", "NAME");
    parser.addOption({QStringLiteral("start"), QStringLiteral("Start the preset at once")});
    option("select", "Runs to select: names or ids, separated by commas, or all", "RUNS");
    option("page", "Page to open: live, numerics, compare, ladder, formats, device, diagnosis, trouble", "NAME");
    option("theme", "dark, light or system", "THEME");
    option("size", "Size of the window", "WxH");
    option("screenshot", "Save a picture of the window as PNG, then quit", "FILE");
    option("after", "Seconds before the picture is taken", "SECONDS");
    parser.process(app);
    Options options;
    options.store = parser.value(QStringLiteral("store"));
    options.preset = parser.value(QStringLiteral("preset"));
    options.select = parser.value(QStringLiteral("select"));
    options.page = parser.value(QStringLiteral("page"));
    options.theme = parser.value(QStringLiteral("theme"));
    options.size = parser.value(QStringLiteral("size"));
    options.screenshot = parser.value(QStringLiteral("screenshot"));
    options.start = parser.isSet(QStringLiteral("start"));
    if (parser.isSet(QStringLiteral("after"))) {
        const QString after = parser.value(QStringLiteral("after"));
        bool number = false;
        options.after = after.toDouble(&number);
        if (!number || !(options.after >= 0 && options.after <= 3600))
            refuse(QStringLiteral("--after"), after, QStringLiteral("seconds, 0 to 3600"));
    }
    checkOptions(options, parser.positionalArguments());
    return options;
}

ThemeChoice themeChoice(const QString& word) {
    if (word == QLatin1String("light")) return ThemeChoice::Light;
    if (word == QLatin1String("dark")) return ThemeChoice::Dark;
    return ThemeChoice::System;
}

/// The runs that are named, in the order of the list; all of them for "all".
QStringList namedRuns(const RunController& controller, const QString& names) {
    const QStringList wanted = names.split(QLatin1Char(','), Qt::SkipEmptyParts);
    QStringList ids;
    for (const RunInfo& run : controller.runs())
        if (names == QLatin1String("all") || wanted.contains(run.id) || wanted.contains(run.name)) ids.prepend(run.id);
    return ids;
}

void takePicture(MainWindow& window, const QString& path) {
    QPixmap picture = window.grab();
    // A dialog that is open is part of the picture, as on screen.
    for (QWidget* top : QApplication::topLevelWidgets()) {
        if (!top->isVisible() || top == &window || !top->isWindow() || !qobject_cast<QDialog*>(top)) continue;
        QPainter painter(&picture);
        painter.drawPixmap((window.width() - top->width()) / 2, (window.height() - top->height()) / 2, top->grab());
    }
    const bool saved = picture.save(path, "PNG");
    if (!saved)
        std::fputs(qPrintable(QStringLiteral("error: --screenshot: %1: cannot be written\n").arg(path)), stderr);
    QCoreApplication::exit(saved ? 0 : 1);
}

/// Why no window can be shown, "" when nothing speaks against it. Qt would end the program by an abort and advise to
/// install it again. Asked before there is a QApplication: only the environment and the arguments are read.
std::string noDisplay(int argc, char** argv) {
#ifdef Q_OS_LINUX
    const auto set = [](const char* name) {
        const char* value = std::getenv(name);
        return value != nullptr && *value != 0;
    };
    std::string platform = set("QT_QPA_PLATFORM") ? std::getenv("QT_QPA_PLATFORM") : "";
    for (int i = 1; i + 1 < argc; ++i)
        if (std::string_view(argv[i]) == "-platform" || std::string_view(argv[i]) == "--platform")
            platform = argv[i + 1];
    const bool x11 = platform.rfind("xcb", 0) == 0, wayland = platform.rfind("wayland", 0) == 0;
    if (!platform.empty() && !x11 && !wayland) return "";  // offscreen, vnc and the like need none
    if ((!x11 && set("WAYLAND_DISPLAY")) || (!wayland && set("DISPLAY"))) return "";
    return x11       ? "DISPLAY is not set"
           : wayland ? "WAYLAND_DISPLAY is not set"
                     : "neither DISPLAY nor WAYLAND_DISPLAY is set";
#else
    return "";
#endif
}

/// --help, --version: answered without a display.
bool asksForWords(int argc, char** argv) {
    return std::any_of(argv + 1, argv + argc, [](const char* word) {
        const std::string_view text(word);
        return text == "-h" || text == "--help" || text == "--help-all" || text == "-v" || text == "--version";
    });
}

int refuseDisplay(const std::string& why) {
    std::fprintf(stderr,
                 "error: mantissa: there is no display: %s; allowed: a desktop session, mantissa-run, which does "
                 "the same without a window, or ./start, which trains on the command line then\n",
                 why.c_str());
    return 4;
}

QStringList heldMessages;

/// While the application is made. Where a display does not answer, Qt prints its search for plugins and aborts: what it
/// says is held back, and our sentence ends the program.
void holdMessage(QtMsgType type, const QMessageLogContext& context, const QString& text) {
    if (type != QtFatalMsg) {
        heldMessages << qFormatLogMessage(type, context, text);
        return;
    }
    const auto named = [](const char* name) {
        const char* value = std::getenv(name);
        return value && *value ? std::string(name) + " \"" + value + "\"" : std::string();
    };
    const std::string display = named("DISPLAY"), wayland = named("WAYLAND_DISPLAY");
    const std::string both = display.empty() || wayland.empty() ? display + wayland : wayland + " and " + display;
    std::_Exit(
        refuseDisplay(both.empty() ? text.section(QLatin1Char('\n'), 0, 0).toStdString() : both + " cannot be opened"));
}

}  // namespace

int main(int argc, char** argv) {
    std::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is then told as a full disk is
    if (asksForWords(argc, argv))
        qputenv("QT_QPA_PLATFORM", "offscreen");
    else if (const std::string why = noDisplay(argc, argv); !why.empty())
        return refuseDisplay(why);
    qInstallMessageHandler(holdMessage);
    TracedApplication app(argc, argv);
    qInstallMessageHandler(nullptr);
    for (const QString& message : heldMessages) std::fprintf(stderr, "%s\n", qPrintable(message));
    QCoreApplication::setApplicationName(QStringLiteral("mantissa"));
    QCoreApplication::setApplicationVersion(QStringLiteral(MANTISSA_VERSION));
    QApplication::setApplicationDisplayName(QStringLiteral("Mantissa"));
    const Options options = parseOptions(app);
    try {
        mantissa::experiments::checkEnvironment();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 2;
    }

    Settings settings;
    Theme::instance().install(
        themeChoice(options.theme.isEmpty() ? settings.value(QStringLiteral("theme")).toString() : options.theme));
    RunController controller;
    MainWindow window(controller, settings);
    constexpr QSize kMostPixels(8192, 8192);
    if (!options.size.isEmpty())
        window.resize(windowSize(options.size, kMostPixels));
    else if (const QScreen* screen = app.primaryScreen())
        window.resize(window.size().boundedTo(screen->availableSize()));
    window.show();
    const QString heartbeat = qEnvironmentVariable("MANTISSA_HEARTBEAT");
    if (!heartbeat.isEmpty()) app.trace(new Heartbeat(heartbeat, &app));

    QObject::connect(&controller, &RunController::storeOpened, &window, [&, first = true]() mutable {
        if (!std::exchange(first, false)) return;
        if (!options.preset.isEmpty() && options.start) window.startPreset(options.preset);
        if (!options.preset.isEmpty() && !options.start) window.openLaunchPreset(options.preset);
        if (!options.page.isEmpty()) window.openPage(options.page);
    });
    QObject::connect(&controller, &RunController::runsChanged, &window, [&, first = true]() mutable {
        if (options.select.isEmpty() || controller.runs().isEmpty() || !std::exchange(first, false)) return;
        window.runList().chooseMany(namedRuns(controller, options.select));
    });
    controller.openStore(QString::fromStdString(mantissa::experiments::defaultStorePath(options.store.toStdString())));
    if (!options.screenshot.isEmpty())
        QTimer::singleShot(static_cast<int>(1000 * options.after), &window,
                           [&] { takePicture(window, options.screenshot); });
    QuitSignals signalled;
    QObject::connect(&signalled, &QuitSignals::asked, &window, &MainWindow::quit);
    return QApplication::exec();
}
