// SPDX-License-Identifier: Apache-2.0
#include "tofino/pipeline/stateful_alu.h"

#include <algorithm>

#include "base/assert.h"

namespace tributary::tofino {
namespace {

void update_many(StatefulOp op, uint32_t* __restrict words, const uint32_t* __restrict inputs,
                 uint32_t count) {
  if (op == StatefulOp::kSet) {
    for (uint32_t i = 0; i < count; i++) words[i] = inputs[i];
  } else {
    for (uint32_t i = 0; i < count; i++) words[i] += inputs[i];
  }
}

}  // namespace

StatefulAlu::StatefulAlu(const Register& reg, const RegisterAction& action)
    : mask_(reg.bits == 32 ? 0xffffffff : (1U << reg.bits) - 1),
      pair_(reg.pair),
      is_signed_(reg.is_signed),
      comparison_count_(static_cast<uint8_t>(action.comparisons.size())),
      output_(action.output) {
  TRIB_ASSERT(action.comparisons.size() <= kStatefulComparisons);
  TRIB_ASSERT(action.low.size() <= kStatefulUpdatesPerWord);
  TRIB_ASSERT(action.high.size() <= kStatefulUpdatesPerWord);
  for (size_t i = 0; i < action.comparisons.size(); i++) {
    const StatefulComparison& one = action.comparisons[i];
    comparisons_[i] = {input_of(one.memory), input_of(one.input), one.subtract_input,
                       one.is_signed,        one.relation,        one.constant};
  }
  add_updates(action.low, 0, &Outcome::low);
  if (pair_) add_updates(action.high, kStatefulUpdatesPerWord, &Outcome::high);
  for (uint32_t outcome = 0; outcome < kOutcomes; outcome++) {
    outcomes_[outcome].leaves = (action.output_when >> outcome & 1) != 0;
  }
}

uint8_t StatefulAlu::input_of(StatefulSource source) {
  switch (source) {
    case StatefulSource::kLow:
      return kLow;
    case StatefulSource::kHigh:
      return kHigh;
    case StatefulSource::kInput0:
      return kInput0;
    case StatefulSource::kInput1:
      return kInput1;
    case StatefulSource::kConstant:
    case StatefulSource::kZero:
      return kZero;
  }
  return kZero;
}

StatefulAlu::Operand StatefulAlu::operand_of(const StatefulOperand& operand) const {
  const bool is_constant = operand.source == StatefulSource::kConstant;
  return {input_of(operand.source),
          is_constant ? static_cast<uint32_t>(operand.constant) & mask_ : 0};
}

/// If two updates could both apply, the first one does.
void StatefulAlu::add_updates(std::span<const StatefulUpdate> updates, uint32_t first,
                              uint8_t Outcome::*word) {
  for (size_t i = updates.size(); i-- > 0;) {
    const auto at = static_cast<uint8_t>(first + i);
    updates_[at] = {updates[i].op, operand_of(updates[i].a), operand_of(updates[i].b)};
    for (uint32_t outcome = 0; outcome < kOutcomes; outcome++) {
      if ((updates[i].when >> outcome & 1) != 0) outcomes_[outcome].*word = at;
    }
  }
}

bool StatefulAlu::is_plain() const {
  const Outcome& always = outcomes_[0];
  if (comparison_count_ != 0 || mask_ != 0xffffffff || !pair_ || !always.leaves) return false;
  // An update must be own = input, or own = own + input.
  const auto is_plain_update = [&](uint8_t at, uint8_t own) {
    if (at == kKeep) return true;
    const Update& update = updates_[at];
    const auto is_input = [](const Operand& operand) {
      return operand.input == kInput0 || operand.input == kInput1;
    };
    if (update.op == StatefulOp::kSet) return is_input(update.a);
    return update.op == StatefulOp::kAdd && update.a.input == own && is_input(update.b);
  };
  if (!is_plain_update(always.low, kLow) || !is_plain_update(always.high, kHigh)) return false;
  switch (output_) {
    case StatefulOutput::kLowBefore:
      return always.low == kKeep;
    case StatefulOutput::kHighBefore:
      return always.high == kKeep;
    case StatefulOutput::kLowAfter:
    case StatefulOutput::kHighAfter:
      return true;
    default:
      return false;
  }
}

void StatefulAlu::execute_many(uint32_t* low_words, uint32_t* high_words, const uint32_t* inputs0,
                               const uint32_t* inputs1, uint32_t* outputs, uint32_t count) const {
  const auto change = [&](uint8_t at, uint32_t* words) {
    if (at == kKeep) return;
    const Update& update = updates_[at];
    const uint8_t input = update.op == StatefulOp::kSet ? update.a.input : update.b.input;
    update_many(update.op, words, input == kInput0 ? inputs0 : inputs1, count);
  };
  change(outcomes_[0].low, low_words);
  change(outcomes_[0].high, high_words);
  const bool low_leaves =
      output_ == StatefulOutput::kLowBefore || output_ == StatefulOutput::kLowAfter;
  std::copy_n(low_leaves ? low_words : high_words, count, outputs);
}

}  // namespace tributary::tofino
