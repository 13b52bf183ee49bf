// SPDX-License-Identifier: Apache-2.0
// Method: the same coroutines on two minimal machines. Transactions of the first are ready at once.
// The second stops at each transaction, and the test drives it by hand. After every thread the
// frame pool must be full.
#include "microcode/thread.h"

#include <gtest/gtest.h>

#include <array>
#include <concepts>
#include <deque>
#include <memory>
#include <vector>

#include "microcode/frame_pool.h"

namespace tributary::microcode {
namespace {

constexpr uint32_t kFrames = kCallDepthMax + 1;

/// Every reply is ready at once.
class LiveStyle {
 public:
  static constexpr bool kSuspends = false;
  FramePool& frame_pool() { return frames_; }
  static Ready<int> ask(int reply) { return Ready<int>(reply); }
  void finish() {}

 private:
  FramePool frames_{kFrames};
};

/// Runs one thread. Each serve() replies to the oldest open question.
class SteppingStyle {
 public:
  static constexpr bool kSuspends = true;

  class Question {
   public:
    Question(SteppingStyle& machine, int reply) : machine_(machine), reply_(reply) {
      machine_.open_.push_back(this);
    }
    Question(const Question&) = delete;
    Question& operator=(const Question&) = delete;
    [[nodiscard]] bool await_ready() const { return served_; }
    void await_suspend(std::coroutine_handle<>) {
      awaited_ = true;
      machine_.control_.set_waiting(true);
    }
    [[nodiscard]] int await_resume() const { return reply_; }

   private:
    friend class SteppingStyle;
    SteppingStyle& machine_;
    int reply_;
    bool served_ = false;
    bool awaited_ = false;
  };

  FramePool& frame_pool() { return frames_; }
  ThreadControl& thread_control() { return control_; }
  Question ask(int reply) { return Question(*this, reply); }

  void serve() {
    Question& question = *open_.front();
    open_.pop_front();
    question.served_ = true;
    if (question.awaited_) control_.set_waiting(false);
  }
  /// Runs the thread to its end.
  void finish() {
    while (!control_.finished()) {
      if (control_.waiting()) {
        serve();
      } else {
        control_.run();
      }
    }
  }
  [[nodiscard]] size_t open_count() const { return open_.size(); }

 private:
  FramePool frames_{kFrames};
  ThreadControl control_;
  std::deque<Question*> open_;
};

// --- Programs ------------------------------------------------------------------------------------

template <class M>
Subroutine<int, M> doubled(M& m, int value) {
  const int reply = co_await m.ask(value);
  co_return 2 * reply;
}

template <class M>
Subroutine<void, M> append(M& m, std::vector<int>& to, int value) {
  const int twice = co_await doubled(m, value);
  to.push_back(twice);
}

template <class M>
Thread append_three(M& m, std::vector<int>& to) {
  for (int value = 1; value <= 3; value++) co_await append(m, to, value);
  to.push_back(0);
}

/// Calls itself until it is `depth` calls deep. Asks a question at the bottom and on the way up.
template <class M>
Subroutine<int, M> nested(M& m, int depth) {
  int below = 0;
  if (depth > 1) below = co_await nested(m, depth - 1);
  const int own = co_await m.ask(depth);
  co_return below + own;
}

template <class M>
Thread start_nested(M& m, int depth, int& sum) {
  sum = co_await nested(m, depth);
}

/// Never asks a question: there is no suspension between call and return.
template <class M>
Subroutine<std::unique_ptr<int>, M> boxed(M&, int value) {
  co_return std::make_unique<int>(value);
}

template <class M>
Thread unbox(M& m, int& to) {
  const std::unique_ptr<int> box = co_await boxed(m, 7);
  to = *box;
}

/// As aligned as a record of shared memory.
struct alignas(kFrameAlignment) CacheLine {
  std::array<int, 16> words{};
};

template <class M>
Subroutine<int, M> keep_cache_line(M& m) {
  CacheLine line;
  line.words[3] = co_await m.ask(5);
  const bool aligned = reinterpret_cast<uintptr_t>(&line) % alignof(CacheLine) == 0;
  const int more = co_await m.ask(1);
  co_return aligned ? line.words[3] + more : 0;
}

template <class M>
Thread call_keep_cache_line(M& m, int& to) {
  to = co_await keep_cache_line(m);
}

template <class M>
Thread do_nothing(M&) {
  co_return;
}

template <class M>
Thread ask_two_join_later(M& m, std::vector<int>& to) {
  auto first = m.ask(10);
  auto second = m.ask(20);
  to.push_back(1);  // Runs on while both are open.
  const int second_reply = co_await second;
  const int first_reply = co_await first;  // Already answered.
  to.push_back(second_reply);
  to.push_back(first_reply);
}

template <class M>
Subroutine<int, M> throws(M& m) {
  const int reply = co_await m.ask(1);
  if (reply == 1) throw reply;
  co_return reply;
}

template <class M>
Thread call_throws(M& m, int& to) {
  to = co_await throws(m);
}

/// Keeps more state between two transactions than a PPE thread has memory for.
template <class M>
Thread keep_too_much(M& m, int& sum) {
  std::array<int, kSuspendingFrameBytesMax / sizeof(int)> kept;
  for (int i = 0; int& value : kept) value = i++ + co_await m.ask(1);
  for (const int value : kept) sum += co_await m.ask(value);
}

// --- On both machines ----------------------------------------------------------------------------

template <class M>
class ThreadTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(m_.frame_pool().free_count(), kFrames); }
  M m_;
};
using Machines = ::testing::Types<LiveStyle, SteppingStyle>;
TYPED_TEST_SUITE(ThreadTest, Machines);

TYPED_TEST(ThreadTest, ThreadRunsToItsEnd) {
  do_nothing(this->m_);
  this->m_.finish();
}

TYPED_TEST(ThreadTest, VoidAndValueSubroutinesReturnInOrder) {
  std::vector<int> values;
  append_three(this->m_, values);
  this->m_.finish();
  EXPECT_EQ(values, (std::vector<int>{2, 4, 6, 0}));
}

TYPED_TEST(ThreadTest, ResultMayBeMovable) {
  int value = 0;
  unbox(this->m_, value);
  this->m_.finish();
  EXPECT_EQ(value, 7);
}

TYPED_TEST(ThreadTest, LocalsMayBeCacheLineAligned) {
  int value = 0;
  call_keep_cache_line(this->m_, value);
  this->m_.finish();
  EXPECT_EQ(value, 6);
}

TYPED_TEST(ThreadTest, CallsNestUpToEightDeep) {
  for (int depth = 1; depth <= static_cast<int>(kCallDepthMax); depth++) {
    int sum = 0;
    start_nested(this->m_, depth, sum);
    this->m_.finish();
    EXPECT_EQ(sum, depth * (depth + 1) / 2) << depth;
    EXPECT_EQ(this->m_.frame_pool().free_count(), kFrames) << depth;
  }
}

TYPED_TEST(ThreadTest, ConsecutiveThreadsReuseFrames) {
  for (int i = 0; i < 1000; i++) {
    std::vector<int> values;
    append_three(this->m_, values);
    this->m_.finish();
    ASSERT_EQ(values.size(), 4U);
  }
}

TYPED_TEST(ThreadTest, TransactionsMayBeAwaitedLater) {
  std::vector<int> values;
  ask_two_join_later(this->m_, values);
  this->m_.finish();
  EXPECT_EQ(values, (std::vector<int>{1, 20, 10}));
}

template <class M>
class ThreadDeathTest : public ThreadTest<M> {};
TYPED_TEST_SUITE(ThreadDeathTest, Machines);

TYPED_TEST(ThreadDeathTest, ExceptionStopsTheProcess) {
  const auto call = [] {
    TypeParam m;
    int value = 0;
    call_throws(m, value);
    m.finish();
  };
  EXPECT_DEATH(call(), "no exception leaves a coroutine");
}

// --- Suspension ----------------------------------------------------------------------------------

TEST(SuspendingThread, SuspendsAtEachTransaction) {
  SteppingStyle m;
  std::vector<int> values;
  append_three(m, values);
  ThreadControl& control = m.thread_control();
  // Started, but not one instruction has run.
  EXPECT_FALSE(control.finished());
  EXPECT_FALSE(control.waiting());
  EXPECT_EQ(m.open_count(), 0U);

  for (int i = 0; i < 3; i++) {
    control.run();
    EXPECT_TRUE(control.waiting());
    EXPECT_EQ(control.call_depth(), 2U);  // append() and doubled().
    EXPECT_EQ(values.size(), static_cast<size_t>(i));
    m.serve();
    EXPECT_FALSE(control.waiting());
    EXPECT_EQ(values.size(), static_cast<size_t>(i));  // Served, but the thread has not run yet.
  }
  control.run();
  EXPECT_TRUE(control.finished());
  EXPECT_EQ(values, (std::vector<int>{2, 4, 6, 0}));
  EXPECT_EQ(m.frame_pool().free_count(), kFrames);
}

TEST(SuspendingThread, AsynchronousTransactionDoesNotSuspend) {
  SteppingStyle m;
  std::vector<int> values;
  ask_two_join_later(m, values);
  m.thread_control().run();
  EXPECT_EQ(values, (std::vector<int>{1}));  // Ran on to the first join.
  EXPECT_EQ(m.open_count(), 2U);
  m.serve();  // The first one, for which the thread does not wait yet.
  EXPECT_TRUE(m.thread_control().waiting());
  m.serve();
  EXPECT_FALSE(m.thread_control().waiting());
  m.thread_control().run();
  EXPECT_TRUE(m.thread_control().finished());
  EXPECT_EQ(values, (std::vector<int>{1, 20, 10}));
}

// Both limits hold on a suspending machine. On the other kind, Clang keeps the frames of calls that
// end at once in the caller's frame or on the stack, where nothing counts them.

TEST(SuspendingThreadDeathTest, RejectsANinthNestedCall) {
  const auto call_nine = [] {
    SteppingStyle m;
    int sum = 0;
    start_nested(m, static_cast<int>(kCallDepthMax) + 1, sum);
    m.finish();
  };
  EXPECT_DEATH(call_nine(), "subroutines nest at most eight levels deep");
}

TEST(SuspendingThreadDeathTest, RejectsAFrameLargerThanLocalMemory) {
  const auto call = [] {
    SteppingStyle m;
    int sum = 0;
    keep_too_much(m, sum);
    m.finish();
  };
  EXPECT_DEATH(call(), "the packet program keeps 1[0-9]+ bytes across its XTXNs; allowed: at most");
}

/// Keeps less than a PPE thread's memory at each moment. g++ gives each variable a place of its own
/// in the frame, as it does with the requests of a program that issues many transactions.
template <class M>
Thread keep_in_turns(M& m, int& sum) {
  {
    std::array<int, kFrameBytesMax / 2 / sizeof(int)> kept{1};
    sum += co_await m.ask(1) + kept[0];
  }
  {
    std::array<int, kFrameBytesMax / 2 / sizeof(int)> kept{2};
    sum += co_await m.ask(2) + kept[0];
  }
  std::array<int, kFrameBytesMax / 2 / sizeof(int)> kept{3};
  sum += co_await m.ask(3) + kept[0];
}

TEST(SuspendingThread, FrameMayExceedLocalMemory) {
  SteppingStyle m;
  int sum = 0;
  keep_in_turns(m, sum);
  m.finish();
  EXPECT_EQ(sum, 12);
  EXPECT_EQ(m.frame_pool().free_count(), kFrames);
}

// --- The pool itself -----------------------------------------------------------------------------

TEST(FramePool, ReturnsDistinctFramesAndReusesThem) {
  FramePool pool(3);
  EXPECT_EQ(pool.free_count(), 3U);
  std::vector<void*> frames;
  for (int i = 0; i < 3; i++) frames.push_back(pool.take(kFrameBytesMax));
  EXPECT_EQ(pool.free_count(), 0U);
  for (void* frame : frames) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(frame) % kFrameAlignment, 0U);
    std::fill_n(static_cast<std::byte*>(frame), kFrameBytesMax, std::byte{0xff});
  }
  for (void* frame : frames) FramePool::give_back(frame);
  EXPECT_EQ(pool.free_count(), 3U);
  void* again = pool.take(1);
  EXPECT_EQ(again, frames.back());  // Last in, first out: the frame is still in cache.
  FramePool::give_back(again);
}

TEST(FramePool, FrameReturnsToItsOwnPool) {
  FramePool a(1);
  FramePool b(1);
  void* frame = a.take(64);
  FramePool::give_back(frame);
  EXPECT_EQ(a.free_count(), 1U);
  EXPECT_EQ(b.free_count(), 1U);
}

TEST(FramePoolDeathTest, RejectsEmptyAndOversizedFrames) {
  const auto take_two = [] {
    FramePool pool(1);
    void* first = pool.take(8);
    void* second = pool.take(8);
    EXPECT_NE(first, second);
  };
  EXPECT_DEATH(take_two(), "first_free_");
  const auto take_large = [] {
    FramePool pool(1);
    EXPECT_NE(pool.take(kFrameBytesMax + 1), nullptr);
  };
  EXPECT_DEATH(take_large(), "keeps 1537 bytes across its XTXNs; allowed: at most 1536");
}

TEST(FramePool, LargeFramesComeFromTheHeap) {
  FramePool pool(1);
  void* const large = pool.take(kSuspendingFrameBytesMax, kSuspendingFrameBytesMax);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % kFrameAlignment, 0U);
  std::fill_n(static_cast<std::byte*>(large), kSuspendingFrameBytesMax, std::byte{0xff});
  EXPECT_EQ(pool.free_count(), 1U);
  FramePool::give_back(large);
  EXPECT_EQ(pool.free_count(), 1U);
}

}  // namespace
}  // namespace tributary::microcode
