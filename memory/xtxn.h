// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Shared Memory System's operations as external transactions (Trio paper §2.3, §3.1), for
/// programs on a machine. rmw.h defines the operations. co_await the returned object for the reply.
///
/// Units: Sizes are the word's or counter's size; the machine derives the cost from it.
/// Tests: tests/memory/xtxn_test.cc, and the programs on every machine.
#pragma once

#include "memory/rmw.h"
#include "microcode/machine.h"

namespace tributary::memory {

using microcode::Xtxn;
using microcode::XtxnKind;

/// @return the word.
template <microcode::Machine M, RmwWord T>
auto xtxn_read(M& m, const T& word) {
  return m.issue(Xtxn{XtxnKind::kRead, &word, sizeof(T)}, [&word] { return word; });
}

/// Writes the bits of `value` where `mask` is set. Returns nothing.
template <microcode::Machine M, RmwWord T>
auto xtxn_masked_write(M& m, T& word, T value, T mask) {
  return m.issue(Xtxn{XtxnKind::kMaskedWrite, &word, sizeof(T)},
                 [&word, value, mask] { masked_write(word, value, mask); });
}

/// @return the word before the operation.
template <microcode::Machine M, RmwWord T>
auto xtxn_fetch_and_and(M& m, T& word, T mask) {
  return m.issue(Xtxn{XtxnKind::kFetchAndOp, &word, sizeof(T)},
                 [&word, mask] { return fetch_and_and(word, mask); });
}

/// @return the word before the operation.
template <microcode::Machine M, RmwWord T>
auto xtxn_fetch_and_xor(M& m, T& word, T mask) {
  return m.issue(Xtxn{XtxnKind::kFetchAndOp, &word, sizeof(T)},
                 [&word, mask] { return fetch_and_xor(word, mask); });
}

/// @return the word before the operation.
template <microcode::Machine M, RmwWord T>
auto xtxn_fetch_and_swap(M& m, T& word, T value) {
  return m.issue(Xtxn{XtxnKind::kFetchAndOp, &word, sizeof(T)},
                 [&word, value] { return fetch_and_swap(word, value); });
}

/// @return the word before the addition.
template <microcode::Machine M, RmwWord T>
auto xtxn_fetch_and_add(M& m, T& word, T addend) {
  return m.issue(Xtxn{XtxnKind::kFetchAndOp, &word, sizeof(T)},
                 [&word, addend] { return fetch_and_add(word, addend); });
}

/// @return the word before the operation.
template <microcode::Machine M, RmwWord T>
auto xtxn_fetch_and_or(M& m, T& word, T mask) {
  return m.issue(Xtxn{XtxnKind::kFetchAndOp, &word, sizeof(T)},
                 [&word, mask] { return fetch_and_or(word, mask); });
}

/// @return the word before the operation.
template <microcode::Machine M, RmwWord T>
auto xtxn_fetch_and_clear(M& m, T& word, T mask) {
  return m.issue(Xtxn{XtxnKind::kFetchAndOp, &word, sizeof(T)},
                 [&word, mask] { return fetch_and_clear(word, mask); });
}

/// CounterIncPhys (Trio paper §3.2), `times` times. The thread does not wait for the reply.
template <microcode::Machine M>
void post_counter_increment(M& m, PacketByteCounter& counter, uint64_t size_bytes,
                            uint64_t times = 1) {
  m.post(Xtxn{XtxnKind::kCounterIncrement, &counter, sizeof(PacketByteCounter)},
         [&counter, size_bytes, times] { count_packet(counter, size_bytes, times); });
}

}  // namespace tributary::memory
