// SPDX-License-Identifier: Apache-2.0
// Method: packets of a few sources as threads of the suspending machine, in thousands of random
// orders, while timer threads close periods between them. A source's burst must pass, every further
// packet must be counted, and no exceeded rate may go unreported.
#include "limiter.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/programs/interleaved_run.h"
#include "tests/support/seed.h"

namespace limiter {
namespace {

namespace trib = tributary::testing;

constexpr uint32_t kFrameBytes = 100;
/// Five frames of a burst pass. At 8 kbit/s the next one needs 100 ms.
constexpr const char* kSettings = "rate-kbps=8,burst-bytes=500,sources-max=4,period-ms=10";
constexpr uint32_t kBurstFrames = 5;

trib::Frame frame_from(uint32_t source) {
  trib::Frame frame(kFrameBytes);
  wire::MutableView<EthernetHeader>(frame.data()).set<EthernetHeader::EtherType>(0x0800);
  wire::MutableView<Ipv4Header> ip(frame.data() + EthernetHeader::kBytes);
  ip.set<Ipv4Header::SourceAddress>(source);
  return frame;
}

TEST(Limiter, PassesBurstsAndReportsTheRestUnderEveryInterleaving) {
  const uint64_t seed = trib::seed_from_env();
  SCOPED_TRACE(trib::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t round = 0; round < 1'000; round++) {
    std::vector<trib::Frame> frames;
    std::map<uint32_t, uint32_t> sent;
    for (uint32_t i = 0; i < 40; i++) {
      const uint32_t source = 1 + prng.below(4);
      frames.push_back(frame_from(source));
      sent[source]++;
    }
    const auto program = trib::make_program<Limiter>(kSettings);
    // 40 packets in 40 ms: no source earns a token for a frame, and each is visited four times. The
    // last visit comes after the last packet.
    const auto passed =
        trib::run_interleaved(**program, frames, prng.any_u64(),
                              {.between_packets = milliseconds(1), .at_end = milliseconds(20)});
    uint32_t expected = 0;
    Limiter::Store& store = (*program)->state().store;
    for (const auto& [source, packets] : sent) {
      const uint32_t dropped = packets - std::min(packets, kBurstFrames);
      expected += packets - dropped;
      const Source* const record = store.peek(source);
      ASSERT_NE(record, nullptr);
      ASSERT_EQ(record->dropped, static_cast<int32_t>(dropped));
      ASSERT_EQ(record->marks, dropped > 0 ? kEver : 0);  // The timer has read all others.
      ASSERT_EQ(record->periods > 0, dropped > 0);
      ASSERT_LE(record->periods, static_cast<int32_t>(std::min(dropped, 6U)));
    }
    ASSERT_EQ(passed.size(), expected);
  }
}

static_assert(programs::PacketProgram<Limiter>::kCoresMax == 1);

TEST(Limiter, ARateComesBack) {
  const auto program = trib::make_program<Limiter>(kSettings);
  const std::vector<trib::Frame> frames(10, frame_from(7));
  EXPECT_EQ(trib::run_interleaved(**program, frames, 1).size(), kBurstFrames);
  // A frame in each 100 ms, after 100 ms.
  EXPECT_EQ(
      trib::run_interleaved(**program, frames, 1, {.between_packets = milliseconds(100)}).size(),
      frames.size());
  const nlohmann::ordered_json details = (*program)->details();
  EXPECT_EQ(details["sources"], 1);
  EXPECT_EQ(details["limited"]["0.0.0.7"]["dropped"], 5);
  EXPECT_EQ(details["limited"]["0.0.0.7"]["periods"], 1);
}

TEST(Limiter, PacketsWithoutARecordPass) {
  const auto program =
      trib::make_program<Limiter>("rate-kbps=1,burst-bytes=64,sources-max=1,period-ms=10");
  const std::vector<trib::Frame> frames{trib::Frame(10), trib::Frame(60), frame_from(1),
                                        frame_from(2)};
  // No header, no IPv4, a source with a record, one without. The third exceeds its burst at once.
  EXPECT_EQ(trib::run_interleaved(**program, frames, 1).size(), 3U);
  EXPECT_EQ((*program)->details()["unlimited"], 1);
}

}  // namespace
}  // namespace limiter
