// SPDX-License-Identifier: Apache-2.0
/// @file
/// The flight recorder of one process: its writers, and the recording that they make together.
///
/// Model:   Every thread that records has a Writer. write() copies all of them, with the clocks and
///          the texts of numbers, so that a file can be read without this process or its version.
/// Threads: add_writer() and write() may run in any thread. write() takes no lock, allocates
///          nothing and is safe in a signal handler, even while the writers go on.
/// Errors:  write() returns false as soon as the sink refuses bytes.
/// Memory:  Writers stay until the recorder ends; at most kSectionsMax.
/// Tests:   tests/recorder/recording_test.cc
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "recorder/format.h"
#include "recorder/writer.h"

namespace tributary::recorder {

/// Takes the bytes of a recording.
class Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;
  /// @return false if the bytes cannot be stored. For a signal handler it must be safe there.
  [[nodiscard]] virtual bool put(std::span<const std::byte> bytes) = 0;
};

struct RecorderConfig {
  std::string name{};  ///< Name of the server.
  bool is_worker = false;
  uint16_t rank = kNoRank;      ///< Rank of the worker.
  uint32_t events = 1U << 15;   ///< In each ring; a power of two from 64 to kEventsMax.
  std::vector<Label> labels{};  ///< At most kLabelsMax.
};

/// Adds the text of a number to `labels`.
void add_label(std::vector<Label>& labels, Domain domain, uint8_t code, const char* text);

/// Adds the names of all codes of an enumeration behind 0.
template <class Code>
void add_labels(std::vector<Label>& labels, Domain domain, Code last) {
  for (uint32_t i = 1; i <= static_cast<uint32_t>(last); i++) {
    add_label(labels, domain, static_cast<uint8_t>(i), to_string(static_cast<Code>(i)));
  }
}

class FlightRecorder {
 public:
  explicit FlightRecorder(RecorderConfig config);

  /// Makes a writer for one thread. @param track See SectionHeader.
  /// @return null if there are kSectionsMax.
  [[nodiscard]] Writer* add_writer(uint32_t track);
  [[nodiscard]] uint32_t writer_count() const {
    return writer_count_.load(std::memory_order_acquire);  // Pairs with add_writer().
  }
  [[nodiscard]] const Writer& writer(uint32_t index) const { return *writers_[index]; }
  [[nodiscard]] const RecorderConfig& config() const { return config_; }

  /// Writes a recording. @param signal Number of the signal that ended the process; else 0.
  [[nodiscard]] bool write(Cause cause, Sink& sink, uint32_t signal = 0) const;

 private:
  [[nodiscard]] static bool write_section(const Writer& writer, Sink& sink);

  const RecorderConfig config_;
  FileHeader header_;  ///< Without the fields that write() sets.
  std::mutex mutex_;   ///< Serialises add_writer().
  std::array<std::unique_ptr<Writer>, kSectionsMax> writers_;
  std::atomic<uint32_t> writer_count_{0};
};

/// Returns a whole recording.
[[nodiscard]] std::string recording_of(const FlightRecorder& recorder, Cause cause);

}  // namespace tributary::recorder
