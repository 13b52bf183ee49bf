// SPDX-License-Identifier: Apache-2.0
#include "tofino/compile/resources.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "tofino/limits.h"

namespace tributary::tofino {
namespace {

constexpr std::array<ResourceInfo, kResourceCount> kInfo{{
    {"logical tables", "tables", kStageTables},
    {"ternary tables", "ternary_tables", kStageTernaryTables},
    {"SRAM blocks", "sram_blocks", kStageSramBlocks},
    {"map RAMs", "map_rams", kStageMapRams},
    {"TCAM blocks", "tcam_blocks", kStageTcamBlocks},
    {"stateful ALUs", "stateful_alus", kStageStatefulAlus},
    {"statistics ALUs", "statistics_alus", kStageStatisticsAlus},
    {"gateways", "gateways", kStageGateways},
    {"exact crossbar bytes", "crossbar_bytes", kStageExactCrossbarBytes},
    {"ternary crossbar bytes", "ternary_crossbar_bytes", kStageTernaryCrossbarBytes},
    {"hash bits", "hash_bits", kStageHashBits},
    {"hash distribution units", "hash_distributions", kStageHashDistributions},
    {"VLIW instruction rows", "vliw_slots", kStageVliwRows},
    {"action data bus bytes", "action_bus_bytes", kStageActionBusBytes},
    {"random generators", "random_generators", kStageRandomGenerators},
}};

constexpr uint32_t divide_rounding_up(uint64_t a, uint64_t b) {
  return static_cast<uint32_t>((a + b - 1) / b);
}
constexpr uint32_t bytes_for(uint32_t bits) { return divide_rounding_up(bits, 8); }
/// Bits of an index for `count` things; 0 for one thing.
constexpr uint32_t index_bits(uint64_t count) {
  return count <= 1 ? 0 : static_cast<uint32_t>(std::bit_width(count - 1));
}

/// The parts of a table's entries besides the key.
struct EntryShape {
  uint32_t selector_bits = 0;
  uint32_t parameter_bits = 0;
};

EntryShape shape_of(const Program& program, const Table& table) {
  EntryShape shape;
  shape.selector_bits = index_bits(table.actions.size());
  for (const ActionId id : table.actions) {
    uint32_t bits = 0;
    for (const uint32_t parameter : program.actions[id].parameter_bits) bits += parameter;
    shape.parameter_bits = std::max(shape.parameter_bits, bits);
  }
  return shape;
}

uint32_t action_ram_blocks(const Table& table, uint32_t parameter_bits) {
  if (parameter_bits <= kImmediateBits) return 0;
  const uint64_t entry_bits = std::bit_ceil(parameter_bits);
  return divide_rounding_up(entry_bits * table.size, uint64_t{kSramRowBits} * kSramRows);
}

/// Collects the needs of one stage's units. Needs that units can share are kept in sets.
class Collector {
 public:
  explicit Collector(const Program& program) : program_(program) {}

  void add(const Unit& unit) {
    if (unit.table == kNone) {
      use_[Resource::kGateways]++;
      for (const FieldId id : unit.match_reads) exact_fields_.insert(id);
      return;
    }
    const Table& table = program_.tables[unit.table];
    add_match(table);
    for (const ActionId id : actions_of(table)) add(program_.actions[id]);
  }

  [[nodiscard]] StageUse total() {
    for (const FieldId id : exact_fields_) {
      use_[Resource::kCrossbarBytes] += bytes_for(program_.fields[id].bits);
    }
    for (const FieldId id : ternary_fields_) {
      use_[Resource::kTernaryCrossbarBytes] += bytes_for(program_.fields[id].bits);
    }
    for (const auto& [id, bits] : indices_) {
      use_[Resource::kHashBits] += bits;
      use_[Resource::kHashDistributions]++;
    }
    for (const RegisterId id : registers_) {
      const Register& reg = program_.registers[id];
      const uint32_t blocks = alu_sram_blocks(reg.entries, reg.pair ? 2 * reg.bits : reg.bits);
      use_[Resource::kStatefulAlus]++;
      use_[Resource::kSramBlocks] += blocks;
      use_[Resource::kMapRams] += blocks;
    }
    for (const CounterId id : counters_) {
      const Counter& counter = program_.counters[id];
      const uint32_t blocks = alu_sram_blocks(counter.entries, counter.bits);
      use_[Resource::kStatisticsAlus]++;
      use_[Resource::kSramBlocks] += blocks;
      use_[Resource::kMapRams] += blocks;
    }
    return use_;
  }

 private:
  void add_match(const Table& table) {
    use_[Resource::kTables]++;
    const bool ternary = is_ternary(table);
    if (ternary) use_[Resource::kTernaryTables]++;
    for (const Key& key : table.keys) {
      (ternary ? ternary_fields_ : exact_fields_).insert(key.field);
    }
    const TableMemory memory = memory_of(program_, table);
    use_[Resource::kSramBlocks] += memory.sram_blocks;
    use_[Resource::kTcamBlocks] += memory.tcam_blocks;
    use_[Resource::kHashBits] += memory.hash_bits;
    use_[Resource::kActionBusBytes] += bytes_for(shape_of(program_, table).parameter_bits);
  }

  void add_index(FieldId index, uint32_t entries) {
    if (index == kNone) return;
    exact_fields_.insert(index);
    uint32_t& bits = indices_[index];
    bits = std::max(bits, index_bits(entries));
  }

  void add(const Action& action) {
    if (!use_of(action).writes.empty()) use_[Resource::kVliwRows]++;
    for (const FieldId target : action.random_draws) {
      use_[Resource::kRandomGenerators]++;
      use_[Resource::kActionBusBytes] += bytes_for(program_.fields[target].bits);
    }
    for (const HashCall& hash : action.hashes) {
      for (const FieldId input : hash.inputs) exact_fields_.insert(input);
      use_[Resource::kHashBits] += program_.fields[hash.target].bits;
      use_[Resource::kHashDistributions] +=
          divide_rounding_up(program_.fields[hash.target].bits, 16);
    }
    for (const RegisterCall& call : action.register_calls) {
      const Register& reg = program_.registers[call.reg];
      add_index(call.index, reg.entries);
      for (const FieldId input : call.inputs) {
        if (input != kNone) exact_fields_.insert(input);
      }
      // A stateful ALU has one output word on the bus, however many of the table's actions read it.
      if (registers_.insert(call.reg).second) {
        use_[Resource::kActionBusBytes] += bytes_for(reg.bits);
      }
    }
    for (const CounterCall& call : action.counts) {
      add_index(call.index, program_.counters[call.counter].entries);
      counters_.insert(call.counter);
    }
  }

  const Program& program_;
  StageUse use_;
  std::set<FieldId> exact_fields_;
  std::set<FieldId> ternary_fields_;
  std::map<FieldId, uint32_t> indices_;  ///< Address hashes: field and bits.
  std::set<RegisterId> registers_;
  std::set<CounterId> counters_;
};

}  // namespace

const ResourceInfo& info_of(Resource resource) { return kInfo[static_cast<uint32_t>(resource)]; }

const ResourceInfo* StageUse::exceeded() const {
  for (uint32_t i = 0; i < kResourceCount; i++) {
    if (of[i] > kInfo[i].limit) return &kInfo[i];
  }
  return nullptr;
}

uint32_t alu_sram_blocks(uint32_t entries, uint32_t entry_bits) {
  return divide_rounding_up(entries, uint64_t{kSramRowBits / entry_bits} * kSramRows) + 1;
}

bool is_ternary(const Table& table) {
  return std::any_of(table.keys.begin(), table.keys.end(),
                     [](const Key& key) { return key.kind == MatchKind::kTernary; });
}

TableMemory memory_of(const Program& program, const Table& table) {
  TableMemory memory;
  if (table.keys.empty()) return memory;
  uint32_t key_bits = 0;
  for (const Key& key : table.keys) key_bits += program.fields[key.field].bits;
  const EntryShape shape = shape_of(program, table);
  memory.sram_blocks = action_ram_blocks(table, shape.parameter_bits);
  const uint32_t immediate = std::min(shape.parameter_bits, kImmediateBits);
  if (is_ternary(table)) {
    memory.tcam_blocks = divide_rounding_up(key_bits + kVersionBits, kTcamRowBits) *
                         divide_rounding_up(table.size, kTcamRows);
    const uint32_t action_bits = shape.selector_bits + immediate;
    if (action_bits > 0) {
      memory.sram_blocks += divide_rounding_up(uint64_t{std::bit_ceil(action_bits)} * table.size,
                                               kSramRowBits * kSramRows);
    }
    return memory;
  }
  const uint32_t entry_bits = key_bits + kVersionBits + shape.selector_bits + immediate;
  const uint32_t wide = divide_rounding_up(entry_bits, kSramRowBits);
  const uint32_t per_row = wide > 1 ? 1 : std::min(kExactEntriesPerRow, kSramRowBits / entry_bits);
  const uint32_t ways =
      std::max(kExactWaysMin, divide_rounding_up(table.size, uint64_t{per_row} * kSramRows));
  memory.sram_blocks += ways * wide;
  memory.hash_bits = std::min(ways * kHashRowBits, kStageHashBits);
  return memory;
}

StageUse use_of_stage(const Program& program, std::span<const Unit* const> units) {
  Collector collector(program);
  for (const Unit* unit : units) collector.add(*unit);
  return collector.total();
}

}  // namespace tributary::tofino
