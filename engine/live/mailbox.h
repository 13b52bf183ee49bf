// SPDX-License-Identifier: Apache-2.0
/// @file
/// Packets that reached the wrong core, on their way to the core that owns them.
///
/// Model:   Run to completion passes no payload between cores (a 4 KB payload written by another
/// core
///          costs more to touch than its whole work); steering in the port brings packets to the
///          right core. Where it cannot, the packet is copied once into the owner's mailbox.
/// Threads: post() by any core; take() and free_taken() by the owner.
/// Memory:  A fixed number of buffers. When all are in use the packet is lost and counted, as in a
///          full receive queue.
/// Tests:   tests/engine/live_engine_test.cc
#pragma once

#include <concurrentqueue/concurrentqueue.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/packet.h"
#include "engine/port.h"

namespace tributary::engine {

class Mailbox {
 public:
  static constexpr uint32_t kBuffers = 256;

  /// @param buffer_bytes Largest packet that fits.
  /// @param owner        The queue on which the owner sleeps.
  Mailbox(uint32_t buffer_bytes, PortQueue& owner);

  /// Copies the packet in. @return false when there is no room for it.
  [[nodiscard]] bool post(const Packet& packet);

  /// Wakes the owner; once after a burst of post()s.
  void wake_owner() { owner_.wake(); }

  /// Fills `burst` from its beginning; the packets stay valid until the next free_taken().
  [[nodiscard]] uint32_t take(std::span<Packet> burst);
  /// The packets taken before are done with.
  void free_taken();

 private:
  const uint32_t buffer_bytes_;
  PortQueue& owner_;
  std::unique_ptr<std::byte[]> bytes_;  ///< Shape [kBuffers][buffer_bytes_].
  moodycamel::ConcurrentQueue<Packet> posted_;
  moodycamel::ConcurrentQueue<std::byte*> free_;
  std::vector<std::byte*> taken_;
};

}  // namespace tributary::engine
