// SPDX-License-Identifier: Apache-2.0
// Builds the parts of SwitchML's switch program that differ with timeouts (see program.h). A phase
// register replaces the worker's mark and "was it seen": it tells which packets are new. The tables
// test the workers' marks themselves, because no stage is left for that.
#include "tofino/limits.h"
#include "tofino/switchml/builder.h"

namespace tributary::tofino {
namespace {

constexpr StatefulOperand kLow{StatefulSource::kLow};
constexpr StatefulOperand kHigh{StatefulSource::kHigh};
constexpr StatefulOperand kInput{StatefulSource::kInput0};
constexpr StatefulOperand kOne{StatefulSource::kConstant, 1};

/// Less than any packet id; ids are 0 to 2^31 - 1.
constexpr uint32_t kBeforeAll = 0xffff'ffff;
// Outputs of the phase register for a packet (StatefulOutput::kComparisons).
constexpr uint32_t kPhaseSame = 0;
constexpr uint32_t kPhaseNew = 1;
constexpr uint32_t kPhaseLate = 2;
/// Output of the age register if a sweep finds that a slot is too old.
constexpr uint32_t kExpired = 2;
/// Sweeps after which a slot without a contribution is closed. Two, as for Trio's timers (Trio
/// paper §5), because the first sweep may come right after the contribution.
constexpr int64_t kAgeLimit = 2;
/// Entries that match "the worker has its mark": one per worker.
constexpr uint32_t kMarkEntries = kSwitchmlWorkersMax;

}  // namespace

/// Compares a packet's id with the id of the slot's set. Ids rise from phase to phase.
RegisterId SwitchmlBuilder::add_phase_register() {
  const auto arrive = [](StatefulSource word) {
    return std::vector<StatefulComparison>{{.memory = word,
                                            .input = StatefulSource::kInput0,
                                            .subtract_input = true,
                                            .relation = Relation::kLess,
                                            .is_signed = true},
                                           {.memory = word,
                                            .input = StatefulSource::kInput0,
                                            .subtract_input = true,
                                            .relation = Relation::kGreater,
                                            .is_signed = true}};
  };
  const StatefulUpdate take{.when = kIfFirst, .op = StatefulOp::kSet, .a = kInput};
  RegisterAction set0{.name = "set0",
                      .comparisons = arrive(StatefulSource::kLow),
                      .low = {take},
                      .output = StatefulOutput::kComparisons};
  RegisterAction set1{.name = "set1",
                      .comparisons = arrive(StatefulSource::kHigh),
                      .high = {take},
                      .output = StatefulOutput::kComparisons};
  RegisterAction read0{.name = "read0", .output = StatefulOutput::kLowBefore};
  RegisterAction read1{.name = "read1", .output = StatefulOutput::kHighBefore};
  return b_.add(
      Register{.name = "phase",
               .pair = true,
               .is_signed = true,
               .entries = variant_.slots,
               .initial = {kBeforeAll, kBeforeAll},
               .actions = {std::move(set0), std::move(set1), std::move(read0), std::move(read1)}});
}

/// Refuses or drops packets before they leave a mark, and looks up their phase. In later passes a
/// packet reads the slot's current phase and takes that phase's id. If a result has halves of two
/// phases, its id is therefore one that no worker waits for.
TableId SwitchmlBuilder::add_phase() {
  const RegisterId phase = add_phase_register();
  const FieldId id = of(sml_, "packet_id");
  const auto call = [&](uint32_t action, FieldId output) {
    return RegisterCall{phase, action, md("slot"), {id, kNone}, output};
  };
  const ActionId set0 = b_.add(Action{.name = "phase_set0", .register_calls = {call(0, phase_)}});
  const ActionId set1 = b_.add(Action{
      .name = "phase_set1",
      .register_calls = {call(1, phase_)},
      .operations = {alu(AluOp::kAdd, md("index"), field(md("index")), constant(variant_.slots))}});
  const ActionId read0 = b_.add(Action{.name = "phase_read0", .register_calls = {call(2, id)}});
  const ActionId read1 = b_.add(Action{.name = "phase_read1", .register_calls = {call(3, id)}});
  const CounterId outside = b_.add(Counter{.name = "slot_outside_pool", .entries = 1});
  const CounterId simulated = b_.add(Counter{.name = "simulated_loss", .entries = 1});
  const ActionId refuse = dropping("slot_outside_pool", {{outside, kNone}});
  const ActionId lose = dropping("simulated_loss", {{simulated, kNone}});
  const Match any = any_value();
  const Match first = exactly(kConsumeFirst);
  return b_.add(Table{.name = "phase",
                      .keys = {{md("type"), MatchKind::kTernary},
                               {of(sml_, "set"), MatchKind::kTernary},
                               {slots_left_, MatchKind::kTernary},
                               {random_, MatchKind::kTernary}},
                      .actions = {set0, set1, read0, read1, refuse, lose},
                      .size = 9 + kSwitchmlLossEntries,
                      .entries = {{{first, any, {0x8000, 0x8000}, any}, refuse, {}},
                                  {{first, exactly(0), any, any}, set0, {}},
                                  {{first, exactly(1), any, any}, set1, {}},
                                  {{exactly(kClose), exactly(0), any, any}, read0, {}},
                                  {{exactly(kClose), exactly(1), any, any}, read1, {}},
                                  {{exactly(kLateAnswer), exactly(0), any, any}, read0, {}},
                                  {{exactly(kLateAnswer), exactly(1), any, any}, read1, {}},
                                  {{exactly(kHarvestLast), exactly(0), any, any}, read0, {}},
                                  {{exactly(kHarvestLast), exactly(1), any, any}, read1, {}}}});
}

/// Marks the worker. A new phase starts with this mark alone. Closing a slot marks all workers.
TableId SwitchmlBuilder::add_marks() {
  const auto word = [&](const char* name, bool high, bool is_new) {
    const StatefulOperand own = high ? kHigh : kLow;
    std::vector<StatefulUpdate> update{
        is_new ? StatefulUpdate{.op = StatefulOp::kSet, .a = kInput}
               : StatefulUpdate{.op = StatefulOp::kOr, .a = own, .b = kInput}};
    RegisterAction action{.name = name};
    if (!is_new) action.output = high ? StatefulOutput::kHighBefore : StatefulOutput::kLowBefore;
    (high ? action.high : action.low) = std::move(update);
    return action;
  };
  const RegisterId marks =
      b_.add(Register{.name = "bitmap",
                      .pair = true,
                      .entries = variant_.slots,
                      .actions = {word("begin0", false, true), word("begin1", true, true),
                                  word("mark0", false, false), word("mark1", true, false)}});
  const auto action = [&](const char* name, uint32_t which) {
    return b_.add(
        Action{.name = name,
               .register_calls = {{marks, which, md("slot"), {md("bit"), kNone}, bitmap_before_}}});
  };
  const ActionId begin0 = action("begin_set0", 0);
  const ActionId begin1 = action("begin_set1", 1);
  const ActionId mark0 = action("mark_set0", 2);
  const ActionId mark1 = action("mark_set1", 3);
  const CounterId late = b_.add(Counter{.name = "late", .entries = 1});
  const ActionId is_late = b_.add(Action{
      .name = "late", .counts = {{late, kNone}}, .operations = {set(md("type"), constant(kLate))}});
  const Match consume{kConsumeFirst, kConsumeMask};
  return b_.add(Table{.name = "bitmap",
                      .keys = {{md("type"), MatchKind::kTernary},
                               {of(sml_, "set"), MatchKind::kTernary},
                               {phase_, MatchKind::kTernary}},
                      .actions = {begin0, begin1, mark0, mark1, is_late},
                      .size = 7,
                      .entries = {{{consume, any_value(), exactly(kPhaseLate)}, is_late, {}},
                                  {{consume, exactly(0), exactly(kPhaseNew)}, begin0, {}},
                                  {{consume, exactly(1), exactly(kPhaseNew)}, begin1, {}},
                                  {{consume, exactly(0), exactly(kPhaseSame)}, mark0, {}},
                                  {{consume, exactly(1), exactly(kPhaseSame)}, mark1, {}},
                                  {{exactly(kClose), exactly(0), any_value()}, mark0, {}},
                                  {{exactly(kClose), exactly(1), any_value()}, mark1, {}}}});
}

std::vector<Key> SwitchmlBuilder::timeout_state_keys() const {
  return {{md("type"), MatchKind::kTernary},
          {phase_, MatchKind::kTernary},
          {bitmap_before_, MatchKind::kTernary},
          {md("worker"), MatchKind::kTernary}};
}

/// Returns the entries of a table with those keys: for a new phase, for a worker with its mark (one
/// entry per worker), for another worker, and for closing.
std::vector<Entry> SwitchmlBuilder::timeout_state_entries(ActionId is_new, ActionId seen,
                                                          ActionId other, ActionId close) const {
  const Match consume{kConsumeFirst, kConsumeMask};
  const Match any = any_value();
  std::vector<Entry> entries{{{consume, exactly(kPhaseNew), any, any}, is_new, {}}};
  for (uint32_t worker = 0; worker < kMarkEntries; worker++) {
    const uint32_t bit = 1U << worker;
    entries.push_back({{consume, exactly(kPhaseSame), {bit, bit}, exactly(worker)}, seen, {}});
  }
  entries.push_back({{consume, exactly(kPhaseSame), any, any}, other, {}});
  entries.push_back({{exactly(kClose), any, any, any}, close, {}});
  return entries;
}

/// Counts the phase's contributions (0 if complete or closed) and chooses the result's receivers.
TableId SwitchmlBuilder::add_timeout_count_table() {
  const std::vector<StatefulComparison> last_of_all{{.memory = StatefulSource::kLow,
                                                     .input = StatefulSource::kInput0,
                                                     .subtract_input = true,
                                                     .relation = Relation::kEqual}};
  const std::vector<StatefulComparison> only_one{{.memory = StatefulSource::kZero,
                                                  .input = StatefulSource::kInput0,
                                                  .subtract_input = true,
                                                  .relation = Relation::kEqual}};
  RegisterAction add{.name = "add",
                     .comparisons = last_of_all,
                     .low = {{.when = kIfFirst},
                             {.when = kUnlessFirst, .op = StatefulOp::kAdd, .a = kLow, .b = kOne}},
                     .output = StatefulOutput::kLowAfter};
  RegisterAction begin{.name = "begin",
                       .comparisons = only_one,
                       .low = {{.when = kIfFirst}, {.when = kUnlessFirst, .a = kOne}},
                       .output = StatefulOutput::kLowAfter};
  RegisterAction read{.name = "read", .output = StatefulOutput::kLowBefore};
  RegisterAction close{.name = "close", .low = {{}}, .output = StatefulOutput::kLowBefore};
  const RegisterId count = b_.add(
      Register{.name = "count",
               .bits = 8,
               .entries = 2 * variant_.slots,
               .actions = {std::move(add), std::move(begin), std::move(read), std::move(close)}});
  const auto action = [&](const char* name, uint32_t which, uint32_t mode) {
    return b_.add(
        Action{.name = name,
               .register_calls = {{count, which, md("index"), {md("worker_last"), kNone}, count_}},
               .operations = {set(md("mode"), constant(mode))}});
  };
  const ActionId add_action = action("count_add", 0, kSwitchmlBroadcast);
  const ActionId begin_action = action("count_begin", 1, kSwitchmlBroadcast);
  const ActionId read_action = action("count_read", 2, kSwitchmlUnicast);
  const ActionId close_action = action("count_close", 3, kSwitchmlBroadcast);
  auto entries = timeout_state_entries(begin_action, read_action, add_action, close_action);
  return b_.add(Table{.name = "count",
                      .keys = timeout_state_keys(),
                      .actions = {add_action, begin_action, read_action, close_action},
                      .size = static_cast<uint32_t>(entries.size()),
                      .entries = std::move(entries)});
}

/// Low word: sweeps since the last contribution, plus one; 0 if nothing is in progress. High word:
/// contributions of a closed phase; 0 for a complete one.
RegisterId SwitchmlBuilder::add_age_register() {
  const StatefulComparison idle{.memory = StatefulSource::kLow, .relation = Relation::kEqual};
  const StatefulComparison old{
      .memory = StatefulSource::kLow, .constant = -kAgeLimit, .relation = Relation::kGreaterEqual};
  const StatefulComparison nothing{.input = StatefulSource::kInput0, .relation = Relation::kEqual};
  RegisterAction touch{.name = "touch", .low = {{.a = kOne}}, .high = {{}}};
  RegisterAction finish{.name = "finish", .low = {{}}, .output = StatefulOutput::kHighAfter};
  // An idle slot stays idle. The output is then 1, which no table matches.
  RegisterAction sweep{
      .name = "sweep",
      .comparisons = {idle, old},
      .low = {{.when = kUnlessFirst, .op = StatefulOp::kAddSaturated, .a = kLow, .b = kOne}},
      .output = StatefulOutput::kComparisons};
  RegisterAction close{.name = "close",
                       .comparisons = {nothing},
                       .low = {{.when = kUnlessFirst}},
                       .high = {{.when = kUnlessFirst, .a = kInput}},
                       .output = StatefulOutput::kHighAfter};
  return b_.add(Register{
      .name = "age",
      .bits = 8,
      .pair = true,
      .entries = 2 * variant_.slots,
      .actions = {std::move(touch), std::move(finish), std::move(sweep), std::move(close)}});
}

/// A worker with its mark whose phase is incomplete does not change the age. Its retransmission
/// says nothing about the missing worker.
TableId SwitchmlBuilder::add_age() {
  const RegisterId age = add_age_register();
  const CounterId closed = b_.add(Counter{.name = "closed", .entries = 1});
  const auto call = [&](uint32_t action, FieldId output) {
    return RegisterCall{age, action, md("index"), {count_, kNone}, output};
  };
  const ActionId touch = b_.add(Action{.name = "age_touch", .register_calls = {call(0, kNone)}});
  const ActionId finish = b_.add(Action{.name = "age_finish", .register_calls = {call(1, age_)}});
  const ActionId sweep = b_.add(Action{.name = "age_sweep", .register_calls = {call(2, age_)}});
  const ActionId close = b_.add(
      Action{.name = "age_close", .register_calls = {call(3, age_)}, .counts = {{closed, kNone}}});
  const Match consume{kConsumeFirst, kConsumeMask};
  const Match any = any_value();
  return b_.add(Table{.name = "age",
                      .keys = {{md("type"), MatchKind::kTernary},
                               {count_, MatchKind::kTernary},
                               {md("mode"), MatchKind::kTernary}},
                      .actions = {touch, finish, sweep, close},
                      .size = 4,
                      .entries = {{{consume, exactly(0), any}, finish, {}},
                                  {{consume, any, exactly(kSwitchmlBroadcast)}, touch, {}},
                                  {{exactly(kSweep), any, any}, sweep, {}},
                                  {{exactly(kClose), any, any}, close, {}}}});
}

/// Prepares a generated packet: sets the slot and set that it sweeps.
TableId SwitchmlBuilder::add_sweep() {
  const auto action = [&](const char* name, uint32_t set_number) {
    const FieldId slot = of(tick_, "packet");
    return b_.add(Action{
        .name = name,
        .parameter_bits = {32, 8, 16},  // All workers' bits, worker_last, group.
        .operations = {
            valid(md_, true), valid(tick_, false), set(md("type"), constant(kSweep)),
            set(md("bit"), parameter(0)), set(md("worker_last"), parameter(1)),
            set(md("group"), parameter(2)), set(md("slot"), field(slot)),
            alu(AluOp::kAdd, md("index"), field(slot), constant(set_number * variant_.slots)),
            set(of(sml_, "slot"), field(slot)), set(of(sml_, "set"), constant(set_number))}});
  };
  const ActionId set0 = action("sweep_set0", 0);
  const ActionId set1 = action("sweep_set1", 1);
  const CounterId unknown = b_.add(Counter{.name = "unknown_sweep", .entries = 1});
  const ActionId miss = dropping("unknown_sweep", {{unknown, kNone}});
  return b_.add(Table{.name = "sweep",
                      .keys = {{of(tick_, "batch")}},
                      .actions = {set0, set1},
                      .default_action = miss,
                      .size = 2});
}

TableId SwitchmlBuilder::add_timeout_next_step() {
  const NextStepActions common = add_next_step_actions();
  const std::vector<Operation> to_loop{
      set(in().egress_valid, constant(1)), set(in().bypass_egress, constant(1)),
      set(in().egress_port, parameter(1)), set(md("type"), parameter(0))};
  const ActionId loop =
      b_.add(Action{.name = "loop", .parameter_bits = {8, 9}, .operations = to_loop});
  // Sends the result as complete, or with the closed phase's contributions in the job field.
  std::vector<Operation> degrade{valid(low_, false), set(of(sml_, "job"), field(age_)),
                                 set(of(sml_, "unused1"), constant(1))};
  degrade.insert(degrade.end(), to_loop.begin(), to_loop.end());
  const ActionId harvest_degraded = b_.add(Action{
      .name = "harvest_degraded", .parameter_bits = {8, 9}, .operations = std::move(degrade)});
  std::vector<Operation> whole{valid(low_, false)};
  whole.insert(whole.end(), to_loop.begin(), to_loop.end());
  const ActionId harvest =
      b_.add(Action{.name = "harvest", .parameter_bits = {8, 9}, .operations = std::move(whole)});
  const ActionId end = dropping("sweep_end", {});
  const ActionId answer = b_.add(Action{
      .name = "answer_late",
      .operations = {set(in().egress_valid, constant(1)), set(in().egress_port, field(md("port"))),
                     set(of(sml_, "job"), constant(0)), set(of(sml_, "unused1"), constant(1))}});
  const Match any = any_value();
  const Match consume{kConsumeFirst, kConsumeMask};
  const uint32_t port = kLoopLocalPortFirst;
  std::vector<Entry> entries{
      {{consume, exactly(0), any, exactly(0)}, harvest, {kHarvestLast, port}},
      {{consume, exactly(0), any, any}, harvest_degraded, {kHarvestLast, port}},
      {{consume, any, any, any}, common.finish, {}},
      {{exactly(kSweep), any, any, exactly(kExpired)}, loop, {kClose, port}},
      {{exactly(kSweep), any, any, any}, end, {}},
      {{exactly(kClose), exactly(0), any, any}, end, {}},
      {{exactly(kClose), any, any, any}, harvest_degraded, {kHarvestLast, port}},
      {{exactly(kLate), any, any, any}, loop, {kLateAnswer, port}},
      {{exactly(kLateAnswer), any, any, any}, answer, {}},
      {{exactly(kHarvestLast), any, exactly(kSwitchmlBroadcast), any}, common.broadcast, {}},
      {{exactly(kHarvestLast), any, exactly(kSwitchmlUnicast), any}, common.retransmit, {}}};
  return b_.add(Table{.name = "next_step",
                      .keys = {{md("type"), MatchKind::kTernary},
                               {count_, MatchKind::kTernary},
                               {md("mode"), MatchKind::kTernary},
                               {age_, MatchKind::kTernary}},
                      .actions = {loop, harvest, harvest_degraded, end, answer, common.finish,
                                  common.broadcast, common.retransmit},
                      .size = static_cast<uint32_t>(entries.size()),
                      .entries = std::move(entries)});
}

void SwitchmlBuilder::build_timeout_ingress() {
  std::vector<Statement> aggregation{apply(add_marks()), apply(add_timeout_count_table()),
                                     apply(add_exponent_table())};
  for (uint32_t i = 0; i < variant_.processors; i++) {
    aggregation.push_back(apply(add_processor(i)));
  }
  aggregation.push_back(apply(add_age()));
  aggregation.push_back(apply(add_timeout_next_step()));
  const Term has_tick{.field = b_.valid_of(tick_), .value = 1};
  b_.program.ingress.control = {when(
      {{.field = b_.valid_of(sml_), .value = 1}},
      {when({{.field = b_.valid_of(md_), .value = 0}},
            {when({has_tick}, {apply(add_sweep())}, {apply(add_receive())})}),
       when(
           {{.field = b_.valid_of(md_), .value = 1}},
           {apply(add_phase()), when({{.field = in().drop, .value = 0}}, std::move(aggregation))})},
      {apply(add_forward())})};
}

}  // namespace tributary::tofino
