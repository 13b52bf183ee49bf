// SPDX-License-Identifier: Apache-2.0
// Method: random bursts of packets with gaps of up to five hours, once with skip_idle() and once
//         with every run of every timer thread. Both must end in the same state.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "apps/guard/app.h"
#include "apps/telemetry/app.h"
#include "programs/run_on_live.h"
#include "tests/programs/captures.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/seed.h"

namespace tributary::programs {
namespace {

/// The app without skip_idle().
template <class App>
struct EveryRun : App {
  using App::App;
  void skip_idle(Instant since, Instant until) = delete;
};

/// Returns bursts of SYNs from a few sources to two servers, some of them floods, between gaps of
/// milliseconds to hours.
std::vector<testing::TestPacket> bursts(Prng& prng) {
  constexpr std::array<int64_t, 6> kGapsMs{20, 300, 3'000, 12'000, 600'000, 6'000'000};
  std::vector<testing::TestPacket> packets;
  int64_t at_ns = 1;
  for (uint32_t burst = 0; burst < 6; burst++) {
    const uint32_t count = 1 + prng.below(prng.chance(0.5) ? 500 : 3);
    for (uint32_t i = 0; i < count; i++) {
      auto frame = testing::ipv4_frame(60);
      frame[17] = std::byte{46};  // Total length: all but the Ethernet header.
      frame[29] = static_cast<std::byte>(prng.below(5));
      frame[33] = static_cast<std::byte>(prng.below(2));
      frame[23] = std::byte{6};
      frame[47] = std::byte{2};
      packets.push_back({at_ns, frame});
      at_ns += prng.below(20'000'000);
    }
    at_ns += kGapsMs[prng.below(kGapsMs.size())] * (1 + prng.below(3)) * 1'000'000;
  }
  return packets;
}

class IdleTimers : public ::testing::Test {
 protected:
  /// Runs the app over the capture. @return its messages.
  template <class App, class State>
  std::string run(State& state) const {
    auto reader = io::CaptureReader::open(path_);
    EXPECT_TRUE(reader.has_value());
    CaptureFeed feed(*std::move(reader), /*packet_bytes_max=*/1500);
    std::string messages;
    CaptureOutput output(std::nullopt,
                         [&messages](std::span<const std::byte> message) -> Result<void> {
                           for (const std::byte byte : message) messages += static_cast<char>(byte);
                           return {};
                         },
                         {});
    const LiveRun end = run_on_live(App(state), feed, output);
    return fmt::format("{} {} {}", end.dropped, output.counts().forwarded, messages);
  }

  testing::ScratchDirectory scratch_;
  const std::string path_ = scratch_.path() / "in.pcap";
};

/// Returns all that a run over a capture can report.
std::string text_of(const guard::GuardState& state) {
  std::string text = fmt::format("{} {} {}", state.destination_count(), state.suspect_count(),
                                 state.known().fill());
  for (const auto& counter : state.counters()) {
    text += fmt::format(" {}", counter.packets);
  }
  for (const guard::Culprit& culprit : state.report().culprits()) {
    text += "\n" + guard::to_text(culprit);
  }
  return text;
}

TEST_F(IdleTimers, GuardEndsInTheSameState) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  Prng prng(seed);
  guard::GuardConfig config;
  for (guard::LevelConfig& level : config.levels) level.pps = {5, 5, 5, 5, 5};
  config.detect_time = seconds(1);
  config.recover_time = seconds(2);
  config.known_time = seconds(5);
  config.known_bits_log2 = 16;
  config.handshakes_log2 = 10;
  config.destinations_max = 64;
  config.suspects_max = 64;
  uint32_t with_culprits = 0;
  for (uint32_t round = 0; round < 10; round++) {
    testing::write_capture(path_, bursts(prng));
    const auto end_of = [&]<class App>() {
      auto memory = memory::SharedMemory::create({});
      const auto state = guard::GuardState::create(*memory, config, Instant());
      EXPECT_TRUE(state.has_value()) << state.error().text;
      const std::string output = run<App>(**state);
      with_culprits += (*state)->report().added() > 0 ? 1 : 0;
      return output + text_of(**state);
    };
    ASSERT_EQ(end_of.operator()<guard::App>(), end_of.operator()<EveryRun<guard::App>>()) << round;
  }
  EXPECT_GT(with_culprits, 2U);
}

TEST_F(IdleTimers, TelemetrySendsTheSameMessages) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  Prng prng(seed);
  telemetry::TelemetryConfig config;
  config.collector = Endpoint::ipv4(0x7f000001, 4739);
  config.flows_max = 64;
  for (uint32_t round = 0; round < 10; round++) {
    testing::write_capture(path_, bursts(prng));
    const auto end_of = [&]<class App>() {
      auto memory = memory::SharedMemory::create({});
      const auto state = telemetry::TelemetryState::create(*memory, config, Instant());
      EXPECT_TRUE(state.has_value()) << state.error().text;
      return run<App>(**state);
    };
    const std::string skipped = end_of.operator()<telemetry::App>();
    EXPECT_GT(skipped.size(), 100U);
    ASSERT_EQ(skipped, end_of.operator()<EveryRun<telemetry::App>>()) << round;
  }
}

}  // namespace
}  // namespace tributary::programs
