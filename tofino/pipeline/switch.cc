// SPDX-License-Identifier: Apache-2.0
#include "tofino/pipeline/switch.h"

#include <fmt/format.h>

#include <algorithm>

#include "tofino/limits.h"

namespace tributary::tofino {
namespace {

bool is_internal_loop(uint32_t port) {
  const uint32_t local = port % kPortsPerPipe;
  return local == kLoopLocalPortFirst || local == kLoopLocalPortSecond;
}

bool is_front_panel(uint32_t port) {
  const uint32_t local = port % kPortsPerPipe;
  return local % kPortStride == 0 && local / kPortStride < kFrontPanelPortsPerPipe;
}

}  // namespace

const char* name_of(SwitchDrop drop) {
  switch (drop) {
    case SwitchDrop::kIngressProgram:
      return "ingress_program";
    case SwitchDrop::kEgressProgram:
      return "egress_program";
    case SwitchDrop::kParserReject:
      return "parser_reject";
    case SwitchDrop::kParserShort:
      return "parser_short";
    case SwitchDrop::kNoDestination:
      return "no_destination";
    case SwitchDrop::kUnknownPort:
      return "unknown_port";
    case SwitchDrop::kUnknownGroup:
      return "unknown_group";
    case SwitchDrop::kResubmittedTwice:
      return "resubmitted_twice";
    case SwitchDrop::kBufferFull:
      return "buffer_full";
  }
  return "unknown";
}

Result<std::unique_ptr<Switch>> Switch::make(Program program, const SwitchConfig& config,
                                             SwitchSink& sink) {
  if (config.pipes < 1 || config.pipes > kPipes) {
    return failure(fmt::format("pipes={}; allowed: 1 to {}", config.pipes, kPipes));
  }
  for (const uint32_t port : config.loopback_ports) {
    if (port / kPortsPerPipe >= config.pipes || !is_front_panel(port)) {
      return failure(
          fmt::format("loopback port {} is not a front-panel port of {} pipes; allowed: "
                      "pipe x {} + 0, {}, … {}",
                      port, config.pipes, kPortsPerPipe, kPortStride,
                      (kFrontPanelPortsPerPipe - 1) * kPortStride));
    }
  }
  auto executable = Executable::load(std::move(program), config.payload);
  if (!executable) return tl::unexpected(executable.error());
  return std::unique_ptr<Switch>(new Switch(std::move(*executable), config, sink));
}

Switch::Switch(Executable executable, const SwitchConfig& config, SwitchSink& sink)
    : executable_(std::move(executable)),
      tables_(executable_.program),
      pass_latency_(config.pass_latency),
      train_(std::max(config.train, 1U)),
      sink_(sink),
      loopbacks_(size_t{config.pipes} * kPortsPerPipe),
      groups_(kMulticastGroups),
      sessions_(kMirrorSessionMax + 1),
      from_ingress_(take_buffer()),
      from_egress_(take_buffer()) {
  Prng seeds(config.seed);
  for (uint32_t i = 0; i < config.pipes; i++) {
    pipes_.push_back(std::make_unique<PipeState>(executable_, tables_, seeds.any_u64()));
  }
  for (uint32_t port = 0; port < loopbacks_.size(); port++) {
    loopbacks_[port].active = is_internal_loop(port);
  }
  for (const uint32_t port : config.loopback_ports) loopbacks_[port].active = true;
}

Result<void> Switch::set_multicast_group(uint32_t group, std::vector<MulticastCopy> copies) {
  if (group < 1 || group >= kMulticastGroups) {
    return failure(
        fmt::format("multicast group {}; allowed: 1 to {}", group, kMulticastGroups - 1));
  }
  for (const MulticastCopy& copy : copies) {
    if (!exists(copy.port)) {
      return failure(
          fmt::format("multicast group {}: port {} does not exist; the switch has {} "
                      "pipes",
                      group, copy.port, pipes_.size()));
    }
  }
  groups_[group] = std::move(copies);
  return {};
}

Result<void> Switch::set_mirror_session(uint32_t session, uint32_t port, uint32_t size_bytes_max) {
  if (session < 1 || session > kMirrorSessionMax) {
    return failure(fmt::format("mirror session {}; allowed: 1 to {}", session, kMirrorSessionMax));
  }
  if (!exists(port)) {
    return failure(fmt::format("mirror session {}: port {} does not exist; the switch has {} pipes",
                               session, port, pipes_.size()));
  }
  sessions_[session] = {port, size_bytes_max, true};
  return {};
}

Result<void> Switch::set_generator(const GeneratorConfig& config) {
  return generators_.set(config, pipe_count());
}

void Switch::arrive(Instant at, uint32_t port, PacketView packet) {
  run_until(at);
  counters_.arrived++;
  number_ = ++number_last_;
  passes_ = 0;
  if (trace_.on()) [[unlikely]] {
    trace_.emit(at, number_, TraceKind::kArrive, "packet",
                {{"port", port}, {"bytes", packet.size_bytes}});
    pass_trace_->begin(at, number_);
  }
  if (!exists(port)) {
    drop(SwitchDrop::kUnknownPort);
    return;
  }
  pass(at, port, packet, false);
}

void Switch::run_until(Instant at) {
  while (next_due() <= at && next_due() != Instant::never()) {
    if (generators_.next_at() < next_due_) {
      const Instant generated_at = generators_.next_at();
      const PacketGenerators::Packet packet = generators_.take();
      counters_.generated++;
      number_ = ++number_last_;
      passes_ = 0;
      pass(generated_at, packet.port, packet.view, false);
      continue;
    }
    const Event due = due_.pop();
    Waiting& waiting = *pool_[due.argument];
    buffered_bytes_ -= waiting.packet.size_bytes();
    // Set next_due_ before the pass. The pass may schedule more, but nothing earlier than this.
    const Event* next = due_.front();
    next_due_ = next == nullptr ? Instant::never() : next->at;
    number_ = waiting.number;
    passes_ = waiting.passes;
    pass(due.at, waiting.port, waiting.packet.view(), waiting.resubmitted);
    free_.push_back(static_cast<uint32_t>(due.argument));
  }
}

Instant Switch::serve(Instant& free_at, Instant at, Duration one) const {
  // The train's first packet came earlier by the time of the others, so the last one need not wait
  // for them.
  free_at = std::max(free_at, at - one * (train_ - 1)) + one * train_;
  return free_at;
}

void Switch::pass(Instant at, uint32_t port, PacketView packet, bool resubmitted) {
  PipeState& state = *pipes_[port / kPortsPerPipe];
  const Instant starts_at = serve(state.free_at, at, kClockPeriod) - kClockPeriod;
  counters_.passes++;
  const Intrinsics& in = program().intrinsics;
  passes_++;
  if (trace_.on()) [[unlikely]]
    trace_pass(starts_at, "ingress", port);
  state.pipe.begin();
  state.pipe.set(in.ingress_port, port);
  state.pipe.set(in.resubmitted, resubmitted ? 1 : 0);
  const Verdict verdict = state.pipe.run_ingress(packet, pool_[from_ingress_]->packet);
  const Instant leaves_at = starts_at + pass_latency_;
  switch (verdict) {
    case Verdict::kPassed:
      break;
    case Verdict::kDropped:
      mirror(leaves_at, state.pipe.get(in.mirror_session), packet);
      return drop(SwitchDrop::kIngressProgram);
    case Verdict::kParserReject:
      return drop(SwitchDrop::kParserReject);
    case Verdict::kTruncated:
      return drop(SwitchDrop::kParserShort);
  }
  if (state.pipe.get(in.resubmit) != 0) {
    if (resubmitted) return drop(SwitchDrop::kResubmittedTwice);
    pool_[from_ingress_]->packet.assign(packet);
    return return_to_ingress(starts_at + kResubmitLatency, port, from_ingress_, true);
  }
  if (trace_.on()) [[unlikely]]
    trace_traffic(state.pipe);
  route(leaves_at, packet, state.pipe);
}

void Switch::route(Instant leaves_at, PacketView original, const Pipe& pipe) {
  const Intrinsics& in = program().intrinsics;
  const bool unicast = pipe.get(in.egress_valid) != 0;
  const uint32_t group = pipe.get(in.multicast_group);
  const uint32_t session = pipe.get(in.mirror_session);
  const uint32_t to = pipe.get(in.egress_port);
  const bool bypass = pipe.get(in.bypass_egress) != 0;
  // An egress pass may overwrite the pipe's PHV from here on.
  mirror(leaves_at, session, original);
  if (!unicast && group == 0) return drop(SwitchDrop::kNoDestination);
  if (group != 0) {
    if (group >= groups_.size() || groups_[group].empty()) {
      drop(SwitchDrop::kUnknownGroup);
    } else {
      for (const MulticastCopy& copy : groups_[group]) {
        copy_to(leaves_at, copy.port, copy.replication_id, pool_[from_ingress_]->packet.view());
      }
    }
  }
  if (!unicast) return;
  if (!exists(to)) return drop(SwitchDrop::kUnknownPort);
  if (bypass) {
    leave(leaves_at, to, from_ingress_);
  } else {
    copy_to(leaves_at, to, 0, pool_[from_ingress_]->packet.view());
  }
}

void Switch::mirror(Instant leaves_at, uint32_t session, PacketView original) {
  if (session == 0) return;
  if (session >= sessions_.size() || !sessions_[session].set) {
    return drop(SwitchDrop::kUnknownGroup);
  }
  const MirrorSession& to = sessions_[session];
  PacketView copy = original;
  copy.size_bytes = std::min(copy.size_bytes, to.size_bytes_max);
  copy.stored = copy.stored.first(std::min<size_t>(copy.stored.size(), copy.size_bytes));
  copy_to(leaves_at, to.port, 0, copy);
}

void Switch::copy_to(Instant leaves_at, uint32_t port, uint16_t replication_id, PacketView packet) {
  Pipe& pipe = pipes_[port / kPortsPerPipe]->pipe;
  const Intrinsics& in = program().intrinsics;
  if (trace_.on()) [[unlikely]]
    trace_pass(leaves_at, "egress", port);
  pipe.begin();
  pipe.set(in.replication_id, replication_id);
  pipe.set(in.egress_leaving, port);
  switch (pipe.run_egress(packet, pool_[from_egress_]->packet)) {
    case Verdict::kPassed:
      return leave(leaves_at, port, from_egress_);
    case Verdict::kDropped:
      return drop(SwitchDrop::kEgressProgram);
    case Verdict::kParserReject:
      return drop(SwitchDrop::kParserReject);
    case Verdict::kTruncated:
      return drop(SwitchDrop::kParserShort);
  }
}

void Switch::leave(Instant leaves_at, uint32_t port, uint32_t& packet) {
  const PacketBuffer& written = pool_[packet]->packet;
  Loopback& loop = loopbacks_[port];
  if (!loop.active) {
    counters_.left++;
    if (trace_.on()) [[unlikely]] {
      trace_leaving(leaves_at, TraceKind::kSend, "packet", port, written.size_bytes());
    }
    sink_.send(leaves_at, port, written.view());
    return;
  }
  const uint32_t size_bytes = written.size_bytes();
  if ((buffered_bytes_ + size_bytes) * static_cast<uint64_t>(train_) > kPacketBufferBytes) {
    return drop(SwitchDrop::kBufferFull);
  }
  const int64_t bytes = int64_t{size_bytes} + kFrameOverheadBytes;
  const Instant returns_at = serve(loop.free_at, leaves_at, kPortByteTime * bytes);
  counters_.recirculated++;
  counters_.recirculated_bytes += size_bytes;
  if (trace_.on()) [[unlikely]] {
    trace_leaving(returns_at, TraceKind::kTraffic, "recirculate", port, size_bytes);
  }
  return_to_ingress(returns_at, port, packet, false);
}

void Switch::return_to_ingress(Instant at, uint32_t port, uint32_t& packet, bool resubmitted) {
  Waiting& waiting = *pool_[packet];
  waiting.port = port;
  waiting.resubmitted = resubmitted;
  waiting.number = number_;
  waiting.passes = passes_;
  buffered_bytes_ += waiting.packet.size_bytes();
  due_.push({at, sequence_++, nullptr, packet});
  next_due_ = due_.front()->at;  // pop() requires a call of front() after each push().
  packet = take_buffer();
}

uint32_t Switch::take_buffer() {
  if (free_.empty()) {
    pool_.push_back(std::make_unique<Waiting>());
    return static_cast<uint32_t>(pool_.size() - 1);
  }
  const uint32_t buffer = free_.back();
  free_.pop_back();
  return buffer;
}

}  // namespace tributary::tofino
