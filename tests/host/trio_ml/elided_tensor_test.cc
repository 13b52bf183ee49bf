// SPDX-License-Identifier: Apache-2.0
// Method: one protocol with an elided tensor and one with a real tensor of the same length get the
// same events. Every packet must have the same size and head. The buffers hold heads only, so
// AddressSanitizer reports any access to a lane.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/host/trio_ml/protocol_bed.h"

namespace tributary::testing {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kElements = 1 + 4 * 3;  // Four blocks, the last of one element.

/// Size and head of a packet from next_packet(), without its lanes.
struct Written {
  uint32_t size;
  std::vector<std::byte> head;
  bool operator==(const Written&) const = default;
};

std::vector<Written> written(ProtocolBed& bed, bool elided) {
  std::vector<Written> all;
  std::vector<std::byte> bytes(elided ? wire::kMessageHeadBytesMax
                                      : bed.protocol.packet_bytes_max());
  // The span claims the logical size, but the memory of an elided packet ends with the head.
  const std::span<std::byte> out(bytes.data(), bed.protocol.packet_bytes_max());
  while (const uint32_t size = bed.protocol.next_packet(out, bed.now).size_bytes) {
    wire::MessageHead head;
    EXPECT_EQ(decode_head(std::span(bytes).first(32), size, head), wire::DecodeStatus::kOk);
    all.push_back({size, {bytes.begin(), bytes.begin() + head.head_bytes}});
  }
  return all;
}

/// Delivers a result, either with its lanes or as a head that claims to have them.
void deliver(ProtocolBed& bed, const Message& message, bool elided) {
  std::vector<std::byte> bytes(wire::kMessageHeadBytesMax);
  const uint32_t lane_bytes = message.header.grad_cnt * wire::kGradientBytes;
  const uint32_t head_bytes = encode_message(message, bytes.data());
  bytes.resize(elided ? head_bytes : head_bytes + lane_bytes);
  bytes.shrink_to_fit();
  bed.protocol.on_packet({bytes.data(), head_bytes + lane_bytes}, bed.now);
}

TEST(ElidedTensor, ExchangesTheMessagesOfARealTensor) {
  IntTransfer real(std::vector<int32_t>(kElements, 7));
  host::Transfer elided;
  elided.elided_elements = kElements;
  ASSERT_EQ(elided.element_count(), real.transfer.element_count());
  ProtocolBed real_bed;
  ProtocolBed elided_bed;
  real_bed.join();
  elided_bed.join();
  real_bed.protocol.submit(real.transfer, real_bed.now);
  elided_bed.protocol.submit(elided, elided_bed.now);

  const auto first = written(elided_bed, true);
  EXPECT_EQ(first, written(real_bed, false));
  ASSERT_EQ(first.size(), 4U);
  EXPECT_EQ(first[0].size, 32U + 4 * 4);
  EXPECT_EQ(first[3].size, 32U + 4);

  // Three events that use a contribution again: overdue, missing at the aggregator, degraded.
  for (ProtocolBed* bed : {&real_bed, &elided_bed}) bed->pass(milliseconds(20));
  EXPECT_EQ(written(elided_bed, true), written(real_bed, false));
  for (ProtocolBed* bed : {&real_bed, &elided_bed}) bed->have(3, {0});
  EXPECT_EQ(written(elided_bed, true), written(real_bed, false));

  for (uint32_t block = 0; block < 4; block++) {
    Message result = real_bed.result(block, block < 3 ? 4 : 1, real.transfer);
    result.header.degraded = block == 2;
    result.mask = mask_of({0, 2});
    result.extension.flags = wire::kFlagSourceMask;
    deliver(real_bed, result, false);
    deliver(elided_bed, result, true);
  }
  EXPECT_TRUE(real.transfer.done);
  ASSERT_TRUE(elided.done);
  EXPECT_EQ(elided.outcome.status, host::Status::kOk);
  EXPECT_EQ(elided.outcome.blocks, 4U);
  ASSERT_EQ(elided.outcome.degraded.size(), 1U);
  EXPECT_EQ(elided.outcome.degraded[0].element_first, 8U);
  EXPECT_EQ(elided.outcome.degraded[0].sources, mask_of({0, 2}));
}

TEST(ElidedTensor, RefusesResultsOfAnotherLength) {
  host::Transfer elided;
  elided.elided_elements = kElements;
  ProtocolBed bed;
  bed.join();
  bed.protocol.submit(elided, bed.now);
  (void)written(bed, true);
  Message result = bed.result(3, 4, elided);  // The right length is one element.
  deliver(bed, result, true);
  EXPECT_EQ(bed.protocol.counters().invalid_packets, 1U);
  EXPECT_EQ(bed.protocol.counters().blocks, 0U);
}

}  // namespace
}  // namespace tributary::testing
