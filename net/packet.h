// SPDX-License-Identifier: Apache-2.0
/// @file
/// A UDP datagram in the virtual network, shared by all its holders.
///
/// Model:   Nodes see the UDP payload and its two endpoints. Ethernet, IP and UDP headers exist as
///          bytes on the wire (kWireOverheadBytes) and in pcap files. A packet may be *elided*: it
///          has a size, but only its first stored bytes exist. Experiments that ignore the
///          gradients' values use such packets.
/// Threads: One. Reference counts are plain.
/// Memory:  A pool grows to the peak number of packets in flight. A reused packet keeps its room
///          for stored bytes; an elided packet without any never allocates.
/// Tests:   tests/net/packet_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/endpoint.h"

namespace tributary::net {

/// Bytes on the wire besides the UDP payload: preamble 8, Ethernet 14, IPv4 20, UDP 8, FCS 4,
/// inter-frame gap 12. Source: IEEE 802.3 clause 4, RFC 791, RFC 768.
inline constexpr uint32_t kWireOverheadBytes = 66;

class PacketPool;

/// One datagram. Immutable once sent, because others may hold it too.
struct alignas(64) Packet {
  Endpoint source;
  Endpoint destination;
  uint32_t size_bytes = 0;              ///< UDP payload on the wire, in bytes.
  bool congestion_experienced = false;  ///< ECN mark of a full queue (RFC 3168).
  std::vector<std::byte> stored;        ///< size_bytes of payload, or its beginning if elided.

  [[nodiscard]] bool elided() const { return stored.size() < size_bytes; }

 private:
  friend class PacketPool;
  friend class PacketRef;
  friend class Network;
  uint32_t references_ = 0;
  PacketPool* pool_ = nullptr;
  uint64_t content_hash_ = 0;  ///< Hash of the content that the digest covers; 0: not computed.
};

/// A counted reference to a packet.
class PacketRef {
 public:
  PacketRef() = default;
  PacketRef(const PacketRef& other) : packet_(other.packet_) { hold(); }
  PacketRef(PacketRef&& other) noexcept : packet_(std::exchange(other.packet_, nullptr)) {}
  PacketRef& operator=(PacketRef other) noexcept {
    std::swap(packet_, other.packet_);
    return *this;
  }
  ~PacketRef();

  [[nodiscard]] explicit operator bool() const { return packet_ != nullptr; }
  [[nodiscard]] Packet* operator->() const { return packet_; }
  [[nodiscard]] Packet& operator*() const { return *packet_; }

  /// Prefetches the packet, which will be used soon.
  void prefetch() const {
    __builtin_prefetch(packet_);
    __builtin_prefetch(reinterpret_cast<const std::byte*>(packet_) + 64);
  }
  /// Returns whether anyone else holds the packet.
  [[nodiscard]] bool shared() const { return packet_->references_ > 1; }

  /// Pass a reference through an event's argument: release() gives it up, adopt() takes it over.
  [[nodiscard]] uint64_t release() {
    return reinterpret_cast<uintptr_t>(std::exchange(packet_, nullptr));
  }
  [[nodiscard]] static PacketRef adopt(uint64_t released) {
    PacketRef ref;
    ref.packet_ = reinterpret_cast<Packet*>(static_cast<uintptr_t>(released));
    return ref;
  }

 private:
  friend class PacketPool;
  void hold() {
    if (packet_ != nullptr) packet_->references_++;
  }
  Packet* packet_ = nullptr;
};

/// Allocates packets and takes them back. Outlives all of them.
class PacketPool {
 public:
  PacketPool() = default;
  PacketPool(const PacketPool&) = delete;
  PacketPool& operator=(const PacketPool&) = delete;

  /// Makes a packet of `size_bytes` with the bytes `stored`, which may be fewer.
  [[nodiscard]] PacketRef make(const Endpoint& source, const Endpoint& destination,
                               uint32_t size_bytes, std::span<const std::byte> stored);
  /// Copies endpoints, size, mark and bytes to a packet with one holder, which may change it.
  [[nodiscard]] PacketRef copy(const Packet& packet);

  /// Returns the number of packets that have a holder.
  [[nodiscard]] uint64_t held_count() const { return held_count_; }

 private:
  friend class PacketRef;
  static constexpr uint32_t kPacketsPerSlab = 256;

  void give_back(Packet* packet) {
    held_count_--;
    free_.push_back(packet);
  }
  [[nodiscard]] PacketRef take();
  void add_slab();

  std::vector<std::unique_ptr<Packet[]>> slabs_;
  std::vector<Packet*> free_;  ///< Last in, first out: a packet just returned is in cache.
  uint64_t held_count_ = 0;
};

inline PacketRef::~PacketRef() {
  if (packet_ != nullptr && --packet_->references_ == 0) packet_->pool_->give_back(packet_);
}

}  // namespace tributary::net
