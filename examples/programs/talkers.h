// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counts the packets and bytes of each IPv4 source address, and forwards every packet.
///
/// Tests: examples/programs/talkers_test.cc
#pragma once

#include <fmt/format.h>

#include "cli/program_main.h"
#include "memory/record_store.h"
#include "memory/xtxn.h"
#include "wire/headers.h"

namespace talkers {

using namespace tributary;
using microcode::XtxnKind;
using wire::EthernetHeader, wire::Ipv4Header;

constexpr microcode::Instruction kReadSource{"read_source",
                                             {.lmem_reads = 2, .register_writes = 1}};
constexpr microcode::Instruction kForward{"forward", {}};

/// The program's state: a counter for each source, in the record store of the shared memory.
struct Talkers {
  static constexpr std::string_view kName = "talkers";
  static constexpr std::string_view kSummary = "Counts the packets of each IPv4 source address";
  static constexpr std::array kKeys{KeySpec{"sources-max", KeyType::kUint, "Sources to count",
                                            /*default_text=*/"65536", 1, 1 << 22}};
  using Store = memory::RecordStore<uint32_t, memory::PacketByteCounter>;

  static Result<std::unique_ptr<Talkers>> create(memory::SharedMemory& memory,
                                                 const KeyValues& settings) {
    const auto sources_max = static_cast<uint32_t>(settings.uint("sources-max"));
    return Store::place_in(memory, sources_max).map([&](const Store::Place& place) {
      return std::make_unique<Talkers>(Store::Config{.capacity = sources_max, .place = place});
    });
  }
  explicit Talkers(const Store::Config& config) : store(config) {}

  /// Runs the thread of one packet. Address 0 stands for packets without an IPv4 header.
  template <microcode::Machine M>
  static microcode::Thread process(M& m, Talkers& state) {
    m.instruction(kReadSource);
    const auto ether = m.head().template view<EthernetHeader>(0);
    const auto ip = m.head().template view<Ipv4Header>(EthernetHeader::kBytes);
    const bool is_ip = ip && ether->template get<EthernetHeader::EtherType>() == 0x0800;
    const uint32_t source = is_ip ? ip->template get<Ipv4Header::SourceAddress>() : 0;

    auto counter =
        co_await m.issue(memory::hash_request(XtxnKind::kHashLookup, state.store, source),
                         [&] { return state.store.lookup(source); });
    if (counter == nullptr) {  // Another thread may create the record before this one does.
      counter = co_await m.issue(memory::hash_request(XtxnKind::kHashInsert, state.store, source),
                                 [&] { return state.store.create(source).record; });
    }
    if (counter != nullptr) memory::post_counter_increment(m, *counter, m.packet_size());
    m.instruction(kForward);
    m.forward();
  }

  /// Returns this program's part of the report.
  nlohmann::ordered_json details() const {
    const auto& counts = store.counters();
    nlohmann::ordered_json json{{"refused", counts.refused_store_full + counts.refused_index_full}};
    for (uint32_t slot = 0; slot < store.size(); slot++) {
      const uint32_t ip = store.key_at(slot);
      const auto text =
          fmt::format("{}.{}.{}.{}", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
      json["sources"][text] = store.at(slot).packets;
    }
    return json;
  }

  Store store;
};

}  // namespace talkers
