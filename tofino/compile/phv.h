// SPDX-License-Identifier: Apache-2.0
/// @file
/// Allocation of a program's fields to the containers of the packet header vector (PHV).
///
/// Model:   Header fields that share a byte lie in one container; any other field has its own. A
///          field takes the smallest container that holds it, or several smaller ones, or, at last,
///          a larger one. What no table and no action touches goes to the tagalong containers.
///          Ingress and egress have groups of 16 containers of their own and take shared ones.
/// Not modelled: overlays (fields that never live together share containers) and constraints
///          between containers of one operation; a vendor's compiler packs tighter.
/// Errors:  What does not fit is refused with the field, its bits, and what the containers hold.
/// Threads: None; pure functions.
/// Tests:   tests/tofino/compile/placement_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "tofino/compile/flow.h"
#include "tofino/program/program.h"

namespace tributary::tofino {

/// Fields that lie in one container (or in several, if wider than one).
struct FieldGroup {
  FieldId first = kNone;
  uint32_t count = 0;
  uint32_t bits = 0;
};

/// A header's fields by containers: a group ends with a byte.
[[nodiscard]] std::vector<FieldGroup> groups_of(const Program& program, const Header& header);

/// Containers by size: 32, 16 and 8 bits.
struct ContainerCounts {
  std::array<uint32_t, 3> of_size{};
  [[nodiscard]] uint32_t bits() const { return 32 * of_size[0] + 16 * of_size[1] + 8 * of_size[2]; }
};

struct PhvUse {
  ContainerCounts ingress;
  ContainerCounts egress;
  uint32_t tagalong_bits = 0;
  uint32_t validity_bits_ingress = 0;
  uint32_t validity_bits_egress = 0;
  [[nodiscard]] uint32_t bits() const { return ingress.bits() + egress.bits(); }
};

/// @param units units_of(program).
[[nodiscard]] Result<PhvUse> allocate_phv(const Program& program, std::span<const Unit> units);

}  // namespace tributary::tofino
