// SPDX-License-Identifier: Apache-2.0
/// @file
/// One run of a training cluster in virtual time, as plain data: the workers, the model, the
/// network, the aggregator and the faults.
///
/// Model:   The defaults are the Trio paper's set-up (§6.1): six workers with 100 Gbit/s, 1024
///          gradients a packet, a window of 4096 packets, 100 timer threads with 10 ms.
/// Units:   Rates in bit/s, sizes in bytes, times as Duration.
/// Names:   Text is converted to these types in lab/scenario_file.h, and nowhere else.
/// Errors:  check() names the first key that is not allowed, its value and the allowed values.
/// Tests:   tests/lab/scenario_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "engine/model/parameters.h"
#include "host/switchml/switchml_config.h"
#include "host/trio_ml/congestion_window.h"
#include "net/link_config.h"

namespace tributary::lab {

/// The machine that aggregates. lab/backends/backend.cc has a row for each, in this order.
enum class Backend : uint8_t {
  kTrioMl,
  kTrioMlWait,
  kWaitingSwitch,
  kIdeal,
  kSwitchml64,
  kSwitchml256,
  kSwitchml64Timeout,
  kSwitchmlOnTrio,
  kLive,
  kAsynchronous,
  kPsDedicated,
  kPsColocated,
  kSharded,
  kShardedLive,
  kRing,
  kOptireduce,
};

/// The network that workers train. lab/workload/dnn_shape.cc has a row for each but kCustom, in
/// this order.
enum class Model : uint8_t {
  kResnet50,
  kVgg11,
  kDensenet161,
  kResnet18,
  kMobilenetV2,
  kVgg16,
  kCustom,  ///< ModelSettings gives its buckets and times.
};

/// How workers become stragglers. lab/workload/straggler.cc has a row for each, in this order.
enum class Straggling : uint8_t {
  kNone,
  kSlowWorker,
  kSlowWorkerEach,
  kSlowWorkerFixed,
  kFailSlow,
  kHeavyTail,
  kPause,
  kAbsent,
  kBackgroundFlow,
  kTrace,
};

/// One or several patterns at once, each at most once. Delays add up and factors multiply.
class PatternSet {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): one pattern is a set; kNone is the empty one.
  constexpr PatternSet(Straggling pattern) { add(pattern); }

  constexpr void add(Straggling pattern) {
    if (pattern != Straggling::kNone) bits_ |= 1U << static_cast<uint32_t>(pattern);
  }
  [[nodiscard]] constexpr bool contains(Straggling pattern) const {
    return pattern == Straggling::kNone ? bits_ == 0
                                        : (bits_ >> static_cast<uint32_t>(pattern) & 1U) == 1;
  }
  friend constexpr bool operator==(PatternSet, PatternSet) = default;

 private:
  uint32_t bits_ = 0;  ///< Bit i is the pattern with number i.
};

enum class Topology : uint8_t {
  kStar,       ///< All workers at one aggregator.
  kChassis,    ///< Workers on `leaves` PFEs of one chassis, one more on top (Trio paper Fig. 11b).
  kTwoLevel,   ///< The same over cables instead of a fabric: racks with a top-of-rack aggregator.
  kLeafSpine,  ///< Leaves and spines that only forward; one aggregator at leaf 0.
  kFile,       ///< As `topology_file` says.
};

enum class Payload : uint8_t {
  kElided,  ///< Packets have sizes and times but no gradients: fast.
  kReal,    ///< Packets carry generated integers. The lab checks every sum.
};

/// The reaction of a worker to an iteration that completed without it.
enum class CatchUp : uint8_t {
  /// Skips the rest of its computation until it has caught up with the others. It receives the sums
  /// of skipped buckets and contributes nothing to them. SwitchML's workers never skip.
  kSkip,
  kCompute,  ///< Computes every iteration in full, however late.
};

/// The reaction of a run to a worker that needs results which the aggregator has dropped.
enum class OnDesynchronised : uint8_t {
  kDrop,  ///< The worker drops out; the others continue without it.
  kStop,  ///< The run ends with an error.
};

/// Most workers of a scenario. A message names up to wire::kSourcesMax of them, so a job with more
/// needs a tree of aggregators, or a back end without aggregators.
inline constexpr uint32_t kWorkersMax = 1024;

/// A worker's cable, unless the scenario says otherwise.
inline constexpr net::LinkConfig kWorkerLink{
    .rate_bits_per_s = 100'000'000'000,  // Source: Trio paper §6.1.
    // Assumed: 10 m of fibre at 5 ns/m and two transceivers of 200 ns (with FEC).
    .propagation = nanoseconds(450),
    .queue_bytes_max = uint64_t{64} << 20,  // Output queue. Assumed: a router's port.
    .faults = {.reorder_max = microseconds(50)}};

/// Workers whose cables are slower than `link` in both directions.
struct SlowLinks {
  std::vector<uint32_t> workers;              ///< By rank; empty: none.
  uint64_t rate_bits_per_s = 10'000'000'000;  ///< Assumed: a tenth of the others' rate.
};

/// Leaves whose cables to the level above are slower than `fabric` in both directions.
struct SlowUplinks {
  std::vector<uint32_t> racks;                ///< By number; empty: none.
  uint64_t rate_bits_per_s = 40'000'000'000;  ///< Assumed: a tenth of the others' rate.
};

struct ModelSettings {
  Model kind = Model::kResnet50;
  /// kCustom: bytes of each bucket, in the order in which buckets become ready. With the back end
  /// "asynchronous" there is one: all parameters.
  std::vector<uint64_t> bucket_bytes;
  /// Forward and backward computation of an iteration. Zero: the model's own; for kCustom no
  /// computation.
  Duration forward = Duration();
  Duration backward = Duration();
  /// Whether the next iteration's forward pass goes through a bucket's layers as soon as their sum
  /// has come, and not only after all sums (BytePS paper §5, §8).
  bool overlap_forward = false;
  // Parts of an iteration besides computation. By default there are none, as with data in memory
  // and a NIC that reads the GPU's memory.
  /// Whether buckets leave while the backward pass continues, as in DDP, or after it.
  bool overlap_backward = true;
  /// The input pipeline's time that no computation hides, before each forward pass.
  Duration input = Duration();
  /// Rate of the copies between the GPU's memory and the host's, either way; 0: no copies. A PCIe
  /// 3.0 x16 slot reaches 105 (BytePS paper §4.2.1: 13.1 GB/s).
  double staging_gbps = 0;
  /// Iterations that a worker computes alone before it exchanges anything: local SGD, the simplest
  /// case of bounded staleness. 1: every iteration has traffic.
  uint32_t local_steps = 1;
};

struct StragglerSettings {
  PatternSet pattern = Straggling::kNone;
  double probability = 0;  ///< slow-worker: that a delay point delays (Trio paper §6.1).
  /// Mean iteration without stragglers, the unit of delays. Zero: a short run on the back end
  /// `ideal` measures it, the same for all back ends. With a topology file or more than 256
  /// workers, the scenario's own back end does.
  Duration typical_iteration = Duration();
  uint32_t worker = 0;  ///< Rank of the one straggler, for patterns that have one.
  /// Ranks of the stragglers; if not empty, they replace `worker`, and the patterns that otherwise
  /// concern all workers concern only these.
  std::vector<uint32_t> workers;
  /// Adds all workers of these leaves to `workers`. Leaf i has the i-th part of the ranks.
  std::vector<uint32_t> racks;
  // fail-slow and heavy-tail concern all of a worker's own time: computation, input and copies. A
  // machine that fails slow is slow in all of them.
  double factor = 2;                       ///< fail-slow: multiplies the worker's own time.
  double p99_over_p50 = 3;                 ///< heavy-tail: of a worker's own time.
  Duration pause_at = milliseconds(100);   ///< pause: when the worker's process stops …
  Duration pause_for = milliseconds(500);  ///< … and for how long.
  /// background-flow: rate of the other traffic, as a share of the rate of the worker's link, from
  /// 0.001 on.
  double background_share = 0.5;
  std::string trace;  ///< trace: path of a CSV file (lab/workload/delay_trace.h).
};

struct MitigationSettings {
  Duration timeout = milliseconds(10);    ///< Source: Trio paper §6.1.
  uint32_t timer_threads = 100;           ///< Source: Trio paper §6.1.
  Duration permanent_after = seconds(1);  ///< §5 "advanced"; not used in the paper's evaluation.
  /// Results kept for each place of the window. With 4096 packets of 4 KiB, 64 results are 1.1 GB.
  /// The "several GB" of Trio's DRAM hold them (Trio paper §2.3).
  uint32_t history = 64;
  /// waiting-switch: contributions that complete a block; later ones are dropped. 0: all workers'.
  /// With backup workers it is the number of the others (Chen et al., "Revisiting Distributed
  /// Synchronous SGD", 2016); with more than half of the workers, a majority (Eager-SGD, PPoPP
  /// 2020).
  uint32_t quorum = 0;
  CatchUp catch_up = CatchUp::kSkip;
  OnDesynchronised on_desynchronised = OnDesynchronised::kDrop;
};

struct HostSettings {
  uint64_t nic_bits_per_s = 100'000'000'000;  ///< Source: Trio paper §6.1.
  // The host's time for each packet in either direction, one packet after the other; see
  // cost_of_packet(). Assumed: a core needs 100 ns to drive the NIC for a packet, and 300 ns to
  // convert and move 1024 gradients. Four cores share the work, as in the published SwitchML
  // client. A packet of 256 elements then takes 350 ns of a core, in and out. One core keeps up
  // with 10 Gbit/s, where such a packet takes 880 ns (SwitchML paper, Appendix B). Four cores are
  // at their limit at 100 Gbit/s, as the paper's were (§5 "Supporting RDMA").
  Duration packet_cost = nanoseconds(25);              ///< Time for each packet, whatever its size.
  Duration gradients_cost = nanoseconds(75);           ///< Time for each 1024 gradients in it.
  uint64_t receive_buffer_bytes = uint64_t{64} << 20;  ///< Assumed: descriptors for a whole window.
  /// Whether probes repair losses. Off as in the paper's evaluation (§6.1); needed where links lose
  /// packets.
  bool retransmission = false;
  Duration deadline = seconds(60);  ///< Longest wait for a peer (virtual time).
  /// The reaction to ECN marks: the window of packets in flight shrinks
  /// (host/trio_ml/congestion_window.h). kNone as in the Trio and SwitchML papers.
  host::CongestionControl congestion = host::CongestionControl::kNone;
  /// Priorities of buckets, as with CommunicatorConfig::priorities. Those needed first in the
  /// forward pass have one each; all others have the last one. 1: buckets leave as they become
  /// ready.
  uint32_t priorities = 1;

  /// Packets of one round in either direction. Source: DPDK's usual burst.
  static constexpr uint32_t kBurst = 32;
  /// Returns the time for a packet of a protocol with so many gradients a packet. Packets without
  /// gradients are charged the same.
  [[nodiscard]] constexpr Duration cost_of_packet(uint32_t gradients) const {
    return packet_cost + gradients_cost * gradients / 1024;
  }
};
static_assert(HostSettings().cost_of_packet(1024) == nanoseconds(100));

/// A parameter of engine/model/parameters.h with another value.
struct ParameterOverride {
  std::string name;
  double value;
};

struct PfeSettings {
  uint32_t generation = 5;  ///< Source: Trio paper §6.1 (fifth generation).
  engine::Fidelity fidelity = engine::Fidelity::kBurst;
  std::vector<ParameterOverride> overrides;
};

/// SwitchML's workers. The back end sets the elements of their packets, not `gradients`; the pool
/// is their window.
struct SwitchmlSettings {
  host::SwitchmlPreset preset = host::SwitchmlPreset::kPaper;
  /// Slots. 0: from the bandwidth-delay product (lab/backends/switchml_worker.h); with the preset
  /// "published" the published client's number.
  uint32_t pool = 0;
  Duration timeout = Duration();  ///< Retransmission timeout; zero: the preset's.
};

/// The aggregators of the back ends "sharded" and "sharded-live". plan/assignment.h gives each its
/// part of every tensor.
struct AggregatorsSettings {
  bool colocated = true;  ///< One on each worker's machine.
  uint32_t spare = 0;     ///< Machines that only aggregate, cabled as the workers' are.
};

/// Counts the packets of a link over time.
struct TimelineSettings {
  std::string link;                 ///< Its name ("worker-0.0>switch.0"); empty: none.
  Duration bin = milliseconds(10);  ///< Source: SwitchML paper, Figure 7.
};

struct Scenario {
  Backend backend = Backend::kTrioMl;
  Topology topology = Topology::kStar;
  uint32_t leaves = 2;  ///< PFEs or racks with workers; evenly filled.
  uint32_t spines = 2;  ///< kLeafSpine.
  /// kFile: path of a topology file (net/topology_file.h), which also sets the links. Nodes of kind
  /// "worker" are the ranks, in the file's order. One node of kind "aggregator" adds for all
  /// workers. Several add for the workers cabled to each, below one of kind "top-aggregator".
  std::string topology_file;
  uint32_t workers = 6;
  ModelSettings model;
  uint32_t iterations = 100;
  uint64_t seed = 1;
  uint32_t gradients = 1024;  ///< In a packet.
  uint32_t window = 4096;     ///< Packets in flight of a worker; a power of two.
  uint32_t train = 1;         ///< Packets that one simulated packet represents.
  Payload payload = Payload::kElided;
  net::LinkConfig link = kWorkerLink;
  SlowLinks slow_links;
  /// Chassis: the fabric between PFEs. Assumed: 400 Gbit/s for each PFE, the rate of its four ports
  /// (12 ports of 100 Gbit/s on three PFEs, Trio paper §6.1), 500 ns across.
  net::LinkConfig fabric{.rate_bits_per_s = 400'000'000'000,
                         .propagation = nanoseconds(500),
                         .queue_bytes_max = kWorkerLink.queue_bytes_max,
                         .faults = kWorkerLink.faults};
  SlowUplinks slow_uplinks;
  HostSettings host;
  MitigationSettings mitigation;
  StragglerSettings straggler;
  PfeSettings pfe;
  SwitchmlSettings switchml;
  AggregatorsSettings aggregators;
  /// Virtual time of training after which an unfinished run ends with an error. Zero: computed from
  /// the scenario's other numbers.
  Duration limit = Duration();
  TimelineSettings timeline;
  /// A pcap file of a link's traffic: the link's name ("worker-0.0>switch.0") and the path.
  struct Capture {
    std::string link;
    std::string path;
  };
  std::vector<Capture> captures;

  /// Returns whether the worker's cable is one of `slow_links`.
  [[nodiscard]] bool is_slow_link(uint32_t rank) const;
};

/// The name of an enumeration's value, for files and flags, and its description.
struct Choice {
  std::string name;
  std::string description;  ///< One line.
};

// In the order of the enumerations.
[[nodiscard]] const std::vector<Choice>& backends();
[[nodiscard]] const std::vector<Choice>& models();
[[nodiscard]] const std::vector<Choice>& straggler_patterns();

[[nodiscard]] const std::string& name_of(Backend backend);
[[nodiscard]] const std::string& name_of(Model model);
[[nodiscard]] const std::string& name_of(Straggling pattern);

/// A value that check() does not allow.
struct Refusal {
  std::string key;   ///< "workers"; empty if the text concerns no single key.
  std::string text;  ///< "workers=0 is not allowed; allowed: …".
};

/// Returns the first value that is not allowed: out of the key's range, or in conflict with another
/// key. This is the only place that validates scenarios.
[[nodiscard]] std::optional<Refusal> find_refusal(const Scenario& scenario);

/// Returns the text of find_refusal() as an error.
[[nodiscard]] Result<void> check(const Scenario& scenario);

}  // namespace tributary::lab
