// SPDX-License-Identifier: Apache-2.0
/// @file
/// Notes of the packets that a program has read in advance to prefetch their records. The live
/// machine's threads use the notes instead of reading the packets again.
///
/// Shapes:  One note for each of at most kNotesMax packets, in their order.
/// Threads: Owned by one core.
/// Tests:   tests/apps/burst_notes_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "engine/packet.h"

namespace tributary::apps {

/// The packets that a program prefetches for at once: enough to hide the latency of the memory, and
/// so few that what they prefetch stays in a first-level cache. Source: `tributary bench programs`.
inline constexpr uint32_t kNotesMax = 32;

template <class Note>
class BurstNotes {
 public:
  /// Forgets all notes.
  void clear() { count_ = next_ = 0; }
  /// Adds a blank note of the packet that begins at `packet`. @pre Fewer than kNotesMax notes.
  Note& add(const std::byte* packet) {
    TRIB_ASSERT(count_ < kNotesMax);
    packets_[count_] = packet;
    return notes_[count_++] = Note();
  }
  /// Returns the notes that next() has not returned.
  [[nodiscard]] uint32_t unused() const { return count_ - next_; }
  [[nodiscard]] std::span<const Note> all() const { return std::span(notes_).first(count_); }

  /// Returns the next note if it is of the packet that begins at `packet`, else null. In the order
  /// of add(), each packet gets its note once.
  [[nodiscard]] const Note* next(const std::byte* packet) {
    if (next_ == count_ || packets_[next_] != packet) return nullptr;
    return &notes_[next_++];
  }

 private:
  uint32_t count_ = 0;
  uint32_t next_ = 0;
  std::array<const std::byte*, kNotesMax> packets_{};
  std::array<Note, kNotesMax> notes_{};
};

/// Prefetches the records of the packets that a program will process next: first the places of all
/// of them in the index, then all records, so that the latencies overlap.
/// @param read   read(packet, note) reads a packet into its blank note. @return whether it has a
///               record to prefetch.
/// @param index  index(note) prefetches the place in the index.
/// @param record record(note) prefetches the record.
template <class Note, class Read, class Index, class Record>
void prefetch_burst(BurstNotes<Note>& notes, std::span<const engine::Packet> burst, Read&& read,
                    Index&& index, Record&& record) {
  std::array<bool, kNotesMax> has_record;
  uint32_t count = 0;
  notes.clear();
  for (const engine::Packet& packet : burst) {
    Note& note = notes.add(packet.data);
    has_record[count] = read(packet, note);
    if (has_record[count]) index(note);
    count++;
  }
  for (uint32_t i = 0; i < count; i++) {
    if (has_record[i]) record(notes.all()[i]);
  }
}

}  // namespace tributary::apps
