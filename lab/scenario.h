// SPDX-License-Identifier: Apache-2.0
/// @file
/// One run of a training cluster in virtual time, as plain data: who trains what, over which
/// network, through which aggregator, and what goes wrong.
///
/// Model:   The defaults are the Trio paper's set-up (§6.1): six workers with 100 Gbit/s, 1024
///          gradients a packet, a window of 4096 packets, 100 timer threads with 10 ms.
/// Units:   Rates in bit/s, sizes in bytes, times as Duration.
/// Errors:  check() names the first key that is not allowed, its value and what is allowed. Names
/// of
///          back ends, models and patterns are looked up there too.
/// Tests:   tests/lab/scenario_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "host/switchml_config.h"
#include "net/link_config.h"

namespace tributary::lab {

enum class Topology : uint8_t {
  kStar,       ///< All workers at one aggregator.
  kChassis,    ///< Workers on `leaves` PFEs of one chassis, one more on top (Trio paper Fig. 11b).
  kTwoLevel,   ///< The same over cables instead of a fabric: racks with a top-of-rack aggregator.
  kLeafSpine,  ///< Leaves and spines that only forward; one aggregator at leaf 0.
  kFile,       ///< As `topology_file` says.
};

enum class Payload : uint8_t {
  kElided,  ///< Sizes and times as with gradients, but there are none: fast.
  kReal,    ///< Generated integers, really added; every result is checked.
};

/// What a worker does once its iteration was completed without it.
enum class CatchUp : uint8_t {
  kSkip,     ///< Leaves the rest of its computation out until it is with the others again.
  kCompute,  ///< Computes every iteration in full, however late.
};

/// What happens when a worker is so late that its results are no longer kept.
enum class OnDesynchronised : uint8_t {
  kDrop,  ///< It stays out; the others go on without it.
  kStop,  ///< The run ends with an error.
};

/// A worker's cable, unless the scenario says otherwise.
inline constexpr net::LinkConfig kWorkerLink{
    .rate_bits_per_s = 100'000'000'000,  // Source: Trio paper §6.1.
    // Assumed: 10 m of fibre at 5 ns/m and two transceivers of 200 ns (with FEC).
    .propagation = nanoseconds(450),
    .queue_bytes_max = uint64_t{64} << 20,  // Output queue. Assumed: a router's port.
    .faults = {.reorder_max = microseconds(50)}};

struct ModelSettings {
  std::string name = "resnet50";  ///< See models(), or "custom".
  /// For "custom": bytes of each bucket in the order in which they become ready.
  std::vector<uint64_t> bucket_bytes;
  /// Forward and backward computation of an iteration; zero: the model's own. For "custom" zero is
  /// no computation.
  Duration forward = Duration();
  Duration backward = Duration();
};

struct StragglerSettings {
  std::string pattern = "none";  ///< See straggler_patterns().
  double probability = 0;        ///< slow-worker: that a delay point delays (Trio paper §6.1).
  /// Mean iteration without stragglers, in which delays are measured; zero: a short run of the same
  /// scenario without stragglers finds it.
  Duration typical_iteration = Duration();
  uint32_t worker = 0;      ///< fail-slow, pause, absent, background-flow: who.
  double factor = 2;        ///< fail-slow: its computation takes so many times as long.
  double p99_over_p50 = 3;  ///< heavy-tail: of a worker's computation time.
  Duration pause_at = milliseconds(100);   ///< pause: when its process stops …
  Duration pause_for = milliseconds(500);  ///< … and for how long.
  /// background-flow: rate of other traffic on the link toward the worker, as part of its rate.
  double background_share = 0.5;
};

struct MitigationSettings {
  Duration timeout = milliseconds(10);    ///< Source: Trio paper §6.1.
  uint32_t timer_threads = 100;           ///< Source: Trio paper §6.1.
  Duration permanent_after = seconds(1);  ///< §5 "advanced"; not used in the paper's evaluation.
  /// Results kept for each place of the window. With 4096 packets of 4 KiB 64 are 1.1 GB, which the
  /// "several GB" of Trio's DRAM hold (Trio paper §2.3).
  uint32_t history = 64;
  CatchUp catch_up = CatchUp::kSkip;
  OnDesynchronised on_desynchronised = OnDesynchronised::kDrop;
};

struct HostSettings {
  uint64_t nic_bits_per_s = 100'000'000'000;  ///< Source: Trio paper §6.1.
  // What a packet costs the host in either direction, one packet after the other: see
  // cost_of_packet(). Assumed: a core needs 100 ns to drive the NIC for a packet and 300 ns to
  // convert and move 1024 gradients, and four cores share the work, as the published SwitchML
  // client's do. With SwitchML's 256 elements that is 350 ns of a core, in and out: one core keeps
  // up with 10 Gbit/s, where such a packet takes 880 ns (SwitchML paper, Appendix B), and four are
  // at their limit with 100, as the paper's were (§5 "Supporting RDMA").
  Duration packet_cost = nanoseconds(25);              ///< Of each packet, whatever its size.
  Duration gradients_cost = nanoseconds(75);           ///< Of each 1024 gradients in it.
  uint64_t receive_buffer_bytes = uint64_t{64} << 20;  ///< Assumed: descriptors for a whole window.
  /// Repair of losses by probes. Off as in the paper's evaluation (§6.1) unless links lose packets.
  bool retransmission = false;
  Duration deadline = seconds(60);  ///< Longest wait for a peer (virtual time).

  /// Packets of one round in either direction. Source: DPDK's usual burst.
  static constexpr uint32_t kBurst = 32;
  /// Of a packet of a protocol whose packets have so many gradients; its packets without any are
  /// charged alike.
  [[nodiscard]] constexpr Duration cost_of_packet(uint32_t gradients) const {
    return packet_cost + gradients_cost * gradients / 1024;
  }
};
static_assert(HostSettings().cost_of_packet(1024) == nanoseconds(100));

/// One number of engine/model/parameters.h set to something else.
struct ParameterOverride {
  std::string name;
  double value;
};

struct PfeSettings {
  uint32_t generation = 5;         ///< Source: Trio paper §6.1 (fifth generation).
  std::string fidelity = "burst";  ///< "exact" or "burst".
  std::vector<ParameterOverride> overrides;
};

/// SwitchML's workers; their packets have the back end's number of elements, not `gradients`, and
/// their window is the pool.
struct SwitchmlSettings {
  host::SwitchmlPreset preset = host::SwitchmlPreset::kPaper;
  /// Slots. 0: what the bandwidth-delay product asks for (lab/backends/switchml_worker.h), with the
  /// preset "published" the published client's.
  uint32_t pool = 0;
  Duration timeout = Duration();  ///< Of retransmission; zero: the preset's.
};

/// Packets that a link carries, counted over time.
struct TimelineSettings {
  std::string link;                 ///< Its name ("worker-0.0>switch.0"); empty: none.
  Duration bin = milliseconds(10);  ///< Source: SwitchML paper, Figure 7.
};

struct Scenario {
  std::string backend = "trio-ml";  ///< See backends().
  Topology topology = Topology::kStar;
  uint32_t leaves = 2;  ///< PFEs or racks with workers; evenly filled.
  uint32_t spines = 2;  ///< kLeafSpine.
  /// kFile: path of a topology file (net/topology_file.h). Its nodes of kind "worker" are the ranks
  /// in their order; one node of kind "aggregator" adds for all, or several for the workers cabled
  /// to each and one of kind "top-aggregator" for these. Links are the file's.
  std::string topology_file;
  uint32_t workers = 6;
  ModelSettings model;
  uint32_t iterations = 100;
  uint64_t seed = 1;
  uint32_t gradients = 1024;  ///< In a packet.
  uint32_t window = 4096;     ///< Packets in flight of a worker; a power of two.
  uint32_t train = 1;         ///< Packets that one simulated packet stands for.
  Payload payload = Payload::kElided;
  net::LinkConfig link = kWorkerLink;
  /// Chassis: the fabric between PFEs. Assumed: 400 Gbit/s for each PFE, the rate of its four ports
  /// (12 ports of 100 Gbit/s on three PFEs, Trio paper §6.1), 500 ns across.
  net::LinkConfig fabric{.rate_bits_per_s = 400'000'000'000,
                         .propagation = nanoseconds(500),
                         .queue_bytes_max = kWorkerLink.queue_bytes_max,
                         .faults = kWorkerLink.faults};
  HostSettings host;
  MitigationSettings mitigation;
  StragglerSettings straggler;
  PfeSettings pfe;
  SwitchmlSettings switchml;
  /// Virtual time of training after which a run that has not ended is ended with an error; zero:
  /// from the scenario's own numbers.
  Duration limit = Duration();
  TimelineSettings timeline;
  /// Files for traffic: link's name ("worker-0.0>switch.0") and path.
  struct Capture {
    std::string link;
    std::string path;
  };
  std::vector<Capture> captures;
};

/// A choice that is offered by name.
struct Choice {
  std::string name;
  std::string description;  ///< One line.
};

[[nodiscard]] const std::vector<Choice>& backends();
[[nodiscard]] const std::vector<Choice>& models();
[[nodiscard]] const std::vector<Choice>& straggler_patterns();

/// @return an Error for the first key that is not allowed: "key=value is not allowed; allowed …".
[[nodiscard]] Result<void> check(const Scenario& scenario);

}  // namespace tributary::lab
