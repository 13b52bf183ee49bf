// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rules that a packet program must keep, as errors state them (TRIB_REQUIRE, TRIB_REQUIRE_AT),
/// and the end of a program that lets an exception escape.
///
/// Tests: tests/microcode/thread_test.cc, tests/programs/program_rules_test.cc
#pragma once

#include <cstdint>

namespace tributary::microcode {

namespace rule {
inline constexpr char kReadHead[] = "head().read() reads bytes within the head only";
inline constexpr char kWriteHead[] = "write_head() changes bytes within the head only";
inline constexpr char kPushHead[] =
    "push_head() prepends at most 64 bytes more than were removed, to frames only";
inline constexpr char kPopHead[] = "pop_head() removes bytes of the head only, from frames only";
inline constexpr char kReadTail[] = "read_tail() reads at most 64 bytes, of frames only";
inline constexpr char kWriteTail[] =
    "write_tail() changes at most 64 bytes, within the tail, of frames only";
inline constexpr char kEndOnce[] =
    "forward() or drop() ends a packet once, and nothing changes the packet afterwards";
inline constexpr char kEndInProcess[] =
    "only process() ends a packet; forward() and drop() have none in a timer's visit()";
inline constexpr char kXtxnSize[] = "an XTXN reads or writes 1 to 2048 bytes";
inline constexpr char kXtxnTarget[] = "an XTXN has a target";
inline constexpr char kAwait[] =
    "co_await every issued XTXN and every subroutine; an XTXN without a reply is a post()";
inline constexpr char kCallDepth[] = "subroutines nest at most eight levels deep";
inline constexpr char kNoException[] = "no exception leaves a coroutine or the service of an XTXN";
}  // namespace rule

/// Stops the process because of the exception that is being handled.
[[noreturn]] void exception_escaped() noexcept;

/// Runs the service of an XTXN at its target.
template <class F>
decltype(auto) run_service(F& service) {
  try {
    return service();
  } catch (...) {
    exception_escaped();
  }
}

}  // namespace tributary::microcode
