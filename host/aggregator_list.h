// SPDX-License-Identifier: Apache-2.0
/// @file
/// The aggregators of a sharded job, as one line of text:
///
///   HOST:PORT[=WEIGHT][,HOST:PORT[=WEIGHT]]…
///
/// Model:   Every rank cuts its tensors by the same list. An aggregator sums its weight's share of
///          the sum of all weights; without a weight it has 1.
/// Units:   Weights are whole numbers from 0 to plan::kWeightMax.
/// Threads: Any; resolve() may block as long as the name service does, the others are pure.
/// Errors:  One line with the part of the list that is wrong.
/// Tests:   tests/host/aggregator_list_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "wire/trio_ml.h"

namespace tributary::host {

using wire::kAggregatorsMax;

struct Aggregator {
  std::string name;  ///< "HOST:PORT", IPv6 in brackets: equal on all ranks.
  uint32_t weight = 1;
  Endpoint address = {};  ///< Not set until the name is resolved.
};

/// Reads a list. @param default_port Port of names without a port.
[[nodiscard]] Result<std::vector<Aggregator>> parse_aggregators(std::string_view list,
                                                                uint16_t default_port);

/// Sets every address by the system's name service.
[[nodiscard]] Result<void> resolve(std::span<Aggregator> aggregators);

/// Refuses an address that two aggregators share.
[[nodiscard]] Result<void> check_addresses(std::span<const Aggregator> aggregators);

/// Returns the list as parse_aggregators() reads it. Leaves out a weight of 1.
[[nodiscard]] std::string list_text(std::span<const Aggregator> aggregators);

/// Returns a number that differs between lists with different names, order or weights.
[[nodiscard]] uint64_t list_digest(std::span<const Aggregator> aggregators);

}  // namespace tributary::host
