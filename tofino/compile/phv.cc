// SPDX-License-Identifier: Apache-2.0
#include "tofino/compile/phv.h"

#include <fmt/format.h>

#include <algorithm>

#include "tofino/limits.h"

namespace tributary::tofino {
namespace {

constexpr std::array<uint32_t, 3> kSizes{32, 16, 8};

/// The chip's containers of one size, as three kinds of groups.
struct Stock {
  uint32_t ingress_groups = 0;
  uint32_t egress_groups = 0;
  uint32_t shared_groups = 0;
};

/// The groups of all sizes share one numbering: first the 32-bit groups, then 8-bit, then 16-bit.
constexpr std::array<Stock, 3> stock_of_chip() {
  std::array<Stock, 3> stock{};
  constexpr std::array<uint32_t, 3> kOrder{0, 2, 1};
  constexpr std::array<uint32_t, 3> kCounts{kPhvContainers32, kPhvContainers16, kPhvContainers8};
  uint32_t group = 0;
  for (const uint32_t size : kOrder) {
    for (uint32_t i = 0; i < kCounts[size] / kPhvGroup; i++, group++) {
      if (group % 4 == 0) {
        stock[size].ingress_groups++;
      } else if (group % 4 == 1) {
        stock[size].egress_groups++;
      } else {
        stock[size].shared_groups++;
      }
    }
  }
  return stock;
}
constexpr std::array<Stock, 3> kStock = stock_of_chip();
static_assert(kStock[0].shared_groups == 2 && kStock[1].shared_groups == 2 &&
              kStock[2].shared_groups == 2);
static_assert(kStock[1].ingress_groups == 2 && kStock[1].egress_groups == 2);

/// Hands out containers. A group that a gress has taken stays with that gress.
class Containers {
 public:
  Containers() {
    for (size_t i = 0; i < kStock.size(); i++) {
      free_[0][i] = kStock[i].ingress_groups * kPhvGroup;
      free_[1][i] = kStock[i].egress_groups * kPhvGroup;
      shared_[i] = kStock[i].shared_groups;
    }
  }

  /// Takes `count` containers of one size for a gress (0 ingress, 1 egress).
  bool take(uint32_t gress, uint32_t size, uint32_t count) {
    while (free_[gress][size] < count && shared_[size] > 0) {
      shared_[size]--;
      free_[gress][size] += kPhvGroup;
    }
    if (free_[gress][size] < count) return false;
    free_[gress][size] -= count;
    taken[gress].of_size[size] += count;
    return true;
  }

  /// Returns the bits of the gress if it took all containers that are left for it.
  [[nodiscard]] uint32_t bits_within_reach(uint32_t gress) const {
    uint32_t bits = taken[gress].bits();
    for (size_t i = 0; i < kSizes.size(); i++) {
      bits += (free_[gress][i] + shared_[i] * kPhvGroup) * kSizes[i];
    }
    return bits;
  }

  std::array<ContainerCounts, 2> taken{};

 private:
  std::array<std::array<uint32_t, 3>, 2> free_{};
  std::array<uint32_t, 3> shared_{};
};

/// Tries the size that fits best, then several smaller containers, then one larger container.
bool place(Containers& containers, uint32_t gress, uint32_t bits) {
  uint32_t best = 2;
  while (best > 0 && kSizes[best] < bits) best--;
  for (uint32_t size = best; size < kSizes.size(); size++) {
    const uint32_t count = (bits + kSizes[size] - 1) / kSizes[size];
    if (containers.take(gress, size, count)) return true;
  }
  for (uint32_t size = best; size-- > 0;) {
    if (containers.take(gress, size, 1)) return true;
  }
  return false;
}

/// The fields that one gress uses.
class GressFields {
 public:
  GressFields(const Program& program, std::span<const Unit> units, bool ingress)
      : program_(program), touched_(program.fields.size()), live_headers_(program.headers.size()) {
    const Gress& gress = ingress ? program.ingress : program.egress;
    for (const ParserState& state : gress.parser) {
      for (const HeaderId header : state.extracts) live_headers_[header] = true;
    }
    for (const HeaderId header : gress.deparser) live_headers_[header] = true;
    for (const Unit& unit : units) {
      if (unit.ingress != ingress) continue;
      for (const FieldSet* set : {&unit.match_reads, &unit.action_reads, &unit.writes}) {
        for (const FieldId id : *set) touched_[id] = true;
      }
    }
  }

  /// Returns the groups that the stages use, widest first.
  [[nodiscard]] std::vector<FieldGroup> touched() const {
    std::vector<FieldGroup> groups;
    for (const Header& header : program_.headers) {
      for (const FieldGroup& group : groups_of(program_, header)) {
        if (is_touched(group)) groups.push_back(group);
      }
    }
    for (size_t id = 0; id < program_.fields.size(); id++) {
      const Field& field = program_.fields[id];
      if (field.header == kNone && touched_[id] && !is_validity(static_cast<FieldId>(id))) {
        groups.push_back({static_cast<FieldId>(id), 1, field.bits});
      }
    }
    std::sort(groups.begin(), groups.end(), [](const FieldGroup& a, const FieldGroup& b) {
      return a.bits != b.bits ? a.bits > b.bits : a.first < b.first;
    });
    return groups;
  }

  /// Returns the bits of header fields that only parser and deparser use.
  [[nodiscard]] uint32_t tagalong_bits() const {
    uint32_t bits = 0;
    for (size_t id = 0; id < program_.headers.size(); id++) {
      if (!live_headers_[id]) continue;
      for (const FieldGroup& group : groups_of(program_, program_.headers[id])) {
        if (!is_touched(group)) bits += (group.bits + 7) / 8 * 8;
      }
    }
    return bits;
  }

  [[nodiscard]] uint32_t validity_bits() const {
    return static_cast<uint32_t>(std::count(live_headers_.begin(), live_headers_.end(), true));
  }

 private:
  [[nodiscard]] bool is_touched(const FieldGroup& group) const {
    for (uint32_t i = 0; i < group.count; i++) {
      if (touched_[group.first + i]) return true;
    }
    return false;
  }
  [[nodiscard]] bool is_validity(FieldId id) const {
    return std::any_of(program_.headers.begin(), program_.headers.end(),
                       [id](const Header& header) { return header.valid == id; });
  }

  const Program& program_;
  std::vector<bool> touched_;
  std::vector<bool> live_headers_;
};

}  // namespace

std::vector<FieldGroup> groups_of(const Program& program, const Header& header) {
  std::vector<FieldGroup> groups;
  FieldGroup open{header.first, 0, 0};
  for (uint32_t i = 0; i < header.count; i++) {
    const auto id = static_cast<FieldId>(header.first + i);
    open.count++;
    open.bits += program.fields[id].bits;
    if (open.bits % 8 == 0) {
      groups.push_back(open);
      open = {static_cast<FieldId>(id + 1), 0, 0};
    }
  }
  return groups;
}

Result<PhvUse> allocate_phv(const Program& program, std::span<const Unit> units) {
  Containers containers;
  PhvUse use;
  for (const bool ingress : {true, false}) {
    const uint32_t gress = ingress ? 0 : 1;
    const GressFields fields(program, units, ingress);
    for (const FieldGroup& group : fields.touched()) {
      if (place(containers, gress, group.bits)) continue;
      return failure(fmt::format(
          "program '{}': {} PHV: field '{}' ({} bits) finds no container; the fields before it "
          "take {} of the {} bits that {} can have (of the chip's {})",
          program.name, ingress ? "ingress" : "egress", program.fields[group.first].name,
          group.bits, containers.taken[gress].bits(), containers.bits_within_reach(gress),
          ingress ? "ingress" : "egress", kPhvBits));
    }
    use.tagalong_bits += fields.tagalong_bits();
    (ingress ? use.validity_bits_ingress : use.validity_bits_egress) = fields.validity_bits();
  }
  use.ingress = containers.taken[0];
  use.egress = containers.taken[1];
  if (use.tagalong_bits > kTagalongBits) {
    return failure(fmt::format(
        "program '{}': header fields that no table uses take {} bits; the tagalong containers "
        "have {}",
        program.name, use.tagalong_bits, kTagalongBits));
  }
  for (const uint32_t bits : {use.validity_bits_ingress, use.validity_bits_egress}) {
    if (bits > kValidityBits) {
      return failure(
          fmt::format("program '{}': {} headers in one gress; a deparser has {} validity bits",
                      program.name, bits, kValidityBits));
    }
  }
  return use;
}

}  // namespace tributary::tofino
