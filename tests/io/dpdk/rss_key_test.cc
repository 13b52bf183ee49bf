// SPDX-License-Identifier: Apache-2.0
// Method: the Toeplitz hash, written bit by bit from Microsoft's definition and checked against its
// example, gives both directions of a flow one hash under our key, and spreads flows.
#include "io/dpdk/rss_key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/prng.h"
#include "tests/support/seed.h"

namespace tributary::io {
namespace {

using Octets = std::vector<uint8_t>;

/// For each input bit that is set, adds the 32 bits of the key that begin there.
uint32_t toeplitz(const Octets& input, const Octets& key) {
  const auto key_bit = [&](size_t at) { return key[at / 8] >> (7 - at % 8) & 1U; };
  uint32_t hash = 0;
  for (size_t bit = 0; bit < input.size() * 8; bit++) {
    if ((input[bit / 8] >> (7 - bit % 8) & 1) == 0) continue;
    for (size_t i = 0; i < 32; i++) hash ^= key_bit(bit + i) << (31 - i);
  }
  return hash;
}

/// Source and destination address, source and destination port.
Octets flow_of(const Octets& from, const Octets& to, const Octets& from_port,
               const Octets& to_port) {
  Octets all;
  for (const Octets* part : {&from, &to, &from_port, &to_port}) {
    all.insert(all.end(), part->begin(), part->end());
  }
  return all;
}

TEST(RssKey, TheTestsHashIsToeplitz) {
  // Source: Microsoft, "Verifying the RSS Hash Calculation", first row of IPv4 with TCP.
  const Octets key{0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                   0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                   0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                   0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};
  // 66.9.149.187:2794 to 161.142.100.80:1766.
  EXPECT_EQ(
      toeplitz(flow_of({66, 9, 149, 187}, {161, 142, 100, 80}, {0x0a, 0xea}, {0x06, 0xe6}), key),
      0x51ccc178U);
}

TEST(RssKey, BothDirectionsOfAFlowHaveOneHash) {
  EXPECT_EQ(symmetric_rss_key(0).size(), 40U);
  EXPECT_EQ(symmetric_rss_key(52).size(), 52U);
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  const auto random = [&prng](size_t size) {
    Octets octets(size);
    std::generate(octets.begin(), octets.end(),
                  [&] { return static_cast<uint8_t>(prng.below(256)); });
    return octets;
  };
  const Octets key = symmetric_rss_key(0);
  std::set<uint32_t> hashes;
  for (uint32_t i = 0; i < 200; i++) {
    const size_t address_bytes = i % 2 == 0 ? 4 : 16;
    const Octets a = random(address_bytes), b = random(address_bytes), p = random(2), q = random(2);
    const uint32_t hash = toeplitz(flow_of(a, b, p, q), key);
    EXPECT_EQ(toeplitz(flow_of(b, a, q, p), key), hash);
    hashes.insert(hash);
  }
  EXPECT_GT(hashes.size(), 150U);
}

}  // namespace
}  // namespace tributary::io
