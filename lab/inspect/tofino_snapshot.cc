// SPDX-License-Identifier: Apache-2.0
#include "lab/inspect/tofino_snapshot.h"

#include <fmt/format.h>

#include <algorithm>

#include "lab/trace/time_text.h"

namespace tributary::lab {
namespace {

using tofino::Register;
using tofino::RegisterId;
using tofino::Switch;

/// Entries that a slot has in something with `entries` of them; 0 if it has no slots.
uint32_t sets_of(uint32_t entries, uint32_t slots) {
  return entries % slots == 0 ? entries / slots : 0;
}

/// A word as its register means it.
std::string word_text(const Register& reg, uint32_t word) {
  if (!reg.is_signed) return fmt::format("{}", word);
  const uint32_t unused_bits = 32 - reg.bits;
  return fmt::format("{}", static_cast<int32_t>(word << unused_bits) >> unused_bits);
}

/// The stage that has the register: that of a table with an action that calls it.
std::string stage_of(const Switch& device, RegisterId reg) {
  const tofino::Program& program = device.program();
  const tofino::Placement& placement = device.placement();
  for (size_t unit = 0; unit < placement.units.size(); unit++) {
    const tofino::TableId table = placement.units[unit].table;
    if (table == tofino::kNone) continue;
    for (const tofino::ActionId action : tofino::actions_of(program.tables[table])) {
      const auto& calls = program.actions[action].register_calls;
      if (std::any_of(calls.begin(), calls.end(),
                      [&](const tofino::RegisterCall& call) { return call.reg == reg; })) {
        return fmt::format("{}", placement.stage_of[unit]);
      }
    }
  }
  return "-";
}

bool is_zero(const tofino::Pipe& pipe, const Register& reg, RegisterId id, uint32_t entry) {
  return pipe.register_word(id, entry) == 0 && (!reg.pair || pipe.register_word(id, entry, 1) == 0);
}

/// Returns the values of a slot's entries in one register: "3", "3/0" for a pair, sets with a blank
/// between.
std::string slot_text(const tofino::Pipe& pipe, const Register& reg, RegisterId id, uint32_t slot,
                      uint32_t slots) {
  std::string text;
  for (uint32_t set = 0; set < sets_of(reg.entries, slots); set++) {
    const uint32_t entry = slot + set * slots;
    if (set > 0) text += ' ';
    text += word_text(reg, pipe.register_word(id, entry));
    if (reg.pair) text += '/' + word_text(reg, pipe.register_word(id, entry, 1));
  }
  return text;
}

/// Slots of which a register that holds no values is not zero.
SnapshotTable slots_of(Switch& device, uint32_t slots, size_t rows_max) {
  SnapshotTable table{.name = "slots", .title = "", .columns = {"slot", "pipe"}, .rows = {}};
  const auto& registers = device.program().registers;
  std::vector<RegisterId> states;
  for (RegisterId id = 0; id < registers.size(); id++) {
    if (registers[id].payload || sets_of(registers[id].entries, slots) == 0) continue;
    states.push_back(id);
    table.text_columns.insert(table.columns.size());
    table.columns.push_back(registers[id].name);
  }
  for (uint32_t slot = 0; slot < slots; slot++) {
    for (uint32_t p = 0; p < device.pipe_count(); p++) {
      const tofino::Pipe& pipe = device.pipe(p);
      const bool idle = std::all_of(states.begin(), states.end(), [&](RegisterId id) {
        bool zero = true;
        for (uint32_t set = 0; set < sets_of(registers[id].entries, slots); set++) {
          zero = zero && is_zero(pipe, registers[id], id, slot + set * slots);
        }
        return zero;
      });
      if (idle) continue;
      std::vector<std::string> row{fmt::format("{}", slot), fmt::format("{}", p)};
      for (const RegisterId id : states) {
        row.push_back(slot_text(pipe, registers[id], id, slot, slots));
      }
      table.add(std::move(row), rows_max);
    }
  }
  table.title = fmt::format("{} of {} hold something; low/high word, set after set",
                            table.rows.size() + table.rows_left_out, slots);
  return table;
}

SnapshotTable registers_of(Switch& device, SlotShape shape, uint64_t slot, size_t rows_max) {
  const uint32_t slots = shape.slots;
  SnapshotTable table{.name = "registers",
                      .title = fmt::format("of slot {}{}", slot,
                                           shape.values ? "" : "; this run carries no values"),
                      .columns = {"pipe", "stage", "register", "set", "entry", "low", "high"},
                      .rows = {},
                      .text_columns = {2}};
  if (slot >= slots) {
    table.title = fmt::format("there is no slot {}; there are 0 to {}", slot, slots - 1);
    return table;
  }
  const auto& registers = device.program().registers;
  std::vector<std::string> stages;
  for (RegisterId id = 0; id < registers.size(); id++) stages.push_back(stage_of(device, id));
  for (uint32_t p = 0; p < device.pipe_count(); p++) {
    const tofino::Pipe& pipe = device.pipe(p);
    for (RegisterId id = 0; id < registers.size(); id++) {
      const Register& reg = registers[id];
      if (reg.payload && !shape.values) continue;
      for (uint32_t set = 0; set < sets_of(reg.entries, slots); set++) {
        const uint32_t entry = static_cast<uint32_t>(slot) + set * slots;
        table.add({fmt::format("{}", p), stages[id], reg.name, fmt::format("{}", set),
                   fmt::format("{}", entry), word_text(reg, pipe.register_word(id, entry)),
                   reg.pair ? word_text(reg, pipe.register_word(id, entry, 1)) : "-"},
                  rows_max);
      }
    }
  }
  return table;
}

SnapshotTable counters_of(Switch& device, uint32_t slots, uint64_t slot, size_t rows_max) {
  SnapshotTable table{.name = "counters",
                      .title = fmt::format("of slot {}, and those without slots", slot),
                      .columns = {"counter", "set", "packets"},
                      .rows = {},
                      .text_columns = {0}};
  const auto& counters = device.program().counters;
  for (tofino::CounterId id = 0; id < counters.size(); id++) {
    const uint32_t sets = counters[id].entries == 1 ? 1 : sets_of(counters[id].entries, slots);
    for (uint32_t set = 0; set < sets && slot < slots; set++) {
      const uint32_t entry =
          counters[id].entries == 1 ? 0 : static_cast<uint32_t>(slot) + set * slots;
      uint64_t packets = 0;
      for (uint32_t p = 0; p < device.pipe_count(); p++) {
        packets += device.pipe(p).counter(id, entry);
      }
      table.add({counters[id].name, fmt::format("{}", set), fmt::format("{}", packets)}, rows_max);
    }
  }
  return table;
}

SnapshotTable traffic_of(const Switch& device) {
  const tofino::SwitchCounters& counters = device.counters();
  const std::string due = device.next_due() == Instant::never()
                              ? "nothing is on its way back"
                              : fmt::format("the next packet comes back at {}",
                                            time_text(device.next_due().since_start()));
  SnapshotTable table{.name = "traffic",
                      .title = due,
                      .columns = {"what", "packets"},
                      .rows = {},
                      .text_columns = {0}};
  const auto add = [&](const std::string& what, uint64_t packets) {
    table.rows.push_back({what, fmt::format("{}", packets)});
  };
  add("arrived", counters.arrived);
  add("passes", counters.passes);
  add("recirculated", counters.recirculated);
  add("left", counters.left);
  for (uint32_t i = 0; i < tofino::kSwitchDropCount; i++) {
    const auto reason = static_cast<tofino::SwitchDrop>(i);
    if (counters[reason] > 0) add(fmt::format("dropped {}", name_of(reason)), counters[reason]);
  }
  return table;
}

}  // namespace

NodeSnapshot tofino_snapshot(std::string node, Switch& device, SlotShape shape,
                             const SnapshotRequest& request) {
  const uint64_t slot = request.slot.value_or(0);
  return {.node = std::move(node),
          .tables = {slots_of(device, shape.slots, request.rows_max),
                     registers_of(device, shape, slot, request.rows_max),
                     counters_of(device, shape.slots, slot, request.rows_max), traffic_of(device)}};
}

}  // namespace tributary::lab
