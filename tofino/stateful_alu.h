// SPDX-License-Identifier: Apache-2.0
/// @file
/// One program of a stateful ALU in executable form: reads a register's entry, compares, changes
/// its one or two words, and lets one word out.
///
/// Model:   Both words and both inputs are taken as they were before; the comparisons choose which
///          updates happen. Words and inputs have the register's width; arithmetic wraps there
///          unless it saturates. A comparison is exact, as if made with more bits.
/// Errors:  None; the register was checked (check_registers()).
/// Threads: Does not change after it is made.
/// Tests:   tests/tofino/stateful_alu_test.cc
#pragma once

#include <array>
#include <cstdint>

#include "tofino/limits.h"
#include "tofino/program.h"

namespace tributary::tofino {

class StatefulAlu {
 public:
  StatefulAlu(const Register& reg, const RegisterAction& action);

  /// @param low_word, high_word The entry's words; the second is looked at in a pair only.
  /// @return the output; 0 if there is none.
  uint32_t execute(uint32_t* low_word, uint32_t* high_word, uint32_t input0,
                   uint32_t input1) const {
    const Values before{*low_word, pair_ ? *high_word : 0, input0 & mask_, input1 & mask_};
    const uint32_t outcome = comparison_count_ == 0 ? 0 : compare(before);
    const uint32_t low = updated(low_, before, before.low, outcome);
    const uint32_t high = pair_ ? updated(high_, before, before.high, outcome) : 0;
    *low_word = low;
    if (pair_) *high_word = high;
    if ((output_when_ >> outcome & 1) == 0) return 0;
    switch (output_) {
      case StatefulOutput::kNothing:
        return 0;
      case StatefulOutput::kLowBefore:
        return before.low;
      case StatefulOutput::kHighBefore:
        return before.high;
      case StatefulOutput::kLowAfter:
        return low;
      case StatefulOutput::kHighAfter:
        return high;
      case StatefulOutput::kInput0:
        return before.input0;
      case StatefulOutput::kInput1:
        return before.input1;
      case StatefulOutput::kComparisons:
        return outcome;
    }
    return 0;
  }

  /// Whether execute_many() can do it: no comparison, 32 bits, and each word at most set to, or
  /// increased by, an input.
  [[nodiscard]] bool is_plain() const;
  /// execute() for `count` entries of equal registers side by side.
  /// @pre is_plain(). Each argument has shape [count]; outputs may be the inputs.
  void execute_many(uint32_t* low_words, uint32_t* high_words, const uint32_t* inputs0,
                    const uint32_t* inputs1, uint32_t* outputs, uint32_t count) const;

  friend bool operator==(const StatefulAlu&, const StatefulAlu&) = default;

 private:
  struct Values {
    uint32_t low;
    uint32_t high;
    uint32_t input0;
    uint32_t input1;
  };
  struct Word {
    std::array<StatefulUpdate, kStatefulUpdatesPerWord> updates{};
    uint32_t count = 0;
    friend bool operator==(const Word&, const Word&) = default;
  };

  [[nodiscard]] uint32_t fetch(const StatefulOperand& operand, const Values& values) const {
    switch (operand.source) {
      case StatefulSource::kLow:
        return values.low;
      case StatefulSource::kHigh:
        return values.high;
      case StatefulSource::kInput0:
        return values.input0;
      case StatefulSource::kInput1:
        return values.input1;
      case StatefulSource::kConstant:
        return static_cast<uint32_t>(operand.constant) & mask_;
      case StatefulSource::kZero:
        return 0;
    }
    return 0;
  }

  [[nodiscard]] uint32_t updated(const Word& word, const Values& values, uint32_t before,
                                 uint32_t outcome) const {
    for (uint32_t i = 0; i < word.count; i++) {
      const StatefulUpdate& update = word.updates[i];
      if ((update.when >> outcome & 1) == 0) continue;
      const uint32_t a = fetch(update.a, values);
      if (update.op == StatefulOp::kSet) return a;
      const uint32_t b = fetch(update.b, values);
      if (update.op == StatefulOp::kAdd) return (a + b) & mask_;
      return calculate(update.op, a, b);
    }
    return before;
  }

  [[nodiscard]] uint32_t compare(const Values& values) const;
  [[nodiscard]] uint32_t calculate(StatefulOp op, uint32_t a, uint32_t b) const;
  [[nodiscard]] int64_t widened(uint32_t value, bool is_signed) const;

  uint32_t mask_;
  bool pair_;
  bool is_signed_;
  uint8_t comparison_count_;
  StatefulOutput output_;
  Predicate output_when_;
  Word low_;
  Word high_;
  std::array<StatefulComparison, kStatefulComparisons> comparisons_{};
};

}  // namespace tributary::tofino
