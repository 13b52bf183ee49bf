// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker of a job with several servers. Each server adds its part of every tensor.
///
/// Model:   One conversation with each server, by its place in the list, each with the live
///          protocol (host/trio_ml/worker_protocol.h). plan::PartCutter cuts tensors, as in
///          host/communicator.h. The window is divided by weight, and packets to the servers
///          alternate.
/// Threads: One.
/// Errors:  The first conversation that ends, ends all; the text names its server.
/// Memory:  The conversations, and one Transfer for each part of a tensor in flight.
/// Tests:   tests/lab/peers/sharded_protocol_test.cc, tests/lab/peers/peers_run_test.cc
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "host/tensor_protocol.h"
#include "host/worker_config.h"
#include "lab/peers/protocol_group.h"
#include "plan/part_cutter.h"

namespace tributary::lab {

struct ShardedConfig {
  /// Configuration of the conversations, except `server` and `window`.
  host::CommunicatorConfig communicator;
  std::vector<Endpoint> servers;  ///< At least one.
  /// Shape [servers]: each server's part of every tensor, relative to the others; not all 0. Empty:
  /// all alike.
  std::vector<uint32_t> weights;
  /// Packets that one simulated packet represents. Tensors are cut as real ones.
  uint32_t train = 1;
};

/// Returns each server's part of the window, at least 1. A conversation's rate follows its window
/// on a link that it shares with others, so windows follow weights, and all parts of a tensor end
/// together. @param weights Not all 0.
[[nodiscard]] std::vector<uint32_t> window_shares(uint32_t window,
                                                  std::span<const uint32_t> weights);

class ShardedProtocol final : public ProtocolGroup {
 public:
  /// @param nonce Not 0.
  ShardedProtocol(const ShardedConfig& config, uint64_t nonce, Instant now);

  void submit(host::Transfer& transfer, Instant now) override;
  [[nodiscard]] bool accepts_from(const Endpoint& from) const override;
  std::optional<Duration> on_packet(const host::Incoming& packet, Instant now) override;
  [[nodiscard]] host::Outgoing next_packet(std::span<std::byte> out, Instant now) override;

 private:
  /// A tensor in flight, in parts. The conversations hold pointers to the parts.
  struct Flight {
    host::Transfer* whole;
    std::vector<plan::Part> cut;
    std::vector<host::Transfer> parts;  ///< Like `cut`.
  };

  [[nodiscard]] size_t server_of(const Endpoint& from) const;
  void on_progress() override;

  const ShardedConfig config_;
  plan::PartCutter cutter_;
  std::deque<Flight> flights_;
  size_t turn_ = 0;  ///< The conversation whose packet leaves next.
};

}  // namespace tributary::lab
