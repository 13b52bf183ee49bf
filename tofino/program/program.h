// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pipeline program as data. A P4 front end produces it, or a person builds it with
/// ProgramBuilder; the model does not depend on its origin.
///
/// Model:   Header fields and metadata are in the packet header vector (PHV). A parser fills the
///          PHV, two trees of tables and conditions (ingress, egress) change it, and a deparser
///          writes it back. If the chip cannot do a thing, a Program cannot express it, or
///          check_program() refuses it. Program says in which order things run.
/// Shapes:  Parts refer to each other by index into the vectors of Program.
/// Units:   Widths in bits, 1 to 32 for a field. A wider field (a MAC address) is two fields.
/// Threads: A Program does not change after it is built.
/// Tests:   tests/tofino/compile/check_test.cc, tests/tofino/pipeline/switch_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tributary::tofino {

using FieldId = uint16_t;
using HeaderId = uint16_t;
using RegisterId = uint16_t;
using CounterId = uint16_t;
using ActionId = uint16_t;
using TableId = uint16_t;
using StateId = uint16_t;
/// "None" for each kind of index.
inline constexpr uint16_t kNone = 0xffff;

/// A part of the PHV. Values are in host order; bits above the width are 0.
struct Field {
  std::string name = {};
  uint32_t bits = 0;
  HeaderId header = kNone;  ///< kNone for metadata, which is 0 at the start of a pass.
};

/// Consecutive fields, most significant bit first; a whole number of bytes.
struct Header {
  std::string name = {};
  FieldId first = kNone;
  uint32_t count = 0;
  uint32_t bits = 0;
  FieldId valid = kNone;  ///< One bit of metadata: 1 if the packet has the header.
  /// True if the fields are values that do not influence the packet's path. In elided mode such a
  /// header has only a size, and operations on its fields are omitted.
  bool payload = false;
};

// --- Stateful memory ----------------------------------------------------------------------------

enum class StatefulSource : uint8_t { kLow, kHigh, kInput0, kInput1, kConstant, kZero };

/// An input value of the stateful ALU.
struct StatefulOperand {
  StatefulSource source = StatefulSource::kZero;
  int64_t constant = 0;

  friend bool operator==(const StatefulOperand&, const StatefulOperand&) = default;
};

enum class Relation : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
};

/// Compares memory ± input + constant with 0.
struct StatefulComparison {
  StatefulSource memory = StatefulSource::kZero;  ///< kLow, kHigh or kZero.
  StatefulSource input = StatefulSource::kZero;   ///< kInput0, kInput1 or kZero.
  bool subtract_input = false;
  int64_t constant = 0;
  Relation relation = Relation::kEqual;
  bool is_signed = false;

  friend bool operator==(const StatefulComparison&, const StatefulComparison&) = default;
};

/// The operations of the ALU of a memory word. It has no others: no shift, no multiplication.
enum class StatefulOp : uint8_t {
  kSet,           ///< a
  kAdd,           ///< a + b, wraps.
  kSubtract,      ///< a - b, wraps.
  kAddSaturated,  ///< Signed if the register is signed.
  kSubtractSaturated,
  kMin,  ///< Signed if the register is signed.
  kMax,
  kAnd,
  kOr,
  kXor,
  kAndNot,  ///< a & ~b
  kNot,     ///< ~a
};

/// Bit i tells whether to act if the comparisons give i = second x 2 + first.
using Predicate = uint8_t;
inline constexpr Predicate kAlways = 0b1111;
inline constexpr Predicate kIfFirst = 0b1010;
inline constexpr Predicate kUnlessFirst = 0b0101;

struct StatefulUpdate {
  Predicate when = kAlways;
  StatefulOp op = StatefulOp::kSet;
  StatefulOperand a = {};
  StatefulOperand b = {};

  friend bool operator==(const StatefulUpdate&, const StatefulUpdate&) = default;
};

/// The output of the stateful ALU; 0 if the predicate does not hold.
enum class StatefulOutput : uint8_t {
  kNothing,
  kLowBefore,
  kHighBefore,
  kLowAfter,
  kHighAfter,
  kInput0,
  kInput1,
  kComparisons,  ///< second x 2 + first.
};

/// One of a register's programs, of which there are at most four.
struct RegisterAction {
  std::string name = {};
  std::vector<StatefulComparison> comparisons = {};  ///< At most 2.
  std::vector<StatefulUpdate> low = {};              ///< At most 2, and at most one runs.
  std::vector<StatefulUpdate> high = {};             ///< Only if the register is a pair.
  StatefulOutput output = StatefulOutput::kNothing;
  Predicate output_when = kAlways;
};

struct Register {
  std::string name = {};
  uint32_t bits = 32;  ///< Width of a word: 1, 8, 16 or 32.
  bool pair = false;   ///< Two words per entry.
  bool is_signed = false;
  uint32_t entries = 0;
  std::array<uint32_t, 2> initial{};
  std::vector<RegisterAction> actions = {};
  bool payload = false;  ///< Holds values; elided mode omits it.
};

/// Counts packets.
struct Counter {
  std::string name = {};
  uint32_t bits = 32;
  uint32_t entries = 0;
};

// --- Actions ------------------------------------------------------------------------------------

enum class OperandKind : uint8_t { kField, kConstant, kParameter };

struct Operand {
  OperandKind kind = OperandKind::kConstant;
  uint32_t value = 0;  ///< FieldId, the constant, or the parameter's index.
};
[[nodiscard]] constexpr Operand field(FieldId id) { return {OperandKind::kField, id}; }
[[nodiscard]] constexpr Operand constant(uint32_t value) { return {OperandKind::kConstant, value}; }
[[nodiscard]] constexpr Operand parameter(uint32_t index) {
  return {OperandKind::kParameter, index};
}

/// The operations of a container's ALU, which runs once per stage.
enum class AluOp : uint8_t {
  kSet,  ///< a
  kAdd,
  kSubtract,
  kAddSaturated,  ///< Unsigned.
  kAnd,
  kOr,
  kXor,
  kAndNot,
  kMin,  ///< Unsigned.
  kMax,
};

struct Operation {
  AluOp op = AluOp::kSet;
  FieldId target = kNone;
  Operand a = {};
  Operand b = {};
};

struct RegisterCall {
  RegisterId reg = kNone;
  uint32_t action = 0;    ///< Index into Register::actions.
  FieldId index = kNone;  ///< Selects the entry; kNone for entry 0.
  std::array<FieldId, 2> inputs{kNone, kNone};
  FieldId output = kNone;
};

struct CounterCall {
  CounterId counter = kNone;
  FieldId index = kNone;  ///< kNone for entry 0.
};

/// CRC-32 (IEEE 802.3) over the inputs, each as whole bytes, most significant byte first.
struct HashCall {
  FieldId target = kNone;
  std::vector<FieldId> inputs = {};
};

struct Action {
  std::string name = {};
  std::vector<uint32_t> parameter_bits = {};
  std::vector<FieldId> random_draws = {};  ///< Each is filled with random bits over its width.
  std::vector<HashCall> hashes = {};
  std::vector<RegisterCall> register_calls = {};
  std::vector<CounterCall> counts = {};
  std::vector<Operation> operations = {};
};

// --- Tables and control -------------------------------------------------------------------------

enum class MatchKind : uint8_t { kExact, kTernary };

struct Key {
  FieldId field = kNone;
  MatchKind kind = MatchKind::kExact;
};

/// A key's value; bits that are 0 in the mask are ignored.
struct Match {
  uint32_t value = 0;
  uint32_t mask = 0xffffffff;
};

struct Entry {
  std::vector<Match> keys = {};  ///< Shape [keys of the table].
  ActionId action = kNone;
  std::vector<uint32_t> parameters = {};
};

struct Table {
  std::string name = {};
  std::vector<Key> keys = {};          ///< If empty, the default action always runs.
  std::vector<ActionId> actions = {};  ///< The actions that entries may use.
  ActionId default_action = kNone;     ///< Runs on a miss; kNone for nothing.
  std::vector<uint32_t> default_parameters = {};
  uint32_t size = 0;                   ///< Largest number of entries.
  std::vector<Entry> entries = {};     ///< Initial entries; the first ternary match wins.
  std::optional<uint32_t> stage = {};  ///< Pins the table to a stage (P4_14's @pragma stage).
};

/// (field & mask) == value, or != if negated.
struct Term {
  FieldId field = kNone;
  uint32_t mask = 0xffffffff;
  uint32_t value = 0;
  bool negated = false;
};

/// A table to apply, or a condition, which holds if all its terms hold. `then` runs on a hit or if
/// the condition holds, `otherwise` runs in the other case.
struct Statement {
  TableId table = kNone;  ///< kNone for a condition.
  std::vector<Term> terms = {};
  std::vector<Statement> then = {};
  std::vector<Statement> otherwise = {};
};

// --- Parser and deparser ------------------------------------------------------------------------

inline constexpr StateId kAccept = 0xfffe;
inline constexpr StateId kReject = 0xfffd;

struct Transition {
  std::vector<Match> matches = {};  ///< Shape [select of the state].
  StateId next = kReject;
};

struct ParserState {
  std::string name = {};
  std::vector<HeaderId> extracts = {};
  std::vector<std::pair<FieldId, uint32_t>> sets = {};  ///< Metadata to set.
  std::vector<FieldId> select = {};
  std::vector<Transition> transitions = {};  ///< The first match wins.
  StateId otherwise = kReject;
};

/// If the packet has the header: computes the ones' complement checksum over the header's 16-bit
/// words without `target`, and writes it to `target` (RFC 1071).
struct Checksum {
  HeaderId header = kNone;
  FieldId target = kNone;
};

/// One thread of the pipe. Its parser starts in state 0.
struct Gress {
  std::vector<ParserState> parser = {};
  std::vector<Statement> control = {};
  std::vector<HeaderId> deparser = {};  ///< In order of writing; the unparsed rest follows.
  std::vector<Checksum> checksums = {};
};

/// Metadata that a program shares with the traffic manager; kNone if the program does not use it.
struct Intrinsics {
  FieldId ingress_port = kNone;     ///< 9 bits, set before the ingress parser.
  FieldId egress_port = kNone;      ///< 9 bits, ingress: unicast port if egress_valid is set.
  FieldId egress_valid = kNone;     ///< 1 bit.
  FieldId multicast_group = kNone;  ///< 16 bits, ingress: 0 for none.
  FieldId drop = kNone;             ///< Not 0 at the end of a gress: the packet is dropped.
  FieldId resubmit = kNone;         ///< 1 bit, ingress: parse the unchanged packet once more.
  FieldId resubmitted = kNone;      ///< 1 bit, set before the parser: this is the second time.
  FieldId mirror_session = kNone;   ///< 10 bits, ingress: copy the unchanged packet; 0 for none.
  FieldId bypass_egress = kNone;    ///< 1 bit: send the packet straight to the port.
  FieldId replication_id = kNone;   ///< 16 bits, set before the egress parser: the copy's id.
  FieldId egress_leaving = kNone;   ///< 9 bits, set before the egress parser: the copy's port.
};

/// Tables run in program order. All operations of one action run at once in one stage, so each
/// reads the PHV from before the action. check_program() refuses an action in which an operation
/// reads a field that an earlier operation writes.
struct Program {
  std::string name = {};
  std::vector<Field> fields = {};
  std::vector<Header> headers = {};
  Intrinsics intrinsics = {};
  std::vector<Register> registers = {};
  std::vector<Counter> counters = {};
  std::vector<Action> actions = {};
  std::vector<Table> tables = {};
  Gress ingress = {};
  Gress egress = {};
};

}  // namespace tributary::tofino
