// SPDX-License-Identifier: Apache-2.0
#include "host/trio_ml/stream_window.h"

#include <bit>

#include "base/assert.h"
#include "base/mutant.h"
#include "host/formats/number_format.h"

namespace tributary::host {
namespace {

/// Groups in a window, at least, so that most of it is in flight while a group gathers. Assumed;
/// only this number was measured (docs/notes/race.md).
constexpr uint64_t kGroupsPerWindow = 4;

}  // namespace

void StreamWindow::open(uint32_t window, uint32_t gradients, uint32_t narrow_gradients) {
  TRIB_ASSERT(!is_open() && window > 0 && gradients > 0);
  window_ = window;
  gradients_ = gradients;
  narrow_gradients_ = narrow_gradients;
  places_.assign(std::bit_ceil(window), Place{});
  place_mask_ = places_.size() - 1;
  for (Transfer* transfer : transfers_) assign_positions(*transfer);
  postpone_gradients();
}

void StreamWindow::submit(Transfer& transfer) {
  transfers_.push_back(&transfer);
  if (!is_open()) return;
  assign_positions(transfer);
  postpone_gradients();
}

void StreamWindow::assign_positions(Transfer& transfer) {
  const bool narrow = transfer.format == wire::ElementFormat::kBlockExponent16;
  const uint32_t elements = narrow && narrow_gradients_ > 0 ? narrow_gradients_ : gradients_;
  const uint64_t blocks = (transfer.element_count() + elements - 1) / elements;
  transfer.block_elements_ = elements;
  transfer.lead_ = 0;
  transfer.exponents_.clear();  // The owner may reuse a transfer with another format.
  if (wire::has_exponent(transfer.format)) {
    transfer.lead_ = std::min<uint64_t>(window_, blocks);
    transfer.exponents_.assign(blocks, AgreedExponent{});
  }
  transfer.position_first_ = end_;
  transfer.positions_left_ = blocks + transfer.lead_;
  transfer.gen_id_ = next_gen_id_++;
  transfer.outcome.blocks = blocks;
  end_ += transfer.positions_left_;
}

void StreamWindow::end_all(Status status, const std::string& text) {
  for (Transfer* transfer : transfers_) {
    transfer->outcome.status = status;
    transfer->outcome.text = text;
    transfer->done = true;
    if (TRIB_MUTANT(kOnlyFirstTold)) break;
  }
  transfers_.clear();
  ready_.clear();
}

Transfer* StreamWindow::transfer_at(uint64_t position) const {
  const auto after = std::upper_bound(
      transfers_.begin(), transfers_.end(), position,
      [](uint64_t wanted, const Transfer* transfer) { return wanted < transfer->position_first_; });
  TRIB_ASSERT(after != transfers_.begin());
  return *std::prev(after);
}

uint64_t StreamWindow::window_end() const {
  return base_ + std::min(window_, limit_) + (TRIB_MUTANT(kWindowPlusOne) ? 1 : 0);
}

bool StreamWindow::gathers() const {
  const uint64_t window_end = this->window_end();
  if (in_group_ || end_ <= window_end) return false;
  // Most of the window is in flight, so results will come and move it.
  return window_end - next_ < std::min<uint64_t>(group_, (window_end - base_) / kGroupsPerWindow);
}

bool StreamWindow::can_send() const {
  if (!ready_.empty()) return true;
  return next_ < end_ && next_ < window_end() && !gathers();
}

bool StreamWindow::lacks_exponent() const {
  const Transfer& transfer = *transfer_at(next_);
  const uint64_t offset = next_ - transfer.position_first_;
  if (transfer.lead_ == 0 || offset < transfer.lead_ || TRIB_MUTANT(kExponentNotAwaited)) {
    return false;
  }
  // The exponent of these gradients comes with the result `lead` positions before.
  const uint64_t source = next_ - transfer.lead_;
  return source >= base_ && (!is_done(source) || place_of(source).exponent_waits);
}

/// Postpones gradients that lack their exponent. Afterwards the next position has all that it
/// needs, or the window or the stream ends before it. Called when one of these moves.
void StreamWindow::postpone_gradients() {
  for (; next_ < end_ && next_ < window_end() && lacks_exponent(); next_++) {
    Transfer* transfer = transfer_at(next_);
    const Instant asked_at = first_sent_at(next_ - transfer->lead_);
    place_of(next_) = {.transfer = transfer, .first_sent_at = asked_at};
  }
}

uint64_t StreamWindow::take_next(Instant now) {
  if (!ready_.empty()) {
    const uint64_t taken = ready_.front();
    ready_.pop_front();
    place_of(taken).first_sent_at = now;
    place_of(taken).sent = true;
    return taken;
  }
  Transfer* transfer = transfer_at(next_);
  place_of(next_) = {.transfer = transfer,
                     .first_sent_at = now,
                     .sent = true,
                     .opens_tensor = transfer->lead_ > 0 && next_ == transfer->position_first_};
  const uint64_t taken = next_++;
  postpone_gradients();
  in_group_ = next_ < window_end();
  return taken;
}

StreamWindow::Contents StreamWindow::contents(uint64_t position) const {
  Transfer* transfer = place_of(position).transfer;
  const uint64_t offset = position - transfer->position_first_;
  Contents contents{.transfer = transfer,
                    .gen_id = transfer->gen_id_,
                    .lane_count = 0,
                    .gradient_block = 0,
                    .exponent_block = offset,
                    .has_exponent = offset < transfer->exponents_.size()};
  if (offset >= transfer->lead_) {
    contents.gradient_block = offset - transfer->lead_;
    const uint32_t elements = transfer->block_elements_;
    const uint64_t first = contents.gradient_block * elements;
    contents.lane_count =
        static_cast<uint32_t>(std::min<uint64_t>(elements, transfer->element_count() - first));
  }
  return contents;
}

void StreamWindow::set_exponent(uint64_t position, int8_t stated, bool degraded) {
  Place& place = place_of(position);
  Transfer& transfer = *place.transfer;
  place.stated = stated;
  place.exponent_waits = degraded && stated == kNoExponent;
  transfer.exponents_[position - transfer.position_first_] = {
      .exponent = degraded ? degraded_exponent(stated) : stated, .stated = stated};
}

/// Called for base_ when it is done, and so for each position in order.
void StreamWindow::pass_exponent(const Place& place) {
  if (place.opens_tensor) {
    if (exponent_max_ != kNoExponent) exponent_max_before_ = exponent_max_;
    exponent_max_ = kNoExponent;
  }
  if (place.exponent_waits) {
    // The transfer is in flight: the gradients of this block have not been sent.
    Transfer& transfer = *place.transfer;
    const int8_t reference = exponent_max_ != kNoExponent ? exponent_max_ : exponent_max_before_;
    transfer.exponents_[base_ - transfer.position_first_].exponent =
        degraded_exponent(kNoExponent, reference);
    release_gradients(base_);
  }
  exponent_max_ = std::max(exponent_max_, place.stated);
}

/// Makes postponed gradients ready, now that the ranks have agreed on the exponent in this
/// position.
/// @pre The position's transfer is in flight.
void StreamWindow::release_gradients(uint64_t exponent_position) {
  const Transfer& transfer = *place_of(exponent_position).transfer;
  const uint64_t offset = exponent_position - transfer.position_first_;
  if (offset >= transfer.exponents_.size()) return;
  const uint64_t gradients = exponent_position + transfer.lead_;
  if (gradients < next_ && !place_of(gradients).sent) ready_.push_back(gradients);
}

Transfer* StreamWindow::finish(uint64_t position) {
  Place& place = place_of(position);
  Transfer* transfer = place.transfer;
  place.done = true;
  if (!place.exponent_waits) release_gradients(position);
  for (; base_ < next_ && is_done(base_); base_++) pass_exponent(place_of(base_));
  postpone_gradients();
  if (--transfer->positions_left_ > 0) return nullptr;
  // Not always the oldest: a later transfer may be done first.
  std::erase(transfers_, transfer);
  return transfer;
}

}  // namespace tributary::host
