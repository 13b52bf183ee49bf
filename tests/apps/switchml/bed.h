// SPDX-License-Identifier: Apache-2.0
/// @file
/// A SwitchML core on a bench: the live machine over an in-memory port in virtual time. A test
/// sends packets like a worker and examines the core's output.
///
/// Shapes:  One core; shard 0 of 1 by default.
/// Threads: One.
/// Memory:  Allocates; for tests only.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/switchml/app.h"
#include "engine/live/live_core.h"
#include "io/memory/in_memory_port.h"
#include "tests/apps/counts.h"

namespace tributary::switchml {

using Bytes = std::vector<std::byte>;
using Values = std::vector<int32_t>;
using apps::Counts;
using Packet = wire::SwitchmlMessage;

/// Returns the address of worker `rank` of session `session`; `thread` counts its UDP ports.
Endpoint worker(uint32_t rank, uint32_t session = 0, uint16_t thread = 0);
/// Returns an address of no session.
Endpoint stranger();

/// Returns a packet whose elements are all `value`.
Packet packet(uint32_t slot, bool set, uint32_t packet_id, int32_t value, uint32_t elements = 64);

/// A packet that the core has sent.
struct Reply {
  Packet packet;
  Bytes bytes;  ///< The UDP payload.
  Endpoint to;
};

struct BedConfig {
  /// Begins session i in place i with all its workers.
  std::vector<SessionConfig> sessions = {{.workers = 2, .elements = 64, .slots = 8}};
  ShardConfig shard = {.sessions_max = 4, .slots_max = 512};
  engine::PacketLayer layer = engine::PacketLayer::kUdpPayload;
  uint32_t packets_max = 1024;
  uint32_t shard_index = 0;
  uint32_t shard_count = 1;
};

class Bed {
 public:
  explicit Bed(const BedConfig& config = {});

  /// Puts a UDP payload into the core's queue.
  void inject(const Bytes& payload, const Endpoint& from);
  /// Puts bytes into the queue unchanged: a whole frame on a bed of frames.
  void inject_raw(const Bytes& bytes);
  /// Runs rounds of the core's loop until its queue is empty; at least one.
  void run();
  /// Calls inject() and run(). @return the packets sent.
  std::vector<Reply> exchange(const Bytes& payload, const Endpoint& from);
  std::vector<Reply> exchange(uint32_t rank, const Packet& packet, uint32_t session = 0) {
    return exchange(wire::switchml_payload(packet), worker(rank, session));
  }
  /// Returns the packets sent since the last call.
  std::vector<Reply> take();

  [[nodiscard]] Counts counts() const;
  /// Returns the counts since the last call, without those of packets sent.
  Counts new_counts();
  [[nodiscard]] Shard& shard() { return *shard_; }
  [[nodiscard]] engine::LiveCore<App>& core() { return core_; }

 private:
  const BedConfig config_;
  io::InMemoryPort port_;
  memory::SharedMemory memory_;
  std::unique_ptr<Shard> shard_;
  engine::LiveCore<App> core_;
  Counts counts_before_;
  Instant now_;
};

}  // namespace tributary::switchml
