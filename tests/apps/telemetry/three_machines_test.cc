// SPDX-License-Identifier: Apache-2.0
// Method: the same frames at the same times on the live machine and on the modelled Trio, at both
// fidelities. The records of each flow must add up to the same sums. Then the model's prices: a
// flow's packets contend for its bucket and its record, other flows' packets do not.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "apps/telemetry/app.h"
#include "base/event_core.h"
#include "engine/model/pfe.h"
#include "tests/apps/telemetry/bed.h"
#include "tests/support/seed.h"

namespace tributary::telemetry {
namespace {

/// The program on the modelled Trio.
class ModelBed final : private engine::PfeSink {
 public:
  ModelBed(const TelemetryConfig& config, engine::Fidelity fidelity)
      : state_(*TelemetryState::create(memory_, config, Instant())) {
    engine::Parameters parameters = *engine::preset(5);
    parameters.fidelity = fidelity;
    engine::PfeSink& sink = *this;
    pfe_ = std::make_unique<engine::Pfe<App>>(core_, parameters, memory_, App(*state_), sink);
  }

  void packet(const FrameSpec& spec) {
    const Bytes frame = frame_of(spec);
    pfe_->arrive(frame, static_cast<uint32_t>(frame.size()), Endpoint::ipv4(spec.source, 1), 1,
                 engine::PacketLayer::kFrame);
  }
  void run_until(Instant at) { core_.run_until(at); }
  [[nodiscard]] engine::PfeCore& pfe() { return *pfe_; }
  [[nodiscard]] TelemetryState& state() { return *state_; }
  [[nodiscard]] Collector& collector() { return collector_; }
  [[nodiscard]] uint64_t forwarded() const { return forwarded_; }

 private:
  void send(std::span<const std::byte> stored, uint32_t size_bytes,
            std::span<const Endpoint> destinations) override {
    EXPECT_EQ(stored.size(), size_bytes);
    EXPECT_EQ(destinations[0], kCollector);
    collector_.receive(stored);
  }
  void forward(std::span<const std::byte>, uint32_t, const Endpoint&, uint64_t) override {
    forwarded_++;
  }

  EventCore core_;
  memory::SharedMemory memory_ = *memory::SharedMemory::create({});
  std::unique_ptr<TelemetryState> state_;
  std::unique_ptr<engine::Pfe<App>> pfe_;
  Collector collector_;
  uint64_t forwarded_ = 0;
};

FlowSums sums_of(Collector& collector) {
  collector.check_sequence();
  FlowSums sums;
  add_records(collector.take_flows(), sums);
  return sums;
}

TEST(TelemetryThreeMachines, RecordsAddUpToTheSameSums) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  LiveBed live(small_config());
  ModelBed exact(small_config(), engine::Fidelity::kExact);
  ModelBed burst(small_config(), engine::Fidelity::kBurst);
  FlowSums expected;
  uint64_t packets = 0;
  Instant now;
  // Up to 40 packets arrive at once, so the model's threads overlap. No pause is long enough for a
  // refusal: there are at most 60 flows.
  for (uint32_t group = 0; group < 200; group++) {
    now = now + microseconds(1 + prng.below(20'000));
    live.timers_until(now);
    exact.run_until(now);
    burst.run_until(now);
    for (uint32_t i = prng.below(40); i > 0; i--, packets++) {
      const FrameSpec spec{.is_ipv6 = prng.chance(0.5),
                           .source = prng.below(prng.chance(0.5) ? 3 : 30),
                           .protocol = 6,
                           .tcp_flags = prng.below(32),
                           .payload_bytes = prng.below(900)};
      expected[name_of(spec)].add(sum_of_packet(spec, now));
      live.packet(frame_of(spec), now);
      exact.packet(spec);
      burst.packet(spec);
    }
  }
  now = now + milliseconds(250);
  live.timers_until(now);
  FlowSums on_live;
  add_records(live.take_flows(), on_live);
  EXPECT_EQ(on_live, expected);
  for (ModelBed* model : {&exact, &burst}) {
    model->run_until(now);
    EXPECT_EQ(sums_of(model->collector()), expected);
    EXPECT_EQ(model->state().flow_count(), 0U);
    EXPECT_EQ(model->forwarded(), packets);
    EXPECT_EQ(model->state().counters(), live.state().counters());
  }
}

/// Returns the mean time that packets of known flows wait for banks, 50 arriving at once.
Duration bank_queue_of(uint32_t flows) {
  ModelBed bed(small_config(), engine::Fidelity::kExact);
  const auto arrive = [&](Instant at) {
    bed.run_until(at);
    for (uint32_t i = 0; i < 50; i++) bed.packet({.source = i % flows});
  };
  arrive(at_ms(1));  // Makes the records.
  bed.run_until(at_ms(2));
  bed.pfe().reset_report();
  arrive(at_ms(3));
  bed.run_until(at_ms(4));
  return bed.pfe().report().latency.parts_mean[engine::LatencyPart::kBankQueue];
}

TEST(TelemetryThreeMachines, PacketsOfOneFlowContendForItsBank) {
  EXPECT_GT(bank_queue_of(1), bank_queue_of(50) * 3);
}

}  // namespace
}  // namespace tributary::telemetry
