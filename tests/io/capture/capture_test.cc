// SPDX-License-Identifier: Apache-2.0
// Method: write, read back and compare; then files in both formats and byte orders by hand; then
// each refusal and each damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "io/capture/capture_reader.h"
#include "io/capture/capture_writer.h"
#include "tests/support/pcapng.h"
#include "tests/support/scratch_directory.h"

namespace tributary::io {
namespace {

using std::chrono::nanoseconds;
using ::testing::HasSubstr;

std::vector<std::byte> frame(size_t size, uint8_t fill) {
  return std::vector<std::byte>(size, std::byte{fill});
}

struct Read {
  int64_t at_ns;
  std::vector<std::byte> bytes;
  uint32_t wire_bytes;
  friend bool operator==(const Read&, const Read&) = default;
};

/// Reads a file to its end. @param problem Receives the error at its end, if any.
std::vector<Read> read_all(const std::string& path, std::string& problem) {
  std::vector<Read> read;
  auto reader = CaptureReader::open(path);
  if (!reader) {
    problem = reader.error().text;
    return read;
  }
  for (;;) {
    const auto packet = reader->next();
    if (!packet) problem = packet.error().text;
    if (!packet || !*packet) return read;
    read.push_back({(*packet)->at.time_since_epoch().count(),
                    {(*packet)->bytes.begin(), (*packet)->bytes.end()},
                    (*packet)->wire_bytes});
  }
}

void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CaptureTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return scratch_.path() / name; }
  testing::ScratchDirectory scratch_;
  std::string problem_;
};

TEST_F(CaptureTest, ReadsWhatItHasWritten) {
  const std::vector<Read> packets{
      {1'700'000'000'123'456'789, frame(60, 1), 60},
      {1'700'000'000'123'456'790, frame(96, 2), 1514},  // Cut by the capture.
      {1'700'000'001'000'000'000, {}, 0},
  };
  auto writer = CaptureWriter::open(path("a.pcap"));
  ASSERT_TRUE(writer);
  for (const Read& packet : packets) {
    ASSERT_TRUE(
        writer->write({CaptureTime(nanoseconds(packet.at_ns)), packet.bytes, packet.wire_bytes}));
  }
  ASSERT_TRUE(writer->finish());

  EXPECT_EQ(read_all(path("a.pcap"), problem_), packets);
  EXPECT_EQ(problem_, "");
}

TEST_F(CaptureTest, ReadsMicrosecondsOfTheOtherByteOrder) {
  const std::string header(
      "\xa1\xb2\xc3\xd4\x00\x02\x00\x04\0\0\0\0\0\0\0\0\x00\x04\x00\x00\0\0\0\x01", 24);
  const std::string record("\0\0\0\x02\0\0\0\x03\0\0\0\x02\0\0\0\x40\xaa\xbb", 18);
  write_file(path("big.pcap"), header + record);
  const std::vector<Read> expected{{2'000'003'000, {std::byte{0xaa}, std::byte{0xbb}}, 64}};
  EXPECT_EQ(read_all(path("big.pcap"), problem_), expected);
}

TEST_F(CaptureTest, SecondsOfAPcapFileAreUnsigned) {
  for (const int64_t s : {int64_t{INT32_MAX}, int64_t{INT32_MAX} + 1, int64_t{UINT32_MAX}}) {
    const Read packet{s * 1'000'000'000 + 5, frame(60, 1), 60};
    auto writer = CaptureWriter::open(path("late.pcap"));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->write({CaptureTime(nanoseconds(packet.at_ns)), packet.bytes, 60}));
    ASSERT_TRUE(writer->finish());
    EXPECT_EQ(read_all(path("late.pcap"), problem_), std::vector<Read>{packet});
  }
}

TEST_F(CaptureTest, ReadsPcapng) {
  // Section header, interface of link type 1 with nanosecond times (if_tsresol = 9), one packet.
  const std::string section(
      "\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0"
      "\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0",
      28);
  const std::string interface(
      "\x01\0\0\0\x20\0\0\0\x01\0\0\0\0\0\x04\0"
      "\x09\0\x01\0\x09\0\0\0\0\0\0\0\x20\0\0\0",
      32);
  const std::string packet(
      "\x06\0\0\0\x24\0\0\0\0\0\0\0\0\0\0\0\x07\0\0\0"
      "\x02\0\0\0\x02\0\0\0\xaa\xbb\0\0\x24\0\0\0",
      36);
  write_file(path("a.pcapng"), section + interface + packet);
  const std::vector<Read> expected{{7, {std::byte{0xaa}, std::byte{0xbb}}, 2}};
  EXPECT_EQ(read_all(path("a.pcapng"), problem_), expected);
  EXPECT_EQ(problem_, "");
}

TEST_F(CaptureTest, SecondsOfAPcapngFileAreSigned) {
  const std::vector<std::byte> zeros(8);
  write_file(path("before.pcapng"), testing::pcapng_file(5, /*offset_s=*/-10));
  EXPECT_EQ(read_all(path("before.pcapng"), problem_),
            (std::vector<Read>{{-9'999'999'995, zeros, 8}}));
  write_file(path("late.pcapng"), testing::pcapng_file(5'000'000'000'000'000'000, 0));
  EXPECT_EQ(read_all(path("late.pcapng"), problem_),
            (std::vector<Read>{{5'000'000'000'000'000'000, zeros, 8}}));
  // Times that 64 bits of nanoseconds do not hold.
  write_file(path("never.pcapng"), testing::pcapng_file(0, INT64_MAX / 2));
  EXPECT_EQ(read_all(path("never.pcapng"), problem_), (std::vector<Read>{{INT64_MAX, zeros, 8}}));
  write_file(path("ever.pcapng"), testing::pcapng_file(0, INT64_MIN / 2));
  EXPECT_EQ(read_all(path("ever.pcapng"), problem_), (std::vector<Read>{{INT64_MIN, zeros, 8}}));
  EXPECT_EQ(problem_, "");
}

TEST_F(CaptureTest, RefusesOtherFiles) {
  EXPECT_THAT(CaptureReader::open(path("absent")).error().text, HasSubstr("No such file"));
  write_file(path("empty"), "");
  EXPECT_THAT(CaptureReader::open(path("empty")).error().text, HasSubstr("not a capture"));
  write_file(path("text"), "no capture at all, but longer than a header\n");
  EXPECT_THAT(CaptureReader::open(path("text")).error().text, HasSubstr("not a capture"));
  EXPECT_FALSE(CaptureReader::open(scratch_.path()));  // A folder.
}

TEST_F(CaptureTest, RefusesOtherLinkTypes) {
  write_file(path("wifi.pcap"),
             std::string(
                 "\xd4\xc3\xb2\xa1\x02\x00\x04\x00\0\0\0\0\0\0\0\0\x00\x00\x04\x00\x69\0\0\0", 24));
  EXPECT_THAT(CaptureReader::open(path("wifi.pcap")).error().text,
              HasSubstr("link type 105 (IEEE802_11); allowed: EN10MB (Ethernet)"));
}

TEST_F(CaptureTest, KeepsThePacketsBeforeACut) {
  auto writer = CaptureWriter::open(path("whole.pcap"));
  ASSERT_TRUE(writer);
  const auto bytes = frame(60, 3);
  for (int i = 0; i < 2; i++) ASSERT_TRUE(writer->write({CaptureTime(), bytes, 60}));
  ASSERT_TRUE(writer->finish());

  const std::string whole = file_bytes(path("whole.pcap"));
  for (size_t cut = 1; cut < 76; cut++) {  // Anywhere in the second record.
    write_file(path("cut.pcap"), whole.substr(0, whole.size() - cut));
    problem_.clear();
    EXPECT_EQ(read_all(path("cut.pcap"), problem_).size(), 1U) << cut;
    EXPECT_THAT(problem_, HasSubstr("cut.pcap: ")) << cut;
  }
}

TEST_F(CaptureTest, WriterRefusesAPathWithoutAFolder) {
  EXPECT_THAT(CaptureWriter::open(path("no/such/a.pcap")).error().text,
              HasSubstr("No such file or directory"));
}

TEST_F(CaptureTest, WriterReportsAFullDisk) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  auto writer = CaptureWriter::open("/dev/full");
  ASSERT_TRUE(writer);
  const auto bytes = frame(60, 3);
  static_cast<void>(writer->write({CaptureTime(), bytes, 60}));  // It may still be buffered.
  EXPECT_THAT(writer->finish().error().text, HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace tributary::io
