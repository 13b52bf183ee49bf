// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program in flat form, compiled once at load: short lists of plain records for parser, control
/// and deparser. A Pipe runs through them.
///
/// Model:   One Executable serves all pipes of a switch. Payload explains elided mode.
/// Shapes:  Records refer to slices of the vectors by (first, last). The PHV has one word per
///          field, then one that is always 0 (for a missing field), then one that nobody reads.
/// Threads: Does not change after load().
/// Errors:  load() refuses a program that does not fit the chip, see place(). In elided mode it
///          also refuses a program whose path depends on a value, and names the field.
/// Tests:   tests/tofino/pipeline/switch_test.cc, tests/tofino/switchml/control_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "tofino/compile/placement.h"
#include "tofino/pipeline/stateful_alu.h"
#include "tofino/program/program.h"

namespace tributary::tofino {

struct Slice {
  uint32_t first = 0;
  uint32_t last = 0;
};

/// How payload values are represented.
enum class Payload : uint8_t {
  kCarried,  ///< Packets have all their bytes.
  /// Headers marked as payload have a size but no values. Operations that only move or add values
  /// are omitted. Each packet still takes the same path.
  kElided
};

struct Executable {
  /// Checks, places and compiles a program.
  static Result<Executable> load(Program program, Payload payload = Payload::kCarried);

  // --- Parser and deparser ------------------------------------------------------------------
  /// The place of a field in its header: bits [shift, shift + width) of the big-endian integer of
  /// `byte_count` bytes at `byte`.
  struct HeaderField {
    uint16_t field;
    uint16_t byte;
    uint8_t byte_count;
    uint8_t shift;
    uint32_t mask;
  };
  /// Fields of a header, sorted: exactly four bytes, exactly two, exactly one, then all others.
  struct FieldSlice {
    uint32_t first = 0;
    uint32_t words_end = 0;  ///< End of the four-byte fields, in header_fields; and so on.
    uint32_t halves_end = 0;
    uint32_t bytes_end = 0;
    uint32_t last = 0;
  };
  /// Describes a gress's access to a header. It reads only the fields that it needs, and copies
  /// fields that it does not change from the packet.
  struct HeaderCode {
    uint32_t bytes = 0;
    uint16_t id = kNone;
    uint16_t valid = kNone;
    uint16_t first_field = kNone;
    bool elided = false;
    /// True if all fields are 32 bits wide and adjacent in the PHV.
    bool words = false;
    FieldSlice fields = {};  ///< All fields.
    FieldSlice loads = {};   ///< Fields to read.
    FieldSlice stores = {};  ///< Fields to write over the copied bytes.
  };
  struct StateCode {
    Slice extracts;  ///< In header_ids.
    Slice sets;
    Slice select;
    Slice transitions;
    uint16_t otherwise;
  };
  /// The fields that a state selects on are packed into 32 bits (kParserMatchBits).
  struct SelectField {
    uint16_t field;
    uint8_t shift;
  };
  struct TransitionCode {
    uint32_t mask;
    uint32_t value;
    uint16_t next;
  };
  struct GressCode {
    Slice states;
    Slice steps;
    Slice deparser;           ///< In header_ids.
    uint32_t made_bytes = 0;  ///< Bytes of all headers of the deparser together.
    std::vector<Checksum> checksums;
    bool is_ingress = true;
  };

  // --- Control ------------------------------------------------------------------------------
  enum class StepKind : uint8_t { kTable, kCondition, kJump };
  /// A table to apply or a condition to test. The next step is `then` or `otherwise`.
  struct Step {
    StepKind kind;
    /// True if the previous table of the list has the same keys and nothing in between changes
    /// them. If the entries are also equal, both tables have the same outcome.
    bool same_keys_as_previous = false;
    uint16_t table = kNone;
    Slice terms = {};  ///< Terms of a condition; at least one.
    uint32_t then = 0;
    uint32_t otherwise = 0;
  };
  struct TermCode {
    uint32_t mask;
    uint32_t value;
    uint16_t field;
    bool negated;
  };
  /// One operation of an action. The operations happen at once: none reads a field that another one
  /// writes (check_actions()), so any order gives the same result.
  enum class MicroKind : uint8_t {
    kSetConstant,   ///< a
    kSetField,      ///< PHV word a
    kSetParameter,  ///< Parameter a
    kCompute,       ///< a op b
    kCall,          ///< Call a
    kCount,         ///< Count a
    kDraw,          ///< Random bits, shifted right by a
    kHash,          ///< Hash a
  };
  struct MicroOp {
    MicroKind kind;
    AluOp op = AluOp::kSet;
    OperandKind a_kind = OperandKind::kConstant;
    OperandKind b_kind = OperandKind::kConstant;
    uint16_t target = kNone;
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t mask = 0xffffffff;  ///< Mask of the target's width.
  };
  struct CallCode {
    uint16_t reg;
    uint16_t action;  ///< In register_actions.
    uint16_t index;
    std::array<uint16_t, 2> inputs;
    uint16_t output;
  };
  /// The place of a register's words. Equal registers share a bank. Each entry has the low words of
  /// all registers, then all their high words, so that processors in a row use adjacent words.
  struct BankPlace {
    uint32_t bank = 0;
    uint32_t position = 0;
  };
  struct BankCode {
    uint32_t entries = 0;
    uint32_t registers = 0;
    bool pair = false;
  };

  std::shared_ptr<const Program> program;
  std::shared_ptr<const Placement> placement;
  Payload payload = Payload::kCarried;
  uint16_t zero_word = 0;    ///< PHV word that is always 0.
  uint16_t unread_word = 0;  ///< PHV word for results that nobody reads.
  uint32_t phv_words = 0;

  std::vector<HeaderCode> headers;  ///< Shape [headers] for ingress, then [headers] for egress.
  std::vector<HeaderField> header_fields;
  std::vector<uint16_t> header_ids;  ///< In headers.
  std::vector<uint16_t> field_ids;
  std::vector<StateCode> states;
  std::vector<SelectField> selects;
  std::vector<TransitionCode> transitions;
  std::vector<std::pair<FieldId, uint32_t>> sets;
  GressCode ingress;
  GressCode egress;

  std::vector<Step> steps;
  std::vector<TermCode> terms;
  std::vector<Slice> actions;  ///< Shape [actions of the program]; in micro_ops.
  std::vector<MicroOp> micro_ops;
  std::vector<CallCode> calls;
  std::vector<CounterCall> counts;
  std::vector<Slice> hashes;  ///< Inputs of each hash, in field_ids.
  std::vector<BankCode> banks;
  std::vector<BankPlace> bank_of;               ///< Shape [registers].
  std::vector<uint32_t> register_action_first;  ///< Shape [registers]; in register_actions.
  std::vector<StatefulAlu> register_actions;
};

}  // namespace tributary::tofino
