// SPDX-License-Identifier: Apache-2.0
#include "engine/model/accounting.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text_table.h"

namespace tributary::engine {
namespace {

using Json = nlohmann::ordered_json;
using microcode::AccessCount;
using microcode::AccessMeter;
using microcode::place_text;

Json json_of(const AccessCount& count) {
  return {{"head_bytes", count.head_bytes},           {"lmem_reads", count.lmem_reads},
          {"lmem_writes", count.lmem_writes},         {"register_reads", count.register_reads},
          {"register_writes", count.register_writes}, {"xtxns", count.xtxns}};
}

Json json_of(const microcode::InstructionUse& use) {
  return {{"lmem_reads", use.lmem_reads},
          {"lmem_writes", use.lmem_writes},
          {"register_reads", use.register_reads},
          {"register_writes", use.register_writes}};
}

std::string after_text(const AccessMeter::Position& position) {
  return position.mark == nullptr ? "the thread's start" : position.mark;
}

std::string reply_text(const AccessMeter::Position& position) {
  return position.reply == nullptr ? "-" : position.reply;
}

std::string used_of(uint32_t used, uint32_t budget) {
  return fmt::format("{} of {}", used, budget);
}

/// Programs keep many values in plain variables, whose accesses no view reports. So a use of 0 does
/// not mean that the instruction needs no register or local memory.
std::string reported_use_of(uint32_t used, uint32_t budget) {
  return used == 0 && budget > 0 ? fmt::format("{} declared", budget) : used_of(used, budget);
}

std::string totals_text(const Accounting& accounting) {
  std::string text = fmt::format("program {}, {} different instructions", accounting.program,
                                 accounting.program_instructions);
  if (accounting.instructions_per_packet > 0) {
    text += fmt::format(", {:.4g} executed per packet", accounting.instructions_per_packet);
  }
  if (accounting.instructions_per_gradient > 0) {
    text += fmt::format(", {:.4g} executed per gradient", accounting.instructions_per_gradient);
  }
  return text;
}

Json unpriced_rows(const Accounting& accounting) {
  Json rows = Json::array();
  for (const AccessMeter::UnpricedRow& row : accounting.unpriced) {
    rows.push_back({{"place", place_text(row.place)},
                    {"after_instruction", after_text(row.after)},
                    {"after_reply", reply_text(row.after)},
                    {"executed", row.executed},
                    {"measured", json_of(row.most)}});
  }
  return rows;
}

}  // namespace

Accounting accounting_of(const PfeCore& pfe) {
  const Report report = pfe.report();
  const AccessMeter& accesses = pfe.accesses();
  return {.program = accesses.program(),
          .program_instructions = report.program_instructions,
          .instructions_per_packet = report.instructions_per_packet,
          .instructions_per_gradient = report.instructions_per_gradient,
          .instructions = accesses.instructions(),
          .unpriced = accesses.unpriced()};
}

std::string accounting_text(const Accounting& accounting) {
  TextTable table({0});
  table.add({"instruction", "executed", "LMEM reads", "LMEM writes", "register reads",
             "register writes", "head bytes", "XTXNs"});
  for (const AccessMeter::InstructionRow& row : accounting.instructions) {
    table.add({row.name, std::to_string(row.executed),
               used_of(row.most.lmem_reads, row.budget.lmem_reads),
               reported_use_of(row.most.lmem_writes, row.budget.lmem_writes),
               reported_use_of(row.most.register_reads, row.budget.register_reads),
               reported_use_of(row.most.register_writes, row.budget.register_writes),
               std::to_string(row.most.head_bytes), std::to_string(row.most.xtxns)});
  }
  return totals_text(accounting) +
         "\n\nThe most that one execution has used, of its budget (declared: not measured):\n" +
         table.text() + "\n" + unpriced_text(accounting);
}

std::string unpriced_text(const Accounting& accounting) {
  if (accounting.unpriced.empty()) return "No code runs without a price.\n";
  TextTable table({0, 1, 2});
  table.add({"first access", "after instruction", "after reply", "executed", "LMEM reads",
             "LMEM writes", "register reads", "register writes", "head bytes", "XTXNs"});
  for (const AccessMeter::UnpricedRow& row : accounting.unpriced) {
    table.add({place_text(row.place), after_text(row.after), reply_text(row.after),
               std::to_string(row.executed), std::to_string(row.most.lmem_reads),
               std::to_string(row.most.lmem_writes), std::to_string(row.most.register_reads),
               std::to_string(row.most.register_writes), std::to_string(row.most.head_bytes),
               std::to_string(row.most.xtxns)});
  }
  return "Code without a price, up to the next instruction:\n" + table.text();
}

Json accounting_json(const Accounting& accounting) {
  Json instructions = Json::array();
  for (const AccessMeter::InstructionRow& row : accounting.instructions) {
    instructions.push_back({{"name", row.name},
                            {"executed", row.executed},
                            {"budget", json_of(row.budget)},
                            {"measured", json_of(row.most)}});
  }
  return {{"program", accounting.program},
          {"program_instructions", accounting.program_instructions},
          {"instructions_per_packet", accounting.instructions_per_packet},
          {"instructions_per_gradient", accounting.instructions_per_gradient},
          {"lmem_access_bytes", microcode::kLmemAccessBytes},
          {"instructions", std::move(instructions)},
          {"unpriced", unpriced_rows(accounting)}};
}

Json unpriced_json(const Accounting& accounting) {
  return {{"program", accounting.program}, {"unpriced", unpriced_rows(accounting)}};
}

}  // namespace tributary::engine
