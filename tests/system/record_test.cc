// SPDX-License-Identifier: Apache-2.0
// Method:  a server and its workers as processes. Recordings by command, by signal, by a stall, and
//          of a server that is aborted; a full disk; the merge with the workers' recordings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/system/control_folder.h"
#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

constexpr uint32_t kWorld = 2;

/// Recordings lie beside the control sockets.
class Record : public ControlFolder {
 protected:
  Record() { std::filesystem::create_directory(folder_); }

  /// Waits for a file with this in its name. @return its path; empty if none came.
  [[nodiscard]] std::string wait_for_file(const std::string& part) const {
    return wait_for_file(part, folder_);
  }
  [[nodiscard]] static std::string wait_for_file(const std::string& part,
                                                 const std::string& folder) {
    for (const auto deadline = Clock::now() + kPatience; Clock::now() < deadline;) {
      for (const auto& file : std::filesystem::directory_iterator(folder)) {
        const std::string name = file.path().filename();
        if (name.find(part) != std::string::npos && name.ends_with(".trec")) return file.path();
      }
    }
    return {};
  }
};

/// Starts all ranks.
Workers start_workers(const Server& server, const std::vector<std::string>& more) {
  Workers workers;
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    workers.push_back(start_worker(server, rank, kWorld, more));
  }
  return workers;
}

TEST_F(Record, CommandTakesARecordingOfARunningServer) {
  Server server({"id=1,sources=2"});
  auto workers =
      start_workers(server, {"--elements", "4000", "--iterations", "3", "--local", "off"});
  for (auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
  const std::string file = folder_ + "/now.trec";
  EXPECT_THAT(run({"record", "dump", "--out", file}), HasSubstr(file + ": "));
  const std::string text = run({"record", "show", file, "--job", "1"});
  EXPECT_THAT(text, HasSubstr("session_started"));
  EXPECT_THAT(text, HasSubstr("rank_left"));
  EXPECT_THAT(text, HasSubstr("completed"));
  const json shown = json::parse(run({"record", "show", file, "--rank", "1", "--json"}));
  ASSERT_FALSE(shown["rows"].empty());
  for (const json& row : shown["rows"]) EXPECT_EQ(row["rank"], 1);
  EXPECT_EQ(shown["files"][0]["lost"], 0);

  EXPECT_THAT(run({"record", "stop"}), HasSubstr("does not record"));
  EXPECT_THAT(run({"record", "status"}), HasSubstr("does not record"));
  EXPECT_THAT(run({"record", "start"}), HasSubstr("records"));
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Record, FullDiskIsOneAnswerAndTheServerGoesOn) {
  Server server({"id=1,sources=2"});
  EXPECT_THAT(run({"record", "dump", "--out", "/dev/full"}, 1),
              HasSubstr("--out /dev/full: cannot be written: No space left on device"));
  auto workers = start_workers(server, {"--elements", "4000", "--iterations", "3", "--verify"});
  for (auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Record, StallWritesAFileThatNamesThePausedRank) {
  Server server({"id=1,sources=2,silent_ms=60000"}, {"--record-stall-ms", "2000"});
  auto workers = start_workers(server, {"--elements", "60000", "--iterations", "10000000",
                                        "--local", "off", "--deadline-s", "60"});
  server.wait_until_counted("block_completed", 1000);
  workers[1]->signal(SIGSTOP);
  EXPECT_TRUE(server.wait_for_error("event=recording_written cause=stall"));
  const std::string file = wait_for_file("-stall");
  ASSERT_NE(file, "");
  const json shown = json::parse(run({"record", "show", file, "--rank", "1", "--json"}));
  json stalled;
  for (const json& row : shown["rows"]) {
    if (row["event"] == "stalled") stalled = row;
  }
  ASSERT_TRUE(stalled.is_object());
  EXPECT_GE(stalled["value"], 2000);
  // The block's story: the other rank's contribution, and the stall.
  const std::string text = run({"record", "show", file, "--job", "1", "--block",
                                std::to_string(stalled["block"].get<uint64_t>())});
  EXPECT_THAT(text, HasSubstr("job 1 rank 0 block"));
  EXPECT_THAT(text, HasSubstr("stalled"));
  workers[1]->signal(SIGCONT);
  for (auto& worker : workers) worker->signal(SIGTERM);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Record, SignalWritesAFile) {
  Server server({"id=1,sources=2"}, {"--name", "rack1"});
  server.signal(SIGUSR2);
  EXPECT_TRUE(server.wait_for_error("event=recording_written cause=signal"));
  const std::string file = wait_for_file("rack1-");
  ASSERT_NE(file, "");
  EXPECT_THAT(run({"record", "show", file}), HasSubstr("server rack1"));
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Record, AbnormalEndLeavesAFile) {
  Server server({"id=1,sources=2"});
  server.signal(SIGABRT);
  EXPECT_TRUE(server.wait_for_error("signal 6: the last events are in "));
  EXPECT_EQ(server.wait_for_end(), 128 + SIGABRT);
  const std::string file = wait_for_file("-abnormal_end");
  ASSERT_NE(file, "");
  EXPECT_THAT(run({"record", "show", file}), HasSubstr("(abnormal_end, signal 6)"));
}

TEST_F(Record, WorkersWriteFilesOnASignalAndOnAStall) {
  const std::string folder = folder_ + "/workers";
  std::filesystem::create_directory(folder);
  Server server({"id=1,sources=2,silent_ms=60000"}, {"--record", "off"});
  const std::vector<std::string> words{"--elements", "4000", "--iterations", "1000000",
                                       "--local",    "off",  "--record",     folder};
  // Rank 0 waits for the other one at its join.
  auto waiting = start_worker(server, 0, kWorld, words);
  EXPECT_TRUE(waiting->wait_for_error("waiting to join"));
  waiting->signal(SIGUSR2);
  const std::string asked = wait_for_file("-signal", folder);
  ASSERT_NE(asked, "");
  EXPECT_THAT(run({"record", "show", asked}), HasSubstr("(signal, signal 12)"));

  auto paused = start_worker(server, 1, kWorld, words);
  server.wait_until_counted("block_completed", 10);
  paused->signal(SIGSTOP);
  const std::string stalled = wait_for_file("-stall", folder);
  ASSERT_NE(stalled, "");
  EXPECT_THAT(stalled, HasSubstr("/job-1-rank-0-"));
  const std::string text = run({"record", "show", stalled});
  EXPECT_THAT(text, HasSubstr("stalled"));
  EXPECT_THAT(text, HasSubstr("sent"));
  paused->signal(SIGCONT);
  for (const auto& worker : {&waiting, &paused}) (*worker)->signal(SIGTERM);
  for (const auto& worker : {&waiting, &paused}) static_cast<void>((*worker)->wait_for_end());
  EXPECT_NE(wait_for_file("-end", folder), "");
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Record, ServerAndWorkersMakeOneTimeline) {
  Server server({"id=1,sources=2"});
  auto workers = start_workers(
      server, {"--elements", "4000", "--iterations", "3", "--local", "off", "--record", folder_});
  for (auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
  const std::string file = folder_ + "/server.trec";
  run({"record", "dump", "--out", file});
  const std::vector<std::string> files{file, wait_for_file("job-1-rank-0-"),
                                       wait_for_file("job-1-rank-1-")};
  std::vector<std::string> show{"record", "show"};
  show.insert(show.end(), files.begin(), files.end());
  const std::string text = run(show);
  EXPECT_THAT(text, HasSubstr("clocks: one machine"));
  EXPECT_THAT(text, HasSubstr("rank 0 channel 0"));

  // The life of one block, from both sides. A burst's time is that of its beginning, so a loaded
  // machine may show an arrival before its sending.
  std::vector<std::string> one = show;
  one.insert(one.end(), {"--block", "2", "--json"});
  const json rows = json::parse(run(one))["rows"];
  ASSERT_FALSE(rows.empty());
  std::set<std::string> events;
  for (const json& row : rows) {
    events.insert(row["event"].get<std::string>() + " " + row.value("rank", json("-")).dump());
  }
  EXPECT_THAT(events, IsSupersetOf({"sent 0", "sent 1", "arrived 0", "arrived 1", "result 0",
                                    "result 1", "completed \"-\""}));
  const auto lasted_ns = rows.back()["at_ns"].get<int64_t>() - rows.front()["at_ns"].get<int64_t>();
  EXPECT_LT(std::chrono::nanoseconds(lasted_ns), kPatience);

  const std::string trace = folder_ + "/trace.json";
  show.insert(show.end(), {"--perfetto", trace});
  run(show);
  std::ifstream stream(trace);
  const json parsed = json::parse(stream, nullptr, /*allow_exceptions=*/false);
  EXPECT_GT(parsed["traceEvents"].size(), 10U);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Record, FailureOfAWorkerLeavesAFile) {
  Server server({"id=1,sources=2"});
  auto alone =
      start_worker(server, 0, 2, {"--iterations", "1", "--deadline-s", "1", "--record", folder_});
  EXPECT_NE(alone->wait_for_end(), 0);
  const std::string file = wait_for_file("job-1-rank-0-");
  ASSERT_NE(file, "");
  EXPECT_THAT(run({"record", "show", file}), HasSubstr("session_ended"));
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Record, BadFilesAndFlagsAreRefusedWithTheRemedy) {
  const std::string file = folder_ + "/bad.trec";
  std::ofstream(file) << "no recording";
  EXPECT_THAT(run({"record", "show", file}, 1), HasSubstr("is not a recording of tributary"));
  EXPECT_THAT(run({"record", "show", folder_ + "/none"}, 1), HasSubstr("No such file"));
  EXPECT_THAT(run({"record", "dump", "--out", file}, 1), HasSubstr("no server of this machine"));
  EXPECT_THAT(run({"worker", "--server", "127.0.0.1:9", "--record", "/nonexistent"}, 2),
              HasSubstr("--record /nonexistent: No such file or directory"));
  EXPECT_THAT(run({"serve", "--job", "id=1,sources=1", "--record-events", "100"}, 2),
              HasSubstr("--record-events 100 is not allowed; allowed: a power of two"));
  EXPECT_THAT(run({"serve", "--listen", "127.0.0.1:" + std::to_string(free_port()), "--job",
                   "id=1,sources=1", "--record-dir", "/nonexistent"},
                  2),
              HasSubstr("--record-dir /nonexistent: No such file or directory"));
  const std::string open_to_all = folder_ + "/open";
  std::filesystem::create_directory(open_to_all);
  std::filesystem::permissions(open_to_all, std::filesystem::perms::all);
  EXPECT_THAT(run({"serve", "--listen", "127.0.0.1:" + std::to_string(free_port()), "--job",
                   "id=1,sources=1", "--record-dir", open_to_all},
                  2),
              HasSubstr("--record-dir " + open_to_all + ": another user can write to it; give a"));
  EXPECT_THAT(
      run({"serve", "--job", "id=1,sources=1", "--record", "off", "--record-events", "128"}, 2),
      HasSubstr("--record-events needs --record on"));
}

}  // namespace
}  // namespace tributary::system_test
