// SPDX-License-Identifier: Apache-2.0
// Method: a recording of known events is read back; then files that are cut, damaged or foreign, a
//         writer that goes on while it is copied, and random bytes.
#include "recorder/recording.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "recorder/flight_recorder.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/seed.h"

namespace tributary::recorder {
namespace {

constexpr Instant kNow{microseconds(5)};
constexpr uint32_t kEvents = 64;

RecorderConfig example() {
  RecorderConfig config{.name = "rack1", .events = kEvents};
  add_label(config.labels, Domain::kOutcome, 7, "late");
  add_label(config.labels, Domain::kReason, 3, "wrong_world");
  return config;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

Recording read(const std::string& text) {
  const auto recording = read_recording(bytes_of(text));
  EXPECT_TRUE(recording.has_value()) << recording.error().text;
  return *recording;
}

/// Refuses bytes behind a limit, as a full disk does.
class FullSink final : public Sink {
 public:
  explicit FullSink(size_t bytes_max) : left_(bytes_max) {}
  bool put(std::span<const std::byte> bytes) override {
    if (bytes.size() > left_) return false;
    left_ -= bytes.size();
    return true;
  }

 private:
  size_t left_;
};

/// Lets a writer go on while its recording is written: it puts an event before each part.
class BusySink final : public Sink {
 public:
  explicit BusySink(Writer& writer) : writer_(writer) {}
  bool put(std::span<const std::byte> bytes) override {
    writer_.note({.kind = Kind::kRankJoined}, kNow);
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  }
  std::string text;

 private:
  Writer& writer_;
};

TEST(Recording, HoldsTheEventsOfEveryWriterAndTheirTexts) {
  FlightRecorder recorder(example());
  Writer* const first = recorder.add_writer(0);
  Writer* const second = recorder.add_writer(kWatchTrack);
  first->add(Kind::kArrived, 1, 2, 100, kNow);
  first->note({.kind = Kind::kRefused, .detail = 7, .job = 1, .rank = 2, .block = 9, .count = 1},
              kNow);
  first->add(Kind::kArrived, 1, 3, 101, kNow);  // Stays open.
  second->note({.kind = Kind::kStalled, .job = 1, .rank = 2, .block = 9, .count = 1, .value = 77},
               kNow + seconds(1));
  second->leave_out();

  const Recording recording = read(recording_of(recorder, Cause::kSignal));
  EXPECT_EQ(recording.problem, "");
  EXPECT_EQ(recording.title(), "server rack1");
  EXPECT_EQ(recording.header.cause, Cause::kSignal);
  ASSERT_EQ(recording.sections.size(), 2U);
  const Section& core = recording.sections[0];
  EXPECT_EQ(recording.track_of(core), "core 0");
  EXPECT_EQ(recording.track_of(recording.sections[1]), "watch");
  ASSERT_EQ(core.events.size(), 3U);
  EXPECT_EQ(core.events[0].block, 100U);
  EXPECT_EQ(recording.detail_of(core.events[1]), "late");
  EXPECT_TRUE(core.events[2].open);
  EXPECT_EQ(core.lost, 0U);
  EXPECT_EQ(recording.sections[1].events[0].value, 77U);
  EXPECT_EQ(recording.left_out(), 1U);
}

/// Returns the clock that a recorder of this process names.
std::array<char, 40> clock_of_this_process() {
  const FlightRecorder recorder({.events = 64});
  return read(recording_of(recorder, Cause::kCommand)).header.boot;
}

TEST(Recording, ProcessesOfOneTimeNamespaceNameOneClock) {
  const auto clock = clock_of_this_process();
  EXPECT_EQ(clock, clock_of_this_process());
  if (clock[0] == '\0') GTEST_SKIP() << "the kernel tells no boot id";
  EXPECT_EQ(clock[kTimeNamespaceAt - 1], '\0');  // Ends the text.
}

TEST(Recording, ProcessOfAnotherTimeNamespaceNamesAnotherClock) {
  const auto clock = clock_of_this_process();
  if (clock[0] == '\0') GTEST_SKIP() << "the kernel tells no boot id";
  // unshare() moves the children of the calling thread. Exit codes: 0 and 1 for the answer, 2 for
  // none.
  const auto ask = [&] {
    if (::unshare(CLONE_NEWTIME) != 0) std::_Exit(2);
    const pid_t child = ::fork();
    if (child == 0) std::_Exit(clock_of_this_process() == clock ? 1 : 0);
    int status = 0;
    if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) std::_Exit(1);
    std::_Exit(WEXITSTATUS(status));
  };
  const pid_t process = ::fork();
  ASSERT_GE(process, 0);
  if (process == 0) ask();
  int status = 0;
  ASSERT_EQ(::waitpid(process, &status, 0), process);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "only root may make a time namespace";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Recording, StatesHowManyEventsWereOverwritten) {
  FlightRecorder recorder(example());
  Writer* const writer = recorder.add_writer(0);
  for (uint32_t i = 0; i < 100; i++) {
    writer->note({.kind = Kind::kRankJoined, .value = i}, kNow);
  }
  const Recording recording = read(recording_of(recorder, Cause::kCommand));
  const Section& core = recording.sections[0];
  EXPECT_EQ(core.recorded, 100U);
  // 64 slots, of which the oldest may be half overwritten.
  ASSERT_EQ(core.events.size(), 63U);
  EXPECT_EQ(core.lost, 37U);
  EXPECT_EQ(core.events.front().value, 37U);
  EXPECT_EQ(core.events.back().value, 99U);
}

TEST(Recording, WriterGoesOnWhileItIsCopied) {
  FlightRecorder recorder(example());
  Writer* const writer = recorder.add_writer(0);
  std::atomic<bool> ends{false};
  std::thread thread([&] {
    for (uint64_t i = 0; !ends.load(); i++) {
      writer->note({.kind = Kind::kRankJoined, .value = i}, Instant(nanoseconds(int64_t(i))));
    }
  });
  for (uint32_t round = 0; round < 200; round++) {
    const Recording recording = read(recording_of(recorder, Cause::kCommand));
    const Section& core = recording.sections[0];
    EXPECT_EQ(core.damaged, 0U);
    EXPECT_EQ(core.lost + core.events.size(), core.recorded);
    for (const Event& event : core.events) {
      ASSERT_EQ(static_cast<uint64_t>(event.at_ns), event.value);
    }
  }
  ends.store(true);
  thread.join();
}

TEST(Recording, EventsPutDuringTheCopyAreNotLost) {
  FlightRecorder recorder(example());
  Writer* const writer = recorder.add_writer(0);
  for (uint32_t i = 0; i < 10; i++) writer->note({.kind = Kind::kRankJoined, .value = i}, kNow);
  BusySink sink(*writer);
  ASSERT_TRUE(recorder.write(Cause::kCommand, sink));
  EXPECT_GT(writer->ring().put_count(), 12U);
  // The file header and the labels come first, so the copy begins with 12 events in the ring.
  const Recording recording = read(sink.text);
  EXPECT_EQ(recording.sections[0].recorded, 12U);
  EXPECT_EQ(recording.event_count(), 12U);
  EXPECT_EQ(recording.lost(), 0U);
}

TEST(Recording, FileThatEndsEarlyIsReadAsFarAsItGoes) {
  FlightRecorder recorder(example());
  Writer* const writer = recorder.add_writer(0);
  for (uint32_t i = 0; i < 10; i++) writer->note({.kind = Kind::kRankJoined, .value = i}, kNow);
  const std::string whole = recording_of(recorder, Cause::kCommand);
  const size_t entries_at = sizeof(FileHeader) + 2 * sizeof(Label) + sizeof(SectionHeader);
  const Recording half = read(whole.substr(0, entries_at + 4 * sizeof(Words) + 5));
  EXPECT_NE(half.problem.find("ends early"), std::string::npos);
  EXPECT_EQ(half.sections[0].events.size(), 4U);
  EXPECT_EQ(half.sections[0].lost, 6U);
  for (size_t size = sizeof(FileHeader); size < whole.size(); size++) {
    EXPECT_NE(read(whole.substr(0, size)).problem, "") << size;
  }
}

TEST(Recording, ForeignBytesAreRefused) {
  const std::string text(1000, 'x');
  EXPECT_FALSE(read_recording(bytes_of(text)).has_value());
  EXPECT_FALSE(read_recording({}).has_value());
  std::string other = recording_of(FlightRecorder(example()), Cause::kCommand);
  other[8] = 9;
  const auto refused = read_recording(bytes_of(other));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().text, "has format version 9; this program reads version 1");
}

TEST(Recording, CountsOfTheFileDoNotAllocate) {
  std::string text = recording_of(FlightRecorder(example()), Cause::kCommand);
  FileHeader header;
  std::memcpy(&header, text.data(), sizeof header);
  header.section_count = kSectionsMax + 1;
  std::memcpy(text.data(), &header, sizeof header);
  EXPECT_FALSE(read_recording(bytes_of(text)).has_value());
  header.section_count = 1;
  std::memcpy(text.data(), &header, sizeof header);
  const SectionHeader section{.capacity = kEventsMax, .count = kEventsMax};
  text.append(reinterpret_cast<const char*>(&section), sizeof section);
  const Recording recording = read(text);
  EXPECT_NE(recording.problem, "");
  EXPECT_EQ(recording.event_count(), 0U);
}

TEST(Recording, FileThatDoesNotExistIsNamed) {
  const auto refused = read_recording_file("/nonexistent/a.trec");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().text, "/nonexistent/a.trec: No such file or directory");
}

TEST(Recording, FileWithoutAnEndIsRefusedByItsBeginning) {
  const auto refused = read_recording_file("/dev/zero");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text, "/dev/zero: is not a recording of tributary");
}

TEST(Recording, SinkThatIsFullEndsTheWriting) {
  FlightRecorder recorder(example());
  static_cast<void>(recorder.add_writer(0));
  for (size_t bytes_max = 0; bytes_max < 200; bytes_max += 50) {
    FullSink sink(bytes_max);
    EXPECT_FALSE(recorder.write(Cause::kCommand, sink));
  }
}

TEST(Recording, RandomDamageNeverBreaksTheReader) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  FlightRecorder recorder(example());
  Writer* const writer = recorder.add_writer(0);
  for (uint32_t i = 0; i < 100; i++) writer->add(Kind::kArrived, 1, i % 3, i, kNow);
  writer->flush();
  const std::string whole = recording_of(recorder, Cause::kCommand);
  for (uint32_t step = 0; step < 5'000; step++) {
    std::string text = whole.substr(0, prng.below(static_cast<uint32_t>(whole.size()) + 1));
    for (uint32_t i = prng.below(6); i > 0 && !text.empty(); i--) {
      text[prng.below(static_cast<uint32_t>(text.size()))] = static_cast<char>(prng.below(256));
    }
    const auto recording = read_recording(bytes_of(text));
    if (!recording) continue;
    ASSERT_LE(recording->event_count(), text.size() / sizeof(Words)) << "step " << step;
  }
}

}  // namespace
}  // namespace tributary::recorder
