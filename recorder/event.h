// SPDX-License-Identifier: Apache-2.0
/// @file
/// One event of the flight recorder, as it lies in a ring and in a file: 32 bytes, four words.
///
/// Model:   An event about blocks covers a run of `count` blocks with consecutive numbers. The
///          kinds and their numbers are part of the file format: append, never renumber.
/// Units:   Times in nanoseconds since the start of the recording process.
/// Threads: Plain values.
/// Tests:   tests/recorder/writer_test.cc, tests/recorder/recording_test.cc
#pragma once

#include <array>
#include <cstdint>

namespace tributary::recorder {

enum class Kind : uint8_t {
  kNone = 0,
  // Runs of blocks. The server's:
  kArrived = 1,    ///< Contributions of a rank were added.
  kCompleted = 2,  ///< Results with every expected contribution were sent.
  kDegraded = 3,   ///< Results without some contributions were sent.
  kSentUp = 4,     ///< Partial sums went to the upper aggregator.
  kTimedOut = 5,   ///< Blocks aged out without the rank.
  // The worker's:
  kSent = 6,             ///< Contributions were sent for the first time.
  kResent = 7,           ///< Contributions were sent again.
  kProbed = 8,           ///< Questions about blocks were sent.
  kResult = 9,           ///< Results with every contribution came.
  kDegradedResult = 10,  ///< Results without some contributions came.
  // Single events.
  kRefused = 16,     ///< A packet; `detail` has the outcome, Domain::kOutcome.
  kRankJoined = 17,  ///< From here on, if not is_wait(): `detail` is a Domain::kReason or 0.
  kRankWithdrawn = 18,
  kJoinRefused = 19,
  kSessionStarted = 20,  ///< `value`: sources.
  kRankLeft = 21,
  kSessionEnded = 22,  ///< At a worker, `detail` has a Domain::kStatus.
  kStraggler = 23,     ///< The first block of a period that aged out without the rank.
  kPermanent = 24,
  kReturned = 25,
  kUpstreamJoined = 26,
  kUpstreamRefused = 27,
  kUpstreamLost = 28,
  kNoticed = 29,  ///< The worker has received a notice.
  /// A block waits for the rank; `value`: milliseconds since its last contribution.
  kStalled = 30,
  // A rank is silent; `value`: for how many milliseconds.
  kSilenceWaited = 31,    ///< The others wait for it.
  kSilenceExcluded = 32,  ///< The others go on without it.
  kSilenceEnded = 33,     ///< The sources that wait for it end.
  kResumed = 34,
  kUpstreamSilent = 35,  ///< The upper aggregator does not answer; `value`: likewise.
  kUpstreamHeard = 36,
};

/// Kinds below this number are runs of blocks.
inline constexpr uint32_t kRunKinds = 11;
/// Most blocks of a run.
inline constexpr uint32_t kRunBlocksMax = 4096;
/// The event is not about one rank.
inline constexpr uint16_t kNoRank = 0xffff;

/// The meaning of `detail`.
enum class Domain : uint8_t { kNone = 0, kOutcome = 1, kReason = 2, kStatus = 3 };

struct Event {
  int64_t at_ns = 0;
  Kind kind = Kind::kNone;
  uint8_t detail = 0;
  uint16_t job = 0;
  uint16_t rank = kNoRank;
  bool open =
      false;  ///< The first block of a run that had not ended when the recording was written.
  uint32_t block = 0;
  uint32_t count = 0;  ///< Blocks; 0: the event is not about a block.
  uint64_t value = 0;
};

/// An event as four words.
using Words = std::array<uint64_t, 4>;

[[nodiscard]] constexpr Words to_words(const Event& event) {
  return {static_cast<uint64_t>(event.at_ns),
          uint64_t{static_cast<uint8_t>(event.kind)} | uint64_t{event.detail} << 8 |
              uint64_t{event.job} << 16 | uint64_t{event.rank} << 32 |
              uint64_t{event.open ? 1U : 0U} << 48,
          uint64_t{event.block} | uint64_t{event.count} << 32, event.value};
}

[[nodiscard]] constexpr Event to_event(const Words& words) {
  return {.at_ns = static_cast<int64_t>(words[0]),
          .kind = static_cast<Kind>(words[1] & 0xff),
          .detail = static_cast<uint8_t>(words[1] >> 8),
          .job = static_cast<uint16_t>(words[1] >> 16),
          .rank = static_cast<uint16_t>(words[1] >> 32),
          .open = (words[1] >> 48 & 1) != 0,
          .block = static_cast<uint32_t>(words[2]),
          .count = static_cast<uint32_t>(words[2] >> 32),
          .value = words[3]};
}

/// Returns the name of a kind, as in "arrived"; null for a number that is not a kind.
[[nodiscard]] const char* name_of(Kind kind);
/// Tells whether an event is the result of its blocks.
[[nodiscard]] bool ends_blocks(Kind kind);
/// Tells whether an event's `value` is a wait in milliseconds.
[[nodiscard]] bool is_wait(Kind kind);

/// Returns the meaning of an event's `detail`.
/// @param of_worker The recording is a worker's.
[[nodiscard]] Domain domain_of(Kind kind, bool of_worker);

}  // namespace tributary::recorder
