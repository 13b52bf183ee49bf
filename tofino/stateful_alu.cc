// SPDX-License-Identifier: Apache-2.0
#include "tofino/stateful_alu.h"

#include <algorithm>

#include "base/assert.h"

namespace tributary::tofino {
namespace {

bool holds(Relation relation, int64_t value) {
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

/// Whether an update is own = input, or own = own + input.
bool is_plain_update(const StatefulUpdate& update, StatefulSource own) {
  const auto is_input = [](const StatefulOperand& operand) {
    return operand.source == StatefulSource::kInput0 || operand.source == StatefulSource::kInput1;
  };
  if (update.when != kAlways) return false;
  if (update.op == StatefulOp::kSet) return is_input(update.a);
  return update.op == StatefulOp::kAdd && update.a.source == own && is_input(update.b);
}

void update_many(const StatefulUpdate& update, uint32_t* __restrict words,
                 const uint32_t* __restrict inputs, uint32_t count) {
  if (update.op == StatefulOp::kSet) {
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
      output_(action.output),
      output_when_(action.output_when) {
  TRIB_ASSERT(action.comparisons.size() <= kStatefulComparisons);
  TRIB_ASSERT(action.low.size() <= kStatefulUpdatesPerWord);
  TRIB_ASSERT(action.high.size() <= kStatefulUpdatesPerWord);
  std::copy(action.comparisons.begin(), action.comparisons.end(), comparisons_.begin());
  std::copy(action.low.begin(), action.low.end(), low_.updates.begin());
  std::copy(action.high.begin(), action.high.end(), high_.updates.begin());
  low_.count = static_cast<uint32_t>(action.low.size());
  high_.count = static_cast<uint32_t>(action.high.size());
}

int64_t StatefulAlu::widened(uint32_t value, bool is_signed) const {
  if (!is_signed) return value;
  const uint32_t sign = mask_ ^ (mask_ >> 1);
  return static_cast<int64_t>(value ^ sign) - static_cast<int64_t>(sign);
}

bool StatefulAlu::is_plain() const {
  if (comparison_count_ != 0 || mask_ != 0xffffffff || output_when_ != kAlways) return false;
  if (low_.count > 1 || high_.count > 1 || !pair_) return false;
  if (low_.count == 1 && !is_plain_update(low_.updates[0], StatefulSource::kLow)) return false;
  if (high_.count == 1 && !is_plain_update(high_.updates[0], StatefulSource::kHigh)) return false;
  switch (output_) {
    case StatefulOutput::kLowBefore:
      return low_.count == 0;
    case StatefulOutput::kHighBefore:
      return high_.count == 0;
    case StatefulOutput::kLowAfter:
    case StatefulOutput::kHighAfter:
      return true;
    default:
      return false;
  }
}

void StatefulAlu::execute_many(uint32_t* low_words, uint32_t* high_words, const uint32_t* inputs0,
                               const uint32_t* inputs1, uint32_t* outputs, uint32_t count) const {
  const auto input_of = [&](const StatefulUpdate& update) {
    const StatefulOperand& operand = update.op == StatefulOp::kSet ? update.a : update.b;
    return operand.source == StatefulSource::kInput0 ? inputs0 : inputs1;
  };
  if (low_.count == 1) {
    update_many(low_.updates[0], low_words, input_of(low_.updates[0]), count);
  }
  if (high_.count == 1) {
    update_many(high_.updates[0], high_words, input_of(high_.updates[0]), count);
  }
  const bool low_leaves =
      output_ == StatefulOutput::kLowBefore || output_ == StatefulOutput::kLowAfter;
  std::copy_n(low_leaves ? low_words : high_words, count, outputs);
}

uint32_t StatefulAlu::compare(const Values& values) const {
  uint32_t outcome = 0;
  for (uint32_t i = 0; i < comparison_count_; i++) {
    const StatefulComparison& c = comparisons_[i];
    const int64_t memory = widened(fetch({c.memory, 0}, values), c.is_signed);
    const int64_t input = widened(fetch({c.input, 0}, values), c.is_signed);
    const int64_t value = memory + (c.subtract_input ? -input : input) + c.constant;
    if (holds(c.relation, value)) outcome |= 1U << i;
  }
  return outcome;
}

uint32_t StatefulAlu::calculate(StatefulOp op, uint32_t a, uint32_t b) const {
  const int64_t wide_a = widened(a, is_signed_);
  const int64_t wide_b = widened(b, is_signed_);
  const int64_t most = is_signed_ ? static_cast<int64_t>(mask_ >> 1) : static_cast<int64_t>(mask_);
  const int64_t least = is_signed_ ? -most - 1 : 0;
  int64_t result = 0;
  switch (op) {
    case StatefulOp::kSet:
      result = wide_a;
      break;
    case StatefulOp::kAdd:
      result = wide_a + wide_b;
      break;
    case StatefulOp::kSubtract:
      result = wide_a - wide_b;
      break;
    case StatefulOp::kAddSaturated:
      result = std::clamp(wide_a + wide_b, least, most);
      break;
    case StatefulOp::kSubtractSaturated:
      result = std::clamp(wide_a - wide_b, least, most);
      break;
    case StatefulOp::kMin:
      result = std::min(wide_a, wide_b);
      break;
    case StatefulOp::kMax:
      result = std::max(wide_a, wide_b);
      break;
    case StatefulOp::kAnd:
      result = a & b;
      break;
    case StatefulOp::kOr:
      result = a | b;
      break;
    case StatefulOp::kXor:
      result = a ^ b;
      break;
    case StatefulOp::kAndNot:
      result = a & ~b;
      break;
    case StatefulOp::kNot:
      result = ~a;
      break;
  }
  return static_cast<uint32_t>(result) & mask_;
}

}  // namespace tributary::tofino
