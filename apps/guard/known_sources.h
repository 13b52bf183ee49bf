// SPDX-License-Identifier: Apache-2.0
/// @file
/// Known sources: a filter of (source, destination) pairs, in fixed memory however many sources
/// there are, and the open TCP handshakes from which sources become known at once.
///
/// Model:   KnownSources is a blocked Bloom filter (Putze, Sanders, Singler, WEA 2007) in two
///          generations; rotate() forgets silent pairs. A mark is three bits of a pair's word. That
///          of a handshake counts for all packet kinds, that of calm traffic for its kind. A word
///          also has a candidate: a pair and kind, and its first packet's time. In Handshakes, a
///          later SYN in the same place replaces an earlier one.
/// Threads: Owned by one core. Each call is one XTXN.
/// Memory:  Shared memory of the caller.
/// Tests:   tests/apps/guard/known_sources_test.cc
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "apps/guard/packet_facts.h"
#include "base/assert.h"
#include "base/time.h"

namespace tributary::guard {

/// Returns a 64-bit hash of `bytes`, whose size is a multiple of 8. Without the seed a sender
/// cannot choose values with equal hashes.
[[nodiscard]] inline uint64_t seeded_hash(std::span<const uint8_t> bytes, uint64_t seed) {
  uint64_t hash = seed;
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    hash = (hash ^ word) + 0x9e3779b97f4a7c15ULL;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ULL;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebULL;
    hash ^= hash >> 31;
  }
  return hash;
}

class KnownSources {
 public:
  /// Both generations and a candidate side by side, so one XTXN reads all of them.
  struct alignas(32) Word {
    uint64_t fresh;
    uint64_t settled;
    uint64_t candidate;    ///< Its Place::tag; 0: none.
    Instant candidate_at;  ///< Its first packet.
  };
  static_assert(sizeof(Word) == 32);
  /// The place of a pair and packet kind, and the value that names them as the candidate there.
  struct Place {
    Word* word = nullptr;
    uint64_t handshake = 0;  ///< The mark of a completed handshake.
    uint64_t calm = 0;       ///< The mark of calm traffic of the kind. SYNs have the other mark.
    uint64_t tag = 0;
  };

  /// @param words Zeroed; a power of two of them.
  KnownSources(std::span<Word> words, uint64_t seed) : words_(words), seed_(seed) {
    TRIB_ASSERT(std::has_single_bit(words.size()));
  }

  [[nodiscard]] Place place_of(const Address& source, const Address& destination,
                               PacketKind kind) const {
    const uint64_t hash = seeded_hash(destination, seeded_hash(source, seed_));
    const uint64_t of_kind = (hash + static_cast<uint64_t>(kind) + 1) * 0x9e3779b97f4a7c15ULL;
    const uint64_t handshake = bits_of(hash);
    const uint64_t calm = kind == PacketKind::kTcpSyn ? handshake : bits_of(of_kind);
    return {&words_[hash & (words_.size() - 1)], handshake, calm, of_kind | 1};
  }

  /// Tells whether the pair has completed a handshake.
  [[nodiscard]] static bool is_proven(const Place& place) {
    return (place.word->settled & place.handshake) == place.handshake;
  }
  /// Tells whether the pair is known for packets of the place's kind.
  [[nodiscard]] static bool is_known(const Place& place) {
    return is_proven(place) || (place.word->settled & place.calm) == place.calm;
  }
  /// Returns is_known(), and keeps the marks of a known pair for another generation.
  static bool look(const Place& place) {
    const uint64_t marks = settled_marks(place);
    place.word->fresh |= marks;
    return marks != 0;
  }
  /// Keeps the settled marks of a pair for another generation.
  static void mark_fresh(const Place& place) { place.word->fresh |= settled_marks(place); }
  /// Makes the pair known for packets of the place's kind.
  static void mark_settled(const Place& place) { mark(place, place.calm); }
  /// Makes the pair known for packets of all kinds.
  static void mark_proven(const Place& place) { mark(place, place.handshake); }
  /// Returns when the pair became a candidate, or nothing.
  [[nodiscard]] static std::optional<Instant> candidate_at(const Place& place) {
    if (place.word->candidate != place.tag) return std::nullopt;
    return place.word->candidate_at;
  }
  /// Makes the pair a candidate since `now`. Another candidate that is younger than `settle_time`
  /// stays instead, so that each of two in one word gets its turn.
  static void nominate(const Place& place, Duration settle_time, Instant now) {
    Word& word = *place.word;
    const bool is_free = word.candidate == 0 || word.candidate == place.tag;
    if (!is_free && now - word.candidate_at < settle_time) return;
    word.candidate = place.tag;
    word.candidate_at = now;
  }
  /// Settles the fresh marks of words [begin, end) and forgets the older ones.
  void rotate(uint32_t begin, uint32_t end) {
    for (Word& word : words_.subspan(begin, end - begin)) {
      word.settled = std::exchange(word.fresh, 0);
    }
  }
  /// Returns the share of the settled bits that are set. Reads all of them; for reports. A pair
  /// that nobody marked is known with up to about twice the third power of this.
  [[nodiscard]] double fill() const {
    uint64_t bits = 0;
    for (const Word& word : words_) bits += static_cast<uint64_t>(std::popcount(word.settled));
    return static_cast<double>(bits) / (64.0 * static_cast<double>(words_.size()));
  }
  [[nodiscard]] const Word* words() const { return words_.data(); }

 private:
  /// Returns three bits, chosen by the upper bits of a hash.
  [[nodiscard]] static uint64_t bits_of(uint64_t hash) {
    return uint64_t{1} << (hash >> 58) | uint64_t{1} << (hash >> 52 & 63) |
           uint64_t{1} << (hash >> 46 & 63);
  }
  /// Returns the bits of those of the place's marks that are settled.
  [[nodiscard]] static uint64_t settled_marks(const Place& place) {
    const uint64_t settled = place.word->settled;
    const uint64_t handshake = (settled & place.handshake) == place.handshake ? place.handshake : 0;
    const uint64_t calm = (settled & place.calm) == place.calm ? place.calm : 0;
    return handshake | calm;
  }
  static void mark(const Place& place, uint64_t bits) {
    place.word->fresh |= bits;
    place.word->settled |= bits;
    if (place.word->candidate == place.tag) place.word->candidate = 0;
  }

  std::span<Word> words_;
  uint64_t seed_;
};

class Handshakes {
 public:
  /// A connection's word, and the value that identifies it there.
  struct Place {
    uint64_t* word = nullptr;
    uint32_t tag = 0;
  };

  /// @param words Zeroed; a power of two of them, at most 2^28.
  Handshakes(std::span<uint64_t> words, Duration longest, uint64_t seed)
      : words_(words), longest_(stamp_of(Instant() + longest) + 2), seed_(~seed) {
    TRIB_ASSERT(std::has_single_bit(words.size()));
  }

  [[nodiscard]] Place place_of(const PacketFacts& facts) const {
    const uint64_t ports = uint64_t{facts.source_port} << 16 | facts.destination_port;
    const uint64_t hash =
        seeded_hash(facts.destination, seeded_hash(facts.source, seed_ ^ ports * 0x9e3779b1U));
    // A tag is never 0, so an empty word matches none.
    return {&words_[hash & (words_.size() - 1)], static_cast<uint32_t>(hash >> 32) | 1};
  }

  /// The result of complete().
  struct Completion {
    bool done = false;     ///< The segment is the first after its connection's SYN.
    bool counted = false;  ///< As given to open().
  };

  /// Records a SYN. @param counted The SYN counts against its destination.
  static void open(const Place& place, bool counted, Instant now) {
    *place.word = uint64_t{place.tag} << 32 | stamp_of(now) | (counted ? 1 : 0);
  }
  /// Looks for a recent SYN of the segment's connection, and removes it.
  Completion complete(const Place& place, Instant now) const {
    if (!is_of(place, *place.word)) return {};
    return completion_of(place, std::exchange(*place.word, 0), now);
  }
  /// Tells whether a word has a SYN of the place's connection.
  [[nodiscard]] static bool is_of(const Place& place, uint64_t word) {
    return word >> 32 == place.tag;
  }
  /// Returns the result of complete() for a word that has been taken from the place.
  [[nodiscard]] Completion completion_of(const Place& place, uint64_t word, Instant now) const {
    if (!is_of(place, word)) return {};
    const uint32_t age = stamp_of(now) - (static_cast<uint32_t>(word) & ~1U);
    return {.done = age <= longest_, .counted = (word & 1) != 0};
  }

 private:
  /// Time in units of 2^27 ticks, 1.34 ms, rounded down to an even number: the lowest bit is
  /// `counted`. Differences are right for 66 days.
  static uint32_t stamp_of(Instant now) {
    return static_cast<uint32_t>(static_cast<uint64_t>(now.since_start().ticks()) >> 27) & ~1U;
  }

  std::span<uint64_t> words_;
  uint32_t longest_;
  uint64_t seed_;
};

}  // namespace tributary::guard
