// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker's tensors as one stream of positions, with a window of positions in flight.
///
/// Model:   position = block_id (mod 2^32). Position p+window may be sent once positions up to p
///          have their results. Gradients that lack their exponent wait: later positions go first.
/// Shapes:  A position carries `gradients` elements, a tensor's last one the rest. With
///          a block exponent a tensor has lead = min(window, blocks) more positions: position p
///          carries the gradients of block p - lead and the exponent of block p (SwitchML §4.6).
/// Threads: Owned by one thread.
/// Memory:  A place for each window position, from open() on. Two bytes for each block with an
///          exponent. The owner keeps a transfer alive until it is done.
/// Tests:   tests/host/trio_ml/stream_window_test.cc
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "host/all_reduce.h"
#include "host/formats/number_format.h"
#include "host/tensor_protocol.h"

namespace tributary::host {

class StreamWindow {
 public:
  /// The contents of a position's packet.
  struct Contents {
    Transfer* transfer;
    uint16_t gen_id;
    uint32_t lane_count;      ///< Gradients; 0: the packet carries an exponent only.
    uint64_t gradient_block;  ///< Its block of the tensor, if lane_count > 0.
    uint64_t exponent_block;  ///< The block whose exponent it carries, if has_exponent.
    bool has_exponent;
  };

  /// Sets the window and assigns positions to the transfers that were submitted before. Called
  /// once. @param gradients  Elements of a block, not 0.
  /// @param narrow_gradients  Elements of a block with kBlockExponent16; 0: no transfer has that
  ///                          format.
  void open(uint32_t window, uint32_t gradients, uint32_t narrow_gradients = 0);
  [[nodiscard]] bool is_open() const { return !places_.empty(); }
  /// Lets at most `positions` be in flight, if that is less than the window. Those in flight stay.
  /// @param positions At least 1.
  void limit(uint32_t positions) {
    limit_ = positions;
    postpone_gradients();
  }
  /// Lets new positions go in groups: they wait until the window admits this many of them, or a
  /// quarter of itself, or all that are left. 1, which is the default: they never wait.
  void gather(uint32_t positions) { group_ = positions; }

  /// Appends a transfer that is not empty. It gets its positions at once if the stream is open.
  void submit(Transfer& transfer);
  /// Ends all transfers with this status.
  void end_all(Status status, const std::string& text);
  /// Returns true if no transfer is in flight.
  [[nodiscard]] bool idle() const { return transfers_.empty(); }

  /// Returns true if a position may be sent: it is inside the window, and if its gradients need an
  /// exponent, the ranks have agreed on that exponent.
  [[nodiscard]] bool can_send() const;
  /// Returns true if postponed gradients have got their exponent. They are sent before new
  /// positions.
  [[nodiscard]] bool has_ready() const { return !ready_.empty(); }
  /// Puts a position in flight and returns it. @pre can_send()
  uint64_t take_next(Instant now);

  /// Returns the position in flight with this block_id, done or not.
  [[nodiscard]] std::optional<uint64_t> position_of(uint32_t block_id) const {
    const uint64_t position =
        base_ + static_cast<uint32_t>(block_id - static_cast<uint32_t>(base_));
    if (position >= next_ || !place_of(position).sent) return {};
    return position;
  }
  [[nodiscard]] Contents contents(uint64_t position) const;
  /// Returns true if the position has its result.
  [[nodiscard]] bool is_done(uint64_t position) const { return place_of(position).done; }
  /// Returns when the position was put in flight; for one that waits for its exponent, when that
  /// was.
  [[nodiscard]] Instant first_sent_at(uint64_t position) const {
    return place_of(position).first_sent_at;
  }
  /// Records whether this rank withholds its contribution to a position in flight.
  void set_withheld(uint64_t position, bool withheld) { place_of(position).withheld = withheld; }
  [[nodiscard]] bool is_withheld(uint64_t position) const { return place_of(position).withheld; }

  /// Returns the exponent that the ranks agreed on for a block.
  [[nodiscard]] static AgreedExponent exponent(const Transfer& transfer, uint64_t block) {
    return transfer.exponents_.empty() ? AgreedExponent{} : transfer.exponents_[block];
  }
  /// Records the exponent in the result of a position, before finish(). If the result is degraded
  /// and `stated` is kNoExponent, the block's exponent follows from those of earlier positions. It
  /// is then known, and its gradients can be sent, when these positions are done. So all ranks
  /// compute the same one.
  /// @param stated  The largest exponent of the ranks in the result. @pre The position has one.
  void set_exponent(uint64_t position, int8_t stated, bool degraded);

  /// Records the result of a position. Moves the window if the position is the oldest one.
  /// @return the position's transfer if that was its last result. The stream has released it, and
  /// the caller sets `done`.
  [[nodiscard]] Transfer* finish(uint64_t position);

  /// Records that somebody received the result of this block_id, whether it was sent here or not.
  void hear_result(uint32_t block_id) {
    const auto ahead = static_cast<int32_t>(block_id - static_cast<uint32_t>(results_heard_));
    if (ahead >= 0) results_heard_ += static_cast<uint32_t>(ahead) + 1;
  }
  [[nodiscard]] Progress progress() const { return {.submitted = end_, .heard = results_heard_}; }

  // Positions in flight or postponed: base() <= position < next(). If base() is postponed, it has
  // its exponent.
  [[nodiscard]] uint64_t base() const { return base_; }
  [[nodiscard]] uint64_t next() const { return next_; }

 private:
  /// A position of the window.
  struct Place {
    Transfer* transfer = nullptr;
    Instant first_sent_at;
    bool sent = false;  ///< False: it is postponed.
    bool done = false;
    bool opens_tensor = false;    ///< The first position of a transfer with exponents.
    bool exponent_waits = false;  ///< Its block's exponent follows from earlier positions.
    bool withheld = false;        ///< See set_withheld().
    int8_t stated = kNoExponent;  ///< See set_exponent().
  };

  [[nodiscard]] Place& place_of(uint64_t position) { return places_[position & place_mask_]; }
  [[nodiscard]] const Place& place_of(uint64_t position) const {
    return places_[position & place_mask_];
  }
  void assign_positions(Transfer& transfer);
  /// Returns the first position that the window does not admit.
  [[nodiscard]] uint64_t window_end() const;
  /// Returns whether the next position waits for more of its group.
  [[nodiscard]] bool gathers() const;
  /// Returns whether the gradients of the next position lack their exponent.
  [[nodiscard]] bool lacks_exponent() const;
  void postpone_gradients();
  void pass_exponent(const Place& place);
  void release_gradients(uint64_t exponent_position);
  [[nodiscard]] Transfer* transfer_at(uint64_t position) const;

  uint32_t window_ = 1;
  uint32_t limit_ = UINT32_MAX;  ///< See limit().
  uint32_t group_ = 1;           ///< See gather().
  bool in_group_ = false;        ///< A group has begun, and the window admits more of it.
  uint32_t gradients_ = 1;
  uint32_t narrow_gradients_ = 0;
  uint64_t place_mask_ = 0;
  std::vector<Place> places_;  ///< Shape [power of two, at least the window].

  // base_ <= positions in flight or postponed < next_ <= end_.
  uint64_t base_ = 0;
  uint64_t next_ = 0;
  std::deque<uint64_t> ready_;  ///< Postponed positions that have their exponent.
  uint64_t end_ = 0;            ///< One past the last transfer's last position.
  uint64_t results_heard_ = 0;  ///< One past the highest position with a result, sent or not.
  uint16_t next_gen_id_ = 0;
  std::deque<Transfer*> transfers_;  ///< Not yet done, in order of positions.

  // The largest exponents stated below base_, in the current transfer with exponents and in the
  // one before it.
  int8_t exponent_max_ = kNoExponent;
  int8_t exponent_max_before_ = kNoExponent;
};

}  // namespace tributary::host
