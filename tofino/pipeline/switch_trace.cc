// SPDX-License-Identifier: Apache-2.0
// Trace events of a switch, other than those of its pipes. Nothing here runs without a trace.
#include "tofino/pipeline/switch.h"

namespace tributary::tofino {

void Switch::set_trace(const Tracer& trace) {
  trace_ = trace;
  pass_trace_ = trace_.on() ? std::make_unique<PassTrace>(trace_, executable_, tables_) : nullptr;
  for (const auto& state : pipes_) state->pipe.set_trace(pass_trace_.get());
}

void Switch::trace_pass(Instant at, const char* gress, uint32_t port) {
  pass_trace_->begin(at, number_);
  pass_trace_->emit(TraceKind::kPass, gress,
                    {{"pipe", port / kPortsPerPipe}, {"port", port}, {"pass", passes_}});
}

/// Reports the destinations that the program chose. Events for each copy follow.
void Switch::trace_traffic(const Pipe& pipe) const {
  const Intrinsics& in = program().intrinsics;
  if (const uint32_t session = pipe.get(in.mirror_session); session != 0) {
    pass_trace_->emit(TraceKind::kTraffic, "mirror", {{"session", session}});
  }
  if (const uint32_t group = pipe.get(in.multicast_group); group != 0) {
    const size_t copies = group < groups_.size() ? groups_[group].size() : 0;
    pass_trace_->emit(TraceKind::kTraffic, "multicast", {{"group", group}, {"copies", copies}});
  }
  if (pipe.get(in.egress_valid) != 0) {
    pass_trace_->emit(
        TraceKind::kTraffic, "unicast",
        {{"port", pipe.get(in.egress_port)}, {"bypass_egress", pipe.get(in.bypass_egress) != 0}});
  }
}

void Switch::trace_leaving(Instant at, TraceKind kind, const char* what, uint32_t port,
                           uint32_t size_bytes) const {
  trace_.emit(at, number_, kind, what, {{"port", port}, {"bytes", size_bytes}});
}

}  // namespace tributary::tofino
