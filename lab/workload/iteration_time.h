// SPDX-License-Identifier: Apache-2.0
/// @file
/// The time of an iteration by hand, if the network carries one bucket after the other and nothing
/// else takes time: a bound for runs on the virtual network.
///
/// Model:   Bucket k is ready at r_k of the backward pass and takes T_k on the network. f_k is the
///          forward pass of its layers, F that of all. The last sum of the buckets from k on comes
///          no earlier than r_k + T_k + T_(k+1) + ...; arrival order attains the largest of these.
///          The forward pass of the buckets from k down to 0 follows that sum.
/// Source:  Carlier, "The one-machine sequencing problem", EJOR 1982.
/// Threads: Pure functions.
/// Tests:   tests/lab/workload/iteration_time_test.cc
#pragma once

#include <span>

#include "base/time.h"
#include "lab/workload/ddp_workload.h"

namespace tributary::lab {

/// Returns the time in arrival order if the forward pass waits for all sums: the largest
/// r_k + T_k + T_(k+1) + ... + F, and no less than the computation.
/// @param transfers T_k, shape [buckets].
[[nodiscard]] Duration waiting_iteration(const Workload& workload,
                                         std::span<const Duration> transfers);

/// Returns the least time in any order if the forward pass of a bucket's layers waits for their own
/// sum and the layers before: the largest r_k + T_k + T_(k+1) + ... + f_k + ... + f_0, and no less
/// than the computation. The most urgent bucket first, with interruption at any time, attains it
/// (Jackson's preemptive schedule). @param transfers T_k, shape [buckets].
[[nodiscard]] Duration least_iteration(const Workload& workload,
                                       std::span<const Duration> transfers);

}  // namespace tributary::lab
