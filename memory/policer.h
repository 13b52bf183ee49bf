// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Policer: a two-rate three-colour marker, one of the Shared Memory System's read-modify-write
/// operations (Trio paper §2.3). Trio's own marker is not published; this is the standard one.
///
/// Model:   RFC 2698, colour-blind. Two token buckets start full; the committed one fills at the
///          committed rate (CIR) up to the committed burst (CBS), the peak one at PIR up to PBS.
/// Units:   1 token = 1/(8e11) byte, the amount that 1 bit/s earns in one tick of 10 ps. A refill
///          is one integer product, so it never rounds and the packet path never divides.
/// Shapes:  A trivially copyable value of 112 bytes that may lie in shared memory.
/// Threads: Owned by the owner of its location (see memory/rmw.h).
/// Errors:  create() refuses values that the RFC does not allow. meter() always answers.
/// Tests:   tests/memory/policer_test.cc
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/result.h"
#include "base/time.h"

namespace tributary::memory {

/// The policer's verdict on a packet.
enum class Colour : uint8_t {
  kGreen,   ///< Within the committed rate.
  kYellow,  ///< Above the committed rate, within the peak rate.
  kRed,     ///< Above the peak rate. Takes no tokens.
};

/// A data rate.
class BitRate {
 public:
  constexpr BitRate() = default;
  [[nodiscard]] static constexpr BitRate bits_per_second(uint64_t count) { return BitRate(count); }
  [[nodiscard]] constexpr uint64_t in_bits_per_second() const { return bits_per_second_; }
  friend constexpr auto operator<=>(BitRate, BitRate) = default;

 private:
  explicit constexpr BitRate(uint64_t count) : bits_per_second_(count) {}
  uint64_t bits_per_second_ = 0;
};

/// The highest rate that a Policer accepts. The bounds in class Policer rely on it.
inline constexpr BitRate kPolicerRateMax = BitRate::bits_per_second(1'000'000'000'000);

class Policer {
 public:
  struct Config {
    BitRate committed_rate;          ///< CIR.
    uint32_t committed_burst_bytes;  ///< CBS. A longer packet is never green.
    BitRate peak_rate;               ///< PIR, not below CIR.
    uint32_t peak_burst_bytes;       ///< PBS. A longer packet is always red.
  };

  /// Refuses a committed rate above the peak rate, a peak rate above kPolicerRateMax and a burst of
  /// 0 bytes. Source: RFC 2698 §2.
  [[nodiscard]] static Result<Policer> create(const Config& config);

  /// Colours a packet of `size_bytes` and takes its tokens. Source: RFC 2698 §3.
  ///
  /// @param now If it is earlier than a previous call's, no time has passed. So cores that read
  ///            their clocks at different moments may share a policer.
  Colour meter(Instant now, uint32_t size_bytes);

  /// Return the tokens in the two buckets as whole bytes, after the last meter(). For reports and
  /// tests.
  [[nodiscard]] uint32_t committed_bytes() const;
  [[nodiscard]] uint32_t peak_bytes() const;

 private:
  __extension__ using Tokens = unsigned __int128;  ///< Units of 1/kTokensPerByte byte.

  /// One tick at 1 bit/s earns 1e-11 bit; a byte has 8 bits.
  static constexpr uint64_t kTokensPerByte = 800'000'000'000;
  static_assert(8 * (1'000'000'000'000 / kPicosecondsPerTick) == kTokensPerByte);
  // No overflow: a bucket holds at most 2^32 * 8e11 < 2^72 tokens, and the longest gap of 2^63
  // ticks at 1 Tbit/s (below 2^40) adds less than 2^103.

  struct Bucket {
    Tokens tokens = 0;
    Tokens tokens_max = 0;
    uint64_t tokens_per_tick = 0;  ///< The rate in bit/s.

    void refill(uint64_t ticks);
    [[nodiscard]] bool holds(Tokens wanted) const { return tokens >= wanted; }
  };
  static Bucket full_bucket(BitRate rate, uint32_t burst_bytes);

  Bucket committed_;
  Bucket peak_;
  Instant refilled_at_;
};
static_assert(std::is_trivially_copyable_v<Policer> && sizeof(Policer) == 112);

}  // namespace tributary::memory
