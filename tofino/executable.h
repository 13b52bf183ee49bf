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
/// Tests:   tests/tofino/switch_test.cc, switchml_control_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "tofino/placement.h"
#include "tofino/program.h"
#include "tofino/stateful_alu.h"

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
    bool whole;  ///< Exactly one, two or four bytes.
    uint32_t mask;
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
    Slice fields = {};  ///< All of them.
    Slice loads = {};   ///< Those to read.
    Slice stores = {};  ///< Those to write over what came.
  };
  struct StateCode {
    Slice extracts;  ///< Into header_ids, which number headers.
    Slice sets;
    Slice select;
    Slice transitions;
    uint16_t otherwise;
  };
  struct TransitionCode {
    uint32_t first_match;
    uint16_t next;
  };
  struct GressCode {
    Slice states;
    Slice steps;
    Slice deparser;  ///< Into header_ids.
    std::vector<Checksum> checksums;
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
    Slice terms = {};
    uint32_t then = 0;
    uint32_t otherwise = 0;
  };
  struct TermCode {
    uint32_t mask;
    uint32_t value;
    uint16_t field;
    bool negated;
  };
  struct OperationCode {
    AluOp op;
    OperandKind a_kind;
    OperandKind b_kind;
    uint16_t target;
    uint32_t a;
    uint32_t b;
    uint32_t mask;
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
  struct ActionCode {
    Slice draws;
    Slice hashes;
    Slice calls;
    Slice counts;
    Slice operations;
  };
  struct HashCode {
    uint16_t target;
    Slice inputs;  ///< Into field_ids.
  };

  std::shared_ptr<const Program> program;
  std::shared_ptr<const Placement> placement;
  Payload payload = Payload::kCarried;
  uint16_t zero_word = 0;    ///< PHV word that is always 0.
  uint16_t unread_word = 0;  ///< PHV word that takes what nobody wants.
  uint32_t phv_words = 0;

  std::vector<HeaderCode> headers;  ///< Shape [headers] for ingress, then [headers] for egress.
  std::vector<HeaderField> header_fields;
  std::vector<uint16_t> header_ids;
  std::vector<uint16_t> field_ids;
  std::vector<StateCode> states;
  std::vector<TransitionCode> transitions;
  std::vector<Match> matches;
  std::vector<std::pair<FieldId, uint32_t>> sets;
  GressCode ingress;
  GressCode egress;

  std::vector<Step> steps;
  std::vector<TermCode> terms;
  std::vector<ActionCode> actions;
  std::vector<OperationCode> operations;
  std::vector<CallCode> calls;
  std::vector<CounterCall> counts;
  std::vector<HashCode> hashes;
  std::vector<BankCode> banks;
  std::vector<BankPlace> bank_of;               ///< Shape [registers].
  std::vector<uint32_t> register_action_first;  ///< Shape [registers]; into register_actions.
  std::vector<StatefulAlu> register_actions;
};

}  // namespace tributary::tofino
