// SPDX-License-Identifier: Apache-2.0
/// @file
/// A flow's record in shared memory, and its words.
///
/// Model:   A record has two spans; one of them is current. A packet's look-up admits it to the
///          current span; the packet's counter increment, its last XTXN on the record, settles it.
///          A span is settled if it has counted as many packets as it has admitted: then no thread
///          will change it. An export at the active timeout makes the other span current and takes
///          the old one once it is settled, so packets in flight neither vanish nor count twice.
/// Units:   Times are words that order like Instants (time_word).
/// Threads: Only XTXNs change a record.
/// Tests:   tests/apps/telemetry/telemetry_test.cc, tests/apps/telemetry/interleaving_test.cc
#pragma once

#include <array>
#include <cstdint>

#include "apps/flow_key.h"
#include "base/time.h"
#include "memory/rmw.h"
#include "wire/ipfix.h"

namespace tributary::telemetry {

/// Converts an Instant to an unsigned word that orders alike, and back.
[[nodiscard]] constexpr uint64_t time_word(Instant at) {
  return static_cast<uint64_t>(at.since_start().ticks()) ^ (uint64_t{1} << 63);
}
[[nodiscard]] constexpr Instant instant_of(uint64_t word) {
  return Instant(Duration::from_ticks(static_cast<int64_t>(word ^ (uint64_t{1} << 63))));
}
static_assert(time_word(Instant()) < time_word(Instant(nanoseconds(1))));
static_assert(time_word(Instant(nanoseconds(-1))) < time_word(Instant()));

/// The counts of a flow between two exports.
struct FlowSpan {
  memory::PacketByteCounter counted;
  uint64_t admitted = 0;           ///< Packets that a look-up has let in.
  uint64_t first_at = UINT64_MAX;  ///< Word of the earliest arrival.
  uint64_t last_at = 0;            ///< Word of the latest arrival.
  uint64_t tcp_flags = 0;          ///< All flags seen.

  [[nodiscard]] bool is_settled() const { return admitted == counted.packets; }
};
static_assert(sizeof(FlowSpan) == 48);

// Bits of FlowRecord::state.
inline constexpr uint64_t kCurrentSpan = 1 << 0;  ///< Index of the current span.
inline constexpr uint64_t kDraining = 1 << 1;     ///< The other span waits for its export.
inline constexpr uint64_t kExporting = 1 << 2;    ///< One thread exports; the record stays.
inline constexpr uint64_t kInUse = 1 << 3;        ///< The slot holds a flow.

struct alignas(64) FlowRecord {
  uint64_t state = 0;
  std::array<FlowSpan, 2> spans;
  memory::PacketByteCounter exported;  ///< Sum of the flow's exported spans.

  [[nodiscard]] FlowSpan& current() { return spans[state & kCurrentSpan]; }
};
static_assert(sizeof(FlowRecord) == 128);

/// Returns a record on the wire that names the flow and has no counts, and the flow of a record.
[[nodiscard]] inline wire::IpfixFlow ipfix_flow_of(const apps::FlowKey& key) {
  return {.source = key.source,
          .destination = key.destination,
          .is_ipv6 = key.ip_version == 6,
          .protocol = key.protocol,
          .source_port = key.source_port,
          .destination_port = key.destination_port,
          .vlan = key.vlan,
          .customer_vlan = key.customer_vlan};
}
[[nodiscard]] inline apps::FlowKey flow_key_of(const wire::IpfixFlow& flow) {
  return {.source = flow.source,
          .destination = flow.destination,
          .source_port = flow.source_port,
          .destination_port = flow.destination_port,
          .vlan = flow.vlan,
          .customer_vlan = flow.customer_vlan,
          .protocol = flow.protocol,
          .ip_version = static_cast<uint8_t>(flow.is_ipv6 ? 6 : 4)};
}

/// An exported span.
struct FlowExport {
  apps::FlowKey key;
  FlowSpan span;
  memory::PacketByteCounter total;  ///< Totals of the flow, including this span.
  wire::FlowEndReason reason = wire::FlowEndReason::kNone;
};

}  // namespace tributary::telemetry
