// SPDX-License-Identifier: Apache-2.0
#include "tests/programs/captures.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/capture/capture_reader.h"
#include "io/capture/capture_writer.h"

namespace tributary::testing {

void write_capture(const std::string& path, const std::vector<TestPacket>& packets) {
  auto writer = io::CaptureWriter::open(path);
  ASSERT_TRUE(writer);
  for (const TestPacket& packet : packets) {
    const auto size = static_cast<uint32_t>(packet.bytes.size());
    ASSERT_TRUE(writer->write({io::CaptureTime(std::chrono::nanoseconds(packet.at_ns)),
                               packet.bytes, std::max(size, packet.wire_bytes)}));
  }
  ASSERT_TRUE(writer->finish());
}

std::vector<TestPacket> read_capture(const std::string& path) {
  std::vector<TestPacket> packets;
  auto reader = io::CaptureReader::open(path);
  EXPECT_TRUE(reader);
  if (!reader) return packets;
  for (;;) {
    const auto packet = reader->next();
    EXPECT_TRUE(packet);
    if (!packet || !*packet) return packets;
    const auto& read = **packet;
    packets.push_back({read.at.time_since_epoch().count(),
                       {read.bytes.begin(), read.bytes.end()},
                       read.wire_bytes == read.bytes.size() ? 0 : read.wire_bytes});
  }
}

std::vector<std::byte> ipv4_frame(uint32_t size_bytes, uint8_t header_words) {
  std::vector<std::byte> frame(size_bytes);
  if (size_bytes > 14) {
    frame[12] = std::byte{0x08};
    frame[14] = static_cast<std::byte>(0x40 | header_words);
  }
  return frame;
}

std::vector<TestPacket> random_packets(Prng& prng, uint32_t count) {
  std::vector<TestPacket> packets;
  int64_t at_ns = 1'700'000'000'000'000'000;
  for (uint32_t i = 0; i < count; i++) {
    at_ns += static_cast<int64_t>(prng.below(2'000));
    TestPacket packet{.at_ns = at_ns, .bytes = {}};
    switch (prng.below(6)) {
      case 0:
      case 1:
        packet.bytes = ipv4_frame(60 + static_cast<uint32_t>(prng.below(1'455)));
        break;
      case 2:
        packet.bytes = ipv4_frame(60 + static_cast<uint32_t>(prng.below(200)),
                                  static_cast<uint8_t>(prng.below(16)));
        break;
      case 3:  // Anything, down to nothing.
        packet.bytes.resize(prng.below(80));
        for (std::byte& byte : packet.bytes) byte = static_cast<std::byte>(prng.below(256));
        break;
      case 4:
        packet.bytes = ipv4_frame(60);
        packet.bytes[12] = std::byte{0x86};
        packet.bytes[13] = std::byte{0xdd};
        break;
      default:  // Cut by the capture.
        packet.bytes = ipv4_frame(static_cast<uint32_t>(prng.below(60)));
        packet.wire_bytes = 60 + static_cast<uint32_t>(prng.below(1'455));
    }
    packets.push_back(std::move(packet));
  }
  return packets;
}

}  // namespace tributary::testing
