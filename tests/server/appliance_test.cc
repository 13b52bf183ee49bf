// SPDX-License-Identifier: Apache-2.0
// Method:  a whole appliance in this process, driven over loopback sockets: sums, counters and
//          refused configurations. Waits only in socket calls.
#include "server/appliance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "io/local/local_port.h"
#include "io/udp/free_port.h"
#include "io/udp/udp_port.h"
#include "server/who.h"

namespace tributary::server {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

const Endpoint kAnyPort = Endpoint::ipv4(0x7f000001, 0);

ApplianceConfig config_of(std::vector<trio_ml::JobConfig> jobs, uint32_t cores = 1) {
  return {.listen = kAnyPort, .cores = cores, .memory_mb = 64, .jobs = std::move(jobs)};
}

trio_ml::JobConfig small_job(uint8_t id, uint32_t sources) {
  return {.id = id, .sources = sources, .block_cnt_max = 256, .block_grad_max = 8};
}

std::string error_of(const ApplianceConfig& config) {
  const auto started = Appliance::start(config);
  return started ? "started" : started.error().text;
}

/// One source of a job.
class Source {
 public:
  Source(const Endpoint& server, uint8_t job_id, uint8_t id)
      : port_(*io::UdpPort::open({.peer = server})), server_(server), job_id_(job_id), id_(id) {}
  Source(const Appliance& server, uint8_t job_id, uint8_t id)
      : Source(server.local(), job_id, id) {}

  void send(uint32_t block_id, int32_t value) {
    Bytes bytes(wire::TrioMlHeader::kBytes + 4);
    wire::encode_header({.job_id = job_id_, .block_id = block_id, .src_id = id_, .grad_cnt = 1},
                        bytes.data());
    store_be(bytes.data() + wire::TrioMlHeader::kBytes, static_cast<uint32_t>(value));
    engine::TxPacket packet;
    packet.data = bytes.data();
    packet.size = static_cast<uint32_t>(bytes.size());
    packet.destination = server_;
    port_->queue(0).transmit(std::span(&packet, 1));
  }
  /// Returns the sum in the next result; fails the test if none arrives.
  int32_t receive() {
    std::array<engine::Packet, 1> burst;
    for (uint32_t i = 0; i < 10; i++) {
      if (port_->queue(0).receive(burst) == 1) {
        return static_cast<int32_t>(load_be<uint32_t>(burst[0].data + wire::TrioMlHeader::kBytes));
      }
      port_->queue(0).wait(seconds(1));
    }
    ADD_FAILURE() << "no result";
    return 0;
  }

 private:
  std::unique_ptr<io::UdpPort> port_;
  const Endpoint server_;
  const uint8_t job_id_;
  const uint8_t id_;
};

TEST(ApplianceTest, CountsLocalWorkersUnlessItServesSocketsOnly) {
  const auto appliance = Appliance::start(config_of({small_job(1, 1)}));
  ASSERT_TRUE(appliance.has_value()) << appliance.error().text;
  EXPECT_EQ((*appliance)->stats()["local"]["connections"], 0);
  const auto port = io::connect_local_port((*appliance)->local());
  ASSERT_TRUE(port.has_value()) << port.error().text;
  const nlohmann::json local = (*appliance)->stats()["local"];
  EXPECT_EQ(local["socket"], "@tributary-" + (*appliance)->local().to_string());
  EXPECT_EQ(local["connections"], 1);
  EXPECT_EQ(local["connections_opened"], 1);

  ApplianceConfig sockets_only = config_of({small_job(1, 1)});
  sockets_only.local = false;
  const auto other = Appliance::start(sockets_only);
  ASSERT_TRUE(other.has_value()) << other.error().text;
  EXPECT_FALSE((*other)->stats().contains("local"));
  EXPECT_FALSE(io::connect_local_port((*other)->local()).has_value());
}

TEST(ApplianceTest, ServesAllItsJobs) {
  const auto appliance = Appliance::start(config_of({small_job(1, 2), small_job(9, 1)}));
  ASSERT_TRUE(appliance.has_value()) << appliance.error().text;
  Source first(**appliance, 1, 0);
  Source second(**appliance, 1, 1);
  Source alone(**appliance, 9, 0);
  for (uint32_t block = 0; block < 5; block++) {
    first.send(block, 10);
    alone.send(block, 7);
    second.send(block, 20);
    EXPECT_EQ(first.receive(), 30);
    EXPECT_EQ(second.receive(), 30);
    EXPECT_EQ(alone.receive(), 7);
  }
  const nlohmann::json stats = (*appliance)->stats();
  EXPECT_EQ(stats["command"], "serve");
  EXPECT_EQ(stats["listen"], (*appliance)->local().to_string());
  EXPECT_EQ(stats["counters"]["aggregated"], 15);
  EXPECT_EQ(stats["counters"]["block_completed"], 10);
  EXPECT_EQ(stats["counters"]["truncated"], 0);
  EXPECT_EQ(stats["bytes"]["aggregated"], 15 * 16);
  ASSERT_EQ(stats["jobs"].size(), 2U);
  EXPECT_EQ(stats["jobs"][0]["id"], 1);
  EXPECT_EQ(stats["jobs"][0]["block_total_cnt"], 5);
  EXPECT_EQ(stats["jobs"][0]["block_curr_cnt"], 0);
  EXPECT_EQ(stats["jobs"][1]["id"], 9);
  ASSERT_EQ(stats["jobs"][0]["sources"].size(), 2U);
  EXPECT_EQ(stats["jobs"][0]["sources"][1]["waited_for"], true);
  EXPECT_EQ(stats["ports"][0]["rx_packets"], 15);
}

/// Starts an appliance with one job on all addresses of this machine.
std::unique_ptr<Appliance> start_on_all_addresses(const trio_ml::JobConfig& job) {
  ApplianceConfig config = config_of({job});
  config.listen = Endpoint::ipv4(0, 0);
  auto started = Appliance::start(config);
  if (started) return *std::move(started);
  ADD_FAILURE() << started.error().text;
  return nullptr;
}

/// Returns 127.0.0.2 with the appliance's port: not the address that the kernel would answer from.
Endpoint second_address(const Appliance& server) {
  return Endpoint::ipv4(0x7f000002, server.local().port);
}

TEST(ApplianceTest, AnswersFromTheAddressThatASourceSendsTo) {
  const auto appliance = start_on_all_addresses(small_job(1, 2));
  ASSERT_NE(appliance, nullptr);
  Source first(Endpoint::ipv4(0x7f000001, appliance->local().port), 1, 0);
  Source second(second_address(*appliance), 1, 1);
  for (uint32_t block = 0; block < 3; block++) {
    first.send(block, 10);
    second.send(block, 20);
    EXPECT_EQ(first.receive(), 30);
    EXPECT_EQ(second.receive(), 30);
  }
}

TEST(ApplianceTest, RecognisesItsUpperAggregatorOnAllAddresses) {
  trio_ml::JobConfig above = small_job(1, 1);
  above.sources_are_aggregators = true;
  const auto upper = start_on_all_addresses(above);
  ASSERT_NE(upper, nullptr);
  trio_ml::JobConfig below = small_job(1, 1);
  below.upstream = second_address(*upper);
  const auto lower = start_on_all_addresses(below);
  ASSERT_NE(lower, nullptr);
  Source source(second_address(*lower), 1, 0);
  source.send(0, 10);
  EXPECT_EQ(source.receive(), 10);
  EXPECT_EQ(upper->stats()["counters"]["block_completed"], 1);
  EXPECT_EQ(lower->stats()["counters"]["upstream_result"], 1);
}

TEST(ApplianceTest, SeveralCoresShareAJob) {
  const auto appliance = Appliance::start(config_of({small_job(1, 2)}, /*cores=*/2));
  ASSERT_TRUE(appliance.has_value()) << appliance.error().text;
  Source first(**appliance, 1, 0);
  Source second(**appliance, 1, 1);
  for (uint32_t block = 0; block < 200; block++) {
    first.send(block, 1);
    second.send(block, 2);
    EXPECT_EQ(first.receive(), 3);
    EXPECT_EQ(second.receive(), 3);
  }
  const nlohmann::json stats = (*appliance)->stats();
  EXPECT_EQ(stats["counters"]["block_completed"], 200);
  ASSERT_EQ(stats["cores"].size(), 2U);
  // The first core owns blocks 0-63 and 128-191.
  EXPECT_EQ(stats["cores"][0]["packets"], 2 * 128);
  EXPECT_EQ(stats["cores"][1]["packets"], 2 * 72);
}

// Only the first core serves blocks 0 to 63, so the second has never heard of the sources.
TEST(ApplianceTest, CountsSourcesOfAllCores) {
  trio_ml::JobConfig job = small_job(1, 2);
  job.mitigation = true;
  job.timeout = milliseconds(1);
  job.permanent_after = milliseconds(10);
  const auto appliance = Appliance::start(config_of({job}, /*cores=*/2));
  ASSERT_TRUE(appliance.has_value()) << appliance.error().text;
  Source first(**appliance, 1, 0);
  nlohmann::json sources;
  // Send blocks without the second source until the first core stops waiting for it.
  for (uint32_t block = 0; block < 60; block++) {
    first.send(block, 10);
    EXPECT_EQ(first.receive(), 10);
    sources = (*appliance)->stats()["jobs"][0]["sources"];
    if (sources[1]["waited_for"] == false) break;
  }
  ASSERT_EQ(sources.size(), 2U);
  EXPECT_EQ(sources[0]["waited_for"], true);
  EXPECT_THAT(sources[0]["address"].get<std::string>(), HasSubstr("127.0.0.1:"));
  EXPECT_EQ(sources[1]["waited_for"], false);
  EXPECT_EQ(sources[1]["address"], "");
}

TEST(ApplianceTest, SnapshotShowsJobsOfAllCores) {
  const auto appliance =
      Appliance::start(config_of({small_job(1, 2), small_job(9, 1)}, /*cores=*/2));
  ASSERT_TRUE(appliance.has_value()) << appliance.error().text;
  Source first(**appliance, 1, 0);
  Source alone(**appliance, 9, 0);
  first.send(3, 10);   // Of the first core.
  first.send(70, 10);  // Of the second core.
  alone.send(0, 7);
  EXPECT_EQ(alone.receive(), 7);
  Snapshot snapshot = (*appliance)->snapshot();
  const auto is_there = [&snapshot] { return snapshot.jobs[0].blocks.size() == 2; };
  for (uint32_t i = 0; i < 100'000 && !is_there(); i++) snapshot = (*appliance)->snapshot();
  ASSERT_TRUE(is_there());
  EXPECT_EQ(snapshot.cores.size(), 2U);
  EXPECT_EQ(snapshot.ports.size(), 2U);
  EXPECT_EQ(snapshot.packets(trio_ml::Outcome::kAggregated), 3U);
  ASSERT_EQ(snapshot.jobs.size(), 2U);
  EXPECT_EQ(snapshot.jobs[0].blocks_in_progress, 2U);
  for (const BlockSnapshot& block : snapshot.jobs[0].blocks) {
    EXPECT_EQ(numbers_in(block.missing), std::vector<uint32_t>{1});
  }
  EXPECT_EQ(snapshot.jobs[1].config.id, 9);
  EXPECT_EQ(snapshot.jobs[1].blocks_total, 1U);
  (*appliance)->stop();
  EXPECT_EQ((*appliance)->snapshot().jobs[0].blocks_in_progress, 2U);
}

TEST(ApplianceTest, StatisticsRemainAfterStop) {
  const auto appliance = Appliance::start(config_of({small_job(1, 1)}));
  ASSERT_TRUE(appliance.has_value());
  Source source(**appliance, 1, 0);
  source.send(0, 4);
  EXPECT_EQ(source.receive(), 4);
  (*appliance)->stop();
  (*appliance)->stop();
  EXPECT_EQ((*appliance)->stats()["counters"]["result_sent"], 1);
}

TEST(ApplianceTest, RefusesAConfigurationWithoutJobs) {
  EXPECT_THAT(error_of(config_of({})), HasSubstr("--job"));
}

TEST(ApplianceTest, ChannelsTakeTheFollowingJobIds) {
  trio_ml::JobConfig job = small_job(3, 1);
  job.channels = 2;
  const auto appliance = Appliance::start(config_of({job, small_job(5, 1)}));
  ASSERT_TRUE(appliance.has_value()) << appliance.error().text;
  for (uint8_t id = 3; id <= 5; id++) {
    Source source(**appliance, id, 0);
    source.send(0, id);
    EXPECT_EQ(source.receive(), id);
  }
  EXPECT_EQ((*appliance)->stats()["jobs"].size(), 3U);
  EXPECT_EQ(error_of(config_of({small_job(4, 1), job})),
            "job 4: id=4 is configured twice (job 3 with channels=2 takes the ids 3 to 4)");
  EXPECT_EQ(error_of(config_of({job, small_job(4, 1)})),
            "job 4: id=4 is configured twice (job 3 with channels=2 takes the ids 3 to 4)");
}

// Job 3 has the channels 3 and 4. Only channel 4 has a block, which lacks source 1.
TEST(ApplianceTest, WaitOfAChannelNamesTheConfiguredJob) {
  trio_ml::JobConfig job = small_job(3, 2);
  job.channels = 2;
  const auto appliance = Appliance::start(config_of({small_job(1, 1), job}));
  ASSERT_TRUE(appliance.has_value()) << appliance.error().text;
  Source second(**appliance, 4, 0);
  second.send(0, 7);
  Snapshot snapshot = (*appliance)->snapshot();
  ASSERT_EQ(snapshot.jobs.size(), 3U);
  for (uint32_t i = 0; i < 100'000 && snapshot.jobs[2].blocks.empty(); i++) {
    snapshot = (*appliance)->snapshot();
  }
  EXPECT_EQ(snapshot.jobs[0].job_id(), 1U);
  EXPECT_EQ(snapshot.jobs[1].job_id(), 3U);
  EXPECT_EQ(snapshot.jobs[2].job_id(), 3U);
  EXPECT_EQ(snapshot.jobs[2].channel, 1U);
  snapshot.at = snapshot.at + seconds(1);
  const std::vector<Wait> waits = find_waits(snapshot);
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].job, 4U);
  EXPECT_EQ(waits[0].channel_of, 3U);
  EXPECT_EQ(waits[0].missing, std::vector<uint32_t>{1});
}

TEST(ApplianceTest, MemoryOfAnAsynchronousJobIsThatOfItsParameters) {
  trio_ml::JobConfig job = small_job(3, 2);
  job.asynchronous = true;
  job.parameters = 1'000'000;
  const auto appliance = Appliance::start(config_of({job}));
  ASSERT_TRUE(appliance.has_value()) << appliance.error().text;
  const uint64_t bytes = (*appliance)->snapshot().jobs[0].memory_bytes;
  EXPECT_EQ(bytes, trio_ml::memory_bytes(job, /*shard_count=*/1));
  // 4 MB of parameters, and 125,000 blocks of 8 with 16 + 2 * 32 bytes of records.
  EXPECT_GE(bytes, 14'000'000U);
}

TEST(ApplianceTest, JobsMustFitIntoTheMemory) {
  trio_ml::JobConfig large = small_job(3, 1);
  large.block_cnt_max = 4096;
  large.block_grad_max = 2048;  // 4,096 blocks and results of 8 KB: 64 MB plus headers.
  ApplianceConfig config = config_of({large});
  EXPECT_EQ(error_of(config), "started");
  config.memory_mb = 63;
  const std::string text = error_of(config);
  EXPECT_THAT(text, HasSubstr("job 3: block_cnt_max=4096, block_grad_max=2048, history=1 need"));
  EXPECT_THAT(text, HasSubstr("--memory-mb 63 has 63 MB left"));
  // The error names the second of two jobs.
  config = config_of({small_job(1, 1), large});
  config.memory_mb = 64;
  EXPECT_THAT(error_of(config), HasSubstr("job 3"));
}

TEST(ApplianceTest, UpperAggregatorMustBeAnotherServer) {
  ApplianceConfig config = config_of({small_job(1, 1)});
  std::string error;
  // Another program may take the free port first.
  for (int attempt = 0; attempt < 10 && error.find("is this server") == std::string::npos;
       attempt++) {
    config.listen = Endpoint::ipv4(0x7f000001, io::free_port(io::Transport::kUdp).value_or(0));
    config.jobs[0].upstream = config.listen;
    error = error_of(config);
  }
  EXPECT_EQ(error, "--job: job 1: upstream=" + config.listen.to_string() +
                       " is this server; give the address of the upper aggregator");
  config.listen = Endpoint::ipv4(0, config.listen.port);
  EXPECT_THAT(error_of(config), HasSubstr("is this server"));
  Endpoint loopback = *Endpoint::parse("[::1]:1");
  loopback.port = config.listen.port;
  config.jobs[0].upstream = loopback;  // 0.0.0.0 does not serve it, [::] does.
  EXPECT_EQ(error_of(config), "started");
  config.listen = *Endpoint::parse("[::]:1");
  config.listen.port = loopback.port;
  EXPECT_THAT(error_of(config), HasSubstr("is this server"));
  config.listen = Endpoint::ipv4(0, config.listen.port);
  config.jobs[0].upstream = Endpoint::ipv4(0x7f000001, config.listen.port == 1 ? 2 : 1);
  EXPECT_EQ(error_of(config), "started");
}

TEST(ApplianceTest, EachCoreNeedsItsShare) {
  trio_ml::JobConfig job = small_job(1, 1);
  job.block_cnt_max = 32;     // Less than a run of blocks: each core holds it whole.
  job.block_grad_max = 3000;  // 64 buffers of 12 KB are 0.75 MB.
  ApplianceConfig config = config_of({job}, 2);
  config.memory_mb = 1;
  EXPECT_THAT(error_of(config), HasSubstr("--memory-mb 1"));
  config.cores = 1;
  EXPECT_EQ(error_of(config), "started");
}

TEST(ApplianceTest, ErrorNamesAPortInUse) {
  const auto first = Appliance::start(config_of({small_job(1, 1)}));
  ASSERT_TRUE(first.has_value());
  ApplianceConfig config = config_of({small_job(1, 1)});
  config.listen = (*first)->local();
  const std::string text = error_of(config);
  EXPECT_THAT(text, HasSubstr("--listen"));
  EXPECT_THAT(text, HasSubstr((*first)->local().to_string()));
}

}  // namespace
}  // namespace tributary::server
