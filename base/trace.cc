// SPDX-License-Identifier: Apache-2.0
#include "base/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tributary {
namespace {

/// Indexed by TraceKind.
constexpr std::array<const char*, kTraceKindCount> kNames{
    "arrive", "send", "drop",   "link",   "thread", "instruction", "request",  "reply", "end",
    "hold",   "pass", "parser", "header", "table",  "gateway",     "register", "field", "traffic"};

struct ValueText {
  std::string operator()(uint64_t value) const { return fmt::format("{}", value); }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(bool value) const { return value ? "yes" : "no"; }
  std::string operator()(TraceHex value) const { return fmt::format("{:#x}", value.value); }
  std::string operator()(Duration value) const {
    constexpr double kTicksPerNanosecond = 1'000.0 / kPicosecondsPerTick;
    return fmt::format("{} ns", static_cast<double>(value.ticks()) / kTicksPerNanosecond);
  }
  std::string operator()(const std::string& value) const { return value; }
};

}  // namespace

const char* to_string(TraceKind kind) { return kNames[static_cast<uint32_t>(kind)]; }

std::optional<TraceKind> trace_kind(std::string_view text) {
  const auto found = std::find(kNames.begin(), kNames.end(), text);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<TraceKind>(found - kNames.begin());
}

std::string trace_value_text(const TraceValue& value) { return std::visit(ValueText{}, value); }

const TraceValue* TraceEvent::find(std::string_view name) const {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const TraceField& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &found->value;
}

void Tracer::emit(Instant at, uint64_t packet, TraceKind kind, std::string what,
                  std::vector<TraceField> fields) const {
  sink_->on_event({.at = at,
                   .node = node_,
                   .packet = packet,
                   .kind = kind,
                   .what = std::move(what),
                   .fields = std::move(fields)});
}

}  // namespace tributary
