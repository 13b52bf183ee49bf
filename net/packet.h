// SPDX-License-Identifier: Apache-2.0
/// @file
/// A UDP datagram on its way through the virtual network, shared by all who hold it.
///
/// Model:   What nodes look at is the UDP payload and its two endpoints; Ethernet, IP and UDP
///          headers exist as bytes on the wire (kWireOverheadBytes) and in pcap files. A packet may
///          be *elided*: it has a size, but only its first stored bytes exist, for experiments in
///          which the gradients' values do not matter.
/// Units:   Bytes.
/// Threads: One. Reference counts are plain.
/// Memory:  From a pool that grows to the most packets in flight at once. A packet that is used
/// again
///          keeps its room for stored bytes; an elided one without any never allocates.
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

/// What a frame takes on the wire beside its UDP payload: preamble 8, Ethernet 14, IPv4 20, UDP 8,
/// FCS 4, inter-frame gap 12. Source: IEEE 802.3 clause 4, RFC 791, RFC 768.
inline constexpr uint32_t kWireOverheadBytes = 66;

class PacketPool;

/// One datagram. Immutable once it is sent: others may hold it too.
struct alignas(64) Packet {
  Endpoint source;
  Endpoint destination;
  uint32_t size_bytes = 0;              ///< UDP payload, as on the wire.
  bool congestion_experienced = false;  ///< ECN mark of a full queue (RFC 3168).
  std::vector<std::byte> stored;        ///< size_bytes of payload, or its beginning if elided.

  [[nodiscard]] bool elided() const { return stored.size() < size_bytes; }

 private:
  friend class PacketPool;
  friend class PacketRef;
  friend class Network;
  uint32_t references_ = 0;
  PacketPool* pool_ = nullptr;
  uint64_t content_hash_ = 0;  ///< Of what the digest covers; 0 until a network has asked.
};

/// A shared hold on a packet.
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

  /// A hint that the packet will be looked at soon.
  void prefetch() const {
    __builtin_prefetch(packet_);
    __builtin_prefetch(reinterpret_cast<const std::byte*>(packet_) + 64);
  }
  /// Whether somebody else holds the packet, too.
  [[nodiscard]] bool shared() const { return packet_->references_ > 1; }

  /// Through an event's argument and back: release() gives the hold away, adopt() takes it over.
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

/// Where packets come from and go back to. Outlives all of them.
class PacketPool {
 public:
  PacketPool() = default;
  PacketPool(const PacketPool&) = delete;
  PacketPool& operator=(const PacketPool&) = delete;

  /// A new packet of `size_bytes`, of which `stored` (at most as long) exists.
  [[nodiscard]] PacketRef make(const Endpoint& source, const Endpoint& destination,
                               uint32_t size_bytes, std::span<const std::byte> stored);
  /// The same endpoints, size, mark and bytes with one holder, who may change them.
  [[nodiscard]] PacketRef copy(const Packet& packet);

  /// Packets that somebody holds.
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
  std::vector<Packet*> free_;  ///< Last in, first out: a packet just given back is in cache.
  uint64_t held_count_ = 0;
};

inline PacketRef::~PacketRef() {
  if (packet_ != nullptr && --packet_->references_ == 0) packet_->pool_->give_back(packet_);
}

}  // namespace tributary::net
