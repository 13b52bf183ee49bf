// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a trace needs that the machine does not know: what a program calls its packets, its memory
/// and its reasons; and the names of XTXNs.
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

/// A name, and what is to be said about it.
struct TraceWord {
  std::string name;
  std::vector<TraceField> fields = {};
};

/// Implemented beside a program, for those who look at its runs. It changes nothing.
class TraceWords {
 public:
  /// A packet's message. @param stored The UDP payload or frame, or its beginning.
  [[nodiscard]] virtual TraceWord message(std::span<const std::byte> stored,
                                          uint32_t size_bytes) const = 0;
  /// What lies at an XTXN's target, and what it holds at this moment; no name if it is unknown.
  [[nodiscard]] virtual TraceWord target(const void* target) const = 0;
  /// What the program means by drop(reason).
  [[nodiscard]] virtual std::string drop_reason(uint32_t reason) const = 0;

 protected:
  ~TraceWords() = default;
};

/// "hash lookup", "fetch-and-op", …
[[nodiscard]] const char* to_string(microcode::XtxnKind kind);

/// What a thread asks for, or waits for.
struct RequestView {
  const char* what = "";         ///< An XTXN's kind, "add loop" or "result loop".
  const void* target = nullptr;  ///< In the program's memory.
  uint32_t size_bytes = 0;
};

}  // namespace tributary::engine
