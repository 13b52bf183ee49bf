// SPDX-License-Identifier: Apache-2.0
/// @file
/// The machine that runs packet programs live: wall clock, real packets, one core.
///
/// Model:   Every external transaction is a direct call with an immediate reply, so a thread runs
///          to completion inside the call that starts it. Only one thread runs at a time, so
///          XTXNs are served in order. Leaf loops are vector kernels over the port's own buffer.
/// Threads: One machine for each engine thread; nothing is shared or atomic.
/// Memory:  Fixed arrays collect the packets to send in a burst. When one is full, the packets
///          leave early. No allocation after construction.
/// Tests:   tests/engine/live/live_machine_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "engine/packet.h"
#include "engine/port.h"
#include "memory/lanes.h"
#include "microcode/machine.h"

namespace tributary::engine {

/// Counts the programs' decisions on one core.
struct MachineCounters {
  uint64_t forwarded = 0;
  uint64_t dropped = 0;  ///< Ended by drop() for any reason; includes aggregated packets.
};

class LiveMachine {
 public:
  static constexpr bool kSuspends = false;

  explicit LiveMachine(PortQueue& queue)
      : queue_(queue), frames_(kFrames), pending_(kPendingPackets), small_(kSmallPackets) {}
  LiveMachine(const LiveMachine&) = delete;
  LiveMachine& operator=(const LiveMachine&) = delete;

  // --- For the engine ---

  void begin_burst(Instant now) { now_ = now; }
  /// @param packet Stays valid until the next one; the program may move its beginning.
  void begin_packet(Packet& packet) {
    packet_ = &packet;
    head_bytes_max_ = kHeadBytes;
  }
  /// The threads that follow have no packet, because a timer starts them: forward() and drop() are
  /// bugs until check_no_end(). Both run once in a burst, so that no packet pays for this.
  void end_packets() {
    packet_ = &no_packet_;
    ended_count_ = counters_.forwarded + counters_.dropped;
  }
  void check_no_end() const {
    TRIB_REQUIRE(counters_.forwarded + counters_.dropped == ended_count_,
                 microcode::rule::kEndInProcess);
  }
  /// Passes all packets sent so far to the port.
  void flush() {
    if (pending_count_ == 0) return;
    queue_.transmit(std::span(pending_).first(pending_count_));
    pending_count_ = 0;
    small_used_ = 0;
  }
  [[nodiscard]] const MachineCounters& counters() const { return counters_; }

  // --- For programs: microcode::Machine ---

  /// The program's line, for errors. By value: it stays in a register until an error needs it.
  using Place = std::source_location;

  [[nodiscard]] microcode::FramePool& frame_pool() { return frames_; }
  static void instruction(microcode::Instruction) {}
  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] Instant arrived_at() const { return now_; }
  [[nodiscard]] microcode::PacketHead head() const {
    return microcode::PacketHead({packet_->data, std::min(packet_->size, head_bytes_max_)});
  }
  /// Returns the whole packet. Only this machine has all of it at hand.
  [[nodiscard]] std::span<const std::byte> packet_bytes() const { return packet_->bytes(); }
  void write_head(uint32_t offset_bytes, std::span<const std::byte> bytes,
                  Place place = Place::current()) const {
    TRIB_REQUIRE_AT(offset_bytes + bytes.size() <= head().size(), microcode::rule::kWriteHead,
                    place);
    std::memcpy(packet_->data + offset_bytes, bytes.data(), bytes.size());
  }
  void push_head(std::span<const std::byte> bytes, Place place = Place::current()) {
    const auto count = static_cast<uint32_t>(bytes.size());
    TRIB_REQUIRE_AT(arrived_as_frame() && head_bytes_max_ + count <= kHeadBytes + kHeadroomBytes,
                    microcode::rule::kPushHead, place);
    TRIB_ASSERT(count <= packet_->headroom_bytes);
    packet_->data -= count;
    packet_->size += count;
    packet_->headroom_bytes -= static_cast<uint16_t>(count);
    head_bytes_max_ += count;
    std::memcpy(packet_->data, bytes.data(), count);
  }
  void pop_head(uint32_t count, Place place = Place::current()) {
    TRIB_REQUIRE_AT(arrived_as_frame() && count <= head().size(), microcode::rule::kPopHead, place);
    packet_->data += count;
    packet_->size -= count;
    packet_->headroom_bytes += static_cast<uint16_t>(count);
    head_bytes_max_ -= count;
  }
  [[nodiscard]] microcode::Ready<uint32_t> read_tail(uint32_t offset_bytes, std::span<std::byte> to,
                                                     Place place = Place::current()) const {
    TRIB_REQUIRE_AT(arrived_as_frame() && to.size() <= microcode::kTailChunkBytes,
                    microcode::rule::kReadTail, place);
    const std::span<std::byte> tail = this->tail();
    if (offset_bytes >= tail.size()) return microcode::Ready<uint32_t>(0);
    const auto count = static_cast<uint32_t>(std::min(to.size(), tail.size() - offset_bytes));
    if (count > 0) std::memcpy(to.data(), tail.data() + offset_bytes, count);
    return microcode::Ready<uint32_t>(count);
  }
  microcode::Ready<void> write_tail(uint32_t offset_bytes, std::span<const std::byte> bytes,
                                    Place place = Place::current()) const {
    const std::span<std::byte> tail = this->tail();
    TRIB_REQUIRE_AT(arrived_as_frame() && bytes.size() <= microcode::kTailChunkBytes &&
                        offset_bytes + bytes.size() <= tail.size(),
                    microcode::rule::kWriteTail, place);
    if (!bytes.empty()) std::memcpy(tail.data() + offset_bytes, bytes.data(), bytes.size());
    return {};
  }
  [[nodiscard]] uint32_t packet_size() const { return packet_->size; }
  [[nodiscard]] bool arrived_as_frame() const { return packet_->layer == PacketLayer::kFrame; }
  [[nodiscard]] const Endpoint& source() const { return packet_->source; }

  template <class F>
  static auto issue(const microcode::Xtxn&, F&& service) {
    if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
      service();
      return microcode::Ready<void>{};
    } else {
      return microcode::Ready<std::invoke_result_t<F&>>(service());
    }
  }
  template <class F>
  static void post(const microcode::Xtxn&, F&& service) {
    service();
  }

  microcode::Ready<void> accumulate(int32_t* lanes, uint32_t offset_bytes, uint32_t count,
                                    microcode::Accumulate how,
                                    microcode::LaneWidth width = microcode::LaneWidth::k32) const {
    const std::byte* payload = packet_->data + offset_bytes;
    if (width == microcode::LaneWidth::k16) [[unlikely]] {
      accumulate_narrow(lanes, payload, count, how);
      return {};
    }
    if (how == microcode::Accumulate::kFirst) {
      memory::store_be32(lanes, payload, count);
    } else {
      memory::add_be32(lanes, payload, count);
    }
    return {};
  }
  static microcode::Ready<void> finish_lanes(int32_t* lanes, uint32_t count,
                                             microcode::ResultLanes result = {}) {
    if (result.width == microcode::LaneWidth::k16) [[unlikely]] {
      memory::to_be16(reinterpret_cast<std::byte*>(lanes), lanes, count, result.shift);
    } else {
      memory::to_be32_in_place(lanes, count);
    }
    return {};
  }

  void send(std::span<const std::byte> payload, std::span<const Endpoint> destinations) {
    const auto size = static_cast<uint32_t>(payload.size());
    if (destinations.size() > kPendingPackets - pending_count_) [[unlikely]] {
      for (const Endpoint& to : destinations) add_pending(payload.data(), size, to);
      return;
    }
    // All of them fit, so skip the check for each one.
    TxPacket* packet = &pending_[pending_count_];
    for (const Endpoint& to : destinations) fill(*packet++, payload.data(), size, to);
    pending_count_ += static_cast<uint32_t>(destinations.size());
  }
  void send_small(std::span<const std::byte> payload, const Endpoint& destination) {
    TRIB_ASSERT(payload.size() <= kHeadBytes);
    if (small_used_ == kSmallPackets || pending_count_ == kPendingPackets) flush();
    std::byte* copy = small_[small_used_++].data();
    std::memcpy(copy, payload.data(), payload.size());
    add_pending(copy, static_cast<uint32_t>(payload.size()), destination);
  }
  [[nodiscard]] bool is_send_crowded() const { return queue_.is_send_crowded(); }
  /// Flushes, so the caller may change any payload that was sent before.
  void release_payload(std::span<const std::byte>) { flush(); }

  /// Sends the packet out of the port by which it arrived.
  void forward() {
    counters_.forwarded++;
    if (pending_count_ == kPendingPackets) flush();
    fill(pending_[pending_count_++], packet_->data, packet_->size, packet_->source, packet_->layer);
  }
  void drop(uint32_t) { counters_.dropped++; }

 private:
  [[nodiscard]] std::span<std::byte> tail() const {
    const uint32_t head_bytes = head().size();
    return {packet_->data + head_bytes, packet_->size - head_bytes};
  }
  [[gnu::noinline]] static void accumulate_narrow(int32_t* lanes, const std::byte* payload,
                                                  uint32_t count, microcode::Accumulate how) {
    if (how == microcode::Accumulate::kFirst) {
      memory::store_be16(lanes, payload, count);
    } else {
      memory::add_be16(lanes, payload, count);
    }
  }

  /// Most packets that leave in one call; further packets make the burst leave early.
  static constexpr uint32_t kPendingPackets = 1024;
  static constexpr uint32_t kSmallPackets = 256;
  /// One thread runs at a time, so its call depth is enough.
  static constexpr uint32_t kFrames = microcode::kCallDepthMax + 1;

  /// Fills `packet` field by field. Copying a packet built elsewhere would stall: its loads would
  /// come before the narrow stores have left the store buffer.
  static void fill(TxPacket& packet, const std::byte* data, uint32_t size,
                   const Endpoint& destination, PacketLayer layer = PacketLayer::kUdpPayload) {
    packet.data = data;
    packet.size = size;
    packet.layer = layer;
    packet.destination = destination;
  }
  void add_pending(const std::byte* data, uint32_t size, const Endpoint& destination) {
    if (pending_count_ == kPendingPackets) flush();
    fill(pending_[pending_count_++], data, size, destination);
  }

  PortQueue& queue_;
  Packet no_packet_{};  ///< Empty, for the threads of timers.
  Packet* packet_ = &no_packet_;
  uint32_t head_bytes_max_ = kHeadBytes;  ///< Changes with the packet's beginning.
  Instant now_;
  MachineCounters counters_;
  uint64_t ended_count_ = 0;  ///< Packets that had ended at end_packets().
  microcode::FramePool frames_;
  std::vector<TxPacket> pending_;  ///< The first pending_count_ entries wait for flush().
  uint32_t pending_count_ = 0;
  std::vector<std::array<std::byte, kHeadBytes>> small_;
  uint32_t small_used_ = 0;
};

static_assert(microcode::Machine<LiveMachine>);

}  // namespace tributary::engine
