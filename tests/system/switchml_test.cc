// SPDX-License-Identifier: Apache-2.0
// Method:  a server process and clients that act like the published SwitchML client, call by call
//          and packet by packet, over loopback: gRPC for the session, then UDP packets with its
//          slots and sets. Each rank has its own connection and address, as if it were a process on
//          another machine.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "switchml.grpc.pb.h"
#include "tests/system/server.h"

namespace tributary::system_test {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kElements = 256;
constexpr uint32_t kHeaderBytes = 10;
constexpr uint32_t kPacketBytes = kHeaderBytes + 4 * kElements;
constexpr uint32_t kWindow = 16;
constexpr uint32_t kPackets = 200;

uint32_t address_of(uint32_t job, uint32_t rank) { return 0x7f000100 + 0x100 * job + rank; }

int32_t element(uint32_t job, uint32_t rank, uint32_t packet, uint32_t lane) {
  return static_cast<int32_t>(job * 1'000'003 + rank * 65'537 + packet * 257 + lane);
}

std::string control_address() {
  return "127.0.0.1:" + std::to_string(system_test::free_port(io::Transport::kTcp));
}

/// One worker of a job: its control calls and its socket.
class Client {
 public:
  Client(const std::string& control, uint32_t job, uint32_t rank, uint32_t workers)
      : job_(job), rank_(rank), workers_(workers) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // A connection of its own.
    const auto channel =
        grpc::CreateCustomChannel(control, grpc::InsecureChannelCredentials(), arguments);
    session_ = switchml_proto::Session::NewStub(channel);
    sync_ = switchml_proto::Sync::NewStub(channel);
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Makes the published client's calls in its order.
  /// @return the address to send to.
  uint32_t set_up() {
    const uint64_t id = broadcast(rank_ == 0 ? 1'700'000'000'000'000'000 + job_ : 0);
    switchml_proto::UdpSessionResponse response;
    if (rank_ == 0) {
      response = udp_session(id);
      barrier();
    } else {
      barrier();
      response = udp_session(id);
    }
    barrier();
    EXPECT_EQ(response.session_id(), id);
    return response.ipv4();
  }

  /// Reduces kPackets packets, kWindow at a time.
  void reduce(uint32_t switch_address, uint16_t switch_port) {
    open_socket(switch_address, switch_port);
    std::vector<bool> received(kPackets);
    for (uint32_t packet = 0; packet < kWindow; packet++) send_packet(packet);
    for (uint32_t count = 0; count < kPackets && !::testing::Test::HasFailure(); count++) {
      const uint32_t packet = receive_packet();
      ASSERT_LT(packet, kPackets);
      ASSERT_FALSE(received[packet]);
      received[packet] = true;
      if (packet + kWindow < kPackets) send_packet(packet + kWindow);
    }
  }

  uint64_t broadcast(uint64_t value) {
    switchml_proto::BroadcastRequest request;
    request.set_value(value);
    request.set_rank(rank_);
    request.set_num_workers(workers_);
    request.set_root(0);
    switchml_proto::BroadcastResponse response;
    grpc::ClientContext context;
    const grpc::Status status = sync_->Broadcast(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.value();
  }
  grpc::Status try_udp_session(uint64_t id, switchml_proto::PacketSize size,
                               switchml_proto::UdpSessionResponse& response) {
    switchml_proto::UdpSessionRequest request;
    request.set_session_id(id);
    request.set_rank(rank_);
    request.set_num_workers(workers_);
    request.set_mac(0x020000000000 + rank_);
    request.set_ipv4(address_of(job_, rank_));
    request.set_packet_size(size);
    grpc::ClientContext context;
    return session_->UdpSession(&context, request, &response);
  }
  grpc::Status try_barrier() {
    switchml_proto::BarrierRequest request;
    request.set_num_workers(workers_);
    switchml_proto::BarrierResponse response;
    grpc::ClientContext context;
    return sync_->Barrier(&context, request, &response);
  }
  grpc::Status try_rdma_session() {
    switchml_proto::RdmaSessionResponse response;
    grpc::ClientContext context;
    return session_->RdmaSession(&context, {}, &response);
  }

 private:
  switchml_proto::UdpSessionResponse udp_session(uint64_t id) {
    switchml_proto::UdpSessionResponse response;
    const grpc::Status status = try_udp_session(id, switchml_proto::MTU_1024, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  void barrier() {
    const grpc::Status status = try_barrier();
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  void open_socket(uint32_t switch_address, uint16_t switch_port) {
    socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(address_of(job_, rank_));
    ASSERT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
    sockaddr_in there = own;
    there.sin_addr.s_addr = htonl(switch_address);
    there.sin_port = htons(switch_port);
    ASSERT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&there), sizeof there), 0);
  }
  void send_packet(uint32_t packet) const {
    std::array<unsigned char, kPacketBytes> bytes{};
    bytes[0] = 0x13;  // Type 1, size 3.
    bytes[1] = 7;     // The job's number, the same on all ranks.
    std::memcpy(&bytes[2], &packet, 4);
    const uint32_t index = packet % (2 * kWindow);
    bytes[6] = index < kWindow ? 0 : 0x80;
    bytes[7] = static_cast<unsigned char>(index % kWindow);
    for (uint32_t lane = 0; lane < kElements; lane++) {
      const uint32_t value = htonl(static_cast<uint32_t>(element(job_, rank_, packet, lane)));
      std::memcpy(&bytes[kHeaderBytes + 4 * lane], &value, 4);
    }
    EXPECT_EQ(send(socket_, bytes.data(), bytes.size(), 0), ssize_t{kPacketBytes});
  }
  /// @return the packet's number, after checking its sums.
  uint32_t receive_packet() const {
    pollfd file{socket_, POLLIN, 0};
    const auto deadline = Clock::now() + kPatience;
    if (poll(&file, 1, milliseconds_until(deadline)) <= 0) {
      ADD_FAILURE() << "no result for rank " << rank_;
      return 0;
    }
    std::array<unsigned char, kPacketBytes + 1> bytes{};
    EXPECT_EQ(recv(socket_, bytes.data(), bytes.size(), 0), ssize_t{kPacketBytes});
    uint32_t packet = 0;
    std::memcpy(&packet, &bytes[2], 4);
    EXPECT_EQ(bytes[0], 0x13);
    EXPECT_EQ(bytes[1], 7);
    for (uint32_t lane = 0; lane < kElements; lane++) {
      uint32_t value = 0;
      std::memcpy(&value, &bytes[kHeaderBytes + 4 * lane], 4);
      uint32_t expected = 0;
      for (uint32_t r = 0; r < workers_; r++) {
        expected += static_cast<uint32_t>(element(job_, r, packet, lane));
      }
      EXPECT_EQ(ntohl(value), expected) << "packet " << packet << ", lane " << lane;
    }
    return packet;
  }

  const uint32_t job_;
  const uint32_t rank_;
  const uint32_t workers_;
  std::unique_ptr<switchml_proto::Session::Stub> session_;
  std::unique_ptr<switchml_proto::Sync::Stub> sync_;
  int socket_ = -1;
};

/// A server with two control points.
class SwitchmlServer : public ::testing::Test {
 protected:
  /// @param meet_ms Longest wait in a barrier.
  explicit SwitchmlServer(const char* meet_ms = "20000")
      : control_{control_address(), control_address()},
        server_({}, {"--protocol", "switchml", "--control", control_[0], "--control", control_[1],
                     "--memory-mb", "256", "--meet-ms", meet_ms}) {}
  void run_job(uint32_t job, uint32_t workers, std::vector<std::thread>& threads) {
    for (uint32_t rank = 0; rank < workers; rank++) {
      threads.emplace_back([this, job, rank, workers] {
        Client client(control_.at(job), job, rank, workers);
        const uint32_t address = client.set_up();
        EXPECT_EQ(address, 0x7f000001U);
        client.reduce(address, server_.port());
      });
    }
  }

  const std::array<std::string, 2> control_;
  Server server_;
};

TEST_F(SwitchmlServer, TwoJobsAtOnceGetExactSums) {
  EXPECT_EQ(server_.stats()["control"], nlohmann::json(control_));
  std::vector<std::thread> threads;
  run_job(0, 3, threads);
  run_job(1, 2, threads);
  for (std::thread& thread : threads) thread.join();
  const nlohmann::json stats = server_.stats();
  EXPECT_EQ(stats["counters"]["aggregated"], 5 * kPackets);
  EXPECT_EQ(stats["counters"]["slot_completed"], 2 * kPackets);
  EXPECT_EQ(stats["sessions"].size(), 2U);
  EXPECT_EQ(server_.stop(), 0);
}

// This project's worker registers like the published client, and a second time for the next run.
TEST_F(SwitchmlServer, OurWorkersRequestTheirSessions) {
  for (const char* seed : {"1", "2"}) {
    std::vector<std::unique_ptr<Process>> workers;
    for (uint32_t rank = 0; rank < 2; rank++) {
      workers.push_back(std::make_unique<Process>(std::vector<std::string>{
          "worker", "--protocol", "switchml", "--control", control_[0], "--server",
          server_.address(), "--local", "127.0.8." + std::to_string(rank + 1), "--world", "2",
          "--rank", std::to_string(rank), "--elements", "5000", "--verify", "--seed", seed}));
    }
    for (const auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
  }
  EXPECT_EQ(server_.stats()["sessions"].size(), 1U);
}

class ImpatientSwitchmlServer : public SwitchmlServer {
 protected:
  ImpatientSwitchmlServer() : SwitchmlServer("500") {}
};

TEST_F(ImpatientSwitchmlServer, RefusalsStateTheReason) {
  Client client(control_.at(0), 0, 0, 2);
  switchml_proto::UdpSessionResponse response;
  const grpc::Status size = client.try_udp_session(1, switchml_proto::MTU_512, response);
  EXPECT_EQ(size.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(size.error_message(), HasSubstr("elements=128; allowed: 64 or 256"));
  const grpc::Status rdma = client.try_rdma_session();
  EXPECT_EQ(rdma.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(rdma.error_message(), HasSubstr("UDP"));
  // The other rank never arrives.
  const grpc::Status barrier = client.try_barrier();
  EXPECT_EQ(barrier.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(barrier.error_message(), "barrier: 1 of 2 workers arrived within 0.5 s");
}

TEST_F(ImpatientSwitchmlServer, OurWorkerReportsMissingPeers) {
  Process alone({"worker", "--protocol", "switchml", "--control", control_[0], "--world", "2"});
  EXPECT_EQ(alone.wait_for_end(), 1);
  EXPECT_THAT(alone.errors(),
              HasSubstr("--control " + control_[0] + ": Barrier: barrier: 1 of 2 workers"));
}

TEST_F(SwitchmlServer, RefusedSessionEndsTheOtherRanksWaitWithTheReason) {
  Client zero(control_.at(0), 0, 0, 2);
  Client one(control_.at(0), 0, 1, 2);
  std::thread other([&one] { EXPECT_EQ(one.broadcast(0), 5U); });
  EXPECT_EQ(zero.broadcast(5), 5U);
  other.join();
  grpc::Status waiting;
  other = std::thread([&] { waiting = one.try_barrier(); });
  switchml_proto::UdpSessionResponse response;
  EXPECT_EQ(zero.try_udp_session(5, switchml_proto::MTU_512, response).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  other.join();
  EXPECT_EQ(waiting.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(waiting.error_message(), HasSubstr("elements=128; allowed: 64 or 256"));
}

TEST_F(SwitchmlServer, ServerEndsDuringAPendingCall) {
  Client client(control_.at(0), 0, 0, 2);
  std::thread waiting([&client] {
    const grpc::Status barrier = client.try_barrier();
    EXPECT_FALSE(barrier.ok());
  });
  EXPECT_EQ(server_.stop(), 0);
  waiting.join();
}

}  // namespace
}  // namespace tributary::system_test
