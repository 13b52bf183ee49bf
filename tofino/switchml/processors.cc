// SPDX-License-Identifier: Apache-2.0
// The register accesses of SwitchML's switch program: bitmap, count, exponents, values.
#include <fmt/format.h>

#include "tofino/switchml/builder.h"

namespace tributary::tofino {
namespace {

/// First stage with pinned processors; receive, bitmap and "was it seen" take the stages before it.
constexpr uint32_t kProcessorStage = 3;

}  // namespace

ActionId SwitchmlBuilder::dropping(const char* name, std::vector<CounterCall> counts) {
  return b_.add(Action{
      .name = name, .counts = std::move(counts), .operations = {set(in().drop, constant(1))}});
}

/// Sets the worker's mark in its set and clears it in the other (Algorithm 3, lines 5 to 7).
RegisterId SwitchmlBuilder::add_bitmap_register() {
  const StatefulOperand low{StatefulSource::kLow};
  const StatefulOperand high{StatefulSource::kHigh};
  const StatefulOperand bit{StatefulSource::kInput0};
  RegisterAction set0{.name = "set0",
                      .low = {{.op = StatefulOp::kOr, .a = low, .b = bit}},
                      .high = {{.op = StatefulOp::kAndNot, .a = high, .b = bit}},
                      .output = StatefulOutput::kLowBefore};
  RegisterAction set1{.name = "set1",
                      .low = {{.op = StatefulOp::kAndNot, .a = low, .b = bit}},
                      .high = {{.op = StatefulOp::kOr, .a = high, .b = bit}},
                      .output = StatefulOutput::kHighBefore};
  return b_.add(Register{.name = "bitmap",
                         .pair = true,
                         .entries = variant_.slots,
                         .actions = {std::move(set0), std::move(set1)}});
}

TableId SwitchmlBuilder::add_bitmap() {
  const RegisterId bitmap = add_bitmap_register();
  const auto call = [&](uint32_t action) {
    return RegisterCall{bitmap, action, md("slot"), {md("bit"), kNone}, bitmap_before_};
  };
  const ActionId set0 = b_.add(Action{.name = "mark_set0", .register_calls = {call(0)}});
  const ActionId set1 = b_.add(Action{.name = "mark_set1", .register_calls = {call(1)}});
  // Used in the first pass; the index then names the entry of set 1.
  const ActionId set1_first = b_.add(Action{
      .name = "mark_set1_first",
      .register_calls = {call(1)},
      .operations = {alu(AluOp::kAdd, md("index"), field(md("index")), constant(variant_.slots))}});
  const CounterId outside = b_.add(Counter{.name = "slot_outside_pool", .entries = 1});
  const CounterId simulated = b_.add(Counter{.name = "simulated_loss", .entries = 1});
  const ActionId refuse = dropping("slot_outside_pool", {{outside, kNone}});
  const ActionId lose = dropping("simulated_loss", {{simulated, kNone}});
  const Match consume{kConsumeFirst, kConsumeMask};
  const Match first = exactly(kConsumeFirst);
  return b_.add(Table{.name = "bitmap",
                      .keys = {{md("type"), MatchKind::kTernary},
                               {of(sml_, "set"), MatchKind::kTernary},
                               {slots_left_, MatchKind::kTernary},
                               {random_, MatchKind::kTernary}},
                      .actions = {set0, set1, set1_first, refuse, lose},
                      .size = 4 + kSwitchmlLossEntries,
                      .entries = {{{first, any_value(), {0x8000, 0x8000}, any_value()}, refuse, {}},
                                  {{consume, exactly(0), any_value(), any_value()}, set0, {}},
                                  {{first, exactly(1), any_value(), any_value()}, set1_first, {}},
                                  {{consume, exactly(1), any_value(), any_value()}, set1, {}}}});
}

TableId SwitchmlBuilder::add_seen_table() {
  const ActionId seen = b_.add(
      Action{.name = "was_seen",
             .operations = {alu(AluOp::kAnd, seen_, field(bitmap_before_), field(md("bit")))}});
  return b_.add(Table{.name = "was_seen", .default_action = seen});
}

/// Computes count = (count + 1) mod n for a new contribution (Algorithm 3, line 8).
TableId SwitchmlBuilder::add_count_table() {
  const StatefulOperand low{StatefulSource::kLow};
  RegisterAction add{.name = "add",
                     .comparisons = {{.memory = StatefulSource::kLow,
                                      .input = StatefulSource::kInput0,
                                      .subtract_input = true,
                                      .relation = Relation::kEqual}},
                     .low = {{.when = kIfFirst, .op = StatefulOp::kSet},
                             {.when = kUnlessFirst,
                              .op = StatefulOp::kAdd,
                              .a = low,
                              .b = {StatefulSource::kConstant, 1}}},
                     .output = StatefulOutput::kLowAfter};
  RegisterAction read{.name = "read", .output = StatefulOutput::kLowBefore};
  const RegisterId count = b_.add(Register{.name = "count",
                                           .bits = 8,
                                           .entries = 2 * variant_.slots,
                                           .actions = {std::move(add), std::move(read)}});
  const auto action = [&](const char* name, uint32_t which) {
    return b_.add(Action{
        .name = name,
        .register_calls = {{count, which, md("index"), {md("worker_last"), kNone}, count_}}});
  };
  const ActionId add_action = action("count_add", 0);
  const ActionId read_action = action("count_read", 1);
  const Match consume{kConsumeFirst, kConsumeMask};
  return b_.add(Table{.name = "count",
                      .keys = {{md("type"), MatchKind::kTernary}, {seen_, MatchKind::kTernary}},
                      .actions = {add_action, read_action},
                      .size = 2,
                      .entries = {{{consume, exactly(0)}, add_action, {}},
                                  {{consume, any_value()}, read_action, {}}}});
}

/// Computes the largest of the workers' exponents (SwitchML paper §4.6).
TableId SwitchmlBuilder::add_exponent_table() {
  const StatefulOperand low{StatefulSource::kLow};
  const StatefulOperand high{StatefulSource::kHigh};
  const StatefulOperand e0{StatefulSource::kInput0};
  const StatefulOperand e1{StatefulSource::kInput1};
  RegisterAction write{.name = "write",
                       .low = {{.op = StatefulOp::kSet, .a = e0}},
                       .high = {{.op = StatefulOp::kSet, .a = e1}},
                       .output = StatefulOutput::kHighAfter};
  RegisterAction max{.name = "max",
                     .low = {{.op = StatefulOp::kMax, .a = low, .b = e0}},
                     .high = {{.op = StatefulOp::kMax, .a = high, .b = e1}},
                     .output = StatefulOutput::kHighAfter};
  RegisterAction read_high{.name = "read_high", .output = StatefulOutput::kHighBefore};
  RegisterAction read_low{.name = "read_low", .output = StatefulOutput::kLowBefore};
  const RegisterId reg = b_.add(Register{
      .name = "exponents",
      .bits = 8,
      .pair = true,
      .is_signed = true,
      .entries = 2 * variant_.slots,
      .actions = {std::move(write), std::move(max), std::move(read_high), std::move(read_low)}});
  const auto action = [&](const char* name, uint32_t which, const char* output) {
    return b_.add(Action{.name = name,
                         .register_calls = {{reg,
                                             which,
                                             md("index"),
                                             {of(exponents_, "e0"), of(exponents_, "e1")},
                                             of(exponents_, output)}}});
  };
  const ActionId write_action = action("exponents_write", 0, "e1");
  const ActionId max_action = action("exponents_max", 1, "e1");
  const ActionId high_action = action("exponents_read_high", 2, "e1");
  const ActionId low_action = action("exponents_read_low", 3, "e0");
  const Match any = any_value();
  if (variant_.timeout) {
    auto entries = timeout_state_entries(write_action, high_action, max_action, high_action);
    entries.push_back({{exactly(kHarvestLast), any, any, any}, low_action, {}});
    return b_.add(Table{.name = "exponents",
                        .keys = timeout_state_keys(),
                        .actions = {write_action, max_action, high_action, low_action},
                        .size = static_cast<uint32_t>(entries.size()),
                        .entries = std::move(entries)});
  }
  const Match first = exactly(kConsumeFirst);
  return b_.add(
      Table{.name = "exponents",
            .keys = state_keys(),
            .actions = {write_action, max_action, high_action, low_action},
            .size = 5,
            .entries = {{{first, exactly(0), any_value()}, write_action, {}},
                        {{first, any_value(), exactly(0)}, max_action, {}},
                        {{first, any_value(), any_value()}, high_action, {}},
                        {{exactly(kHarvestLast - 1), any_value(), any_value()}, high_action, {}},
                        {{exactly(kHarvestLast), any_value(), any_value()}, low_action, {}}}});
}

/// Returns the keys that select a memory access: the pass, the bitmap before, and the worker's
/// mark.
std::vector<Key> SwitchmlBuilder::state_keys() const {
  return {{md("type"), MatchKind::kTernary},
          {bitmap_before_, MatchKind::kTernary},
          {seen_, MatchKind::kTernary}};
}

RegisterId SwitchmlBuilder::add_value_register(uint32_t i) {
  const StatefulOperand low{StatefulSource::kLow};
  const StatefulOperand high{StatefulSource::kHigh};
  const StatefulOperand in0{StatefulSource::kInput0};
  const StatefulOperand in1{StatefulSource::kInput1};
  RegisterAction write{.name = "write",
                       .low = {{.op = StatefulOp::kSet, .a = in0}},
                       .high = {{.op = StatefulOp::kSet, .a = in1}},
                       .output = StatefulOutput::kHighAfter};
  RegisterAction sum{.name = "sum",
                     .low = {{.op = StatefulOp::kAdd, .a = low, .b = in0}},
                     .high = {{.op = StatefulOp::kAdd, .a = high, .b = in1}},
                     .output = StatefulOutput::kHighAfter};
  RegisterAction read_high{.name = "read_high", .output = StatefulOutput::kHighBefore};
  RegisterAction read_low{.name = "read_low", .output = StatefulOutput::kLowBefore};
  return b_.add(Register{
      .name = fmt::format("values{}", i),
      .pair = true,
      .is_signed = true,
      .entries = 2 * variant_.slots,
      .actions = {std::move(write), std::move(sum), std::move(read_high), std::move(read_low)},
      .payload = true});
}

/// Processes two elements of a packet (Algorithm 3, lines 9 to 12, 14 and 20).
TableId SwitchmlBuilder::add_processor(uint32_t i) {
  const RegisterId reg = add_value_register(i);
  const auto low = static_cast<FieldId>(b_.program.headers[low_].first + i);
  const auto high = static_cast<FieldId>(b_.program.headers[high_].first + i);
  const auto action = [&](const char* name, uint32_t which, FieldId output) {
    return b_.add(Action{.name = fmt::format("{}{}", name, i),
                         .register_calls = {{reg, which, md("index"), {low, high}, output}}});
  };
  const ActionId write = action("write", 0, high);
  const ActionId sum = action("sum", 1, high);
  const ActionId again = action("read_again", 2, high);
  const ActionId harvest_high = action("harvest_high", 2, low);
  const ActionId harvest_low = action("harvest_low", 3, low);
  const Match consume{kConsumeFirst, kConsumeMask};
  Table table{.name = fmt::format("processor{}", i),
              .keys = state_keys(),
              .actions = {write, sum, again, harvest_high, harvest_low},
              .size = 5};
  if (variant_.timeout) {
    table.keys = timeout_state_keys();
    table.actions = {write, sum, again, harvest_low};
    table.entries = timeout_state_entries(write, again, sum, again);
    table.entries.push_back(
        {{exactly(kHarvestLast), any_value(), any_value(), any_value()}, harvest_low, {}});
    table.size = static_cast<uint32_t>(table.entries.size());
    return b_.add(std::move(table));
  }
  table.entries = {
      {{consume, exactly(0), any_value()}, write, {}},
      {{consume, any_value(), exactly(0)}, sum, {}},
      {{consume, any_value(), any_value()}, again, {}},
      {{{kHarvestFirst, kHarvestFirst | 1}, any_value(), any_value()}, harvest_low, {}},
      {{{kHarvestFirst | 1, kHarvestFirst | 1}, any_value(), any_value()}, harvest_high, {}}};
  if (variant_.processors_per_stage > 0) {
    table.stage = kProcessorStage + i / variant_.processors_per_stage;
  }
  return b_.add(std::move(table));
}

}  // namespace tributary::tofino
