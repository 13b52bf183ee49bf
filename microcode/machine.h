// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Machine concept: everything that a packet program may use. A program is a coroutine template
/// over a Machine and acts only through external transactions (XTXNs, Trio paper §3.1). So the same
/// source runs on the live machine (wall clock, real packets) and on the modelled one.
///
/// Contract: Between two co_awaits no other thread touches the thread's local state. At a co_await
///           any other thread of the machine may run. Change shared state only inside an XTXN: its
///           target serves XTXNs whole, in order of arrival (§2.3). A program that is right under
///           every interleaving of its XTXNs is right on both machines; tests interleave at random.
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
#include "microcode/rule.h"
#include "microcode/thread.h"

namespace tributary::memory {
class HashBuckets;
}

namespace tributary::microcode {

/// The operation that an XTXN requests. Source: Trio paper §2.3, §3.1; the modelled machine's
/// prices distinguish these kinds.
enum class XtxnKind : uint8_t {
  // Of the Shared Memory System. All but kFetchAndAdd and kFetchAndOp stand in §2.3.
  kRead,
  kWrite,
  kFetchAndAnd,
  kFetchAndOr,
  kFetchAndXor,
  kFetchAndClear,
  kFetchAndSwap,
  kMaskedWrite,
  kAdd32,  ///< A 32-bit add to each lane of the request, without a reply.
  kCounterIncrement,
  kPolice,
  kFetchAndAdd,  ///< Assumed: an add with the word before it as reply.
  kFetchAndOp,   ///< Assumed: an operation of the program's own on one record.
  // Of the hash unit.
  kHashLookup,
  kHashInsert,
  kHashDelete,
  /// A timer's visit to up to 64 records: test and clear their REF flags (§5). Its size is that of
  /// the flags, memory::kRefFlagBytes for each record.
  kHashScan,
  // Of the Packet Buffer.
  kTailRead,
  kTailWrite,  ///< Assumed for arriving packets: §4 describes it for results.
};

inline constexpr uint32_t kXtxnKindCount = static_cast<uint32_t>(XtxnKind::kTailWrite) + 1;

/// One request: its kind, its target in shared memory and its size in bytes. It has a constructor
/// and is passed by reference because a coroutine keeps it in its frame. As an aggregate it would
/// be zeroed there, padding included, and then copied, which would stall the core for nothing.
struct Xtxn {
  constexpr Xtxn(XtxnKind xtxn_kind, const void* xtxn_target, uint32_t xtxn_size_bytes,
                 const memory::HashBuckets* hash_table = nullptr)
      : kind(xtxn_kind), size_bytes(xtxn_size_bytes), target(xtxn_target), table(hash_table) {}
  XtxnKind kind;
  uint32_t size_bytes;
  const void* target;
  /// For a hash operation on a key: the table; `target` is the key's home bucket. Null:
  /// the operation visits `target` alone. See memory::hash_request().
  const memory::HashBuckets* table;
};

/// Whether accumulate() overwrites or adds to the buffer.
enum class Accumulate : uint8_t {
  kFirst,  ///< First contribution since the buffer was taken: its lanes count as zero.
  kAdd,
};

/// The bits of a gradient on the wire. Buffers always have lanes of 32 bits.
enum class LaneWidth : uint8_t { k32, k16 };
[[nodiscard]] constexpr uint32_t bytes_of(LaneWidth width) {
  return width == LaneWidth::k16 ? 2 : 4;
}

/// The conversion of a buffer's lanes to a result's payload. 16-bit results are the lanes divided
/// by 2^shift, ties to even, limited to +-32767.
struct ResultLanes {
  LaneWidth width = LaneWidth::k32;
  uint8_t shift = 0;  ///< For k16 only.
};

/// Most bytes of a tail that one XTXN moves, and bytes written at once to a result. Source: Trio
/// §4.
inline constexpr uint32_t kTailChunkBytes = 64;
inline constexpr uint32_t kResultChunkBytes = 256;

template <class M>
concept Machine = requires(M m, const M& c, Instruction instruction, Xtxn xtxn, int (*service)(),
                           std::span<const std::byte> bytes, std::span<std::byte> chunk,
                           std::span<const Endpoint> destinations, int32_t* lanes, uint32_t count,
                           uint32_t reason) {
  /// Whether an XTXN may suspend the thread.
  { M::kSuspends } -> std::convertible_to<bool>;
  { m.frame_pool() } -> std::same_as<FramePool&>;

  /// Marks the start of an instruction that the thread executes.
  m.instruction(instruction);
  /// Returns the time at which the burst (live) or the instruction (modelled) began.
  { c.now() } -> std::same_as<Instant>;
  /// Returns the time at which the packet arrived (live: its burst's time), the same on each
  /// machine. Programs that keep times of packets use it. @pre the thread has a packet.
  { c.arrived_at() } -> std::same_as<Instant>;

  /// Describe the packet: its head in local memory, its whole size in bytes, whether it begins with
  /// an Ethernet header, and, if it does not, its sender. A machine that suspends threads returns a
  /// MeteredHead.
  { c.head() } -> std::convertible_to<PacketHead>;
  { c.packet_size() } -> std::same_as<uint32_t>;
  { c.arrived_as_frame() } -> std::same_as<bool>;
  { c.source() } -> std::same_as<const Endpoint&>;

  /// Changes the head in local memory from a byte on. forward() sends the packet with its changed
  /// head. @pre the bytes lie within the head.
  m.write_head(count /* offset_bytes */, bytes);
  /// Prepends bytes to the packet, and removes its first bytes. head() and packet_size() change at
  /// once; bytes of the tail never come into the head. @pre the packet is a frame; at most
  /// kHeadroomBytes more bytes are prepended than removed; bytes to remove lie within the head.
  m.push_head(bytes);
  m.pop_head(count);

  /// Issue an XTXN that copies bytes of the tail to local memory, or from there to the tail (Trio
  /// paper §2.2, §3.1). Offsets count from the tail's first byte, which follows the head. co_await
  /// them. The reply of read_tail() is the number of bytes copied (uint32_t): fewer than
  /// chunk.size() at the tail's end, 0 past it. @pre the packet is a frame; at most
  /// kTailChunkBytes; bytes to write lie within the tail; the span stays valid until the reply.
  m.read_tail(count /* offset_bytes */, chunk);
  m.write_tail(count /* offset_bytes */, bytes);

  /// Issues an XTXN. Its target runs `service` when the XTXN's turn comes. co_await the returned
  /// object for the reply: at once for a synchronous XTXN, later for an asynchronous one. post()
  /// issues an XTXN without a reply.
  m.issue(xtxn, service);
  m.post(xtxn, service);

  /// Leaf loop: adds `count` big-endian gradients, which begin `offset_bytes` into the packet, to
  /// `lanes`. co_await it. Without a width: 32 bits.
  m.accumulate(lanes, count /* offset_bytes */, count, Accumulate::kFirst);
  m.accumulate(lanes, count /* offset_bytes */, count, Accumulate::kFirst, LaneWidth::k16);
  /// Leaf loop: converts `count` lanes in place to a result's payload (network byte order), in
  /// 256-byte chunks. co_await it.
  m.finish_lanes(lanes, count);
  m.finish_lanes(lanes, count, ResultLanes{});

  /// Sends a UDP payload that lies in shared memory to each destination, without copying it. The
  /// caller must not change it until release_payload() has returned for it.
  m.send(bytes, destinations);
  /// Sends a small packet (at most kHeadBytes) from local memory to one destination.
  m.send_small(bytes, Endpoint{});
  /// Tells whether the port has little room for packets, so that a program should leave out replies
  /// that it owes nobody. May take as long as a system call. @see engine::PortQueue
  { c.is_send_crowded() } -> std::same_as<bool>;
  /// After this returns, the caller may change a payload that was sent before.
  m.release_payload(bytes);

  /// End the packet: forward it to the next hop, or drop it for a reason that the program
  /// defines (an index of its counters).
  m.forward();
  m.drop(reason);
};

}  // namespace tributary::microcode
