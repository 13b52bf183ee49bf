// SPDX-License-Identifier: Apache-2.0
// Writes a packet from the PHV and from the bytes that arrived.
#include <array>
#include <cstring>
#include <span>

#include "base/byte_order.h"
#include "base/internet_checksum.h"
#include "tofino/limits.h"
#include "tofino/pipeline/pipe.h"

namespace tributary::tofino {
namespace {

/// Copies ranges that are adjacent in both source and target with one memcpy().
class RunCopy {
 public:
  explicit RunCopy(const std::byte* source) : source_(source) {}
  void add(size_t at, std::byte* to, size_t bytes) {
    if (at != at_ + bytes_) {
      flush();
      at_ = at;
      to_ = to;
    }
    bytes_ += bytes;
  }
  void flush() {
    if (bytes_ > 0) std::memcpy(to_, source_ + at_, bytes_);
    bytes_ = 0;
    at_ = SIZE_MAX;
  }

 private:
  const std::byte* source_;
  std::byte* to_ = nullptr;
  size_t at_ = SIZE_MAX;
  size_t bytes_ = 0;
};

}  // namespace

inline void Pipe::store(const Executable::FieldSlice& fields, std::byte* to) const {
  const uint32_t* const phv = phv_.data();
  const Executable::HeaderField* one = executable_.header_fields.data() + fields.first;
  const auto until = [&](uint32_t last) { return executable_.header_fields.data() + last; };
  for (const auto* end = until(fields.words_end); one != end; one++) {
    store_be(to + one->byte, phv[one->field]);
  }
  for (const auto* end = until(fields.halves_end); one != end; one++) {
    store_be(to + one->byte, static_cast<uint16_t>(phv[one->field]));
  }
  for (const auto* end = until(fields.bytes_end); one != end; one++) {
    to[one->byte] = static_cast<std::byte>(phv[one->field]);
  }
  for (const auto* end = until(fields.last); one != end; one++) {
    const uint64_t clear = uint64_t{one->mask} << one->shift;
    uint64_t bits = 0;
    for (uint32_t b = 0; b < one->byte_count; b++) {
      bits = bits << 8 | std::to_integer<uint64_t>(to[one->byte + b]);
    }
    bits = (bits & ~clear) | uint64_t{phv[one->field]} << one->shift;
    for (uint32_t b = one->byte_count; b-- > 0; bits >>= 8) {
      to[one->byte + b] = static_cast<std::byte>(bits);
    }
  }
}

void Pipe::emit_whole(const Executable::HeaderCode& header, std::byte* to) const {
  if (header.words) {
    const uint32_t* from = &phv_[header.first_field];
    for (uint32_t i = 0; i < header.bytes / 4; i++) store_be<uint32_t>(to + 4 * i, from[i]);
    return;
  }
  std::memset(to, 0, header.bytes);
  store(header.fields, to);
}

/// Computes the checksum of RFC 1071 over the header's bytes, with the checksum's own field as 0.
void Pipe::checksum(const Executable::HeaderCode& header, FieldId target) {
  if (phv_[header.valid] == 0) return;
  std::array<std::byte, kChecksumHeaderBytes> bytes{};
  phv_[target] = 0;
  emit_whole(header, bytes.data());
  phv_[target] = internet_checksum(std::span(bytes).first(header.bytes));
}

/// Writes the packet. It copies the bytes that arrived and overwrites the changed fields. A header
/// that the program created or changed entirely is written as a whole.
void Pipe::deparse(const Executable::GressCode& gress, PacketView packet,
                   const ParserCursor& cursor, PacketBuffer& out) {
  const Executable::HeaderCode* headers =
      &executable_.headers[gress.is_ingress ? 0 : header_at_.size()];
  for (const Checksum& one : gress.checksums) checksum(headers[one.header], one.target);
  const size_t left = packet.stored.size() - cursor.at;
  std::byte* const begin = out.begin(gress.made_bytes + left);
  std::byte* to = begin;
  RunCopy copy(packet.stored.data());
  changed_.clear();
  uint32_t elided = 0;
  for (uint32_t i = gress.deparser.first; i < gress.deparser.last; i++) {
    const Executable::HeaderCode& header = executable_.headers[executable_.header_ids[i]];
    if (phv_[header.valid] == 0) continue;
    if (header.elided) {
      elided += header.bytes;
      continue;
    }
    const uint32_t at = header_at_[header.id];
    const uint32_t changed = header.stores.last - header.stores.first;
    if (at == kNotParsed || (header.words && changed == header.bytes / 4)) {
      copy.flush();
      emit_whole(header, to);
    } else {
      copy.add(at, to, header.bytes);
      if (changed > 0) changed_.push_back({&header.stores, to});
    }
    to += header.bytes;
  }
  const auto made = static_cast<uint32_t>(to - begin);
  // No bytes can be stored behind elided ones, because a packet stores only its beginning.
  const size_t tail = elided > 0 ? 0 : left;
  if (tail > 0) copy.add(cursor.at, to, tail);
  copy.flush();
  for (const ChangedHeader& one : changed_) store(*one.stores, one.to);
  out.finish(made + tail, made + elided + (packet.size_bytes - cursor.size_at));
}

}  // namespace tributary::tofino
