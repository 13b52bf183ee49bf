// SPDX-License-Identifier: Apache-2.0
/// @file
/// The plan of one run of the fault campaign: jobs, their tree of aggregators, and all faults,
/// drawn from one seed.
///
/// Model:   Faults occur until `calm_at`. From then on links are clean and nothing fails, so every
///          rank that can finish must finish. Each kind of fault has its own generator: removing
///          one kind (without()) leaves the others unchanged. Failing runs are reduced that way.
/// Units:   Virtual time since the start; rates are probabilities per packet.
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

/// The kind of machine that the aggregators run on.
enum class FaultMachine : uint8_t {
  kLive,    ///< Cores of the live engine.
  kPfe,     ///< Modelled PFEs.
  kTofino,  ///< The modelled Tofino with SwitchML's published program. SwitchML only.
};

enum class FaultKind : uint8_t {
  kLoss,
  kCorruption,  ///< A bit flips and UDP's checksum detects it: lost.
  kScrambling,  ///< Bits flip undetected, in a field that the protocol checks and in every gradient.
                ///< (No protocol could detect a flip in gradients alone.)
  kDuplication,
  kReordering,
  kDelay,    ///< Links hold packets back by up to 100 retransmission timeouts.
  kGarbage,  ///< A stranger sends random bytes.
  kWorkerPause,
  kWorkerCrash,  ///< A worker crashes and returns as a new process.
  kAggregatorPause,
  kAggregatorCrash,  ///< An aggregator restarts with empty memory.
  kLinkCut,
  kClockStep,      ///< A monotonic clock jumps ahead.
  kMemoryRefusal,  ///< A source is so far ahead that no buffer is free for its blocks.
  kDisagreement,   ///< A rank's tensor differs from the others' in length or scale.
  kBadValue,       ///< A rank's tensor holds an infinity or an overflowing value.
  // Attackers (attackers.h). Only plans drawn with attackers have them.
  kForger,          ///< Never sees the traffic: sends every type of message with guessed keys.
  kReplayer,        ///< Reads the traffic of jobs with a secret, and repeats it.
  kTamperer,        ///< On the path: flips bits that the job's mode protects.
  kFlooder,         ///< Sends many packets at once, under its own and other addresses.
  kHalfOpenJoiner,  ///< Sends joins without a cookie, or with another address's.
  kForeignMember,   ///< A member of one job uses its key and secret on another job.
  kListMismatch,    ///< Sharded: a rank's list of aggregators differs from the others'.
  kCount,
};
inline constexpr uint32_t kFaultKindCount = static_cast<uint32_t>(FaultKind::kCount);
[[nodiscard]] constexpr bool is_attacker(FaultKind kind) {
  return kind >= FaultKind::kForger && kind <= FaultKind::kForeignMember;
}
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
  constexpr void remove_attackers() {
    for (uint32_t i = 0; i < kFaultKindCount; i++) {
      if (is_attacker(static_cast<FaultKind>(i))) remove(static_cast<FaultKind>(i));
    }
  }
  friend constexpr bool operator==(FaultKinds, FaultKinds) = default;
  /// Returns the names: "loss,delay", or "none".
  [[nodiscard]] std::string to_string() const;

 private:
  uint32_t bits_ = 0;
};

/// The shortest time after which a worker sends a probe (host/trio_ml/rtt_estimator.h).
inline constexpr Duration kRtoMin = milliseconds(2);
inline constexpr uint32_t kPlannedWorkersMax = 16;  ///< Workers of all jobs together.

/// A fault that occurs once.
struct Incident {
  FaultKind kind = FaultKind::kLoss;
  Duration at;
  uint32_t job = 0;
  uint32_t target = 0;      ///< A rank of the job, or an aggregator.
  Duration length;          ///< Duration; for a clock step, its size.
  bool aggregator = false;  ///< For clock steps and cuts: whether `target` is an aggregator.
  // In sharded plans.
  /// For delays and cuts: only the cable between rank `target` and this aggregator.
  std::optional<uint32_t> shard = {};
  /// For a crash: the aggregator's machine runs on, and refuses packets to its port (ICMP).
  bool refuses = false;
};

/// The parts of a job that only sharded plans have.
struct ShardedJob {
  std::vector<uint32_t> weights;  ///< Shape [aggregators]; some are 0.
  bool leaves_out_lost = false;   ///< When the job restarts, its list lacks a lost aggregator.
  /// The rank whose first process has another list.
  std::optional<uint32_t> other_list = {};
};

/// A rank whose first process submits a different tensor.
struct Disagreement {
  uint32_t collective = 0;
  uint32_t rank = 0;
  bool scale = false;  ///< true: a different scale; false: one more element, or
  bool owner = false;  ///< another owner of the result.
};

struct JobPlan {
  /// The configuration at the root; FaultWorld fills in sources and tree.
  trio_ml::JobConfig config;
  /// The only aggregator of this job; without it, the whole tree.
  std::optional<uint32_t> alone_at = {};
  uint32_t world = 2;
  uint32_t gradients = 8;
  uint32_t window = 16;    ///< SwitchML: slots of the pool.
  uint32_t in_flight = 1;  ///< Collectives that a worker has in flight at once.
  Duration compute_max;    ///< Maximum time between two of them; uniform from 0.
  Duration deadline = seconds(20);
  /// The launcher's delay between one rank's error and the others' restart.
  Duration notice_after;
  /// The last two run after calm_at, with all ranks in step.
  std::vector<Collective> work;
  std::optional<Disagreement> disagreement = {};
  std::optional<BadValue> bad_value = {};
  std::optional<ShardedJob> sharded = {};  ///< Set in sharded plans.
};
inline constexpr uint32_t kCalmCollectives = 2;

/// A job of clients that know the paper's format only (plain_client.h).
struct PlainJobPlan {
  trio_ml::JobConfig config;
  uint32_t aggregator = 0;
  uint32_t gradients = 1;
  uint32_t blocks = 1;  ///< Blocks in each generation.
};

/// The limits of one aggregator where the servers of a tree are unequal.
struct ServerPlan {
  uint32_t block_cnt_max = 0;
  uint32_t block_grad_max = 0;
  uint32_t room_bytes = 0;
};

/// The parts of a plan that only plans with attackers have.
struct AttackPlan {
  /// Time between two steps of each kind of attacker; 0: it is absent. Indexed by FaultKind.
  std::array<Duration, kFaultKindCount> every{};
  uint32_t flood_packets = 0;       ///< Packets of a flooder's step.
  double tamper = 0;                ///< Probability per packet of a job with a secret.
  std::vector<ServerPlan> servers;  ///< Shape [aggregators]; empty: all have the job's limits.
  std::optional<PlainJobPlan> plain = {};
};

struct FaultPlan {
  uint64_t seed = 1;
  wire::Protocol protocol = wire::Protocol::kTrioMl;
  FaultKinds kinds;
  /// Parents of the aggregators. The root is 0 and its own parent; others follow their parent. In a
  /// sharded plan every aggregator is a root.
  std::vector<uint32_t> parent = {0};
  FaultMachine machine = FaultMachine::kLive;
  /// Every job has a session with each aggregator, and cuts its tensors over them.
  bool sharded = false;
  /// SwitchML without a control plane: the switch is not cleared between two runs of the job. The
  /// server must detect restarted workers.
  bool configured = false;
  std::vector<JobPlan> jobs;
  Duration propagation = microseconds(5);
  net::LinkFaults links;  ///< Permanent faults of the links until calm_at.
  double scramble = 0;    ///< Probability per packet, at aggregators, until calm_at.
  std::vector<Incident> incidents;
  Duration garbage_every;                 ///< Interval of random packets; 0: none.
  std::optional<AttackPlan> attack = {};  ///< Set in plans drawn with attackers.
  Duration calm_at;

  [[nodiscard]] bool is_root(uint32_t aggregator) const { return parent[aggregator] == aggregator; }
  [[nodiscard]] bool has_children(uint32_t aggregator) const;
  /// Returns the number of levels of aggregators, 1 to 3.
  [[nodiscard]] uint32_t levels() const;
  /// Returns whether the faults may justify an error at a worker. Otherwise the protocol must
  /// repair everything without an error.
  [[nodiscard]] bool is_harmful() const;
};

/// A family of plans.
struct PlanShape {
  wire::Protocol protocol = wire::Protocol::kTrioMl;
  /// Trio-ML only: adds attackers, authentication, plain clients, multicast groups and unequal
  /// servers to the same plan.
  bool attackers = false;
  /// Trio-ML without attackers only: the jobs of the same plan run on two to four aggregators each,
  /// in place of a tree.
  bool sharded = false;
};

/// Draws the plan of a seed.
/// @param only The permitted kinds of faults; the rest of the plan does not depend on it.
[[nodiscard]] FaultPlan draw_plan(uint64_t seed, FaultKinds only = FaultKinds::all(),
                                  const PlanShape& shape = {});

/// Returns a description of the run in one line.
[[nodiscard]] std::string describe(const FaultPlan& plan);

}  // namespace tributary::lab
