// SPDX-License-Identifier: Apache-2.0
/// @file
/// The control plane of SwitchML's switch program: puts a session's workers into a Switch, sets the
/// simulated loss, and reads the per-slot counters.
///
/// Errors:  A session that the program or the chip cannot serve is refused in one line: too many
///          workers, two on one port, a port of another pipe (registers are not shared between
///          pipes), more slots than there are.
/// Threads: One, the switch's.
/// Tests:   tests/tofino/switchml/control_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "tofino/pipeline/switch.h"
#include "tofino/switchml/program.h"

namespace tributary::tofino {

struct SwitchmlWorker {
  uint32_t port = 0;  ///< Device port, in pipe 0.
  uint64_t mac = 0;
  uint32_t ip = 0;
};

struct SwitchmlSession {
  std::vector<SwitchmlWorker> workers;  ///< Worker i has bit i.
  uint32_t pool_slots = 0;              ///< Slots of a set that workers may use.
  uint32_t multicast_group = 1;
};

/// For a program with time-outs (SwitchmlVariant::timeout).
struct SwitchmlTimeout {
  /// Between two looks at a slot. A slot without a new contribution for one to two periods is
  /// closed.
  Duration period = {};
  Instant first_at = {};
  /// Workers' UDP port; the result of a slot that is closed has no sender to answer.
  uint16_t client_port = 0;
};

/// What became of a slot's packets. Source: the published controller's counters.
struct SwitchmlSlotCounters {
  uint64_t broadcast = 0;
  uint64_t retransmit = 0;
  uint64_t recirculate = 0;
  uint64_t drop = 0;  ///< Contributions that were taken, too: their packets end here.
};

class SwitchmlSwitch {
 public:
  /// A switch with the program of `variant`. @param sink Must outlive it.
  /// @param train See SwitchConfig.
  static Result<SwitchmlSwitch> make(const SwitchmlVariant& variant, SwitchSink& sink,
                                     Payload payload = Payload::kCarried, uint64_t seed = 1,
                                     uint32_t train = 1);

  /// Replaces the session before, whose registers stay as they are (as in the published one): use
  /// other slots, or a new switch.
  [[nodiscard]] Result<void> set_session(const SwitchmlSession& session);
  /// Starts sweeps of the packet generator over the session's slots, both sets. They end when the
  /// next session is set. A result's packet then tells with the unused bit of the pool index that
  /// not all have contributed, and in the place of the job's number how many have. One that is 0
  /// answers a worker that is late by more than a phase; the packet id says which one is on.
  /// @pre set_session() was good.
  [[nodiscard]] Result<void> set_timeout(const SwitchmlTimeout& timeout);
  /// Loses packets at the ingress, before they count, and copies at the egress.
  /// @param ingress, egress Probabilities, 0 to 1, rounded to 1/65536.
  [[nodiscard]] Result<void> set_loss(double ingress, double egress);

  [[nodiscard]] Switch& device() { return *switch_; }
  /// @pre slot < variant.slots.
  [[nodiscard]] SwitchmlSlotCounters slot_counters(uint32_t slot, bool set);
  /// One of the counters of the program that have a single entry, over all pipes: "unknown_worker",
  /// "slot_outside_pool", "simulated_loss", "simulated_egress_loss", "unknown_copy",
  /// "unknown_destination"; with time-outs also "closed", "late" and "unknown_sweep".
  [[nodiscard]] uint64_t count(std::string_view name);

 private:
  SwitchmlSwitch(const SwitchmlVariant& variant, Payload payload, std::unique_ptr<Switch> device);
  [[nodiscard]] uint64_t sum(std::string_view counter, uint32_t entry);

  SwitchmlVariant variant_;
  Payload payload_;
  std::unique_ptr<Switch> switch_;
  TableId admission_ = kNone;             ///< The first table that looks at the slot.
  std::vector<Entry> admission_entries_;  ///< Without loss.
  SwitchmlSession session_;
};

/// Ternary entries that a 16-bit number below `threshold` (0 to 65536) matches, and no other.
[[nodiscard]] std::vector<Match> matches_below(uint32_t threshold);

}  // namespace tributary::tofino
