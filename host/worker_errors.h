// SPDX-License-Identifier: Apache-2.0
/// @file
/// The errors of a worker: every reason for the end of its session, and the texts of a failed or an
/// imprecise sum.
///
/// Texts:   One line. It names the rank, the job, the block or the aggregator, and the remedy if
///          there is one.
/// Units:   Positions of the stream; durations since the event that the text names.
/// Threads: Pure functions.
/// Errors:  None.
/// Tests:   tests/host/worker_errors_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/endpoint.h"
#include "base/time.h"
#include "host/all_reduce.h"
#include "host/worker_config.h"
#include "wire/trio_ml.h"

namespace tributary::host {

/// No aggregator is lost, whatever the status says.
inline constexpr uint32_t kNoAggregator = UINT32_MAX;

/// The reason for the end of a session.
struct EndReason {
  Status status = Status::kOk;
  std::string text;
  /// The aggregator that this rank or another one has lost, by its place in the job's list from 1
  /// on; 0: none, or this worker's own, as the status says; or kNoAggregator.
  uint32_t lost_aggregator = 0;
};

// --- While the worker joins ---

/// The aggregator sent a kRefusal. wire::ControlBody::group names the aggregator that refuses.
/// @param gradients  Elements per packet that the worker asked for.
[[nodiscard]] EndReason refused(const CommunicatorConfig& config, uint32_t gradients,
                                const wire::ControlBody& refusal);
/// The aggregator's machine refuses packets to its port. Also while the session runs.
[[nodiscard]] EndReason nothing_listens(const Endpoint& server);
/// The aggregator's process has closed the local connection. Also while the session runs.
[[nodiscard]] EndReason connection_closed(const Endpoint& server);
/// The aggregator never answered, or only with messages of another version of the protocol.
[[nodiscard]] EndReason no_answer(const Endpoint& server, Duration waited,
                                  std::optional<uint8_t> other_version = {});
/// Another worker has this rank. With several aggregators, the other worker may be this one: it
/// joined the same aggregator under another address.
[[nodiscard]] EndReason rank_taken(const CommunicatorConfig& config);
[[nodiscard]] EndReason job_in_use(const CommunicatorConfig& config);
/// The directory has not found the job's aggregators.
[[nodiscard]] EndReason no_aggregators(const CommunicatorConfig& config);
/// The directory has another list of aggregators than this worker.
[[nodiscard]] EndReason other_list(const CommunicatorConfig& config);
/// @param ranks   The missing ranks as missing_ranks() lists them. Empty: all ranks of this
///                worker's aggregator have joined.
/// @param is_tree Whether that aggregator waits for an upper one.
[[nodiscard]] EndReason ranks_not_joined(const CommunicatorConfig& config, const std::string& ranks,
                                         Duration waited, bool is_tree);

/// An upper aggregator does not answer the one below it. Also while the session runs.
[[nodiscard]] EndReason upper_aggregator_silent(const CommunicatorConfig& config,
                                                const Endpoint& upper, Duration silent_for);
/// All ranks of this worker's aggregator have joined, and `upper` waits for other aggregators.
[[nodiscard]] EndReason others_not_joined(const CommunicatorConfig& config, const Endpoint& upper,
                                          Duration waited);

// --- While the session runs. `upper`: the upper aggregator at fault; not set: the worker's own ---

[[nodiscard]] EndReason closed();
/// The aggregator stopped answering.
[[nodiscard]] EndReason aggregator_silent(const Endpoint& server, Duration silent_for);
/// @param ranks  The missing ranks as missing_ranks() lists them.
[[nodiscard]] EndReason ranks_missing(const Endpoint& server, const std::string& ranks,
                                      uint64_t position, Duration waited);
/// The aggregator answers this rank, but lacks its own contribution.
/// @param packet_bytes  The longest contribution.
[[nodiscard]] EndReason own_packets_missing(const CommunicatorConfig& config, uint32_t packet_bytes,
                                            uint64_t position, Duration waited);
/// All other ranks have contributed, and the aggregator waits for this one, which only receives.
[[nodiscard]] EndReason only_receives(const CommunicatorConfig& config, uint64_t position,
                                      Duration waited);
/// The worker does not know the missing rank. If it has heard nothing from the aggregator for half
/// of the time waited, the aggregator may be at fault.
/// @param upstream  The aggregator has all its contributions and waits for an upper aggregator.
[[nodiscard]] EndReason unknown_rank_missing(const Endpoint& server, bool upstream,
                                             uint64_t position, Duration waited,
                                             Duration silent_for);
[[nodiscard]] EndReason job_in_use_by_plain_clients(const CommunicatorConfig& config);
[[nodiscard]] EndReason aggregator_stopped(const Endpoint& server, const Endpoint& upper = {});
[[nodiscard]] EndReason job_removed(const CommunicatorConfig& config, const Endpoint& upper = {});
/// The operator of `upper` has removed this worker's aggregator, or its own operator this worker.
[[nodiscard]] EndReason evicted(const CommunicatorConfig& config, const Endpoint& upper = {});
/// @param lower  The lower aggregator that is silent, with the ranks below it; not set: the ranks.
[[nodiscard]] EndReason peer_silent(const std::string& ranks, const Endpoint& lower,
                                    Duration silent_for, uint64_t position);
[[nodiscard]] EndReason session_lost(const Endpoint& server, const Endpoint& upper = {});
/// The aggregator has discarded the result of this position.
/// @param parameters Number of parameters of the asynchronous job, modulo 2^32.
[[nodiscard]] EndReason not_parameters(const CommunicatorConfig& config, uint32_t parameters);
[[nodiscard]] EndReason past_cache(const CommunicatorConfig& config, uint64_t position);
/// @param ranks            The ranks that left, as ranks_text() names them.
/// @param lost_aggregator  The aggregator that they have lost, from 1 on; 0: none.
[[nodiscard]] EndReason peer_left(const CommunicatorConfig& config, const std::string& ranks,
                                  uint32_t lost_aggregator, uint64_t position);
/// @param who     The ranks that differ, and their terms `given`.
/// @param others  The ranks that came first, and their terms `expected`.
[[nodiscard]] EndReason mismatch(const std::string& who, const wire::TensorTerms& given,
                                 const std::string& others, const wire::TensorTerms& expected,
                                 uint64_t position);

// --- A failed sum; the session goes on ---

[[nodiscard]] std::string overflow_text(wire::ElementFormat format, float scale, uint32_t world);
[[nodiscard]] std::string not_finite_text();

/// A warning is due if more than one in this many non-zero elements became 0. Source: assumed.
/// Elements that are spread evenly around 0 are then at most 32 units of their lanes.
inline constexpr uint64_t kUnderflowWarningShare = 64;
/// Returns Outcome::warning for a sum with status kOk; empty if there is nothing to warn of.
[[nodiscard]] std::string precision_warning(const Outcome& outcome, wire::ElementFormat format,
                                            float scale);

// --- Parts of texts ---

/// Returns "rank 1, 3", at most eight ranks, or `nobody` for an empty set.
[[nodiscard]] std::string ranks_text(const SourceSet& ranks, const char* nobody);
/// Returns "1, 3": the ranks of those sources (0 … sources-1) that are not in `present`.
/// @param sources    At most wire::kSourcesMax; decode_message() refuses more.
/// @param rank_base  Rank of source 0.
[[nodiscard]] std::string missing_ranks(const SourceSet& present, uint32_t sources,
                                        uint32_t rank_base);

}  // namespace tributary::host
