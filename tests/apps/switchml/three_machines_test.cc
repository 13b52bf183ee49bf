// SPDX-License-Identifier: Apache-2.0
// Method: the same packets, one after the other, to the published program on the pipeline model, to
// the live machine and to the modelled Trio. All three must send the same bytes to the same
// workers, packet by packet.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/event_core.h"
#include "engine/model/pfe.h"
#include "tests/apps/switchml/bed.h"
#include "tests/support/seed.h"
#include "tofino/pipeline/udp_frame.h"
#include "tofino/switchml/control.h"

namespace tributary::switchml {
namespace {

using tributary::testing::Prng;

constexpr uint32_t kSlots = 3;

/// The packets that a switch sends: UDP payload by rank.
struct Delivery {
  uint32_t rank;
  Bytes payload;
  friend bool operator==(const Delivery&, const Delivery&) = default;
};
using Deliveries = std::vector<Delivery>;

Deliveries sorted(Deliveries deliveries) {
  std::ranges::sort(deliveries, {}, &Delivery::rank);
  return deliveries;
}

/// The published program on the pipeline model.
class Pipeline final : private tofino::SwitchSink {
 public:
  Pipeline(uint32_t workers, uint32_t elements)
      : switch_(*tofino::SwitchmlSwitch::make({.elements = elements}, *this)) {
    tofino::SwitchmlSession session{.workers = {}, .pool_slots = kSlots};
    for (uint32_t rank = 0; rank < workers; rank++) {
      const tofino::FrameAddress at = address(rank);
      session.workers.push_back({.port = 4 * rank, .mac = at.mac, .ip = at.ip});
    }
    EXPECT_TRUE(switch_.set_session(session).has_value());
  }
  Deliveries exchange(uint32_t rank, const Packet& packet) {
    sent_.clear();
    now_ = now_ + microseconds(20);
    const auto frame = tofino::udp_frame(address(rank), {.mac = kMac, .ip = kIp, .port = 0xbee0},
                                         wire::switchml_payload(packet));
    switch_.device().arrive(now_, 4 * rank, {frame, static_cast<uint32_t>(frame.size())});
    switch_.device().run_until(now_ + microseconds(15));
    return sorted(sent_);
  }

 private:
  static constexpr uint64_t kMac = 0x0200'0000'0001;
  static constexpr uint32_t kIp = 0x0a00'00fe;
  static tofino::FrameAddress address(uint32_t rank) {
    return {.mac = uint64_t{0x0200'0000'0100} + rank, .ip = 0x0a00'0100 + rank, .port = 4000};
  }
  void send(Instant, uint32_t port, tofino::PacketView packet) override {
    const auto frame = tofino::parse_udp_frame(packet.stored);
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(frame->to.ip, address(port / 4).ip);
    EXPECT_EQ(frame->to.port, 4000);
    sent_.push_back({port / 4, {frame->payload.begin(), frame->payload.end()}});
  }

  tofino::SwitchmlSwitch switch_;
  Deliveries sent_;
  Instant now_;
};

/// The microcode program on the live machine.
class Live {
 public:
  Live(uint32_t workers, uint32_t elements)
      : bed_({.sessions = {{.workers = workers, .elements = elements, .slots = kSlots}}}),
        workers_(workers) {}
  Deliveries exchange(uint32_t rank, const Packet& packet) {
    Deliveries deliveries;
    for (Reply& reply : bed_.exchange(rank, packet)) {
      for (uint32_t to = 0; to < workers_; to++) {
        if (reply.to == worker(to)) deliveries.push_back({to, std::move(reply.bytes)});
      }
    }
    return sorted(deliveries);
  }

 private:
  Bed bed_;
  uint32_t workers_;
};

/// The same program on the modelled Trio.
class Modelled final : private engine::PfeSink {
 public:
  Modelled(uint32_t workers, uint32_t elements, engine::Fidelity fidelity)
      : memory_(*memory::SharedMemory::create({})),
        shard_(*Shard::create({.sessions_max = 1, .slots_max = kSlots}, 0, 1, memory_)),
        workers_(workers) {
    shard_->begin_session(0, {.workers = workers, .elements = elements, .slots = kSlots});
    for (uint32_t rank = 0; rank < workers; rank++) {
      EXPECT_TRUE(shard_->set_worker(0, rank, worker(rank)).has_value());
    }
    engine::Parameters parameters = *engine::preset(5);
    parameters.fidelity = fidelity;
    engine::PfeSink& sink = *this;
    pfe_ = std::make_unique<engine::Pfe<App>>(core_, parameters, memory_, App(*shard_), sink);
  }
  Deliveries exchange(uint32_t rank, const Packet& packet) {
    sent_.clear();
    const Bytes payload = wire::switchml_payload(packet);
    pfe_->arrive(payload, static_cast<uint32_t>(payload.size()), worker(rank));
    core_.run_until(core_.now() + milliseconds(1), [] { return false; });
    return sorted(sent_);
  }
  [[nodiscard]] engine::Report report() const { return pfe_->report(); }

 private:
  void send(std::span<const std::byte> stored, uint32_t size_bytes,
            std::span<const Endpoint> destinations) override {
    EXPECT_EQ(stored.size(), size_bytes);
    for (const Endpoint& to : destinations) {
      for (uint32_t rank = 0; rank < workers_; rank++) {
        if (to == worker(rank)) sent_.push_back({rank, {stored.begin(), stored.end()}});
      }
    }
  }

  EventCore core_;
  memory::SharedMemory memory_;
  std::unique_ptr<Shard> shard_;
  uint32_t workers_;
  std::unique_ptr<engine::Pfe<App>> pfe_;
  Deliveries sent_;
};

class SwitchmlThreeMachines : public ::testing::TestWithParam<uint32_t> {};

TEST_P(SwitchmlThreeMachines, ThreeMachinesSendTheSameBytes) {
  const uint32_t elements = GetParam();
  const uint64_t seed = tributary::testing::seed_from_env();
  SCOPED_TRACE(tributary::testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t round = 0; round < 3; round++) {
    const uint32_t workers = 1 + prng.below(5);
    Pipeline pipeline(workers, elements);
    Live live(workers, elements);
    Modelled exact(workers, elements, engine::Fidelity::kExact);
    Modelled burst(workers, elements, engine::Fidelity::kBurst);
    // A worker sends its packet any number of times, and proceeds when it has the result.
    std::vector<std::vector<uint32_t>> uses(workers, std::vector<uint32_t>(kSlots));
    uint32_t results = 0;
    for (uint32_t step = 0; step < 300; step++) {
      const uint32_t rank = prng.below(workers);
      const uint32_t slot = prng.below(kSlots);
      uint32_t& use = uses[rank][slot];
      Packet one = packet(slot, use % 2 == 1, slot + kSlots * use, 0, elements);
      one.job_number = static_cast<uint8_t>(use);
      one.exponent0 = static_cast<int8_t>(prng.below(256));
      one.exponent1 = static_cast<int8_t>(prng.below(256));
      for (int32_t& element : one.elements) element = prng.any_i32();
      const Deliveries expected = pipeline.exchange(rank, one);
      ASSERT_EQ(live.exchange(rank, one), expected) << "step " << step;
      ASSERT_EQ(exact.exchange(rank, one), expected) << "step " << step;
      ASSERT_EQ(burst.exchange(rank, one), expected) << "step " << step;
      for (const Delivery& delivery : expected) {
        results++;
        if (prng.chance(0.7)) {  // Else it is lost.
          const auto result = wire::parse_switchml(delivery.payload);
          if (result->packet_id == slot + kSlots * uses[delivery.rank][slot]) {
            uses[delivery.rank][slot]++;
          }
        }
      }
    }
    EXPECT_GT(results, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, SwitchmlThreeMachines, ::testing::Values(64, 256));

}  // namespace
}  // namespace tributary::switchml
