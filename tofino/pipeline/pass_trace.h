// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reports the steps of a packet's pass through a pipe to a trace: parser states, headers, tables,
/// gateways, registers and fields, with their names in the program.
///
/// Cost:    A pipe without a trace runs code that does not contain these calls (pipe_run.cc).
/// Errors:  None.
/// Threads: One, the switch's.
/// Tests:   tests/tofino/pipeline/switch_trace_test.cc
#pragma once

#include <cstdint>
#include <string>

#include "base/trace.h"
#include "tofino/pipeline/executable.h"
#include "tofino/pipeline/tables.h"

namespace tributary::tofino {

/// An entry of a register before or after an access.
struct RegisterWords {
  uint32_t low = 0;
  uint32_t high = 0;  ///< Used by a pair only.
};

class PassTrace {
 public:
  /// @param tracer, executable, tables Must outlive this object; the tracer must be on.
  PassTrace(const Tracer& tracer, const Executable& executable, const Tables& tables)
      : tracer_(tracer), executable_(executable), tables_(tables) {}

  /// Sets the packet and the time of the events that follow.
  void begin(Instant at, uint64_t packet) {
    at_ = at;
    packet_ = packet;
  }

  // A traced pass calls these. @param phv The PHV at that moment.
  void state(const Executable::GressCode& gress, uint16_t state) const;
  void header(const Executable::HeaderCode& header, const uint32_t* phv) const;
  void table(TableId table, uint32_t entry, const uint32_t* phv) const;
  void gateway(Slice terms, bool holds) const;
  void access(const Executable::CallCode& call, uint32_t index, RegisterWords before,
              RegisterWords after, uint32_t output) const;
  void bad_index(const Executable::CallCode& call, uint32_t index) const;
  /// Reports a changed field; an unchanged field gives no event.
  void field(uint16_t field, uint32_t before, uint32_t after) const;

  /// Reports an event of the switch itself.
  void emit(TraceKind kind, std::string what, std::vector<TraceField> fields = {}) const {
    tracer_.emit(at_, packet_, kind, std::move(what), std::move(fields));
  }

 private:
  const Tracer& tracer_;
  const Executable& executable_;
  const Tables& tables_;
  Instant at_;
  uint64_t packet_ = 0;
};

}  // namespace tributary::tofino
