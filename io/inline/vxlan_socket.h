// SPDX-License-Identifier: Apache-2.0
/// @file
/// A tunnel of Ethernet frames in UDP datagrams (VXLAN, RFC 7348), with one peer, such as a Linux
/// `vxlan` interface. It needs no interface of its own and no rights.
///
/// Model:   Takes datagrams of the network `vni` from the peer's address, whatever their source
///          port (RFC 7348 §5 varies it). All others are dropped and counted. Frames go to the
///          peer's port. A frame with a checksum that a card should complete gets it here; a train
///          of segments is refused.
/// Threads: One, except visit_counters().
/// Errors:  open() returns one line: the cause, and the allowed values.
/// Memory:  kFramesEach buffers of 64 KiB of address space; pages cost nothing until used.
/// Tests:   tests/io/inline/vxlan_socket_test.cc, tests/system/vxlan_test.cc
#pragma once

#include <sys/uio.h>

#include <array>
#include <memory>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "io/counter_cells.h"
#include "io/file_descriptor.h"
#include "io/inline/inline_side.h"
#include "io/udp/socket_address.h"
#include "wire/vxlan.h"

namespace tributary::io {

struct VxlanConfig {
  Endpoint local;
  Endpoint peer;
  uint32_t network = 0;  ///< VNI, at most wire::kVxlanNetworkMax.
  uint32_t receive_buffer_bytes = 4U << 20;
};

class VxlanSocket final : public InlineSide {
 public:
  [[nodiscard]] static Result<std::unique_ptr<VxlanSocket>> open(const VxlanConfig& config);

  [[nodiscard]] uint32_t receive(uint32_t count_max) override;
  [[nodiscard]] std::span<std::byte> frame(uint32_t index) const override { return frames_[index]; }
  [[nodiscard]] std::optional<FrameNotes> notes_of(std::span<const std::byte>) const override {
    return FrameNotes{};
  }
  [[nodiscard]] Sent send(std::span<const Outgoing> frames) override;
  [[nodiscard]] int fd() const override { return socket_.get(); }
  [[nodiscard]] std::optional<uint64_t> rx_dropped() const override;
  void visit_counters(const engine::PortQueue::CounterVisitor& visit) const override;

  /// Returns the address to which the socket is bound.
  [[nodiscard]] Endpoint local() const;
  /// Returns the datagrams from other addresses than the peer's, and the peer's of other networks.
  [[nodiscard]] uint64_t foreign() const { return foreign_.value(); }
  /// Returns the peer's datagrams that are no frame of any network.
  [[nodiscard]] uint64_t malformed() const { return malformed_.value(); }

 private:
  static constexpr uint32_t kDatagramBytesMax = wire::VxlanHeader::kBytes + kFrameBytesMax;
  /// Bytes from one buffer to the next: a program's headroom and one datagram. A program may also
  /// overwrite the tunnel's header.
  static constexpr uint32_t kStride = 65'664;
  static_assert(engine::kHeadroomBytes + kDatagramBytesMax <= kStride);
  [[nodiscard]] std::byte* datagram(uint32_t index) const {
    return storage_.get() + size_t{index} * kStride + engine::kHeadroomBytes;
  }
  /// The tunnel's header; the frame up to its checksum, the checksum, the rest.
  static constexpr uint32_t kPieces = 4;

  explicit VxlanSocket(const VxlanConfig& config);
  void make_buffers();
  /// Writes a frame's pieces. @return false if it cannot leave by a tunnel.
  bool put(const Outgoing& frame, uint32_t index);

  const VxlanConfig config_;
  FileDescriptor socket_;
  std::array<std::byte, wire::VxlanHeader::kBytes> header_;
  SocketAddress peer_{};
  CounterCell foreign_;
  CounterCell malformed_;

  // Receiving. Shape [kFramesEach].
  std::unique_ptr<std::byte[]> storage_;
  std::vector<mmsghdr> headers_;
  std::vector<iovec> vectors_;
  std::vector<SocketAddress> senders_;
  std::vector<std::span<std::byte>> frames_;  ///< Accepted ones first.

  // Sending.
  std::vector<mmsghdr> send_headers_;
  std::vector<std::array<iovec, kPieces>> send_vectors_;
  std::vector<std::array<std::byte, 2>> checksums_;
};

}  // namespace tributary::io
