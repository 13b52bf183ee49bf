// SPDX-License-Identifier: Apache-2.0
// Method: the kernel's notes on frames by hand, after headers were added and removed.
#include "io/inline/inline_side.h"

#include <gtest/gtest.h>

#include <vector>

namespace tributary::io {
namespace {

using Bytes = std::vector<std::byte>;

/// Returns an Ethernet frame with a network header's first byte behind its types, and 60 bytes
/// more.
Bytes frame_of(const std::vector<uint16_t>& types, uint8_t network_first) {
  Bytes frame(12);
  for (size_t i = 0; i < types.size(); i++) {
    frame.push_back(static_cast<std::byte>(types[i] >> 8));
    frame.push_back(static_cast<std::byte>(types[i] & 255));
    if (i + 1 < types.size()) frame.resize(frame.size() + 2);  // The tag's VLAN.
  }
  frame.push_back(std::byte{network_first});
  frame.resize(frame.size() + 60);
  return frame;
}

constexpr FrameNotes kChecksum{
    .flags = FrameNotes::kNeedsChecksum, .checksum_start = 34, .checksum_offset = 16};
/// A train of TCP segments.
constexpr FrameNotes kTrain{.flags = FrameNotes::kNeedsChecksum,
                            .gso_type = 1,
                            .header_bytes = 54,
                            .gso_bytes = 1460,
                            .checksum_start = 34,
                            .checksum_offset = 16};

TEST(MovedNotes, AFrameAsItCameHasItsNotes) {
  const auto notes = moved_notes(kTrain, 0, Bytes(3));
  ASSERT_TRUE(notes);
  EXPECT_EQ(notes->checksum_start, 34);
  EXPECT_EQ(notes->header_bytes, 54);
}

TEST(MovedNotes, TheChecksumMovesWithTheHeaders) {
  const Bytes frame(100);
  EXPECT_EQ(moved_notes(kChecksum, 24, frame)->checksum_start, 58);
  EXPECT_EQ(moved_notes(kChecksum, -34, frame)->checksum_start, 0);
  EXPECT_TRUE(moved_notes(kChecksum, -34, frame)->needs_checksum());
  // The header with the checksum is gone.
  EXPECT_FALSE(moved_notes(kChecksum, -35, frame)->needs_checksum());
  EXPECT_FALSE(moved_notes(FrameNotes{}, 20, frame)->needs_checksum());
}

TEST(MovedNotes, ATrainMayGetVlanTags) {
  for (const std::vector<uint16_t>& types :
       {std::vector<uint16_t>{0x8100, 0x0800}, {0x88a8, 0x8100, 0x0800}}) {
    const auto added = static_cast<int64_t>(4 * (types.size() - 1));
    const auto notes = moved_notes(kTrain, added, frame_of(types, 0x45));
    ASSERT_TRUE(notes) << added;
    EXPECT_EQ(notes->checksum_start, 34 + added);
    EXPECT_EQ(notes->header_bytes, 54 + added);
    EXPECT_EQ(notes->gso_bytes, 1460);
  }
  FrameNotes ipv6 = kTrain;
  ipv6.checksum_start = 14 + 4 + 40;
  EXPECT_TRUE(moved_notes(ipv6, -4, frame_of({0x86dd}, 0x60)));
}

TEST(MovedNotes, ATrainBehindOtherHeadersIsRefused) {
  // A tunnel's IPv4 header before the train's own.
  EXPECT_FALSE(moved_notes(kTrain, 20, frame_of({0x0800}, 0x45)));
  EXPECT_FALSE(moved_notes(kTrain, 4, frame_of({0x8847, 0x0800}, 0x45)));  // MPLS.
  EXPECT_FALSE(moved_notes(kTrain, 4, frame_of({0x8100, 0x0800}, 0x46)));  // Options.
  EXPECT_FALSE(moved_notes(kTrain, -14, frame_of({0x0800}, 0x45)));
  EXPECT_FALSE(moved_notes(kTrain, 4, Bytes(13)));
  const Bytes endless(60, std::byte{0x81});  // Not a tag.
  EXPECT_FALSE(moved_notes(kTrain, 4, endless));
  Bytes tags(70'000);
  for (size_t i = 12; i + 1 < tags.size(); i += 4) tags[i] = std::byte{0x81};  // Tags alone.
  EXPECT_FALSE(moved_notes(kTrain, 4, tags));
}

}  // namespace
}  // namespace tributary::io
