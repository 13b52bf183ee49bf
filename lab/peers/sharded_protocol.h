// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker of a job with several servers. Each server adds its part of every tensor.
///
/// Model:   One conversation with each server, each with the live protocol
///          (host/worker_protocol.h). plan::PartCutter cuts tensors, as in host/communicator.h. The
///          window is divided by weight, and packets to the servers alternate.
/// Threads: One.
/// Errors:  The first conversation that ends, ends all; the text names its server.
/// Memory:  The conversations, and one Transfer for each part of a tensor in flight.
/// Tests:   tests/lab/peers/sharded_protocol_test.cc, tests/lab/peers/peers_run_test.cc
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "host/tensor_protocol.h"
#include "host/worker_config.h"
#include "host/worker_protocol.h"
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

/// Returns each server's part of the window, at least 1. A conversation's rate follows its window on
/// a link that it shares with others, so windows follow weights, and all parts of a tensor end
/// together. @param weights Not all 0.
[[nodiscard]] std::vector<uint32_t> window_shares(uint32_t window,
                                                  std::span<const uint32_t> weights);

class ShardedProtocol final : public host::TensorProtocol {
 public:
  /// @param nonce Not 0.
  ShardedProtocol(const ShardedConfig& config, uint64_t nonce, Instant now);

  void submit(host::Transfer& transfer, Instant now) override;
  void leave(Instant now) override;
  void fail(host::Status status, std::string text, uint32_t lost_aggregator) override;

  [[nodiscard]] bool hears(const Endpoint& from) const override;
  std::optional<Duration> on_packet(const host::Incoming& packet, Instant now) override;
  void on_time(Instant now) override;
  [[nodiscard]] host::Outgoing next_packet(std::span<std::byte> out, Instant now) override;
  [[nodiscard]] Instant next_deadline() const override;

  [[nodiscard]] Phase phase() const override;
  [[nodiscard]] host::Status status() const override { return status_; }
  [[nodiscard]] const std::string& status_text() const override { return status_text_; }
  [[nodiscard]] bool idle() const override { return flights_.empty(); }
  [[nodiscard]] const host::CommunicatorCounters& counters() const override;
  [[nodiscard]] uint32_t packet_bytes_max() const override;
  [[nodiscard]] uint32_t gradients() const override { return config_.communicator.gradients; }
  [[nodiscard]] uint32_t window() const override;

 private:
  /// A tensor in flight, in parts. The conversations hold pointers to the parts.
  struct Flight {
    host::Transfer* whole;
    std::vector<plan::Part> cut;
    std::vector<host::Transfer> parts;  ///< Like `cut`.
  };

  [[nodiscard]] size_t server_of(const Endpoint& from) const;
  void finish_done();
  void note_end();

  const ShardedConfig config_;
  std::vector<std::unique_ptr<host::WorkerProtocol>> conversations_;  ///< By server.
  plan::PartCutter cutter_;
  std::deque<Flight> flights_;
  size_t turn_ = 0;  ///< The conversation whose packet leaves next.
  host::Status status_ = host::Status::kOk;
  std::string status_text_;
  mutable host::CommunicatorCounters counters_;  ///< The sum, computed by counters().
};

}  // namespace tributary::lab
