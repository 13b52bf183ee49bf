// SPDX-License-Identifier: Apache-2.0
#include "lab/peers/prioritised_protocol.h"

#include <algorithm>

#include "base/assert.h"
#include "wire/headers.h"

namespace tributary::lab {

PrioritisedProtocol::PrioritisedProtocol(std::span<const host::ProtocolFactory> streams,
                                         uint8_t job_id, uint64_t nonce, Instant now)
    : ProtocolGroup("priority"), job_id_(job_id), at_gate_(streams.size()) {
  TRIB_ASSERT(!streams.empty() && streams.size() <= host::kPrioritiesMax);
  for (const host::ProtocolFactory& make : streams) add_member(make(nonce, now));
}

void PrioritisedProtocol::submit(host::Transfer& transfer, Instant now) {
  const size_t last = members().size() - 1;
  members()[std::min<size_t>(transfer.priority, last)]->submit(transfer, now);
}

bool PrioritisedProtocol::accepts_from(const Endpoint& from) const {
  return members().front()->accepts_from(from);
}

std::optional<Duration> PrioritisedProtocol::on_packet(const host::Incoming& packet, Instant now) {
  const auto took = members()[stream_of(packet)]->on_packet(packet, now);
  note_progress();
  return took;
}

/// The first stream counts the packets that are malformed or of another job.
size_t PrioritisedProtocol::stream_of(const host::Incoming& packet) const {
  if (packet.stored.size() < wire::TrioMlHeader::kBytes) return 0;
  const uint32_t job = wire::TrioMlHeader::JobId::load(packet.stored.data());
  const bool mine = job >= job_id_ && job - job_id_ < members().size();
  return mine ? job - job_id_ : 0;
}

/// Counts the stream at the gate while it has new packets, and holds them back if more urgent ones
/// come first. Like host::Channel::tell_gate(), without other threads to wake.
void PrioritisedProtocol::tell_gate(uint32_t priority) {
  host::TensorProtocol& stream = *members()[priority];
  stream.hold(!gate_.is_open(priority));
  const bool has_new = stream.has_new_packets();
  if (has_new == at_gate_[priority]) return;
  at_gate_[priority] = has_new;
  if (has_new) {
    gate_.enter(priority);
  } else {
    gate_.leave(priority);
  }
}

host::Outgoing PrioritisedProtocol::next_packet(std::span<std::byte> out, Instant now) {
  for (uint32_t priority = 0; priority < members().size(); priority++) {
    tell_gate(priority);
    const host::Outgoing packet = members()[priority]->next_packet(out, now);
    tell_gate(priority);
    if (packet.size_bytes > 0) return packet;
  }
  return {};
}

}  // namespace tributary::lab
