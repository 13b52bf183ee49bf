// SPDX-License-Identifier: Apache-2.0
// Method: a program that removes and prepends as many bytes as the packet says, over random
// captures. Both machines and the suspending one give the bytes of a plain vector.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "programs/packet_program.h"
#include "tests/programs/captures.h"
#include "tests/programs/interleaved_run.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/seed.h"

namespace tributary::programs {
namespace {

using engine::kHeadBytes, engine::kHeadroomBytes;
using testing::Frame;

constexpr microcode::Instruction kReadMoves{"read_moves", {.lmem_reads = 1}};
constexpr microcode::Instruction kPop{"pop", {}};
constexpr microcode::Instruction kPush{"push", {.lmem_writes = 2}};
constexpr microcode::Instruction kReadMoved{"read_moved", {.lmem_reads = 1, .lmem_writes = 1}};

/// The moves that a packet's first bytes ask for.
struct Moves {
  uint32_t popped;
  uint32_t pushed;  ///< At most what one instruction can write.
};
Moves moves_of(std::span<const std::byte> first, uint32_t head_bytes) {
  return {.popped = std::to_integer<uint32_t>(first[0]) % (head_bytes + 1),
          .pushed = std::to_integer<uint32_t>(first[1]) % 17};
}
constexpr std::array<std::byte, 16> kHeader{std::byte{0xa0}, std::byte{0xa1}, std::byte{0xa2}};

struct Mover {
  static constexpr std::string_view kName = "mover";
  static constexpr std::string_view kSummary = "Moves the beginning of packets";
  static constexpr std::array<KeySpec, 0> kKeys{};
  static Result<std::unique_ptr<Mover>> create(memory::SharedMemory&, const KeyValues&) {
    return std::make_unique<Mover>();
  }
  template <microcode::Machine M>
  static microcode::Thread process(M& m, Mover&) {
    m.instruction(kReadMoves);
    const uint32_t head_bytes = m.head().size();
    if (head_bytes >= 2) {
      const Moves moves = moves_of(m.head().read(0, 2), head_bytes);
      m.instruction(kPop);
      m.pop_head(moves.popped);
      m.instruction(kPush);
      m.push_head(std::span(kHeader).first(moves.pushed));
      m.instruction(kReadMoved);
      // A thread sees the moved head, whose last byte it leaves at the beginning.
      const uint32_t left = m.head().size();
      if (left > 0) {
        const std::array last{m.head().read(left - 1, 1)[0]};
        m.write_head(0, last);
      }
    }
    m.forward();
    co_return;
  }
};

/// Returns the frame as Mover leaves it.
Frame moved(const Frame& frame) {
  if (frame.size() < 2) return frame;
  const auto head_bytes = std::min<uint32_t>(static_cast<uint32_t>(frame.size()), kHeadBytes);
  const Moves moves = moves_of(frame, head_bytes);
  Frame result(frame.begin() + moves.popped, frame.end());
  result.insert(result.begin(), kHeader.begin(), kHeader.begin() + moves.pushed);
  const uint32_t left = head_bytes - moves.popped + moves.pushed;
  if (left > 0) result[0] = result[left - 1];
  return result;
}

/// Returns packets of all kinds, some of them cut, that ask for random moves.
std::vector<testing::TestPacket> packets_with_moves(Prng& prng) {
  std::vector<testing::TestPacket> packets = testing::random_packets(prng, 1 + prng.below(40));
  for (testing::TestPacket& packet : packets) {
    if (packet.bytes.size() < 2) continue;
    for (uint32_t i = 0; i < 2; i++) packet.bytes[i] = static_cast<std::byte>(prng.below(256));
  }
  return packets;
}

/// Returns the frame as it was on the wire.
Frame whole(const testing::TestPacket& packet) {
  Frame frame = packet.bytes;
  if (packet.wire_bytes > frame.size()) frame.resize(packet.wire_bytes);
  return frame;
}

/// Returns the packet as Mover forwards it. The end that the capture lacks stays away.
testing::TestPacket moved(const testing::TestPacket& packet) {
  const Frame frame = whole(packet);
  const size_t cut_bytes = frame.size() - packet.bytes.size();
  testing::TestPacket result{.at_ns = packet.at_ns, .bytes = moved(frame)};
  if (cut_bytes == 0) return result;
  result.wire_bytes = static_cast<uint32_t>(result.bytes.size());
  result.bytes.resize(result.bytes.size() - std::min(result.bytes.size(), cut_bytes));
  return result;
}

TEST(MovedHeads, AreTheSameOnBothMachines) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  const testing::ScratchDirectory scratch;
  const std::string in = scratch.path() / "in.pcap", out = scratch.path() / "out.pcap";
  const CaptureProgram program = capture_program_of<Mover>();
  for (uint32_t round = 0; round < 50; round++) {
    std::vector<testing::TestPacket> packets = packets_with_moves(prng);
    testing::write_capture(in, packets);
    for (testing::TestPacket& packet : packets) packet = moved(packet);
    for (const bool on_model : {false, true}) {
      RunRequest request{.in = in, .out = out};
      if (on_model) request.model = engine::Parameters();
      const auto end = program.run(*program.settings().read({}, ""), request);
      ASSERT_TRUE(end);
      ASSERT_EQ(testing::read_capture(out), packets) << (on_model ? "model" : "live");
    }
  }
}

TEST(MovedHeads, AreTheSameUnderInterleavings) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t round = 0; round < 50; round++) {
    std::vector<Frame> frames;
    for (const testing::TestPacket& packet : packets_with_moves(prng))
      frames.push_back(whole(packet));
    const auto program = testing::make_program<Mover>();
    std::vector<Frame> passed = testing::run_interleaved(**program, frames, prng.any_u64());
    for (Frame& frame : frames) frame = moved(frame);
    std::sort(frames.begin(), frames.end());
    std::sort(passed.begin(), passed.end());
    ASSERT_EQ(passed, frames);
  }
}

}  // namespace
}  // namespace tributary::programs
