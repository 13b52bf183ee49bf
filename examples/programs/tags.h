// SPDX-License-Identifier: Apache-2.0
/// @file
/// Adds a VLAN tag (IEEE 802.1Q) to each frame, or removes the outer tag. Frames that are too short
/// for that pass unchanged.
///
/// Tests: examples/programs/tags_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "cli/program_main.h"
#include "wire/headers.h"

namespace tags {

using namespace tributary;
using wire::EthernetHeader, wire::VlanTag;

constexpr microcode::Instruction kReadAddresses{"read_addresses",
                                                {.lmem_reads = 2, .register_writes = 2}};
constexpr microcode::Instruction kReadType{"read_type", {.lmem_reads = 1}};
constexpr microcode::Instruction kMoveAddresses{"move_addresses",
                                                {.register_reads = 2, .lmem_writes = 2}};
constexpr microcode::Instruction kForward{"forward", {}};

/// The two MAC addresses, behind which a tag stands.
constexpr uint32_t kAddressBytes = 12;

struct Tags {
  static constexpr std::string_view kName = "tags";
  static constexpr std::string_view kSummary = "Adds a VLAN tag to each frame, or removes one";
  static constexpr std::array kKeys{KeySpec{"vlan-id", KeyType::kUint,
                                            "VLAN of the tag to add; 0: remove the outer tag",
                                            /*default_text=*/"1", 0, 4094}};

  static Result<std::unique_ptr<Tags>> create(memory::SharedMemory&, const KeyValues& settings) {
    return std::make_unique<Tags>(static_cast<uint32_t>(settings.uint("vlan-id")));
  }
  explicit Tags(uint32_t id) : vlan_id(id) {}

  /// Runs the thread of one packet.
  template <microcode::Machine M>
  static microcode::Thread process(M& m, Tags& state) {
    if (m.head().size() >= EthernetHeader::kBytes) {
      m.instruction(kReadAddresses);
      std::array<std::byte, kAddressBytes + VlanTag::kBytes> start;
      const auto addresses = m.head().read(0, kAddressBytes);
      std::copy(addresses.begin(), addresses.end(), start.begin());
      if (state.vlan_id > 0) {
        start[kAddressBytes] = static_cast<std::byte>(wire::kEtherTypeVlan >> 8);
        start[kAddressBytes + 1] = static_cast<std::byte>(wire::kEtherTypeVlan & 255);
        start[kAddressBytes + 2] = static_cast<std::byte>(state.vlan_id >> 8);
        start[kAddressBytes + 3] = static_cast<std::byte>(state.vlan_id & 255);
        m.instruction(kMoveAddresses);
        m.pop_head(kAddressBytes);
        m.push_head(start);
      } else if (has_tag(m)) {
        m.instruction(kMoveAddresses);
        m.pop_head(kAddressBytes + VlanTag::kBytes);
        m.push_head(std::span(start).first(kAddressBytes));
      }
    }
    m.instruction(kForward);
    m.forward();
    co_return;
  }

  uint32_t vlan_id;

 private:
  template <microcode::Machine M>
  static bool has_tag(M& m) {
    m.instruction(kReadType);
    const auto ether = m.head().template view<EthernetHeader>(0);
    return m.head().size() >= EthernetHeader::kBytes + VlanTag::kBytes &&
           ether->template get<EthernetHeader::EtherType>() == wire::kEtherTypeVlan;
  }
};

}  // namespace tags
