// SPDX-License-Identifier: Apache-2.0
/// @file
/// The filter of the Trio paper's §3.2: forwards IP packets without options, drops all others.
///
///   process_ether --IP--> process_ip --no options--> forward_packet
///        |                     |
///        +------- ir0 ---------+--> count_dropped --> drop_packet            (Figure 5)
///
/// Model:   As in the paper, "IP" is EtherType 0x0800, and an IP packet whose version is not 4 or
///          whose header is not five words long counts as one with options. A third counter
///          counts truncated packets, which the paper lacks. Output ports count forwarded packets.
/// Units:   Counter addresses in 8-byte words, as in the paper; sizes in bytes.
/// Tests:   tests/apps/filter/filter_test.cc
#pragma once

#include <cstdint>

#include "base/result.h"
#include "memory/shared_memory.h"
#include "memory/xtxn.h"
#include "microcode/machine.h"
#include "microcode/register.h"
#include "wire/headers.h"

namespace tributary::filter {

/// The reason to drop a packet; the program keeps this value in ir0.
enum class Drop : uint8_t {
  kNonIp = 0,
  kIpOptions = 1,
  kNoHeader = 2,  ///< Truncated, or from a port that removes headers.
};
inline constexpr uint32_t kDropCount = 3;

/// Returns "non_ip", "ip_options" or "no_header".
[[nodiscard]] const char* to_string(Drop reason);

/// Words from one Packet/Byte Counter to the next: "DROP_CNT_BASE + ir0 * 2" (§3.2).
inline constexpr uint64_t kWordBytes = 8;
inline constexpr uint64_t kCounterWords = 2;
static_assert(kCounterWords * kWordBytes == sizeof(memory::PacketByteCounter));

inline constexpr microcode::Instruction kProcessEther{"process_ether",
                                                      {.lmem_reads = 1, .register_writes = 1}};
inline constexpr microcode::Instruction kProcessIp{"process_ip",
                                                   {.lmem_reads = 1, .register_writes = 1}};
inline constexpr microcode::Instruction kCountDropped{"count_dropped", {.register_reads = 2}};
/// "Completed by multiple instructions" in the paper (§3.2), which shows none of them.
inline constexpr microcode::Instruction kForwardPacket{"forward_packet", {}};
inline constexpr microcode::Instruction kDropPacket{"drop_packet", {.register_reads = 1}};

/// The filter's counters in shared memory: kDropCount Packet/Byte Counters of 16 bytes from
/// DROP_CNT_BASE on (Figure 6).
class FilterState {
 public:
  /// Takes the counters from the SRAM range, which holds frequently accessed data (§2.3).
  /// @return an Error if it has too little left.
  static Result<FilterState> create(memory::SharedMemory& memory);

  /// Returns DROP_CNT_BASE.
  [[nodiscard]] uint64_t drop_cnt_base_words() const { return drop_cnt_base_words_; }
  [[nodiscard]] memory::PacketByteCounter& counter_at(uint64_t address_words) const {
    return *memory_->at_as<memory::PacketByteCounter>(memory::Address(address_words * kWordBytes));
  }
  /// Returns the counter of packets dropped for a reason; for reports, between bursts.
  [[nodiscard]] const memory::PacketByteCounter& dropped(Drop reason) const {
    return counter_at(drop_cnt_base_words_ + static_cast<uint64_t>(reason) * kCounterWords);
  }

 private:
  FilterState(memory::SharedMemory& memory, uint64_t drop_cnt_base_words)
      : memory_(&memory), drop_cnt_base_words_(drop_cnt_base_words) {}

  memory::SharedMemory* memory_;
  uint64_t drop_cnt_base_words_;
};

namespace detail {

/// Runs the two instructions that read the packet.
/// @return whether to forward the packet; if not, ir0 has the reason.
template <microcode::Machine M, class Register>
bool passes(M& m, Register& ir0) {
  using Ether = wire::EthernetHeader;
  using Ipv4 = wire::Ipv4Header;
  m.instruction(kProcessEther);
  ir0 = Drop::kNoHeader;
  if (!m.arrived_as_frame()) return false;
  const auto ether = m.head().template view<Ether>(0);
  if (!ether) return false;
  ir0 = Drop::kNonIp;
  if (ether->template get<Ether::EtherType>() != wire::kEtherTypeIpv4) return false;

  m.instruction(kProcessIp);
  ir0 = Drop::kNoHeader;
  const auto ipv4 = m.head().template view<Ipv4>(Ether::kBytes);
  if (!ipv4) return false;
  ir0 = Drop::kIpOptions;
  return ipv4->template get<Ipv4::Version>() == 4 && ipv4->template get<Ipv4::HeaderWords>() == 5;
}

}  // namespace detail

/// Runs the instructions of the thread. None of them waits for a reply.
template <microcode::Machine M>
void run_filter(M& m, FilterState& state) {
  auto ir0 = microcode::make_register<Drop>(m);
  if (detail::passes(m, ir0)) {
    m.instruction(kForwardPacket);
    m.forward();
    return;
  }
  m.instruction(kCountDropped);
  const Drop counted = ir0;
  const uint64_t address_words =
      state.drop_cnt_base_words() + static_cast<uint64_t>(counted) * kCounterWords;
  memory::post_counter_increment(m, state.counter_at(address_words), m.packet_size());

  m.instruction(kDropPacket);
  const Drop reason = ir0;
  m.drop(static_cast<uint32_t>(reason));
}

/// Runs the thread for one packet.
template <microcode::Machine M>
microcode::Thread filter_packet(M& m, FilterState& state) {
  run_filter(m, state);
  co_return;
}

}  // namespace tributary::filter
