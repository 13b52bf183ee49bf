// SPDX-License-Identifier: Apache-2.0
// Method: random IPv4 headers with a right checksum. Afterwards their checksum is right again, the
// time to live is smaller, and every other byte is as before.
#include "hops.h"

#include <gtest/gtest.h>

#include "tests/programs/interleaved_run.h"
#include "tests/support/seed.h"

namespace hops {
namespace {

namespace trib = tributary::testing;

constexpr uint32_t kTimeToLiveAt = 22;
constexpr uint32_t kChecksumAt = 24;

/// Returns the sum of a header's 16-bit words, which is 0xffff if its checksum is right (RFC 791).
uint32_t sum_of(const trib::Frame& frame) {
  uint32_t sum = 0;
  for (uint32_t i = EthernetHeader::kBytes; i < EthernetHeader::kBytes + Ipv4Header::kBytes; i += 2)
    sum += std::to_integer<uint32_t>(frame[i]) << 8 | std::to_integer<uint32_t>(frame[i + 1]);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

trib::Frame frame_with(Prng& prng, uint32_t time_to_live) {
  trib::Frame frame(60);
  for (std::byte& byte : frame) byte = static_cast<std::byte>(prng.below(256));
  wire::MutableView<EthernetHeader>(frame.data()).set<EthernetHeader::EtherType>(0x0800);
  wire::MutableView<Ipv4Header> ip(frame.data() + EthernetHeader::kBytes);
  ip.set<Ipv4Header::TimeToLive>(time_to_live);
  ip.set<Ipv4Header::HeaderChecksum>(0);
  ip.set<Ipv4Header::HeaderChecksum>(~sum_of(frame) & 0xffff);
  return frame;
}

TEST(Hops, TheExampleOfRfc1624) {
  // §4: a word changes from 0x5555 to 0x3285 under the checksum 0xdd2f, which becomes 0x0000 with
  // equation 3. Here only the upper byte changes: from 0x55 to 0x32, 35 hops.
  EXPECT_EQ(checksum_after({.time_to_live = 0x55, .protocol = 0x55, .checksum = 0xdd2f}, 35),
            0x0030U);
}

TEST(Hops, ChangeTheTimeToLiveAndTheChecksumAlone) {
  const uint64_t seed = trib::seed_from_env();
  SCOPED_TRACE(trib::replay_hint(seed));
  Prng prng(seed);
  for (const uint32_t count : {1U, 7U}) {
    std::vector<trib::Frame> frames;
    for (uint32_t i = 0; i < 2'000; i++) {
      frames.push_back(frame_with(prng, count + 1 + prng.below(255 - count)));
      ASSERT_EQ(sum_of(frames.back()), 0xffffU);
    }
    const auto program = trib::make_program<Hops>("count=" + std::to_string(count));
    std::vector<trib::Frame> passed = trib::run_interleaved(**program, frames, prng.any_u64());
    ASSERT_EQ(passed.size(), frames.size());
    for (trib::Frame& frame : passed) {
      ASSERT_EQ(sum_of(frame), 0xffffU);
      // Undo the changes: the frame is one of those that were sent.
      frame[kTimeToLiveAt] =
          static_cast<std::byte>(std::to_integer<uint32_t>(frame[kTimeToLiveAt]) + count);
      const auto sent = std::find_if(frames.begin(), frames.end(), [&](trib::Frame given) {
        given[kChecksumAt] = frame[kChecksumAt];
        given[kChecksumAt + 1] = frame[kChecksumAt + 1];
        return given == frame;
      });
      ASSERT_NE(sent, frames.end());
      frames.erase(sent);
    }
  }
}

TEST(Hops, PacketsEndAndOthersPassUnchanged) {
  Prng prng(1);
  const auto program = trib::make_program<Hops>();
  const std::vector<trib::Frame> ended{frame_with(prng, 0), frame_with(prng, 1)};
  EXPECT_TRUE(trib::run_interleaved(**program, ended, 1).empty());
  trib::Frame other = frame_with(prng, 9);
  wire::MutableView<EthernetHeader>(other.data()).set<EthernetHeader::EtherType>(0x86dd);
  const std::vector<trib::Frame> others{trib::Frame(3), trib::Frame(20), other};
  const auto passed = trib::run_interleaved(**program, others, 1);
  ASSERT_EQ(passed.size(), others.size());
  for (const trib::Frame& frame : others)
    EXPECT_NE(std::find(passed.begin(), passed.end(), frame), passed.end());
}

}  // namespace
}  // namespace hops
