// SPDX-License-Identifier: Apache-2.0
// A capture file, and all packet programs over it on both machines.
#include <array>
#include <cstring>
#include <string>

#include "io/capture/capture_reader.h"
#include "programs/program.h"
#include "tests/fuzz/input_file.h"

namespace tributary::fuzz {
namespace {

struct Packets {
  uint64_t count = 0;
  uint64_t bytes = 0;
};

Packets count_packets(io::CaptureReader& reader) {
  Packets packets;
  for (;;) {
    const auto packet = reader.next();
    if (!packet || !*packet) return packets;
    packets.count++;
    packets.bytes += (*packet)->bytes.size();
    EXPECT_LE((*packet)->bytes.size(), (*packet)->wire_bytes);
  }
}

/// Returns settings with small tables, so that a run is short.
KeyValues small_settings(const programs::Program& program) {
  std::vector<WrittenKey> written;
  for (const char* name : {"flows-max", "destinations-max", "suspects-max"}) {
    if (program.settings().index_of(name) < 0) continue;
    written.push_back({.name = name, .text = "64", .where = ""});
  }
  return *program.settings().read(written, "");
}

void expect_whole(const programs::RunEnd& end, bool on_model) {
  const auto& report = end.report;
  const uint64_t refused = on_model ? report.model->pfe.refused_full : 0;
  const uint64_t accounted =
      report.output.forwarded + report.dropped + report.input.too_long + refused;
  EXPECT_LE(accounted, report.input.packets);
  // A packet whose time is out of range ends the run.
  EXPECT_GE(accounted + (end.problem ? 1 : 0), report.input.packets);
}

void run_program(const programs::Program& program, const std::string& path) {
  const KeyValues settings = small_settings(program);
  programs::RunRequest request{.in = path};
  const auto live = program.run(settings, request);
  request.model = engine::Parameters();
  const auto model = program.run(settings, request);
  ASSERT_TRUE(live.has_value() && model.has_value());
  expect_whole(*live, /*on_model=*/false);
  expect_whole(*model, /*on_model=*/true);
  // The guard's timers may judge a packet earlier or later on the model.
  if (program.name == "guard") return;
  EXPECT_EQ(live->report.output.forwarded, model->report.output.forwarded);
  EXPECT_EQ(live->report.dropped, model->report.dropped);
}

void run(std::span<const uint8_t> input) {
  const InputFile file(input);
  auto reader = io::CaptureReader::open(file.path());
  if (!reader) return;
  const Packets packets = count_packets(*reader);
  // A frame of a plain IP packet has 14 bytes more than its record, which has 16 bytes besides. Of
  // a compressed file, the size says nothing.
  const bool is_compressed = input.size() > 1 && input[0] == 0x1f && input[1] == 0x8b;
  if (!is_compressed) {
    EXPECT_LE(packets.bytes, input.size());
  }
  // A few bytes can decompress to thousands of packets.
  if (packets.count > 1'000) return;
  for (const programs::Program& program : programs::programs()) run_program(program, file.path());
}

/// Returns a pcap file of one frame with nanosecond times, in this machine's byte order.
Bytes pcap_seed(uint32_t magic, uint32_t link_type = 1) {
  Bytes bytes(24 + 16 + 60);
  const std::array<uint32_t, 6> header{magic, 0x0004'0002, 0, 0, 262'144, link_type};
  const std::array<uint32_t, 4> record{1, 2, 60, 60};
  std::memcpy(bytes.data(), header.data(), 24);
  std::memcpy(bytes.data() + 24, record.data(), 16);
  bytes[40 + 12] = 0x08;
  bytes[40 + 14] = 0x45;
  return bytes;
}

/// Returns a pcapng file: section, interface with nanosecond times, packet.
Bytes pcapng_seed() {
  const std::array<uint32_t, 24> words{
      0x0a0d0d0a, 28, 0x1a2b3c4d, 1, 0xffffffff, 0xffffffff, 28, 1, 32, 1, 0x40000, 0x10009,
      9,          0,  32,         6, 36,         0,          0,  7, 2,  2, 0xbbaa,  36};
  Bytes bytes(sizeof(words));
  std::memcpy(bytes.data(), words.data(), sizeof(words));
  return bytes;
}

/// Returns a gzip file of one stored block with nothing in it.
Bytes gzip_seed() {
  return {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0};
}

// The link types are LINUX_SLL, LINUX_SLL2 and RAW.
std::vector<Bytes> seeds() {
  constexpr uint32_t kMagic = 0xa1b23c4d;
  return {pcap_seed(kMagic),      pcap_seed(0xa1b2c3d4),  pcapng_seed(), pcap_seed(kMagic, 113),
          pcap_seed(kMagic, 276), pcap_seed(kMagic, 101), gzip_seed()};
}

TRIB_FUZZ_TARGET(capture_file);

}  // namespace
}  // namespace tributary::fuzz
