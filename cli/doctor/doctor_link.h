// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of `tributary doctor` that compares this machine's link with the workers' links, and
/// predicts the time of an all-reduce with one aggregator here.
///
/// Units:   Gbit/s.
/// Threads: One.
/// Errors:  A link without a known rate becomes a finding.
/// Tests:   tests/cli/doctor/doctor_link_test.cc
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cli/doctor/doctor.h"
#include "cli/doctor/machine_facts.h"

namespace tributary::cli {

/// A job whose only aggregator runs on this machine.
struct LinkQuestion {
  uint32_t workers = 1;    ///< Worker machines, one or more.
  double worker_gbit = 0;  ///< Rate of their links; 0: that of this machine's.
  double server_gbit = 0;  ///< Rate of this machine's link; 0: as each interface tells.
  double sum_gbit = std::numeric_limits<double>::infinity();  ///< Rate at which the CPU adds.
};

/// Returns a finding for each interface that is up, except the loopback interface.
[[nodiscard]] std::vector<Finding> examine_links(std::span<const InterfaceFacts> interfaces,
                                                 const LinkQuestion& question);

}  // namespace tributary::cli
