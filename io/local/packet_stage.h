// SPDX-License-Identifier: Apache-2.0
/// @file
/// Private memory for one burst: packets are copied here from shared memory before anybody reads
/// them, so that the other side cannot change checked bytes.
///
/// Shapes:  Packets lie one behind another, each at a multiple of 64 bytes.
/// Threads: Owned by one thread.
/// Memory:  kStageBytes, taken in the constructor: about one burst stays in a core's own cache.
/// Tests:   through tests/io/local/local_port_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/packet.h"
#include "io/local/byte_ring.h"
#include "io/udp/udp_port_config.h"

namespace tributary::io {

/// A burst of 128 packets of 352 gradients, or of 31 packets of 2048. Assumed.
inline constexpr uint32_t kStageBytes = 256U << 10;
static_assert(kStageBytes >= kUdpPayloadBytesMax, "an empty stage takes any packet");

class PacketStage {
 public:
  PacketStage() : storage_(std::make_unique_for_overwrite<std::byte[]>(kStageBytes)) {}

  /// Forgets the packets of the previous burst.
  void clear() { used_bytes_ = 0; }

  struct Taken {
    uint32_t count = 0;
    uint64_t bytes = 0;
    bool broken = false;
  };
  /// Moves packets from the ring to `burst`, as many as there are and fit.
  /// @param source Becomes the packets' source.
  [[nodiscard]] Taken take(RingReader& ring, const Endpoint& source,
                           std::span<engine::Packet> burst) {
    Taken taken;
    while (taken.count < burst.size()) {
      const std::span<std::byte> room(storage_.get() + used_bytes_, kStageBytes - used_bytes_);
      const RingReader::Popped popped = ring.pop(room);
      taken.broken = popped.status == RingReader::Status::kBroken;
      if (popped.status != RingReader::Status::kPacket) break;
      burst[taken.count++] = {.data = room.data(),
                              .size = popped.size,
                              .layer = engine::PacketLayer::kUdpPayload,
                              .source = source};
      taken.bytes += popped.size;
      used_bytes_ += (popped.size + kRingUnitBytes - 1) / kRingUnitBytes * kRingUnitBytes;
    }
    ring.release();
    return taken;
  }

 private:
  const std::unique_ptr<std::byte[]> storage_;
  uint32_t used_bytes_ = 0;
};

}  // namespace tributary::io
