// SPDX-License-Identifier: Apache-2.0
// The modelled machine's trace output. It runs only while a trace is on.
#include <array>

#include "engine/model/model_machine.h"

namespace tributary::engine {

const char* to_string(microcode::XtxnKind kind) {
  static constexpr std::array<const char*, microcode::kXtxnKindCount> kNames{"read",
                                                                             "write",
                                                                             "fetch-and-and",
                                                                             "fetch-and-or",
                                                                             "fetch-and-xor",
                                                                             "fetch-and-clear",
                                                                             "fetch-and-swap",
                                                                             "masked write",
                                                                             "add",
                                                                             "counter increment",
                                                                             "police",
                                                                             "fetch-and-add",
                                                                             "fetch-and-op",
                                                                             "hash lookup",
                                                                             "hash insert",
                                                                             "hash delete",
                                                                             "hash scan",
                                                                             "tail read",
                                                                             "tail write"};
  static_assert(kNames.back() != nullptr, "every kind has a name");
  return kNames[static_cast<uint32_t>(kind)];
}

void ModelMachine::trace_instruction(const microcode::Instruction& mark) const {
  trace_.emit(instruction_at_, current_->packet.number, TraceKind::kInstruction, mark.name,
              {{"thread", current_->number}});
}

void ModelMachine::trace_request(const ModelThread& thread, const RequestView& request,
                                 bool wants_reply) const {
  std::vector<TraceField> fields{{"thread", thread.number}};
  TraceWord target = words_->target(request.target);
  if (!target.name.empty()) fields.emplace_back("target", std::move(target.name));
  fields.emplace_back("bytes", request.size_bytes);
  if (!wants_reply) fields.emplace_back("wants_reply", false);
  for (TraceField& field : target.fields) fields.push_back(std::move(field));
  trace_.emit(thread.local_at, thread.packet.number, TraceKind::kRequest, request.what,
              std::move(fields));
}

void ModelMachine::account_with_trace(ModelThread& thread, Instant until) const {
  const LatencyParts before = thread.parts;
  ModelRequest& request = *thread.waiting_on;
  request.account(thread.waits_since, until);
  std::vector<TraceField> fields{{"thread", thread.number}, {"waited", until - thread.waits_since}};
  for (uint32_t i = 0; i < kLatencyPartCount; i++) {
    const Duration part = thread.parts.spent[i] - before.spent[i];
    if (part != Duration()) fields.emplace_back(to_string(static_cast<LatencyPart>(i)), part);
  }
  const RequestView view = request.view();
  for (TraceField& field : words_->target(view.target).fields) fields.push_back(std::move(field));
  trace_.emit(until, thread.packet.number, TraceKind::kReply, view.what, std::move(fields));
}

void ModelMachine::trace_drop(uint32_t reason) const {
  trace_.emit(current_->local_at, current_->packet.number, TraceKind::kDrop,
              words_->drop_reason(reason), {{"thread", current_->number}});
}

}  // namespace tributary::engine
