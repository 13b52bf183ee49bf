// SPDX-License-Identifier: Apache-2.0
/// @file
/// Allocates a program's fields to the containers of the packet header vector (PHV).
///
/// Model:   Header fields that share a byte share a container; any other field has its own. Fields
///          that no table and no action uses go to the tagalong containers. Ingress and egress have
///          their own groups of 16 containers and may take shared ones.
/// Not modelled: overlays (fields that share containers because they are never in use together) and
///          constraints between the containers of one operation. A vendor's compiler packs tighter.
/// Errors:  Names the field that does not fit, its bits and the containers' bits.
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

/// Fields that share one container, or several containers if wider than one.
struct FieldGroup {
  FieldId first = kNone;
  uint32_t count = 0;
  uint32_t bits = 0;
};

/// Splits a header's fields into groups; each group ends at a byte boundary.
[[nodiscard]] std::vector<FieldGroup> groups_of(const Program& program, const Header& header);

/// Number of containers of each size: 32, 16 and 8 bits.
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

/// Allocates all fields. A field takes the smallest container that holds it. If there is none, it
/// takes several smaller containers, or at last a larger one.
/// @param units units_of(program).
[[nodiscard]] Result<PhvUse> allocate_phv(const Program& program, std::span<const Unit> units);

}  // namespace tributary::tofino
