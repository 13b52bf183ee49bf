// SPDX-License-Identifier: Apache-2.0
#include "tests/system/paper_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

namespace paper {
namespace {

constexpr size_t kDatagramBytesMax = 65'536;

void append(Bytes& bytes, uint64_t value, uint32_t byte_count) {
  for (uint32_t i = byte_count; i > 0; i--) {
    bytes.push_back(static_cast<uint8_t>(value >> (8 * (i - 1))));
  }
}

uint32_t number(const Bytes& bytes, size_t at, uint32_t byte_count) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < byte_count; i++) value = value << 8 | bytes[at + i];
  return value;
}

}  // namespace

Bytes packed(const Header& header, const Gradients& gradients) {
  Bytes bytes;
  append(bytes, header.job_id, 1);
  append(bytes, header.block_id, 4);
  append(bytes, header.age_op << 4 | (header.final ? 8 : 0) | (header.degraded ? 4 : 0), 1);
  append(bytes, header.src_id, 1);
  append(bytes, header.src_cnt, 1);
  append(bytes, header.gen_id, 2);
  append(bytes, header.grad_cnt & 0xfff, 2);
  for (const int32_t gradient : gradients) append(bytes, static_cast<uint32_t>(gradient), 4);
  return bytes;
}

std::optional<Packet> unpacked(const Bytes& bytes) {
  if (bytes.size() < kHeaderBytes) return std::nullopt;
  Packet packet;
  packet.header.job_id = bytes[0];
  packet.header.block_id = number(bytes, 1, 4);
  packet.header.age_op = bytes[5] >> 4;
  packet.header.final = (bytes[5] & 8) != 0;
  packet.header.degraded = (bytes[5] & 4) != 0;
  packet.header.src_id = bytes[6];
  packet.header.src_cnt = bytes[7];
  packet.header.gen_id = static_cast<uint16_t>(number(bytes, 8, 2));
  packet.header.grad_cnt = static_cast<uint16_t>(number(bytes, 10, 2) & 0xfff);
  if (bytes.size() != kHeaderBytes + 4U * packet.header.grad_cnt) return std::nullopt;
  for (uint32_t i = 0; i < packet.header.grad_cnt; i++) {
    packet.gradients.push_back(static_cast<int32_t>(number(bytes, kHeaderBytes + 4 * i, 4)));
  }
  return packet;
}

Source::Source(uint8_t job_id, uint8_t src_id, uint16_t server_port, uint32_t server_address)
    : job_id_(job_id), src_id_(src_id), socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in server{};
  server.sin_family = AF_INET;
  server.sin_port = htons(server_port);
  server.sin_addr.s_addr = htonl(server_address);
  connect(socket_, reinterpret_cast<const sockaddr*>(&server), sizeof server);
}

Source::~Source() { close(socket_); }

Bytes Source::contribution(uint32_t block_id, uint16_t gen_id, const Gradients& gradients) const {
  Header header;
  header.job_id = job_id_;
  header.block_id = block_id;
  header.src_id = src_id_;
  header.gen_id = gen_id;
  header.grad_cnt = static_cast<uint16_t>(gradients.size());
  return packed(header, gradients);
}

void Source::send(uint32_t block_id, uint16_t gen_id, const Gradients& gradients) {
  send_bytes(contribution(block_id, gen_id, gradients));
}

void Source::send_bytes(const Bytes& bytes) {
  // Ignore errors: UDP may drop packets anyway.
  static_cast<void>(!::send(socket_, bytes.data(), bytes.size(), 0));
}

std::optional<Packet> Source::receive(std::chrono::steady_clock::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  pollfd file{socket_, POLLIN, 0};
  if (poll(&file, 1, static_cast<int>(std::max<int64_t>(left.count(), 0))) <= 0) {
    return std::nullopt;
  }
  Bytes bytes(kDatagramBytesMax);
  const ssize_t size = recv(socket_, bytes.data(), bytes.size(), 0);
  bytes.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  return unpacked(bytes);
}

}  // namespace paper
