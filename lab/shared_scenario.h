// SPDX-License-Identifier: Apache-2.0
/// @file
/// Several training jobs in one network, as plain data, and the result of their run.
///
/// Model:   The network's workers are hosts; a host runs at most one worker. Each job has its own
///          model, workers, back end, start, stragglers and seed. Jobs that add in switches share
///          the switches; all jobs share the links.
/// Order:   Jobs are sorted by name. The order of a file does not reach a result.
/// Units:   As in lab/scenario.h and lab/result.h.
/// Errors:  check() names the job, the key, its value and the allowed values.
/// Tests:   tests/lab/shared_run_test.cc, tests/lab/shared_scenario_file_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/result.h"
#include "lab/scenario.h"

namespace tributary::lab {

/// Most jobs in one network. Assumed: more than a rack of hosts has; each job with its channels
/// takes ids of the wire format's 256.
inline constexpr uint32_t kSharedJobsMax = 32;

struct SharedJob {
  std::string name;  ///< Lower-case letters, digits and dashes.
  /// `workers` is the job's; everything about network and machines is the network's.
  Scenario scenario;
  std::vector<uint32_t> hosts;  ///< By rank, ascending: the network's hosts.
  Duration start;               ///< When its workers begin to join.
  std::string where;            ///< "mix.toml:12", for messages; may be empty.
};

struct SharedScenario {
  Scenario network;             ///< `workers` is the number of hosts.
  std::vector<SharedJob> jobs;  ///< By name.

  /// Returns the same network with one of its jobs.
  [[nodiscard]] SharedScenario alone(size_t job) const { return {network, {jobs.at(job)}}; }
};

/// Returns an error for the first value that is not allowed: of the network, of a job by itself, or
/// of two jobs together (a host with two workers, a name used twice).
[[nodiscard]] Result<void> check(const SharedScenario& scenario);

/// A job's part of the result.
struct JobResult {
  std::string name;
  Backend backend = Backend::kTrioMl;
  std::vector<uint32_t> hosts;  ///< By rank.
  Duration began_at;            ///< Start of training, from the start of the run.
  /// Times, blocks and workers of this job. The network's part of it is empty: links, aggregators,
  /// packets, digest.
  RunResult run;
  std::optional<Duration> alone;  ///< Mean iteration in the same network without the other jobs.

  /// Returns the mean iteration beside that alone; nothing if the job has not run alone.
  [[nodiscard]] std::optional<double> slowdown() const;
};

struct SharedResult {
  std::vector<JobResult> jobs;  ///< By name.
  Duration total;               ///< From the first job's training to the end of the last one's.
  std::string bottleneck;
  std::vector<LinkResult> links;
  std::vector<AggregatorResult> aggregators;
  std::vector<uint64_t> timeline;  ///< From here on as in RunResult.
  uint64_t timeline_later = 0;
  std::vector<std::string> warnings;
  uint64_t packets = 0;
  uint64_t events = 0;
  uint64_t digest = 0;
};

}  // namespace tributary::lab
