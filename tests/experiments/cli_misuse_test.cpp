// What a terminal, a pipe, a disk and a hurried hand do to mantissa-run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "experiments/store/database.h"
#include "tests/experiments/program.h"

namespace mantissa::experiments {
namespace {

using Json = nlohmann::json;
using test::readAll;
using test::Result;
using test::TempFolder;
using test::writeAll;
using testing::HasSubstr;

class Misuse : public testing::Test {
  protected:
    /// A whole shell command; $M is the program.
    Result shell(const std::string& command) { return test::shellIn(folder, command); }
    Result train(const std::string& more) {
        return shell("$M run tiny --quiet --set data.path=text:generated " + more);
    }
    Json show(const std::string& run) { return shell("$M show " + run + " --json").json(); }
    TempFolder folder;
};

/// A fault without a place in the run is refused before anything is stored, by run and by check alike.
TEST_F(Misuse, AFaultThatCannotHappenLeavesNoRun) {
    const struct {
        const char *fault, *said;
    } cases[] = {{R"({"kind":"weight_nan","step":2,"target":"h.9.mlp.fc2/weight"})",
                  "allowed: h.0 ... h.1, each with .attn.qkv"},
                 {R"({"kind":"weight_nan","step":99,"target":"h.1.mlp.fc2/weight"})",
                  "step 99 comes after the run's last; allowed: 1 ... 3"},
                 {R"({"kind":"weight_nan","step":2,"target":"h.1.mlp.fc2/input"})",
                  "one of a linear's weight, not of its input"}};
    for (const auto& one : cases) {
        const Result result = train(std::string("--set train.steps=3 --set 'faults=[") + one.fault + "]'");
        EXPECT_EQ(result.code, 2) << result.err;
        EXPECT_THAT(result.err, HasSubstr(one.said));
        writeAll(folder / "f.json", std::string(R"({"version":1,"preset":"tiny","data":{"path":"text:generated"},)") +
                                        R"("train":{"steps":3},"faults":[)" + one.fault + "]}");
        const Result checked = shell("$M check f.json");
        EXPECT_EQ(checked.code, 2) << checked.err;
        EXPECT_THAT(checked.err, HasSubstr(one.said));
    }
    EXPECT_EQ(shell("$M list --json").json().size(), 0u);
}

/// A resume that cannot be the same run, or whose checkpoint is damaged, leaves the run as it was.
TEST_F(Misuse, AResumeThatCannotBeginChangesNothing) {
    ASSERT_EQ(train("--set train.steps=10 --set checkpoint.every=5 --name one").code, 0);
    const Json before = show("one");
    for (const char* change : {"model.width=128", "seed=5", "train.batch=2", "data.validation_fraction=0.1"}) {
        const Result result = shell(std::string("$M resume one --set train.steps=20 --set ") + change);
        EXPECT_EQ(result.code, 2) << change;
        EXPECT_THAT(result.err, HasSubstr("resume: ")) << change;
        EXPECT_THAT(result.err, HasSubstr("allowed: ")) << change;
        EXPECT_EQ(show("one"), before) << change;
    }
    EXPECT_EQ(shell("$M resume one --set train.steps=20 --device cuda:7").code, 4);
    EXPECT_EQ(show("one"), before) << "a device that is not there";
    EXPECT_EQ(shell("$M fork one --at 10 --set train.steps=20 --set model.layers=3").code, 2);
    EXPECT_EQ(shell("$M list --json").json().size(), 1u) << "no run is left behind by a fork that cannot begin";

    const std::string weights = before["checkpoints"][1]["path"].get<std::string>() + "/weights.safetensors";
    std::string bytes = readAll(weights);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x10);
    writeAll(weights, bytes);
    const Result damaged = shell("$M resume one --set train.steps=20");
    EXPECT_EQ(damaged.code, 2);
    EXPECT_THAT(damaged.err, HasSubstr("weights.safetensors: is damaged"));
    EXPECT_THAT(damaged.err, HasSubstr("also has checkpoints of step 5"));
    EXPECT_EQ(show("one"), before);
    const Result older =
        shell("$M resume one --from 5 --set train.steps=12 --set optimizer.learning_rate=0.001 --quiet");
    EXPECT_EQ(older.code, 0) << older.err;
    EXPECT_THAT(shell("$M show one --json").out, HasSubstr("Steps 6 to 10 of before are superseded"))
        << "said, not silent";
    EXPECT_THAT(show("one").dump(), HasSubstr("optimizer.learning_rate: 0.001, was 0.002."));
}

TEST_F(Misuse, OutputThatCannotBeWrittenIsAnError) {
    ASSERT_EQ(train("--set train.steps=2 --name one").code, 0);
    if (std::filesystem::exists("/dev/full")) {
        const Result full = shell("$M export one >/dev/full");
        EXPECT_EQ(full.code, 2);
        EXPECT_THAT(full.err, HasSubstr("standard output could not be written"));
    }
    EXPECT_EQ(shell("$M list >&-").code, 2);
    EXPECT_EQ(shell("$M export one --out .").code, 2);
    EXPECT_THAT(shell("$M export one --out .").err, HasSubstr("Is a directory"));
}

/// A file opened while standard streams are closed does not become one of them.
TEST_F(Misuse, ClosedStreamsDoNotWriteIntoFiles) {
    shell("$M run tiny --quiet --set data.path=text:generated --set train.steps=4 --name one <&- >&- 2>&-");
    EXPECT_EQ(show("one")["status"], "finished");
    EXPECT_EQ(shell("$M store check").code, 0);
    for (const auto& entry : std::filesystem::directory_iterator(folder / "s.mantissa.d"))
        if (entry.path().extension() == ".lock") {
            EXPECT_EQ(readAll(entry.path()).find("loss"), std::string::npos) << entry.path();
        }
    EXPECT_EQ(shell("$M resume one --set train.steps=6 --quiet").code, 0) << "the checkpoint is whole";
}

/// --out follows a link and writes into a pipe; it replaces neither.
TEST_F(Misuse, ExportKeepsLinksAndPipes) {
    ASSERT_EQ(train("--set train.steps=2 --name one").code, 0);
    writeAll(folder / "target", "old");
    std::filesystem::create_symlink(folder / "target", folder / "link");
    ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
    EXPECT_EQ(shell("$M export one --metrics loss --out link").code, 0);
    EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
    EXPECT_EQ(readAll(folder / "target").rfind("step,value\n1,", 0), 0u);
    EXPECT_EQ(shell("cat pipe >got & $M export one --metrics loss --out pipe; code=$?; wait; exit $code").code, 0);
    EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
    EXPECT_EQ(readAll(folder / "got"), readAll(folder / "target"));
}

/// A link whose target is not there yet is followed, as the shell's > does: the link stays, the target appears.
TEST_F(Misuse, ALinkThatLeadsNowhereIsFollowed) {
    std::filesystem::create_directory(folder / "there");
    std::filesystem::create_symlink("there/runs.mantissa", folder / "s.mantissa");
    ASSERT_EQ(train("--set train.steps=2 --name one").code, 0);
    EXPECT_TRUE(std::filesystem::is_symlink(folder / "s.mantissa"));
    EXPECT_TRUE(std::filesystem::is_regular_file(folder / "there/runs.mantissa"));
    std::filesystem::create_symlink("there/new", folder / "link");
    for (const char* command : {"export one --metrics loss", "plan-of one"}) {
        std::filesystem::remove(folder / "there/new");
        const Result result = shell(std::string("$M ") + command + " --out link");
        EXPECT_EQ(result.code, 0) << result.err;
        EXPECT_TRUE(std::filesystem::is_symlink(folder / "link")) << command;
        EXPECT_GT(readAll(folder / "there/new").size(), 20u) << command;
    }
    std::filesystem::create_symlink("nowhere/new", folder / "lost");
    const Result lost = shell("$M export one --metrics loss --out lost");
    EXPECT_EQ(lost.code, 2);
    EXPECT_THAT(lost.err, HasSubstr("lost -> nowhere/new cannot be written: No such file or directory"));
    EXPECT_TRUE(std::filesystem::is_symlink(folder / "lost"));
    std::filesystem::create_symlink("circle", folder / "circle");
    EXPECT_EQ(shell("$M export one --metrics loss --out circle").code, 2);
    EXPECT_EQ(shell("$M list --store circle").code, 3);
    const Result salvage = shell("$M store salvage lost");
    EXPECT_EQ(salvage.code, 3);
    EXPECT_THAT(salvage.err, HasSubstr("exists already"));
}

/// A wrong word in the environment ends every command before anything is opened; help still comes.
TEST_F(Misuse, AWrongEnvironmentIsOneSentence) {
    for (const char* command : {"run tiny", "list", "devices", "presets", "tensor --values 1 --format e4m3"}) {
        const Result isa = shell(std::string("MANTISSA_ISA=foo $M ") + command);
        EXPECT_EQ(isa.code, 2) << command;
        EXPECT_THAT(isa.err, HasSubstr("error: MANTISSA_ISA: \"foo\" is not an instruction set of this processor; "
                                       "allowed: sse"))
            << command;
        EXPECT_EQ(std::count(isa.err.begin(), isa.err.end(), '\n'), 1) << command;
        EXPECT_EQ(shell(std::string("MANTISSA_DEVICE=foo $M ") + command).code, 2) << command;
        const Result attention = shell(std::string("MANTISSA_ATTENTION=foo $M ") + command);
        EXPECT_EQ(attention.code, 2) << command;
        EXPECT_EQ(attention.err, "error: MANTISSA_ATTENTION: \"foo\" is no choice; allowed: own, or nothing\n");
        EXPECT_EQ(shell(std::string("MANTISSA_MATMUL=foo $M ") + command).code, 2) << command;
    }
    EXPECT_FALSE(std::filesystem::exists(folder / "s.mantissa"));
    EXPECT_EQ(shell("MANTISSA_ISA=foo $M --help").code, 0);
    EXPECT_EQ(shell("MANTISSA_ISA=sse $M presets").code, 0);
    EXPECT_EQ(shell("MANTISSA_ATTENTION=own MANTISSA_MATMUL=first $M presets").code, 0);
}

/// Whether the process has a handler of its own for the signal (proc(5): SigCgt of /proc/PID/status, a mask in hex).
bool handles(pid_t process, int signal) {
    const std::string status = readAll(fmt::format("/proc/{}/status", process));
    const size_t at = status.find("SigCgt:");
    return at != std::string::npos && (std::stoull(status.substr(at + 7), nullptr, 16) >> (signal - 1) & 1) != 0;
}

/// A kill that comes while the run is made, before its first step, is obeyed as soon as there is something to stop.
TEST_F(Misuse, AKillDuringTheStartIsObeyed) {
    ASSERT_EQ(train("--set train.steps=1 --name first").code, 0);
    FileLock held;  // as long as it is held no run can be stored
    ASSERT_TRUE(held.acquire(folder / "s.mantissa.d/write.lock", 1000));
    const pid_t child = fork();
    if (child == 0) {
        execl(MANTISSA_RUN, "mantissa-run", "run", "tiny", "--quiet", "--store", (folder / "s.mantissa").c_str(),
              "--set", "data.path=text:generated", "--set", "train.steps=100000000", "--name", "early", nullptr);
        _exit(99);
    }
    while (!handles(child, SIGTERM)) usleep(1000);
    kill(child, SIGTERM);
    usleep(50'000);
    held.release();
    int status = 0;
    for (int waited = 0; waitpid(child, &status, WNOHANG) == 0 && waited < 60'000; ++waited) usleep(1000);
    ASSERT_TRUE(WIFEXITED(status)) << (kill(child, SIGKILL), "it trains on");
    EXPECT_EQ(WEXITSTATUS(status), 130);
    EXPECT_EQ(show("early")["status"], "stopped");
}

/// A store that is deleted under a run would be lost with the process; the run says so and saves it.
TEST_F(Misuse, AStoreDeletedUnderARunIsSavedBesideIt) {
    const Result result = shell(
        "$M run tiny --json --set data.path=text:generated --set train.steps=3000 --set checkpoint.every=0 --name lost "
        ">log 2>err & child=$!; until grep -q '\"step\":200,' log; do sleep 0.05; done; "
        "rm s.mantissa s.mantissa-wal s.mantissa-shm; wait $child");
    EXPECT_EQ(result.code, 3);
    EXPECT_THAT(readAll(folder / "err"),
                HasSubstr("s.mantissa was deleted, moved or replaced while run lost wrote to it; "
                          "everything is saved in"));
    EXPECT_FALSE(std::filesystem::exists(folder / "s.mantissa")) << "what was deleted stays deleted";
    std::filesystem::rename(folder / "s.mantissa.rescued", folder / "s.mantissa");
    const Json run = show("lost");
    EXPECT_EQ(run["status"], "finished");
    EXPECT_EQ(run["step"], 3000);
    EXPECT_THAT(run.dump(), HasSubstr("store_gone"));
    EXPECT_EQ(shell("$M store check").code, 0);
}

/// The reader of a pipe that goes (| head) and a terminal that closes stop a run with a checkpoint.
TEST_F(Misuse, ABrokenPipeAndAHangUpStopWithACheckpoint) {
    shell(
        "$M run tiny --json --set data.path=text:generated --set train.steps=1000000 --set checkpoint.every=0 "
        "--name piped | head -n 1");
    shell(
        "$M run tiny --set data.path=text:generated --set train.steps=1000000 --set checkpoint.every=0 --name hung "
        ">log & child=$!; until grep -q ' val ' log; do sleep 0.1; done; kill -HUP $child; kill -HUP $child; wait "
        "$child");
    for (const char* name : {"piped", "hung"}) {
        const Json run = show(name);
        EXPECT_EQ(run["status"], "stopped") << name;
        ASSERT_EQ(run["checkpoints"].size(), 1u) << name;
        EXPECT_EQ(run["checkpoints"][0]["step"], run["step"]) << name;
    }
}

/// A disk that stays full to the end: the run is not called finished when the store lacks its end.
TEST_F(Misuse, AFullDiskAtTheEndIsSaid) {
    const Result full = shell(
        "ulimit -f 1000; $M run tiny --quiet --set data.path=text:generated --set train.steps=200 --set "
        "checkpoint.every=0 --name full");
    EXPECT_EQ(full.code, 3) << full.err;
    EXPECT_THAT(full.err, HasSubstr("the end of the run are not in the store"));
    EXPECT_EQ(show("full")["status"], "interrupted");
}

TEST_F(Misuse, SeedsNamesAndTagsAreChecked) {
    for (const char* seeds : {"-1", "''", "1,1", "1,x", "1,", "18446744073709551616"}) {
        const Result result = train(std::string("--set train.steps=2 --seeds ") + seeds);
        EXPECT_EQ(result.code, 2) << seeds;
        EXPECT_THAT(result.err, HasSubstr("allowed: whole numbers 0 … 18446744073709551615")) << seeds;
    }
    for (const char* label :
         {"--name ''", "--name \"$(printf 'a\\nb')\"", "--tag ' '", "--tag \"$(printf 'a\\033b')\""}) {
        const Result result = train(std::string("--set train.steps=2 ") + label);
        EXPECT_EQ(result.code, 2) << label;
        EXPECT_THAT(result.err, HasSubstr("allowed: one line of 1 … 1000 bytes")) << label;
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << label;
    }
    EXPECT_FALSE(std::filesystem::exists(folder / "s.mantissa")) << "nothing was trained";
}

TEST_F(Misuse, ASharedNameIsNotEnoughToDelete) {
    for (int i = 0; i < 2; ++i) ASSERT_EQ(train("--set train.steps=1 --name same").code, 0);
    const Result shared = shell("$M delete same");
    EXPECT_EQ(shared.code, 2);
    EXPECT_THAT(shared.err, HasSubstr("is the name of 2 runs; allowed: their ids"));
    const Json list = shell("$M list --json").json();
    ASSERT_EQ(list.size(), 2u);
    const std::string id = list[0]["run"];
    EXPECT_EQ(shell("$M delete " + id + " " + id).code, 0) << "named twice, deleted once";
    EXPECT_EQ(shell("$M delete same").code, 0) << "one is left, so the name is enough";
}

TEST_F(Misuse, JsonIsJsonAndErrorsArePlainText) {
    ASSERT_EQ(train("--set train.steps=2 --name one").code, 0);
    EXPECT_EQ(shell("$M export one --metrics loss --json").json()["loss"]["steps"], Json({1, 2}));
    EXPECT_EQ(shell("$M export one --metrics loss --json --format csv").code, 2);
    std::string noise = "{\"seed\": ";
    for (int i = 1; i < 256; ++i) noise += static_cast<char>(i);
    writeAll(folder / "noise.json", noise);
    writeAll(folder / "big.json", "{\n\"optimizer\":\n{\"learning_rate\": 1e400}}");
    for (const char* command : {"check noise.json", "tensor --file noise.json", "show \"$(printf 'a\\033[31mb')\""}) {
        const Result result = shell(std::string("$M ") + command);
        EXPECT_EQ(result.code, 2) << command;
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << command;
        for (const char c : result.err)
            EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 32) << command << ": " << int{c};
    }
    EXPECT_THAT(shell("$M check big.json").err, HasSubstr("1e400' at line 3"));
    EXPECT_THAT(shell("$M frobnicate").err, HasSubstr("\"frobnicate\" is not a command; allowed: one of run"));
    EXPECT_THAT(shell("$M store frobnicate").err, HasSubstr("\"frobnicate\" is not a command; allowed: one of info"));
    EXPECT_LT(shell("$M fork one --at -1").err.size(), 200u);
}

TEST_F(Misuse, TensorRefusesWhatItWouldPassOver) {
    for (const char* arguments : {"--codes 7E --values 1", "--codes 7E --what-if", "--trace 1,2 --recipe current",
                                  "--trace 1,-2", "--values 1 --history ''", "--values 1 --history-length 0"}) {
        const Result result = shell(std::string("$M tensor ") + arguments);
        EXPECT_EQ(result.code, 2) << arguments;
        EXPECT_THAT(result.err, HasSubstr("allowed: ")) << arguments;
    }
}

/// A store on a medium that cannot be written to can be checked.
TEST_F(Misuse, AReadOnlyStoreCanBeChecked) {
    if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
    ASSERT_EQ(train("--set train.steps=2 --name one").code, 0);
    std::filesystem::create_directory(folder / "ro");
    std::filesystem::copy_file(folder / "s.mantissa", folder / "ro/s");
    ASSERT_EQ(::chmod((folder / "ro").c_str(), 0555), 0);
    const Result result = shell("$M store check --store ro/s");
    ::chmod((folder / "ro").c_str(), 0755);
    EXPECT_EQ(result.code, 0) << result.err;
}

}  // namespace
}  // namespace mantissa::experiments
