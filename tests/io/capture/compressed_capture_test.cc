// SPDX-License-Identifier: Apache-2.0
// Method: a capture of many packets, compressed with zlib; then damage at each kind of place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "io/capture/capture_reader.h"
#include "io/capture/capture_writer.h"
#include "tests/support/scratch_directory.h"

namespace tributary::io {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kPackets = 5'000;

class CompressedCapture : public ::testing::Test {
 protected:
  CompressedCapture() {
    auto writer = CaptureWriter::open(path("a.pcap"));
    EXPECT_TRUE(writer);
    std::vector<std::byte> frame(60);
    for (uint32_t i = 0; i < kPackets; i++) {
      frame[0] = static_cast<std::byte>(i * 37 % 256);
      frame[1] = static_cast<std::byte>(i * i % 251);
      EXPECT_TRUE(writer->write({CaptureTime(std::chrono::microseconds(i)), frame, 60}));
    }
    EXPECT_TRUE(writer->finish());
    const std::string plain = bytes_of("a.pcap");
    gzFile file = gzopen(path("a.pcap.gz").c_str(), "wb");
    EXPECT_EQ(gzwrite(file, plain.data(), static_cast<unsigned>(plain.size())),
              static_cast<int>(plain.size()));
    EXPECT_EQ(gzclose(file), Z_OK);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return scratch_.path() / name; }
  [[nodiscard]] std::string bytes_of(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  /// Returns the number of packets. @param problem Receives the error at the end.
  uint32_t count(const std::string& name, std::string& problem) const {
    auto reader = CaptureReader::open(path(name));
    if (!reader) {
      problem = reader.error().text;
      return 0;
    }
    for (uint32_t packets = 0;; packets++) {
      const auto packet = reader->next();
      if (!packet) problem = packet.error().text;
      if (!packet || !*packet) return packets;
    }
  }

  testing::ScratchDirectory scratch_;
  std::string problem_;
};

TEST_F(CompressedCapture, IsReadLikeThePlainOne) {
  EXPECT_EQ(count("a.pcap.gz", problem_), kPackets);
  EXPECT_EQ(problem_, "");
  auto plain = CaptureReader::open(path("a.pcap"));
  auto compressed = CaptureReader::open(path("a.pcap.gz"));
  for (uint32_t i = 0; i < kPackets; i++) {
    const auto a = plain->next();
    const auto b = compressed->next();
    ASSERT_TRUE(a && b && *a && *b);
    ASSERT_EQ((*a)->at, (*b)->at);
    ASSERT_TRUE(std::ranges::equal((*a)->bytes, (*b)->bytes));
  }
}

TEST_F(CompressedCapture, ACutOneKeepsThePacketsBeforeTheCut) {
  const std::string whole = bytes_of("a.pcap.gz");
  write("cut.pcap.gz", std::string_view(whole).substr(0, whole.size() / 2));
  const uint32_t packets = count("cut.pcap.gz", problem_);
  EXPECT_GT(packets, kPackets / 4);
  EXPECT_LT(packets, kPackets);
  EXPECT_THAT(problem_, HasSubstr("cut.pcap.gz: unexpected end of file"));
}

TEST_F(CompressedCapture, ADamagedOneIsAnError) {
  std::string damaged = bytes_of("a.pcap.gz");
  for (size_t i = damaged.size() / 2; i < damaged.size() / 2 + 64; i++) damaged[i] = '\x5a';
  write("damaged.pcap.gz", damaged);
  EXPECT_LT(count("damaged.pcap.gz", problem_), kPackets);
  EXPECT_NE(problem_, "");
  // The checksum at the end is wrong.
  damaged = bytes_of("a.pcap.gz");
  damaged[damaged.size() - 8] = static_cast<char>(damaged[damaged.size() - 8] ^ 1);
  write("checksum.pcap.gz", damaged);
  problem_.clear();
  EXPECT_LE(count("checksum.pcap.gz", problem_), kPackets);
  EXPECT_THAT(problem_, HasSubstr("incorrect data check"));
}

TEST_F(CompressedCapture, CompressedTextIsNoCapture) {
  gzFile file = gzopen(path("text.gz").c_str(), "wb");
  gzputs(file, "no capture at all, but longer than a header\n");
  gzclose(file);
  EXPECT_EQ(count("text.gz", problem_), 0U);
  EXPECT_THAT(problem_, HasSubstr("text.gz: not a capture in pcap or pcapng format"));
  write("cut.gz", "\x1f\x8b\x08");
  problem_.clear();
  EXPECT_EQ(count("cut.gz", problem_), 0U);
  EXPECT_NE(problem_, "");
}

TEST_F(CompressedCapture, OtherCompressionsAreNamedWithTheRemedy) {
  write("a.zst", "\x28\xb5\x2f\xfd....");
  write("a.xz",
        "\xfd"
        "7zXZ...");
  write("a.bz2", "BZh9....");
  EXPECT_EQ(count("a.zst", problem_), 0U);
  EXPECT_THAT(problem_, HasSubstr("compressed with zstd; allowed: no compression, or gzip. Use: "
                                  "zstd -dc "));
  EXPECT_EQ(count("a.xz", problem_), 0U);
  EXPECT_THAT(problem_, HasSubstr("compressed with xz;"));
  EXPECT_EQ(count("a.bz2", problem_), 0U);
  EXPECT_THAT(problem_, HasSubstr("compressed with bzip2;"));
}

}  // namespace
}  // namespace tributary::io
