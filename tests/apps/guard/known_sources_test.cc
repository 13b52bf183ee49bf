// SPDX-License-Identifier: Apache-2.0
// Method: the life of a mark and of a handshake by hand, then random walks against std::set and
// std::map: no known pair is forgotten, and few unknown ones pass.
#include "apps/guard/known_sources.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::guard {
namespace {

constexpr PacketKind kUdp = PacketKind::kUdp;

Address address(uint32_t ipv4) {
  return {0,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          0xff,
          0xff,
          static_cast<uint8_t>(ipv4 >> 24),
          static_cast<uint8_t>(ipv4 >> 16),
          static_cast<uint8_t>(ipv4 >> 8),
          static_cast<uint8_t>(ipv4)};
}

TEST(KnownSources, PairsAreForgottenAfterASilentGeneration) {
  std::vector<KnownSources::Word> words(1024);
  KnownSources known(words, 1);
  const auto place = known.place_of(address(1), address(2), kUdp);
  EXPECT_FALSE(KnownSources::look(place));
  KnownSources::mark_fresh(place);  // It keeps the marks of known pairs only.
  known.rotate(0, 1024);
  EXPECT_FALSE(KnownSources::look(place));
  KnownSources::mark_settled(place);
  EXPECT_TRUE(KnownSources::look(place));
  EXPECT_FALSE(KnownSources::look(known.place_of(address(2), address(1), kUdp)));
  known.rotate(0, 1024);  // look() has marked it in the fresh generation.
  EXPECT_TRUE(KnownSources::look(place));
  known.rotate(0, 1024);
  known.rotate(0, 1024);  // Silent for a whole generation.
  EXPECT_FALSE(KnownSources::look(place));
}

TEST(KnownSources, SettledMarksCountAtOnce) {
  std::vector<KnownSources::Word> words(1024);
  KnownSources known(words, 1);
  const auto place = known.place_of(address(1), address(2), kUdp);
  EXPECT_EQ(known.fill(), 0.0);
  KnownSources::mark_settled(place);
  EXPECT_TRUE(KnownSources::look(place));
  EXPECT_EQ(known.fill(), std::popcount(place.calm) / 65'536.0);
}

TEST(KnownSources, CalmTrafficCountsForItsKindOnly) {
  std::vector<KnownSources::Word> words(1024);
  KnownSources known(words, 1);
  const auto place_of = [&known](PacketKind kind) {
    return known.place_of(address(1), address(2), kind);
  };
  KnownSources::mark_settled(place_of(PacketKind::kIcmp));
  EXPECT_TRUE(KnownSources::look(place_of(PacketKind::kIcmp)));
  EXPECT_FALSE(KnownSources::is_proven(place_of(PacketKind::kIcmp)));
  for (const PacketKind kind :
       {PacketKind::kTcpSyn, PacketKind::kTcp, PacketKind::kUdp, PacketKind::kOther}) {
    EXPECT_FALSE(KnownSources::look(place_of(kind))) << to_string(kind);
  }
  known.rotate(0, 1024);
  known.rotate(0, 1024);  // Packets of the other kinds have not kept the mark.
  EXPECT_FALSE(KnownSources::look(place_of(PacketKind::kIcmp)));
}

TEST(KnownSources, AHandshakeCountsForAllKinds) {
  std::vector<KnownSources::Word> words(1024);
  KnownSources known(words, 1);
  KnownSources::mark_proven(known.place_of(address(1), address(2), PacketKind::kTcp));
  for (uint32_t kind = 0; kind < kKindCount; kind++) {
    const auto place = known.place_of(address(1), address(2), static_cast<PacketKind>(kind));
    EXPECT_TRUE(KnownSources::look(place)) << kind;
    EXPECT_TRUE(KnownSources::is_proven(place)) << kind;
  }
}

TEST(KnownSources, ACandidateIsOneForItsKind) {
  std::vector<KnownSources::Word> words(1);
  KnownSources known(words, 1);
  const auto udp = known.place_of(address(1), address(2), PacketKind::kUdp);
  const auto icmp = known.place_of(address(1), address(2), PacketKind::kIcmp);
  const Instant start = Instant() + seconds(100);
  KnownSources::nominate(icmp, milliseconds(250), start);
  EXPECT_EQ(KnownSources::candidate_at(icmp), start);
  EXPECT_EQ(KnownSources::candidate_at(udp), std::nullopt);
}

TEST(KnownSources, AWordHasOneCandidate) {
  std::vector<KnownSources::Word> words(1);
  KnownSources known(words, 1);
  const auto first = known.place_of(address(1), address(2), kUdp);
  const auto second = known.place_of(address(3), address(2), kUdp);
  const Duration settle_time = milliseconds(250);
  const Instant start = Instant() + seconds(100);
  EXPECT_EQ(KnownSources::candidate_at(first), std::nullopt);
  KnownSources::nominate(first, settle_time, start);
  EXPECT_EQ(KnownSources::candidate_at(first), start);
  KnownSources::nominate(second, settle_time,
                         start + milliseconds(249));  // The first one is young.
  EXPECT_EQ(KnownSources::candidate_at(first), start);
  EXPECT_EQ(KnownSources::candidate_at(second), std::nullopt);
  KnownSources::nominate(second, settle_time, start + milliseconds(250));
  EXPECT_EQ(KnownSources::candidate_at(first), std::nullopt);
  EXPECT_EQ(KnownSources::candidate_at(second), start + milliseconds(250));
  known.rotate(0, 1);  // Leaves the candidate.
  EXPECT_EQ(KnownSources::candidate_at(second), start + milliseconds(250));
  EXPECT_FALSE(KnownSources::look(second));
  KnownSources::mark_settled(second);
  EXPECT_TRUE(KnownSources::look(second));
  EXPECT_EQ(KnownSources::candidate_at(second), std::nullopt);
}

TEST(KnownSources, RandomMarksMatchASet) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  std::vector<KnownSources::Word> words(1 << 12);
  KnownSources known(words, prng.any_u64());
  std::set<std::pair<uint32_t, uint32_t>> marked;
  for (int i = 0; i < 4'000; i++) {
    const uint32_t source = prng.any_u32();
    const uint32_t destination = prng.below(16);
    KnownSources::mark_settled(known.place_of(address(source), address(destination), kUdp));
    marked.insert({source, destination});
  }
  for (const auto& [source, destination] : marked) {
    ASSERT_TRUE(KnownSources::look(known.place_of(address(source), address(destination), kUdp)));
  }
  uint32_t wrong = 0;
  for (int i = 0; i < 100'000; i++) {
    const uint32_t source = prng.any_u32();
    if (marked.contains({source, 99})) continue;
    wrong += KnownSources::look(known.place_of(address(source), address(99), kUdp)) ? 1 : 0;
  }
  // One pair a word: on average (3 / 64)^3 = 1e-4 for each of two marks. The fuller words have
  // more: n pairs in a word, of which there is one on average, make (3 n / 64)^3, on average 5e-4.
  EXPECT_LT(wrong, 300U);
}

TEST(Handshakes, CompleteOnceAndInTime) {
  std::vector<uint64_t> words(1024);
  const Handshakes handshakes(words, seconds(3), 1);
  PacketFacts facts;
  facts.source = address(1);
  facts.destination = address(2);
  facts.source_port = 1024;
  facts.destination_port = 443;
  const Instant start = Instant() + seconds(100);
  const auto place = handshakes.place_of(facts);
  EXPECT_FALSE(handshakes.complete(place, start).done);
  Handshakes::open(place, true, start);
  const Handshakes::Completion completion = handshakes.complete(place, start + seconds(3));
  EXPECT_TRUE(completion.done && completion.counted);
  EXPECT_FALSE(handshakes.complete(place, start + seconds(3)).done);
  Handshakes::open(place, false, start);
  EXPECT_FALSE(handshakes.complete(place, start + milliseconds(3'010)).done);
  Handshakes::open(place, false, start);
  EXPECT_FALSE(handshakes.complete(place, start).counted);

  Handshakes::open(place, true, start);
  facts.source_port = 1025;
  EXPECT_FALSE(handshakes.complete(handshakes.place_of(facts), start).done);
}

TEST(Handshakes, RandomWalkMatchesMap) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  std::vector<uint64_t> words(1 << 10);
  const Handshakes handshakes(words, seconds(3), prng.any_u64());
  std::map<uint64_t*, uint32_t> open;  // The latest SYN of each place: its source.
  for (int i = 0; i < 50'000; i++) {
    PacketFacts facts;
    const uint32_t source = prng.below(3'000);
    facts.source = address(source);
    facts.destination = address(7);
    const auto place = handshakes.place_of(facts);
    if (prng.chance(0.5)) {
      Handshakes::open(place, true, Instant());
      open[place.word] = source;
    } else {
      const auto found = open.find(place.word);
      const bool expected = found != open.end() && found->second == source;
      ASSERT_EQ(handshakes.complete(place, Instant()).done, expected) << i;
      if (expected) open.erase(found);
    }
  }
}

}  // namespace
}  // namespace tributary::guard
