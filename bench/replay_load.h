// SPDX-License-Identifier: Apache-2.0
/// @file
/// Contributions in memory and a port that replays them, for benchmarks of the engine without
/// packet I/O.
///
/// Model:   Sources send blocks in runs of 16, like combined datagrams. Runs are ordered by run,
///          job and source, or shuffled from a seed. A replay is one generation of every block;
///          receive() writes the generation's number into each packet.
/// Threads: One queue per thread. Nothing but the packets' generation is written to the load.
/// Memory:  Allocated in the constructors.
/// Tests:   tests/bench/engine_bench_test.cc, tests/bench/parts_bench_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/port.h"

namespace tributary::bench {

/// The packets of a ReplayLoad.
struct ReplayShape {
  uint32_t gradients = 256;
  uint32_t window = 64;  ///< Blocks of each job; a multiple of the run, or less than it.
  uint32_t blocks = 0;   ///< Blocks to send of each job, a multiple of the run; 0: all.
  uint32_t sources = 4;
  uint32_t jobs = 1;         ///< Numbers 1 to jobs.
  bool shuffled = false;     ///< Shuffle the runs of jobs and sources, always the same way.
  uint32_t owner = 0;        ///< Only the blocks of core `owner` …
  uint32_t owner_count = 1;  ///< … of this many.
};

class ReplayLoad {
 public:
  explicit ReplayLoad(const ReplayShape& shape);
  [[nodiscard]] const ReplayShape& shape() const { return shape_; }
  [[nodiscard]] uint32_t packet_bytes() const;
  [[nodiscard]] std::span<const engine::Packet> packets() const { return packets_; }

 private:
  void add_run(uint32_t job, uint32_t source, uint32_t block_first);

  const ReplayShape shape_;
  const size_t stride_;  ///< Bytes from one packet to the next.
  std::vector<std::byte> bytes_;
  std::vector<engine::Packet> packets_;
};

/// Replays a generation's packets and sums up the results.
class ReplayQueue final : public engine::PortQueue {
 public:
  explicit ReplayQueue(const ReplayLoad& load) : load_(load) {}
  void rewind(uint16_t gen_id) {
    next_ = 0;
    gen_id_ = gen_id;
  }
  [[nodiscard]] bool done() const { return next_ == load_.packets().size(); }
  /// Returns the sum of the results' first bytes since the last clear_checksum(); each result
  /// counts once.
  [[nodiscard]] uint64_t checksum() const { return checksum_; }
  void clear_checksum() { checksum_ = 0; }
  [[nodiscard]] uint64_t results() const { return results_; }

  uint32_t receive(std::span<engine::Packet> burst) override;
  void transmit(std::span<const engine::TxPacket> packets) override;
  void wait(Duration) override {}
  void wake() override {}
  [[nodiscard]] engine::PortCounters counters() const override { return {}; }

 private:
  const ReplayLoad& load_;
  size_t next_ = 0;
  uint16_t gen_id_ = 0;
  uint64_t checksum_ = 0;
  uint64_t results_ = 0;
};

}  // namespace tributary::bench
