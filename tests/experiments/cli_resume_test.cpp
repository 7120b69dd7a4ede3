// What mantissa-run looks at before it goes on with a run: its text, its checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/experiments/program.h"

namespace mantissa::experiments {
namespace {

using Json = nlohmann::json;
using test::readAll;
using test::Result;
using test::TempFolder;
using test::writeAll;
using testing::HasSubstr;

class Resume : public testing::Test {
  protected:
    Resume() {
        std::filesystem::create_directories(folder / "a");
        std::filesystem::create_directories(folder / "b");
        writeAll(folder / "a/t.txt", text('a'));
        writeAll(folder / "b/t.txt", text('b'));
    }
    /// Long enough for the windows of `tiny`.
    static std::string text(char letter) {
        std::string all;
        for (int i = 0; i < 1000; ++i) all += std::string("in the beginning ") + letter + '\n';
        return all;
    }
    Result shell(const std::string& command) { return test::shellIn(folder, command); }
    Json show(const std::string& run) { return shell("$M show " + run + " --json").json(); }
    TempFolder folder;
};

constexpr const char* kTrain =
    "cd a; $M run tiny --quiet --set data.path=t.txt --set train.steps=4 --set checkpoint.every=2 --name one";

/// A path is that of the folder where the run began, wherever it goes on.
TEST_F(Resume, ReadsTheTextOfTheFolderWhereTheRunBegan) {
    ASSERT_EQ(shell(kTrain).code, 0);
    EXPECT_EQ(show("one")["spec"]["data"]["path"], std::filesystem::canonical(folder / "a/t.txt").string());
    const std::string more = "$M resume one --quiet --set train.steps=";
    EXPECT_EQ(shell("cd b; " + more + "6").code, 0);
    EXPECT_EQ(shell("cd /; " + more + "8").code, 0);
    EXPECT_EQ(shell("cd a; " + more + "10 --set data.path=t.txt").code, 0) << "the same file by another name";
    EXPECT_EQ(shell("cd /; $M fork one --at 10 --quiet --name child --set train.steps=11").code, 0);
    const Result other = shell("cd b; " + more + "12 --set data.path=t.txt");
    EXPECT_EQ(other.code, 2);
    EXPECT_THAT(other.err, HasSubstr("would be another run"));
}

/// The same bits after a resume need the same text: one that was edited or cut off is refused, and nothing changes.
TEST_F(Resume, RefusesATextThatHasChanged) {
    ASSERT_EQ(shell(kTrain).code, 0);
    const std::string before = shell("$M show one --json").out;
    std::string edited = text('a');
    edited[edited.size() / 2] ^= 1;
    for (const std::string& now : {edited, text('a').substr(0, 9000)}) {
        writeAll(folder / "a/t.txt", now);
        for (const char* command : {"$M resume one --set train.steps=6", "$M fork one --at 4 --set train.steps=6",
                                    "$M fork one --at 0 --set train.steps=6"}) {
            const Result result = shell(command);
            EXPECT_EQ(result.code, 2);
            EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
            for (const std::string& word :
                 {std::string("a/t.txt: is not the text that run one was trained on: 19000 tokens with hash "),
                  std::to_string(now.size()) + " tokens with hash ", std::string("allowed: the text put back, or"),
                  std::string("mantissa-run fork one --at "), std::string("--set data.path=")})
                EXPECT_THAT(result.err, HasSubstr(word));
        }
    }
    EXPECT_EQ(shell("$M show one --json").out, before);
    EXPECT_EQ(shell("$M list --json").json().size(), 1u) << "a refused fork leaves no run";
    EXPECT_EQ(shell("$M fork one --at 4 --quiet --set train.steps=6 --set data.path=a/t.txt --name child").code, 0)
        << "what the sentence allows";
    EXPECT_EQ(shell("$M resume child --quiet --set train.steps=8").code, 0) << "its text is the one it began on";
    writeAll(folder / "a/t.txt", text('a'));
    EXPECT_EQ(shell("$M resume one --quiet --set train.steps=6").code, 0) << "the text put back";
}

/// What is told is what is loaded: a folder that holds the files of another step is refused.
TEST_F(Resume, RefusesACheckpointOfAnotherStep) {
    ASSERT_EQ(shell(kTrain).code, 0);
    ASSERT_EQ(shell("cd s.mantissa.d/*/ && cp step-00000002/* step-00000004/").code, 0);
    const std::string before = shell("$M show one --json").out;
    for (const char* command : {"resume one", "fork one --at 4"}) {
        const Result result = shell(std::string("$M ") + command + " --set train.steps=6");
        EXPECT_EQ(result.code, 2);
        EXPECT_THAT(result.err, HasSubstr("step-00000004: holds the state after step 2, not that of step 4"));
        EXPECT_THAT(result.err, HasSubstr("the run also has checkpoints of step 2"));
    }
    EXPECT_EQ(shell("$M show one --json").out, before);
    EXPECT_EQ(shell("$M resume one --from 2 --quiet --set train.steps=6").code, 0);
}

}  // namespace
}  // namespace mantissa::experiments
