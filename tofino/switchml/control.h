// SPDX-License-Identifier: Apache-2.0
/// @file
/// The control plane of SwitchML's switch program. It puts a session's workers into a Switch, sets
/// the simulated loss and reads the per-slot counters.
///
/// Errors:  One line for a session that the program or the chip cannot serve: too many workers, two
///          on one port, a port of another pipe (pipes do not share registers), too many slots.
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
  uint32_t port = 0;  ///< Device port in pipe 0 to which multicast results go.
  uint64_t mac = 0;
  uint32_t ip = 0;  ///< Identifies the worker, whatever port its packets come from.
};

struct SwitchmlSession {
  std::vector<SwitchmlWorker> workers;  ///< Worker i has bit i of the bitmap.
  uint32_t pool_slots = 0;              ///< Slots of a set that the workers may use.
  uint32_t multicast_group = 1;
};

/// For a program with timeouts (SwitchmlVariant::timeout).
struct SwitchmlTimeout {
  /// Time between two sweeps of a slot. A slot without a new contribution is closed after one to
  /// two periods.
  Duration period = {};
  Instant first_at = {};
  /// The workers' UDP port. A closed slot's result answers no packet, so it has no other source for
  /// the port.
  uint16_t client_port = 0;
};

/// The outcomes of a slot's packets. Source: the published controller's counters.
struct SwitchmlSlotCounters {
  uint64_t broadcast = 0;
  uint64_t retransmit = 0;
  uint64_t recirculate = 0;
  uint64_t drop = 0;  ///< Includes accepted contributions, whose packets end here.
};

class SwitchmlSwitch {
 public:
  /// Makes a switch with the program of `variant`. @param sink Must outlive the switch.
  /// @param train See SwitchConfig.
  static Result<SwitchmlSwitch> make(const SwitchmlVariant& variant, SwitchSink& sink,
                                     Payload payload = Payload::kCarried, uint64_t seed = 1,
                                     uint32_t train = 1);

  /// Replaces the previous session. Its registers keep their contents, as in the published program,
  /// so use other slots or a new switch.
  [[nodiscard]] Result<void> set_session(const SwitchmlSession& session);
  /// Starts the packet generator, which sweeps both sets of the session's slots until the next
  /// set_session().
  ///
  /// If not all workers have contributed, the result sets the unused bit of the pool index, and its
  /// job field has the number of contributions. A worker that is late by more than one phase gets a
  /// result with the number 0; its packet id names the current phase.
  /// @pre set_session() has succeeded.
  [[nodiscard]] Result<void> set_timeout(const SwitchmlTimeout& timeout);
  /// Drops packets at the ingress before they count, and copies at the egress, at random.
  /// @param ingress, egress Probabilities from 0 to 1, rounded to 1/65536.
  [[nodiscard]] Result<void> set_loss(double ingress, double egress);

  [[nodiscard]] Switch& device() { return *switch_; }
  /// @pre slot < variant.slots.
  [[nodiscard]] SwitchmlSlotCounters slot_counters(uint32_t slot, bool set);
  /// Returns the sum over all pipes of a program counter with one entry: "unknown_worker",
  /// "slot_outside_pool", "simulated_loss", "simulated_egress_loss", "unknown_copy",
  /// "unknown_destination"; with timeouts also "closed", "late" and "unknown_sweep".
  [[nodiscard]] uint64_t count(std::string_view name);

 private:
  SwitchmlSwitch(const SwitchmlVariant& variant, Payload payload, std::unique_ptr<Switch> device);
  [[nodiscard]] uint64_t sum(std::string_view counter, uint32_t entry);

  SwitchmlVariant variant_;
  Payload payload_;
  std::unique_ptr<Switch> switch_;
  TableId admission_ = kNone;             ///< The first table that uses the slot.
  std::vector<Entry> admission_entries_;  ///< Its entries without loss.
  SwitchmlSession session_;
};

/// Returns ternary entries that match exactly the 16-bit numbers below `threshold` (0 to 65536).
[[nodiscard]] std::vector<Match> matches_below(uint32_t threshold);

}  // namespace tributary::tofino
