// SPDX-License-Identifier: Apache-2.0
/// @file
/// Every number of the modelled machine, once, with unit and source. docs/model.md shows the sums
/// behind the assumed numbers and the calibration.
///
/// Units:  As in each comment; cycles are of `clock_period`.
/// Errors: check(), preset() and set_parameter() name the key, the value and the allowed values.
/// Tests:  tests/engine/model/parameters_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "engine/packet.h"
#include "memory/rmw_bank.h"

namespace tributary::engine {

/// Precision of memory requests' timing; the model is the same. Tests in tests/engine/model/ bound
/// the difference.
enum class Fidelity : uint8_t {
  kExact,  ///< Each memory request is an event at its bank, in order of arrival.
  kBurst,  ///< A thread's requests reserve the banks' time when issued, a leaf loop's together.
};

struct Parameters {
  uint32_t generation = 5;  ///< 1 to 6; 5 is the paper's testbed (Trio paper §6.1).
  Fidelity fidelity = Fidelity::kBurst;
  /// Longest train of packets that arrives as one. Each record that a timer thread visits stands
  /// for as many. It also sets how finely kBurst counts the banks' time.
  uint32_t train_max = 1;

  // --- Packet processing engines ---
  Duration clock_period = memory::kRmwClockPeriod;  ///< Source: Trio paper §6.3, 1 GHz.
  /// Source: Trio paper §8, 16 in generation 1 and 160 in generation 6. The others are assumed:
  /// 16 x 10^((g - 1) / 5), the same factor from each generation to the next.
  uint32_t ppe_count = 101;
  /// Threads of a PPE. Assumed: the paper says "tens" (§2.1).
  uint32_t threads_each = 20;
  /// Cycles that an instruction spends in the PPE's pipeline. The thread's next instruction starts
  /// after it (§2.2). Assumed: equal to the number of threads, so a PPE issues an instruction in
  /// every cycle when all its threads have work.
  uint32_t instruction_cycles = 20;
  /// Instructions before the program's first, which parse the Ethernet, IP and UDP headers that a
  /// port has removed. Source: apps/arrival.h has three for a frame.
  uint32_t header_instructions = 3;
  /// Bytes of those headers; they are part of the head. Source: IEEE 802.3, RFC 791, RFC 768.
  uint32_t header_bytes = 14 + 20 + 8;

  // --- Leaf loops ---
  /// One instruction for each gradient issues its 32-bit add. Three more for each 64 bytes fetch
  /// them, advance and branch. Assumed, so that 16 gradients take 19 instructions: 1.19 each, the
  /// paper's "1.2 run-time instructions per gradient" (§6.3).
  uint32_t instructions_per_gradient = 1;
  uint32_t instructions_per_chunk = 3;
  /// For each 256 bytes of a result (§4): four reads, four writes, an advance, a branch. Assumed.
  uint32_t instructions_per_result_chunk = 10;
  /// For each lane of a 16-bit result: one rounds, one limits the quotient and writes it. Assumed.
  /// To add such a lane costs nothing extra, since operands are bit fields of any length (§2.2).
  uint32_t instructions_per_narrow_lane = 2;

  // --- Memory ---
  /// Source: Trio paper §6.3 for generation 5. Other generations assumed: as many for each PPE.
  uint32_t rmw_engine_count = memory::kRmwEngineCount;
  Duration sram_latency = nanoseconds(70);  ///< From the PPE and back. Source: Trio paper §2.3.
  /// From the PPE and back, on a cache miss. Source: Trio paper §2.3, middle of "300 ns to 400 ns".
  Duration dram_latency = nanoseconds(350);
  /// From the PPE and back, on a cache hit. Source: Trio paper §2.3, the cache is "similar to the
  /// on-chip SRAM".
  Duration dram_cache_latency = nanoseconds(70);
  /// A power of two. Source: Trio paper §2.3, middle of "8-24 MBytes".
  uint64_t dram_cache_bytes = uint64_t{16} << 20;
  /// From the PPE to a bank. It is the same for all banks, so requests reach a bank in the order in
  /// which they were issued. Assumed: half the SRAM latency.
  Duration crossbar_latency = nanoseconds(35);
  /// Requests of 64 bytes that can queue at a bank. Further requests wait in the crossbar, and a
  /// thread that posts another one stalls (§2.3 "backpressure"). Assumed.
  uint32_t bank_queue_requests = 16;
  /// Time of a hash operation beside the visits of its buckets: the hash itself and the access to
  /// the record. Assumed: one SRAM access.
  Duration hash_latency = nanoseconds(70);
  /// Bytes of a record that hold its REF flag, for a scan. Assumed: one smallest request.
  uint32_t ref_flag_bytes = memory::kRequestBytesMin;

  // --- Packets ---
  /// CALIBRATED: from a packet's last bit at a port to the program's start, with the head in local
  /// memory. It covers the memory and queueing subsystem, splitting, dispatch and the standard
  /// forwarding code. The paper does not state it. Figure 15's 30 us at 64 gradients determine it
  /// (docs/model.md).
  Duration ingress_latency = nanoseconds(22'500);
  /// CALIBRATED: from a request for 64 bytes of a packet's tail until they are in local memory
  /// (§3.1: memory and queueing subsystem, crossbar). The paper does not state it. Figure 15's
  /// 200 us at 1024 gradients determine it. Assumed: a write to the tail takes as long.
  Duration tail_read_latency = nanoseconds(2'330);
  /// Most packets inside, queued or in work; further ones are dropped. Packets that programs make
  /// have the same room of their own. Source: Juniper's answer on buffer management of MPCs
  /// (community.juniper.net, 2016): 100 ms of the port's speed. For four ports of 100 Gbit/s (§6.1)
  /// that is 5 GB, 1.2 million packets of 1024 gradients; the power of two below.
  uint32_t packet_buffer_packets = 1'048'576;
  /// Longest packet. Assumed: the most gradients that a header can name (§4, Figure 8: 4095) and
  /// 256 bytes of headers, in whole cache lines.
  uint32_t packet_bytes_max = 16'640;
  // --- The egress side and the ports. 0: not modelled ---
  // The paper's figures have none of them: links carry their packets, and the calibrated ingress
  // latency covers the standard forwarding code. with_egress() sets them.
  uint32_t port_gbit_per_s = 0;    ///< All ports of a PFE together, in each direction.
  uint32_t fabric_gbit_per_s = 0;  ///< From a PFE to all others, and back.
  /// Instructions of a packet's pass through the egress PFE.
  uint32_t egress_instructions = 0;

  /// Queues of the reorder engine; flows in different queues do not wait for each other. Assumed.
  uint32_t reorder_queues = 1024;

  [[nodiscard]] uint32_t thread_count() const { return ppe_count * threads_each; }
  [[nodiscard]] bool models_egress() const {
    return port_gbit_per_s + fabric_gbit_per_s + egress_instructions > 0;
  }
  [[nodiscard]] Duration instruction_time() const { return clock_period * instruction_cycles; }
  /// Returns the bytes of a UDP payload that are in local memory from the start.
  [[nodiscard]] uint32_t head_payload_bytes() const { return kHeadBytes - header_bytes; }
};

/// Returns the numbers of a Trio generation. Refuses a generation outside 1 to 6.
[[nodiscard]] Result<Parameters> preset(uint32_t generation);

/// Adds the egress side and the ports of the generation: a prediction. docs/model.md has the
/// sources.
[[nodiscard]] Parameters with_egress(Parameters parameters);

/// Checks all values. @return an Error for the first value that is not allowed.
[[nodiscard]] Result<void> check(const Parameters& parameters);

/// One number in readable form: for tables, reports and scenario files.
struct ParameterRow {
  std::string name;  ///< As in Parameters; times end in _ns.
  double value;
  std::string unit;
  std::string source;  ///< "Trio paper §x", "assumed" or "calibrated".
};
[[nodiscard]] std::vector<ParameterRow> parameter_rows(const Parameters& parameters);

/// Sets the number that parameter_rows() calls `name`. Refuses an unknown name, a value out of
/// range and a fraction for a number that must be whole.
[[nodiscard]] Result<void> set_parameter(Parameters& parameters, std::string_view name,
                                         double value);

}  // namespace tributary::engine
