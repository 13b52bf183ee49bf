// SPDX-License-Identifier: Apache-2.0
// Method: lines with known meanings, every refusal, then a file that changes.
#include "server/control/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/scratch_directory.h"

namespace tributary::control {
namespace {

using std::chrono::sys_days;
using std::chrono::year;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kA = "aaaaaaaaaaaaaaaa";
const std::string kB = "bbbbbbbbbbbbbbbb";

TEST(ParseTokens, LinesHaveARightAndALastDay) {
  const auto tokens = parse_tokens("# people\n\n" + kA + "\r\n  " + kB +
                                   "\twrite  2028-02-29 \n"
                                   "cccccccccccccccc read 2027-01-31T23:59:58Z\n"
                                   "dddddddddddddddd 2027-12-31");
  ASSERT_TRUE(tokens.has_value()) << tokens.error().text;
  ASSERT_EQ(tokens->size(), 4U);
  EXPECT_FALSE((*tokens)[0].may_write);
  EXPECT_EQ((*tokens)[0].ends_at, std::nullopt);
  EXPECT_TRUE((*tokens)[1].may_write);
  EXPECT_EQ((*tokens)[1].ends_at, sys_days(year(2028) / 3 / 1));  // The end of the last day.
  EXPECT_FALSE((*tokens)[2].may_write);
  EXPECT_EQ((*tokens)[2].ends_at, sys_days(year(2027) / 2 / 1) - std::chrono::seconds(2));
  EXPECT_EQ((*tokens)[3].ends_at, sys_days(year(2028) / 1 / 1));
  EXPECT_EQ(find_token(*tokens, kB), &(*tokens)[1]);
  EXPECT_EQ(find_token(*tokens, kB + "b"), nullptr);
  EXPECT_EQ(find_token(*tokens, ""), nullptr);
}

TEST(ParseTokens, RefusalsNameTheLineButNoToken) {
  const auto refusal = [](const std::string& text) {
    const auto tokens = parse_tokens(text);
    EXPECT_FALSE(tokens.has_value()) << text;
    const std::string error = tokens ? std::string() : tokens.error().text;
    EXPECT_THAT(error, Not(HasSubstr(kA))) << text;
    return error;
  };
  EXPECT_THAT(refusal(""), HasSubstr("no token"));
  EXPECT_THAT(refusal("# only a comment\n"), HasSubstr("no token"));
  EXPECT_THAT(refusal(kA + "\nshort\n"), HasSubstr("line 2: the token is not allowed"));
  for (const char* words : {" admin", " WRITE", " write 2027-02-29", " write 2027-1-31",
                            " 31.01.2027", " 2027-01-31T12:00Z", " 2027-01-31T24:00:00Z",
                            " 2027-01-31T12:00:00", " 2027-01-31 write", " 2027-01-31x"}) {
    EXPECT_THAT(refusal(kA + words), HasSubstr("line 1: ")) << words;
  }
  EXPECT_THAT(refusal(kA + " read 2027-01-31 x"), HasSubstr("too many words"));
  EXPECT_THAT(refusal(kA + "\n\n" + kA + " write"),
              HasSubstr("line 3: an earlier line has the same token"));
  std::string many;
  for (uint32_t i = 0; i <= kTokensMax; i++)
    many += std::to_string(10'000'000'000'000'000 + i) + "\n";
  EXPECT_THAT(refusal(many), HasSubstr("at most 64 tokens"));
}

class TokenFileTest : public ::testing::Test {
 protected:
  void write(const std::string& text) {
    // A new file, as editors and rename() make: the time of a file has a granularity.
    const std::filesystem::path next = path_ + ".next";
    std::ofstream(next) << text;
    std::filesystem::permissions(next, std::filesystem::perms::owner_read);
    std::filesystem::rename(next, path_);
  }
  Result<std::unique_ptr<TokenFile>> open() {
    return TokenFile::open("--http-token-file", path_, [this](const std::optional<Error>& error) {
      reads_++;
      error_ = error ? error->text : "";
    });
  }

  const testing::ScratchDirectory folder_;
  const std::string path_ = folder_.file("tokens", "");
  uint32_t reads_ = 0;
  std::string error_;
};

TEST_F(TokenFileTest, IsReadAgainWhenItChanges) {
  write(kA);
  const auto file = open();
  ASSERT_TRUE(file.has_value()) << file.error().text;
  EXPECT_NE(find_token(*(*file)->tokens(), kA), nullptr);
  EXPECT_EQ(reads_, 0U);
  write(kB + " write");
  EXPECT_EQ(find_token(*(*file)->tokens(), kA), nullptr);
  EXPECT_NE(find_token(*(*file)->tokens(), kB), nullptr);
  EXPECT_EQ(reads_, 1U);
  (*file)->read_again();
  EXPECT_EQ(reads_, 2U);
  EXPECT_EQ(error_, "");
}

TEST_F(TokenFileTest, KeepsItsTokensWhileTheFileIsWrong) {
  write(kA);
  const auto file = open();
  ASSERT_TRUE(file.has_value());
  write("short");
  EXPECT_NE(find_token(*(*file)->tokens(), kA), nullptr);
  EXPECT_THAT(error_, HasSubstr(path_ + ": line 1: the token is not allowed"));
  EXPECT_NE(find_token(*(*file)->tokens(), kA), nullptr);
  EXPECT_EQ(reads_, 1U);  // Once for each change.
  std::filesystem::remove(path_);
  EXPECT_NE(find_token(*(*file)->tokens(), kA), nullptr);
  EXPECT_THAT(error_, HasSubstr("is not a readable file"));
  write(kB);
  EXPECT_EQ(find_token(*(*file)->tokens(), kA), nullptr);
  EXPECT_EQ(error_, "");
}

TEST_F(TokenFileTest, SaysSoWhenOthersMayReadTheFile) {
  write(kA);
  const auto file = open();
  ASSERT_TRUE(file.has_value());
  std::filesystem::permissions(path_, std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  EXPECT_NE(find_token(*(*file)->tokens(), kA), nullptr);
  EXPECT_THAT(error_, HasSubstr("chmod 600"));
}

TEST_F(TokenFileTest, IsRefusedAtTheStart) {
  const auto refusal = [this] {
    const auto file = open();
    EXPECT_FALSE(file.has_value());
    return file ? std::string() : file.error().text;
  };
  write("short");
  EXPECT_THAT(refusal(), HasSubstr("--http-token-file " + path_ + ": line 1"));
  write(kA);
  std::filesystem::permissions(path_, std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  EXPECT_THAT(refusal(), HasSubstr("chmod 600"));
  std::filesystem::remove(path_);
  EXPECT_THAT(refusal(), HasSubstr("is not a readable file"));
}

}  // namespace
}  // namespace tributary::control
