// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of SwitchML's switch program while it is put together: fields that its tables share.
/// For switchml_program.cc (parser, receiving, next step, egress), switchml_processors.cc (what
/// touches the registers) and switchml_timeout.cc (the variant with time-outs) alone.
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

  // Tables that decide where a packet goes.
  TableId add_receive();
  NextStepActions add_next_step_actions();
  TableId add_next_step();
  TableId add_forward();
  TableId add_address();
  TableId add_egress_loss();

  // Tables and registers that remember and add.
  RegisterId add_bitmap_register();
  TableId add_bitmap();
  TableId add_seen_table();
  TableId add_count_table();
  TableId add_exponent_table();
  RegisterId add_value_register(uint32_t i);
  TableId add_processor(uint32_t i);

  // With time-outs.
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
  HeaderId high_ = kNone;  ///< And the high ones.
  FieldId random_ = kNone;
  FieldId room_ = kNone;    ///< Slots of the pool from this one on, less one; negative outside.
  FieldId before_ = kNone;  ///< The set's bitmap as it was.
  FieldId seen_ = kNone;    ///< Not 0: the worker was in it.
  FieldId count_ = kNone;   ///< Contributions, 0 when complete.
  HeaderId tick_ = kNone;   ///< What the packet generator writes, with time-outs.
  FieldId phase_ = kNone;   ///< The packet's phase beside the slot's, with time-outs.
  FieldId age_ = kNone;     ///< What the age register says, with time-outs.
  FieldId egress_random_ = kNone;
  FieldId client_port_ = kNone;
};

/// Modes of a result: to all, or to the one who has sent again.
inline constexpr uint32_t kSwitchmlBroadcast = 1;
inline constexpr uint32_t kSwitchmlUnicast = 2;
/// Rows that a 16-bit probability can need, one a bit.
inline constexpr uint32_t kSwitchmlLossEntries = 16;

}  // namespace tributary::tofino
