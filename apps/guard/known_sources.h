// SPDX-License-Identifier: Apache-2.0
/// @file
/// Known sources: a filter of (source, destination) pairs, in fixed memory however many sources
/// there are, and the open TCP handshakes from which sources become known at once.
///
/// Model:   KnownSources is a Bloom filter whose three bits of a pair lie in one word, in two
///          generations. A pair in the settled one is known; rotate() forgets silent pairs. A word
///          also holds a candidate: a pair that is not known yet, and the time of its first packet.
///          Handshakes has one word for each place: a later SYN in the same place replaces it.
/// Threads: Owned by one core. Each call is one XTXN.
/// Memory:  Shared memory of the caller.
/// Source:  Blocked Bloom filters: Putze, Sanders, Singler, WEA 2007.
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
  /// The place of a pair, and the value that identifies it as the candidate there.
  struct Place {
    Word* word = nullptr;
    uint64_t bits = 0;
    uint64_t tag = 0;
  };

  /// @param words Zeroed; a power of two of them.
  KnownSources(std::span<Word> words, uint64_t seed) : words_(words), seed_(seed) {
    TRIB_ASSERT(std::has_single_bit(words.size()));
  }

  [[nodiscard]] Place place_of(const Address& source, const Address& destination) const {
    const uint64_t hash = seeded_hash(destination, seeded_hash(source, seed_));
    const uint64_t bits = uint64_t{1} << (hash >> 58) | uint64_t{1} << (hash >> 52 & 63) |
                          uint64_t{1} << (hash >> 46 & 63);
    return {&words_[hash & (words_.size() - 1)], bits, hash | 1};
  }

  [[nodiscard]] static bool is_known(const Place& place) {
    return (place.word->settled & place.bits) == place.bits;
  }
  /// Returns whether the pair is known, and if so marks it in the fresh generation, too.
  static bool look(const Place& place) {
    const bool known = is_known(place);
    if (known) place.word->fresh |= place.bits;
    return known;
  }
  /// Keeps a known pair for another generation.
  static void mark_fresh(const Place& place) { place.word->fresh |= place.bits; }
  /// Makes the pair known.
  static void mark_settled(const Place& place) {
    place.word->fresh |= place.bits;
    place.word->settled |= place.bits;
    if (place.word->candidate == place.tag) place.word->candidate = 0;
  }
  /// Returns when the pair became a candidate, or nothing.
  [[nodiscard]] static std::optional<Instant> candidate_at(const Place& place) {
    if (place.word->candidate != place.tag) return std::nullopt;
    return place.word->candidate_at;
  }
  /// Makes the pair a candidate since `now`. Another pair's candidate that is younger than
  /// `settle_time` stays instead, so that each of two pairs in one word gets its turn.
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
  /// that nobody marked is known with about the third power of this.
  [[nodiscard]] double fill() const {
    uint64_t bits = 0;
    for (const Word& word : words_) bits += static_cast<uint64_t>(std::popcount(word.settled));
    return static_cast<double>(bits) / (64.0 * static_cast<double>(words_.size()));
  }
  [[nodiscard]] const Word* words() const { return words_.data(); }

 private:
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
