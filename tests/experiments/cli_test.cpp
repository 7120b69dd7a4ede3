// The built mantissa-run: exit codes, sentences, JSON shapes, kill and resume.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/experiments/program.h"

namespace mantissa::experiments {
namespace {

using Json = nlohmann::json;
using test::readAll;
using test::Result;
using test::TempFolder;
using test::writeAll;
using testing::HasSubstr;

/// Runs the program through the shell with its own store and no colour.
class Cli : public testing::Test {
  protected:
    Result run(const std::string& arguments) { return test::shellIn(folder, "\"$M\" " + arguments); }
    /// A tiny run on generated text.
    Result train(const std::string& more) { return run("run tiny --set data.path=text:generated " + more); }
    TempFolder folder;
};

struct Mistake {
    const char *arguments, *words;
    int code;
};

class Mistakes : public Cli, public testing::WithParamInterface<Mistake> {};

/// Proof P12: the thing, the place and the allowed values stand in one line on standard error, and no file has changed.
TEST_P(Mistakes, GiveOneSentenceAndChangeNothing) {
    writeAll(folder / "bad.json", "{\"optimizer\": {\"clip\": \"much\"}}");
    writeAll(folder / "empty.txt", "");
    writeAll(folder / "noise", std::string(1000, 'x'));
    std::string arguments = GetParam().arguments;
    for (size_t at; (at = arguments.find('@')) != std::string::npos;) arguments.replace(at, 1, folder.path() + "/");
    const Result result = run(arguments);
    EXPECT_EQ(result.code, GetParam().code) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.err.rfind("error: ", 0), 0u) << result.err;
    std::istringstream words(GetParam().words);
    for (std::string word; std::getline(words, word, '|');) EXPECT_THAT(result.err, HasSubstr(word));
    EXPECT_FALSE(std::filesystem::exists(folder / "s.mantissa")) << "no store is made";
    EXPECT_EQ(readAll(folder / "noise"), std::string(1000, 'x'));
    EXPECT_EQ(readAll(folder / "bad.json").size(), 31u);
}

INSTANTIATE_TEST_SUITE_P(
    Cli, Mistakes,
    testing::Values(Mistake{"", "usage|allowed: one of run, resume", 2},
                    Mistake{"frobnicate", "usage|allowed: one of run", 2},
                    Mistake{"run nanno", "spec: nanno|neither a preset nor a file|allowed: tiny, nano", 2},
                    Mistake{"run @bad.json", "optimizer.clip|\"much\" is not a number|allowed: number", 2},
                    Mistake{"check @bad.json", "bad.json|optimizer.clip|allowed", 2},
                    Mistake{"check @none.json", "none.json cannot be read|allowed", 2},
                    Mistake{"run nano --set train.step=3",
                            "train.step: unknown field|nearest is \"steps\"|allowed: steps, batch", 2},
                    Mistake{"run nano --set train.steps", "--set|there is no \"=\"|allowed: PATH=VALUE", 2},
                    Mistake{"run nano --set precision.recipe=fp7",
                            "precision.recipe|not one of the allowed words|allowed: delayed", 2},
                    Mistake{"inspect @bad.json", "bad.json|is not a safetensors file", 2},
                    Mistake{"inspect @none.safetensors", "none.safetensors", 2},
                    Mistake{"run tiny --set data.path=@empty.txt", "empty.txt", 2},
                    Mistake{"run tiny --set data.path=@none.txt", "none.txt|no such file", 2},
                    Mistake{"run nano --device gpu", "--device|\"gpu\"|allowed: auto, cpu, cuda", 2},
                    Mistake{"ladder nanno", "spec: nanno|neither a preset nor a file|allowed: tiny, nano", 2},
                    Mistake{"ladder tiny --out @missing/l.png", "--out|missing/l.png cannot be written|No such file",
                            2},
                    Mistake{"ladder tiny --out @l.gif", "--out|l.gif|allowed: .csv, .png, .svg", 2},
                    Mistake{"ladder tiny --set data.path=text:generated --width-sweep=32,40",
                            "width-sweep|40|allowed: multiples of 32", 2},
                    Mistake{"ladder tiny --set data.path=text:generated --width-sweep=wide",
                            "--width-sweep|wide|allowed: whole numbers", 2},
                    Mistake{"ladder tiny --set data.path=text:generated --rungs fp9",
                            "--rungs: \"fp9\" names no rung|allowed: fp32_unfused, fused_adamw", 2},
                    Mistake{"run nano --threads many", "run|--threads|allowed", 2},
                    Mistake{"show something", "s.mantissa|no such store", 3},
                    Mistake{"list --store @noise", "noise|not a run store|not written to", 3},
                    Mistake{"store check --store @noise", "noise|not a run store", 3},
                    Mistake{"run tiny --set data.path=text:generated --store @noise", "noise|not a run store", 3},
                    Mistake{"store compact", "s.mantissa|no such store", 3},
                    Mistake{"list --filter 'loss <'", "filter|is no value|allowed", 2},
                    Mistake{"presets nanno", "preset|nearest is \"nano\"|allowed", 2},
                    Mistake{"plan nano --set model.width=100", "model.heads|head width of 25|allowed", 2}));

TEST_F(Cli, LadderMeasuresAndIsReadAgain) {
    const std::string steps = "--set data.path=text:generated --warmup 1 --steps 3 --quiet --threads 2 ";
    const Result result = run("ladder tiny " + steps + "--json --out '" + (folder / "l.csv") + "'");
    ASSERT_EQ(result.code, 0) << result.err;
    const Json json = result.json();
    for (const char* key : {"ladder", "preset", "mode", "device", "device_name", "warmup", "steps", "tokens_per_step"})
        EXPECT_TRUE(json.contains(key)) << key;
    EXPECT_EQ(json["preset"], "tiny");
    ASSERT_EQ(json["rungs"].size(), 7u);
    for (const Json& rung : json["rungs"]) {
        EXPECT_EQ(rung["status"], "measured") << rung;
        for (const char* key : {"rung", "run", "step_ms", "step_ms_spread", "tokens_per_s", "plan_bytes", "brought"})
            EXPECT_TRUE(rung.contains(key)) << key;
        EXPECT_EQ(rung["phases"].size(), 5u);
        EXPECT_GT(rung["step_ms"].get<double>(), 0);
        EXPECT_EQ(rung["timed_steps"], 3);
        EXPECT_FALSE(rung.contains("mj_per_token")) << "absent on a device that measures no energy";
    }
    if (json["device"] == "cpu") {
        EXPECT_FALSE(json["rungs"][4]["native"]) << "FP8 is emulated there";
    }
    const std::string csv = readAll(folder / "l.csv");
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 8);
    const std::string id = json["ladder"];
    const Result again = run("ladder --show " + id + " --json --out '" + (folder / "l.png") + "'");
    EXPECT_EQ(again.out, result.out) << "the store holds all of it";
    EXPECT_EQ(readAll(folder / "l.png").substr(1, 3), "PNG");
    EXPECT_THAT(run("ladder --show " + id).out, HasSubstr("+ fused AdamW"));
    const Json list = run("ladder --list --json").json();
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0]["ladder"], id);

    const Json sweep = run("ladder tiny --width-sweep='64, 32' " + steps + "--json").json();
    EXPECT_EQ(sweep["mode"], "widths");
    ASSERT_EQ(sweep["crossover"]["points"].size(), 2u);
    EXPECT_EQ(sweep["crossover"]["points"][0]["width"], 32);
    EXPECT_FALSE(sweep["crossover"]["text"].get<std::string>().empty());
}

TEST_F(Cli, EveryCommandHasHelpWithAnExample) {
    for (const char* command :
         {"run", "resume", "fork", "list", "show", "delete", "tag", "note", "compare", "export", "presets", "check",
          "plan", "devices", "tensor", "store check", "store info", "store compact", "store salvage"}) {
        const Result result = run(std::string(command) + " --help");
        EXPECT_EQ(result.code, 0) << command;
        EXPECT_THAT(result.out, HasSubstr("Example: mantissa-run")) << command;
    }
    EXPECT_THAT(run("--version").out, HasSubstr("mantissa-run"));
}

TEST_F(Cli, RunShowListCompareExport) {
    const Result trained = train("--set train.steps=30 --json --quiet --name one --tag a --tag b");
    ASSERT_EQ(trained.code, 0) << trained.err;
    std::map<std::string, int> events;
    Json first, last, step;
    std::istringstream lines(trained.out);
    for (std::string line; std::getline(lines, line);) {
        const Json json = Json::parse(line);
        EXPECT_EQ(json.begin().key(), json.begin().key());
        ++events[json.at("event")];
        if (first.is_null()) first = json;
        if (json["event"] == "step") step = json;
        last = json;
    }
    EXPECT_EQ(events["step"], 30);
    EXPECT_EQ(events["eval"], 2);
    EXPECT_EQ(events["checkpoint"], 2);
    for (const char* key : {"run", "name", "device", "threads", "parameters", "plan"})
        EXPECT_TRUE(first.contains(key)) << key;
    for (const char* key : {"weights", "gradients", "moments", "activations", "workspace"})
        EXPECT_TRUE(first["plan"]["by"].contains(key)) << key;
    for (const char* key : {"step", "loss", "grad_norm", "lr", "tokens", "tokens_per_s", "step_ms"})
        EXPECT_TRUE(step.contains(key)) << key;
    for (const char* key : {"run", "status", "step", "loss", "val_loss", "seconds", "peak_bytes", "tokens_per_s"})
        EXPECT_TRUE(last.contains(key)) << key;
    EXPECT_EQ(last["event"], "end");
    EXPECT_EQ(last["status"], "finished");
    EXPECT_EQ(trained.out.find("{\"event\":"), 0u);

    const Json list = run("list --json").json();
    ASSERT_EQ(list.size(), 1u);
    for (const char* key : {"run", "name", "status", "step", "steps", "loss", "val_loss", "device", "started", "tags"})
        EXPECT_TRUE(list[0].contains(key)) << key;
    EXPECT_EQ(list[0]["tags"], Json({"a", "b"}));
    EXPECT_EQ(list[0]["loss"], last["loss"]);
    EXPECT_EQ(run("list --json --filter 'loss < 0.1'").json().size(), 0u);
    EXPECT_EQ(run("list --json --filter 'recipe = delayed and loss > 1 or name = none'").json().size(), 1u);

    const Json show = run("show one --json").json();
    for (const char* key : {"run", "name", "status", "spec", "device", "started", "steps", "summary", "events",
                            "checkpoints", "precision", "tensors"})
        EXPECT_TRUE(show.contains(key)) << key;
    EXPECT_EQ(show["precision"].size(), 27u) << "2 layers × 4 linears × 3 products + the head's 3";
    EXPECT_EQ(show["tensors"].size(), 27u);
    EXPECT_EQ(show["tensors"][0], "h.0/attn.qkv/input");
    EXPECT_EQ(show["tensors"][16], "lm_head/head/input");
    EXPECT_EQ(show["spec"]["train"]["steps"], 30);
    for (const char* key : {"last", "min", "max", "best", "last_finite"})
        EXPECT_TRUE(show["summary"]["loss"].contains(key)) << key;

    const Result csv = run("export one --metrics 'numerics/h.1/mlp.fc1/input/amax'");
    EXPECT_EQ(csv.out.rfind("step,value\n1,", 0), 0u);
    EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 31);
    EXPECT_EQ(run("export one --metrics loss --format json").json()["loss"]["values"][29], last["loss"]);
    EXPECT_EQ(run("export one --metrics nothing").code, 2);
    EXPECT_EQ(run("export one --metrics 'numerics/*/clipped' --format npy --out '" + (folder / "npy") + "'").code, 0);
    EXPECT_TRUE(std::filesystem::exists(folder / "npy/numerics.h.0.mlp.fc2.grad_output.clipped.npy"));

    const Result quiet = train("--set train.steps=30 --set precision.mode=bf16 --quiet --name two");
    ASSERT_EQ(quiet.code, 0);
    EXPECT_EQ(quiet.out + quiet.err, "");
    const Json compared = run("compare one two --baseline two --json").json();
    EXPECT_EQ(compared["runs"].size(), 2u);
    EXPECT_EQ(compared["config"][0]["path"], "precision.mode");
    EXPECT_TRUE(compared["runs"][0]["difference"].contains("val_loss"));
    EXPECT_TRUE(compared["runs"][0]["ratio"].contains("tokens_per_s"));

    EXPECT_EQ(run("note one 'a note'").code, 0);
    EXPECT_EQ(run("note one --json").json()["note"], "a note");
    EXPECT_EQ(run("tag one c --remove a --json").json()["tags"], Json({"b", "c"}));
    EXPECT_EQ(run("store check --json").json()["ok"], true);
    EXPECT_EQ(run("store info --json").json()["runs"], 2);
    EXPECT_EQ(run("delete one").code, 0);
    EXPECT_EQ(run("list --json").json().size(), 1u);
}

TEST_F(Cli, PlanPresetsDevicesCheck) {
    const Json plan = run("plan tiny --set data.path=text:generated --json").json();
    for (const char* key : {"bytes", "by", "seconds", "tokens_per_s", "basis"}) EXPECT_TRUE(plan.contains(key)) << key;
    uint64_t sum = 0;
    for (const auto& [name, bytes] : plan["by"].items()) sum += bytes.get<uint64_t>();
    EXPECT_EQ(plan["bytes"], sum);
    for (const auto& preset : run("presets --json").json())
        for (const char* key : {"name", "parameters", "summary"}) EXPECT_TRUE(preset.contains(key)) << key;
    const Json devices = run("devices --json").json();
    EXPECT_EQ(devices[0]["device"], "cpu");
    for (const char* key : {"name", "native", "emulated", "missing"}) EXPECT_TRUE(devices[0].contains(key)) << key;
    writeAll(folder / "good.json", run("presets tiny").out);
    EXPECT_EQ(run("check '" + (folder / "good.json") + "' --set x").code, 2);
    writeAll(folder / "wrong.json", "{\"train\": {\"stepps\": 1}, \"seed\": -1}");
    const Result check = run("check '" + (folder / "wrong.json") + "' --json");
    EXPECT_EQ(check.code, 2);
    EXPECT_EQ(check.json()["ok"], false);
    EXPECT_EQ(check.json()["errors"].size(), 2u);
    EXPECT_EQ(check.json()["errors"][0]["path"], "train.stepps");
    EXPECT_FALSE(check.json()["errors"][1]["allowed"].empty());
}

TEST_F(Cli, ADeviceThatIsNotThereIsRefused) {
    const Result result = run("run tiny --set data.path=text:generated --device cuda:7 --json --quiet");
    EXPECT_EQ(result.code, 4);
    EXPECT_THAT(result.err, HasSubstr("refused"));
    EXPECT_EQ(run("list --json").json()[0]["status"], "refused");
}

TEST_F(Cli, SeedsGiveOneRunEach) {
    ASSERT_EQ(train("--set train.steps=5 --seeds 1,2,3 --quiet").code, 0);
    const Json list = run("list --json --columns name,seed --sort -seed").json();
    ASSERT_EQ(list.size(), 3u);
    EXPECT_EQ(list[0]["seed"], 3);
    EXPECT_EQ(list[0]["name"], "tiny-fp8-delayed-s3");
}

/// Starts a long run in the background and waits until it has done `step` steps.
pid_t startAndWait(const std::string& store, const std::string& out, const std::vector<std::string>& more,
                   int64_t step) {
    const pid_t child = fork();
    if (child == 0) {
        FILE* file = std::freopen(out.c_str(), "w", stdout);
        if (file == nullptr || std::freopen("/dev/null", "w", stderr) == nullptr) _exit(99);
        std::vector<std::string> words = {
            MANTISSA_RUN,           "run",    "tiny",  "--store", store, "--set", "data.path=text:generated", "--set",
            "train.accumulation=2", "--name", "killed"};
        words.insert(words.end(), more.begin(), more.end());
        std::vector<char*> arguments;
        for (auto& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        execv(MANTISSA_RUN, arguments.data());
        _exit(98);
    }
    for (int i = 0; i < 3000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
        if (!std::filesystem::exists(store)) continue;
        RunStore reader(store, RunStore::Mode::ReadOnly);
        const auto runs = reader.runs();
        if (!runs.empty() && runs[0].step >= step) break;
    }
    return child;
}

/// C10 and P04: killed with -9, resumed in a new process on another thread count: the same losses, bit for bit.
TEST_F(Cli, KilledRunResumesBitIdentically) {
    const std::string common =
        "--set train.accumulation=2 --set train.steps=60 --set checkpoint.every=10 --set checkpoint.keep=0 --quiet ";
    ASSERT_EQ(train(common + "--name whole").code, 0);
    const pid_t child =
        startAndWait(folder / "k.mantissa", folder / "kout",
                     {"--set", "train.steps=60000", "--set", "checkpoint.every=10", "--set", "checkpoint.keep=0"}, 25);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    const std::string store = "--store '" + (folder / "k.mantissa") + "' ";
    EXPECT_EQ(run("list --json " + store).json()[0]["status"], "interrupted");
    EXPECT_EQ(run("store check " + store).code, 0);
    const Result resumed = run("resume killed --from 20 --threads 1 --set train.steps=60 --quiet " + store);
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    for (const char* metric : {"loss", "grad_norm", "val_loss", "'numerics/*/scale'", "'numerics/*/amax'"}) {
        const Result whole = run(std::string("export whole --metrics ") + metric),
                     other = run(std::string("export killed --metrics ") + metric + " " + store);
        EXPECT_EQ(whole.out, other.out) << metric;
    }
    EXPECT_THAT(run("show killed --json " + store).out, HasSubstr("Resumed from the checkpoint of step 20"));
}

/// A damaged checkpoint, or one of another class of machine, is refused in one sentence and the run stays as it was.
TEST_F(Cli, CheckpointsThatDoNotFitAreRefused) {
    ASSERT_EQ(train("--set train.steps=10 --quiet --name one").code, 0);
    const Json before = run("show one --json").json();
    const std::string state = before["checkpoints"][0]["path"].get<std::string>() + "/state.mantissa",
                      good = readAll(state);
    const Result other = run("resume one --set train.steps=20 --quiet");
    EXPECT_EQ(other.code, 0) << other.err;
    ASSERT_EQ(train("--set train.steps=10 --quiet --name two").code, 0);
    const std::string path =
        run("show two --json").json()["checkpoints"][0]["path"].get<std::string>() + "/state.mantissa";
    writeAll(path, readAll(path).substr(0, 100));
    const Json untouched = run("show two --json").json();
    const Result damaged = run("resume two --set train.steps=20 --quiet");
    EXPECT_EQ(damaged.code, 2);
    EXPECT_THAT(damaged.err, HasSubstr("state.mantissa"));
    EXPECT_EQ(run("show two --json").json(), untouched);
    writeAll(path, good);
    setenv("MANTISSA_ISA", "sse", 1);
    const Result sse = run("resume two --set train.steps=20 --quiet"),
                 allowed = run("resume two --set train.steps=20 --quiet --other-class");
    unsetenv("MANTISSA_ISA");
    EXPECT_EQ(sse.code, 2);
    EXPECT_THAT(sse.err, HasSubstr("--other-class"));
    EXPECT_EQ(allowed.code, 0) << allowed.err;
    EXPECT_EQ(run("show two --json").json()["not_bit_identical_from"], 10);
}

TEST_F(Cli, InterruptWritesACheckpointAndStops) {
    const pid_t child = startAndWait(folder / "s.mantissa", folder / "iout",
                                     {"--set", "train.steps=60000", "--set", "checkpoint.every=0", "--json"}, 5);
    kill(child, SIGINT);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 130);
    const Json show = run("show killed --json").json();
    EXPECT_EQ(show["status"], "stopped");
    ASSERT_EQ(show["checkpoints"].size(), 1u);
    EXPECT_EQ(show["checkpoints"][0]["step"], show["step"]);
}

/// C09: six layers, the first and the last in BF16.
TEST_F(Cli, PrecisionMapCountsWhatRan) {
    ASSERT_EQ(train("--set model.layers=6 --set train.steps=1 --set precision.first_layers_bf16=1 --set "
                    "precision.last_layers_bf16=1 --quiet --name map")
                  .code,
              0);
    const Json rows = run("show map --json").json()["precision"];
    ASSERT_EQ(rows.size(), 75u);
    int fp8 = 0, head = 0;
    for (const auto& row : rows) {
        fp8 += row["a"] == "e4m3" || row["a"] == "e5m2";
        head += row["layer"] == "lm_head" && row["a"] == "bf16";
    }
    EXPECT_EQ(fp8, 48);
    EXPECT_EQ(head, 3);
}

}  // namespace
}  // namespace mantissa::experiments
