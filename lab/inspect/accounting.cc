// SPDX-License-Identifier: Apache-2.0
#include "lab/inspect/accounting.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lab/inspect/inspected_node.h"
#include "lab/inspect/run_tracer.h"
#include "lab/report/text_table.h"

namespace tributary::lab {
namespace {

using Json = nlohmann::ordered_json;
using microcode::AccessCount;
using microcode::AccessMeter;
using microcode::place_text;

Json json_of(const AccessCount& count) {
  return {{"head_bytes", count.head_bytes},
          {"lmem_reads", count.lmem_reads},
          {"register_reads", count.register_reads},
          {"register_writes", count.register_writes},
          {"xtxns", count.xtxns}};
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

/// Programs keep most values in plain variables, whose accesses no view reports. So a use of 0 does
/// not mean that the instruction needs no register.
std::string register_use_of(uint32_t used, uint32_t budget) {
  return used == 0 && budget > 0 ? fmt::format("{} declared", budget) : used_of(used, budget);
}

}  // namespace

NodeAccounting accounting_of(std::string node, const engine::PfeCore& pfe) {
  const engine::Report report = pfe.report();
  const AccessMeter& accesses = pfe.accesses();
  return {.node = std::move(node),
          .program = accesses.program(),
          .program_instructions = report.program_instructions,
          .instructions_per_gradient = report.instructions_per_gradient,
          .instructions = accesses.instructions(),
          .unpriced = accesses.unpriced()};
}

Result<void> AccountingObserver::begin(const RunInside& inside) {
  if (!node_.empty()) {
    if (const auto known = check_trace_node(inside, node_); !known) return known;
  }
  for (const InspectedNode* const node : inside.aggregators) {
    if (!node_.empty() && node->name() != node_) continue;
    if (node->pfe() != nullptr) pfes_.emplace_back(node->name(), node->pfe());
  }
  if (!pfes_.empty()) return {};
  return failure(
      "no packet program runs on a modelled Trio here, so there are no instructions to measure; "
      "back ends with one: trio-ml, trio-ml-wait, switchml-on-trio");
}

void AccountingObserver::end() {
  nodes_.clear();
  for (const auto& [name, pfe] : pfes_) nodes_.push_back(accounting_of(name, *pfe));
}

std::string accounting_text(const NodeAccounting& node) {
  std::string text = fmt::format("{}: program {}, {} different instructions", node.node,
                                 node.program, node.program_instructions);
  if (node.instructions_per_gradient > 0) {
    text += fmt::format(", {:.4g} executed per gradient", node.instructions_per_gradient);
  }
  TextTable instructions({0});
  instructions.add({"instruction", "executed", "LMEM reads", "register reads", "register writes",
                    "head bytes", "XTXNs"});
  for (const AccessMeter::InstructionRow& row : node.instructions) {
    instructions.add({row.name, std::to_string(row.executed),
                      used_of(row.most.lmem_reads, row.budget.lmem_reads),
                      register_use_of(row.most.register_reads, row.budget.register_reads),
                      register_use_of(row.most.register_writes, row.budget.register_writes),
                      std::to_string(row.most.head_bytes), std::to_string(row.most.xtxns)});
  }
  text += "\n\nThe most that one execution has used, of its budget (declared: not measured):\n" +
          instructions.text();
  return text + "\n" + unpriced_text(node);
}

std::string unpriced_text(const NodeAccounting& node) {
  if (node.unpriced.empty()) return "No code runs without a price.\n";
  TextTable unpriced({0, 1, 2});
  unpriced.add(
      {"first access", "after instruction", "after reply", "executed", "LMEM reads", "XTXNs"});
  for (const AccessMeter::UnpricedRow& row : node.unpriced) {
    unpriced.add({place_text(row.place), after_text(row.after), reply_text(row.after),
                  std::to_string(row.executed), std::to_string(row.most.lmem_reads),
                  std::to_string(row.most.xtxns)});
  }
  return "Code without a price, up to the next instruction:\n" + unpriced.text();
}

namespace {

Json unpriced_rows(const NodeAccounting& node) {
  Json rows = Json::array();
  for (const AccessMeter::UnpricedRow& row : node.unpriced) {
    rows.push_back({{"place", place_text(row.place)},
                    {"after_instruction", after_text(row.after)},
                    {"after_reply", reply_text(row.after)},
                    {"executed", row.executed},
                    {"measured", json_of(row.most)}});
  }
  return rows;
}

}  // namespace

std::string accounting_json(const std::vector<NodeAccounting>& nodes) {
  Json list = Json::array();
  for (const NodeAccounting& node : nodes) {
    Json instructions = Json::array();
    for (const AccessMeter::InstructionRow& row : node.instructions) {
      instructions.push_back({{"name", row.name},
                              {"executed", row.executed},
                              {"budget", json_of(row.budget)},
                              {"measured", json_of(row.most)}});
    }
    list.push_back({{"node", node.node},
                    {"program", node.program},
                    {"program_instructions", node.program_instructions},
                    {"instructions_per_gradient", node.instructions_per_gradient},
                    {"lmem_access_bytes", microcode::kLmemAccessBytes},
                    {"instructions", std::move(instructions)},
                    {"unpriced", unpriced_rows(node)}});
  }
  return list.dump(2) + '\n';
}

std::string unpriced_json(const std::vector<NodeAccounting>& nodes) {
  Json list = Json::array();
  for (const NodeAccounting& node : nodes) {
    list.push_back(
        {{"node", node.node}, {"program", node.program}, {"unpriced", unpriced_rows(node)}});
  }
  return list.dump(2) + '\n';
}

}  // namespace tributary::lab
