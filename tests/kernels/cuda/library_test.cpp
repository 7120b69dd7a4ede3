// Libraries opened at run time: where they are looked for, and what is said of one that is absent or cannot be loaded.
// Needs no GPU.
#include "kernels/device/cuda/library.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace mantissa::kernels::cuda {
namespace {

class LibraryTest : public testing::Test {
  protected:
    void SetUp() override {
        folder_ = std::filesystem::temp_directory_path() / ("mantissa-library-" + std::to_string(getpid()));
        std::filesystem::create_directories(folder_);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    std::string file(const std::string& name, const std::string& content) {
        std::ofstream(folder_ / name) << content;
        return (folder_ / name).string();
    }
    std::filesystem::path folder_;
};

TEST_F(LibraryTest, OneThatIsThereAndCannotBeLoadedIsNamed) {
    std::string error = "of an earlier call";
    EXPECT_FALSE(Library::open({"libmantissa_absent.so.7"}, error));
    EXPECT_TRUE(isAbsence(error)) << error;
    for (const char* content : {"", "no library\n"}) {
        const std::string broken = file("libbroken.so.1", content);
        EXPECT_FALSE(Library::open({"libmantissa_absent.so.7", broken, "libmantissa_absent.so.8"}, error));
        EXPECT_FALSE(isAbsence(error)) << error;
        EXPECT_NE(error.find(broken), std::string::npos) << error;
    }
    EXPECT_TRUE(Library::open({(folder_ / "libbroken.so.1").string(), "libc.so.6"}, error));
}

TEST_F(LibraryTest, WheelsOfAVirtualEnvironmentAreLookedThrough) {
    std::filesystem::create_directories(folder_ / "lib" / "python3.12" / "site-packages");
    setenv("VIRTUAL_ENV", folder_.c_str(), 1);
    const auto found = cudaLibraryCandidates({"libcudnn.so.9"});
    unsetenv("VIRTUAL_ENV");
    for (const char* wheel : {"cu13", "cublas", "cudnn"}) {
        const std::string path =
            (folder_ / "lib/python3.12/site-packages/nvidia" / wheel / "lib/libcudnn.so.9").string();
        EXPECT_NE(std::find(found.begin(), found.end(), path), found.end()) << path;
    }
}

}  // namespace
}  // namespace mantissa::kernels::cuda
