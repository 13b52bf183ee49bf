// SPDX-License-Identifier: Apache-2.0
/// @file
/// A port for a program that sits in a wire: frames that arrive on one interface leave by the other
/// one, or, with a single interface, by the same one. Messages that the program makes leave through
/// the kernel's network.
///
/// Model:   One queue. Each core has a port of its own; the kernel shares the interface's frames
///          among them as Steering says.
/// Units:   Frame bytes.
/// Threads: As engine::PortQueue.
/// Errors:  open() returns one line; frames that the kernel refuses are counted in tx_refused.
/// Tests:   tests/system/inline_test.cc
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/port.h"
#include "io/counter_cells.h"
#include "io/file_descriptor.h"
#include "io/inline/frame_socket.h"

namespace tributary::io {

/// Parses "packet:INTERFACE". @return the interface.
[[nodiscard]] Result<std::string> parse_inline_port(std::string_view text);

class InlinePort final : public engine::Port, private engine::PortQueue {
 public:
  struct Config {
    std::vector<std::string> interfaces;  ///< One or two, different from each other.
    uint32_t receive_buffer_bytes = 4U << 20;
    Steering steering = Steering::kByFlow;
  };
  /// Opens a port for each core.
  [[nodiscard]] static Result<std::vector<std::unique_ptr<InlinePort>>> open(const Config& config,
                                                                             uint32_t core_count);

  [[nodiscard]] uint32_t queue_count() const override { return 1; }
  [[nodiscard]] engine::PortQueue& queue(uint32_t) override { return *this; }
  [[nodiscard]] Endpoint local() const override { return {}; }
  [[nodiscard]] uint32_t payload_bytes_max() const override { return engine::kIpBytesMax; }

 private:
  explicit InlinePort(FileDescriptor wake_event) : wake_event_(std::move(wake_event)) {}

  uint32_t receive(std::span<engine::Packet> burst) override;
  void transmit(std::span<const engine::TxPacket> packets) override;
  void wait(Duration at_most) override;
  void wake() override;
  [[nodiscard]] engine::PortCounters counters() const override { return counters_.read(); }
  void visit_counters(const CounterVisitor& visit) const override;

  void send_message(const engine::TxPacket& packet);
  void flush(uint32_t side);

  const FileDescriptor wake_event_;
  std::vector<std::unique_ptr<FrameSocket>> sides_;
  /// Frames that wait for flush(). Shape [sides][frames].
  std::vector<std::vector<FrameSocket::Outgoing>> outgoing_;
  FileDescriptor message_socket_;  ///< AF_INET6, for IPv4 too; not open if the kernel has none.
  PortCounterCells counters_;
};

}  // namespace tributary::io
