// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of `tributary doctor` that measures how fast a core of the aggregator adds gradients:
/// the value of `tributary plan --sum-gbit`.
///
/// Method:  An aggregator and two workers run all-reduces over loopback UDP, with packets that fit
///          an MTU of 1500. The rate is the contributed bytes over the CPU time of the
///          aggregator's core. So it includes the kernel's work for its socket, but not a driver's.
/// Units:   Gbit/s of gradients.
/// Threads: Starts some, and joins them.
/// Errors:  A run that fails becomes a finding.
/// Tests:   tests/cli/doctor/doctor_sum_test.cc
#pragma once

#include "base/result.h"
#include "cli/doctor/doctor.h"

namespace tributary::cli {

/// Measures for about a second.
[[nodiscard]] Result<double> measure_sum_gbit();

/// Describes a measurement, with the flag that takes it.
[[nodiscard]] Finding describe_sum(const Result<double>& sum_gbit);

}  // namespace tributary::cli
