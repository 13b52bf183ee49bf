// SPDX-License-Identifier: Apache-2.0
#include "programs/capture_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace tributary::programs {

const FedPacket* CaptureFeed::next() {
  if (!is_ahead_ && !read()) return nullptr;
  is_ahead_ = false;
  if (observer_) observer_(fed_.captured);
  return &fed_;
}

void CaptureFeed::read_ahead() { is_ahead_ = is_ahead_ || read(); }

bool CaptureFeed::read() {
  while (reader_ && !problem_ && !is_stopped()) {
    auto packet = reader_->next();
    if (!packet) {
      if (is_stopped()) return false;
      problem_ = packet.error();
      return false;
    }
    if (!*packet) return false;
    fed_.captured = **packet;
    if (!place_in_time()) return false;
    counts_.packets++;
    counts_.bytes += fed_.captured.wire_bytes;
    if (fed_.captured.wire_bytes > packet_bytes_max_) {
      counts_.too_long++;
      continue;
    }
    fill_up();
    return true;
  }
  return false;
}

bool CaptureFeed::place_in_time() {
  const io::CaptureTime at = fed_.captured.at;
  constexpr io::CaptureTime kLast{std::chrono::nanoseconds(kTimeMaxNs)};
  if (at < io::CaptureTime() || at > kLast) {
    using std::chrono::floor, std::chrono::seconds;
    problem_ = Error{fmt::format("packet {}: its time is {} s since 1970; allowed: 0 to {}",
                                 counts_.packets + 1, floor<seconds>(at).time_since_epoch().count(),
                                 floor<seconds>(kLast).time_since_epoch().count())};
    return false;
  }
  if (!first_at_) first_at_ = at;
  const int64_t after_ns = (at - *first_at_).count();
  const int64_t span_max_ns = in_nanoseconds(kSpanMax);
  const bool is_before_first = at < *first_at_;
  if (!is_before_first && after_ns > span_max_ns) {
    problem_ = Error{fmt::format(
        "packet {}: its time is {} days after the first packet's; allowed: {}", counts_.packets + 1,
        after_ns / 86'400'000'000'000, span_max_ns / 86'400'000'000'000)};
    return false;
  }
  const Instant placed = is_before_first ? Instant() : Instant() + nanoseconds(after_ns);
  if (is_before_first || placed < fed_.at) counts_.out_of_order++;
  fed_.at = std::max(fed_.at, placed);
  return true;
}

void CaptureFeed::fill_up() {
  fed_.bytes = fed_.captured.bytes;
  if (fed_.bytes.size() == fed_.captured.wire_bytes) return;
  counts_.cut++;
  if (headers_cut_ != nullptr && headers_cut_(fed_.bytes, fed_.captured.wire_bytes)) {
    counts_.headers_cut++;
    return;
  }
  filled_.assign(fed_.captured.wire_bytes, std::byte{0});
  std::copy(fed_.bytes.begin(), fed_.bytes.end(), filled_.begin());
  fed_.bytes = filled_;
}

}  // namespace tributary::programs
