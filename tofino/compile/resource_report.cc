// SPDX-License-Identifier: Apache-2.0
#include "tofino/compile/resource_report.h"

#include <fmt/format.h>

#include <array>

#include "base/key_table.h"
#include "tofino/limits.h"
#include "tofino/precision/program.h"
#include "tofino/switchml/program.h"

namespace tributary::tofino {
namespace {

constexpr std::array<NamedProgram, 6> kPrograms{{
    {"precision", "PRECISION, the largest flows in two rows of 4,096 slots",
     "1, and 2 for a packet that takes a slot; 1 inner loop"},
    {"switchml-64", "SwitchML, 64 elements per packet, one pipe",
     "1 for a contribution, 2 for the one that completes a slot; 1 inner loop"},
    {"switchml-256", "SwitchML, 256 elements per packet, four pipes",
     "4 for a contribution, 11 for the one that completes a slot; 48 front-panel ports and all "
     "inner loops"},
    {"switchml-64-timeout", "SwitchML with timeouts by the packet generator, 64 elements, one pipe",
     "1 for a contribution, 2 for the one that completes a slot, 3 to close one, 2 to answer a "
     "late worker, 1 for each slot, set and period; 1 inner loop, 1 packet generator with its "
     "loop"},
    {"switchml-64-fifth-operand",
     "the same with five value registers in each stage from 3 on: refused"},
    {"switchml-72", "SwitchML with 36 processors instead of 32: refused"},
}};

std::vector<std::string> tables_in(const Program& program, const Placement& placement,
                                   uint32_t stage) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < placement.units.size(); i++) {
    const Unit& unit = placement.units[i];
    if (placement.stage_of[i] != stage || unit.table == kNone) continue;
    names.push_back(program.tables[unit.table].name);
  }
  return names;
}

/// Returns the share in tenths of a percent, computed without floating-point numbers.
std::string share(uint32_t used, uint32_t limit) {
  const uint64_t tenths = (uint64_t{used} * 1000 + limit / 2) / limit;
  return fmt::format("{}.{} %", tenths / 10, tenths % 10);
}

Program named(Program program, std::string_view name) {
  program.name = std::string(name);
  return program;
}

}  // namespace

std::string resources_text(const Program& program, const Placement& placement) {
  std::string text = fmt::format("{}: {} of {} stages\n\n{:<26}", program.name,
                                 placement.stages.size(), kStages, "stage");
  for (uint32_t stage = 0; stage < placement.stages.size(); stage++) {
    text += fmt::format("{:>4}", stage);
  }
  text += fmt::format("{:>7}{:>7}{:>9}\n", "sum", "pipe", "share");
  for (uint32_t i = 0; i < kResourceCount; i++) {
    const auto resource = static_cast<Resource>(i);
    const ResourceInfo& info = info_of(resource);
    text += fmt::format("{:<26}", info.name);
    for (const StageUse& stage : placement.stages) text += fmt::format("{:>4}", stage[resource]);
    const uint32_t total = placement.total(resource);
    const uint32_t limit = info.limit * kStages;
    text += fmt::format("{:>7}{:>7}{:>9}\n", total, limit, share(total, limit));
  }
  const PhvUse& phv = placement.phv;
  text += fmt::format(
      "\nPHV: {} of {} bits (ingress {}, egress {}); tagalong {} of {}\n"
      "parser rows: ingress {}, egress {} of {}\n"
      "cycles in the stages: ingress {}, egress {}\n\n",
      phv.bits(), kPhvBits, phv.ingress.bits(), phv.egress.bits(), phv.tagalong_bits, kTagalongBits,
      placement.parser_rows_ingress, placement.parser_rows_egress, kParserRows,
      placement.cycles_ingress, placement.cycles_egress);
  for (uint32_t stage = 0; stage < placement.stages.size(); stage++) {
    text += fmt::format("stage {:>2}: {}\n", stage,
                        fmt::join(tables_in(program, placement, stage), ", "));
  }
  return text;
}

nlohmann::ordered_json resources_json(const Program& program, const Placement& placement) {
  nlohmann::ordered_json json;
  json["program"] = program.name;
  json["stages"] = placement.stages.size();
  json["stages_limit"] = kStages;
  nlohmann::ordered_json limits;
  for (uint32_t i = 0; i < kResourceCount; i++) {
    const auto resource = static_cast<Resource>(i);
    json[info_of(resource).key] = placement.total(resource);
    limits[info_of(resource).key] = info_of(resource).limit * kStages;
  }
  json["limits"] = std::move(limits);
  const PhvUse& phv = placement.phv;
  json["phv"] = {{"bits", phv.bits()},
                 {"bits_limit", kPhvBits},
                 {"bits_ingress", phv.ingress.bits()},
                 {"bits_egress", phv.egress.bits()},
                 {"tagalong_bits", phv.tagalong_bits},
                 {"tagalong_bits_limit", kTagalongBits}};
  json["parser"] = {{"rows_ingress", placement.parser_rows_ingress},
                    {"rows_egress", placement.parser_rows_egress},
                    {"rows_limit", kParserRows}};
  json["latency_cycles"] = {{"ingress", placement.cycles_ingress},
                            {"egress", placement.cycles_egress}};
  json["per_stage"] = nlohmann::ordered_json::array();
  for (uint32_t stage = 0; stage < placement.stages.size(); stage++) {
    nlohmann::ordered_json row{{"stage", stage}};
    for (uint32_t i = 0; i < kResourceCount; i++) {
      const auto resource = static_cast<Resource>(i);
      row[info_of(resource).key] = placement.stages[stage][resource];
    }
    row["table_names"] = tables_in(program, placement, stage);
    json["per_stage"].push_back(std::move(row));
  }
  return json;
}

std::span<const NamedProgram> named_programs() { return kPrograms; }

Result<Program> make_named_program(std::string_view name) {
  if (name == "precision") return precision_program({});
  SwitchmlVariant variant;
  if (name == "switchml-64") return switchml_program(variant);
  if (name == "switchml-256") {
    variant.elements = 256;
    return switchml_program(variant);
  }
  if (name == "switchml-64-timeout") {
    variant.timeout = true;
    return switchml_program(variant);
  }
  if (name == "switchml-64-fifth-operand") {
    variant.processors_per_stage = kStageStatefulAlus + 1;
    return named(switchml_program(variant), name);
  }
  if (name == "switchml-72") {
    variant.processors = 36;
    return named(switchml_program(variant), name);
  }
  std::vector<std::string> names;
  for (const NamedProgram& program : kPrograms) names.emplace_back(program.name);
  return failure(unknown_name("program", name, names));
}

}  // namespace tributary::tofino
