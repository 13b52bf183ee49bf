// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a set of collectives over a VirtualNet from beginning to end: workers that join, compute a
/// while, reduce, and leave; with a ReduceOracle that looks at everything they are given.
///
/// Units:   Virtual time.
/// Errors:  faults() lists everything that was wrong.
/// Tests:   used by tests/host/virtual_network_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/host/reduce_oracle.h"
#include "tests/support/virtual_net.h"

namespace tributary::testing {

struct ScenarioConfig {
  uint64_t seed = 1;
  LinkFaults faults;
  trio_ml::JobConfig job;  ///< Of the root; sources and tree are filled in.
  /// Ranks below each lower aggregator; empty: all ranks at the root.
  std::vector<uint32_t> leaves;
  uint32_t world = 2;
  uint32_t gradients = 8;
  uint32_t window = 16;
  uint32_t in_flight = 1;  ///< Collectives that a worker has on their way at once.
  Duration compute_max = microseconds(500);  ///< Between two of them, uniformly from 0.
  Duration deadline = seconds(20);
  uint32_t pauses = 0;  ///< Of random workers at random times.
  Duration pause_max = milliseconds(200);
  bool garbage = false;  ///< A stranger sends nonsense to everybody.
  std::vector<Collective> work;
};

class NetScenario {
 public:
  explicit NetScenario(const ScenarioConfig& config);

  /// Runs until every worker has done everything, or has ended with an error; at most `limit`.
  void run(Duration limit);
  /// Lets every worker leave and checks that the aggregators then hold nothing.
  void finish();

  /// What was wrong so far, one line each.
  [[nodiscard]] const std::vector<std::string>& faults() const { return faults_; }
  [[nodiscard]] VirtualNet& net() { return net_; }
  [[nodiscard]] uint32_t aggregator_count() const { return aggregator_count_; }
  [[nodiscard]] uint64_t degraded_blocks() const { return degraded_blocks_; }
  /// Workers that ended with this status.
  [[nodiscard]] uint32_t ended_with(host::Status status) const;

 private:
  struct Running {
    uint32_t collective;
    Tensor tensor;
    host::Transfer transfer;
    bool noted = false;
  };
  struct Rank {
    uint32_t worker = 0;
    uint32_t submitted = 0;
    uint32_t finished = 0;
    bool computing = false;
    std::vector<std::unique_ptr<Running>> running;
  };

  void build_flat();
  void build_tree();
  void add_rank(uint32_t rank, const Endpoint& server, uint32_t source);
  void schedule_pauses();
  void schedule_garbage();
  /// Looks at what has finished and submits what is next. @return whether all is over.
  bool advance();
  void note(uint32_t rank, Running& running);
  void submit_next(uint32_t rank);
  void check_buffers(uint32_t aggregator, bool kept_results);

  const ScenarioConfig config_;
  VirtualNet net_;
  Prng draws_;
  ReduceOracle oracle_;
  std::vector<Rank> ranks_;
  uint32_t aggregator_count_ = 0;
  uint64_t degraded_blocks_ = 0;
  bool over_ = false;
  std::vector<std::string> faults_;
};

}  // namespace tributary::testing
