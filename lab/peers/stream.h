// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reliable delivery of numbered packets from one host to another, as two books: packets sent and
/// not acknowledged, and packets received and not used. The owner of the books writes the packets.
///
/// Model:   Positions count up from 0. A sender has at most `window` positions in flight, and none
///          beyond the receiver's limit, which advances as the receiver uses packets. There is no
///          congestion control. An acknowledgement names the first missing position and those
///          received beyond it. A packet counts as lost if kOvertakenBy later packets overtook it,
///          or after a timeout.
/// Errors:  on_ack() refuses an acknowledgement of a position that was never sent.
/// Source:  RFC 2018 (selective acknowledgement), RFC 8985 §3 (order of sending, not of positions).
/// Tests:   tests/lab/peers/stream_test.cc
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "host/trio_ml/rtt_estimator.h"

namespace tributary::lab {

/// Positions beyond the first missing one that an acknowledgement can name. Assumed: several times
/// the packets in flight in a rack (100 Gbit/s, 10 us: 30 packets of 4 KiB).
inline constexpr uint32_t kAckBits = 512;
inline constexpr uint32_t kAckWords = kAckBits / 64;

/// The contents of an acknowledgement.
struct Ack {
  uint64_t below = 0;               ///< All positions before it have arrived.
  uint64_t limit = 0;               ///< The first position that may not be sent yet.
  uint32_t words = 0;               ///< Valid words of `beyond`.
  uint64_t beyond[kAckWords] = {};  ///< Bit i: position below + i has arrived.
};

class SendWindow {
 public:
  /// @param window Packets in flight, at least 1.
  explicit SendWindow(uint32_t window);

  [[nodiscard]] bool may_send_new() const;
  /// Returns true if only the receiver's limit prevents a new packet.
  [[nodiscard]] bool held_by_limit() const { return next_ == limit_ && base_ == next_; }
  /// Records that the next position is sent at `now`, and returns it.
  uint64_t send_new(Instant now);
  /// Returns the next position to retransmit and records it as sent at `now`.
  [[nodiscard]] std::optional<uint64_t> next_repair(Instant now);

  /// Applies an acknowledgement.
  /// @return false if it is impossible; nothing changes then.
  [[nodiscard]] bool on_ack(const Ack& ack, Instant now);
  /// Queues overdue positions for retransmission.
  void on_time(Instant now);
  /// Returns the next time at which on_time() has work; never() if nothing is in flight.
  [[nodiscard]] Instant next_deadline() const {
    return base_ == next_ ? Instant::never() : scan_at_;
  }

  /// Returns the first unacknowledged position.
  [[nodiscard]] uint64_t base() const { return base_; }
  [[nodiscard]] uint64_t next() const { return next_; }
  [[nodiscard]] uint64_t repairs() const { return repair_count_; }
  /// Returns the timeout after which an unanswered packet is repeated.
  [[nodiscard]] Duration timeout() const { return rtt_.timeout(host::RttEstimator::kMax); }

 private:
  /// A packet counts as lost once this many later ones are acknowledged. Source: RFC 5681 §3.2.
  static constexpr uint64_t kOvertakenBy = 3;
  /// Maximum doublings of the timeout. Assumed: as in host::WorkerProtocol.
  static constexpr uint32_t kDoublingsMax = 6;

  struct Place {
    Instant sent_at;
    uint64_t order = 0;  ///< Sequence number of its last transmission.
    uint32_t attempts = 0;
    bool acknowledged = false;
    bool queued = false;  ///< In repairs_.
  };

  [[nodiscard]] Place& place_of(uint64_t position) { return places_[position % places_.size()]; }
  void acknowledge(uint64_t position, Instant now);
  void queue_overtaken(uint64_t end);
  void note_sent(Place& place, Instant now);
  [[nodiscard]] Duration patience(const Place& place) const;

  std::vector<Place> places_;  ///< Shape [window].
  uint64_t base_ = 0;
  uint64_t next_ = 0;
  uint64_t limit_;
  uint64_t order_ = 0;               ///< Transmissions so far.
  uint64_t order_acknowledged_ = 0;  ///< The latest acknowledged transmission.
  uint64_t repair_count_ = 0;
  std::deque<uint64_t> repairs_;  ///< At most one entry per place.
  host::RttEstimator rtt_;
  Instant scan_at_ = Instant::never();
};

class ReceiveWindow {
 public:
  enum class Take : uint8_t { kNew, kDuplicate, kOutside };

  explicit ReceiveWindow(uint32_t window);

  /// Records a received packet. Returns kOutside if it lies beyond the limit.
  [[nodiscard]] Take take(uint64_t position);
  /// Returns true if the next position in order has arrived and is unused.
  [[nodiscard]] bool has_next() const { return used_ < below_; }
  /// Marks it as used. @pre has_next()
  void use_next();
  [[nodiscard]] uint64_t used() const { return used_; }
  /// Returns true if no packet can be accepted before one is used.
  [[nodiscard]] bool is_full() const { return below_ == used_ + come_.size(); }
  /// Returns true if a position before the highest received one is missing.
  [[nodiscard]] bool has_gap() const { return end_ > below_; }
  [[nodiscard]] Ack ack() const;

 private:
  [[nodiscard]] bool has(uint64_t position) const { return come_[position % come_.size()]; }

  std::vector<bool> come_;  ///< Shape [window]: received positions, starting at used_.
  uint64_t used_ = 0;
  uint64_t below_ = 0;
  uint64_t end_ = 0;  ///< One past the highest received position.
};

}  // namespace tributary::lab
