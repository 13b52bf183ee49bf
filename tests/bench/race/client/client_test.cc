// SPDX-License-Identifier: Apache-2.0
#include "bench/race/client/client.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <thread>

#include "tests/support/scratch_directory.h"

namespace tributary::race {
namespace {

constexpr const char* kNetDev =
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
    "    lo:     111       2    0    0    0     0          0         0      111       2    0\n"
    "  eth0: 4202268     115    1    2    3     4          5         6  4201356     101    0\n";

TEST(Client, ReadsInterfaceCountersFromColumnsOneAndNine) {
  EXPECT_EQ(interface_bytes_in(kNetDev, "eth0").rx, 4202268U);
  EXPECT_EQ(interface_bytes_in(kNetDev, "eth0").tx, 4201356U);
  EXPECT_EQ(interface_bytes_in(kNetDev, "lo").tx, 111U);
  EXPECT_EQ(interface_bytes_in(kNetDev, "eth").rx, 0U);
  EXPECT_EQ(interface_bytes_in("eth0: 1 2 3\n", "eth0").rx, 0U);
  EXPECT_EQ(interface_bytes_in("", "eth0").rx, 0U);
}

TEST(Client, FlagsCarryTheConfiguration) {
  const ClientConfig config{.control = "/tmp/control",
                            .rank = 3,
                            .workers = 4,
                            .bytes = 400,
                            .reductions = 7,
                            .pause_ms = 9,
                            .interface = "eth0",
                            .server = {"127.0.0.1:1", "127.0.0.1:2"},
                            .scratch = "/tmp/scratch",
                            .algorithm = "ring",
                            .netns_prefix = "net-w",
                            .port = "dpdk:ring",
                            .loss = 0.001,
                            .local_server = "10.0.0.1:7"};
  CLI::App app;
  ClientConfig read;
  add_client_options(app, read);
  std::vector<std::string> arguments = to_arguments(config);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them in reverse order.
  app.parse(arguments);
  EXPECT_EQ(to_arguments(read), to_arguments(config));
  EXPECT_EQ(read.rank, 3U);
  EXPECT_EQ(read.server, config.server);
  EXPECT_EQ(read.loss, config.loss);

  const auto without_rank = to_arguments(config, true);
  EXPECT_EQ(std::count(without_rank.begin(), without_rank.end(), "--rank"), 0);
}

TEST(Client, RefusalNamesAnUnknownNetwork) {
  const auto entered = enter_network("trib-race-no-such-network");
  ASSERT_FALSE(entered);
  EXPECT_NE(entered.error().text.find("trib-race-no-such-network"), std::string::npos);
}

/// Runs a worker in a thread; the test plays the race.
class LapRun : public ::testing::Test {
 protected:
  void start(const Reduce& reduce) {
    const std::string path = scratch_.path() / "control";
    auto listener = ControlListener::open(path);
    ASSERT_TRUE(listener) << listener.error().text;
    config_.control = path;
    config_.workers = 1;
    config_.bytes = 40;
    config_.reductions = 2;
    worker_ = std::jthread([this, reduce] { done_ = run_laps(config_, reduce); });
    pollfd file{listener->file(), POLLIN, 0};
    ASSERT_EQ(poll(&file, 1, 20'000), 1);
    race_ = std::make_unique<LineSocket>(listener->accept_now());
    EXPECT_EQ(race_->read_line().value(), "hello 0");
    EXPECT_EQ(race_->read_line().value(), "ready");
  }
  LapReport lap() {
    EXPECT_TRUE(race_->send_line("go"));
    EXPECT_EQ(race_->read_line().value(), "measured");
    EXPECT_TRUE(race_->send_line("check"));
    const auto report = decode_lap(race_->read_line().value());
    EXPECT_TRUE(report);
    return report.value_or(LapReport{});
  }

  const testing::ScratchDirectory scratch_;
  ClientConfig config_;
  Result<void> done_;
  std::unique_ptr<LineSocket> race_;
  std::jthread worker_;
};

TEST_F(LapRun, EveryReductionOfEveryLapIsChecked) {
  uint32_t calls = 0;
  start([&calls](std::span<float> tensor) -> Result<std::vector<PartialSum>> {
    // The sum over one worker is its tensor. The third all-reduce corrupts two elements.
    if (++calls == 3) tensor[0] = tensor[9] = -1e6F;
    return std::vector<PartialSum>{};
  });
  const LapReport first = lap();
  EXPECT_EQ(first.wrong, 0U);
  EXPECT_EQ(race_->read_line().value(), "ready");
  const LapReport second = lap();
  EXPECT_EQ(second.wrong, 2U);
  EXPECT_NE(second.digest, first.digest);
  EXPECT_EQ(race_->read_line().value(), "ready");
  EXPECT_TRUE(race_->send_line("end"));
  worker_.join();
  EXPECT_TRUE(done_);
  EXPECT_EQ(calls, 4U);
}

TEST_F(LapRun, ReportsAFailure) {
  start([](std::span<float>) -> Result<std::vector<PartialSum>> { return failure("no luck"); });
  EXPECT_TRUE(race_->send_line("go"));
  EXPECT_EQ(race_->read_line().value(), "failed no luck");
  worker_.join();
  EXPECT_FALSE(done_);
}

TEST_F(LapRun, WorkerEndsWhenItsRaceEnds) {
  start([](std::span<float>) { return Result<std::vector<PartialSum>>(); });
  race_.reset();
  worker_.join();
  EXPECT_FALSE(done_);
}

}  // namespace
}  // namespace tributary::race
