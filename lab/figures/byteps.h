// SPDX-License-Identifier: Apache-2.0
/// @file
/// The network of the BytePS paper's evaluation, which its figures share.
///
/// Units:   Rates in bit/s.
/// Threads: Pure functions.
/// Tests:   tests/lab/figures/byteps_figures_test.cc
#pragma once

#include <cstdint>

#include "lab/scenario.h"

namespace tributary::lab {

/// The rate of every machine's link, in each direction. Source: BytePS paper §7.1, Figure 12: a
/// point-to-point transfer has a goodput of about 90 Gbit/s over 100GbE, and B of equation 6 is
/// that. Here the links carry no more than that with all headers.
inline constexpr uint64_t kBytepsBitsPerS = 90'000'000'000;

/// Machines with GPUs. Source: BytePS paper §7.1 and §7.2.
inline constexpr uint32_t kBytepsMachines = 8;

/// A worker's packets in flight, of 1024 gradients. Assumed: 4 MB, one of the parts into which the
/// paper cuts tensors (§4.1). The windows of eight workers fit into a switch's queue to one machine.
inline constexpr uint32_t kBytepsWindow = 1024;

/// Returns a scenario with the paper's network and no computation, for the caller to complete.
[[nodiscard]] inline Scenario byteps_scenario(Backend backend, uint32_t workers, uint32_t spares) {
  Scenario scenario;
  scenario.backend = backend;
  scenario.workers = workers;
  scenario.aggregators.spare = spares;
  scenario.window = kBytepsWindow;
  scenario.link.rate_bits_per_s = kBytepsBitsPerS;
  scenario.host.nic_bits_per_s = kBytepsBitsPerS;
  return scenario;
}

}  // namespace tributary::lab
