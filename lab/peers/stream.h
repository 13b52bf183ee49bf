// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reliable delivery of numbered packets from one host to another, as two books: what was sent and
/// is not acknowledged, and what has come and is not used yet. Who has the books writes the
/// packets.
///
/// Model:   Positions count on from 0. A sender has at most `window` of them on their way, and none
///          beyond the receiver's limit, which moves as the receiver uses what has come: a fixed
///          window with back-pressure, as RoCE's credits and a switch that queues give it, and no
///          congestion control beside it. An acknowledgement says below which position everything
///          has come, and names what has come beyond. Lost is what kOvertakenBy later sent packets
///          have overtaken, or what a time-out finds; only that is sent again.
/// Units:   Packets, virtual or live time.
/// Threads: One object, one thread.
/// Errors:  An acknowledgement of what was never sent is refused by on_ack().
/// Memory:  40 bytes a place of the window on one side, one bit on the other.
/// Source:  Selective acknowledgement: RFC 2018. Order of sending instead of positions, so that
///          what was sent again can be lost again: RFC 8985 §3.
/// Tests:   tests/lab/peers/stream_test.cc
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "host/rtt_estimator.h"

namespace tributary::lab {

/// Positions beyond the first missing one that an acknowledgement can name. Assumed: several times
/// what is on its way in a rack (100 Gbit/s, 10 us: 30 packets of 4 KiB).
inline constexpr uint32_t kAckBits = 512;
inline constexpr uint32_t kAckWords = kAckBits / 64;

/// What an acknowledgement says.
struct Ack {
  uint64_t below = 0;               ///< Everything before has come.
  uint64_t limit = 0;               ///< Nothing from here on may be sent yet.
  uint32_t words = 0;               ///< Of `beyond` that count.
  uint64_t beyond[kAckWords] = {};  ///< Bit i: position below + i has come.
};

class SendBook {
 public:
  /// @param window Packets in flight, at least 1.
  explicit SendBook(uint32_t window);

  [[nodiscard]] bool may_send_new() const;
  /// The receiver's limit is all that stops a new packet.
  [[nodiscard]] bool held_by_limit() const { return next_ == limit_ && base_ == next_; }
  /// Takes the next position; its packet is sent now.
  uint64_t send_new(Instant now);
  /// The next position to be sent again; it is sent now.
  [[nodiscard]] std::optional<uint64_t> next_repair(Instant now);

  /// @return false for what cannot be true; then nothing changes.
  [[nodiscard]] bool on_ack(const Ack& ack, Instant now);
  /// Finds what is overdue.
  void on_time(Instant now);
  /// When on_time() has something to do; never() while nothing is on its way.
  [[nodiscard]] Instant next_deadline() const {
    return base_ == next_ ? Instant::never() : scan_at_;
  }

  /// Everything below is acknowledged.
  [[nodiscard]] uint64_t base() const { return base_; }
  [[nodiscard]] uint64_t next() const { return next_; }
  [[nodiscard]] uint64_t repairs() const { return repair_count_; }
  /// How long to wait for an answer before asking again.
  [[nodiscard]] Duration timeout() const { return rtt_.timeout(host::RttEstimator::kMax); }

 private:
  /// Packets sent later that overtake one, so that it counts as lost. Source: RFC 5681 §3.2.
  static constexpr uint64_t kOvertakenBy = 3;
  /// Doublings of the time-out, at most. Assumed: as host::WorkerProtocol.
  static constexpr uint32_t kDoublingsMax = 6;

  struct Place {
    Instant sent_at;
    uint64_t order = 0;  ///< Of its last sending among all.
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
  uint64_t order_ = 0;               ///< Sendings so far.
  uint64_t order_acknowledged_ = 0;  ///< The latest one that has arrived.
  uint64_t repair_count_ = 0;
  std::deque<uint64_t> repairs_;  ///< At most one entry a place.
  host::RttEstimator rtt_;
  Instant scan_at_ = Instant::never();
};

class ReceiveBook {
 public:
  enum class Take : uint8_t { kNew, kDuplicate, kOutside };

  explicit ReceiveBook(uint32_t window);

  /// A packet has come. kOutside: it lies beyond the limit, or is not to be kept.
  [[nodiscard]] Take take(uint64_t position);
  /// The next position in order has come and waits to be used.
  [[nodiscard]] bool has_next() const { return used_ < below_; }
  /// Uses it. @pre has_next()
  void use_next();
  [[nodiscard]] uint64_t used() const { return used_; }
  /// Nothing more is taken before something is used.
  [[nodiscard]] bool is_full() const { return below_ == used_ + come_.size(); }
  /// Something is missing before what has come.
  [[nodiscard]] bool has_gap() const { return end_ > below_; }
  [[nodiscard]] Ack ack() const;

 private:
  [[nodiscard]] bool has(uint64_t position) const { return come_[position % come_.size()]; }

  std::vector<bool> come_;  ///< Shape [window]: of the positions from used_ on.
  uint64_t used_ = 0;
  uint64_t below_ = 0;
  uint64_t end_ = 0;  ///< One past the highest that has come.
};

}  // namespace tributary::lab
