// SPDX-License-Identifier: Apache-2.0
// Method: names, the limit on files, folders that are refused, and files of other users.
#include "recorder/recording_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "recorder/recording.h"
#include "tests/support/scratch_directory.h"

namespace tributary::recorder {
namespace {

using ::testing::HasSubstr;

size_t files_in(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator files(folder);
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST(RecordingFiles, NameHasServerTimeAndCause) {
  const testing::ScratchDirectory scratch;
  const auto files = RecordingFiles::open(scratch.path(), "127.0.0.1:12000");
  ASSERT_TRUE(files.has_value());
  const auto path = files->store(Cause::kStall, "content");
  ASSERT_TRUE(path.has_value()) << path.error().text;
  EXPECT_THAT(*path, ::testing::ContainsRegex(
                         "/127.0.0.1:12000-[0-9]{8}T[0-9]{6}[.][0-9]{3}Z-stall[.]trec$"));
  EXPECT_EQ(std::filesystem::file_size(*path), 7U);
}

TEST(RecordingFiles, KeepsTheNewestAndLeavesOthersAlone) {
  const testing::ScratchDirectory scratch;
  const auto files = RecordingFiles::open(scratch.path(), "a");
  ASSERT_TRUE(files.has_value());
  static_cast<void>(scratch.file("a-notes.trec"));
  static_cast<void>(scratch.file("a-b-20200101T000000.000Z-stall.trec"));
  for (uint32_t i = 0; i < kFilesMax + 4; i++) {
    static_cast<void>(
        scratch.file("a-202001" + std::to_string(10 + i) + "T000000.000Z-stall.trec"));
  }
  const auto path = files->store(Cause::kSignal, "content");
  ASSERT_TRUE(path.has_value()) << path.error().text;
  EXPECT_TRUE(std::filesystem::exists(*path));
  EXPECT_EQ(files_in(scratch.path()), kFilesMax + 2);
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "a-20200110T000000.000Z-stall.trec"));
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "a-20200129T000000.000Z-stall.trec"));
}

TEST(RecordingFiles, FileOfACrashIsAsNewAsItsCrash) {
  const testing::ScratchDirectory scratch;
  const auto files = RecordingFiles::open(scratch.path(), "a");
  ASSERT_TRUE(files.has_value());
  const auto now = std::filesystem::file_time_type::clock::now();
  for (uint32_t i = 0; i < kFilesMax; i++) {
    const auto path = scratch.file("a-202001" + std::to_string(10 + i) + "T000000.000Z-stall.trec");
    std::filesystem::last_write_time(path, now - std::chrono::hours(2) + std::chrono::minutes(i));
  }
  // Named after the start of its process, before all others.
  const auto crash = scratch.file("a-20200101T000000.000Z-abnormal_end.trec");
  std::filesystem::last_write_time(crash, now - std::chrono::minutes(1));
  ASSERT_TRUE(files->store(Cause::kStall, "content").has_value());
  EXPECT_TRUE(std::filesystem::exists(crash));
  EXPECT_EQ(files_in(scratch.path()), kFilesMax);
}

TEST(RecordingFiles, FileOfAClockThatWasSetBackIsTheNewest) {
  const testing::ScratchDirectory scratch;
  const auto files = RecordingFiles::open(scratch.path(), "a");
  ASSERT_TRUE(files.has_value());
  const auto before = std::filesystem::file_time_type::clock::now() + std::chrono::hours(1);
  for (uint32_t i = 0; i < kFilesMax; i++) {
    const auto path = scratch.file("a-202001" + std::to_string(10 + i) + "T000000.000Z-stall.trec");
    std::filesystem::last_write_time(path, before + std::chrono::minutes(i));
  }
  std::vector<std::string> stored;
  for (const Cause cause : {Cause::kStall, Cause::kSignal}) {
    stored.push_back(files->store(cause, "content").value());
  }
  for (const std::string& path : stored) EXPECT_TRUE(std::filesystem::exists(path)) << path;
  EXPECT_EQ(files->list().back().name, std::filesystem::path(stored[1]).filename().string());
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "a-20200110T000000.000Z-stall.trec"));
}

TEST(RecordingFiles, ListsAndReadsItsOwnFilesOnly) {
  const testing::ScratchDirectory scratch;
  const auto files = RecordingFiles::open(scratch.path(), "a");
  ASSERT_TRUE(files.has_value());
  EXPECT_TRUE(files->list().empty());
  const std::string first = "a-20200110T000000.000Z-stall.trec";
  static_cast<void>(scratch.file(first));
  static_cast<void>(scratch.file("b-20200110T000000.000Z-stall.trec"));
  std::filesystem::last_write_time(
      scratch.path() / first,
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const auto path = files->store(Cause::kSignal, std::string("\0content", 8));
  ASSERT_TRUE(path.has_value()) << path.error().text;
  const auto found = files->list();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, first);
  EXPECT_EQ(found[1].name, std::filesystem::path(*path).filename().string());
  EXPECT_EQ(found[1].size_bytes, 8U);
  EXPECT_EQ(files->read(found[1].name), std::string("\0content", 8));
  for (const char* name : {"", "..", "b-20200110T000000.000Z-stall.trec", "../a", "a-notes.trec"}) {
    EXPECT_EQ(files->read(name), std::nullopt) << name;
  }
}

TEST(RecordingFiles, AStartRemovesTheOldestOfManyAbnormalEnds) {
  const testing::ScratchDirectory scratch;
  for (uint32_t i = 0; i < kFilesMax + 5; i++) {
    (void)scratch.file("a-202001" + std::to_string(10 + i) + "T000000.000Z-abnormal_end.trec");
  }
  ASSERT_TRUE(RecordingFiles::open(scratch.path(), "a").has_value());
  EXPECT_EQ(files_in(scratch.path()), kFilesMax);
}

TEST(RecordingFiles, RefusesAFolderThatIsNone) {
  const testing::ScratchDirectory scratch;
  const auto missing = RecordingFiles::open(scratch.path() / "none", "a");
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().text, HasSubstr("No such file or directory; give a folder"));
  const auto file = RecordingFiles::open(scratch.file("f"), "a");
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().text, HasSubstr("is not a folder"));
}

TEST(RecordingFiles, FolderThatIsGoneIsOneAnswer) {
  const testing::ScratchDirectory scratch;
  const auto folder = scratch.path() / "f";
  std::filesystem::create_directory(folder);
  const auto files = RecordingFiles::open(folder, "a");
  ASSERT_TRUE(files.has_value());
  std::filesystem::remove(folder);
  const auto stored = files->store(Cause::kStall, "content");
  ASSERT_FALSE(stored.has_value());
  EXPECT_THAT(stored.error().text, HasSubstr(folder.string()));
}

TEST(RecordingFiles, RefusesAFolderThatOthersCanWriteTo) {
  const testing::ScratchDirectory scratch;
  for (const mode_t mode : {0770, 0777, 01777}) {
    ASSERT_EQ(::chmod(scratch.path().c_str(), mode), 0);
    const auto files = RecordingFiles::open(scratch.path(), "a");
    ASSERT_FALSE(files.has_value()) << mode;
    EXPECT_THAT(files.error().text, HasSubstr("another user can write to it; give a folder that"));
  }
  // A folder of one's own in such a folder, as in /tmp.
  const std::string own = scratch.path() / "own";
  ASSERT_EQ(::mkdir(own.c_str(), 0755), 0);
  EXPECT_TRUE(RecordingFiles::open(own, "a").has_value());
}

TEST(RecordingFiles, FilesAreForTheirOwnerAlone) {
  const testing::ScratchDirectory scratch;
  const auto files = RecordingFiles::open(scratch.path(), "a");
  const auto path = files->store(Cause::kStall, "content");
  ASSERT_TRUE(path.has_value()) << path.error().text;
  struct stat status {};
  ASSERT_EQ(::stat(path->c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
}

TEST(RecordingFiles, LeavesLinksPipesAndFilesOfOthersAlone) {
  const testing::ScratchDirectory scratch;
  const std::string link = "a-20200110T000000.000Z-stall.trec";
  const std::string pipe = "a-20200111T000000.000Z-stall.trec";
  const std::string folder = "a-20200112T000000.000Z-stall.trec";
  const std::string theirs = "a-20200113T000000.000Z-stall.trec";
  std::filesystem::create_symlink(scratch.file("secret", "secret"), scratch.path() / link);
  ASSERT_EQ(::mkfifo((scratch.path() / pipe).c_str(), 0666), 0);
  std::filesystem::create_directory(scratch.path() / folder);
  std::vector<std::string> names{link, pipe, folder};
  if (::chown(scratch.file(theirs, "theirs").c_str(), 1234, 1234) == 0) names.push_back(theirs);
  const auto files = RecordingFiles::open(scratch.path(), "a");
  ASSERT_TRUE(files.has_value()) << files.error().text;
  for (const std::string& name : names) EXPECT_EQ(files->read(name), std::nullopt) << name;
  for (uint32_t i = 0; i <= kFilesMax; i++) {
    static_cast<void>(
        scratch.file("a-202002" + std::to_string(10 + i) + "T000000.000Z-stall.trec"));
  }
  ASSERT_TRUE(files->store(Cause::kStall, "content").has_value());
  for (const RecordingFile& file : files->list()) {
    EXPECT_EQ(std::ranges::find(names, file.name), names.end()) << file.name;
  }
  for (const std::string& name : names) {
    EXPECT_TRUE(std::filesystem::is_symlink(scratch.path() / name) ||
                std::filesystem::exists(scratch.path() / name));
  }
}

TEST(RecordingFiles, DoesNotReadAFileThatIsTooLarge) {
  const testing::ScratchDirectory scratch;
  const std::string name = "a-20200110T000000.000Z-stall.trec";
  std::filesystem::resize_file(scratch.file(name), kFileBytesMax + 1);  // Takes no space.
  const auto files = RecordingFiles::open(scratch.path(), "a");
  EXPECT_EQ(files->read(name), std::nullopt);
}

}  // namespace
}  // namespace tributary::recorder
