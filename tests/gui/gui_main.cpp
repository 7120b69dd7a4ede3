// main() of GUI tests: a QApplication with the program's theme, offscreen unless a platform is given. gtest's macros
// only: QVERIFY inside a gtest test returns without failing it.
#include <gtest/gtest.h>

#include "gui/heartbeat.h"
#include "gui/theme/theme.h"

int main(int argc, char** argv) {
    if (qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM")) {
        qputenv("QT_QPA_PLATFORM", "offscreen");
    }
    ::testing::InitGoogleTest(&argc, argv);
    mantissa::gui::TracedApplication application(argc, argv);
    mantissa::gui::Theme::instance().install(mantissa::gui::ThemeChoice::Dark);
    return RUN_ALL_TESTS();
}
