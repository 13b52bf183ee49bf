// SPDX-License-Identifier: Apache-2.0
// Method: sessions on a live machine in virtual time. A buffer whose bytes read as zero is back
// with the operating system: a session leaves its sums there.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/apps/trio_ml/bed.h"

namespace tributary::trio_ml {
namespace {

constexpr uint32_t kSources = 2;
/// Buffers of more than three slices.
constexpr JobConfig kConfig{
    .id = 1, .sources = kSources, .block_cnt_max = 4096, .block_grad_max = 352};

class IdleMemory : public ::testing::Test {
 protected:
  /// Runs a session with as many blocks as the window has places, up to its end.
  void run_session(uint64_t nonce_base) {
    const std::vector<Member> members = join_all(bed_, nonce_base);
    for (uint32_t block = 0; block < kConfig.block_cnt_max; block++) {
      for (const Member& member : members) {
        bed_.deliver(member.contribution_bytes(block, {1}), worker(member.source));
        ASSERT_EQ(bed_.take().empty(), member.source + 1 < kSources);
      }
    }
    for (const Member& member : members) {
      bed_.deliver(encoded(member.message(MessageType::kLeave, 0)), worker(member.source));
    }
    static_cast<void>(bed_.take());
    ASSERT_EQ(bed_.session().number(), 0U);
  }
  /// Returns the bytes of the buffers that a session has written and that are still held.
  [[nodiscard]] uint64_t held_bytes() {
    const std::span<const std::byte> bytes = bed_.job().window.buffers();
    return bytes.size() - static_cast<uint64_t>(std::ranges::count(bytes, std::byte{0}));
  }

  Bed bed_{kConfig};
};

TEST_F(IdleMemory, IsReturnedAfterTheSession) {
  run_session(1000);
  const uint64_t used_bytes = held_bytes();
  EXPECT_GT(used_bytes, 0U);
  bed_.run_until(bed_.now() + kIdleMemoryAfter - milliseconds(1));
  EXPECT_EQ(held_bytes(), used_bytes);  // Stays for a session that follows at once.
  bed_.run_until(bed_.now() + seconds(1));
  // All but the first and the last page, which other allocations share.
  EXPECT_LE(held_bytes(), 2U * 4096);
  EXPECT_EQ(bed_.job().idle_memory_due(), Instant::never());  // So an idle core sleeps.
}

TEST_F(IdleMemory, IsReturnedInSlices) {
  run_session(1000);
  bed_.run_until(bed_.now() + kIdleMemoryAfter - milliseconds(1));
  uint64_t bytes = held_bytes();
  uint32_t steps = 0;
  for (const Instant until = bed_.now() + seconds(1); bed_.now() < until;) {
    bed_.step(until);
    const uint64_t left_bytes = held_bytes();
    EXPECT_LE(bytes - left_bytes, memory::IdlePages::kSliceBytes);
    steps += left_bytes < bytes ? 1 : 0;
    bytes = left_bytes;
  }
  EXPECT_GE(steps, 3U);
}

TEST_F(IdleMemory, StaysForASessionThatFollows) {
  run_session(1000);
  bed_.run_until(bed_.now() + kIdleMemoryAfter / 2);
  const std::vector<Member> members = join_all(bed_, 2000);
  const uint64_t used_bytes = held_bytes();
  bed_.deliver(members[0].contribution_bytes(0, {1}), worker(0));
  bed_.run_until(bed_.now() + kIdleMemoryAfter);
  EXPECT_GE(held_bytes(), used_bytes - 64);  // Other numbers may contain zeros.
}

TEST_F(IdleMemory, StaysForPlainPacketsThatFollow) {
  run_session(1000);
  bed_.contribute(0, 7, 1, {3});
  const uint64_t used_bytes = held_bytes();
  bed_.run_until(bed_.now() + kIdleMemoryAfter * 2);
  EXPECT_EQ(held_bytes(), used_bytes);
  bed_.contribute(1, 7, 1, {4});
  EXPECT_EQ(bed_.take_result(0).gradients, Values{7});
}

TEST_F(IdleMemory, ASessionOnReturnedMemoryIsExact) {
  run_session(1000);
  bed_.run_until(bed_.now() + kIdleMemoryAfter * 2);
  run_session(2000);
  EXPECT_EQ(bed_.counted(Outcome::kBlockCompleted), 2U * kConfig.block_cnt_max);
}

}  // namespace
}  // namespace tributary::trio_ml
