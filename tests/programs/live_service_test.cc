// SPDX-License-Identifier: Apache-2.0
// Method: programs on tunnels of the loopback interface, which need no rights, in this process.
//         The time of day is given by hand.
#include "programs/live_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/udp/free_port.h"
#include "programs/packet_program.h"
#include "programs/telemetry_program.h"
#include "tests/programs/captures.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/udp_peer.h"
#include "wire/vxlan.h"

namespace tributary::programs {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint32_t kNetwork = 7;

/// Returns a side that is a tunnel to `peer`.
io::InlineSideSpec tunnel(uint16_t port, const Endpoint& peer) {
  auto side = io::parse_inline_side("vxlan:127.0.0.1:" + std::to_string(port) + ",peer=" +
                                    peer.to_string() + ",vni=" + std::to_string(kNetwork));
  EXPECT_TRUE(side) << side.error().text;
  return *std::move(side);
}

struct NoState {
  static constexpr std::string_view kSummary = "Forwards each packet";
  static constexpr std::array<KeySpec, 0> kKeys{};
  template <microcode::Machine M>
  static microcode::Thread process(M& m, NoState&) {
    m.forward();
    co_return;
  }
};
template <uint32_t kMax>
struct Bounded : NoState {
  static constexpr std::string_view kName = "bounded";
  static constexpr uint32_t kCoresMax = kMax;
  static Result<std::unique_ptr<Bounded>> create(memory::SharedMemory&, const KeyValues&) {
    return std::make_unique<Bounded>();
  }
};

/// Returns the refusal of a start; empty if the program runs.
template <class Code>
std::string refusal(uint32_t cores) {
  using Instance = PacketProgram<Code>;
  const testing::UdpPeer peer;
  const auto port = io::free_port(io::Transport::kUdp);
  EXPECT_TRUE(port);
  const auto service = LiveServiceOf<Instance>::start(
      *Instance::settings().read({}, ""),
      {.sides = {tunnel(*port, peer.at())}, .cores = cores, .engine = {}}, {});
  return service ? "" : service.error().text;
}

TEST(LiveService, RefusesMoreCoresThanTheProgramAllows) {
  EXPECT_EQ(refusal<Bounded<1>>(1), "");
  EXPECT_EQ(
      refusal<Bounded<1>>(2),
      "--cores=2 is refused; allowed for the program bounded: 1, because each core has a state "
      "of its own");
  EXPECT_THAT(refusal<Bounded<3>>(4), ::testing::HasSubstr("bounded: 1 to 3, because"));
  EXPECT_THAT(refusal<Bounded<3>>(3), ::testing::HasSubstr("a tunnel has one core"));
}

TEST(LiveService, RecordsHaveTheTimeOfDayThatTheCallerTells) {
  constexpr std::chrono::seconds kStart{1'000'000'000}, kStep{3'600};
  const testing::ScratchDirectory scratch;
  const std::string records = scratch.path() / "records.jsonl";
  const testing::UdpPeer peer, collector;
  const auto port = io::free_port(io::Transport::kUdp);
  ASSERT_TRUE(port);
  const auto settings =
      kTelemetryProgram.settings().parse("collector=" + collector.at().to_string());
  ASSERT_TRUE(settings);
  const Instant begin = monotonic_now();
  const auto service = kTelemetryProgram.serve(
      *settings, {.sides = {tunnel(*port, peer.at())}, .engine = {}, .records = records},
      {.start = begin, .time_zero = io::CaptureTime(kStart)});
  ASSERT_TRUE(service) << service.error().text;

  const auto header = wire::vxlan_header(kNetwork);
  Bytes datagram(header.begin(), header.end());
  Bytes frame = testing::ipv4_frame(60);
  frame[17] = std::byte{46};  // Total length.
  datagram.insert(datagram.end(), frame.begin(), frame.end());
  peer.send(datagram, Endpoint::ipv4(INADDR_LOOPBACK, *port));
  ASSERT_EQ(peer.receive(), datagram);
  (*service)->set_time_zero(io::CaptureTime(kStart + kStep));
  // Smaller than kClockStepMin: an error of reading the clocks.
  (*service)->set_time_zero(io::CaptureTime(kStart + kStep + std::chrono::microseconds(999)));
  (*service)->stop();
  const Instant end = monotonic_now();

  std::ifstream file(records);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const int64_t start_ns = nlohmann::json::parse(line)["start_ns"];
  const int64_t zero_ns = std::chrono::nanoseconds(kStart + kStep).count();
  EXPECT_GE(start_ns, zero_ns + in_nanoseconds(begin - Instant()));
  EXPECT_LE(start_ns, zero_ns + in_nanoseconds(end - Instant()));
}

}  // namespace
}  // namespace tributary::programs
