// SPDX-License-Identifier: Apache-2.0
// Compiles the tables' entries for a pass: steps with their rows, and rows of tables that do the
// same to adjacent registers.
#include "tofino/pipeline/pipe.h"

namespace tributary::tofino {

/// Returns the action's register call if it is the only operation and execute_many() supports it.
/// Returns kNoCall otherwise.
uint32_t Pipe::only_call(const Tables::Row& row) const {
  if (row.action == kNone) return kNoCall;
  const Slice ops = executable_.actions[row.action];
  if (ops.last - ops.first != 1) return kNoCall;
  const Executable::MicroOp& op = executable_.micro_ops[ops.first];
  if (op.kind != Executable::MicroKind::kCall) return kNoCall;
  const Executable::CallCode& call = executable_.calls[op.a];
  return executable_.register_actions[call.action].is_plain() ? op.a : kNoCall;
}

/// Returns true if `next` does the same as `call`, but with register, inputs and output `distance`
/// further on.
bool Pipe::calls_follow(uint32_t call, uint32_t next, uint32_t distance) const {
  const Executable::CallCode& a = executable_.calls[call];
  const Executable::CallCode& b = executable_.calls[next];
  const Executable::BankPlace from = executable_.bank_of[a.reg];
  const Executable::BankPlace to = executable_.bank_of[b.reg];
  return from.bank == to.bank && to.position == from.position + distance && a.index == b.index &&
         b.inputs[0] == a.inputs[0] + distance && b.inputs[1] == a.inputs[1] + distance &&
         b.output == a.output + distance &&
         executable_.register_actions[a.action] == executable_.register_actions[b.action];
}

bool Pipe::joins_row(const RowOfTables& row, uint32_t step) const {
  const Executable::Step& first = executable_.steps[row.first_step];
  const Executable::Step& next = executable_.steps[step];
  if (next.kind != Executable::StepKind::kTable || next.then != step + 1 ||
      next.otherwise != step + 1) {
    return false;
  }
  const auto& rows = tables_.rows(next.table);
  if (row.count > 0 &&
      (!next.same_keys_as_previous || !tables_.finds_same_entry(first.table, next.table))) {
    return false;
  }
  for (size_t i = 0; i < rows.size(); i++) {
    const uint32_t call = only_call(rows[i]);
    if (rows[i].action != kNone && call == kNoCall) return false;
    if (row.count == 0) continue;
    if ((call == kNoCall) != (row.calls[i] == kNoCall)) return false;
    if (call != kNoCall && !calls_follow(row.calls[i], call, row.count)) return false;
  }
  return true;
}

void Pipe::find_rows() {
  rows_.clear();
  for (uint32_t step = 0; step < executable_.steps.size(); step++) {
    RowOfTables row{.first_step = step};
    if (!joins_row(row, step)) continue;
    for (const Tables::Row& entry : tables_.rows(executable_.steps[step].table)) {
      row.calls.push_back(only_call(entry));
    }
    row.count = 1;
    while (step + row.count < executable_.steps.size() && joins_row(row, step + row.count)) {
      row.count++;
    }
    if (row.count == 1) continue;
    steps_[step].row = static_cast<uint32_t>(rows_.size());
    step += row.count - 1;
    // A row does not record its match for the next table, so that table must look up its own.
    if (step + 1 < steps_.size()) steps_[step + 1].same_entry_as_previous = false;
    rows_.push_back(std::move(row));
  }
}

void Pipe::compile_steps() {
  tables_generation_ = tables_.generation();
  steps_.assign(executable_.steps.size(), {});
  row_codes_.clear();
  size_t rows = 0;
  for (const Executable::Step& step : executable_.steps) {
    if (step.kind == Executable::StepKind::kTable) rows += tables_.rows(step.table).size();
  }
  row_codes_.reserve(rows);  // Steps point into it.
  TableId before = kNone;
  for (size_t i = 0; i < steps_.size(); i++) {
    const Executable::Step& step = executable_.steps[i];
    StepCode& code = steps_[i];
    code.kind = step.kind;
    code.then = step.then;
    code.otherwise = step.otherwise;
    code.terms = step.terms;
    if (step.kind != Executable::StepKind::kTable) continue;
    code.same_entry_as_previous =
        step.same_keys_as_previous && tables_.finds_same_entry(step.table, before);
    before = step.table;
    code.match = &tables_.match(step.table);
    code.rows = row_codes_.data() + row_codes_.size();
    for (const Tables::Row& row : tables_.rows(step.table)) {
      const Slice ops = row.action == kNone ? Slice{} : executable_.actions[row.action];
      row_codes_.push_back({executable_.micro_ops.data() + ops.first,
                            executable_.micro_ops.data() + ops.last,
                            tables_.parameters(step.table, row)});
    }
    code.miss = static_cast<uint32_t>(tables_.rows(step.table).size() - 1);
  }
  find_rows();
}

}  // namespace tributary::tofino
