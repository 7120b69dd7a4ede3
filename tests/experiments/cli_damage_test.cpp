// What mantissa-run says of stores with holes and of files with strange names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
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
using testing::Not;

class Damage : public testing::Test {
  protected:
    Result shell(const std::string& command) { return test::shellIn(folder, command); }
    void train(const std::string& preset) {
        ASSERT_EQ(shell("$M run " + preset +
                        " --quiet --set data.path=text:generated --set train.steps=12 --set checkpoint.every=0 --name "
                        "one")
                      .code,
                  0);
    }
    void change(const std::string& sql) {
        Database database(folder / "s.mantissa", Database::Access::ReadWrite, false);
        database.exec(sql);
        database.checkpoint(0, true);
    }
    TempFolder folder;
};

/// Steps that cannot be read are not passed over in silence: what can be read is printed, the exit code is that of a
/// store that cannot be used.
TEST_F(Damage, UnreadableStepsAreCounted) {
    train("tiny");
    change("UPDATE step_blob SET data = x'00ff' WHERE step > 5");
    const std::string said = "7 records of run one cannot be read and are left out";
    for (const char* command : {"export one", "export one --json", "diagnose one", "diagnose one --json",
                                "export one --out f.csv", "export one --format npy --out f"}) {
        const Result result = shell(std::string("$M ") + command);
        EXPECT_EQ(result.code, 3) << command;
        EXPECT_THAT(result.err, HasSubstr(said)) << command;
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
        if (std::string(command).find("json") != std::string::npos) {
            EXPECT_TRUE(Json::accept(result.out)) << command;
        }
    }
    EXPECT_THAT(readAll(folder / "f.csv"), HasSubstr("\nloss,5,"));
    EXPECT_THAT(readAll(folder / "f.csv"), Not(HasSubstr("\nloss,6,")));
    EXPECT_EQ(shell("$M export one --metrics val_loss").code, 0) << "nothing of it is missing";
    EXPECT_EQ(shell("$M store check").code, 3);
}

/// What list or export refuse, store check reports.
TEST_F(Damage, StoreCheckReadsAsTheOtherCommandsDo) {
    train("tiny");
    EXPECT_EQ(shell("$M store check").code, 0);
    std::filesystem::copy_file(folder / "s.mantissa", folder / "good.mantissa");
    change("UPDATE document SET spec = 'no JSON'");
    EXPECT_NE(shell("$M plan-of one").code, 0);
    Result result = shell("$M store check");
    EXPECT_EQ(result.code, 3);
    EXPECT_THAT(result.err, HasSubstr("one"));
    std::filesystem::copy_file(folder / "good.mantissa", folder / "s.mantissa",
                               std::filesystem::copy_options::overwrite_existing);
    change("ALTER TABLE run DROP COLUMN note");
    EXPECT_EQ(shell("$M list").code, 3);
    result = shell("$M store check");
    EXPECT_EQ(result.code, 3);
    EXPECT_THAT(result.err, HasSubstr("note"));
}

/// A series without a point is in no format, and one line says so; asked for alone it is an error as a wrong name is.
TEST_F(Damage, SeriesWithoutAPointAreInNoFormat) {
    train("tiny-bf16");
    const Result csv = shell("$M export one"), json = shell("$M export one --json");
    ASSERT_EQ(csv.code, 0);
    ASSERT_EQ(json.code, 0);
    for (const Result& result : {csv, json})
        EXPECT_THAT(result.err, HasSubstr("series have no point and are left out"));
    ASSERT_EQ(shell("$M export one --format npy --out f").code, 0);
    size_t series = 0;
    const Json all = json.json();
    for (const auto& [name, value] : all.items()) {
        ++series;
        EXPECT_FALSE(value["steps"].empty()) << name;
        EXPECT_THAT(csv.out, HasSubstr("\n" + name + ","));
        std::string file = name;
        std::replace(file.begin(), file.end(), '/', '.');
        EXPECT_TRUE(std::filesystem::exists(folder / ("f/" + file + ".npy"))) << name;
    }
    EXPECT_GT(series, 5u);
    for (const char* more : {"", " --json", " --out g.csv", " --format npy --out g"}) {
        const Result none = shell(std::string("$M export one --metrics 'numerics/*/amax'") + more);
        EXPECT_EQ(none.code, 2) << more;
        EXPECT_EQ(none.out, "");
        EXPECT_THAT(none.err, HasSubstr("has a point")) << more;
    }
    EXPECT_FALSE(std::filesystem::exists(folder / "g.csv"));
}

/// Escape sequences and line ends of a foreign file do not reach the terminal; JSON has the names as they are.
TEST_F(Damage, NamesOfForeignFilesAreShownPlain) {
    const std::string header = R"({"__metadata__":{"a\u001bb":"\u001b[2J\n"},)"
                               R"("evil\u001b]0;title\u0007":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                               R"("empty":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},)"
                               R"("nan":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
    const uint64_t length = header.size();
    std::string bytes(sizeof length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    const float values[] = {2, NAN};
    writeAll(folder / "x.safetensors",
             bytes + header + std::string(reinterpret_cast<const char*>(values), sizeof values));
    for (const char* command :
         {"$M inspect x.safetensors", "$M inspect x.safetensors \"$(printf 'evil\\033]0;title\\007')\"",
          "cp x.safetensors \"$(printf 'b\\nc')\"; $M inspect \"$(printf 'b\\nc')\""}) {
        const Result result = shell(command);
        EXPECT_EQ(result.code, 0) << result.err;
        EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
        EXPECT_THAT(result.out, Not(HasSubstr("\x07")));
        EXPECT_THAT(result.out, HasSubstr("evil?]0;title?"));
    }
    EXPECT_THAT(shell("$M inspect \"$(printf 'b\\nc')\"").out, HasSubstr("b?c, "));
    EXPECT_EQ(shell("$M inspect x.safetensors --json").json()["tensors"].size(), 3u);
    EXPECT_THAT(shell("$M inspect x.safetensors --json").out, HasSubstr("evil\\u001b]0;title\\u0007"));
    const std::string scalar = shell("$M inspect x.safetensors \"$(printf 'evil\\033]0;title\\007')\"").out;
    EXPECT_THAT(scalar, HasSubstr("exact")) << "2 is a number of every format";
    EXPECT_THAT(scalar, Not(HasSubstr("Infinity")));
    EXPECT_THAT(shell("$M inspect x.safetensors empty").out, Not(HasSubstr("NaN … NaN")));
    EXPECT_THAT(shell("$M inspect x.safetensors nan").out, HasSubstr("no finite value"));
    EXPECT_THAT(shell("$M tensor --values 1 --format e4m3 --recipe fixed").out, HasSubstr("exact"));
}

}  // namespace
}  // namespace mantissa::experiments
