// SPDX-License-Identifier: Apache-2.0
/// @file
/// The memory of one local connection: for each core of the server a ring in each direction.
///
/// Shapes:  [core][direction] blocks of one page of words and `ring_bytes` of packets.
/// Trust:   The server makes the memory and seals its size, so neither side can make the other's
///          accesses fail. A client accepts sealed memory of the expected size only.
/// Threads: Any thread may call; the object does not change.
/// Errors:  One line with the kernel's reason.
/// Memory:  The kernel sets it aside in create(), so later accesses cannot fail for want of it.
/// Tests:   tests/io/local/ring_memory_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "io/file_descriptor.h"
#include "io/local/byte_ring.h"

namespace tributary::io {

/// Most cores of a server with local connections.
inline constexpr uint32_t kLocalCoresMax = 64;

struct RingMemoryShape {
  uint32_t core_count = 1;
  uint32_t ring_bytes = 0;        ///< A power of two of whole pages.
  uint32_t packet_bytes_max = 0;  ///< At most UDP's, and half of a ring.

  friend bool operator==(const RingMemoryShape&, const RingMemoryShape&) = default;
  /// Refuses values that no server of this version uses: they may come from a stranger.
  [[nodiscard]] Result<void> check() const;
  [[nodiscard]] uint64_t bytes() const;
};

/// The two directions of a connection.
enum class RingDirection : uint8_t { kToServer, kToClient };

class RingMemory {
 public:
  /// Makes the memory. `fd` receives the descriptor that the client needs.
  static Result<RingMemory> create(const RingMemoryShape& shape, FileDescriptor& fd);
  /// Maps the memory that a server has made.
  static Result<RingMemory> map(const RingMemoryShape& shape, int fd);

  [[nodiscard]] ByteRing ring(uint32_t core, RingDirection direction) const;
  [[nodiscard]] const RingMemoryShape& shape() const { return shape_; }

 private:
  struct Unmap {
    uint64_t bytes = 0;
    void operator()(std::byte* memory) const;
  };
  RingMemory(const RingMemoryShape& shape, std::byte* memory)
      : shape_(shape), memory_(memory, Unmap{shape.bytes()}) {}

  RingMemoryShape shape_;
  std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace tributary::io
