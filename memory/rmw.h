// SPDX-License-Identifier: Apache-2.0
/// @file
/// The read-modify-write operations of the Shared Memory System, as functions on words that lie in
/// it (Trio paper §2.3): logical fetch-and-ops, fetch-and-swap, masked write, 32-bit add and the
/// Packet/Byte Counter. policer.h has the Policer; lanes.h has the add over a whole payload.
///
/// Model:   The effect and the reply of a request. memory/rmw_bank.h models its timing.
/// Threads: Plain loads and stores. As in the hardware, one engine serves a location's requests in
///          sequence, so an operation is whole. The caller must own the location (be its core, or
///          hold the bank's lock).
/// Errors:  None. All arithmetic wraps.
/// Tests:   tests/memory/rmw_test.cc
#pragma once

#include <concepts>
#include <cstdint>
#include <utility>

namespace tributary::memory {

/// A word that the engines operate on: 32 or 64 bits, in host order.
template <class T>
concept RmwWord = std::same_as<T, uint32_t> || std::same_as<T, uint64_t>;

// Every fetch_and_… returns the word's previous value.

template <RmwWord T>
constexpr T fetch_and_and(T& word, T mask) {
  return std::exchange(word, static_cast<T>(word & mask));
}

template <RmwWord T>
constexpr T fetch_and_or(T& word, T mask) {
  return std::exchange(word, static_cast<T>(word | mask));
}

template <RmwWord T>
constexpr T fetch_and_xor(T& word, T mask) {
  return std::exchange(word, static_cast<T>(word ^ mask));
}

/// Clears the bits that are set in `mask`.
template <RmwWord T>
constexpr T fetch_and_clear(T& word, T mask) {
  return std::exchange(word, static_cast<T>(word & ~mask));
}

template <RmwWord T>
constexpr T fetch_and_add(T& word, T addend) {
  return std::exchange(word, static_cast<T>(word + addend));
}

template <RmwWord T>
constexpr T fetch_and_swap(T& word, T value) {
  return std::exchange(word, value);
}

/// Writes the bits of `value` where `mask` is set and keeps the other bits.
template <RmwWord T>
constexpr void masked_write(T& word, T value, T mask) {
  word = static_cast<T>((word & ~mask) | (value & mask));
}

/// The 32-bit add of aggregation: returns nothing, wraps modulo 2^32.
constexpr void add32(int32_t& word, int32_t addend) {
  word = static_cast<int32_t>(static_cast<uint32_t>(word) + static_cast<uint32_t>(addend));
}

/// A Packet/Byte Counter: 16 bytes, packets first (Trio paper §3.2, Figure 6).
struct PacketByteCounter {
  uint64_t packets = 0;
  uint64_t bytes = 0;

  friend bool operator==(const PacketByteCounter&, const PacketByteCounter&) = default;
};
static_assert(sizeof(PacketByteCounter) == 16);

/// Counts one packet of `size_bytes` bytes (the paper's CounterIncPhys).
constexpr void count_packet(PacketByteCounter& counter, uint64_t size_bytes, uint64_t times = 1) {
  counter.packets += times;
  counter.bytes += size_bytes * times;
}

}  // namespace tributary::memory
