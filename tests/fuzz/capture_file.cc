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
  EXPECT_LE(packets.bytes, input.size());
  for (const programs::Program& program : programs::programs()) run_program(program, file.path());
}

/// Returns a pcap file of one frame with nanosecond times, in this machine's byte order.
Bytes pcap_seed(uint32_t magic) {
  Bytes bytes(24 + 16 + 60);
  const std::array<uint32_t, 6> header{magic, 0x0004'0002, 0, 0, 262'144, 1};
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

std::vector<Bytes> seeds() { return {pcap_seed(0xa1b23c4d), pcap_seed(0xa1b2c3d4), pcapng_seed()}; }

TRIB_FUZZ_TARGET(capture_file);

}  // namespace
}  // namespace tributary::fuzz
