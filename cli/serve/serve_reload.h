// SPDX-License-Identifier: Apache-2.0
/// @file
/// SIGHUP: brings the jobs of a running server to those of its --config file.
///
/// Errors:  A file that cannot be read changes nothing. The log has the result in every case.
/// Tests:   tests/system/configuration_test.cc, tests/server/job_reload_test.cc
#pragma once

#include "cli/settings.h"
#include "server/job_reload.h"
#include "server/log/log.h"

namespace tributary::cli {

/// @pre settings.is_from_file(server::job_keys())
void reload_jobs(const Settings& settings, server::JobReload& jobs, server::Log& log);

}  // namespace tributary::cli
