// SPDX-License-Identifier: Apache-2.0
/// @file
/// The trace of a running model: its one kind of event, and the interface that receives events.
///
/// Cost:    While off, a place that could emit costs one test of a pointer (see Tracer).
/// Order:   Events come in the order in which the model runs. Times rise for one packet, but not
///          across packets: a thread's own clock may run ahead of the event core's.
/// Must:    A sink changes nothing in the model, so a trace never changes a run.
/// Units:   Virtual time. Packets are numbered at each node from 1, in order of arrival; 0 is none.
/// Threads: One, the model's.
/// Tests:   tests/base/trace_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/time.h"

namespace tributary {

/// The kind of an event. After the colon: the content of TraceEvent::what.
enum class TraceKind : uint8_t {
  // Either model.
  kArrive,  ///< A packet arrives at the node: its message, such as "contribution".
  kSend,    ///< A packet leaves the node: its message.
  kDrop,    ///< The node drops a packet: the reason.
  kLink,    ///< A packet's last bit leaves a link's sender: its message.
  // Trio.
  kThread,       ///< A PPE thread begins: "packet" or "timer".
  kInstruction,  ///< The thread executes an instruction: its name.
  kRequest,      ///< The thread issues an XTXN or begins a loop: the kind.
  kReply,        ///< The thread has its reply and continues: the kind.
  kEnd,          ///< The thread ends: the fate of its packet.
  kHold,         ///< The reorder engine holds a packet for earlier ones of its flow.
  // Tofino.
  kPass,      ///< A pass begins: "ingress" or "egress".
  kParser,    ///< The parser enters a state: the state.
  kHeader,    ///< A header has been parsed: the header. Fields: its fields.
  kTable,     ///< A table was applied: the table. Fields: hit or miss, and the action.
  kGateway,   ///< A condition was tested: the condition.
  kRegister,  ///< A stateful ALU used a register's entry: the register. Fields: before and after.
  kField,     ///< An action has changed a field: the field. Fields: before and after.
  kTraffic,   ///< The traffic manager has decided: "unicast", "multicast", "recirculate", …
};
inline constexpr uint32_t kTraceKindCount = 18;

/// Returns "arrive", "send", …
[[nodiscard]] const char* to_string(TraceKind kind);
/// The inverse of to_string(); nullopt for any other text.
[[nodiscard]] std::optional<TraceKind> trace_kind(std::string_view text);

/// A number to show in hexadecimal: an address, a bitmap.
struct TraceHex {
  uint64_t value;
  friend bool operator==(TraceHex, TraceHex) = default;
};
using TraceValue = std::variant<uint64_t, int64_t, bool, TraceHex, Duration, std::string>;

/// One named value. Both models use these names, and people can filter by them: job, block, slot,
/// port, source, thread.
struct TraceField {
  /// Accepts whole numbers of any width.
  template <class T>
  TraceField(std::string field_name, T&& field_value)
      : name(std::move(field_name)), value(widened(std::forward<T>(field_value))) {}

  std::string name;
  TraceValue value;
  friend bool operator==(const TraceField&, const TraceField&) = default;

 private:
  template <class T>
  static TraceValue widened(T&& given) {
    using U = std::remove_cvref_t<T>;
    if constexpr (std::is_integral_v<U> && !std::is_same_v<U, bool>) {
      using Wide = std::conditional_t<std::is_signed_v<U>, int64_t, uint64_t>;
      return static_cast<Wide>(given);
    } else {
      return std::forward<T>(given);
    }
  }
};

/// Returns "7", "-7", "yes", "0x7", "12.5 ns", or the text as it is.
[[nodiscard]] std::string trace_value_text(const TraceValue& value);

/// An event owns its texts, so a sink may keep it. Each event allocates; a sink that keeps events
/// sets a bound (lab/trace/trace_log.h).
struct TraceEvent {
  Instant at;
  std::string node;     ///< The node's name.
  uint64_t packet = 0;  ///< Its number at that node; 0: none, as for a timer.
  TraceKind kind = TraceKind::kArrive;
  std::string what;
  std::vector<TraceField> fields = {};

  /// Returns the value of the field `name`; null if there is none.
  [[nodiscard]] const TraceValue* find(std::string_view name) const;
};

class TraceSink {
 public:
  virtual void on_event(const TraceEvent& event) = 0;

 protected:
  ~TraceSink() = default;
};

/// The member of a component that can be traced. A default-constructed one is off. Build texts and
/// values in a separate function behind the test, so the packet path stays short:
///
///   if (trace_.on()) [[unlikely]] trace_lookup(key);
class Tracer {
 public:
  Tracer() = default;
  /// @param sink Must outlive the component.
  Tracer(TraceSink& sink, std::string node) : sink_(&sink), node_(std::move(node)) {}

  [[nodiscard]] bool on() const { return sink_ != nullptr; }
  /// @pre on().
  void emit(Instant at, uint64_t packet, TraceKind kind, std::string what,
            std::vector<TraceField> fields = {}) const;

 private:
  TraceSink* sink_ = nullptr;
  std::string node_;
};

}  // namespace tributary
