// SPDX-License-Identifier: Apache-2.0
/// @file
/// Builds SwitchML's switch program. Only these files use it: program.cc (parser, receive, next
/// step, egress), processors.cc (register accesses) and timeout.cc (the variant with timeouts).
///
/// Threads: One.
/// Errors:  None.
/// Tests:   tests/tofino/switchml/program_test.cc
#pragma once

#include <vector>

#include "tofino/program/program_builder.h"
#include "tofino/switchml/program.h"

namespace tributary::tofino {

class SwitchmlBuilder {
 public:
  explicit SwitchmlBuilder(const SwitchmlVariant& variant);
  [[nodiscard]] Program build();

 private:
  struct NextStepActions {
    ActionId consume_on;
    ActionId harvest_first;
    ActionId harvest_on;
    ActionId finish;
    ActionId broadcast;
    ActionId retransmit;
  };

  void add_headers();
  void add_metadata();
  void build_ingress_parser();
  void build_ingress();
  void build_egress();

  // Tables that choose a packet's destination.
  TableId add_receive();
  NextStepActions add_next_step_actions();
  TableId add_next_step();
  TableId add_forward();
  TableId add_address();
  TableId add_egress_loss();

  // Tables and registers that store and add.
  RegisterId add_bitmap_register();
  TableId add_bitmap();
  TableId add_seen_table();
  TableId add_count_table();
  TableId add_exponent_table();
  RegisterId add_value_register(uint32_t i);
  TableId add_processor(uint32_t i);

  // The variant with timeouts.
  void build_timeout_ingress();
  RegisterId add_phase_register();
  TableId add_phase();
  TableId add_marks();
  TableId add_timeout_count_table();
  RegisterId add_age_register();
  TableId add_age();
  TableId add_sweep();
  TableId add_timeout_next_step();
  [[nodiscard]] std::vector<Key> timeout_state_keys() const;
  [[nodiscard]] std::vector<Entry> timeout_state_entries(ActionId is_new, ActionId seen,
                                                         ActionId other, ActionId close) const;

  [[nodiscard]] std::vector<Key> state_keys() const;
  ActionId dropping(const char* name, std::vector<CounterCall> counts);

  [[nodiscard]] FieldId md(const char* name) const { return b_.field_of(md_, name); }
  [[nodiscard]] FieldId of(HeaderId header, const char* name) const {
    return b_.field_of(header, name);
  }
  [[nodiscard]] Operation valid(HeaderId header, bool is) const {
    return set(b_.valid_of(header), constant(is ? 1 : 0));
  }
  [[nodiscard]] const Intrinsics& in() const { return b_.program.intrinsics; }
  [[nodiscard]] bool four_pipes() const { return variant_.elements > 2 * variant_.processors; }

  const SwitchmlVariant variant_;
  ProgramBuilder b_;
  HeaderId md_ = kNone;
  HeaderId ethernet_ = kNone;
  HeaderId ip_ = kNone;
  HeaderId udp_ = kNone;
  HeaderId sml_ = kNone;
  HeaderId exponents_ = kNone;
  HeaderId low_ = kNone;   ///< Values whose registers are the low words.
  HeaderId high_ = kNone;  ///< Values whose registers are the high words.
  FieldId random_ = kNone;
  FieldId slots_left_ = kNone;     ///< Pool's last slot minus the packet's; negative if outside.
  FieldId bitmap_before_ = kNone;  ///< The set's bitmap before this packet.
  FieldId seen_ = kNone;           ///< Not 0 if the bitmap had the worker.
  FieldId count_ = kNone;          ///< Number of contributions; 0 when complete.
  HeaderId tick_ = kNone;          ///< With timeouts: the packet generator's header.
  FieldId phase_ = kNone;          ///< With timeouts: the packet's phase relative to the slot's.
  FieldId age_ = kNone;            ///< With timeouts: the output of the age register.
  FieldId egress_random_ = kNone;
  FieldId client_port_ = kNone;
};

/// Modes of a result: to all workers, or to the one that sent its packet again.
inline constexpr uint32_t kSwitchmlBroadcast = 1;
inline constexpr uint32_t kSwitchmlUnicast = 2;
/// Rows that a 16-bit probability may need: one per bit.
inline constexpr uint32_t kSwitchmlLossEntries = 16;

}  // namespace tributary::tofino
