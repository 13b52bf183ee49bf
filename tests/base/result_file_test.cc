// SPDX-License-Identifier: Apache-2.0
// Method: each kind of file that a path may name, by hand. The devices are /dev/full and /dev/null,
// reached through nodes in a scratch folder where that is allowed.
#include "base/result_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/scratch_directory.h"

namespace tributary {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string error_of(const fs::path& path, std::string_view content = "new\n") {
  const auto written = write_result_file(path, content);
  return written ? std::string() : written.error().text;
}

size_t file_count(const fs::path& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(ResultFile, CreatesAndReplacesAFile) {
  const testing::ScratchDirectory scratch;
  const fs::path path = scratch.path() / "r.json";
  EXPECT_EQ(error_of(path, "first\n"), "");
  EXPECT_EQ(text_of(path), "first\n");
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  std::ifstream reader(path);  // Sees the old file to its end.
  EXPECT_EQ(error_of(path, "second\n"), "");
  EXPECT_EQ(text_of(path), "second\n");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "first\n");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(file_count(scratch.path()), 1U);  // No temporary file is left.
}

TEST(ResultFile, ReplacesTheTargetOfALinkAndKeepsTheLink) {
  const testing::ScratchDirectory scratch;
  const fs::path folder = scratch.path() / "folder";
  fs::create_directory(folder);
  fs::create_symlink("folder/target", scratch.path() / "link");
  fs::create_symlink("link", scratch.path() / "link-to-link");
  EXPECT_EQ(error_of(scratch.path() / "link-to-link", "first\n"), "");  // No target yet.
  EXPECT_EQ(error_of(scratch.path() / "link", "second\n"), "");
  EXPECT_EQ(text_of(folder / "target"), "second\n");
  EXPECT_TRUE(fs::is_symlink(scratch.path() / "link"));
  EXPECT_TRUE(fs::is_symlink(scratch.path() / "link-to-link"));
  fs::create_symlink("round", scratch.path() / "round");
  EXPECT_THAT(error_of(scratch.path() / "round"), HasSubstr("cannot be written"));
}

TEST(ResultFile, WritesIntoADeviceAndReportsItsError) {
  const testing::ScratchDirectory scratch;
  // A rename would replace these links; the devices themselves are never at risk in this test.
  fs::create_symlink("/dev/full", scratch.path() / "full");
  fs::create_symlink("/dev/null", scratch.path() / "null");
  EXPECT_THAT(error_of(scratch.path() / "full"), HasSubstr("No space left on device"));
  EXPECT_EQ(error_of(scratch.path() / "null"), "");
  EXPECT_TRUE(fs::is_symlink(scratch.path() / "full"));
  EXPECT_TRUE(fs::is_symlink(scratch.path() / "null"));
  const fs::path node = scratch.path() / "node";
  if (mknod(node.c_str(), S_IFCHR | 0600, makedev(1, 7)) != 0) {
    GTEST_SKIP() << "not allowed to make a device";
  }
  if (error_of(node).find("No space left") == std::string::npos) {
    EXPECT_THAT(error_of(node), HasSubstr("ermission"));  // A file system without devices.
  }
  EXPECT_TRUE(fs::is_character_file(node));
}

TEST(ResultFile, WritesIntoAPipeWithAReader) {
  const testing::ScratchDirectory scratch;
  const fs::path path = scratch.path() / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const std::string content(1 << 20, 'x');  // More than a pipe holds.
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  std::string read_back;
  std::thread reader([&] {
    fcntl(file, F_SETFL, 0);
    std::array<char, 4096> buffer;
    while (read_back.size() < content.size()) {
      const ssize_t count = read(file, buffer.data(), buffer.size());
      if (count > 0) read_back.append(buffer.data(), static_cast<size_t>(count));
    }
    close(file);
  });
  EXPECT_EQ(error_of(path, content), "");
  reader.join();
  EXPECT_EQ(read_back, content);
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST(ResultFile, RefusesAPipeWithoutAReaderAtOnce) {
  const testing::ScratchDirectory scratch;
  const fs::path path = scratch.path() / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(error_of(path), path.string() +
                                ": cannot be written: nobody reads this pipe; start "
                                "its reader first");
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST(ResultFile, RefusesFoldersSocketsAndPathsThatLeadNowhere) {
  const testing::ScratchDirectory scratch;
  EXPECT_THAT(error_of(scratch.path()), HasSubstr("it is a folder; give the name of a file"));
  EXPECT_THAT(error_of(scratch.path() / "absent" / "r.json"),
              HasSubstr("no file can be created in its folder: No such file or directory"));
  EXPECT_THAT(error_of(scratch.file("file") + "/r.json"), HasSubstr("Not a directory"));
}

std::string check_of(const fs::path& path) {
  const auto checked = check_result_file(path);
  return checked ? std::string() : checked.error().text;
}

TEST(ResultFile, CheckRefusesWhatCannotBeWrittenAndChangesNothing) {
  const testing::ScratchDirectory scratch;
  EXPECT_EQ(check_of(scratch.path() / "new.json"), "");
  EXPECT_EQ(check_of("new.json"), "");
  EXPECT_EQ(check_of("/dev/full"), "");
  EXPECT_EQ(check_of("/dev/stdout"), "");
  EXPECT_EQ(check_of(scratch.file("file")), "");
  EXPECT_EQ(file_count(scratch.path()), 1U);
  const fs::path pipe = scratch.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(check_of(pipe), "");  // Its reader may still come.

  for (const fs::path& path : {scratch.path(), scratch.path() / "absent" / "r.json",
                               fs::path(scratch.file("file") + "/r.json")}) {
    EXPECT_NE(check_of(path), "");
    EXPECT_EQ(check_of(path), error_of(path));
  }
  fs::create_symlink("absent/target", scratch.path() / "link");
  EXPECT_THAT(check_of(scratch.path() / "link"), HasSubstr("No such file or directory"));
}

TEST(ResultFile, WritesBehindWhatStandardOutputHolds) {
  const testing::ScratchDirectory scratch;
  const fs::path path = scratch.path() / "out";
  std::fflush(stdout);
  const int kept = dup(STDOUT_FILENO);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  dup2(file, STDOUT_FILENO);
  std::fputs("a table\n", stdout);
  const std::string error = error_of("/dev/stdout", "a result\n");
  std::fputs("the end\n", stdout);
  std::fflush(stdout);
  dup2(kept, STDOUT_FILENO);
  close(kept);
  close(file);
  EXPECT_EQ(error, "");
  EXPECT_EQ(text_of(path), "a table\na result\nthe end\n");
}

TEST(ResultFile, PrivateFileReplacesALinkOrPipeAndIsReadByItsOwnerOnly) {
  const testing::ScratchDirectory scratch;
  const fs::path path = scratch.path() / "r.trec";
  const fs::path victim = scratch.file("victim", "precious");
  fs::create_symlink(victim, path);
  ASSERT_TRUE(write_private_file(path, "first").has_value());
  EXPECT_EQ(text_of(victim), "precious");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path)));
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0666), 0);
  ASSERT_TRUE(write_private_file(path, "second").has_value());
  EXPECT_EQ(text_of(path), "second");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(file_count(scratch.path()), 2U);

  const auto failed = write_private_file(scratch.path() / "none" / "r", "x");
  ASSERT_FALSE(failed.has_value());
  EXPECT_THAT(failed.error().text, HasSubstr("none/r: cannot be written: no file can be created"));
}

}  // namespace
}  // namespace tributary
