// SPDX-License-Identifier: Apache-2.0
#include "io/local/byte_ring.h"

#include <algorithm>
#include <cstring>

namespace tributary::io {
namespace {

/// Copies bytes to a position of the ring, in two pieces at its end.
void copy_in(const ByteRing& ring, uint64_t position, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;  // memcpy() takes no null pointer, even for no bytes.
  const size_t offset = position & (ring.data.size() - 1);
  const size_t first = std::min(bytes.size(), ring.data.size() - offset);
  std::memcpy(ring.data.data() + offset, bytes.data(), first);
  if (first < bytes.size()) {
    std::memcpy(ring.data.data(), bytes.data() + first, bytes.size() - first);
  }
}

void copy_out(const ByteRing& ring, uint64_t position, std::span<std::byte> bytes) {
  if (bytes.empty()) return;
  const size_t offset = position & (ring.data.size() - 1);
  const size_t first = std::min(bytes.size(), ring.data.size() - offset);
  std::memcpy(bytes.data(), ring.data.data() + offset, first);
  if (first < bytes.size()) {
    std::memcpy(bytes.data() + first, ring.data.data(), bytes.size() - first);
  }
}

}  // namespace

// --- RingWriter ---

bool RingWriter::push(std::span<const std::byte> packet) {
  if (broken_ || packet.size() > ring_.packet_bytes_max) return false;
  const auto size = static_cast<uint32_t>(packet.size());
  if (!has_room(record_bytes(size))) return false;
  // A record begins at a unit, so its head never wraps.
  const uint64_t head = size;
  copy_in(ring_, written_, std::as_bytes(std::span(&head, 1)));
  copy_in(ring_, written_ + kRecordHeadBytes, packet);
  written_ += record_bytes(size);
  return true;
}

bool RingWriter::has_room(uint64_t bytes) {
  const uint64_t size = ring_.data.size();
  if (written_ - read_seen_ + bytes <= size) return true;
  // Acquire: pairs with release(), so the reader has copied the bytes that this side overwrites.
  const uint64_t read = ring_.words->read.load(std::memory_order_acquire);
  // An honest reader moves forward, and not beyond the written bytes.
  if (read - read_seen_ > written_ - read_seen_ || read % kRingUnitBytes != 0) {
    broken_ = true;
    return false;
  }
  read_seen_ = read;
  return written_ - read_seen_ + bytes <= size;
}

bool RingWriter::publish() {
  // Sequentially consistent, like the accesses in prepare_sleep(): either the reader sees the
  // packets, or this side sees that it sleeps. The store also releases the copied bytes.
  ring_.words->written.store(written_, std::memory_order_seq_cst);
  if (ring_.words->reader_sleeps.load(std::memory_order_seq_cst) == 0) return false;
  // One wake-up is enough, so this side clears the word. Relaxed: no data depends on it.
  return ring_.words->reader_sleeps.exchange(0, std::memory_order_relaxed) != 0;
}

// --- RingReader ---

RingReader::Popped RingReader::pop(std::span<std::byte> out) {
  if (broken_) return {Status::kBroken};
  if (written_seen_ == read_ && !look()) return {broken_ ? Status::kBroken : Status::kEmpty};
  uint64_t head = 0;
  copy_out(ring_, read_, std::as_writable_bytes(std::span(&head, 1)));
  if (head > ring_.packet_bytes_max) return fail();
  const auto size = static_cast<uint32_t>(head);
  if (record_bytes(size) > written_seen_ - read_) return fail();
  if (size > out.size()) return {Status::kNoRoom};
  copy_out(ring_, read_ + kRecordHeadBytes, out.first(size));
  read_ += record_bytes(size);
  return {Status::kPacket, size};
}

/// Looks for new packets. @return true if there is one.
bool RingReader::look() {
  // Acquire: pairs with publish(), so the packets' bytes are there.
  const uint64_t written = ring_.words->written.load(std::memory_order_acquire);
  // The bytes that are written and not yet released fit the ring.
  if (written - read_ > ring_.data.size() - (read_ - released_) || written % kRingUnitBytes != 0) {
    broken_ = true;
    return false;
  }
  written_seen_ = written;
  return written_seen_ != read_;
}

RingReader::Popped RingReader::fail() {
  broken_ = true;
  return {Status::kBroken};
}

void RingReader::release() {
  if (released_ == read_) return;
  released_ = read_;
  // Release: pairs with has_room().
  ring_.words->read.store(read_, std::memory_order_release);
}

bool RingReader::prepare_sleep() {
  if (written_seen_ != read_) return false;
  ring_.words->reader_sleeps.store(1, std::memory_order_seq_cst);  // See publish().
  if (ring_.words->written.load(std::memory_order_seq_cst) == read_) return true;
  end_sleep();
  return false;
}

void RingReader::end_sleep() {
  // Relaxed: the writer then sends a wake-up that nobody needs, at worst.
  ring_.words->reader_sleeps.store(0, std::memory_order_relaxed);
}

}  // namespace tributary::io
