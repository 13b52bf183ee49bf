// SPDX-License-Identifier: Apache-2.0
// Method:  a whole SwitchML server in this process, driven over loopback sockets and gRPC by a
//          client that makes the published client's calls in its order. Waits only in socket calls.
#include "server/switchml/switchml_appliance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "io/udp/udp_port.h"
#include "wire/switchml.h"

namespace tributary::server {
namespace {

using ::testing::HasSubstr;

/// Returns 127.0.1.rank: all addresses of 127.0.0.0/8 are local.
Endpoint worker_address(uint32_t rank) { return Endpoint::ipv4(0x7f000100 + rank, 0); }

SwitchmlConfig config_with(std::vector<SwitchmlConfig::Session> sessions, uint32_t cores = 1) {
  SwitchmlConfig config;
  config.listen = Endpoint::ipv4(0x7f000001, 0);
  config.cores = cores;
  config.memory_mb = 64;
  config.book.shard = {.sessions_max = 2, .slots_max = 256};
  config.sessions = std::move(sessions);
  return config;
}

SwitchmlConfig::Session session_of(uint32_t workers, uint32_t elements = 64) {
  SwitchmlConfig::Session session{
      .config = {.workers = workers, .elements = elements, .slots = 256}, .workers = {}};
  for (uint32_t rank = 0; rank < workers; rank++) session.workers.push_back(worker_address(rank));
  return session;
}

std::string error_of(const SwitchmlConfig& config) {
  const auto started = SwitchmlAppliance::start(config);
  return started ? "started" : started.error().text;
}

/// One worker's socket.
class Worker {
 public:
  Worker(const Endpoint& server, uint32_t rank)
      : port_(*io::UdpPort::open({.local = worker_address(rank), .peer = server})),
        server_(server) {}
  void send(uint32_t slot, bool set, uint32_t packet_id, int32_t value, uint32_t elements = 64) {
    wire::SwitchmlMessage message{
        .packet_id = packet_id, .set = set, .slot = static_cast<uint16_t>(slot)};
    message.elements.assign(elements, value);
    const auto bytes = switchml_payload(message);
    engine::TxPacket packet;
    packet.data = bytes.data();
    packet.size = static_cast<uint32_t>(bytes.size());
    packet.destination = server_;
    port_->queue(0).transmit(std::span(&packet, 1));
  }
  /// Returns the next result; fails the test if none arrives.
  wire::SwitchmlMessage receive() {
    std::array<engine::Packet, 1> burst;
    for (uint32_t i = 0; i < 10; i++) {
      if (port_->queue(0).receive(burst) == 1) {
        return wire::parse_switchml(burst[0].bytes()).value();
      }
      port_->queue(0).wait(seconds(1));
    }
    ADD_FAILURE() << "no result";
    return {};
  }

 private:
  std::unique_ptr<io::UdpPort> port_;
  const Endpoint server_;
};

/// Expects a snapshot with the counters and the only session of `stats`.
void expect_same(const Snapshot& snapshot, const nlohmann::json& stats) {
  EXPECT_EQ(snapshot.service, "switchml");
  EXPECT_EQ(snapshot.listen, stats["listen"].get<std::string>());
  ASSERT_EQ(snapshot.outcomes.size(), stats["counters"].size());
  for (const OutcomeTotal& outcome : snapshot.outcomes) {
    EXPECT_EQ(outcome.packets, stats["counters"][outcome.name]) << outcome.name;
    EXPECT_EQ(outcome.bytes, stats["bytes"].value(outcome.name, uint64_t{0})) << outcome.name;
  }
  ASSERT_EQ(snapshot.cores.size(), stats["cores"].size());
  EXPECT_EQ(snapshot.cores.back().counters.packets, stats["cores"].back()["packets"]);
  EXPECT_EQ(snapshot.ports.back().rx_packets, stats["ports"].back()["rx_packets"]);
  ASSERT_EQ(snapshot.sessions.size(), 1U);
  const SessionSnapshot& session = snapshot.sessions[0];
  EXPECT_EQ(session.workers, (std::vector<std::string>{"127.0.1.0", "127.0.1.1"}));
  EXPECT_EQ(session.slots_completed, stats["sessions"][0]["slots_completed"]);
  EXPECT_EQ(session.packets, stats["sessions"][0]["packets"]);
  EXPECT_TRUE(session.silent_for[0] && session.silent_for[1]);
}

TEST(SwitchmlApplianceTest, ServesAConfiguredSession) {
  for (const uint32_t cores : {1U, 2U}) {
    const auto appliance = SwitchmlAppliance::start(config_with({session_of(2)}, cores));
    ASSERT_TRUE(appliance.has_value()) << appliance.error().text;
    Worker first((*appliance)->local(), 0);
    Worker second((*appliance)->local(), 1);
    for (uint32_t slot = 0; slot < 128; slot++) {
      const auto value = static_cast<int32_t>(slot);
      first.send(slot, false, slot, value);
      second.send(slot, false, slot, 1000);
      // A core that hears from a worker for the first time drops its partial sums, so the first
      // worker retransmits, as after its timeout.
      if (slot % 32 == 0 && slot / 32 < cores) first.send(slot, false, slot, value);
      EXPECT_EQ(first.receive().elements, std::vector<int32_t>(64, 1000 + value));
      EXPECT_EQ(second.receive().elements, std::vector<int32_t>(64, 1000 + value));
    }
    const auto stats = (*appliance)->stats();
    EXPECT_EQ(stats["counters"]["aggregated"], 256 + cores);
    EXPECT_EQ(stats["counters"]["slot_reclaimed"], cores);
    EXPECT_EQ(stats["counters"]["slot_completed"], 128);
    EXPECT_EQ(stats["sessions"][0]["slots_completed"], 128);
    EXPECT_EQ(stats["sessions"][0]["packets"], 256 + cores);
    EXPECT_EQ(stats["sessions"][0]["workers"][1], "127.0.1.1");
    EXPECT_EQ(stats["cores"].size(), cores);
    EXPECT_EQ(stats["cores"][0]["packets"], 256 / cores + 1);  // Runs of 32 slots, in turn.
    expect_same((*appliance)->snapshot(), stats);
  }
}

TEST(SwitchmlApplianceTest, AnswersFromTheAddressThatAWorkerSendsTo) {
  SwitchmlConfig config = config_with({session_of(2)});
  config.listen = Endpoint::ipv4(0, 0);
  const auto appliance = SwitchmlAppliance::start(config);
  ASSERT_TRUE(appliance.has_value()) << appliance.error().text;
  const Endpoint server = Endpoint::ipv4(0x7f000002, (*appliance)->local().port);
  Worker first(server, 0);
  Worker second(server, 1);
  first.send(0, false, 0, 1);
  second.send(0, false, 0, 2);
  first.send(0, false, 0, 1);  // The core dropped the first sum when it heard the second worker.
  EXPECT_EQ(first.receive().elements, std::vector<int32_t>(64, 3));
  EXPECT_EQ(second.receive().elements, std::vector<int32_t>(64, 3));
}

TEST(SwitchmlApplianceTest, SessionsMayBeginWhileItServes) {
  const auto appliance = SwitchmlAppliance::start(config_with({}));
  ASSERT_TRUE(appliance.has_value()) << appliance.error().text;
  for (uint32_t rank = 0; rank < 2; rank++) {
    const auto joined = (*appliance)
                            ->join({.session_id = 7,
                                    .rank = rank,
                                    .num_workers = 2,
                                    .address = worker_address(rank),
                                    .elements = 256});
    ASSERT_TRUE(joined.has_value()) << joined.error().text;
    EXPECT_EQ(joined->ipv4, 0x7f000001U);
    EXPECT_EQ(joined->mac, 0U);  // The loopback interface has none.
  }
  Worker first((*appliance)->local(), 0);
  Worker second((*appliance)->local(), 1);
  first.send(5, true, 1, 20, 256);
  second.send(5, true, 1, 22, 256);
  EXPECT_EQ(first.receive().elements, std::vector<int32_t>(256, 42));
  EXPECT_THAT((*appliance)
                  ->join({.session_id = 8,
                          .rank = 1,
                          .num_workers = 3,
                          .address = worker_address(0),
                          .elements = 256})
                  .error()
                  .text,
              HasSubstr("127.0.1.0 is worker 0 of session 0x7, which is active"));
}

TEST(SwitchmlApplianceTest, RefusesBadConfigurations) {
  SwitchmlConfig config = config_with({session_of(2), session_of(1)});
  EXPECT_EQ(error_of(config), "--session: 127.0.1.0 is in another session");
  config = config_with({});
  config.memory_mb = 1;
  EXPECT_THAT(error_of(config),
              HasSubstr("--memory-mb 1: --sessions 2 with --slots 256 need 2 MB"));
  const auto running = SwitchmlAppliance::start(config_with({}));
  config = config_with({});
  config.listen = (*running)->local();
  EXPECT_THAT(error_of(config), HasSubstr("--listen"));
  if (!ControlServer::available()) {
    config = config_with({});
    config.control.addresses = {Endpoint::ipv4(0x7f000001, 0)};
    EXPECT_THAT(error_of(config), HasSubstr("built without gRPC"));
  }
}

}  // namespace
}  // namespace tributary::server
