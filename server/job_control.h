// SPDX-License-Identifier: Apache-2.0
/// @file
/// The changes of an operator to a running server: add, remove and drain jobs, change a timeout or
/// the effect of silence, evict a source. Appliance implements it; the control API offers it.
///
/// Threads: Any. Calls take turns, and each returns when all cores have carried it out.
/// Errors:  A refused call changes nothing. Its text names the job and the remedy.
/// Tests:   tests/server/appliance_jobs_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "apps/trio_ml/config.h"
#include "base/time.h"

namespace tributary::server {

enum class JobFault : uint8_t {
  kUnknownJob,     ///< There is no such job.
  kUnknownSource,  ///< The job has no such source, or the source has not come or has left.
  kExists,         ///< A job has this id already.
  kInUse,          ///< Workers use the job.
  kNotAllowed,     ///< The job, or this server, does not take this value or command.
  kNoMemory,       ///< The job does not fit into the server's memory.
  kEnding,         ///< The server ends.
};

struct JobError {
  JobFault fault;
  std::string text;  ///< One line, no final period, no newline.
};

using JobResult = tl::expected<void, JobError>;

/// The keys of a running job that can change; those without a value stay.
struct JobChange {
  std::optional<Duration> timeout = {};  ///< Straggler timeout: 1 to 60,000 whole milliseconds.
  /// The effect of a member that is silent, also for the running session.
  std::optional<trio_ml::Silence> silence = {};
};

struct RunningJob {
  trio_ml::JobConfig config;  ///< As given to add_job(), with the changes since.
  bool draining = false;
};

class JobControl {
 public:
  virtual ~JobControl() = default;

  /// Returns the job with this id; nothing if there is none, or a channel of another job.
  [[nodiscard]] virtual std::optional<RunningJob> find_job(uint32_t id) const = 0;
  /// Adds a job with all its channels, as `--job` does at the start.
  /// @param job Must pass trio_ml::check().
  virtual JobResult add_job(const trio_ml::JobConfig& job) = 0;
  /// Removes a job with all its channels, and returns its memory. Workers that wait for it, and
  /// with `force` its members, are told.
  /// @param force Remove it although a session runs, or plain packets have come lately.
  virtual JobResult remove_job(uint32_t id, bool force) = 0;
  /// Starts no further session. The job goes when its workers have left; at once if it has none.
  virtual JobResult drain_job(uint32_t id) = 0;
  /// Changes all keys of `change`, or none of them.
  virtual JobResult change_job(uint32_t id, const JobChange& change) = 0;
  /// Removes a source from the job's session, or from those that wait for one, and tells it. In a
  /// job of plain packets, forgets the source's address. The source loses all its channels.
  virtual JobResult evict_source(uint32_t id, uint32_t source) = 0;
};

}  // namespace tributary::server
