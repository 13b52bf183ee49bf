// SPDX-License-Identifier: Apache-2.0
// Method:  a SwitchML server on a packet socket at one end of a veth pair; at the other end a raw
//          socket that sends frame by frame as the published client does. It takes its addresses
//          from its session call, answers no ARP, and reuses received packets with IP checksum 0
//          and an unfinished UDP checksum. A kernel socket would drop those. Needs root.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/file_descriptor.h"
#include "io/frames/frame_link.h"
#include "switchml.grpc.pb.h"
#include "tests/system/network.h"
#include "tests/system/process.h"
#include "wire/switchml.h"

namespace tributary::system_test {
namespace {

constexpr uint32_t kWorld = 2;
constexpr uint32_t kElements = 256;
constexpr uint32_t kWindow = 16;
constexpr uint32_t kPackets = 200;
constexpr uint32_t kSwitchIp = 0x0a4d0001;
constexpr uint32_t kControlIp = 0x0a4d00fe;
constexpr uint16_t kControlPort = 50'099;

uint32_t ip_of(uint32_t rank) { return 0x0a4d000b + rank; }
uint64_t mac_of(uint32_t rank) { return 0x0200'0000'0b00 + rank; }

io::MacAddress to_mac(uint64_t number) {
  io::MacAddress mac{};
  for (size_t i = mac.size(); i-- > 0; number >>= 8) mac[i] = static_cast<uint8_t>(number);
  return mac;
}

/// Connects to the control point from this thread's namespace. gRPC's own threads may be in
/// another.
std::shared_ptr<grpc::Channel> channel() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(kControlIp);
  to.sin_port = htons(kControlPort);
  EXPECT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  ::fcntl(socket, F_SETFL, O_NONBLOCK);
  return grpc::CreateInsecureChannelFromFd("control", socket);
}

/// Both ranks of a job, on one wire.
class FrameClients {
 public:
  FrameClients()
      : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP))),
        session_(switchml_proto::Session::NewStub(channel())) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_IP);
    address.sll_ifindex = static_cast<int>(::if_nametoindex("wire"));
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
  }

  void register_rank(uint32_t rank) {
    switchml_proto::UdpSessionRequest request;
    request.set_session_id(77);
    request.set_rank(rank);
    request.set_num_workers(kWorld);
    request.set_mac(mac_of(rank));
    request.set_ipv4(ip_of(rank));
    request.set_packet_size(switchml_proto::MTU_1024);
    switchml_proto::UdpSessionResponse response;
    grpc::ClientContext context;
    const grpc::Status status = session_->UdpSession(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.ipv4(), kSwitchIp);
    switch_mac_ = to_mac(response.mac());
  }

  /// @param reused Sends the packet in the buffer of a received one.
  void send(uint32_t rank, uint32_t packet_id, bool reused) const {
    wire::SwitchmlMessage message{.packet_id = packet_id,
                                  .set = packet_id % (2 * kWindow) >= kWindow,
                                  .slot = static_cast<uint16_t>(packet_id % kWindow)};
    message.elements.assign(kElements, value(rank, packet_id));
    const auto payload = switchml_payload(message);
    const auto bytes = static_cast<uint32_t>(payload.size());
    std::vector<std::byte> frame(io::kUdpFrameHeaderBytesIpv4);
    const io::UdpFrameAddresses addresses{
        .source_mac = to_mac(mac_of(rank)),
        .destination_mac = switch_mac_,
        .source = Endpoint::ipv4(ip_of(rank), 4000),
        .destination = Endpoint::ipv4(kSwitchIp, wire::kSwitchmlPort)};
    EXPECT_GT(io::write_udp_frame_headers(
                  addresses, bytes, word_sum(payload),
                  reused ? io::UdpChecksum::kPseudoHeader : io::UdpChecksum::kComplete, frame),
              0U);
    if (reused) frame[24] = frame[25] = std::byte{0};
    frame.insert(frame.end(), payload.begin(), payload.end());
    EXPECT_EQ(::send(socket_.get(), frame.data(), frame.size(), 0),
              static_cast<ssize_t>(frame.size()));
  }

  /// A result, with the rank that it is addressed to.
  struct Result {
    uint32_t rank = kWorld;
    wire::SwitchmlMessage message;
  };
  /// Returns the next result; no rank if none comes in time.
  [[nodiscard]] Result receive() const {
    const auto deadline = Clock::now() + kPatience;
    std::array<std::byte, 2048> frame{};
    for (pollfd file{socket_.get(), POLLIN, 0};
         ::poll(&file, 1, milliseconds_until(deadline)) > 0;) {
      const ssize_t bytes = ::recv(socket_.get(), frame.data(), frame.size(), 0);
      const std::span received(frame.data(), static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
      if (received.size() < io::kUdpFrameHeaderBytesIpv4) continue;
      for (uint32_t rank = 0; rank < kWorld; rank++) {
        const auto mac = to_mac(mac_of(rank));
        if (std::memcmp(received.data(), mac.data(), mac.size()) != 0) continue;
        const auto parsed = wire::parse_switchml(received.subspan(io::kUdpFrameHeaderBytesIpv4));
        if (parsed) return {rank, *parsed};
      }
    }
    ADD_FAILURE() << "no result";
    return {};
  }

  static int32_t value(uint32_t rank, uint32_t packet_id) {
    return static_cast<int32_t>(1'000'003 * rank + 17 * packet_id + 5);
  }

 private:
  const io::FileDescriptor socket_;
  std::unique_ptr<switchml_proto::Session::Stub> session_;
  io::MacAddress switch_mac_{};
};

using SwitchmlOverFrames = VethTest;

TEST_F(SwitchmlOverFrames, PublishedClientGetsExactSumsWithoutATimeOut) {
  ASSERT_TRUE(run("ip -n " + ours_ + " address add 10.77.0.254/24 dev wire"));
  const std::string json = scratch("switchml_frames.json");
  std::unique_ptr<Process> server;
  {
    const Inside inside(ours_);
    server = std::make_unique<Process>(std::vector<std::string>{
        "serve", "--protocol", "switchml", "--port", "packet:wire,ip=10.77.0.1/24", "--control",
        "10.77.0.254:" + std::to_string(kControlPort), "--memory-mb", "256", "--json", json});
  }
  ASSERT_TRUE(server->wait_for_line("ready")) << server->errors();
  const Inside inside(theirs_);
  FrameClients clients;
  for (uint32_t rank = 0; rank < kWorld; rank++) clients.register_rank(rank);
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    for (uint32_t id = 0; id < kWindow; id++) clients.send(rank, id, /*reused=*/false);
  }
  for (uint32_t count = 0; count < kWorld * kPackets && !HasFailure(); count++) {
    const auto [rank, message] = clients.receive();
    ASSERT_LT(rank, kWorld);
    const uint32_t id = message.packet_id;
    const int32_t sum = FrameClients::value(0, id) + FrameClients::value(1, id);
    ASSERT_EQ(message.elements, std::vector<int32_t>(kElements, sum)) << "packet " << id;
    if (id + kWindow < kPackets) clients.send(rank, id + kWindow, /*reused=*/true);
  }
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait_for_end(), 0);
  std::ifstream file(json);
  const auto stats = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  EXPECT_EQ(stats["listen"], "10.77.0.1:48864");
  // Each packet once: none was lost and sent again.
  EXPECT_EQ(stats["counters"]["aggregated"], kWorld * kPackets);
  EXPECT_EQ(stats["counters"]["slot_completed"], kPackets);
  EXPECT_EQ(stats["ports"][0]["frames"]["bad_ip_checksum"], 0);
  EXPECT_EQ(stats["ports"][0]["frames"]["bad_udp_checksum"], 0);
  EXPECT_EQ(stats["ports"][0]["frames"]["unresolved"], 0);
}

}  // namespace
}  // namespace tributary::system_test
