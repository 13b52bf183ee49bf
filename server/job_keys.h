// SPDX-License-Identifier: Apache-2.0
/// @file
/// The keys of a job, defined once for `--job key=value,…`, for `[[job]]` in a file and for the
/// help text.
///
/// Tests:   tests/server/job_keys_test.cc
#pragma once

#include "apps/trio_ml/config.h"
#include "base/key_table.h"
#include "base/result.h"

namespace tributary::server {

/// Returns the table "job". Names follow the Trio paper's job record (Figure 17) where it has them.
[[nodiscard]] const KeyTable& job_keys();

/// Returns the value of the key `clients`, as in "sessions".
[[nodiscard]] const char* clients_text(trio_ml::Clients clients);

/// Returns the effect of silence that a key's value names, or an Error that begins with `where`.
[[nodiscard]] Result<trio_ml::Silence> to_silence(const std::string& text,
                                                  const std::string& where);

/// Returns the job that a row describes, or an Error that begins with the row's origin.
[[nodiscard]] Result<trio_ml::JobConfig> to_job(const KeyValues& row);

}  // namespace tributary::server
