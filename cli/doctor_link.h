// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of `tributary doctor` that compares this machine's link with the workers' links, and
/// predicts the time of an all-reduce with one aggregator here.
///
/// Units:   Gbit/s.
/// Threads: One.
/// Errors:  A link without a known rate becomes a finding.
/// Tests:   tests/cli/doctor_link_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cli/doctor.h"
#include "cli/machine_facts.h"

namespace tributary::cli {

/// Returns a finding for each interface that is up, except the loopback interface.
/// @param workers     Worker machines, one or more.
/// @param worker_gbit Rate of their links; 0: that of this machine's.
[[nodiscard]] std::vector<Finding> examine_links(std::span<const InterfaceFacts> interfaces,
                                                 uint32_t workers, double worker_gbit);

}  // namespace tributary::cli
