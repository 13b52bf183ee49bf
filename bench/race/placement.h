// SPDX-License-Identifier: Apache-2.0
/// @file
/// Places Tributary's aggregators in a race, with their weights, and computes the best time.
///
/// Model:   Where all cables are shaped, one aggregator runs on each worker's machine and one on
///          each spare machine, with the weights of plan/assignment.h. Elsewhere the first spare
///          machine runs the only one.
/// Units:   Seconds. Links carry frames (wire_ratio() in result.h).
/// Threads: Pure functions.
/// Errors:  None.
/// Tests:   tests/bench/race/placement_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/race/network.h"
#include "bench/race/result.h"

namespace tributary::race {

struct Aggregator {
  bool colocated;   ///< On a worker's machine.
  uint32_t index;   ///< The worker's rank, or the spare machine's index.
  uint32_t weight;  ///< Above 0.

  friend bool operator==(const Aggregator&, const Aggregator&) = default;
};

/// Returns the aggregators of a case: the spare machines' first, without those that get no share.
[[nodiscard]] std::vector<Aggregator> place_aggregators(const NetKind& kind, const RaceCase& race);

/// Returns the time of an all-reduce with the best shares: equation 6 of the BytePS paper where all
/// links are equal. Without spare machines it is the time of the best ring.
/// @pre kind.all_shaped
[[nodiscard]] double optimum_seconds(const NetKind& kind, const RaceCase& race);

/// Returns the words before a command that runs on the aggregator's machine.
[[nodiscard]] std::vector<std::string> at_machine_of(const Aggregator& aggregator,
                                                     const RaceNetwork& network);
[[nodiscard]] std::string address_of(const Aggregator& aggregator, const RaceNetwork& network);

/// Returns the list that all workers are given: HOST:PORT of an only aggregator, otherwise
/// HOST:PORT=WEIGHT,… A worker reaches the aggregator on its machine over the loopback, because
/// the kernel routes a machine's own address there. So the list is the same on all ranks.
[[nodiscard]] std::string aggregator_list(const std::vector<Aggregator>& aggregators,
                                          const RaceNetwork& network, uint16_t port);

}  // namespace tributary::race
