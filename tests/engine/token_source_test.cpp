// Corpora: what is read, how it is split, which windows come, and the sentence for every file that cannot be used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>

#include "engine/data/corpus_files.h"
#include "engine/data/token_files.h"
#include "engine/data/token_source.h"
#include "engine/data/tokenizer.h"
#include "engine/data/window_order.h"
#include "kernels/error.h"

namespace mantissa::engine {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TokenSourceTest : public testing::Test {
  protected:
    void SetUp() override {
        folder_ = fs::temp_directory_path() / ("mantissa_data_" + std::to_string(::getpid()));
        fs::create_directories(folder_);
    }
    void TearDown() override { fs::remove_all(folder_); }
    std::string write(const std::string& name, const std::string& content) {
        fs::create_directories((folder_ / name).parent_path());
        std::ofstream(folder_ / name, std::ios::binary) << content;
        return (folder_ / name).string();
    }
    std::string path(const std::string& name) const { return (folder_ / name).string(); }
    fs::path folder_;
};

std::string gzip(const std::string& text) {
    z_stream stream = {};
    deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    std::string packed(text.size() + 1000, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    deflate(&stream, Z_FINISH);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    return packed;
}

/// Text whose characters tell their position: base 64 digits of the position, four by four.
std::string markedText(size_t length) {
    std::string text;
    for (size_t i = 0; text.size() < length; ++i)
        for (int shift : {18, 12, 6, 0}) text += static_cast<char>(' ' + ((i >> shift) & 63));
    text.resize(length);
    return text;
}

std::string sentence(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return "nothing was thrown";
}

DataConfig config(const std::string& path, const std::string& tokenizer = "auto", int vocabulary = 96) {
    DataConfig result;
    result.path = path;
    result.tokenizer = tokenizer;
    result.vocabulary = vocabulary;
    return result;
}

std::string openSentence(const DataConfig& data, int context = 8) {
    return sentence([&] { TokenSource::open(data, context, 1); });
}

std::string text96(const std::vector<int32_t>& tokens) {
    std::string text;
    for (int32_t token : tokens) text += chars96Text(token);
    return text;
}

TEST_F(TokenSourceTest, ValidationIsTheTailAndSharesNoByteWithTraining) {
    const std::string text = markedText(20000);
    const auto file = write("a.txt", text);
    for (int context : {1, 7, 8, 64}) {
        const auto source = TokenSource::open(config(file), context, 3);
        EXPECT_EQ(source->trainTokens() + source->validationTokens(), 20000);
        EXPECT_GE(source->validationWindows(), 64);
        std::vector<int32_t> window(context + 1);
        std::set<size_t> trainingBytes;
        for (int64_t i = 0; i < 3 * source->trainWindows(); ++i) {
            source->trainWindow(i, window.data());
            const std::string piece = text96(window);
            if (context < 8) {
                ASSERT_NE(text.find(piece), std::string::npos);
                continue;  // too short to know its place
            }
            const size_t at = text.find(piece);
            ASSERT_LT(at + piece.size(), static_cast<size_t>(source->trainTokens()) + 1);
            trainingBytes.insert(at);
        }
        for (int64_t i = 0; i < source->validationWindows(); ++i) {
            source->validationWindow(i, window.data());
            EXPECT_EQ(text96(window),
                      text.substr(static_cast<size_t>(source->trainTokens() + i * context), context + 1));
        }
        EXPECT_TRUE(context < 8 || trainingBytes.size() > static_cast<size_t>(source->trainWindows()));
    }
}

TEST_F(TokenSourceTest, AnEpochVisitsEveryWindowOnceAndEpochsDiffer) {
    for (int64_t count : {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097}) {
        for (uint64_t epoch : {0, 1}) {
            std::set<int64_t> seen;
            for (int64_t i = 0; i < count; ++i) {
                const int64_t image = permutedWindow(i, count, 42, epoch);
                ASSERT_GE(image, 0);
                ASSERT_LT(image, count);
                seen.insert(image);
            }
            EXPECT_EQ(static_cast<int64_t>(seen.size()), count);
        }
    }
    int fixed = 0, same = 0;
    for (int64_t i = 0; i < 1000; ++i) {
        fixed += permutedWindow(i, 1000, 42, 0) == i;
        same += permutedWindow(i, 1000, 42, 0) == permutedWindow(i, 1000, 42, 1);
    }
    EXPECT_LT(fixed, 10);
    EXPECT_LT(same, 10);
    std::set<int64_t> offsets;
    for (uint64_t epoch = 0; epoch < 50; ++epoch) offsets.insert(epochOffset(64, 42, epoch));
    EXPECT_GT(offsets.size(), 20u);
    EXPECT_LT(*offsets.rbegin(), 64);
}

TEST_F(TokenSourceTest, WindowsDependOnSeedCorpusAndIndexAlone) {
    const auto file = write("a.txt", markedText(20000));
    const auto a = TokenSource::open(config(file), 32, 5), b = TokenSource::open(config(file), 32, 5);
    const auto other = TokenSource::open(config(file), 32, 6);
    std::vector<int32_t> x(33), y(33);
    int differ = 0;
    for (int64_t i : {0, 1, 17, 599, 600, 5000}) {
        a->trainWindow(i, x.data());
        b->trainWindow(i + 1, y.data());
        b->trainWindow(i, y.data());
        EXPECT_EQ(x, y);
        other->trainWindow(i, y.data());
        differ += x != y;
    }
    EXPECT_GE(differ, 5);
}

TEST_F(TokenSourceTest, Chars96) {
    TextCount count;
    const std::string text =
        "\xEF\xBB\xBF"
        "A\tb\r\n~\xC3\xA9\xE2\x82\xAC\x01z";
    std::vector<uint8_t> tokens(text.begin(), text.end());
    tokenizeChars96(tokens, "x", count);
    EXPECT_EQ(text96({tokens.begin(), tokens.end()}), "A b\n~???z");
    EXPECT_EQ(count.replaced, 3);
    EXPECT_EQ(*std::max_element(tokens.begin(), tokens.end()), 95);
    const std::string latin = "caf\xE9 na\xEFve";  // no valid UTF-8: each byte is a character
    tokens.assign(latin.begin(), latin.end());
    count = {};
    tokenizeChars96(tokens, "x", count);
    EXPECT_EQ(text96({tokens.begin(), tokens.end()}), "caf? na?ve");
    EXPECT_EQ(count.replaced, 2);
}

TEST_F(TokenSourceTest, Utf8IsCheckedStrictly) {
    auto length = [](const std::string& s) {
        return utf8Length(reinterpret_cast<const uint8_t*>(s.data()), s.size(), 0);
    };
    EXPECT_EQ(length("a"), 1);
    EXPECT_EQ(length("\xC3\xA9"), 2);
    EXPECT_EQ(length("\xE2\x82\xAC"), 3);
    EXPECT_EQ(length("\xF0\x9F\x98\x80"), 4);
    for (const char* bad : {"\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80",
                            "\xF5\x80\x80\x80", "\x80", "\xFF", "\xE2\x82", "\xE2\x28\xA1"})
        EXPECT_EQ(length(bad), 0);
}

TEST_F(TokenSourceTest, TheSameTextInEveryPackaging) {
    const std::string text = "In the beginning\nGod created the heaven and the earth.\n";
    std::string plain, crlf;
    for (int i = 0; i < 40; ++i) plain += text;
    for (char c : plain) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
    const auto expected = TokenSource::open(config(write("p.txt", plain)), 8, 1);
    const size_t half = plain.size() / 2;
    const std::vector<std::string> paths = {
        write("c.txt", crlf),
        write("g.txt.gz", gzip(plain)),
        write("m.gz", gzip(plain.substr(0, half)) + gzip(plain.substr(half))),
        (write("d/1.txt", plain.substr(0, half)), write("d/sub/2.txt", plain.substr(half)), write("d/.hidden", "x"),
         path("d")),
        (write("e/a1.txt", plain.substr(0, half)), write("e/a2.txt", plain.substr(half)), write("e/b.txt", "x"),
         path("e/a*.txt")),
        (write("f/1.txt", plain), write("f/2.png", std::string("\x89PNG\0\0\0", 7)), path("f"))};
    for (const auto& where : paths) {
        const auto source = TokenSource::open(config(where), 8, 1);
        ASSERT_EQ(source->trainTokens(), expected->trainTokens()) << where;
        std::vector<int32_t> x(9), y(9);
        for (int64_t i = 0; i < 100; ++i) {
            source->trainWindow(i, x.data());
            expected->trainWindow(i, y.data());
            ASSERT_EQ(x, y) << where;
        }
    }
    EXPECT_THAT(TokenSource::open(config(path("f")), 8, 1)->description(), HasSubstr("1 skipped"));
}

TEST_F(TokenSourceTest, BytesTokenizer) {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += static_cast<char>(i * 7);
    const auto source = TokenSource::open(config(write("b.dat", text), "bytes", 256), 8, 1);
    EXPECT_EQ(source->vocabulary(), 256);
    std::vector<int32_t> window(9);
    source->validationWindow(0, window.data());
    for (int i = 0; i < 9; ++i)
        EXPECT_EQ(window[i], static_cast<uint8_t>(text[static_cast<size_t>(source->trainTokens()) + i]));
    EXPECT_EQ(source->bytesInMemory(), 3000u);
}

std::string tokenBytes(const std::vector<uint16_t>& tokens) {
    return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2};
}

std::string llmc(const std::vector<uint16_t>& tokens, int32_t version = 1, int32_t count = -1) {
    int32_t header[256] = {20240520, version, count < 0 ? static_cast<int32_t>(tokens.size()) : count};
    return std::string(reinterpret_cast<const char*>(header), sizeof header) + tokenBytes(tokens);
}

TEST_F(TokenSourceTest, TokenFiles) {
    std::vector<uint16_t> tokens(3000);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i * 17 % 50257);
    for (const auto& file : {write("a.bin", llmc(tokens)), write("b.u16", tokenBytes(tokens)),
                             write("c.bin", tokenBytes(tokens)), write("d.bin.gz", gzip(llmc(tokens)))}) {
        const auto source = TokenSource::open(config(file, "auto", 50257), 8, 1);
        EXPECT_EQ(source->trainTokens() + source->validationTokens(), 3000) << file;
        std::vector<int32_t> window(9);
        source->validationWindow(3, window.data());
        for (int i = 0; i < 9; ++i) EXPECT_EQ(window[i], tokens[static_cast<size_t>(source->trainTokens()) + 24 + i]);
    }
    EXPECT_EQ(TokenSource::open(config(path("b.u16"), "auto", 65536), 8, 1)->bytesInMemory(), 6000u);
    write("shards/x_0.bin", llmc({tokens.begin(), tokens.begin() + 1000}));
    write("shards/x_1.bin", llmc({tokens.begin() + 1000, tokens.end()}));
    const auto shards = TokenSource::open(config(path("shards/x_*.bin"), "auto", 50257), 8, 1);
    const auto whole = TokenSource::open(config(path("a.bin"), "auto", 50257), 8, 1);
    std::vector<int32_t> x(9), y(9);
    for (int64_t i = 0; i < 300; ++i) {
        shards->trainWindow(i, x.data());
        whole->trainWindow(i, y.data());
        EXPECT_EQ(x, y);
    }
}

TEST_F(TokenSourceTest, EveryBadInputHasOneSentence) {
    EXPECT_THAT(openSentence(config(path("none.txt"))), HasSubstr("none.txt: no such file"));
    EXPECT_THAT(openSentence(config(path("*.txt"))), HasSubstr("no such file"));
    EXPECT_THAT(openSentence(config("")), HasSubstr("allowed: text:kjv"));
    EXPECT_THAT(openSentence(config("text:nothing")),
                HasSubstr("text:nothing: no such built-in text; allowed: text:kjv"));
    EXPECT_THAT(openSentence(config("/dev/null")), HasSubstr("not a regular file"));
    EXPECT_THAT(openSentence(config(write("empty.txt", ""))), HasSubstr("empty.txt: the file is empty"));
    EXPECT_THAT(openSentence(config(write("one.txt", "a"))), HasSubstr("1 tokens are too few"));
    EXPECT_THAT(openSentence(config(write("nul.txt", std::string("abc\0def", 7)))),
                HasSubstr("not text: NUL byte at offset 3"));
    EXPECT_THAT(openSentence(config(write("utf16.txt", std::string("\xFF\xFE"
                                                                   "a\0",
                                                                   4)))),
                HasSubstr("is UTF-16 text"));
    const std::string zeros(3, '\0');
    EXPECT_THAT(openSentence(config(write("utf32le.txt", "\xFF\xFE" + std::string(2, '\0') + "a" + zeros))),
                HasSubstr("utf32le.txt: is UTF-32 text; allowed: UTF-8, Latin-1"));
    EXPECT_THAT(openSentence(config(write("utf32be.txt", std::string(2, '\0') + "\xFE\xFF" + zeros + "a"))),
                HasSubstr("utf32be.txt: is UTF-32 text"));
    EXPECT_THAT(openSentence(config(write("chinese.txt", "\xE4\xBD\xA0\xE5\xA5\xBD"))), HasSubstr("2 of 2 characters"));
    const std::string packed = gzip(markedText(5000));
    EXPECT_THAT(openSentence(config(write("torn.gz", packed.substr(0, packed.size() / 2)))),
                HasSubstr("torn.gz: the gzip data ends too early"));
    EXPECT_THAT(openSentence(config(write("head.gz", packed.substr(0, 5)))), HasSubstr("ends too early"));
    std::string damaged = packed;
    damaged[packed.size() / 2] = static_cast<char>(damaged[packed.size() / 2] ^ 0x55);
    EXPECT_THAT(openSentence(config(write("damaged.gz", damaged))), HasSubstr("gzip data"));
    fs::create_directories(path("nothing"));
    EXPECT_THAT(openSentence(config(path("nothing"))), HasSubstr("holds no files"));
    write("pictures/a.png", std::string("\0\0", 2));
    write("pictures/b.png", std::string("\0\0", 2));
    EXPECT_THAT(openSentence(config(path("pictures"))), HasSubstr("no file of it is text"));
    std::vector<uint16_t> tokens(3000, 5);
    EXPECT_THAT(openSentence(config(write("v2.bin", llmc(tokens, 2)), "auto", 50257)), HasSubstr("version 2"));
    EXPECT_THAT(openSentence(config(write("short.bin", llmc(tokens, 1, 4000)), "auto", 50257)),
                HasSubstr("promises 4000 tokens"));
    EXPECT_THAT(openSentence(config(write("head.bin", llmc(tokens).substr(0, 100)), "auto", 50257)),
                HasSubstr("1024 bytes"));
    EXPECT_THAT(openSentence(config(write("odd.u16", "abc"), "auto", 50257)), HasSubstr("no whole number"));
    tokens[77] = 50257;
    EXPECT_THAT(openSentence(config(write("high.bin", llmc(tokens)), "auto", 50257)),
                HasSubstr("token 50257 at position 77 is not below model.vocabulary 50257"));
    const auto good = write("good.txt", markedText(5000));
    EXPECT_THAT(openSentence(config(good, "auto", 64)),
                HasSubstr("model.vocabulary: 64 is too small for tokenizer chars96"));
    EXPECT_THAT(openSentence(config(good, "bytes", 96)), HasSubstr("allowed: 256"));
    EXPECT_THAT(openSentence(config(good, "words")),
                HasSubstr("data.tokenizer: \"words\" is unknown; allowed: auto, chars96, bytes, tokens"));
    EXPECT_THAT(openSentence(config(good), 100), HasSubstr("5000 tokens are too few"));
    DataConfig fraction = config(good);
    for (double bad : {0.0, 1.0, -1.0, std::nan("")}) {
        fraction.validationFraction = bad;
        EXPECT_THAT(openSentence(fraction), HasSubstr("data.validation_fraction"));
    }
    if (::geteuid() != 0) {
        fs::permissions(good, fs::perms::none);
        EXPECT_THAT(openSentence(config(good)), HasSubstr("cannot be opened"));
    }
}

TEST_F(TokenSourceTest, AHugeLineIsText) {
    const auto source = TokenSource::open(config(write("line.txt", std::string(3000000, 'x'))), 128, 1);
    EXPECT_EQ(source->trainTokens() + source->validationTokens(), 3000000);
    EXPECT_THAT(source->description(), HasSubstr("3.00 M characters"));
}

TEST_F(TokenSourceTest, KjvIsFoundInTheDataFolder) {
    const char* before = std::getenv("XDG_DATA_HOME");
    const std::string saved = before ? before : "";
    ::setenv("XDG_DATA_HOME", folder_.c_str(), 1);
    write("mantissa/text/kjv.txt", markedText(9000));
    EXPECT_EQ(kjvFile(), path("mantissa/text/kjv.txt"));
    EXPECT_EQ(TokenSource::open(config("text:kjv"), 16, 1)->description(),
              "KJV Bible, 9000 characters, 96 printable characters");
    fs::remove(path("mantissa/text/kjv.txt"));
    if (!fs::exists("/usr/share/mantissa/kjv.txt")) {
        if (fs::exists("/usr/bin/bible")) {
            const auto source = TokenSource::open(config("text:kjv"), 128, 1);
            EXPECT_EQ(source->description(), "KJV Bible, 4.30 M characters, 96 printable characters");
            EXPECT_EQ(source->replacedCharacters(), 0);
            EXPECT_EQ(fs::file_size(path("mantissa/text/kjv.txt")), 4298239u);
            EXPECT_EQ(std::distance(fs::directory_iterator(path("mantissa/text")), fs::directory_iterator()), 1)
                << "a part is left";
        } else {
            EXPECT_THAT(openSentence(config("text:kjv")), HasSubstr("package bible-kjv"));
        }
    }
    if (before)
        ::setenv("XDG_DATA_HOME", saved.c_str(), 1);
    else
        ::unsetenv("XDG_DATA_HOME");
}

/// A file that unpacks without end is refused long before it fills the memory; text that merely packs well is read.
/// A wrong folder ("/") ends with a sentence after its files were counted, before any was read.
TEST_F(TokenSourceTest, AFolderOfMoreThanMemoryHoldsIsRefusedUnread) {
    for (const char* name : {"many/a.txt", "many/b.txt", "many/c.txt"}) {
        write(name, "x");
        fs::resize_file(path(name), uintmax_t{3} << 30);  // sparse: takes no room
    }
    EXPECT_THAT(openSentence(config(path("many"))), HasSubstr("many: the folder holds more than"));
    EXPECT_THAT(openSentence(config(path("many"))), HasSubstr("allowed: "));
}

TEST_F(TokenSourceTest, AGzipBombIsRefusedBeforeItFillsTheMemory) {
    const std::string zeros = gzip(std::string(uint64_t{80} << 20, ' '));
    std::string bomb;
    for (int member = 0; member < 3; ++member) bomb += zeros;  // 240 MiB from 0.2
    EXPECT_THAT(
        openSentence(config(write("bomb.gz", bomb))),
        HasSubstr("bomb.gz: its 0.2 MiB unpack to more than 64.0 MiB, over 200 to 1, which is no text; allowed: "
                  "gzip of at most 200 to 1"));
    const std::string repeated = write("well.gz", gzip(std::string(uint64_t{60} << 20, ' ')));
    EXPECT_EQ(readCorpusFile(repeated).size(), uint64_t{60} << 20) << "900 to 1, but small";
    EXPECT_THAT(sentence([&] { readCorpusFile(repeated, 1 << 20); }),
                HasSubstr("well.gz: unpacks to more than the 1.0 MiB of memory that a text may take here"));
    const std::string plain = write("plain.txt", markedText(3 << 20));
    EXPECT_EQ(readCorpusFile(plain, 3 << 20).size(), size_t{3} << 20);
    EXPECT_THAT(sentence([&] { readCorpusFile(plain, (3 << 20) - 1); }), HasSubstr("holds more than the 3.0 MiB"));
}

/// Random, mutated and cut files: each gives a source or one sentence, never a crash.
TEST_F(TokenSourceTest, RandomBytesGiveASourceOrASentence) {
    std::mt19937 random(std::getenv("MANTISSA_FUZZ_SEED") ? std::stoul(std::getenv("MANTISSA_FUZZ_SEED")) : 1);
    const int rounds = std::getenv("MANTISSA_FUZZ_ROUNDS") ? std::stoi(std::getenv("MANTISSA_FUZZ_ROUNDS")) : 300;
    const std::vector<std::string> seeds = {gzip(markedText(3000)), llmc(std::vector<uint16_t>(1500, 9)),
                                            markedText(2000), "caf\xC3\xA9\r\n\t" + markedText(1000)};
    const std::pair<const char*, int> kinds[] = {{"auto", 96}, {"chars96", 96}, {"bytes", 256}, {"tokens", 50257}};
    int opened = 0, refused = 0;
    for (int round = 0; round < rounds; ++round) {
        std::string content;
        if (random() % 3 == 0) {
            content.resize(random() % 4000);
            for (char& c : content) c = static_cast<char>(random());
        } else {
            content = seeds[random() % seeds.size()];
            if (random() % 2) content.resize(random() % content.size());
            for (int changes = static_cast<int>(random() % 5); changes > 0 && !content.empty(); --changes)
                content[random() % std::min<size_t>(content.size(), random() % 2 ? 16 : content.size())] =
                    static_cast<char>(random());
        }
        const auto [tokenizer, vocabulary] = kinds[random() % 4];
        const char* names[] = {"fuzz.txt", "fuzz.bin", "fuzz.u16", "fuzz.gz"};
        const DataConfig data = config(write(names[random() % 4], content), tokenizer, vocabulary);
        try {
            const auto source = TokenSource::open(data, 4, round);
            std::vector<int32_t> window(5);
            for (int64_t i : {int64_t{0}, source->trainWindows(), int64_t{1} << 40}) {
                source->trainWindow(i, window.data());
                source->validationWindow(i, window.data());
                for (int32_t token : window) ASSERT_TRUE(token >= 0 && token < source->vocabulary());
            }
            ++opened;
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error.what()).find("data."), 0u) << error.what();
            ++refused;
        }
    }
    EXPECT_GT(opened, rounds / 20);
    EXPECT_GT(refused, rounds / 20);
}

}  // namespace
}  // namespace mantissa::engine
