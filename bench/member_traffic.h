// SPDX-License-Identifier: Apache-2.0
/// @file
/// One live core that serves a session from packets in memory, with or without forged packets
/// between its members'.
///
/// Model:   Four sources send a window of blocks in runs of 16, window after window. A forged
///          packet is a member's with another key, seal and source address. Before each window all
///          packets get their block numbers, and seals in a mode that has them; this is not timed.
/// Threads: One.
/// Tests:   tests/bench/auth_bench_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "apps/trio_ml/app.h"
#include "auth/session_seal.h"
#include "base/prng.h"
#include "engine/live/live_core.h"
#include "engine/port.h"
#include "memory/shared_memory.h"

namespace tributary::bench {

struct TrafficShape {
  auth::Mode mode = auth::Mode::kNone;
  uint32_t packet_bytes = 1472;  ///< UDP payload of a member's packet, at most.
  uint32_t window = 64;          ///< A power of two, at least 16.
};

class MemberTraffic {
 public:
  static constexpr uint32_t kSources = 4;

  explicit MemberTraffic(const TrafficShape& shape);

  /// Runs a window of blocks. @return the CPU time of the core, in seconds.
  double run(bool with_forged);

  [[nodiscard]] uint32_t packets() const { return static_cast<uint32_t>(members_.size()); }
  /// Members' packets that were added, and packets that were refused, since the start.
  [[nodiscard]] uint64_t added() const { return counted(trio_ml::Outcome::kAggregated); }
  [[nodiscard]] uint64_t wrong_keys() const { return counted(trio_ml::Outcome::kWrongKey); }

 private:
  class Queue final : public engine::PortQueue {
   public:
    void load(const std::vector<engine::Packet>* packets) {
      packets_ = packets;
      next_ = 0;
    }
    [[nodiscard]] bool done() const { return next_ == packets_->size(); }
    uint32_t receive(std::span<engine::Packet> burst) override;
    void transmit(std::span<const engine::TxPacket>) override {}
    void wait(Duration) override {}
    void wake() override {}
    [[nodiscard]] engine::PortCounters counters() const override { return {}; }

   private:
    const std::vector<engine::Packet>* packets_ = nullptr;
    size_t next_ = 0;
  };

  static trio_ml::JobConfig job_of(const TrafficShape& shape);
  static memory::SharedMemory memory_for(const trio_ml::JobConfig& job);
  trio_ml::App make_app();
  /// Lets all sources join.
  void start_session();
  void make_packets();
  /// Numbers and seals the packets of the next window.
  void renew();
  [[nodiscard]] uint64_t counted(trio_ml::Outcome outcome) const {
    return shard_.counters()[static_cast<uint32_t>(outcome)].packets;
  }

  const TrafficShape shape_;
  const trio_ml::JobConfig job_;
  trio_ml::Session session_;
  memory::SharedMemory memory_;
  trio_ml::Shard shard_;
  Queue queue_;
  engine::LiveCore<trio_ml::App> core_;
  auth::MemberEnd end_;  ///< One end can seal for all: the source is an argument.
  uint32_t head_bytes_ = 0;
  uint32_t block_next_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<engine::Packet> members_;
  std::vector<engine::Packet> flooded_;  ///< A member's and a forged one, in turn.
};

}  // namespace tributary::bench
