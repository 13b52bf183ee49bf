// SPDX-License-Identifier: Apache-2.0
// Method: an appliance in this process with one worker. Recordings by command and by signal,
//         switched off and on, stalls while it is off, and a folder that disappears.
#include "server/recording/record_keeper.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <thread>

#include "host/communicator.h"
#include "io/file_descriptor.h"
#include "recorder/recording.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/udp_peer.h"

namespace tributary::server {
namespace {

using ::testing::HasSubstr;

class RecordKeeperTest : public ::testing::Test {
 protected:
  RecordKeeperTest()
      : nowhere_(open("/dev/null", O_WRONLY | O_CLOEXEC)), log_({.file = nowhere_.get()}) {
    auto started = Appliance::start({.listen = Endpoint::ipv4(0x7f000001, 0),
                                     .memory_mb = 128,
                                     .jobs = {{.id = 1, .sources = 1}, two_ranks(2), two_ranks(3)},
                                     .record_events = 1024,
                                     .record_name = "rack1"});
    if (started) appliance_ = *std::move(started);
  }

  /// Lets one worker sum a tensor of 4 blocks.
  void reduce() {
    host::CommunicatorConfig config;
    config.server = appliance_->local();
    config.gradients = 100;
    const auto worker = host::Communicator::join(config);
    ASSERT_TRUE(worker.has_value()) << worker.error().text;
    std::vector<int32_t> tensor(400, 1);
    EXPECT_EQ((*worker)->all_reduce(std::span<int32_t>(tensor)).status, host::Status::kOk);
  }
  static trio_ml::JobConfig two_ranks(uint8_t job) {
    return {.id = job, .sources = 2, .block_cnt_max = 256, .block_grad_max = 8};
  }
  /// Lets a block of the job wait for rank 1, and returns when the wait is old enough to be shown.
  void stall(uint8_t job) {
    std::array<std::byte, wire::TrioMlHeader::kBytes + sizeof(int32_t)> packet{};
    wire::encode_header({.job_id = job, .block_id = 7, .src_id = 0, .grad_cnt = 1}, packet.data());
    peer_.send(packet, appliance_->local());
    const auto waits = [&] {
      return std::ranges::any_of(find_waits(appliance_->snapshot()),
                                 [job](const Wait& wait) { return wait.job == job; });
    };
    while (!waits()) std::this_thread::yield();
  }
  static recorder::Recording read(const std::string& bytes) {
    const auto recording = recorder::read_recording(std::as_bytes(std::span(bytes)));
    EXPECT_TRUE(recording.has_value()) << recording.error().text;
    return *recording;
  }
  /// Counts the blocks of all events of a kind.
  static uint64_t blocks_of(const recorder::Recording& recording, recorder::Kind kind) {
    uint64_t blocks = 0;
    for (const recorder::Section& section : recording.sections) {
      for (const recorder::Event& event : section.events) {
        if (event.kind == kind) blocks += event.count;
      }
    }
    return blocks;
  }

  const testing::ScratchDirectory scratch_;
  const io::FileDescriptor nowhere_;
  const testing::UdpPeer peer_;
  Log log_;
  std::unique_ptr<Appliance> appliance_;
};

TEST_F(RecordKeeperTest, CommandReturnsTheEventsAndSwitchesThemOff) {
  ASSERT_NE(appliance_, nullptr);
  auto keeper = RecordKeeper::start({.folder = scratch_.path()}, *appliance_, log_);
  ASSERT_TRUE(keeper.has_value()) << keeper.error().text;
  reduce();
  const auto recording = read((*keeper)->recording());
  EXPECT_EQ(recording.title(), "server rack1");
  EXPECT_EQ(blocks_of(recording, recorder::Kind::kArrived), 4U);
  EXPECT_EQ(blocks_of(recording, recorder::Kind::kCompleted), 4U);
  EXPECT_EQ(recording.lost(), 0U);

  (*keeper)->set_on(false);
  EXPECT_EQ((*keeper)->state()["on"], false);
  reduce();
  EXPECT_EQ(blocks_of(read((*keeper)->recording()), recorder::Kind::kArrived), 4U);
  (*keeper)->set_on(true);
  reduce();
  EXPECT_EQ(blocks_of(read((*keeper)->recording()), recorder::Kind::kArrived), 8U);
  EXPECT_EQ((*keeper)->state()["left_out"], 0);
}

TEST_F(RecordKeeperTest, SignalWritesAFileAndALine) {
  ASSERT_NE(appliance_, nullptr);
  auto keeper = RecordKeeper::start({.folder = scratch_.path()}, *appliance_, log_);
  ASSERT_TRUE(keeper.has_value()) << keeper.error().text;
  (*keeper)->store(recorder::Cause::kSignal);
  const auto path = (*keeper)->state()["last_file"].get<std::string>();
  EXPECT_TRUE(recorder::read_recording_file(path).has_value()) << path;
  const auto files = (*keeper)->files();
  ASSERT_EQ(files.size(), 1U);
  const auto name = std::filesystem::path(path).filename().string();
  EXPECT_EQ(files[0]["name"], name);
  EXPECT_EQ(files[0]["size_bytes"], std::filesystem::file_size(path));
  EXPECT_EQ(files[0]["written"].get<std::string>().size(),
            std::string("2026-11-25T10:00:00Z").size());
  EXPECT_TRUE((*keeper)->file(name).has_value());
  EXPECT_FALSE((*keeper)->file("../" + name).has_value());
  const auto rows = log_.recent();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["event"], "recording_written");
  EXPECT_EQ(rows[0]["path"], path);
}

TEST_F(RecordKeeperTest, StallThatBeganWhileItWasOffGetsNoFile) {
  ASSERT_NE(appliance_, nullptr);
  auto keeper = RecordKeeper::start({.folder = scratch_.path(), .stall_after = milliseconds(1)},
                                    *appliance_, log_);
  ASSERT_TRUE(keeper.has_value()) << keeper.error().text;
  (*keeper)->set_on(false);
  stall(2);
  (*keeper)->look();
  EXPECT_EQ((*keeper)->state()["last_file"], "");
  (*keeper)->set_on(true);
  (*keeper)->look();
  EXPECT_EQ((*keeper)->state()["last_file"], "");
  stall(3);
  (*keeper)->look();
  EXPECT_THAT((*keeper)->state()["last_file"].get<std::string>(), HasSubstr("-stall.trec"));
  EXPECT_EQ((*keeper)->files().size(), 1U);
}

TEST_F(RecordKeeperTest, FolderThatIsGoneIsOneLineAndTheServerGoesOn) {
  ASSERT_NE(appliance_, nullptr);
  const auto folder = scratch_.path() / "f";
  std::filesystem::create_directory(folder);
  auto keeper = RecordKeeper::start({.folder = folder}, *appliance_, log_);
  ASSERT_TRUE(keeper.has_value()) << keeper.error().text;
  std::filesystem::remove(folder);
  (*keeper)->store(recorder::Cause::kSignal);
  EXPECT_EQ(log_.recent()[0]["event"], "recording_failed");
  EXPECT_THAT((*keeper)->state()["last_error"].get<std::string>(), HasSubstr(folder.string()));
  reduce();
}

TEST_F(RecordKeeperTest, FolderThatDoesNotExistIsRefused) {
  ASSERT_NE(appliance_, nullptr);
  const auto refused = RecordKeeper::start({.folder = scratch_.path() / "none"}, *appliance_, log_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().text, HasSubstr("--record-dir "));
}

}  // namespace
}  // namespace tributary::server
