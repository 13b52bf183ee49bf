// SPDX-License-Identifier: Apache-2.0
/// @file
/// One thread of a modelled PPE: its coroutines, its packet, its own clock, and the parts of its
/// time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/endpoint.h"
#include "base/time.h"
#include "engine/model/dispatch.h"
#include "engine/model/latency_parts.h"
#include "engine/model/packet_buffer.h"
#include "engine/model/reorder.h"
#include "engine/packet.h"
#include "microcode/access_meter.h"
#include "microcode/thread.h"

namespace tributary::engine {

class ModelRequest;

/// A packet that has arrived.
struct ArrivedPacket {
  PacketHandle stored;      ///< Its bytes, or their beginning if the payload is elided.
  ReorderTicket ticket{};   ///< Its place in its flow.
  uint32_t size_bytes = 0;  ///< Size on the wire.
  uint32_t train = 1;       ///< Number of packets it stands for.
  PacketLayer layer = PacketLayer::kUdpPayload;
  Endpoint source;
  Instant arrived_at;
  uint64_t number = 0;  ///< Counts this machine's packets from 1; its name in a trace.
};

/// A packet that a program has made.
struct OutgoingPacket {
  PacketHandle stored;
  uint32_t size_bytes = 0;
  std::vector<Endpoint> destinations;  ///< Keeps its capacity from packet to packet.
};

struct ModelThread {
  uint32_t number = 0;  ///< Index among the keeper's threads.
  microcode::ThreadControl control;
  bool has_packet = false;  ///< False: a timer started it.
  ArrivedPacket packet;
  TakenThreads ppe_threads;  ///< `train` of them; empty while the packet waits.
  bool on_ppe = false;       ///< False: ppe_threads are free again.

  // Its progress.
  Instant started_at;
  Instant local_at;                           ///< Its own clock: it runs ahead of the event core's.
  microcode::AccessMeter::Position position;  ///< Its last mark, and the reply since then.
  uint64_t steps = 0;  ///< Instructions and XTXNs; a loop of the machine counts as one.
  ModelRequest* waiting_on = nullptr;
  Instant waits_since;
  uint32_t deletes_answered = 0;  ///< Hash deletions with replies it has not acted on yet.
  uint32_t deletes_issued = 0;    ///< Hash deletions issued in its present run.

  // The fate of its packet.
  bool packet_ended = false;
  bool forwarded = false;
  std::vector<OutgoingPacket> outbox;  ///< The first outbox_count are in use.
  uint32_t outbox_count = 0;

  // Its costs.
  LatencyParts parts;
  uint64_t instructions = 0;
  uint64_t gradients = 0;
  Duration bank_busy;  ///< Work that its requests gave to banks.
  uint64_t crossbar_bytes = 0;
};

}  // namespace tributary::engine
