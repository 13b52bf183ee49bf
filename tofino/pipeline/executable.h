// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program in flat form, made once at load: parser, control and deparser as short lists of plain
/// records that a Pipe runs through.
///
/// Model:   One Executable serves all pipes of a switch. In the elided form headers marked as
///          payload have a size but no values, and everything that only moves or adds values is
///          gone; what happens to a packet is the same.
/// Shapes:  Records refer to slices of the vectors here by (first, last). PHV words: one a field,
///          then one that is always 0 (stands for a field that is not there), then one that nobody
///          reads.
/// Threads: Does not change after load().
/// Errors:  A program that does not fit the chip is refused, see place(). In the elided form one in
///          which values decide something is refused, with the field's name.
/// Tests:   tests/tofino/pipeline/switch_test.cc, switchml_control_test.cc
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

enum class Payload : uint8_t { kCarried, kElided };

struct Executable {
  /// Checks, places and compiles.
  static Result<Executable> load(Program program, Payload payload = Payload::kCarried);

  // --- Parser and deparser ------------------------------------------------------------------
  /// A field inside its header: bits [shift, shift + width) of the big-endian integer of
  /// `byte_count` bytes at `byte`.
  struct HeaderField {
    uint16_t field;
    uint16_t byte;
    uint8_t byte_count;
    uint8_t shift;
    uint32_t mask;
  };
  /// Fields of a header: those that are exactly four bytes, then two, then one, then the others.
  struct FieldSlice {
    uint32_t first = 0;
    uint32_t words = 0;  ///< Where the first kind ends, and so on; into header_fields.
    uint32_t halves = 0;
    uint32_t bytes = 0;
    uint32_t last = 0;
  };
  /// How a gress reads and writes a header. What it does not look at is not read, and what it does
  /// not change is copied as it came.
  struct HeaderCode {
    uint32_t bytes = 0;
    uint16_t id = kNone;
    uint16_t valid = kNone;
    uint16_t first_field = kNone;
    bool elided = false;
    /// All fields are 32 bits wide and follow each other in the PHV.
    bool words = false;
    FieldSlice fields = {};  ///< All of them.
    FieldSlice loads = {};   ///< Those to read.
    FieldSlice stores = {};  ///< Those to write over what came.
  };
  struct StateCode {
    Slice extracts;  ///< Into header_ids.
    Slice sets;
    Slice select;
    Slice transitions;
    uint16_t otherwise;
  };
  /// The fields that a state selects on lie side by side in 32 bits (kParserMatchBits).
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
    Slice deparser;           ///< Into header_ids.
    uint32_t made_bytes = 0;  ///< All headers of the deparser together.
    std::vector<Checksum> checksums;
    bool is_ingress = true;
  };

  // --- Control ------------------------------------------------------------------------------
  enum class StepKind : uint8_t { kTable, kCondition, kJump };
  /// A table to apply or a condition to ask; then on to `then` or `otherwise` (steps).
  struct Step {
    StepKind kind;
    /// The table just before it in the list looks at the same keys, and nothing in between changes
    /// them: if the entries are equal, too, its outcome is this one's.
    bool same_keys_as_previous = false;
    uint16_t table = kNone;
    Slice terms = {};  ///< Of a condition; at least one.
    uint32_t then = 0;
    uint32_t otherwise = 0;
  };
  struct TermCode {
    uint32_t mask;
    uint32_t value;
    uint16_t field;
    bool negated;
  };
  /// One of the things that an action does. They happen at once: none reads what another of the
  /// action writes (check_actions()), so any order gives the same.
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
    uint32_t mask = 0xffffffff;  ///< Of the target's width.
  };
  struct CallCode {
    uint16_t reg;
    uint16_t action;  ///< Into register_actions.
    uint16_t index;
    std::array<uint16_t, 2> inputs;
    uint16_t output;
  };
  /// Where a register's words lie: equal registers side by side, all their low words of an entry,
  /// then all their high words, so that processors in a row work on consecutive words.
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
  uint16_t unread_word = 0;  ///< PHV word that takes what nobody wants.
  uint32_t phv_words = 0;

  std::vector<HeaderCode> headers;  ///< Shape [headers] for ingress, then [headers] for egress.
  std::vector<HeaderField> header_fields;
  std::vector<uint16_t> header_ids;  ///< Into headers.
  std::vector<uint16_t> field_ids;
  std::vector<StateCode> states;
  std::vector<SelectField> selects;
  std::vector<TransitionCode> transitions;
  std::vector<std::pair<FieldId, uint32_t>> sets;
  GressCode ingress;
  GressCode egress;

  std::vector<Step> steps;
  std::vector<TermCode> terms;
  std::vector<Slice> actions;  ///< Shape [actions of the program]; into micro_ops.
  std::vector<MicroOp> micro_ops;
  std::vector<CallCode> calls;
  std::vector<CounterCall> counts;
  std::vector<Slice> hashes;  ///< Inputs, into field_ids.
  std::vector<BankCode> banks;
  std::vector<BankPlace> bank_of;               ///< Shape [registers].
  std::vector<uint32_t> register_action_first;  ///< Shape [registers]; into register_actions.
  std::vector<StatefulAlu> register_actions;
};

}  // namespace tributary::tofino
