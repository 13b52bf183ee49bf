// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a packet program may use: the Machine concept. A program is a coroutine template over a
/// Machine; it touches the world only through external transactions (XTXNs, Trio paper §3.1), so
/// the same source runs on the live machine (wall clock, real packets) and on a modelled one.
///
/// Contract: Between two co_awaits a program has the thread's local state to itself. At a co_await
///           any other thread of the machine may run, so shared state is changed only inside an
///           XTXN, which its target serves whole, in order of arrival (§2.3). A program that is
///           right under every interleaving of its XTXNs is right on both machines; the tests run
///           each program on a machine that interleaves at random.
/// Tests:    tests/engine/step_machine.h is the smallest suspending machine.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/endpoint.h"
#include "base/time.h"
#include "microcode/frame_pool.h"
#include "microcode/instruction.h"
#include "microcode/packet_head.h"
#include "microcode/thread.h"

namespace tributary::microcode {

/// What an XTXN asks of its target. Source: Trio paper §2.3, §3.1; design of the modelled prices.
enum class XtxnKind : uint8_t {
  kRead,
  kWrite,
  kFetchAndOp,  ///< And, Or, Xor, Clear, Add, Swap on one word.
  kMaskedWrite,
  kCounterIncrement,
  kPolice,
  kHashLookup,
  kHashInsert,
  kHashDelete,
  kHashScan,  ///< A timer's visit to up to 64 records: test and clear their REF flags (§5).
  kTailRead,
};

/// One request: its kind, where in shared memory, how many bytes. A constructor rather than an
/// aggregate, and passed by reference: a coroutine keeps it in its frame, where zeroing its padding
/// and copying it just after would stall a core that has no use for it.
struct Xtxn {
  constexpr Xtxn(XtxnKind xtxn_kind, const void* xtxn_target, uint32_t xtxn_size_bytes)
      : kind(xtxn_kind), size_bytes(xtxn_size_bytes), target(xtxn_target) {}
  XtxnKind kind;
  uint32_t size_bytes;
  const void* target;
};

/// How accumulate() finds the buffer.
enum class Accumulate : uint8_t {
  kFirst,  ///< First contribution since the buffer was taken: its lanes count as zero.
  kAdd,
};

/// Bytes of a packet tail fetched at once, and of a result written at once. Source: Trio paper §4.
inline constexpr uint32_t kTailChunkBytes = 64;
inline constexpr uint32_t kResultChunkBytes = 256;

template <class M>
concept Machine = requires(M m, const M& c, Instruction instruction, Xtxn xtxn, int (*service)(),
                           std::span<const std::byte> bytes, std::span<const Endpoint> destinations,
                           int32_t* lanes, uint32_t count, uint32_t reason) {
  /// Whether an XTXN may suspend the thread.
  { M::kSuspends } -> std::convertible_to<bool>;
  { m.frame_pool() } -> std::same_as<FramePool&>;

  /// The thread executes an instruction.
  m.instruction(instruction);
  /// The time at which the burst (live) or the instruction (modelled) began.
  { c.now() } -> std::same_as<Instant>;

  /// The packet at hand: its head in local memory, its whole size in bytes, whether it begins with
  /// an Ethernet header, and, if it does not, who sent it.
  { c.head() } -> std::same_as<PacketHead>;
  { c.packet_size() } -> std::same_as<uint32_t>;
  { c.arrived_as_frame() } -> std::same_as<bool>;
  { c.source() } -> std::same_as<const Endpoint&>;

  /// Issues an XTXN whose target runs `service` when its turn comes; co_await the returned object
  /// for the reply (at once: synchronous; later: asynchronous). post() wants no reply.
  m.issue(xtxn, service);
  m.post(xtxn, service);

  /// Leaf loop: adds `count` big-endian gradients that begin `offset_bytes` into the packet to
  /// `lanes`. co_await it.
  m.accumulate(lanes, count /* offset_bytes */, count, Accumulate::kFirst);
  /// Leaf loop: turns `count` lanes into a result's payload, in place (network byte order), in
  /// 256-byte chunks. co_await it.
  m.finish_lanes(lanes, count);

  /// Sends a UDP payload that lies in shared memory to each destination, without copying it. It
  /// must stay as it is until release_payload() has returned for it.
  m.send(bytes, destinations);
  /// Sends a small packet (at most kHeadBytes) from local memory to one destination.
  m.send_small(bytes, Endpoint{});
  /// From here on the caller may change a payload that was sent before.
  m.release_payload(bytes);

  /// Ends the packet: on to the next hop unchanged, or dropped for a reason of the program's own
  /// (an index of its counters).
  m.forward();
  m.drop(reason);
};

}  // namespace tributary::microcode
