// SPDX-License-Identifier: Apache-2.0
/// @file
/// A port for a program that sits in a wire: frames that arrive on one side leave by the other one,
/// or, with a single side, by the same one. A side is an interface, a DPDK device or a tunnel.
/// Messages that the program makes leave through the kernel's network.
///
/// Model:   One queue. Each core has a port of its own; the kernel, or a card under DPDK, shares
///          the frames among them as Steering says. With a DPDK side, wait() naps and polls.
/// Units:   Frame bytes.
/// Threads: As engine::PortQueue.
/// Errors:  open() returns one line; frames that the kernel refuses are counted in tx_refused.
/// Tests:   tests/system/inline_test.cc, tests/system/inline_dpdk_test.cc
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/port.h"
#include "io/counter_cells.h"
#include "io/file_descriptor.h"
#include "io/inline/side_spec.h"

namespace tributary::io {

class InlinePort final : public engine::Port, private engine::PortQueue {
 public:
  struct Config {
    std::vector<InlineSideSpec> sides;  ///< One or two, different from each other.
    uint32_t receive_buffer_bytes = 4U << 20;
    Steering steering = Steering::kByFlow;
  };
  struct Opened {
    std::vector<std::unique_ptr<InlinePort>> ports;  ///< Shape [cores].
    std::vector<std::string> warnings;  ///< One sentence each, with the command to fix it.
  };
  /// Opens a port for each core. Several cores need sides that share frames in the same way, so it
  /// refuses them for a DPDK device with an interface, whose hashes differ, and for a tunnel, whose
  /// datagrams may all come from one address and port.
  [[nodiscard]] static Result<Opened> open(const Config& config, uint32_t core_count);

  [[nodiscard]] uint32_t queue_count() const override { return 1; }
  [[nodiscard]] engine::PortQueue& queue(uint32_t) override { return *this; }
  [[nodiscard]] Endpoint local() const override { return {}; }
  [[nodiscard]] uint32_t payload_bytes_max() const override { return engine::kIpBytesMax; }

 private:
  explicit InlinePort(FileDescriptor wake_event);

  uint32_t receive(std::span<engine::Packet> burst) override;
  void transmit(std::span<const engine::TxPacket> packets) override;
  void wait(Duration at_most) override;
  void wake() override;
  [[nodiscard]] engine::PortCounters counters() const override;
  [[nodiscard]] std::optional<uint64_t> rx_dropped() const override;
  void visit_counters(const CounterVisitor& visit) const override;

  void add_side(std::unique_ptr<InlineSide> side);
  void count_system_call(const InlineSide& side);
  void send_message(const engine::TxPacket& packet);
  void flush(uint32_t side);

  const FileDescriptor wake_event_;
  std::vector<std::unique_ptr<InlineSide>> sides_;
  /// Frames that wait for flush(). Shape [sides][frames].
  std::vector<std::vector<InlineSide::Outgoing>> outgoing_;
  int message_family_ = 0;         ///< Address family of message_socket_.
  FileDescriptor message_socket_;  ///< AF_INET6, for IPv4 too, or AF_INET.
  PortCounterCells counters_;
  bool is_polled_ = false;   ///< A side has no descriptor.
  bool never_naps_ = false;  ///< The user has asked for it: poll=on.
  Instant busy_at_;          ///< When a frame was last received, if is_polled_.
};

}  // namespace tributary::io
