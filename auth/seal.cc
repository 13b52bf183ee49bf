// SPDX-License-Identifier: Apache-2.0
#include "auth/seal.h"

#include <array>
#include <cstring>

#include "base/assert.h"
#include "base/byte_order.h"
#include "base/mutant.h"

namespace tributary::auth {
namespace {

constexpr uint32_t kLaneShift = 56;
static_assert(kLanesMax <= 1U << (64 - kLaneShift));

/// Compares tags in a time that does not depend on where they differ: word by word, without a
/// branch. sodium_memcmp() compares byte by byte, which takes as long as a SipHash.
bool are_equal(const std::byte* a, const std::byte* b, size_t tag_bytes) {
  static_assert(kHeaderTagBytes % sizeof(uint64_t) == 0 && kGmacTagBytes % sizeof(uint64_t) == 0);
  uint64_t difference = 0;
  for (size_t at = 0; at < tag_bytes; at += sizeof(uint64_t)) {
    difference |= load_be<uint64_t>(a + at) ^ load_be<uint64_t>(b + at);
  }
  return difference == 0;
}

}  // namespace

Tagger::Tagger(Mode mode, const Key256& key) : mode_(mode), sip_key_(first_half(key)) {
  TRIB_ASSERT(mode != Mode::kNone);
  if (mode == Mode::kFull) gmac_.emplace(second_half(key));
}

void Tagger::tag(uint8_t sender, std::span<const std::byte> head,
                 std::span<const std::byte> payload, std::byte* tag) const {
  if (mode_ == Mode::kHeader) {
    const uint64_t hash = siphash(sip_key_, head);
    std::memcpy(tag, &hash, sizeof hash);
    return;
  }
  // The head ends with the sequence number.
  std::array<std::byte, kGmacNonceBytes> nonce{std::byte{sender}};
  std::memcpy(nonce.data() + kGmacNonceBytes - kSequenceBytes,
              head.data() + head.size() - kSequenceBytes, kSequenceBytes);
  gmac_->tag(nonce, head, payload, tag);
}

bool Tagger::matches(uint8_t sender, std::span<const std::byte> head,
                     std::span<const std::byte> payload) const {
  const size_t tagged_bytes = head.size() - tag_bytes();
  std::array<std::byte, kGmacTagBytes> expected;
  tag(sender, head.first(tagged_bytes), payload, expected.data());
  return are_equal(expected.data(), head.data() + tagged_bytes, tag_bytes());
}

Sealer::Sealer(Mode mode, const Key256& key, uint32_t lane)
    : tagger_(mode, key), sequence_(uint64_t{lane} << kLaneShift) {
  TRIB_ASSERT(lane < kLanesMax);
}

void Sealer::seal(uint8_t sender, std::span<std::byte> head, std::span<const std::byte> payload) {
  const size_t tagged_bytes = head.size() - tagger_.tag_bytes();
  sequence_++;
  store_be<uint64_t>(head.data() + tagged_bytes - kSequenceBytes, sequence_);
  tagger_.tag(sender, head.first(tagged_bytes), payload, head.data() + tagged_bytes);
}

Opener::Opener(Mode mode, const Key256& key, uint32_t senders, uint32_t lanes)
    : tagger_(mode, key), lanes_(lanes), windows_(size_t{senders} * lanes) {
  TRIB_ASSERT(lanes <= kLanesMax);
}

OpenStatus Opener::open(uint8_t sender, std::span<const std::byte> head,
                        std::span<const std::byte> payload) {
  if (!tagger_.matches(sender, head, payload) && !TRIB_MUTANT(kSealUnchecked)) {
    return OpenStatus::kForged;
  }
  const size_t tagged_bytes = head.size() - tagger_.tag_bytes();
  const auto sequence = load_be<uint64_t>(head.data() + tagged_bytes - kSequenceBytes);
  const uint64_t lane = sequence >> kLaneShift;
  constexpr uint64_t kCountMask = (uint64_t{1} << kLaneShift) - 1;
  if (lane >= lanes_ || (!windows_[sender * lanes_ + lane].accept(sequence & kCountMask) &&
                         !TRIB_MUTANT(kReplayAccepted))) {
    return OpenStatus::kReplayed;
  }
  return OpenStatus::kOpened;
}

}  // namespace tributary::auth
