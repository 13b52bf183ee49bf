// SPDX-License-Identifier: Apache-2.0
/// @file
/// A server without jobs, for tests of the control API.
#pragma once

#include "server/job_control.h"

namespace tributary::control {

/// Refuses all commands.
class NoCommands : public server::JobControl {
 public:
  [[nodiscard]] std::optional<server::RunningJob> find_job(uint32_t) const override { return {}; }
  server::JobResult add_job(const trio_ml::JobConfig&) override { return refused(); }
  server::JobResult remove_job(uint32_t, bool) override { return refused(); }
  server::JobResult drain_job(uint32_t) override { return refused(); }
  server::JobResult change_job(uint32_t, const server::JobChange&) override { return refused(); }
  server::JobResult evict_source(uint32_t, uint32_t) override { return refused(); }

 private:
  static server::JobResult refused() {
    return tl::unexpected(server::JobError{server::JobFault::kUnknownJob, "no"});
  }
};

}  // namespace tributary::control
