// SPDX-License-Identifier: Apache-2.0
/// @file
/// What happens in one run of the fault campaign: jobs, their tree of aggregators, and everything
/// that goes wrong, drawn from one seed.
///
/// Model:   Faults happen until `calm_at`; from then on links are clean and nothing breaks, so
///          everybody who can finish has to. Each kind of fault draws from a generator of its own:
///          taking one kind out (without()) changes nothing about the others, which is what makes
///          a failing run small.
/// Units:   Virtual time since the beginning; rates are probabilities of each packet.
/// Errors:  None: every seed is a plan.
/// Tests:   tests/lab/faults/fault_plan_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/trio_ml/config.h"
#include "base/time.h"
#include "lab/faults/reduce_oracle.h"
#include "net/link_config.h"
#include "wire/protocol.h"

namespace tributary::lab {

/// What the aggregators are.
enum class FaultMachine : uint8_t {
  kLive,    ///< Cores of the live engine.
  kPfe,     ///< Modelled PFEs.
  kTofino,  ///< The modelled Tofino with SwitchML's published program. SwitchML only.
};

enum class FaultKind : uint8_t {
  kLoss,
  kCorruption,  ///< A bit flips, UDP's checksum sees it: lost.
  kScrambling,  ///< Bits flip and no checksum sees it: a field that the protocol checks, and every
                ///< gradient. (A flip of gradients alone makes a wrong sum, by physics.)
  kDuplication,
  kReordering,
  kDelay,    ///< Links hold packets back by up to 100 retransmission time-outs.
  kGarbage,  ///< A stranger sends nonsense.
  kWorkerPause,
  kWorkerCrash,  ///< And return, as a new process.
  kAggregatorPause,
  kAggregatorCrash,  ///< And restart, with empty memory.
  kLinkCut,
  kClockStep,      ///< A clock jumps ahead. It never goes back: it is monotonic.
  kMemoryRefusal,  ///< A source so far ahead that there is no buffer for its blocks.
  kDisagreement,   ///< A rank's tensor differs from the others' in length or scale.
  kBadValue,       ///< A rank's tensor holds an infinity, or more than fits.
  kCount,
};
inline constexpr uint32_t kFaultKindCount = static_cast<uint32_t>(FaultKind::kCount);
[[nodiscard]] const char* to_string(FaultKind kind);
[[nodiscard]] std::optional<FaultKind> fault_kind(const std::string& name);

/// Kinds of faults, one bit each.
class FaultKinds {
 public:
  constexpr FaultKinds() = default;
  [[nodiscard]] static constexpr FaultKinds all() {
    FaultKinds kinds;
    kinds.bits_ = (1U << kFaultKindCount) - 1;
    return kinds;
  }
  [[nodiscard]] constexpr bool has(FaultKind kind) const {
    return (bits_ >> static_cast<uint32_t>(kind) & 1) != 0;
  }
  constexpr void add(FaultKind kind) { bits_ |= 1U << static_cast<uint32_t>(kind); }
  constexpr void remove(FaultKind kind) { bits_ &= ~(1U << static_cast<uint32_t>(kind)); }
  friend constexpr bool operator==(FaultKinds, FaultKinds) = default;
  /// "loss,delay"; "none" if there is none.
  [[nodiscard]] std::string to_string() const;

 private:
  uint32_t bits_ = 0;
};

/// The shortest time after which a worker asks what became of a packet (host/rtt_estimator.h).
inline constexpr Duration kRtoMin = milliseconds(2);
inline constexpr uint32_t kWorkersMax = 16;  ///< Of all jobs together.

/// Something that happens once.
struct Incident {
  FaultKind kind = FaultKind::kLoss;
  Duration at;
  uint32_t job = 0;
  uint32_t target = 0;  ///< A rank of the job; for aggregators and their cables: the aggregator.
  Duration length;      ///< For a clock step: how far it jumps.
  bool aggregator = false;  ///< Clock steps and cuts: whether `target` is an aggregator.
};

/// A rank whose first process submits another tensor than the others.
struct Disagreement {
  uint32_t collective = 0;
  uint32_t rank = 0;
  bool scale = false;  ///< Another scale; else one element more.
};

struct JobPlan {
  /// As at the root; sources and tree are filled in where it is built.
  trio_ml::JobConfig config;
  /// Aggregators of this job: all of the tree, or one of them alone.
  std::optional<uint32_t> alone_at = {};
  uint32_t world = 2;
  uint32_t gradients = 8;
  uint32_t window = 16;    ///< SwitchML: slots of the pool.
  uint32_t in_flight = 1;  ///< Collectives that a worker has on their way at once.
  Duration compute_max;    ///< Between two of them, uniformly from 0.
  Duration deadline = seconds(20);
  /// From one rank's error to the others' restart: the launcher's time to notice.
  Duration notice_after;
  /// The last two run when all is calm and all ranks are in step.
  std::vector<Collective> work;
  std::optional<Disagreement> disagreement = {};
  std::optional<BadValue> bad_value = {};
};
inline constexpr uint32_t kCalmCollectives = 2;

struct FaultPlan {
  uint64_t seed = 1;
  wire::Protocol protocol = wire::Protocol::kTrioMl;
  FaultKinds kinds;
  /// The aggregators: parent[0] is the root's, which is 0 itself; others come after their parent.
  std::vector<uint32_t> parent = {0};
  FaultMachine machine = FaultMachine::kLive;
  /// SwitchML: nobody clears the switch between two runs of the job; the server has to see by
  /// itself that workers were started again.
  bool configured = false;
  std::vector<JobPlan> jobs;
  Duration propagation = microseconds(5);
  net::LinkFaults links;  ///< What the links do all the time until it is calm.
  double scramble = 0;    ///< Likewise, at aggregators; of each packet.
  std::vector<Incident> incidents;
  Duration garbage_every;  ///< 0: none.
  Duration calm_at;

  [[nodiscard]] bool has_children(uint32_t aggregator) const;
  /// Levels of aggregators, 1 to 3.
  [[nodiscard]] uint32_t levels() const;
  /// Whether somebody may have to be told that something is lost, however well all is made: what is
  /// left otherwise must be repaired without anybody noticing.
  [[nodiscard]] bool is_harmful() const;
};

/// @param only Kinds that may happen; the run is otherwise the same as with all of them.
[[nodiscard]] FaultPlan draw_plan(uint64_t seed, FaultKinds only = FaultKinds::all(),
                                  wire::Protocol protocol = wire::Protocol::kTrioMl);

/// One line for people: what the run is like.
[[nodiscard]] std::string describe(const FaultPlan& plan);

}  // namespace tributary::lab
