// SPDX-License-Identifier: Apache-2.0
/// @file
/// The URLs of the control API that change jobs. docs/monitoring.md describes them.
///
/// Threads: Any, several at once; JobControl serialises the calls.
/// Errors:  400 for a body that is not the JSON wanted, an unknown key and a value out of range;
///          404 for an unknown job or source; 409 for a job that exists, is in use, or does not
///          take the command; 503 while the server ends; 507 if the job does not fit into the
///          memory.
/// Tests:   tests/server/control/job_routes_test.cc
#pragma once

#include <string>

#include "server/control/api.h"

namespace tributary::control {

/// The variable parts of a URL, as they were written.
struct UrlParts {
  std::string id;  ///< Id of a job, or name of a recording.
  std::string source;
};

/// POST /v1/jobs: adds the job whose keys the body has.
[[nodiscard]] Reply post_job(const ApiConfig& config, const Request& request, const UrlParts&);
/// DELETE /v1/jobs/{id}: removes a job; with ?force=true although it is in use.
[[nodiscard]] Reply delete_job(const ApiConfig& config, const Request& request,
                               const UrlParts& parts);
/// POST /v1/jobs/{id}/drain: starts no further session, and removes the job when it is unused.
[[nodiscard]] Reply drain_job(const ApiConfig& config, const Request& request,
                              const UrlParts& parts);
/// PATCH /v1/jobs/{id}: changes timeout_ms, silence or both. If one of them is refused, the other
/// may have changed.
[[nodiscard]] Reply patch_job(const ApiConfig& config, const Request& request,
                              const UrlParts& parts);
/// DELETE /v1/jobs/{id}/sources/{source}: evicts a source.
[[nodiscard]] Reply delete_source(const ApiConfig& config, const Request& request,
                                  const UrlParts& parts);

}  // namespace tributary::control
