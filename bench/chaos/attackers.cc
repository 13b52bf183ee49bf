// SPDX-License-Identifier: Apache-2.0
#include "bench/chaos/attackers.h"

#include <fcntl.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <span>

#include "base/byte_order.h"
#include "io/file_descriptor.h"
#include "io/udp/socket_address.h"

namespace tributary::chaos {
namespace {

using Clock = std::chrono::steady_clock;
using io::FileDescriptor;
using wire::MessageType;
using wire::Reason;

/// Most packets between two sleeps; then a sender changes its own port. At low rates fewer, so that
/// no sleep lasts longer than a second.
constexpr uint32_t kBurstMax = 20;
constexpr uint32_t kBurstsPerSecond = 50;
constexpr uint32_t kGradientsMax = 64;
constexpr uint32_t kJunkBytesMax = 1472;

constexpr std::array kUpward{MessageType::kContribution, MessageType::kProbe,
                             MessageType::kJoin,         MessageType::kLeave,
                             MessageType::kKeepAlive,    MessageType::kReport};
constexpr std::array kDownward{MessageType::kResult,  MessageType::kHave,    MessageType::kWelcome,
                               MessageType::kPending, MessageType::kRefusal, MessageType::kNotice,
                               MessageType::kCookie,  MessageType::kReset,   MessageType::kReceipt};

std::byte any_byte(Prng& prng) { return static_cast<std::byte>(prng.any_u32() >> 24); }

/// Moves the calling thread into a network namespace of `ip netns`.
bool enter(const std::string& network) {
  if (network.empty()) return true;
  const FileDescriptor file(open(("/run/netns/" + network).c_str(), O_RDONLY | O_CLOEXEC));
  return file.is_open() && setns(file.get(), CLONE_NEWNET) == 0;
}

/// Sends UDP payloads over IPv4, with any source address where raw sockets are allowed.
class Sender {
 public:
  Sender() : raw_(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW)) { change_port(); }

  void change_port() { plain_ = FileDescriptor(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

  /// @param from The source address to forge; not set: the socket's own.
  bool send(std::span<const std::byte> payload, const Endpoint& from, const Endpoint& to) {
    io::SocketAddress address{};
    const socklen_t size = io::to_socket_address(to, AF_INET, address);
    if (size == 0) return false;
    if (!raw_.is_open() || !from.is_set()) {
      return sendto(plain_.get(), payload.data(), payload.size(), MSG_DONTWAIT, &address.any,
                    size) >= 0;
    }
    return send_raw(payload, from, address, size);
  }

 private:
  bool send_raw(std::span<const std::byte> payload, const Endpoint& from, io::SocketAddress& to,
                socklen_t to_bytes) {
    // The kernel fills in the IP header's length and checksum. The UDP checksum is 0: none.
    struct Headers {
      iphdr ip;
      udphdr udp;
    } headers{};
    headers.ip.version = IPVERSION;
    headers.ip.ihl = sizeof(iphdr) / 4;
    headers.ip.ttl = IPDEFTTL;
    headers.ip.protocol = IPPROTO_UDP;
    headers.ip.saddr = io::ipv4_address(from).s_addr;
    headers.ip.daddr = to.v4.sin_addr.s_addr;
    headers.udp.source = htons(from.port);
    headers.udp.dest = to.v4.sin_port;
    headers.udp.len = htons(static_cast<uint16_t>(sizeof(udphdr) + payload.size()));
    std::vector<std::byte> packet(sizeof headers + payload.size());
    std::memcpy(packet.data(), &headers, sizeof headers);
    std::ranges::copy(payload, packet.begin() + sizeof headers);
    to.v4.sin_port = 0;  // A raw socket has no port.
    return sendto(raw_.get(), packet.data(), packet.size(), MSG_DONTWAIT, &to.any, to_bytes) >= 0;
  }

  FileDescriptor raw_;  ///< Not open without CAP_NET_RAW.
  FileDescriptor plain_;
};

/// Calls `send_one` at a steady rate until the thread is stopped.
template <class SendOne>
void send_steadily(const std::stop_token& stop, uint32_t per_s, Sender& sender, SendOne send_one) {
  const uint32_t burst = std::clamp(per_s / kBurstsPerSecond, 1U, kBurstMax);
  const auto period = std::chrono::nanoseconds(1'000'000'000ULL * burst / per_s);
  for (auto next = Clock::now(); !stop.stop_requested(); next += period) {
    sender.change_port();
    for (uint32_t i = 0; i < burst; i++) send_one();
    std::this_thread::sleep_until(next);
    // A thread that was not scheduled for long does not catch up.
    next = std::max(next, Clock::now() - period);
  }
}

}  // namespace

std::vector<std::byte> forged_message(Prng& prng, const AttackConfig& config, bool upward) {
  wire::Message message;
  message.header = {.job_id = 1,
                    .block_id = prng.below(4096),
                    .final = prng.chance(0.5),
                    .degraded = prng.chance(0.5),
                    .extended = prng.chance(0.9),
                    .src_id = static_cast<uint8_t>(prng.below(config.workers)),
                    .src_cnt = static_cast<uint8_t>(upward ? 1 : config.workers),
                    .gen_id = static_cast<uint16_t>(prng.below(1000)),
                    .grad_cnt = static_cast<uint16_t>(prng.below(kGradientsMax + 1))};
  wire::ExtensionFields& extension = message.extension;
  if (message.header.extended) {
    extension.type =
        upward ? kUpward[prng.below(kUpward.size())] : kDownward[prng.below(kDownward.size())];
    extension.format = static_cast<wire::ElementFormat>(prng.below(3));
    extension.tensor_elements = prng.any_u32();
    extension.key = prng.any_u64();
    extension.flags = wire::seal_flag(config.auth);
    if (prng.chance(0.5)) extension.flags |= wire::kFlagRetransmission;
  }
  message.body.reason = static_cast<Reason>(prng.below(wire::kReasonLast + 1));
  message.body.source = static_cast<uint8_t>(prng.below(config.workers));
  message.body.sources = static_cast<uint16_t>(config.workers);
  message.body.key = prng.any_u64();
  message.body.result_key = prng.any_u64();
  message.body.mask = {prng.any_u64()};

  std::vector<std::byte> bytes(wire::kControlMessageBytes);
  bytes.resize(encode_message(message, bytes.data()));
  const uint32_t seal_bytes = auth::seal_bytes(wire::seal_mode(extension.flags));
  std::generate(bytes.end() - seal_bytes, bytes.end(), [&prng] { return any_byte(prng); });
  const bool has_gradients = !message.header.extended || !is_control(extension.type);
  const uint32_t gradients = has_gradients ? message.header.grad_cnt : 0;
  std::generate_n(std::back_inserter(bytes), gradients * wire::kGradientBytes,
                  [&prng] { return any_byte(prng); });
  return bytes;
}

Attackers::Attackers(const AttackConfig& config) : config_(config) {
  if (config_.forged_per_s > 0) {
    forger_ = std::jthread([this](const std::stop_token& stop) { forge(stop); });
  }
  if (config_.flooded_per_s > 0) {
    flooder_ = std::jthread([this](const std::stop_token& stop) { flood(stop); });
  }
}

Attackers::~Attackers() = default;

void Attackers::aim(std::vector<Endpoint> workers) {
  const std::lock_guard lock(mutex_);
  workers_ = std::move(workers);
}

std::vector<Endpoint> Attackers::workers() const {
  const std::lock_guard lock(mutex_);
  return workers_;
}

void Attackers::forge(const std::stop_token& stop) {
  if (!enter(config_.network)) return;
  Sender sender;
  Prng prng(config_.seed);
  send_steadily(stop, config_.forged_per_s, sender, [&] {
    const std::vector<Endpoint> workers = this->workers();
    const bool upward = workers.empty() || prng.chance(0.5);
    const auto message = forged_message(prng, config_, upward);
    Endpoint member;
    if (!workers.empty()) member = workers[prng.below(static_cast<uint32_t>(workers.size()))];
    const bool own_address = prng.chance(0.5);
    const Endpoint from = own_address ? Endpoint() : upward ? member : config_.server;
    if (sender.send(message, from, upward ? config_.server : member)) {
      forged_.fetch_add(1, std::memory_order_relaxed);
    }
  });
}

void Attackers::flood(const std::stop_token& stop) {
  if (!enter(config_.network)) return;
  Sender sender;
  Prng prng(config_.seed + 1);
  send_steadily(stop, config_.flooded_per_s, sender, [&] {
    std::vector<std::byte> packet;
    if (prng.chance(0.5)) {
      packet = forged_message(prng, config_, /*upward=*/true);
      store_be<uint32_t>(packet.data() + wire::TrioMlHeader::BlockId::kFirstByte, prng.any_u32());
    } else {
      packet.resize(prng.below(kJunkBytesMax + 1));
      std::generate(packet.begin(), packet.end(), [&prng] { return any_byte(prng); });
    }
    if (sender.send(packet, {}, config_.server)) {
      flooded_.fetch_add(1, std::memory_order_relaxed);
    }
  });
}

}  // namespace tributary::chaos
