// SPDX-License-Identifier: Apache-2.0
// Method: fixed values, which detect a compiler that computes others. Then every byte, its place
// and the number of bytes must affect the hash.
#include "net/digest.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tributary::net {
namespace {

std::vector<std::byte> counted(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; i++) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

TEST(Digest, DigestIsTheSameOnEveryCompiler) {
  EXPECT_EQ(hash_chain(0, kHashSecret), 0u);
  EXPECT_EQ(hash_chain(1, kHashSecret), kHashFactor);  // 1 x factor: no upper half.
  EXPECT_EQ(hash_mix(1), 0x5692161d100b05e5ULL);
  EXPECT_EQ(hash_bytes(counted(0)), 5543006096486991126u);
  EXPECT_EQ(hash_bytes(counted(100)), 13726366057840849275u);
}

TEST(Digest, EveryBitAndTheLengthChangeTheDigest) {
  for (const size_t size : {1, 7, 8, 31, 32, 33, 64, 100}) {
    std::vector<std::byte> bytes(size);
    std::set<uint64_t> seen{hash_bytes(bytes)};
    for (size_t bit = 0; bit < size * 8; bit++) {
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_TRUE(seen.insert(hash_bytes(bytes)).second) << size << " bytes, bit " << bit;
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
    bytes.push_back(std::byte{0});
    EXPECT_TRUE(seen.insert(hash_bytes(bytes)).second) << size;
  }
}

}  // namespace
}  // namespace tributary::net
