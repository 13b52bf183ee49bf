// SPDX-License-Identifier: Apache-2.0
/// @file
/// RAII handles of the C interface, and helpers that join ranks in separate threads.
///
/// Threads: Any thread may use a Rank.
/// Tests:   used by tests/host/c_api/c_api_test.cc, c_api_failures_test.cc
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/endpoint.h"
#include "host/include/tributary.h"

namespace tributary::testing {

struct FreeCommunicator {
  void operator()(tributary_communicator* handle) const { tributary_free(handle); }
};
using Rank = std::unique_ptr<tributary_communicator, FreeCommunicator>;

struct FreeOperation {
  void operator()(tributary_operation* handle) const { tributary_operation_free(handle); }
};
using Reduction = std::unique_ptr<tributary_operation, FreeOperation>;

/// Far longer than a busy machine needs.
inline constexpr uint32_t kLongMs = 20'000;

inline std::string url_of(const Endpoint& server, uint32_t rank, uint32_t world,
                          const std::string& more = "", uint32_t deadline_ms = kLongMs) {
  return fmt::format("tributary://{}/job/1?rank={}&world={}&deadline_ms={}{}", server.to_string(),
                     rank, world, deadline_ms, more);
}

/// Joins each rank in its own thread, because the ranks wait for each other.
inline std::vector<Rank> join_all(const Endpoint& server, uint32_t world,
                                  const std::string& more = "", uint32_t deadline_ms = kLongMs) {
  std::vector<Rank> ranks(world);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < world; rank++) {
    threads.emplace_back([&, rank] {
      tributary_communicator* joined = nullptr;
      const std::string url = url_of(server, rank, world, more, deadline_ms);
      EXPECT_EQ(tributary_join(url.c_str(), &joined), TRIBUTARY_OK) << tributary_error_text();
      ranks[rank].reset(joined);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

/// Starts an all-reduce of a whole vector, which must outlive the operation.
template <class T>
Reduction start(const Rank& rank, std::vector<T>& tensor, int32_t type,
                int32_t op = TRIBUTARY_SUM) {
  tributary_operation* started = nullptr;
  EXPECT_EQ(
      tributary_all_reduce_async(rank.get(), tensor.data(), tensor.size(), type, op, &started),
      TRIBUTARY_OK)
      << tributary_error_text();
  return Reduction(started);
}

inline tributary_status wait(const Reduction& operation) {
  return tributary_wait(operation.get(), -1);
}

inline tributary_report report_of(const Reduction& operation) {
  tributary_report report{};
  EXPECT_EQ(tributary_operation_report(operation.get(), &report, sizeof report), TRIBUTARY_OK);
  return report;
}

inline tributary_info info_of(const Rank& rank) {
  tributary_info info{};
  EXPECT_EQ(tributary_get_info(rank.get(), &info, sizeof info), TRIBUTARY_OK);
  return info;
}

}  // namespace tributary::testing
