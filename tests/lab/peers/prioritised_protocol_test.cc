// SPDX-License-Identifier: Apache-2.0
// Method: streams that a test fills with packets, by hand and then at random. Sums through real
// aggregators are in tests/lab/scheduling_run_test.cc.
#include "lab/peers/prioritised_protocol.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

using host::Status;

constexpr uint8_t kJob = 5;

/// A stream with numbers of packets instead of tensors. Its packets' size is its priority plus 1.
class FakeStream final : public host::TensorProtocol {
 public:
  explicit FakeStream(uint32_t priority) : size_(priority + 1) {}

  uint32_t fresh = 0;    ///< New packets that the window admits.
  uint32_t repairs = 0;  ///< Go in any case.
  uint32_t taken = 0;    ///< Packets received.
  std::vector<const host::Transfer*> submitted;

  /// Ends with a failure.
  void end() { fail(Status::kPeerLeft, "gone", 0); }

  void submit(host::Transfer& transfer, Instant) override { submitted.push_back(&transfer); }
  void leave(Instant) override {}
  void fail(Status status, std::string text, uint32_t) override {
    status_ = status;
    text_ = std::move(text);
  }
  [[nodiscard]] bool accepts_from(const Endpoint& from) const override { return from.port == 1; }
  std::optional<Duration> on_packet(const host::Incoming&, Instant) override {
    taken++;
    return std::nullopt;
  }
  void hold(bool held) override { held_ = held; }
  [[nodiscard]] bool has_new_packets() const override { return fresh > 0; }
  void on_time(Instant) override {}
  [[nodiscard]] host::Outgoing next_packet(std::span<std::byte>, Instant) override {
    uint32_t& from = repairs > 0 ? repairs : fresh;
    if (from == 0 || (repairs == 0 && held_)) return {};
    from--;
    return {.size_bytes = size_, .stored_bytes = size_, .to = {}};
  }
  [[nodiscard]] Instant next_deadline() const override { return Instant::never(); }
  [[nodiscard]] Phase phase() const override {
    return status_ == Status::kOk ? Phase::kRunning : Phase::kEnded;
  }
  [[nodiscard]] Status status() const override { return status_; }
  [[nodiscard]] const std::string& status_text() const override { return text_; }
  [[nodiscard]] bool idle() const override { return fresh == 0; }
  [[nodiscard]] const host::CommunicatorCounters& counters() const override { return counters_; }
  [[nodiscard]] uint32_t packet_bytes_max() const override { return 8; }
  [[nodiscard]] uint32_t gradients() const override { return 1; }
  [[nodiscard]] uint32_t window() const override { return 16; }
  [[nodiscard]] host::Progress progress() const override { return own_progress; }

  host::Progress own_progress;

 private:
  const uint32_t size_;
  bool held_ = false;
  Status status_ = Status::kOk;
  std::string text_;
  host::CommunicatorCounters counters_;
};

/// A protocol and its streams, which it owns.
struct Bed {
  explicit Bed(uint32_t priorities) {
    std::vector<host::ProtocolFactory> factories;
    for (uint32_t i = 0; i < priorities; i++) {
      factories.emplace_back([this, i](uint64_t, Instant) {
        auto made = std::make_unique<FakeStream>(i);
        streams.push_back(made.get());
        return made;
      });
    }
    protocol = std::make_unique<PrioritisedProtocol>(factories, kJob, 1, Instant());
  }

  /// Returns the priority of the next packet, or -1.
  int next() {
    std::array<std::byte, 8> out{};
    return static_cast<int>(protocol->next_packet(out, Instant()).size_bytes) - 1;
  }
  /// Delivers a packet with this job id.
  void deliver(uint8_t job, size_t size = 12) {
    std::vector<std::byte> bytes(size);
    if (size > 0) bytes[0] = std::byte{job};
    const Endpoint from;
    protocol->on_packet({.from = from, .stored = bytes, .size_bytes = 12}, Instant());
  }

  std::vector<FakeStream*> streams;
  std::unique_ptr<PrioritisedProtocol> protocol;
};

TEST(PrioritisedProtocol, MostUrgentStreamSendsFirst) {
  Bed bed(3);
  bed.streams[2]->fresh = 3;
  EXPECT_EQ(bed.next(), 2);
  bed.streams[0]->fresh = 1;
  bed.streams[1]->fresh = 2;
  for (const int expected : {0, 1, 1, 2, 2, -1}) EXPECT_EQ(bed.next(), expected);
}

TEST(PrioritisedProtocol, StreamWithAFullWindowLetsOthersSend) {
  Bed bed(2);
  bed.streams[1]->fresh = 3;
  EXPECT_EQ(bed.next(), 1);
  bed.streams[0]->fresh = 1;  // A result has opened its window.
  for (const int expected : {0, 1, 1, -1}) EXPECT_EQ(bed.next(), expected);
}

TEST(PrioritisedProtocol, RepairsOfAHeldStreamGo) {
  Bed bed(2);
  bed.streams[0]->fresh = 2;
  bed.streams[1]->fresh = 1;
  bed.streams[1]->repairs = 1;
  for (const int expected : {0, 0, 1, 1, -1}) EXPECT_EQ(bed.next(), expected);
}

TEST(PrioritisedProtocol, TensorsGoToTheStreamOfTheirPriority) {
  Bed bed(2);
  std::array<host::Transfer, 3> transfers;
  for (uint32_t i = 0; i < transfers.size(); i++) {
    transfers[i].priority = i;
    bed.protocol->submit(transfers[i], Instant());
  }
  EXPECT_EQ(bed.streams[0]->submitted, (std::vector<const host::Transfer*>{&transfers[0]}));
  EXPECT_EQ(bed.streams[1]->submitted,
            (std::vector<const host::Transfer*>{&transfers[1], &transfers[2]}));
}

TEST(PrioritisedProtocol, PacketsGoToTheStreamOfTheirJob) {
  Bed bed(2);
  bed.deliver(kJob + 1);
  EXPECT_EQ(bed.streams[1]->taken, 1U);
  // The first stream counts packets that belong to no stream.
  bed.deliver(kJob);
  bed.deliver(kJob - 1);
  bed.deliver(kJob + 2);
  bed.deliver(kJob, /*size=*/0);
  EXPECT_EQ(bed.streams[0]->taken, 4U);
  EXPECT_EQ(bed.streams[1]->taken, 1U);
}

TEST(PrioritisedProtocol, FirstEndEndsAllAndIsNamed) {
  Bed bed(3);
  bed.streams[1]->end();
  bed.protocol->on_time(Instant());
  EXPECT_EQ(bed.protocol->phase(), host::TensorProtocol::Phase::kEnded);
  EXPECT_EQ(bed.protocol->status(), Status::kPeerLeft);
  EXPECT_EQ(bed.protocol->status_text(), "priority 1: gone");
  EXPECT_EQ(bed.streams[0]->status(), Status::kPeerLeft);
  EXPECT_EQ(bed.streams[2]->status_text(), "priority 1: gone");
}

TEST(PrioritisedProtocol, ProgressIsTheStreamFurthestBehind) {
  Bed bed(3);
  bed.streams[0]->own_progress = {.submitted = 9, .heard = 4};
  bed.streams[1]->own_progress = {.submitted = 3, .heard = 5};
  bed.streams[2]->own_progress = {.submitted = 7, .heard = 8};
  EXPECT_EQ(bed.protocol->progress().submitted, 3U);
  EXPECT_EQ(bed.protocol->progress().heard, 5U);
}

TEST(PrioritisedProtocol, RandomPacketsLeaveInOrderOfPriority) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t step = 0; step < 200; step++) {
    Bed bed(1 + prng.below(host::kPrioritiesMax));
    for (uint32_t round = 0; round < 30; round++) {
      if (prng.below(2) == 0)
        bed.streams[prng.below(static_cast<uint32_t>(bed.streams.size()))]->fresh += prng.below(4);
      int expected = -1;
      for (size_t i = bed.streams.size(); i-- > 0;) {
        if (bed.streams[i]->fresh > 0) expected = static_cast<int>(i);
      }
      ASSERT_EQ(bed.next(), expected) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace tributary::lab
