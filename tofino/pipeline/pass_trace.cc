// SPDX-License-Identifier: Apache-2.0
#include "tofino/pipeline/pass_trace.h"

#include <fmt/format.h>

#include "tofino/pipeline/match_table.h"

namespace tributary::tofino {
namespace {

/// Number of payload values that a trace event shows. Its field "more" counts the others.
constexpr uint32_t kPayloadShown = 1;

/// Returns "slot" for "sml.slot", because users filter by the short name.
std::string short_name(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

}  // namespace

void PassTrace::state(const Executable::GressCode& gress, uint16_t state) const {
  const Program& program = *executable_.program;
  emit(TraceKind::kParser,
       (gress.is_ingress ? program.ingress : program.egress).parser[state].name);
}

void PassTrace::header(const Executable::HeaderCode& code, const uint32_t* phv) const {
  const Header& header = executable_.program->headers[code.id];
  std::vector<TraceField> fields;
  if (code.elided) {
    fields.emplace_back("elided_bytes", code.bytes);
    return emit(TraceKind::kHeader, header.name, std::move(fields));
  }
  // Fields that nothing uses are not read, so their values are unknown here.
  for (uint32_t i = code.loads.first; i < code.loads.last; i++) {
    if (header.payload && i - code.loads.first == kPayloadShown) {
      fields.emplace_back("more", code.loads.last - i);
      break;
    }
    const uint16_t id = executable_.header_fields[i].field;
    fields.emplace_back(short_name(executable_.program->fields[id].name), phv[id]);
  }
  emit(TraceKind::kHeader, header.name, std::move(fields));
}

void PassTrace::table(TableId id, uint32_t entry, const uint32_t* phv) const {
  const Program& program = *executable_.program;
  const bool hit = entry != MatchTable::kMiss;
  std::vector<TraceField> fields{{"hit", hit}};
  if (hit) fields.emplace_back("entry", entry);
  const ActionId action = tables_.row(id, entry).action;
  fields.emplace_back("action",
                      action == kNone ? std::string("none") : program.actions[action].name);
  for (const Key& key : program.tables[id].keys) {
    fields.emplace_back(program.fields[key.field].name, TraceHex{phv[key.field]});
  }
  emit(TraceKind::kTable, program.tables[id].name, std::move(fields));
}

void PassTrace::gateway(Slice terms, bool holds) const {
  std::string text;
  for (uint32_t i = terms.first; i < terms.last; i++) {
    const Executable::TermCode& term = executable_.terms[i];
    if (!text.empty()) text += " and ";
    text += executable_.program->fields[term.field].name;
    if (term.mask != 0xffffffff) text += fmt::format(" & {:#x}", term.mask);
    text += fmt::format(" {} {}", term.negated ? "!=" : "==", term.value);
  }
  emit(TraceKind::kGateway, std::move(text), {{"holds", holds}});
}

void PassTrace::access(const Executable::CallCode& call, uint32_t index, RegisterWords before,
                       RegisterWords after, uint32_t output) const {
  const Program& program = *executable_.program;
  const Register& reg = program.registers[call.reg];
  const uint32_t action = call.action - executable_.register_action_first[call.reg];
  std::vector<TraceField> fields{{"entry", index},
                                 {"action", reg.actions[action].name},
                                 {"before", TraceHex{before.low}},
                                 {"after", TraceHex{after.low}}};
  if (reg.pair) {
    fields.emplace_back("high_before", TraceHex{before.high});
    fields.emplace_back("high_after", TraceHex{after.high});
  }
  if (call.output != executable_.unread_word) {
    fields.emplace_back(program.fields[call.output].name, TraceHex{output});
  }
  emit(TraceKind::kRegister, reg.name, std::move(fields));
}

void PassTrace::bad_index(const Executable::CallCode& call, uint32_t index) const {
  emit(TraceKind::kRegister, executable_.program->registers[call.reg].name,
       {{"entry", index}, {"action", std::string("none: no such entry")}});
}

void PassTrace::field(uint16_t id, uint32_t before, uint32_t after) const {
  if (before == after || id >= executable_.program->fields.size()) return;
  emit(TraceKind::kField, executable_.program->fields[id].name,
       {{"before", TraceHex{before}}, {"after", TraceHex{after}}});
}

}  // namespace tributary::tofino
