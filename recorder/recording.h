// SPDX-License-Identifier: Apache-2.0
/// @file
/// A recording as it was read from a file.
///
/// Model:   read_recording() keeps everything that is readable. A file that ends early, or a
///          section that is damaged, gives a recording with a `problem`.
/// Bounds:  Memory grows with the bytes that are there, never with a count that they state.
/// Errors:  One line if the bytes are no recording, or of another version.
/// Threads: Plain values.
/// Tests:   tests/recorder/recording_test.cc, tests/fuzz/recording.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "recorder/format.h"

namespace tributary::recorder {

/// Largest file that read_recording_file() takes: 256 rings of a million events would be 8 GB.
inline constexpr uint64_t kFileBytesMax = uint64_t{1} << 30;

/// The events of one writer.
struct Section {
  uint32_t track = 0;     ///< See SectionHeader.
  uint64_t recorded = 0;  ///< Events from the recorder's start to the beginning of the copy.
  uint64_t lost = 0;      ///< Recorded events that were overwritten before or during the copy.
  uint64_t left_out = 0;  ///< Events that were not recorded, to keep the others.
  uint64_t damaged = 0;   ///< Entries of this file that are no event.
  std::vector<Event> events{};  ///< In the order in which they were put; open runs last.
};

struct Recording {
  std::string path{};  ///< Path of the file; empty: from memory.
  FileHeader header;
  std::string host{};
  std::string name{};  ///< Name of the server; empty: a worker's.
  std::string boot{};
  std::vector<Label> labels{};
  std::vector<Section> sections{};
  std::string problem{};  ///< Reason why a part is missing; empty: the file is whole.

  /// Returns "server rack1", or "rank 3".
  [[nodiscard]] std::string title() const;
  /// Returns "core 0", "channel 2" or "watch".
  [[nodiscard]] std::string track_of(const Section& section) const;
  /// Returns the text of an event's detail; its number if the file has no text.
  [[nodiscard]] std::string detail_of(const Event& event) const;
  [[nodiscard]] uint64_t event_count() const;
  [[nodiscard]] uint64_t lost() const;
  [[nodiscard]] uint64_t left_out() const;
};

[[nodiscard]] Result<Recording> read_recording(std::span<const std::byte> bytes);
[[nodiscard]] Result<Recording> read_recording_file(const std::string& path);

}  // namespace tributary::recorder
