// SPDX-License-Identifier: Apache-2.0
/// @file
/// A Tofino switch in virtual time, without I/O. Packets go in; packets come out with port and
/// time. Switch describes the path of a packet.
///
/// Units:   Instants; sizes in bytes; ports are device ports (pipe x 128 + local port).
/// Threads: One.
/// Errors:  make() refuses a program that does not fit, and a configuration with a wrong port. Each
///          effect of a bad packet is counted in SwitchCounters and never refused.
/// Memory:  make() takes the registers and counters of each pipe. Recirculating packets are dropped
///          and counted beyond the chip's buffer (kPacketBufferBytes).
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
  /// Front-panel ports that loop back into the chip, in addition to the inner loops.
  std::vector<uint32_t> loopback_ports = {};
  uint64_t seed = 1;  ///< Seed of the random draws.
  /// Each packet stands for this many packets that follow each other at the port's rate. It is the
  /// last of them. Pipes and loops are busy for all of them; counters count the packet once.
  uint32_t train = 1;
};

/// The reason why a packet was dropped.
enum class SwitchDrop : uint8_t {
  kIngressProgram,  ///< The program dropped it.
  kEgressProgram,
  kParserReject,   ///< No transition of the parser matched.
  kParserShort,    ///< The packet ends inside a header.
  kNoDestination,  ///< The program set no port, no group and no drop.
  kUnknownPort,    ///< A port of a pipe that the switch does not have.
  kUnknownGroup,   ///< A multicast group or mirror session that is not set.
  kResubmittedTwice,
  kBufferFull,  ///< No room in the buffer on the way to a loopback port.
};
inline constexpr uint32_t kSwitchDropCount = 9;
[[nodiscard]] const char* name_of(SwitchDrop drop);

struct SwitchCounters {
  uint64_t arrived = 0;  ///< Packets from outside.
  uint64_t left = 0;     ///< Packets to outside; each copy counts.
  uint64_t passes = 0;   ///< Passes through an ingress.
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

/// Receives the packets that leave the switch.
class SwitchSink {
 public:
  /// Takes a packet whose first bit leaves `port` at `at`, which may be later than the call. The
  /// bytes are valid only during the call.
  virtual void send(Instant at, uint32_t port, PacketView packet) = 0;

 protected:
  ~SwitchSink() = default;
};

/// The path of a packet:
///  1. It enters the ingress of its port's pipe, one packet per clock, in the order of (time,
///     sequence). Its effect on registers happens at that moment.
///  2. The traffic manager copies it to the destinations that the program chose: a port, a
///     multicast group, a mirror session.
///  3. Each copy runs through the egress of its port's pipe. It leaves one pass latency after the
///     packet arrived.
///  4. A loopback port also serialises the copy at the port's rate and returns it to the ingress of
///     the same pipe. The link models the serialisation of a front-panel port.
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
  /// Sets or replaces group 1 … kMulticastGroups - 1.
  [[nodiscard]] Result<void> set_multicast_group(uint32_t group, std::vector<MulticastCopy> copies);
  /// Sets session 1 … kMirrorSessionMax; copies are truncated to `size_bytes_max`.
  [[nodiscard]] Result<void> set_mirror_session(uint32_t session, uint32_t port,
                                                uint32_t size_bytes_max);

  /// Starts an application of a pipe's packet generator (see packet_generator.h). It runs until
  /// stop_generator().
  [[nodiscard]] Result<void> set_generator(const GeneratorConfig& config);
  void stop_generator(uint32_t pipe, uint32_t application) { generators_.stop(pipe, application); }

  // --- Packets ------------------------------------------------------------------------------
  /// Processes a whole packet that has arrived at `port`. Packets that are due until `at` go first.
  /// @pre `at` is not earlier than in any previous call.
  void arrive(Instant at, uint32_t port, PacketView packet);
  /// Returns when the next packet recirculates or is generated; never() if none is due.
  [[nodiscard]] Instant next_due() const { return std::min(next_due_, generators_.next_at()); }
  /// Processes all packets that recirculate or are generated up to and including `at`. If times are
  /// equal, recirculated packets come first.
  void run_until(Instant at);

  [[nodiscard]] const SwitchCounters& counters() const { return counters_; }

  /// Starts tracing: arrivals, each pass with its steps, decisions of the traffic manager, packets
  /// that leave, and drops with their reason. Packets are numbered from 1 in the order of arrival
  /// or generation, including those before this call.
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
  /// A packet that recirculates or was resubmitted.
  struct Waiting {
    PacketBuffer packet;
    uint32_t port = 0;
    bool resubmitted = false;
    uint64_t number = 0;  ///< Number of the packet; its copies have the same.
    uint32_t passes = 0;  ///< Passes so far.
  };
  Switch(Executable executable, const SwitchConfig& config, SwitchSink& sink);

  void pass(Instant at, uint32_t port, PacketView packet, bool resubmitted);
  void route(Instant leaves_at, PacketView original, const Pipe& pipe);
  void copy_to(Instant leaves_at, uint32_t port, uint16_t replication_id, PacketView packet);
  void leave(Instant leaves_at, uint32_t port, uint32_t& packet);
  void mirror(Instant leaves_at, uint32_t session, PacketView original);
  void return_to_ingress(Instant at, uint32_t port, uint32_t& packet, bool resubmitted);
  [[nodiscard]] uint32_t take_buffer();
  /// Returns when a resource that needs `one` per packet has finished the last packet of a train.
  /// That packet arrives at `at`. Moves `free_at`, the time from which the resource is free.
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

  CalendarQueue due_;  ///< Recirculating packets; an event's argument is an index into pool_.
  Instant next_due_ = Instant::never();  ///< Next time of due_.
  PacketGenerators generators_;
  uint64_t sequence_ = 0;
  std::vector<std::unique_ptr<Waiting>> pool_;
  std::vector<uint32_t> free_;  ///< Indices into pool_.
  uint64_t buffered_bytes_ = 0;
  // Output buffers of a pass, in pool_. A buffer that recirculates is exchanged for a free one.
  uint32_t from_ingress_;
  uint32_t from_egress_;
  SwitchCounters counters_;

  // Used by a trace.
  Tracer trace_;
  std::unique_ptr<PassTrace> pass_trace_;
  uint64_t number_last_ = 0;
  uint64_t number_ = 0;  ///< Number of the current packet.
  uint32_t passes_ = 0;  ///< Passes of that packet so far.
};

}  // namespace tributary::tofino
