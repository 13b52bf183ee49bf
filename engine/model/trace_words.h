// SPDX-License-Identifier: Apache-2.0
/// @file
/// The words of a trace that the machine does not know: a program's names for its packets, its
/// memory and its drop reasons. Also the names of XTXNs.
///
/// Threads: One.
/// Tests:   tests/engine/model/pfe_trace_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/trace.h"
#include "microcode/machine.h"

namespace tributary::engine {

/// A name, and a remark about it.
struct TraceWord {
  std::string name;
  std::vector<TraceField> fields = {};
};

/// Implemented next to a program, for tools that show its runs. It changes nothing.
class TraceWords {
 public:
  /// Describes a packet's message. @param stored The UDP payload or frame, or its beginning.
  [[nodiscard]] virtual TraceWord message(std::span<const std::byte> stored,
                                          uint32_t size_bytes) const = 0;
  /// Describes the target of an XTXN and its present content; an empty name if it is unknown.
  [[nodiscard]] virtual TraceWord target(const void* target) const = 0;
  /// Returns the program's meaning of drop(reason).
  [[nodiscard]] virtual std::string drop_reason(uint32_t reason) const = 0;

 protected:
  ~TraceWords() = default;
};

/// Returns "hash lookup", "fetch-and-op", …
[[nodiscard]] const char* to_string(microcode::XtxnKind kind);

/// A request that a thread makes or waits for.
struct RequestView {
  const char* what = "";         ///< An XTXN's kind, "add loop" or "result loop".
  const void* target = nullptr;  ///< In the program's memory.
  uint32_t size_bytes = 0;
};

}  // namespace tributary::engine
