// SPDX-License-Identifier: Apache-2.0
// Method: one rank without a network: its file, and folders that do not do. Whole workers are in
//         tests/system/record_test.cc.
#include "host/worker_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "recorder/recording.h"
#include "tests/support/scratch_directory.h"

namespace tributary::host {
namespace {

using ::testing::HasSubstr;

TEST(WorkerRecorder, WritesOneFileWithTheRank) {
  const testing::ScratchDirectory scratch;
  const auto recorder = WorkerRecorder::open(scratch.path(), 1, 3);
  ASSERT_TRUE(recorder.has_value()) << recorder.error().text;
  recorder::Writer* const channel = (*recorder)->add_channel();
  channel->add(recorder::Kind::kSent, 1, 3, 7, Instant());
  (*recorder)->store(recorder::Cause::kFailure);
  const std::string path = (*recorder)->path();
  (*recorder)->store(recorder::Cause::kEnd);  // The failure's file stays.
  EXPECT_EQ((*recorder)->path(), path);
  EXPECT_THAT(path, HasSubstr("/job-1-rank-3-"));
  const auto recording = recorder::read_recording_file(path);
  ASSERT_TRUE(recording.has_value()) << recording.error().text;
  EXPECT_EQ(recording->title(), "rank 3");
  EXPECT_EQ(recording->header.cause, recorder::Cause::kFailure);
  ASSERT_EQ(recording->event_count(), 1U);
  EXPECT_EQ(recording->sections[0].events[0].block, 7U);
}

/// Returns the files of the folder whose names have this end.
uint32_t count_files(const testing::ScratchDirectory& scratch, const std::string& end) {
  uint32_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    count += entry.path().string().ends_with(end) ? 1 : 0;
  }
  return count;
}

TEST(WorkerRecorder, StallsAreWrittenBesideTheEnd) {
  const testing::ScratchDirectory scratch;
  {
    const auto recorder = WorkerRecorder::open(scratch.path(), 1, 3);
    ASSERT_TRUE(recorder.has_value());
    (*recorder)->store_stall(Instant());
    (*recorder)->store_stall(Instant() + recorder::kStallFileEvery / 2);  // Too soon.
    (*recorder)->store(recorder::Cause::kEnd);
  }
  EXPECT_EQ(count_files(scratch, "-stall.trec"), 1U);
  EXPECT_EQ(count_files(scratch, "-end.trec"), 1U);
}

TEST(WorkerRecorder, SignalWritesAFileAndTheRankGoesOn) {
  const testing::ScratchDirectory scratch;
  const auto recorder = WorkerRecorder::open(scratch.path(), 1, 3);
  ASSERT_TRUE(recorder.has_value());
  std::raise(SIGUSR2);
  EXPECT_EQ(count_files(scratch, "-signal.trec"), 1U);
  (*recorder)->store(recorder::Cause::kEnd);
  EXPECT_EQ(count_files(scratch, "-end.trec"), 1U);
}

TEST(WorkerRecorder, AttemptsToJoinShareTheirWriters) {
  const testing::ScratchDirectory scratch;
  const auto recorder = WorkerRecorder::open(scratch.path(), 1, 3);
  ASSERT_TRUE(recorder.has_value());
  (*recorder)->begin_attempt();
  recorder::Writer* const first = (*recorder)->add_channel();
  ASSERT_NE(first, nullptr);
  for (uint32_t attempt = 0; attempt < 2 * recorder::kSectionsMax; attempt++) {
    (*recorder)->begin_attempt();
    ASSERT_EQ((*recorder)->add_channel(), first) << attempt;
    first->add(recorder::Kind::kSent, 1, 3, attempt, Instant());
  }
  recorder::Writer* const second = (*recorder)->add_channel();
  EXPECT_NE(second, nullptr);
  EXPECT_NE(second, first);
  (*recorder)->store(recorder::Cause::kEnd);
  const auto recording = recorder::read_recording_file((*recorder)->path());
  ASSERT_TRUE(recording.has_value()) << recording.error().text;
  EXPECT_EQ(recording->sections.size(), 2U);
  EXPECT_EQ(recording->sections[0].recorded, 2 * recorder::kSectionsMax - 1);  // The last is open.
}

TEST(WorkerRecorder, FolderThatIsGoneIsAProblemInText) {
  const testing::ScratchDirectory scratch;
  const auto folder = scratch.path() / "f";
  std::filesystem::create_directory(folder);
  const auto recorder = WorkerRecorder::open(folder, 1, 3);
  ASSERT_TRUE(recorder.has_value());
  std::filesystem::remove(folder);
  (*recorder)->store(recorder::Cause::kEnd);
  EXPECT_EQ((*recorder)->path(), "");
  EXPECT_THAT((*recorder)->problem(), HasSubstr(folder.string()));
}

TEST(WorkerRecorder, FolderThatDoesNotExistIsRefused) {
  const auto refused = WorkerRecorder::open("/nonexistent", 1, 3);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().text, HasSubstr("record=/nonexistent"));
}

}  // namespace
}  // namespace tributary::host
