// SPDX-License-Identifier: Apache-2.0
// Method: small captures by hand, one for each rule of the feed.
#include "programs/capture_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "tests/programs/captures.h"
#include "tests/support/pcapng.h"
#include "tests/support/scratch_directory.h"

namespace tributary::programs {
namespace {

using ::testing::HasSubstr;
using testing::TestPacket;

constexpr int64_t kStartNs = 1'700'000'000'000'000'000;

class CaptureFeedTest : public ::testing::Test {
 protected:
  CaptureFeed feed_of(const std::vector<TestPacket>& packets, uint32_t packet_bytes_max = 1'600) {
    const std::string path = scratch_.path() / "a.pcap";
    testing::write_capture(path, packets);
    auto reader = io::CaptureReader::open(path);
    EXPECT_TRUE(reader);
    return {*std::move(reader), packet_bytes_max};
  }
  testing::ScratchDirectory scratch_;
};

TEST_F(CaptureFeedTest, CountsTimeFromTheFirstPacket) {
  auto feed =
      feed_of({{kStartNs, testing::ipv4_frame(60)}, {kStartNs + 7, testing::ipv4_frame(64)}});
  feed.read_ahead();
  EXPECT_EQ(feed.time_zero().time_since_epoch().count(), kStartNs);

  const FedPacket* packet = feed.next();
  ASSERT_NE(packet, nullptr);
  EXPECT_EQ(packet->at, Instant());
  packet = feed.next();
  ASSERT_NE(packet, nullptr);
  EXPECT_EQ(packet->at, Instant(nanoseconds(7)));
  EXPECT_EQ(packet->bytes.size(), 64U);
  EXPECT_EQ(feed.next(), nullptr);
  EXPECT_FALSE(feed.problem());
  EXPECT_EQ(feed.counts().packets, 2U);
  EXPECT_EQ(feed.counts().bytes, 124U);
}

TEST_F(CaptureFeedTest, TimeNeverDecreases) {
  auto feed = feed_of({{kStartNs, {}}, {kStartNs + 9, {}}, {kStartNs + 3, {}}, {kStartNs - 5, {}}});
  Instant last;
  while (const FedPacket* packet = feed.next()) {
    EXPECT_GE(packet->at, last);
    last = packet->at;
  }
  EXPECT_EQ(last, Instant(nanoseconds(9)));
  EXPECT_EQ(feed.counts().out_of_order, 2U);
}

TEST_F(CaptureFeedTest, FillsUpCutPacketsWithZeros) {
  auto feed = feed_of({{kStartNs, {std::byte{7}, std::byte{8}}, 4}});
  const FedPacket* packet = feed.next();
  ASSERT_NE(packet, nullptr);
  EXPECT_EQ(std::vector<std::byte>(packet->bytes.begin(), packet->bytes.end()),
            (std::vector{std::byte{7}, std::byte{8}, std::byte{0}, std::byte{0}}));
  EXPECT_EQ(packet->captured.bytes.size(), 2U);
  EXPECT_EQ(feed.counts().cut, 1U);
}

TEST_F(CaptureFeedTest, LeavesOutLongPackets) {
  auto feed =
      feed_of({{kStartNs, testing::ipv4_frame(1'601)}, {kStartNs, testing::ipv4_frame(1'600)}});
  const FedPacket* packet = feed.next();
  ASSERT_NE(packet, nullptr);
  EXPECT_EQ(packet->bytes.size(), 1'600U);
  EXPECT_EQ(feed.next(), nullptr);
  EXPECT_EQ(feed.counts().too_long, 1U);
  EXPECT_EQ(feed.counts().packets, 2U);
}

TEST_F(CaptureFeedTest, EndsAtATimeTooFarAhead) {
  constexpr int64_t kMonthNs = int64_t{30} * 86'400'000'000'000;
  auto feed = feed_of({{kStartNs, {}}, {kStartNs + kMonthNs, {}}, {kStartNs + kMonthNs + 1, {}}});
  EXPECT_NE(feed.next(), nullptr);
  EXPECT_NE(feed.next(), nullptr);
  EXPECT_EQ(feed.next(), nullptr);
  ASSERT_TRUE(feed.problem());
  EXPECT_THAT(feed.problem()->text,
              HasSubstr("packet 3: its time is 30 days after the first packet's; allowed: 30"));
  EXPECT_EQ(feed.counts().packets, 2U);
}

TEST_F(CaptureFeedTest, EndsAtATimeThatNoOutputCanHave) {
  const auto problem_of = [this](uint64_t at_ns, int64_t offset_s) {
    const std::string path = scratch_.file("a.pcapng", testing::pcapng_file(at_ns, offset_s));
    CaptureFeed feed(*io::CaptureReader::open(path), 1'600);
    EXPECT_EQ(feed.next(), nullptr);
    EXPECT_EQ(feed.counts().packets, 0U);
    return feed.problem() ? feed.problem()->text : "";
  };
  EXPECT_EQ(problem_of(5'000'000'000'000'000'000, 0),
            "packet 1: its time is 5000000000 s since 1970; allowed: 0 to 4294967295");
  EXPECT_EQ(problem_of(0, -10), "packet 1: its time is -10 s since 1970; allowed: 0 to 4294967295");
  EXPECT_EQ(problem_of(999'999'999, -1),
            "packet 1: its time is -1 s since 1970; allowed: 0 to 4294967295");
  auto feed = feed_of({{0, {}}, {kTimeMaxNs, {}}});  // Each alone is allowed.
  EXPECT_NE(feed.next(), nullptr);
  EXPECT_EQ(feed.next(), nullptr);
  EXPECT_THAT(feed.problem()->text, HasSubstr("days after the first packet's"));
}

TEST_F(CaptureFeedTest, AFrameWithCutHeadersIsNotFilledUp) {
  const std::string path = scratch_.path() / "a.pcap";
  testing::write_capture(path, {{kStartNs, {std::byte{7}}, 4},
                                {kStartNs, {std::byte{7}, std::byte{8}}, 4},
                                {kStartNs, testing::ipv4_frame(60)}});
  const HeadersCut needs_two = [](std::span<const std::byte> held, uint32_t wire_bytes) {
    EXPECT_EQ(wire_bytes, 4U);  // It is not asked about whole frames.
    return held.size() < 2;
  };
  CaptureFeed feed(*io::CaptureReader::open(path), 1'600, nullptr, needs_two);
  const FedPacket* packet = feed.next();
  ASSERT_NE(packet, nullptr);
  EXPECT_EQ(packet->bytes.size(), 1U);
  EXPECT_EQ(packet->filled_bytes(), 0U);
  EXPECT_EQ(packet->missing_bytes(), 3U);
  packet = feed.next();
  ASSERT_NE(packet, nullptr);
  EXPECT_EQ(packet->bytes.size(), 4U);
  EXPECT_EQ(packet->filled_bytes(), 2U);
  EXPECT_EQ(packet->missing_bytes(), 0U);
  EXPECT_NE(feed.next(), nullptr);
  EXPECT_EQ(feed.counts().cut, 2U);
  EXPECT_EQ(feed.counts().headers_cut, 1U);
  EXPECT_EQ(feed.counts().bytes, 68U);  // On the wire.
}

TEST_F(CaptureFeedTest, WithoutAFileItHasNoPacket) {
  CaptureFeed feed(std::nullopt, 1'600);
  feed.read_ahead();
  EXPECT_EQ(feed.next(), nullptr);
  EXPECT_FALSE(feed.problem());
}

TEST_F(CaptureFeedTest, EndsWhenItIsStopped) {
  const std::string path = scratch_.path() / "a.pcap";
  testing::write_capture(path, {{kStartNs, {}}, {kStartNs + 1, {}}, {kStartNs + 2, {}}});
  std::atomic<bool> stop{false};
  CaptureFeed feed(*io::CaptureReader::open(path), 1'600, &stop);
  EXPECT_NE(feed.next(), nullptr);
  stop = true;
  EXPECT_EQ(feed.next(), nullptr);
  EXPECT_FALSE(feed.problem());
  EXPECT_EQ(feed.counts().packets, 1U);
}

TEST_F(CaptureFeedTest, AnEmptyCaptureHasNoPacket) {
  auto feed = feed_of({});
  feed.read_ahead();
  EXPECT_EQ(feed.next(), nullptr);
  EXPECT_FALSE(feed.problem());
}

}  // namespace
}  // namespace tributary::programs
