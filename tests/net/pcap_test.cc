// SPDX-License-Identifier: Apache-2.0
// Method: every byte of two files, worked out by hand from the RFCs (checksums too), then files
// that cannot be written. `tcpdump -r FILE -vv` reads such files and accepts their checksums.
#include "net/pcap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/net/net_bed.h"
#include "tests/support/scratch_directory.h"

namespace tributary::net {
namespace {

/// Parses bytes written as "0a 1b".
std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> bytes;
  uint32_t digits = 0;
  uint32_t value = 0;
  for (const char c : text) {
    if (c == ' ' || c == '\n') continue;
    value = value * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    if (++digits % 2 == 0) {
      bytes.push_back(static_cast<std::byte>(value));
      value = 0;
    }
  }
  return bytes;
}

const std::vector<std::byte> kPayload = bytes_of("01 02 03");

TEST(Pcap, FileHeaderMatchesHandWrittenBytes) {
  EXPECT_EQ(pcap_file_header(), bytes_of("4d3cb2a1 0200 0400 00000000 00000000 00000400 01000000"));
}

TEST(Pcap, Ipv4PacketMatchesHandWrittenBytes) {
  PacketPool pool;
  // 10.0.0.1:5000 to 10.0.0.2:12000, 1.000000002 s and 90 ps.
  const PacketRef packet =
      pool.make(Endpoint::ipv4(0x0a000001, 5000), Endpoint::ipv4(0x0a000002, 12000), 3, kPayload);
  const Instant at{seconds(1) + nanoseconds(2) + picoseconds(90)};
  // IP: 4502 001f 0000 4000 4011 .... 0a00 0001 0a00 0002: sum 0x4502 + 0x1f + 0x4000 + 0x4011 +
  // 0x0a00 + 1 + 0x0a00 + 2 = 0xd935, so 0x26ca. UDP: 0x1388 + 0x2ee0 + 0xb + 0x0102 + 0x0300 +
  // 2 x 0x0a00 + 3 + 0x11 + 0xb = 0x5a94, so 0xa56b.
  EXPECT_EQ(pcap_record(at, *packet), bytes_of(R"(
      01000000 02000000 2d000000 2d000000
      02000a000002 02000a000001 0800
      45 02 001f 0000 4000 40 11 26ca 0a000001 0a000002
      1388 2ee0 000b a56b
      01 02 03)"));
}

TEST(Pcap, WritesEcnMarksAndGroups) {
  PacketPool pool;
  const PacketRef packet =
      pool.make(Endpoint::ipv4(0x0a000001, 5000), Endpoint::ipv4(0xefff0102, 12000), 0, {});
  packet->congestion_experienced = true;
  // IP: 0x4503 + 0x1c + 0x4000 + 0x4011 + 0x0a00 + 1 + 0xefff + 0x0102 = 0x1c032, folded 0xc033,
  // so 0x3fcc. UDP: 0x1388 + 0x2ee0 + 8 + 0x0a00 + 1 + 0xefff + 0x0102 + 0x11 + 8 = 0x13d8b, folded
  // 0x3d8c, so 0xc273. The MAC keeps 23 bits of the group: 239.255.1.2 is 7f-01-02.
  EXPECT_EQ(pcap_record(Instant(), *packet), bytes_of(R"(
      00000000 00000000 2a000000 2a000000
      01005e7f0102 02000a000001 0800
      45 03 001c 0000 4000 40 11 3fcc 0a000001 efff0102
      1388 2ee0 0008 c273)"));
}

TEST(Pcap, ElidedPacketIsTruncatedToItsStoredBytes) {
  PacketPool pool;
  const PacketRef packet = pool.make(Endpoint::ipv4(0x0a000001, 5000),
                                     Endpoint::ipv4(0x0a000002, 12000), 4'108, kPayload);
  const auto record = pcap_record(Instant(), *packet);
  // The file has 42 + 3 bytes of 42 + 4,108.
  EXPECT_THAT(std::vector(record.begin() + 8, record.begin() + 16),
              ::testing::ElementsAreArray(bytes_of("2d000000 36100000")));
  // IP length 4,136, UDP length 4,116. The checksum counts missing bytes as zeros, so only the
  // length changes, twice, from 0xb to 0x1014: 0x5a94 + 2 x 0x1009 = 0x7aa6, so 0x8559.
  EXPECT_THAT(std::vector(record.begin() + 32, record.begin() + 34),
              ::testing::ElementsAreArray(bytes_of("1028")));
  EXPECT_THAT(std::vector(record.begin() + 54, record.begin() + 58),
              ::testing::ElementsAreArray(bytes_of("1014 8559")));
}

TEST(Pcap, Ipv6PacketMatchesHandWrittenBytes) {
  PacketPool pool;
  PacketRef packet = pool.make(Endpoint::parse("[fd00::1]:5000").value(),
                               Endpoint::parse("[ff02::5]:12000").value(), 3, kPayload);
  // UDP: 0x1388 + 0x2ee0 + 0xb + 0x0102 + 0x0300 + 0xfd00 + 1 + 0xff02 + 5 + 0x11 + 0xb = 0x24299,
  // folded 0x429b, so 0xbd64.
  EXPECT_EQ(pcap_record(Instant(), *packet), bytes_of(R"(
      00000000 00000000 41000000 41000000
      333300000005 020000000001 86dd
      60 20 0000 000b 11 40
      fd000000000000000000000000000001 ff020000000000000000000000000005
      1388 2ee0 000b bd64
      01 02 03)"));
  packet->congestion_experienced = true;
  EXPECT_EQ(pcap_record(Instant(), *packet)[16 + 14 + 1], std::byte{0x30});
}

TEST(Pcap, TimestampsAreDepartureTimes) {
  const testing::ScratchDirectory scratch;
  const std::string path = (scratch.path() / "link.pcap").string();
  CableBed bed(LinkConfig{});
  auto writer = PcapWriter::open(path);
  ASSERT_TRUE(writer.has_value()) << writer.error().text;
  writer->attach(bed.network, bed.link);
  bed.send(934);
  bed.send(934);
  bed.run();
  ASSERT_TRUE(writer->finish().has_value());
  EXPECT_EQ(writer->packet_count(), 2u);

  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::byte> expected = pcap_file_header();
  for (const int64_t ticks : {8'000, 16'000}) {
    const auto record = pcap_record(at_ticks(ticks), *bed.b.received[0].packet);
    expected.insert(expected.end(), record.begin(), record.end());
  }
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  EXPECT_EQ(std::vector<std::byte>(begin, begin + text.size()), expected);
}

TEST(Pcap, RefusesAnUnwritablePath) {
  const auto writer = PcapWriter::open("/nonexistent/link.pcap");
  ASSERT_FALSE(writer.has_value());
  EXPECT_THAT(writer.error().text, ::testing::StartsWith("/nonexistent/link.pcap: cannot be"));
}

TEST(Pcap, ReplacesOnlyCaptures) {
  const testing::ScratchDirectory scratch;
  const std::string profile = scratch.file("profile", "alias ls='ls -l'\n");
  const auto refused = PcapWriter::open(profile);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().text,
            profile +
                ": exists and is not a capture; allowed: a new file, an empty one, or a pcap "
                "file to replace");
  EXPECT_EQ(std::filesystem::file_size(profile), 17U);

  // A link to the file is no way around the check.
  const std::string link = (scratch.path() / "link.pcap").string();
  std::filesystem::create_symlink(profile, link);
  EXPECT_FALSE(PcapWriter::open(link).has_value());

  EXPECT_TRUE(PcapWriter::open(scratch.file("empty", "")).has_value());
  const std::string capture = (scratch.path() / "new.pcap").string();
  ASSERT_TRUE(PcapWriter::open(capture).has_value());
  EXPECT_TRUE(PcapWriter::open(capture).has_value());
  // Microseconds, in the other byte order: a capture of tcpdump on another machine.
  const std::string foreign = scratch.file("tcpdump.pcap", "\xa1\xb2\xc3\xd4 and more");
  EXPECT_TRUE(PcapWriter::open(foreign).has_value());
}

TEST(Pcap, ReportsAFullDiskAtTheEnd) {
  if (!std::ifstream("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  EXPECT_FALSE(PcapWriter::open("/dev/full").has_value());
}

}  // namespace
}  // namespace tributary::net
