// SPDX-License-Identifier: Apache-2.0
/// @file
/// The two coroutine types of a packet program: Thread, which a PPE runs for a packet or a timer,
/// and Subroutine<T>, which a thread calls. Both take the machine as their first parameter and get
/// their frame from its pool.
///
/// Model:   With `kSuspends = false` (live) every co_await is ready at compile time. A thread runs
///          to its end inside the call that starts it. With `kSuspends = true` (modelled) a thread
///          starts suspended; see ThreadControl.
/// Threads: A thread belongs to the engine thread that started it.
/// Errors:  A call deeper than kCallDepthMax or an exception stops the process. Without suspension
///          Clang may put a subroutine's frame into its caller's; such a call is not counted.
/// Tests:   tests/microcode/thread_test.cc
#pragma once

#include <array>
#include <coroutine>
#include <cstdint>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "microcode/frame_pool.h"
#include "microcode/rule.h"

namespace tributary::microcode {

/// Drives one thread on a suspending machine: holds the stack of its coroutines and whether it
/// waits. The machine resumes the innermost coroutine, one step at a time. No coroutine ever
/// resumes another: without optimisation and under sanitizers, g++ 12 turns such symmetric transfer
/// into a growing stack.
class ThreadControl {
 public:
  /// Resumes the innermost coroutine until the thread waits or ends.
  /// @pre !finished() and !waiting().
  void run() {
    TRIB_ASSERT(depth_ > 0 && !waiting_);
    while (depth_ > 0 && !waiting_) stack_[depth_ - 1].resume();
  }
  [[nodiscard]] bool finished() const { return depth_ == 0; }
  [[nodiscard]] bool waiting() const { return waiting_; }
  void set_waiting(bool waiting) { waiting_ = waiting; }
  /// Returns the current nesting of subroutines; 0 in the thread itself.
  [[nodiscard]] uint32_t call_depth() const { return depth_ == 0 ? 0 : depth_ - 1; }

  void push(std::coroutine_handle<> coroutine) {
    TRIB_REQUIRE(depth_ <= kCallDepthMax, rule::kCallDepth);
    stack_[depth_++] = coroutine;
  }
  void pop() { depth_--; }

 private:
  std::array<std::coroutine_handle<>, kCallDepthMax + 1> stack_{};
  uint32_t depth_ = 0;
  bool waiting_ = false;
};

/// Allocates the frame of every coroutine of a program from the pool of the machine, which is the
/// coroutine's first parameter.
template <bool kSuspends>
struct PooledFrame {
  template <class M, class... Arguments>
  static void* operator new(size_t size_bytes, M& machine, Arguments&...) {
    constexpr uint32_t kLimit = kSuspends ? kSuspendingFrameBytesMax : kFrameBytesMax;
    return machine.frame_pool().take(size_bytes, kLimit,
                                     std::source_location::current().function_name());
  }
  static void operator delete(void* frame) noexcept { FramePool::give_back(frame); }
  [[noreturn]] static void unhandled_exception() noexcept { exception_escaped(); }
};

/// A PPE thread. The object is empty because the thread ends by itself.
struct Thread {};

/// A call in progress whose result the caller awaits. Await it exactly once, at once.
template <class T, bool kSuspends>
class SubroutineCall;

/// The return type of a subroutine: `Subroutine<T, M> name(M& machine, …)`.
template <class T, class M>
using Subroutine = SubroutineCall<T, M::kSuspends>;

template <bool kSuspends>
struct ThreadPromise;

template <>
struct ThreadPromise<false> : PooledFrame<false> {
  Thread get_return_object() { return {}; }
  static std::suspend_never initial_suspend() noexcept { return {}; }
  static std::suspend_never final_suspend() noexcept { return {}; }
  static void return_void() {}
};

template <>
struct ThreadPromise<true> : PooledFrame<true> {
  template <class M, class... Arguments>
  explicit ThreadPromise(M& machine, Arguments&...) : control(machine.thread_control()) {}

  Thread get_return_object() {
    control.push(std::coroutine_handle<ThreadPromise>::from_promise(*this));
    return {};
  }
  static std::suspend_always initial_suspend() noexcept { return {}; }
  auto final_suspend() noexcept {
    control.pop();
    return std::suspend_never{};
  }
  static void return_void() {}

  ThreadControl& control;
};

namespace detail {

/// Holds a subroutine's result for its caller; empty for void.
template <class T>
struct ResultSlot {
  std::optional<T> value;
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() { return std::move(*value); }
};
template <>
struct ResultSlot<void> {
  static void return_void() {}
  static void take() {}
};

/// The promise of a subroutine. The frame lives until the caller has taken the result.
template <class T, bool kSuspends>
struct SubroutinePromise : PooledFrame<kSuspends>, ResultSlot<T> {
  template <class M, class... Arguments>
  explicit SubroutinePromise(M& machine, Arguments&...) {
    if constexpr (kSuspends) control = &machine.thread_control();
  }
  SubroutineCall<T, kSuspends> get_return_object() {
    return SubroutineCall<T, kSuspends>(
        std::coroutine_handle<SubroutinePromise>::from_promise(*this));
  }
  static auto initial_suspend() noexcept {
    return std::conditional_t<kSuspends, std::suspend_always, std::suspend_never>{};
  }
  std::suspend_always final_suspend() noexcept {
    if constexpr (kSuspends) control->pop();
    return {};
  }

  ThreadControl* control = nullptr;
};

}  // namespace detail

template <class T, bool kSuspends>
class [[nodiscard]] SubroutineCall {
 public:
  using promise_type = detail::SubroutinePromise<T, kSuspends>;

  explicit SubroutineCall(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}
  SubroutineCall(const SubroutineCall&) = delete;
  SubroutineCall& operator=(const SubroutineCall&) = delete;
  ~SubroutineCall() {
    if constexpr (kSuspends) TRIB_REQUIRE(coroutine_.done(), rule::kAwait);
    coroutine_.destroy();
  }

  static constexpr bool await_ready() noexcept { return !kSuspends; }
  /// Makes the subroutine the innermost coroutine, so ThreadControl::run() resumes it next.
  void await_suspend(std::coroutine_handle<>) noexcept {
    coroutine_.promise().control->push(coroutine_);
  }
  T await_resume() { return coroutine_.promise().take(); }

 private:
  std::coroutine_handle<promise_type> coroutine_;
};

/// The reply of an external transaction on a non-suspending machine: always ready.
template <class T>
class [[nodiscard]] Ready {
 public:
  explicit constexpr Ready(T reply) : reply_(std::move(reply)) {}
  static constexpr bool await_ready() noexcept { return true; }
  static constexpr void await_suspend(std::coroutine_handle<>) noexcept {}
  constexpr T await_resume() { return std::move(reply_); }

 private:
  T reply_;
};
template <>
class [[nodiscard]] Ready<void> {
 public:
  static constexpr bool await_ready() noexcept { return true; }
  static constexpr void await_suspend(std::coroutine_handle<>) noexcept {}
  static constexpr void await_resume() noexcept {}
};

}  // namespace tributary::microcode

/// Selects a Thread's promise by the machine on which it starts.
template <class M, class... Arguments>
struct std::coroutine_traits<tributary::microcode::Thread, M&, Arguments...> {
  using promise_type = tributary::microcode::ThreadPromise<M::kSuspends>;
};
