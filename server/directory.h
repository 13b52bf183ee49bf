// SPDX-License-Identifier: Apache-2.0
/// @file
/// The directory: the aggregator that plans the sessions of sharded jobs with those that answer.
///
/// Model:   A thread sends each aggregator a join without a cookie every kAskEvery, for each job.
///          Any answer but "no such job" or "another secret" shows that it serves the job. In a job
///          with a secret only sealed answers count. A plan leaves out aggregators that are silent
///          for kAnswersWithin, and the lightest ones above wire::kAggregatorsMax. A running
///          session keeps its aggregators.
/// Threads: start(), stop() and state() from any thread; one thread of its own.
/// Errors:  start() returns one line, as for an address given twice or a plan that is too long.
/// Source:  BytePS §4.1 (the plan).
/// Tests:   tests/server/directory_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/trio_ml/session/session.h"
#include "base/endpoint.h"
#include "base/result.h"
#include "io/udp/udp_port.h"
#include "plan/machine.h"
#include "server/directory_state.h"

namespace tributary::server {

/// Assumed: short beside the time in which people notice, and five questions a second are no load.
inline constexpr Duration kAskEvery = milliseconds(200);
inline constexpr Duration kAnswersWithin = milliseconds(1000);

struct DirectoryConfig {
  std::vector<plan::Machine> machines;
  std::vector<std::string> endpoints;  ///< HOST:PORT of each machine's aggregator.
  /// Bytes of one all-reduce, and on the wire for each of them; for the predicted time only.
  uint64_t tensor_bytes = 100'000'000;
  double wire_ratio = 1;
};

class Directory {
 public:
  struct ServedJob {
    trio_ml::JobConfig config;
    trio_ml::Session* session = nullptr;  ///< Outlives the directory.
  };

  static Result<std::unique_ptr<Directory>> start(const DirectoryConfig& config,
                                                  const std::vector<ServedJob>& jobs);
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  void stop();
  [[nodiscard]] std::vector<DirectoryJob> state() const;

 private:
  class Watch;

  Directory(std::unique_ptr<io::UdpPort> port, std::vector<std::unique_ptr<Watch>> watches);
  void run(const std::stop_token& stop);
  void receive(Instant now);

  const std::unique_ptr<io::UdpPort> port_;
  std::vector<std::unique_ptr<Watch>> watches_;  ///< Shape [jobs].
  mutable std::mutex mutex_;                     ///< Guards the watches' state.
  std::jthread thread_;
};

}  // namespace tributary::server
