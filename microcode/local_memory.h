// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes of a thread to its local memory. On a metered machine they count. On other machines they
/// are plain assignments.
///
///   microcode::store(m, key.protocol, protocol);           // One write of the current instruction.
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

/// Writes `value` to a variable in local memory.
template <class M, class T>
void store(M& m, T& to, const std::type_identity_t<T>& value,
           const std::source_location& place = std::source_location::current()) {
  note_store(m, &to, sizeof(T), place);
  to = value;
}

}  // namespace tributary::microcode
