// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ring all-reduce among workers, as a baseline without an aggregator.
///
/// Model:   A tensor is cut into `world` chunks of whole packets. In step s a rank sends chunk
///          (rank - s) mod world to its right and receives chunk (rank - 1 - s) mod world from its
///          left. It adds in the first world - 1 steps and copies in the others (SwitchML paper §2,
///          BytePS paper §2.2). Packets are forwarded one by one, so an idle ring needs 2 (world -
///          1) / world x |U| / B plus 2 (world - 1) hops' latency of one packet.
/// Shapes:  Sums of integers and elided tensors; sums and means of floats with a fixed scale.
/// Errors:  A silent neighbour: kPeerMissing. Another tensor length: kMismatch. Another kind of
///          tensor: kRefused. A float that does not fit the scale ends the protocol with kOverflow.
/// Tests:   tests/lab/peers/ring_protocol_test.cc, tests/lab/peers/peers_run_test.cc
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/tensor_protocol.h"
#include "lab/peers/ring_wire.h"
#include "lab/peers/stream.h"

namespace tributary::lab {

struct RingConfig {
  uint32_t rank = 0;
  uint32_t world = 1;        ///< 1 or more.
  uint32_t gradients = 352;  ///< Elements in a packet, 1 … kRingLanesMax.
  uint32_t window = 256;     ///< Packets in flight to the right.
  Duration deadline = seconds(60);
  /// Whether packets that are not acknowledged in time are repeated.
  bool repair = true;
  Endpoint left;
  Endpoint right;
};

class RingProtocol final : public host::TensorProtocol {
 public:
  RingProtocol(const RingConfig& config, Instant now);

  void submit(host::Transfer& transfer, Instant now) override;
  /// Ends all transfers in flight with kClosed. The ring has no leave message.
  void leave(Instant now) override;
  void fail(host::Status status, std::string text, uint32_t lost_aggregator) override;

  [[nodiscard]] bool accepts_from(const Endpoint& from) const override;
  std::optional<Duration> on_packet(const host::Incoming& packet, Instant now) override;
  void on_time(Instant now) override;
  [[nodiscard]] host::Outgoing next_packet(std::span<std::byte> out, Instant now) override;
  [[nodiscard]] Instant next_deadline() const override;

  [[nodiscard]] Phase phase() const override { return phase_; }
  [[nodiscard]] host::Status status() const override { return status_; }
  [[nodiscard]] const std::string& status_text() const override { return status_text_; }
  [[nodiscard]] bool idle() const override { return transfers_.empty(); }
  [[nodiscard]] const host::CommunicatorCounters& counters() const override { return counters_; }
  [[nodiscard]] uint32_t packet_bytes_max() const override;
  [[nodiscard]] uint32_t gradients() const override { return config_.gradients; }
  [[nodiscard]] uint32_t window() const override { return config_.window; }

 private:
  /// Packets per acknowledgement and its longest delay. Assumed: a NIC that acknowledges in
  /// hardware does so for several packets at once. A gap, a duplicate or a tensor's end is
  /// acknowledged at once.
  static constexpr uint32_t kAckEvery = 16;
  static constexpr Duration kAckWithin = microseconds(20);

  /// The position of a packet in the stream of one direction.
  struct Cursor {
    uint64_t number = 0;  ///< Tensor number since the protocol's start.
    uint32_t step = 0;
    uint64_t index = 0;  ///< Packet number within the step's chunk.
  };
  /// A tensor in flight.
  struct Flight {
    host::Transfer* transfer;
    uint64_t blocks;
    std::optional<uint64_t> sent_end =
        {};                           ///< One past its last position to the right, once known.
    std::vector<int32_t> fixed = {};  ///< Its floats as integers; empty without floats.
  };
  /// The origin of an unacknowledged position. Its tensor is in flight until all positions are
  /// acknowledged.
  struct Sent {
    Flight* flight = nullptr;
    uint64_t block = 0;
  };

  // The schedule.
  [[nodiscard]] uint32_t steps() const { return 2 * (config_.world - 1); }
  [[nodiscard]] uint64_t chunk_first(uint64_t blocks, uint32_t chunk) const;
  [[nodiscard]] uint32_t chunk_of(uint32_t rank, uint32_t step) const;
  [[nodiscard]] uint64_t block_at(const Cursor& cursor, uint32_t rank) const;
  /// Advances the cursor past chunks without packets, to a tensor in flight if there is one.
  void settle(Cursor& cursor, uint32_t rank) const;
  [[nodiscard]] bool is_in_flight(const Cursor& cursor) const;
  [[nodiscard]] Flight& flight_of(const Cursor& cursor);
  [[nodiscard]] const Flight& flight_of(const Cursor& cursor) const;
  [[nodiscard]] bool out_is_ready();
  void note_sent_ends();

  // Floats.
  /// @return false if a value does not fit.
  [[nodiscard]] bool take_floats(Flight& flight) const;
  void return_floats(const Flight& flight) const;

  // In.
  void on_data(const RingPacket& data, const host::Incoming& packet, Instant now);
  void use_what_came(Instant now);
  [[nodiscard]] bool use(uint64_t position);
  void finish_done(Instant now);
  void owe_ack(bool at_once, Instant now);
  void end(host::Status status, std::string text);
  void check_deadline(Instant now);

  // Out.
  host::Outgoing write_ack(std::span<std::byte> out);
  host::Outgoing write_probe(std::span<std::byte> out);
  host::Outgoing write_data(std::span<std::byte> out, uint64_t position);
  [[nodiscard]] uint32_t lanes_of(const host::Transfer& transfer, uint64_t block) const;
  [[nodiscard]] std::span<int32_t> lanes_at(Flight& flight, uint64_t block) const;

  const RingConfig config_;
  const uint32_t left_rank_;
  const uint32_t right_rank_;
  Phase phase_ = Phase::kRunning;
  host::Status status_ = host::Status::kOk;
  std::string status_text_;

  std::deque<Flight> transfers_;
  uint64_t first_number_ = 0;  ///< Number of transfers_.front().

  Cursor out_;  ///< The next new packet to the right.
  Cursor in_;   ///< The next packet from the left to process.
  SendWindow sent_;
  ReceiveWindow received_;
  std::vector<Sent> sent_from_;  ///< Shape [window].
  struct Kept {
    uint32_t lanes = 0;
    bool elided = true;
    std::vector<int32_t> values;
  };
  std::vector<Kept> kept_;  ///< Shape [window]: received packets not yet processed.

  uint32_t acks_owed_ = 0;
  bool ack_due_ = false;
  bool probe_due_ = false;
  Instant ack_at_ = Instant::never();
  Instant probe_at_ = Instant::never();
  Instant heard_left_at_;
  Instant heard_right_at_;
  Instant waits_since_;  ///< When the first tensor was submitted, or its predecessor was done.
  host::CommunicatorCounters counters_;
};

}  // namespace tributary::lab
