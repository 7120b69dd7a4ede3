// What limits of the system, a command that comes twice and unclear names do to mantissa-run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "experiments/store/database.h"
#include "tests/experiments/program.h"

namespace mantissa::experiments {
namespace {

using Json = nlohmann::json;
using test::Result;
using test::TempFolder;
using testing::HasSubstr;
using testing::Not;

class Limits : public testing::Test {
  protected:
    Result shell(const std::string& command) { return test::shellIn(folder, command); }
    Result train(const std::string& more) {
        return shell("$M run tiny --quiet --set data.path=text:generated --set train.steps=2 " + more);
    }
    TempFolder folder;
};

/// A file that may not grow is a sentence, as a full disk is, and not the end by a signal.
TEST_F(Limits, OnTheSizeOfFilesAreNamed) {
    const Result result = shell("ulimit -f 200; $M run tiny --quiet --set data.path=text:generated");
    EXPECT_EQ(result.code, 3) << result.err;
    EXPECT_THAT(result.err, testing::ContainsRegex("no file may grow beyond [0-9]+ bytes here .ulimit -f."));
}

TEST_F(Limits, OnOpenFilesAreNamed) {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "UBSan opens files of its own to look at types, and takes every object for a wrong one without";
#endif
    ASSERT_EQ(train("--name one").code, 0);
    int refused = 0;
    // How many files a shell of a test already has open depends on who started it.
    for (int files = 4; files < 40; ++files) {
        const Result result = shell(fmt::format("ulimit -n {}; $M note one again", files));
        EXPECT_THAT(result.err, Not(HasSubstr("another program"))) << files;
        if (result.code == 0 || result.code == 127) continue;  // 127: not even the loader could open the libraries
        ++refused;
        EXPECT_EQ(result.code, 3) << files << ": " << result.err;
        EXPECT_THAT(result.err, HasSubstr("too many files are open (ulimit -n)")) << files;
    }
    EXPECT_GT(refused, 0);
}

TEST_F(Limits, NamesAreUtf8) {
    for (const char* command : {"--name \"$(printf 'bad\\377\\376utf')\"", "--tag \"$(printf 'a\\300')\""}) {
        const Result result = train(command);
        EXPECT_EQ(result.code, 2) << command;
        EXPECT_THAT(result.err, HasSubstr("no UTF-8")) << command;
    }
    EXPECT_EQ(train("--name Größe").code, 0);
    EXPECT_EQ(shell("$M list --json").json().size(), 1u);
    EXPECT_EQ(shell("$M note Größe \"$(printf '\\377')\"").code, 2);
}

/// The newest is taken, and it is said.
TEST_F(Limits, ANameOfSeveralRunsIsTold) {
    ASSERT_EQ(train("--name same").code, 0);
    EXPECT_THAT(shell("$M show same").err, Not(HasSubstr("bear the name")));
    ASSERT_EQ(train("--name same").code, 0);
    const Json list = shell("$M list --json").json();
    const std::string oldest = list[0]["run"], newest = list[1]["run"], compare = "compare same " + oldest;
    for (const std::string command : {"show same", "show same --json", "export same --metrics loss", "tag same",
                                      compare.c_str(), "resume same --set train.steps=4 --quiet"}) {
        const Result result = shell("$M " + command);
        EXPECT_EQ(result.code, 0) << command << result.err;
        EXPECT_THAT(result.err, HasSubstr("2 runs bear the name same; this is the newest, " + newest)) << command;
    }
    EXPECT_EQ(shell("$M show " + newest).err, "");
}

TEST_F(Limits, HelpForAWordThatIsNoCommandIsAMistake) {
    for (const char* command : {"import --help", "--help import", "store frob --help"}) {
        const Result result = shell(std::string("$M ") + command);
        EXPECT_EQ(result.code, 2) << command;
        EXPECT_THAT(result.err, HasSubstr("is not a command")) << command;
    }
    for (const char* command : {"--help", "store --help", "store check --help", "--json --help", "run --help"})
        EXPECT_EQ(shell(std::string("$M ") + command).code, 0) << command;
}

/// check, list and run agree about a file that is no run store.
TEST_F(Limits, ASchemaOfZeroIsAProblemToCheckToo) {
    ASSERT_EQ(train("--name one").code, 0);
    {
        Database database(folder / "s.mantissa", Database::Access::ReadWrite, false);
        database.exec("PRAGMA user_version=0");
        database.checkpoint(0, true);
    }
    for (const char* command : {"list", "store check"}) {
        const Result result = shell(std::string("$M ") + command);
        EXPECT_EQ(result.code, 3) << command;
        EXPECT_THAT(result.err, HasSubstr("schema 0 is not one of a run store")) << command;
    }
}

/// pause for a paused run and resume for one that goes on answer at once; a run that is going is not deleted.
TEST_F(Limits, CommandsThatComeTwiceAreAnswered) {
    shell("$M run tiny --quiet --set data.path=text:generated --set train.steps=1000000 --name one >/dev/null 2>&1 & ");
    const auto running = [&] {
        const Result list = shell("$M list --json");
        return list.code == 0 && !list.json().empty() && list.json()[0]["status"] == "running";
    };
    for (int i = 0; i < 600 && !running(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_TRUE(running());
    const Result deleted = shell("$M delete one");
    EXPECT_EQ(deleted.code, 2);
    EXPECT_THAT(deleted.err, HasSubstr("run one is running; allowed: runs that have ended"));
    EXPECT_EQ(shell("$M pause one").code, 0);
    const Result again = shell("$M pause one --wait 20");
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_THAT(again.out, HasSubstr("Paused already."));
    EXPECT_EQ(shell("$M resume one").code, 0);
    const Result going = shell("$M resume one");
    EXPECT_EQ(going.code, 0) << going.err;
    EXPECT_THAT(going.out, HasSubstr("Going on already."));
    EXPECT_EQ(shell("$M stop one --now").code, 0);
}

/// A ladder that a device or the memory cannot hold ends as a run does: code 4, one sentence, also with --quiet.
TEST_F(Limits, ARefusedLadderSaysWhy) {
    const std::string one = "$M ladder tiny --quiet --set data.path=text:generated --warmup 0 --steps 1 --rungs ";
    const Result device = shell(one + "' fp32_unfused, bf16' --device cuda:99");
    EXPECT_EQ(device.code, 4) << device.out << device.err;
    EXPECT_THAT(device.err, testing::StartsWith("error: ladder: FP32, unfused AdamW and norm: refused: "));
    EXPECT_THAT(device.err, HasSubstr("; allowed: a plan that fits, on a device that mantissa-run devices lists\n"));
    EXPECT_EQ(std::count(device.err.begin(), device.err.end(), '\n'), 1) << device.err;
    EXPECT_THAT(device.out, HasSubstr("tiny, 4 × 64 tokens, cuda:99; 0 warm-up")) << "the table is the result";
    EXPECT_THAT(device.out, HasSubstr("not run"));

    const Result memory = shell(one + "bf16 --device cpu --set model.width=65536 --set model.heads=1024 --json");
    EXPECT_EQ(memory.code, 4) << memory.err;
    EXPECT_THAT(memory.err, HasSubstr("lower train.batch"));
    const auto ladder = memory.json();
    for (const auto& rung : ladder.at("rungs"))
        EXPECT_EQ(rung.at("status"), rung.at("rung") == "bf16" ? "refused" : "not_run") << rung;
}

/// The last line of a run that never started names it, so that a script finds it in the store.
TEST_F(Limits, ARefusedRunNamesItselfAtItsEnd) {
    const Result result = shell("$M run tiny --json --set data.path=text:generated --device cuda:99");
    EXPECT_EQ(result.code, 4);
    const Json end = Json::parse(result.out.substr(result.out.rfind("{\"event\":\"end\"")));
    EXPECT_EQ(end.at("run"), shell("$M list --json").json()[0].at("run"));
}

/// A step that takes minutes (here 65,536 parts) does not hold the second Ctrl-C of a ladder.
TEST_F(Limits, ASecondInterruptEndsALadderInItsStep) {
    const auto start = std::chrono::steady_clock::now();
    const Result result = shell(
        "$M ladder tiny --set data.path=text:generated --set train.accumulation=65536 --rungs bf16 & p=$!; "
        "sleep 2; kill -INT $p; sleep 1; kill -INT $p; wait $p");
    EXPECT_EQ(result.code, 130) << result.err;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
    EXPECT_THAT(result.err, HasSubstr("Ctrl-C again ends the program at once"));
    EXPECT_EQ(shell("$M store check").code, 0);
    EXPECT_EQ(shell("$M list --json").json()[0]["status"], "interrupted");
}

/// One timed step has no spread, and what it brought cannot be told.
TEST_F(Limits, ALadderOfOneStepTellsNoTimes) {
    const Result result = shell(
        "$M ladder tiny --set data.path=text:generated --warmup 0 --steps 1 --rungs "
        "fused_norm,bf16 2>/dev/null");
    ASSERT_EQ(result.code, 0) << result.out;
    EXPECT_THAT(result.out, HasSubstr("± –"));
    EXPECT_THAT(result.out, HasSubstr("time not told (one step)"));
    EXPECT_THAT(result.out, HasSubstr("--steps 20 measures longer"));
    const std::string id = shell("$M ladder --list --json").json()[0]["ladder"];
    const auto ladder = shell("$M ladder --show " + id + " --json").json();
    for (const auto& rung : ladder.at("rungs"))
        if (rung["status"] == "measured") {
            EXPECT_TRUE(rung["step_ms_spread"].is_null()) << rung;
        }
}

}  // namespace
}  // namespace mantissa::experiments
