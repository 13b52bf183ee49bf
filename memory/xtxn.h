// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Shared Memory System's operations as external transactions (Trio paper §2.3, §3.1), for
/// programs on a machine. rmw.h defines the operations. co_await the returned object for the reply.
///
/// Units: Sizes are the word's or counter's size; the machine derives the cost from it.
/// Tests: tests/memory/xtxn_test.cc, and the programs on every machine.
#pragma once

#include <source_location>
#include <utility>

#include "memory/hash_buckets.h"
#include "memory/policer.h"
#include "memory/rmw.h"
#include "microcode/machine.h"

namespace tributary::memory {

using microcode::Xtxn;
using microcode::XtxnKind;
/// The line of the program that makes a request; machines that measure name it.
using Place = std::source_location;

namespace detail {

template <microcode::Machine M, class F>
auto issue(M& m, const Xtxn& xtxn, F&& service, const Place& place) {
  if constexpr (requires { m.issue(xtxn, std::forward<F>(service), place); }) {
    return m.issue(xtxn, std::forward<F>(service), place);
  } else {
    return m.issue(xtxn, std::forward<F>(service));
  }
}
template <microcode::Machine M, class F>
void post(M& m, const Xtxn& xtxn, F&& service, const Place& place) {
  if constexpr (requires { m.post(xtxn, std::forward<F>(service), place); }) {
    m.post(xtxn, std::forward<F>(service), place);
  } else {
    m.post(xtxn, std::forward<F>(service));
  }
}

}  // namespace detail

/// @return the word.
template <microcode::Machine M, RmwWord T>
auto xtxn_read(M& m, const T& word, const Place& place = Place::current()) {
  return detail::issue(
      m, Xtxn{XtxnKind::kRead, &word, sizeof(T)}, [&word] { return word; }, place);
}

/// Writes `value` to the word. Returns nothing.
template <microcode::Machine M, RmwWord T>
auto xtxn_write(M& m, T& word, T value, const Place& place = Place::current()) {
  return detail::issue(
      m, Xtxn{XtxnKind::kWrite, &word, sizeof(T)}, [&word, value] { word = value; }, place);
}

/// Writes the bits of `value` where `mask` is set. Returns nothing.
template <microcode::Machine M, RmwWord T>
auto xtxn_masked_write(M& m, T& word, T value, T mask, const Place& place = Place::current()) {
  return detail::issue(
      m, Xtxn{XtxnKind::kMaskedWrite, &word, sizeof(T)},
      [&word, value, mask] { masked_write(word, value, mask); }, place);
}

/// @return the word before the operation.
template <microcode::Machine M, RmwWord T>
auto xtxn_fetch_and_and(M& m, T& word, T mask, const Place& place = Place::current()) {
  return detail::issue(
      m, Xtxn{XtxnKind::kFetchAndAnd, &word, sizeof(T)},
      [&word, mask] { return fetch_and_and(word, mask); }, place);
}

/// @return the word before the operation.
template <microcode::Machine M, RmwWord T>
auto xtxn_fetch_and_xor(M& m, T& word, T mask, const Place& place = Place::current()) {
  return detail::issue(
      m, Xtxn{XtxnKind::kFetchAndXor, &word, sizeof(T)},
      [&word, mask] { return fetch_and_xor(word, mask); }, place);
}

/// @return the word before the operation.
template <microcode::Machine M, RmwWord T>
auto xtxn_fetch_and_swap(M& m, T& word, T value, const Place& place = Place::current()) {
  return detail::issue(
      m, Xtxn{XtxnKind::kFetchAndSwap, &word, sizeof(T)},
      [&word, value] { return fetch_and_swap(word, value); }, place);
}

/// @return the word before the addition.
template <microcode::Machine M, RmwWord T>
auto xtxn_fetch_and_add(M& m, T& word, T addend, const Place& place = Place::current()) {
  return detail::issue(
      m, Xtxn{XtxnKind::kFetchAndAdd, &word, sizeof(T)},
      [&word, addend] { return fetch_and_add(word, addend); }, place);
}

/// @return the word before the operation.
template <microcode::Machine M, RmwWord T>
auto xtxn_fetch_and_or(M& m, T& word, T mask, const Place& place = Place::current()) {
  return detail::issue(
      m, Xtxn{XtxnKind::kFetchAndOr, &word, sizeof(T)},
      [&word, mask] { return fetch_and_or(word, mask); }, place);
}

/// @return the word before the operation.
template <microcode::Machine M, RmwWord T>
auto xtxn_fetch_and_clear(M& m, T& word, T mask, const Place& place = Place::current()) {
  return detail::issue(
      m, Xtxn{XtxnKind::kFetchAndClear, &word, sizeof(T)},
      [&word, mask] { return fetch_and_clear(word, mask); }, place);
}

/// The 32-bit add. The thread does not wait for a reply.
template <microcode::Machine M>
void post_add32(M& m, int32_t& word, int32_t addend, const Place& place = Place::current()) {
  detail::post(
      m, Xtxn{XtxnKind::kAdd32, &word, sizeof(word)}, [&word, addend] { add32(word, addend); },
      place);
}

/// Bytes of a policer in shared memory. Assumed: two buckets, two rates, two bursts and a time of 8
/// bytes each, in one largest request. The host's Policer has wider buckets.
inline constexpr uint32_t kPolicerBytes = 64;

/// @return the Colour of a packet of `size_bytes`, whose tokens it takes.
template <microcode::Machine M>
auto xtxn_police(M& m, Policer& policer, Instant now, uint32_t size_bytes,
                 const Place& place = Place::current()) {
  return detail::issue(
      m, Xtxn{XtxnKind::kPolice, &policer, kPolicerBytes},
      [&policer, now, size_bytes] { return policer.meter(now, size_bytes); }, place);
}

/// Returns the request of a hash operation on a key. The service that issue() gets finds, makes or
/// erases the record. @param store A RecordStore with a Place.
template <class Store, class Key>
[[nodiscard]] Xtxn hash_request(XtxnKind kind, const Store& store, const Key& key) {
  return {kind, store.bucket_of(key), kHashBucketBytes, &store.buckets()};
}

/// CounterIncPhys (Trio paper §3.2), `times` times. The thread does not wait for the reply.
template <microcode::Machine M>
void post_counter_increment(M& m, PacketByteCounter& counter, uint64_t size_bytes,
                            uint64_t times = 1, const Place& place = Place::current()) {
  detail::post(
      m, Xtxn{XtxnKind::kCounterIncrement, &counter, sizeof(PacketByteCounter)},
      [&counter, size_bytes, times] { count_packet(counter, size_bytes, times); }, place);
}

}  // namespace tributary::memory
