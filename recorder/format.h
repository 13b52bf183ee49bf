// SPDX-License-Identifier: Apache-2.0
/// @file
/// The bytes of a recording: a file header, labels, and for each writer a section of its events.
///
///   FileHeader | Label × label_count | Section…
///   Section: SectionHeader | Words × count | SectionEnd | Words × runs
///
/// Units:   Little-endian integers; times in nanoseconds.
/// Model:   A section is written while its writer goes on. SectionEnd has the number of events that
///          were put by then, from which the reader knows which copies are whole (ring.h).
/// Threads: Plain values.
/// Tests:   tests/recorder/recording_test.cc
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "recorder/event.h"

namespace tributary::recorder {

static_assert(std::endian::native == std::endian::little, "the file has the host's byte order");

inline constexpr std::array<char, 8> kFileMagic{'T', 'R', 'I', 'B', 'R', 'E', 'C', '\n'};
inline constexpr std::array<char, 4> kSectionMagic{'R', 'I', 'N', 'G'};
inline constexpr uint32_t kFormatVersion = 1;
/// Most labels and sections of a file.
inline constexpr uint32_t kLabelsMax = 1024;
inline constexpr uint32_t kSectionsMax = 256;
/// Most events in a ring, and so in a section.
inline constexpr uint32_t kEventsMax = 1U << 20;

/// The track of the thread that watches a server.
inline constexpr uint32_t kWatchTrack = UINT32_MAX;

/// The reason why a recording was written. Part of the file format: append, never renumber.
enum class Cause : uint8_t {
  kCommand,
  kSignal,
  kStall,
  kAbnormalEnd,
  kEnd,
  kFailure,
  kSilence,  ///< A silent rank has ended a session.
};
[[nodiscard]] const char* name_of(Cause cause);

/// Offset of the time namespace's number in FileHeader::boot, behind the 36 letters of the
/// boot_id and their zero. It is 0 in the machine's own namespace.
inline constexpr uint32_t kTimeNamespaceAt = 37;

struct FileHeader {
  std::array<char, 8> magic = kFileMagic;
  uint32_t version = kFormatVersion;
  uint32_t label_count = 0;
  uint32_t section_count = 0;
  uint32_t pid = 0;
  Cause cause = Cause::kCommand;
  uint8_t is_worker = 0;
  uint16_t rank = kNoRank;  ///< Rank of a worker.
  uint32_t signal = 0;      ///< Signal that caused an abnormal end.
  int64_t at_ns = 0;        ///< Time of writing, as in the events.
  /// Added to the time of an event: CLOCK_REALTIME, and CLOCK_MONOTONIC of the machine.
  int64_t to_realtime_ns = 0;
  int64_t to_monotonic_ns = 0;
  /// The kernel's boot_id and the time namespace: recordings with equal bytes have one clock.
  std::array<char, 40> boot{};
  std::array<char, 64> host{};
  std::array<char, 64> name{};  ///< Name of the server, or empty.
};
static_assert(sizeof(FileHeader) == 224 && std::is_trivially_copyable_v<FileHeader>);

/// The text of a number in Event::detail.
struct Label {
  Domain domain = Domain::kNone;
  uint8_t code = 0;
  std::array<char, 30> text{};
};
static_assert(sizeof(Label) == 32 && std::is_trivially_copyable_v<Label>);

struct SectionHeader {
  std::array<char, 4> magic = kSectionMagic;
  uint32_t track = 0;     ///< Core of a server, channel of a worker, or kWatchTrack.
  uint32_t capacity = 0;  ///< Events in the ring.
  uint32_t count = 0;     ///< Events that follow.
  uint64_t first = 0;     ///< Number of the first of them, counted from the start.
};
static_assert(sizeof(SectionHeader) == 24 && std::is_trivially_copyable_v<SectionHeader>);

struct SectionEnd {
  uint64_t put_count = 0;  ///< Events put by the end of the copy.
  uint64_t left_out = 0;   ///< See Writer::leave_out().
};
static_assert(sizeof(SectionEnd) == 16 && std::is_trivially_copyable_v<SectionEnd>);

/// Copies text into a field of the header, cut to its size and ended by a zero.
template <size_t kSize>
void put_text(std::array<char, kSize>& field, const char* text) {
  size_t i = 0;
  for (; i + 1 < kSize && text[i] != '\0'; i++) field[i] = text[i];
  for (; i < kSize; i++) field[i] = '\0';
}

}  // namespace tributary::recorder
