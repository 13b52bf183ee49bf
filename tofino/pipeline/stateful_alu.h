// SPDX-License-Identifier: Apache-2.0
/// @file
/// One program of a stateful ALU in executable form. It reads a register's entry, compares, changes
/// one or two words and outputs one word.
///
/// Model:   All operations use the words and inputs from before the call. The comparisons choose
///          the updates. Words and inputs have the register's width; arithmetic wraps at that width
///          unless it saturates. Comparisons are exact, as if made with more bits.
/// Errors:  None; the register was checked (check_registers()).
/// Threads: Does not change after it is made.
/// Tests:   tests/tofino/pipeline/stateful_alu_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "tofino/limits.h"
#include "tofino/program/program.h"

namespace tributary::tofino {

class StatefulAlu {
 public:
  StatefulAlu(const Register& reg, const RegisterAction& action);

  /// Runs the program on one entry.
  /// @param low_word, high_word The entry's words; only a pair uses the second.
  /// @return the output; 0 if there is none.
  uint32_t execute(uint32_t* low_word, uint32_t* high_word, uint32_t input0,
                   uint32_t input1) const {
    const Values before{*low_word, pair_ ? *high_word : 0, input0 & mask_, input1 & mask_, 0};
    const uint32_t outcome = comparison_count_ == 0 ? 0 : compare(before);
    const Outcome& chosen = outcomes_[outcome];
    Values after = before;
    if (chosen.low != kKeep) *low_word = after[kLow] = updated(updates_[chosen.low], before);
    if (chosen.high != kKeep) *high_word = after[kHigh] = updated(updates_[chosen.high], before);
    if (!chosen.leaves) return 0;
    switch (output_) {
      case StatefulOutput::kNothing:
        return 0;
      case StatefulOutput::kLowBefore:
        return before[kLow];
      case StatefulOutput::kHighBefore:
        return before[kHigh];
      case StatefulOutput::kLowAfter:
        return after[kLow];
      case StatefulOutput::kHighAfter:
        return after[kHigh];
      case StatefulOutput::kInput0:
        return before[kInput0];
      case StatefulOutput::kInput1:
        return before[kInput1];
      case StatefulOutput::kComparisons:
        return outcome;
    }
    return 0;
  }

  /// Returns true if execute_many() supports this program: no comparison, 32 bits, and each word is
  /// at most set to, or increased by, an input.
  [[nodiscard]] bool is_plain() const;
  /// Runs execute() for `count` entries of adjacent equal registers.
  /// @pre is_plain(). Each argument has shape [count]; outputs may be the inputs.
  void execute_many(uint32_t* low_words, uint32_t* high_words, const uint32_t* inputs0,
                    const uint32_t* inputs1, uint32_t* outputs, uint32_t count) const;

  friend bool operator==(const StatefulAlu&, const StatefulAlu&) = default;

 private:
  /// The possible inputs of an operand, as indices. A constant is stored separately.
  enum Input : uint8_t { kLow, kHigh, kInput0, kInput1, kZero, kInputs };
  using Values = std::array<uint32_t, kInputs>;
  struct Operand {
    uint8_t input = kZero;
    uint32_t constant = 0;  ///< Added to the input. One of the two is always 0.
    friend bool operator==(const Operand&, const Operand&) = default;
  };
  struct Update {
    StatefulOp op = StatefulOp::kSet;
    Operand a;
    Operand b;
    friend bool operator==(const Update&, const Update&) = default;
  };
  struct Comparison {
    uint8_t memory = kZero;
    uint8_t input = kZero;
    bool subtract_input = false;
    bool is_signed = false;
    Relation relation = Relation::kEqual;
    int64_t constant = 0;
    friend bool operator==(const Comparison&, const Comparison&) = default;
  };
  /// The actions for one of the four results of the comparisons.
  struct Outcome {
    uint8_t low = kKeep;  ///< Index into updates_.
    uint8_t high = kKeep;
    bool leaves = false;
    friend bool operator==(const Outcome&, const Outcome&) = default;
  };
  static constexpr uint8_t kKeep = 0xff;
  static constexpr uint32_t kUpdates = 2 * kStatefulUpdatesPerWord;
  static constexpr uint32_t kOutcomes = 1 << kStatefulComparisons;

  [[nodiscard]] uint32_t updated(const Update& update, const Values& before) const {
    const uint32_t a = before[update.a.input] + update.a.constant;
    const uint32_t b = before[update.b.input] + update.b.constant;
    switch (update.op) {
      case StatefulOp::kSet:
        return a;
      case StatefulOp::kAdd:
        return (a + b) & mask_;
      case StatefulOp::kSubtract:
        return (a - b) & mask_;
      case StatefulOp::kAnd:
        return a & b;
      case StatefulOp::kOr:
        return a | b;
      case StatefulOp::kXor:
        return a ^ b;
      case StatefulOp::kAndNot:
        return a & ~b;
      case StatefulOp::kNot:
        return ~a & mask_;
      case StatefulOp::kMin:
        return widened(a, is_signed_) < widened(b, is_signed_) ? a : b;
      case StatefulOp::kMax:
        return widened(a, is_signed_) > widened(b, is_signed_) ? a : b;
      case StatefulOp::kAddSaturated:
        return saturated(widened(a, is_signed_) + widened(b, is_signed_));
      case StatefulOp::kSubtractSaturated:
        return saturated(widened(a, is_signed_) - widened(b, is_signed_));
    }
    return 0;
  }

  /// Returns the word as a signed or unsigned number.
  [[nodiscard]] int64_t widened(uint32_t value, bool is_signed) const {
    const uint32_t sign = is_signed ? mask_ ^ (mask_ >> 1) : 0;
    return static_cast<int64_t>(value ^ sign) - static_cast<int64_t>(sign);
  }
  [[nodiscard]] uint32_t saturated(int64_t value) const {
    const int64_t most = is_signed_ ? mask_ >> 1 : mask_;
    const int64_t least = is_signed_ ? -most - 1 : 0;
    return static_cast<uint32_t>(value < least ? least : value > most ? most : value) & mask_;
  }

  [[nodiscard]] static bool holds(Relation relation, int64_t value) {
    switch (relation) {
      case Relation::kEqual:
        return value == 0;
      case Relation::kNotEqual:
        return value != 0;
      case Relation::kLess:
        return value < 0;
      case Relation::kLessEqual:
        return value <= 0;
      case Relation::kGreater:
        return value > 0;
      case Relation::kGreaterEqual:
        return value >= 0;
    }
    return false;
  }
  [[nodiscard]] uint32_t compare(const Values& before) const {
    uint32_t outcome = 0;
    for (uint32_t i = 0; i < comparison_count_; i++) {
      const Comparison& c = comparisons_[i];
      const int64_t memory = widened(before[c.memory], c.is_signed);
      const int64_t input = widened(before[c.input], c.is_signed);
      const int64_t value = memory + (c.subtract_input ? -input : input) + c.constant;
      if (holds(c.relation, value)) outcome |= 1U << i;
    }
    return outcome;
  }
  [[nodiscard]] static uint8_t input_of(StatefulSource source);
  [[nodiscard]] Operand operand_of(const StatefulOperand& operand) const;
  /// Stores the updates of one word from updates_[first] on, and sets `word` in their outcomes.
  void add_updates(std::span<const StatefulUpdate> updates, uint32_t first, uint8_t Outcome::*word);

  uint32_t mask_;
  bool pair_;
  bool is_signed_;
  uint8_t comparison_count_;
  StatefulOutput output_;
  std::array<Outcome, kOutcomes> outcomes_{};
  std::array<Update, kUpdates> updates_{};
  std::array<Comparison, kStatefulComparisons> comparisons_{};
};

}  // namespace tributary::tofino
