// SPDX-License-Identifier: Apache-2.0
/// @file
/// Snapshots as JSON: the bodies of the control API's answers.
///
/// Units:   Durations in milliseconds (`_ms`) or seconds (`_s`); an unknown value is null.
/// Threads: Any.
/// Tests:   tests/server/control/api_test.cc
#pragma once

#include <nlohmann/json.hpp>

#include "server/record_control.h"
#include "server/snapshot.h"
#include "server/who.h"

namespace tributary::control {

/// Returns one screen of totals: rates are differences between two of these.
[[nodiscard]] nlohmann::json status_json(const server::Snapshot& snapshot);
/// Returns a job without its sources and blocks.
[[nodiscard]] nlohmann::json job_json(const server::JobSnapshot& job);
/// Returns a job with its sources and its oldest blocks in progress.
[[nodiscard]] nlohmann::json job_details_json(const server::JobSnapshot& job, Instant now);
[[nodiscard]] nlohmann::json cores_json(const server::Snapshot& snapshot);
[[nodiscard]] nlohmann::json ports_json(const server::Snapshot& snapshot);
/// Returns the keys of a job as in --job. Contains no secret.
[[nodiscard]] nlohmann::json job_config_json(const trio_ml::JobConfig& config);
[[nodiscard]] nlohmann::json wait_json(const server::Wait& wait);
/// Returns the files of recordings. @param recorder Null: there are none.
[[nodiscard]] nlohmann::json recordings_json(server::RecordControl* recorder);

}  // namespace tributary::control
