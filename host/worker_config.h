// SPDX-License-Identifier: Apache-2.0
/// @file
/// The configuration of one rank: its place in the job and the terms that it asks for.
///
/// Units:   Elements, packets, threads; time as Duration.
/// Threads: Plain values without shared state.
/// Errors:  Communicator::join() checks the values; a protocol relies on them.
/// Tests:   tests/host/communicator_test.cc, tests/host/trio_ml/worker_terms_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "auth/secret.h"
#include "base/endpoint.h"
#include "base/time.h"
#include "host/aggregator_list.h"
#include "host/refusal_watch.h"
#include "host/worker_event.h"
#include "wire/parameter_share.h"

namespace tributary::host {

class WorkerRecorder;

/// Longest wait of a rank if neither its program nor its launcher sets one.
/// python/tributary/torch.py has a copy.
inline constexpr Duration kDeadlineDefault = seconds(60);

/// Whether a worker reaches an aggregator on its own machine through shared memory.
enum class LocalUse : uint8_t {
  kAuto,  ///< If the address is this machine's and a server answers there; otherwise UDP.
  kOn,    ///< Always; the join fails where it cannot.
  kOff,   ///< Never.
};

/// The bits of a gradient on the wire, for tensors with block exponents (docs/number-formats.md).
enum class WireBits : uint8_t {
  kAuto,  ///< 16 for float16 and bfloat16 if every aggregator takes them; 32 for float32.
  k16,    ///< 16 for float32 too; the join fails if an aggregator does not take them.
  k32,    ///< Always 32.
};

struct CommunicatorConfig {
  Endpoint server;
  /// The aggregators of a sharded job, the same list on every rank. Empty: `server` alone.
  std::vector<Aggregator> aggregators = {};
  /// Digest of `aggregators`; ranks compare it. Communicator::join() sets it.
  uint64_t list_digest = 0;
  uint8_t job_id = 1;
  uint32_t rank = 0;  ///< 0 … world-1.
  /// src_id at this worker's aggregator; not set: the rank. It differs from the rank below a tree
  /// of aggregators.
  std::optional<uint32_t> source;
  uint32_t world = 1;  ///< All ranks of the job, 1 … 256.
  /// Elements per packet. 352 fits an MTU of 1500 with every header. 0: choose by the path's MTU
  /// and the aggregator's limit. All ranks use the smallest value that any rank asks for.
  uint32_t gradients = 352;
  /// Accept a lower number of gradients if the aggregator does not allow this one. Otherwise the
  /// join is refused. Set along with gradients = 0.
  bool gradients_flexible = false;
  /// Packets in flight; the aggregator may lower it. 0: as many as the aggregator's socket can hold
  /// from all ranks. All ranks use the smallest value that any rank asks for.
  uint32_t window = 256;
  /// With several aggregators, windows follow their weights as with window = 0. For callers that do
  /// not know whether a directory will name several.
  bool window_by_weights = false;
  /// Worker threads, 1 … 16. This rank joins one job for each thread, from job_id on, and each
  /// thread reduces its part of every tensor of many blocks. The aggregator may lower the number (a
  /// job's `channels`). All ranks use the smallest value that any rank asks for. Each thread has a
  /// window of its own.
  uint32_t threads = 1;
  /// Push changes of parameters to an asynchronous job, and get its parameters in return (BytePS
  /// §5). The job must be asynchronous. Every transfer has all its parameters.
  bool asynchronous = false;
  /// The parameters that `server` keeps, if the job has several aggregators.
  wire::ParameterShare share{};
  WireBits wire = WireBits::kAuto;
  LocalUse local = LocalUse::kAuto;  ///< Used by joins that open the ports themselves.
  /// Priorities of tensors, 1 … kPrioritiesMax. Each takes `threads` channels of its own; if the
  /// aggregator allows fewer channels, there are fewer priorities. See host/send_gate.h.
  uint32_t priorities = 1;
  auth::JobAuth auth = {};  ///< The job's mode and key; the aggregator's must be the same.
  /// Ends the join early, with a leave to the aggregator.
  std::stop_token join_stop = {};
  /// Called with a sentence that names the ranks or the aggregator that the join waits for, after a
  /// second and then every ten. Each channel calls it in its own thread. Null: no calls.
  std::function<void(const std::string&)> on_join_wait = {};
  /// Called when the rank waits for others, and when others lag; see WorkerEvent. In the threads of
  /// the channels, one call at a time. It must not close the communicator or wait for an operation.
  /// Null: no calls.
  std::function<void(const WorkerEvent&)> on_event = {};
  Duration deadline = kDeadlineDefault;  ///< Longest wait for a peer, the aggregator, or the join.
  /// Longest wait at the join for an aggregator whose machine answers that nothing listens (ICMP).
  Duration server_wait = kRefusedJoinFor;
  /// Silence of an aggregator, in spite of questions, after which a session ends. Not set: with
  /// several aggregators kSilentSessionFor, because the ranks can go on with the others; otherwise
  /// the deadline.
  std::optional<Duration> server_silent = {};
  /// A directory has named the aggregators, and may soon name others. So the join ends if one of
  /// them is silent for kSilentListedFor. Communicator::join() sets it.
  bool from_directory = false;
  /// Folder for a recording of this rank's recent events, written when it ends; empty: none.
  std::string record_folder = {};
  /// Takes the events of all channels; Communicator::join() makes it.
  std::shared_ptr<WorkerRecorder> recorder = {};
  /// Repair losses. Switch it off only in experiments without loss repair: a block with a lost
  /// packet then ends at the deadline, or degraded like a straggler's.
  bool repair = true;
};

}  // namespace tributary::host
