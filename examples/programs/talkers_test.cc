// SPDX-License-Identifier: Apache-2.0
// Method: packets of a few sources as threads of the suspending machine, in thousands of random
// orders. Every packet must be in the counter of its source.
#include "talkers.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/programs/interleaved_run.h"
#include "tests/support/seed.h"

namespace talkers {
namespace {

namespace trib = tributary::testing;

trib::Frame frame_from(uint32_t source) {
  trib::Frame frame(60);
  wire::MutableView<EthernetHeader>(frame.data()).set<EthernetHeader::EtherType>(0x0800);
  wire::MutableView<Ipv4Header> ip(frame.data() + EthernetHeader::kBytes);
  ip.set<Ipv4Header::SourceAddress>(source);
  return frame;
}

TEST(Talkers, CountEveryPacketUnderEveryInterleaving) {
  const uint64_t seed = trib::seed_from_env();
  SCOPED_TRACE(trib::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t round = 0; round < 1'000; round++) {
    std::vector<trib::Frame> frames;
    std::map<uint32_t, uint64_t> sent;
    for (uint32_t i = 0; i < 50; i++) {
      const uint32_t source = 1 + prng.below(4);
      frames.push_back(frame_from(source));
      sent[source]++;
    }
    const auto program = trib::make_program<Talkers>("sources-max=4");
    ASSERT_EQ(trib::run_interleaved(**program, frames, prng.any_u64()).size(), frames.size());
    Talkers::Store& store = (*program)->state().store;
    for (const auto& [source, packets] : sent) {
      ASSERT_NE(store.peek(source), nullptr);
      ASSERT_EQ(store.peek(source)->packets, packets);
      ASSERT_EQ(store.peek(source)->bytes, 60 * packets);
    }
  }
}

TEST(Talkers, CountRefusedSourcesAndPacketsWithoutAnAddress) {
  const auto program = trib::make_program<Talkers>("sources-max=1");
  const std::vector<trib::Frame> frames{trib::Frame(10), trib::Frame(60), frame_from(1)};
  ASSERT_EQ(trib::run_interleaved(**program, frames, 1).size(), frames.size());
  // One of the two addresses, 0 and 1, has the record. The packets of the other one are refused.
  const uint64_t refused = (*program)->details()["refused"];
  EXPECT_GT(refused, 0U);
  EXPECT_EQ(refused + (*program)->state().store.at(0).packets, frames.size());
}

}  // namespace
}  // namespace talkers
