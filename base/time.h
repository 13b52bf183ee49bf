// SPDX-License-Identifier: Apache-2.0
/// @file
/// Time as two types: Duration (a length) and Instant (a point). A live Instant counts from the
/// process's start on the monotonic clock; a modelled one counts from the start of virtual time.
///
/// Units:  One tick is 10 ps, the longest unit in which the time of a byte is whole at every
///         Ethernet rate from 10 to 800 Gbit/s. 64 signed bits hold 2.9 years of ticks. No bare
///         integer of time crosses an interface: write nanoseconds(3), read in_nanoseconds().
/// Errors: None; arithmetic past 2.9 years is a caller's bug.
/// Tests:  tests/base/time_test.cc
#pragma once

#include <compare>
#include <cstdint>

namespace tributary {

/// Picoseconds in one tick of Duration and Instant.
inline constexpr int64_t kPicosecondsPerTick = 10;

/// A length of time; may be negative.
class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration from_ticks(int64_t ticks) { return Duration(ticks); }
  [[nodiscard]] constexpr int64_t ticks() const { return ticks_; }

  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator+(Duration a, Duration b) {
    return Duration(a.ticks_ + b.ticks_);
  }
  friend constexpr Duration operator-(Duration a, Duration b) {
    return Duration(a.ticks_ - b.ticks_);
  }
  friend constexpr Duration operator*(Duration a, int64_t factor) {
    return Duration(a.ticks_ * factor);
  }
  friend constexpr Duration operator/(Duration a, int64_t divisor) {
    return Duration(a.ticks_ / divisor);
  }
  constexpr Duration& operator+=(Duration other) { return ticks_ += other.ticks_, *this; }

 private:
  explicit constexpr Duration(int64_t ticks) : ticks_(ticks) {}
  int64_t ticks_ = 0;
};

inline constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

constexpr Duration picoseconds(int64_t count) {
  return Duration::from_ticks(count / kPicosecondsPerTick);
}
constexpr Duration nanoseconds(int64_t count) {
  return Duration::from_ticks(count * (1'000 / kPicosecondsPerTick));
}
constexpr Duration microseconds(int64_t count) { return nanoseconds(count * 1'000); }
constexpr Duration milliseconds(int64_t count) { return nanoseconds(count * 1'000'000); }
constexpr Duration seconds(int64_t count) { return nanoseconds(count * kNanosecondsPerSecond); }
static_assert(nanoseconds(1).ticks() == 100);

/// Returns whole nanoseconds, rounded toward zero.
constexpr int64_t in_nanoseconds(Duration d) { return d.ticks() / (1'000 / kPicosecondsPerTick); }
/// Returns whole microseconds or milliseconds, rounded likewise.
constexpr int64_t in_microseconds(Duration d) { return in_nanoseconds(d) / 1'000; }
constexpr int64_t in_milliseconds(Duration d) { return in_nanoseconds(d) / 1'000'000; }
constexpr double in_seconds(Duration d) { return static_cast<double>(d.ticks()) / 1e11; }
/// Returns the Duration of `count` seconds, for configuration and reports, not for hot paths.
constexpr Duration from_seconds(double count) {
  return Duration::from_ticks(static_cast<int64_t>(count * 1e11));
}

/// A point in time.
class Instant {
 public:
  constexpr Instant() = default;
  /// The point `since_start` after the clock's start.
  explicit constexpr Instant(Duration since_start) : since_start_(since_start) {}
  [[nodiscard]] constexpr Duration since_start() const { return since_start_; }
  /// Returns a point later than all others: "no deadline".
  static constexpr Instant never() { return Instant(Duration::from_ticks(INT64_MAX)); }

  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Duration operator-(Instant a, Instant b) {
    return a.since_start_ - b.since_start_;
  }
  friend constexpr Instant operator+(Instant a, Duration b) { return Instant(a.since_start_ + b); }
  friend constexpr Instant operator-(Instant a, Duration b) { return Instant(a.since_start_ - b); }

 private:
  Duration since_start_;
};

}  // namespace tributary
