// SPDX-License-Identifier: Apache-2.0
// Method:  shares worked by hand. Then real servers and workers on 127.0.0.1, with tensors of about
//          a chunk's size, against the known sum.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

#include "bench/race/client/lap_tensor.h"
#include "bench/race/client/ps_client.h"
#include "bench/race/client/ps_server.h"

namespace tributary::race {
namespace {

constexpr uint32_t kLoopback = 0x7f000001;

TEST(PsShare, ChunksAreDistributedOverTheServers) {
  // Two and a half chunks over two servers: chunks 0 and 2 to the first, chunk 1 to the second.
  constexpr uint64_t kBytes = 2 * kPsChunkBytes + kPsChunkBytes / 2;
  const PsShare first{kBytes, 0, 2};
  const PsShare second{kBytes, 1, 2};
  EXPECT_EQ(first.chunks(), 2U);
  EXPECT_EQ(first.offset(1), uint64_t{2} * kPsChunkBytes);
  EXPECT_EQ(first.size(0), kPsChunkBytes);
  EXPECT_EQ(first.size(1), kPsChunkBytes / 2);
  EXPECT_EQ(second.chunks(), 1U);
  EXPECT_EQ(second.offset(0), kPsChunkBytes);
  EXPECT_EQ((PsShare{4, 1, 2}).chunks(), 0U);
}

/// Servers in threads.
class Servers {
 public:
  Servers(uint32_t count, uint32_t workers) {
    for (uint32_t i = 0; i < count; i++) {
      auto server = PsServer::listen(Endpoint::ipv4(kLoopback, 0), workers);
      EXPECT_TRUE(server) << server.error().text;
      servers_.push_back(std::move(*server));
      addresses_.push_back(Endpoint::ipv4(kLoopback, servers_.back()->port()));
      threads_.emplace_back([server = servers_.back().get()] { server->run(); });
    }
  }
  ~Servers() {
    for (const auto& server : servers_) server->stop();
  }
  [[nodiscard]] const std::vector<Endpoint>& addresses() const { return addresses_; }

 private:
  std::vector<std::unique_ptr<PsServer>> servers_;
  std::vector<Endpoint> addresses_;
  std::vector<std::jthread> threads_;  ///< Last member, so that the threads end first.
};

/// Returns the wrong elements of all workers over a few all-reduces.
uint64_t wrong_over(uint32_t servers_count, uint32_t workers, uint64_t bytes) {
  const Servers servers(servers_count, workers);
  std::vector<uint64_t> wrong(workers);
  {
    std::vector<std::jthread> threads;
    for (uint32_t rank = 0; rank < workers; rank++) {
      threads.emplace_back([&, rank] {
        auto client = PsClient::connect(servers.addresses(), bytes);
        ASSERT_TRUE(client) << client.error().text;
        std::vector<float> tensor(bytes / sizeof(float));
        for (uint32_t reduction = 0; reduction < 3; reduction++) {
          fill(tensor, rank, reduction);
          const auto reduced = client->reduce(tensor);
          ASSERT_TRUE(reduced) << reduced.error().text;
          wrong[rank] += count_wrong(tensor, workers, reduction, {});
        }
      });
    }
  }
  uint64_t sum = 0;
  for (const uint64_t count : wrong) sum += count;
  return sum;
}

TEST(ParameterServer, SumsAreExact) {
  for (const uint64_t bytes : {uint64_t{4}, uint64_t{kPsChunkBytes}, uint64_t{kPsChunkBytes} + 4,
                               uint64_t{40} * kPsChunkBytes + 8}) {
    EXPECT_EQ(wrong_over(1, 2, bytes), 0U) << bytes;
    EXPECT_EQ(wrong_over(2, 3, bytes), 0U) << bytes;
  }
}

TEST(ParameterServer, RefusesAWrongGreeting) {
  const Servers servers(1, 1);
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(kLoopback);
  address.sin_port = htons(servers.addresses().front().port);
  ASSERT_EQ(connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const PsGreeting no_servers{.servers = 0, .tensor_bytes = 8};
  ASSERT_EQ(send(file, &no_servers, sizeof no_servers, 0), ssize_t{sizeof no_servers});
  char byte = 0;
  EXPECT_EQ(recv(file, &byte, 1, 0), 0) << "closed";
  close(file);
}

TEST(ParameterServer, RefusalNamesAnAddressInUse) {
  const Servers servers(1, 1);
  const auto second = PsServer::listen(servers.addresses().front(), 1);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().text.find("in use"), std::string::npos) << second.error().text;
}

TEST(ParameterServer, ReportsAMissingServer) {
  auto gone = std::make_unique<Servers>(1, 1);
  const std::vector<Endpoint> addresses = gone->addresses();
  gone.reset();
  EXPECT_FALSE(PsClient::connect(addresses, 8));
}

}  // namespace
}  // namespace tributary::race
