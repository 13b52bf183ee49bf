// SPDX-License-Identifier: Apache-2.0
// Method: a child process ends by each kind of bug; its last events are in the file.
#include "recorder/abnormal_end.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/assert.h"
#include "recorder/recording.h"
#include "tests/support/scratch_directory.h"

namespace tributary::recorder {
namespace {

/// Records two events, of which one stays open, and fails.
template <class Failure>
[[noreturn]] void fail_while_recording(const std::string& path, Failure fail) {
  FlightRecorder recorder({.name = "rack1", .events = 64});
  Writer* const writer = recorder.add_writer(0);
  const AbnormalEnd armed(recorder, path);
  writer->note({.kind = Kind::kSessionStarted, .job = 1}, Instant());
  writer->add(Kind::kArrived, 1, 2, 77, Instant(nanoseconds(1)));
  fail();
  std::_Exit(0);
}

void expect_events_in(const std::string& path, uint32_t signal) {
  const auto recording = read_recording_file(path);
  ASSERT_TRUE(recording.has_value()) << recording.error().text;
  EXPECT_EQ(recording->problem, "");
  EXPECT_EQ(recording->header.cause, Cause::kAbnormalEnd);
  EXPECT_EQ(recording->header.signal, signal);
  ASSERT_EQ(recording->event_count(), 2U);
  EXPECT_EQ(recording->sections[0].events[1].block, 77U);
  EXPECT_TRUE(recording->sections[0].events[1].open);
}

TEST(AbnormalEnd, FailedAssertionLeavesTheLastEvents) {
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.path() / "a.trec";
  EXPECT_EXIT(fail_while_recording(path, [] { TRIB_ASSERT(1 + 1 == 3); }),
              ::testing::KilledBySignal(SIGABRT), "signal 6: the last events are in .*a.trec");
  expect_events_in(path, SIGABRT);
}

TEST(AbnormalEnd, SignalOfABugLeavesThemToo) {
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.path() / "b.trec";
  // Not SIGSEGV or SIGBUS: the address sanitizer has handlers of its own for them.
  EXPECT_EXIT(fail_while_recording(path, [] { std::raise(SIGILL); }),
              ::testing::KilledBySignal(SIGILL), "signal 4: the last events are in .*b.trec");
  expect_events_in(path, SIGILL);
}

TEST(AbnormalEnd, FullDiskIsOneLine) {
  const testing::ScratchDirectory scratch;
  // A limit on the size of files stands for the full disk.
  const auto fail = [] {
    static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
    const rlimit limit{.rlim_cur = 512, .rlim_max = 512};
    static_cast<void>(setrlimit(RLIMIT_FSIZE, &limit));
    std::abort();
  };
  EXPECT_EXIT(fail_while_recording(scratch.path() / "f.trec", fail),
              ::testing::KilledBySignal(SIGABRT),
              "signal 6: cannot write the last events to .*f.trec, error 27");  // EFBIG.
}

TEST(AbnormalEnd, PipeInItsPlaceHoldsNobody) {
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.path() / "pipe.trec";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EXIT(fail_while_recording(path, [] { std::abort(); }), ::testing::KilledBySignal(SIGABRT),
              "signal 6: cannot write the last events to .*pipe.trec, error 17");  // EEXIST.
}

TEST(AbnormalEnd, OtherNameOfTheOldFileKeepsItsContent) {
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.path() / "a.trec";
  const std::string victim = scratch.file("victim", "precious");
  std::filesystem::create_hard_link(victim, path);
  EXPECT_EXIT(fail_while_recording(path, [] { std::abort(); }), ::testing::KilledBySignal(SIGABRT),
              "signal 6: the last events are in .*a.trec");
  expect_events_in(path, SIGABRT);
  EXPECT_EQ(std::filesystem::file_size(victim), 8U);
}

/// Expects a recording of an operator's signal with this number of events.
void expect_signal_in(const std::string& path, uint32_t signal, uint64_t events) {
  const auto recording = read_recording_file(path);
  ASSERT_TRUE(recording.has_value()) << recording.error().text;
  EXPECT_EQ(recording->header.cause, Cause::kSignal);
  EXPECT_EQ(recording->header.signal, signal);
  EXPECT_EQ(recording->event_count(), events);
}

TEST(AbnormalEnd, SignalOfAnOperatorLeavesAFileAndTheProcessGoesOn) {
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.path() / "signal.trec";
  FlightRecorder recorder({.events = 64});
  Writer* const writer = recorder.add_writer(0);
  const AbnormalEnd armed(recorder, scratch.path() / "bug.trec", path);
  for (uint64_t events = 1; events <= 2; events++) {  // The newest file stays.
    writer->note({.kind = Kind::kSessionStarted, .job = 1}, Instant());
    std::raise(SIGUSR2);
    expect_signal_in(path, SIGUSR2, events);
  }
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "bug.trec"));
}

TEST(AbnormalEnd, TerminationLeavesAFile) {
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.path() / "end.trec";
  const auto terminate = [&] {
    FlightRecorder recorder({.events = 64});
    recorder.add_writer(0)->note({.kind = Kind::kSessionStarted, .job = 1}, Instant());
    const AbnormalEnd armed(recorder, "/nowhere", path);
    std::raise(SIGTERM);
    std::_Exit(0);
  };
  EXPECT_EXIT(terminate(), ::testing::KilledBySignal(SIGTERM), "signal 15: .*end.trec");
  expect_signal_in(path, SIGTERM, 1);
}

int handled = 0;

// A library must not take signals away from its program.
TEST(AbnormalEnd, HandlersOfTheProgramStay) {
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.path() / "signal.trec";
  const FlightRecorder recorder({.events = 64});
  const auto count = [](int) { handled++; };
  handled = 0;
  auto* const before = std::signal(SIGTERM, count);
  {
    const AbnormalEnd armed(recorder, "/nowhere", path);
    std::raise(SIGTERM);
    EXPECT_EQ(handled, 1);  // After the file.
    expect_signal_in(path, SIGTERM, 0);
    std::raise(SIGTERM);
    EXPECT_EQ(handled, 2);
    std::signal(SIGUSR2, count);  // The program's own, from now on.
  }
  std::raise(SIGTERM);
  EXPECT_EQ(handled, 3);
  std::raise(SIGUSR2);
  EXPECT_EQ(handled, 4);
  std::signal(SIGUSR2, SIG_DFL);
  std::signal(SIGTERM, before);
}

// The recording is so large (32 MB) that the handler still writes when the file appears.
TEST(AbnormalEnd, EndWaitsForTheThreadThatWritesTheFile) {
  constexpr uint64_t kEvents = 1'000'000;
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.path() / "large.trec";
  auto recorder = std::make_unique<FlightRecorder>(RecorderConfig{.events = kEventsMax});
  Writer* const writer = recorder->add_writer(0);
  for (uint64_t i = 0; i < kEvents; i++) writer->note({.kind = Kind::kRankJoined}, Instant());
  auto armed = std::make_unique<AbnormalEnd>(*recorder, "/nowhere", path);
  std::thread signalled([] { std::raise(SIGUSR2); });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!std::filesystem::exists(path)) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
  armed.reset();
  recorder.reset();
  const auto recording = read_recording_file(path);
  ASSERT_TRUE(recording.has_value()) << recording.error().text;
  EXPECT_EQ(recording->problem, "");
  EXPECT_EQ(recording->event_count(), kEvents);
  signalled.join();
}

TEST(AbnormalEnd, OneObjectAtATimeIsArmed) {
  const FlightRecorder recorder({.events = 64});
  auto first = AbnormalEnd::arm_if_free(recorder, "/nowhere", "");
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(AbnormalEnd::arm_if_free(recorder, "/nowhere", ""), nullptr);
  first.reset();
  EXPECT_NE(AbnormalEnd::arm_if_free(recorder, "/nowhere", ""), nullptr);
}

TEST(AbnormalEnd, NothingIsWrittenAfterItsEnd) {
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.path() / "c.trec";
  const FlightRecorder recorder({.events = 64});
  { const AbnormalEnd armed(recorder, path); }
  { const AbnormalEnd armed(recorder, path); }
  EXPECT_EXIT(std::abort(), ::testing::KilledBySignal(SIGABRT), "");
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace tributary::recorder
