// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the models tell about their inside while they run: one kind of event, and who takes it.
///
/// Model:   A component that can be traced has a Tracer, which is off unless somebody wants to
///          look. An event says when, where (node), about which packet, what kind of thing happened
///          to what, and any number of named values. It owns its texts: whoever gets it may keep
///          it.
/// Cost:    Off, a place that could emit costs one test of a pointer. Texts and values are made
///          behind that test, in a function of their own, so that the path of a packet stays as it
///          was:
///            if (trace_.on()) [[unlikely]] trace_lookup(key);
/// Order:   Events come as the model reaches them. A thread's own clock may run ahead of the event
///          core's, so times of different packets need not rise; those of one packet do.
/// Must:    An event only tells. Whoever takes one changes nothing in the model, so a run with a
///          trace is the run without it.
/// Units:   Virtual time. Packets are numbered at each node from 1, in order of arrival; 0 is none.
/// Threads: One, the model's.
/// Memory:  An event allocates. Whoever keeps events sets a bound; see lab/trace/trace_log.h.
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

/// What happened. `what` in the event is the name of the thing in the right column.
enum class TraceKind : uint8_t {
  // Either model.
  kArrive,  ///< A packet has come to the node: its message, "contribution".
  kSend,    ///< A packet leaves the node: its message.
  kDrop,    ///< A packet ends here, unwanted: why.
  kLink,    ///< A packet's last bit leaves a link's sender: its message.
  // Trio.
  kThread,       ///< A PPE thread begins: "packet" or "timer".
  kInstruction,  ///< It executes one: the instruction.
  kRequest,      ///< It issues an XTXN, or begins a loop: the XTXN's kind.
  kReply,        ///< It has waited for that, and goes on: the XTXN's kind.
  kEnd,          ///< The thread is done: what became of its packet.
  kHold,         ///< The reorder engine keeps a packet until earlier ones of its flow are done.
  // Tofino.
  kPass,      ///< A pass begins: "ingress" or "egress".
  kParser,    ///< The parser: its state.
  kHeader,    ///< A header has been read: the header; its fields.
  kTable,     ///< A table was applied: the table; hit or miss, and the action.
  kGateway,   ///< A condition was asked: the condition.
  kRegister,  ///< A stateful ALU has worked on a register's entry: the register; before and after.
  kField,     ///< An action has changed a field: the field; before and after.
  kTraffic,   ///< The traffic manager has decided: "unicast", "multicast", "recirculate", …
};
inline constexpr uint32_t kTraceKindCount = 18;

/// "arrive", "send", …
[[nodiscard]] const char* to_string(TraceKind kind);
/// The inverse; nothing for another text.
[[nodiscard]] std::optional<TraceKind> trace_kind(std::string_view text);

/// A number that people read in hexadecimal: an address, a bitmap.
struct TraceHex {
  uint64_t value;
  friend bool operator==(TraceHex, TraceHex) = default;
};
using TraceValue = std::variant<uint64_t, int64_t, bool, TraceHex, Duration, std::string>;

/// One named value. Names that both models use, and that people can ask for: job, block, slot,
/// port, source, thread.
struct TraceField {
  /// Whole numbers of any width go in as they are.
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

/// "7", "-7", "yes", "0x7", "12.5 ns", or the text as it is.
[[nodiscard]] std::string trace_value_text(const TraceValue& value);

struct TraceEvent {
  Instant at;
  std::string node;     ///< Its name.
  uint64_t packet = 0;  ///< At that node; 0: none, as for a timer.
  TraceKind kind = TraceKind::kArrive;
  std::string what;
  std::vector<TraceField> fields = {};

  /// The value of that name; null if there is none.
  [[nodiscard]] const TraceValue* find(std::string_view name) const;
};

class TraceSink {
 public:
  virtual void on_event(const TraceEvent& event) = 0;

 protected:
  ~TraceSink() = default;
};

/// What a component that can be traced keeps. Made without arguments it is off.
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
