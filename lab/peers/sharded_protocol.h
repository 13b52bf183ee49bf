// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker that talks to parameter servers. Each server adds an equal share of every tensor.
///
/// Model:   One conversation with each server, each with the live protocol
///          (host/worker_protocol.h). SwitchML's authors compare with servers that aggregate packet
///          by packet, like the switch (SwitchML paper §6.1). A tensor is cut into one run of whole
///          packets per server. The server of the first run rotates with each tensor, so that small
///          tensors spread too. The window is divided evenly, and packets to the servers alternate.
/// Threads: One.
/// Errors:  The first conversation that ends, ends all; the text names its server.
/// Memory:  The conversations, and one Transfer for each server and tensor in flight.
/// Tests:   tests/lab/peers/sharded_protocol_test.cc, tests/lab/peers/peers_run_test.cc
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "host/tensor_protocol.h"
#include "host/worker_config.h"
#include "host/worker_protocol.h"

namespace tributary::lab {

struct ShardedConfig {
  /// Configuration of the conversations, except `server` and `window`.
  host::CommunicatorConfig communicator;
  std::vector<Endpoint> servers;  ///< At least one.
};

/// Returns the window of one of `servers` servers: the largest power of two that does not exceed
/// the even share, at least 1.
[[nodiscard]] uint32_t window_share(uint32_t window, uint32_t servers);

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
    std::vector<host::Transfer> parts;  ///< Shape [servers]: part i is the tensor's i-th run.
    std::vector<uint64_t> first;        ///< Shape [servers]: the part's first element.
  };

  [[nodiscard]] size_t server_of(const Endpoint& from) const;
  void cut(const host::Transfer& whole, Flight& flight) const;
  void finish_done();
  void note_end();

  const ShardedConfig config_;
  std::vector<std::unique_ptr<host::WorkerProtocol>> conversations_;  ///< By server.
  std::deque<Flight> flights_;
  uint64_t submitted_ = 0;
  size_t turn_ = 0;  ///< The conversation whose packet leaves next.
  host::Status status_ = host::Status::kOk;
  std::string status_text_;
  mutable host::CommunicatorCounters counters_;  ///< The sum, computed by counters().
};

}  // namespace tributary::lab
