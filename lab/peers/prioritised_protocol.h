// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker whose urgent tensors leave first. It is the counterpart of a Communicator with
/// priorities (host/channel_group.h) on the virtual network.
///
/// Model:   One stream for each priority, with a session and a window of its own. Stream i is the
///          channel i of the job (trio_ml::channel_of). host::SendGate decides whether a stream may
///          start new packets; of those that may, the most urgent one sends first. Live, each
///          stream has a thread, which asks the gate once for each burst.
/// Threads: One.
/// Errors:  The first stream that ends, ends all; the text names its priority.
/// Memory:  The streams.
/// Tests:   tests/lab/peers/prioritised_protocol_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "host/send_gate.h"
#include "lab/peers/protocol_group.h"

namespace tributary::lab {

class PrioritisedProtocol final : public ProtocolGroup {
 public:
  /// @param streams By priority, at least one and at most host::kPrioritiesMax.
  /// @param job_id  Id of the first stream; each other one has the next id.
  PrioritisedProtocol(std::span<const host::ProtocolFactory> streams, uint8_t job_id,
                      uint64_t nonce, Instant now);

  /// Submits to the stream of the tensor's priority; larger priorities use the last stream.
  void submit(host::Transfer& transfer, Instant now) override;
  [[nodiscard]] bool accepts_from(const Endpoint& from) const override;
  std::optional<Duration> on_packet(const host::Incoming& packet, Instant now) override;
  [[nodiscard]] host::Outgoing next_packet(std::span<std::byte> out, Instant now) override;

 private:
  [[nodiscard]] size_t stream_of(const host::Incoming& packet) const;
  void tell_gate(uint32_t priority);

  const uint8_t job_id_;
  host::SendGate gate_;
  std::vector<bool> at_gate_;  ///< By priority: counted at the gate, because it has new packets.
};

}  // namespace tributary::lab
