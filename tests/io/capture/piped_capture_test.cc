// SPDX-License-Identifier: Apache-2.0
// Method: captures through pipes. A pipe that does not block ends each read beyond its bytes with
// an error, so a reader that waits for more than it needs fails. A writer in a thread of its own
// makes reads of one byte.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "io/capture/capture_reader.h"
#include "io/capture/capture_writer.h"
#include "tests/support/scratch_directory.h"

namespace tributary::io {
namespace {

using ::testing::HasSubstr;

/// Compresses bytes to one member of a gzip file.
/// @param flush Z_FINISH, or Z_SYNC_FLUSH: without the end.
std::string gzip(std::string_view plain, int flush = Z_FINISH) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(plain.size() + 1'000, '\0');
  stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<unsigned>(plain.size());
  stream.next_out = reinterpret_cast<unsigned char*>(out.data());
  stream.avail_out = static_cast<unsigned>(out.size());
  EXPECT_EQ(deflate(&stream, flush), flush == Z_FINISH ? Z_STREAM_END : Z_OK);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

class PipedCapture : public ::testing::Test {
 protected:
  /// Returns the bytes of a capture, whose packets carry their numbers.
  [[nodiscard]] std::string capture_of(uint32_t packets) const {
    const std::string path = scratch_.path() / "a.pcap";
    auto writer = CaptureWriter::open(path);
    EXPECT_TRUE(writer);
    std::vector<std::byte> frame(60);
    for (uint32_t i = 0; i < packets; i++) {
      frame[0] = static_cast<std::byte>(i % 251);
      EXPECT_TRUE(writer->write({CaptureTime(std::chrono::microseconds(i)), frame, 60}));
    }
    EXPECT_TRUE(writer->finish());
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Reads to the end or to an error, and expects packets with their numbers.
  uint32_t count(int file) {
    const auto problem = std::make_shared<std::string>();
    auto reader = CaptureReader::from(open_gzip(file, problem), "the pipe", problem);
    if (!reader) {
      problem_ = reader.error().text;
      return 0;
    }
    for (uint32_t packets = 0;; packets++) {
      const auto packet = reader->next();
      if (!packet) problem_ = packet.error().text;
      if (!packet || !*packet) return packets;
      EXPECT_EQ((*packet)->bytes[0], static_cast<std::byte>(packets % 251));
    }
  }
  /// Returns the packets that a pipe with these bytes has before a read would wait.
  uint32_t count_waiting(std::string_view bytes) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    EXPECT_EQ(write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    const uint32_t packets = count(ends[0]);
    close(ends[1]);
    return packets;
  }
  /// Returns the packets of a pipe into which a thread writes `step` bytes at a time.
  uint32_t count_written(std::string_view bytes, size_t step) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    std::thread writer([bytes, step, to = ends[1]] {
      for (size_t at = 0; at < bytes.size(); at += step) {
        const std::string_view part = bytes.substr(at, step);
        EXPECT_EQ(write(to, part.data(), part.size()), static_cast<ssize_t>(part.size()));
      }
      close(to);
    });
    const uint32_t packets = count(ends[0]);
    writer.join();
    return packets;
  }

  testing::ScratchDirectory scratch_;
  std::string problem_;
};

TEST_F(PipedCapture, PacketsComeBeforeTheEnd) {
  EXPECT_EQ(count_waiting(capture_of(100)), 100U);
  EXPECT_THAT(problem_, HasSubstr("Resource temporarily unavailable"));
}

TEST_F(PipedCapture, APacketThatIsNotWholeIsAnError) {
  std::string bytes = capture_of(100);
  bytes.pop_back();
  EXPECT_EQ(count_waiting(bytes), 99U);
  EXPECT_THAT(problem_, HasSubstr("Resource temporarily unavailable"));
}

TEST_F(PipedCapture, CompressedPacketsComeBeforeTheEnd) {
  EXPECT_EQ(count_waiting(gzip(capture_of(100), Z_SYNC_FLUSH)), 100U);
  EXPECT_THAT(problem_, HasSubstr("Resource temporarily unavailable"));
}

TEST_F(PipedCapture, AnEmptyOneIsNoCapture) {
  EXPECT_EQ(count_waiting(""), 0U);
  EXPECT_THAT(problem_, HasSubstr("not a capture"));
}

TEST_F(PipedCapture, AnyPartsMakeTheSamePackets) {
  const std::string plain = capture_of(300);
  // A file of two members, and bytes behind them: as many as the reader looks at, because it closes
  // the pipe then.
  const size_t half = plain.size() / 2;
  const std::string compressed =
      gzip(std::string_view(plain).substr(0, half)) + gzip(std::string_view(plain).substr(half));
  for (const size_t step : {1U, 7U, 1'000U}) {
    EXPECT_EQ(count_written(plain, step), 300U) << step;
    EXPECT_EQ(count_written(compressed, step), 300U) << step;
    EXPECT_EQ(count_written(compressed + "xy", step), 300U) << step;
    EXPECT_EQ(problem_, "") << step;
  }
}

TEST_F(PipedCapture, ACutOrDamagedOneKeepsThePacketsBefore) {
  std::string compressed = gzip(capture_of(300));
  EXPECT_GT(count_written(std::string_view(compressed).substr(0, compressed.size() / 2), 100), 10U);
  EXPECT_THAT(problem_, HasSubstr("unexpected end of file"));
  // The checksum at the end is wrong, so all packets have been read before.
  compressed[compressed.size() - 8] = static_cast<char>(compressed[compressed.size() - 8] ^ 1);
  EXPECT_EQ(count_written(compressed, compressed.size()), 300U);
  EXPECT_THAT(problem_, HasSubstr("incorrect data check"));
}

}  // namespace
}  // namespace tributary::io
