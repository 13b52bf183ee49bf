// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads and writes of a thread's local memory, outside the packet's head. On a metered machine
/// they count. On other machines they are plain.
///
///   const uint32_t port = microcode::load(m, key.port);    // One read of the instruction.
///   microcode::store(m, key.protocol, protocol);           // One write of the instruction.
///   microcode::note_store(m, head.data(), head.size());    // Bytes that other code writes.
///
/// Tests: tests/microcode/access_meter_test.cc
#pragma once

#include <cstdint>
#include <source_location>
#include <type_traits>

#include "microcode/access_meter.h"

namespace tributary::microcode {

/// Reports that the current instruction writes `size_bytes` of local memory.
/// @param first The variable's first byte, the same for each write to it.
template <class M>
void note_store(M& m, const void* first, uint32_t size_bytes,
                const std::source_location& place = std::source_location::current()) {
  if constexpr (requires { m.access_meter(); })
    m.access_meter().write_lmem(first, size_bytes, place);
}

/// Reports that the current instruction reads `size_bytes` of local memory.
/// @param first The variable's first byte, the same for each read of it.
template <class M>
void note_load(M& m, const void* first, uint32_t size_bytes,
               const std::source_location& place = std::source_location::current()) {
  if constexpr (requires { m.access_meter(); })
    m.access_meter().read_lmem(first, size_bytes, place);
}

/// Reads a variable in local memory.
template <class M, class T>
[[nodiscard]] T load(M& m, const T& from,
                     const std::source_location& place = std::source_location::current()) {
  note_load(m, &from, sizeof(T), place);
  return from;
}

/// Writes `value` to a variable in local memory.
template <class M, class T>
void store(M& m, T& to, const std::type_identity_t<T>& value,
           const std::source_location& place = std::source_location::current()) {
  note_store(m, &to, sizeof(T), place);
  to = value;
}

}  // namespace tributary::microcode
