// SPDX-License-Identifier: Apache-2.0
// Checks of registers against the limits of a stateful ALU.
#include <fmt/format.h>

#include <algorithm>

#include "tofino/compile/check.h"
#include "tofino/compile/resources.h"
#include "tofino/limits.h"

namespace tributary::tofino {
namespace {

class RegisterCheck {
 public:
  explicit RegisterCheck(const Register& reg) : reg_(reg) {}

  [[nodiscard]] Result<void> run() {
    if (reg_.bits != 1 && reg_.bits != 8 && reg_.bits != 16 && reg_.bits != 32) {
      return refuse(fmt::format("words of {} bits; allowed: 1, 8, 16 or 32", reg_.bits));
    }
    if (reg_.entries == 0) return refuse("0 entries; allowed: 1 or more");
    if (reg_.actions.size() > kRegisterActionsPerRegister) {
      return refuse(fmt::format("{} actions; a register allows {}", reg_.actions.size(),
                                kRegisterActionsPerRegister));
    }
    const uint32_t blocks = alu_sram_blocks(reg_.entries, reg_.pair ? 2 * reg_.bits : reg_.bits);
    if (blocks > kAluSramBlocks) {
      return refuse(fmt::format("takes {} SRAM blocks; one ALU spans {}", blocks, kAluSramBlocks));
    }
    for (const RegisterAction& action : reg_.actions) {
      if (auto good = check(action); !good) return good;
    }
    if (constants_.size() > kStatefulConstants) {
      return refuse(
          fmt::format("its actions use {} constants outside {} to {}; a register allows "
                      "{}",
                      constants_.size(), kSmallConstantMin, kSmallConstantMax, kStatefulConstants));
    }
    return {};
  }

 private:
  [[nodiscard]] Result<void> refuse(const std::string& what) const {
    return failure(fmt::format("register '{}': {}", reg_.name, what));
  }
  [[nodiscard]] Result<void> refuse(const RegisterAction& action, const std::string& what) const {
    return failure(fmt::format("register '{}', action '{}': {}", reg_.name, action.name, what));
  }

  void use_constant(int64_t value) {
    if (value >= kSmallConstantMin && value <= kSmallConstantMax) return;
    if (std::find(constants_.begin(), constants_.end(), value) == constants_.end()) {
      constants_.push_back(value);
    }
  }

  [[nodiscard]] Result<void> check(const RegisterAction& action) {
    if (action.comparisons.size() > kStatefulComparisons) {
      return refuse(action, fmt::format("{} comparisons; a stateful ALU has {}",
                                        action.comparisons.size(), kStatefulComparisons));
    }
    for (const StatefulComparison& comparison : action.comparisons) {
      if (comparison.memory == StatefulSource::kInput0 ||
          comparison.memory == StatefulSource::kInput1 ||
          comparison.memory == StatefulSource::kConstant ||
          comparison.input == StatefulSource::kLow || comparison.input == StatefulSource::kHigh ||
          comparison.input == StatefulSource::kConstant) {
        return refuse(action, "a comparison takes memory, one input and one constant");
      }
      if (comparison.memory == StatefulSource::kHigh && !reg_.pair) return refuse_high(action);
      use_constant(comparison.constant);
    }
    if (!action.high.empty() && !reg_.pair) return refuse_high(action);
    if (auto good = check_word(action, action.low, "low"); !good) return good;
    if (auto good = check_word(action, action.high, "high"); !good) return good;
    const bool high_leaves =
        action.output == StatefulOutput::kHighBefore || action.output == StatefulOutput::kHighAfter;
    if (high_leaves && !reg_.pair) return refuse_high(action);
    return {};
  }

  [[nodiscard]] Result<void> refuse_high(const RegisterAction& action) const {
    return refuse(action, "uses the high word of a register that is not a pair");
  }

  [[nodiscard]] Result<void> check_word(const RegisterAction& action,
                                        const std::vector<StatefulUpdate>& updates,
                                        const char* word) {
    if (updates.size() > kStatefulUpdatesPerWord) {
      return refuse(action, fmt::format("{} updates of the {} word; a stateful ALU has {} ALUs per "
                                        "word",
                                        updates.size(), word, kStatefulUpdatesPerWord));
    }
    uint32_t seen = 0;
    for (const StatefulUpdate& update : updates) {
      if ((seen & update.when) != 0) {
        return refuse(action, fmt::format("two updates of the {} word can both apply; a word is "
                                          "changed 1 time per packet",
                                          word));
      }
      seen |= update.when;
      if (update.a.source == StatefulSource::kHigh && !reg_.pair) return refuse_high(action);
      if (update.b.source == StatefulSource::kHigh && !reg_.pair) return refuse_high(action);
      for (const StatefulOperand& operand : {update.a, update.b}) {
        if (operand.source == StatefulSource::kConstant) use_constant(operand.constant);
      }
    }
    return {};
  }

  const Register& reg_;
  std::vector<int64_t> constants_;
};

}  // namespace

Result<void> check_registers(const Program& program) {
  for (const Register& reg : program.registers) {
    if (auto good = RegisterCheck(reg).run(); !good) return good;
  }
  return {};
}

}  // namespace tributary::tofino
