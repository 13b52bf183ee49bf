// SPDX-License-Identifier: Apache-2.0
/// @file
/// A Tofino switch in virtual time, without I/O: packets in, packets out with port and time.
///
/// Model:   A packet enters the ingress of its port's pipe, one a clock; the traffic manager copies
///          it where the program said (a port, a multicast group, a mirror session), each copy runs
///          through the egress of its port's pipe and leaves one pass latency after it came. A port
///          in loopback is also serialised at its rate, and its packet comes back into the ingress
///          of the same pipe. A front-panel port's own serialisation is the link's business.
///          A packet's effect on registers happens when it enters the ingress; packets are taken in
///          the order of (time, sequence).
/// Units:   Instants; sizes in bytes; ports are device ports (pipe x 128 + local port).
/// Threads: One.
/// Errors:  A program that does not fit, or a configuration with a wrong port, is refused at
///          make(). What a packet can cause is counted in SwitchCounters and never refused.
/// Memory:  Registers and counters per pipe at make(); packets in recirculation up to the chip's
///          buffer (kPacketBufferBytes), beyond which they are dropped and counted.
/// Determinism: Random draws come from the seed; the same calls give the same packets and times.
/// Tests:   tests/tofino/pipeline/switch_test.cc, switch_trace_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/calendar_queue.h"
#include "base/result.h"
#include "base/time.h"
#include "base/trace.h"
#include "tofino/limits.h"
#include "tofino/pipeline/packet_generator.h"
#include "tofino/pipeline/pipe.h"

namespace tributary::tofino {

struct SwitchConfig {
  uint32_t pipes = 4;  ///< 1 to kPipes.
  Duration pass_latency = kPassLatency;
  Payload payload = Payload::kCarried;
  /// Front-panel ports that lead back into the chip, beside those that always do.
  std::vector<uint32_t> loopback_ports = {};
  uint64_t seed = 1;  ///< Of random draws.
  /// Each packet stands for so many that follow each other at their port's rate: it is the last of
  /// them, pipes and loops are busy with all, counters count it once.
  uint32_t train = 1;
};

/// Why a packet went no further.
enum class SwitchDrop : uint8_t {
  kIngressProgram,  ///< The program's own decision.
  kEgressProgram,
  kParserReject,   ///< No transition of the parser matched.
  kParserShort,    ///< It ends inside a header.
  kNoDestination,  ///< Neither port, nor group, nor drop: the program left it so.
  kUnknownPort,    ///< A port of a pipe that the switch does not have.
  kUnknownGroup,   ///< A multicast group or mirror session that is not set.
  kResubmittedTwice,
  kBufferFull,  ///< On its way to a loopback port.
};
inline constexpr uint32_t kSwitchDropCount = 9;
[[nodiscard]] const char* name_of(SwitchDrop drop);

struct SwitchCounters {
  uint64_t arrived = 0;  ///< From outside.
  uint64_t left = 0;     ///< To outside, copies counted each.
  uint64_t passes = 0;   ///< Through an ingress.
  uint64_t recirculated = 0;
  uint64_t recirculated_bytes = 0;
  uint64_t generated = 0;  ///< By packet generators.
  std::array<uint64_t, kSwitchDropCount> dropped{};
  [[nodiscard]] uint64_t operator[](SwitchDrop drop) const {
    return dropped[static_cast<uint32_t>(drop)];
  }
};

/// One copy of a multicast group.
struct MulticastCopy {
  uint32_t port = 0;
  uint16_t replication_id = 0;
};

/// Takes what leaves the switch.
class SwitchSink {
 public:
  /// The packet's first bit leaves `port` at `at`, which may be later than the call. The bytes are
  /// gone after the call.
  virtual void send(Instant at, uint32_t port, PacketView packet) = 0;

 protected:
  ~SwitchSink() = default;
};

class Switch {
 public:
  /// @param sink Must outlive the switch.
  static Result<std::unique_ptr<Switch>> make(Program program, const SwitchConfig& config,
                                              SwitchSink& sink);
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  // --- Control plane ------------------------------------------------------------------------
  [[nodiscard]] const Program& program() const { return *executable_.program; }
  [[nodiscard]] const Placement& placement() const { return *executable_.placement; }
  [[nodiscard]] Tables& tables() { return tables_; }
  [[nodiscard]] Pipe& pipe(uint32_t index) { return pipes_.at(index)->pipe; }
  [[nodiscard]] uint32_t pipe_count() const { return static_cast<uint32_t>(pipes_.size()); }
  /// Group 1 … kMulticastGroups - 1; replaces what it was.
  [[nodiscard]] Result<void> set_multicast_group(uint32_t group, std::vector<MulticastCopy> copies);
  /// Session 1 … kMirrorSessionMax; copies are cut after `size_bytes_max`.
  [[nodiscard]] Result<void> set_mirror_session(uint32_t session, uint32_t port,
                                                uint32_t size_bytes_max);

  /// Starts an application of a pipe's packet generator, see packet_generator.h. It goes on until
  /// it is stopped.
  [[nodiscard]] Result<void> set_generator(const GeneratorConfig& config);
  void stop_generator(uint32_t pipe, uint32_t application) { generators_.stop(pipe, application); }

  // --- Packets ------------------------------------------------------------------------------
  /// A whole packet has come in at `port`. Does what is due until `at` first.
  /// @pre at is not earlier than any call's before.
  void arrive(Instant at, uint32_t port, PacketView packet);
  /// When the next packet comes back from a loopback or is generated; never() if none does.
  [[nodiscard]] Instant next_due() const { return std::min(next_due_, generators_.next_at()); }
  /// Takes all packets that come back or are generated up to and including `at`; of equal times
  /// those that come back first.
  void run_until(Instant at);

  [[nodiscard]] const SwitchCounters& counters() const { return counters_; }

  /// From now on it tells what happens to packets: arrival, each pass with all its steps, what the
  /// traffic manager decides, what leaves and why something ends. Packets are numbered from 1 in
  /// the order of their arrival or generation, before or after this call.
  void set_trace(const Tracer& trace);

 private:
  struct PipeState {
    PipeState(const Executable& executable, const Tables& tables, uint64_t seed)
        : pipe(executable, tables, seed) {}
    Pipe pipe;
    Instant free_at;
  };
  struct Loopback {
    Instant free_at;
    bool active = false;
  };
  struct MirrorSession {
    uint32_t port = 0;
    uint32_t size_bytes_max = 0;
    bool set = false;
  };
  /// A packet on its way back.
  struct Waiting {
    PacketBuffer packet;
    uint32_t port = 0;
    bool resubmitted = false;
    uint64_t number = 0;  ///< Of the packet, and of its copies.
    uint32_t passes = 0;  ///< That it has made.
  };
  Switch(Executable executable, const SwitchConfig& config, SwitchSink& sink);

  void pass(Instant at, uint32_t port, PacketView packet, bool resubmitted);
  void route(Instant leaves_at, PacketView original, const Pipe& pipe);
  void copy_to(Instant leaves_at, uint32_t port, uint16_t replication_id, PacketView packet);
  void leave(Instant leaves_at, uint32_t port, uint32_t& packet);
  void mirror(Instant leaves_at, uint32_t session, PacketView original);
  void come_back(Instant at, uint32_t port, uint32_t& packet, bool resubmitted);
  [[nodiscard]] uint32_t take_buffer();
  /// When something that takes `one` for each packet is done with the last of a train, which comes
  /// at `at`; `free_at`, from when on it is free, moves on.
  [[nodiscard]] Instant serve(Instant& free_at, Instant at, Duration one) const;
  void drop(SwitchDrop reason) {
    counters_.dropped[static_cast<uint32_t>(reason)]++;
    if (trace_.on()) [[unlikely]]
      pass_trace_->emit(TraceKind::kDrop, name_of(reason));
  }
  // switch_trace.cc
  void trace_pass(Instant at, const char* gress, uint32_t port);
  void trace_traffic(const Pipe& pipe) const;
  void trace_leaving(Instant at, TraceKind kind, const char* what, uint32_t port,
                     uint32_t size_bytes) const;
  [[nodiscard]] bool exists(uint32_t port) const { return port / kPortsPerPipe < pipes_.size(); }

  const Executable executable_;
  Tables tables_;
  const Duration pass_latency_;
  const int64_t train_;
  SwitchSink& sink_;
  std::vector<std::unique_ptr<PipeState>> pipes_;
  std::vector<Loopback> loopbacks_;  ///< Shape [pipes x kPortsPerPipe].
  std::vector<std::vector<MulticastCopy>> groups_;
  std::vector<MirrorSession> sessions_;

  CalendarQueue due_;  ///< Packets on their way back; an event's argument is into pool_.
  Instant next_due_ = Instant::never();  ///< Of due_.
  PacketGenerators generators_;
  uint64_t sequence_ = 0;
  std::vector<std::unique_ptr<Waiting>> pool_;
  std::vector<uint32_t> free_;  ///< Into pool_.
  uint64_t buffered_bytes_ = 0;
  // What a pass has written, in pool_; one that comes back is exchanged for a free one.
  uint32_t from_ingress_;
  uint32_t from_egress_;
  SwitchCounters counters_;

  // For a trace.
  Tracer trace_;
  std::unique_ptr<PassTrace> pass_trace_;
  uint64_t number_last_ = 0;
  uint64_t number_ = 0;  ///< Of the packet in work.
  uint32_t passes_ = 0;  ///< That it has made.
};

}  // namespace tributary::tofino
