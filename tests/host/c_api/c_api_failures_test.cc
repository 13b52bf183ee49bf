// SPDX-License-Identifier: Apache-2.0
// Method: each misuse and each failure once, through the C interface against a live aggregator. The
// tests check the code and the text that every rank gets. Deadlines are short where they must
// expire, and long where they must not. Nothing sleeps and no time is asserted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "tests/host/c_api/c_api_bed.h"
#include "tests/host/live_server.h"

namespace tributary::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Deadline of tests that wait for it to expire; far longer than a busy machine needs to answer.
constexpr uint32_t kShortMs = 1500;

/// The status and text of a join that must fail.
struct JoinFailure {
  tributary_status status;
  std::string text;
};
JoinFailure failed_join(const std::string& url) {
  tributary_communicator* joined = nullptr;
  const tributary_status status = tributary_join(url.c_str(), &joined);
  EXPECT_EQ(joined, nullptr);
  return {status, tributary_error_text()};
}

// --- Arguments ---

TEST(CApiFailures, ErrorNamesABadArgument) {
  const Server server(1);
  const std::vector<Rank> ranks = join_all(server.local(), 1);
  alignas(4) std::array<float, 2> tensor{1, 2};
  auto* bytes = reinterpret_cast<std::byte*>(tensor.data());
  tributary_communicator* rank = ranks[0].get();
  const auto reduce = [](tributary_communicator* on, void* data, uint64_t count, int32_t type,
                         int32_t op) {
    EXPECT_EQ(tributary_all_reduce(on, data, count, type, op), TRIBUTARY_INVALID);
    tributary_operation* operation = nullptr;
    EXPECT_EQ(tributary_all_reduce_async(on, data, count, type, op, &operation), TRIBUTARY_INVALID);
    EXPECT_EQ(operation, nullptr);
    return std::string(tributary_error_text());
  };
  EXPECT_EQ(reduce(nullptr, bytes, 1, TRIBUTARY_INT32, TRIBUTARY_SUM), "communicator is NULL");
  EXPECT_EQ(reduce(rank, nullptr, 1, TRIBUTARY_INT32, TRIBUTARY_SUM), "data is NULL");
  EXPECT_THAT(reduce(rank, bytes, 1, 4, TRIBUTARY_SUM), StartsWith("type=4 is not allowed"));
  EXPECT_THAT(reduce(rank, bytes, 1, -1, TRIBUTARY_SUM), StartsWith("type=-1 is not allowed"));
  EXPECT_THAT(reduce(rank, bytes, 1, TRIBUTARY_INT32, 2), StartsWith("op=2 is not allowed"));
  EXPECT_THAT(reduce(rank, bytes + 2, 1, TRIBUTARY_FLOAT32, TRIBUTARY_SUM),
              HasSubstr("is not aligned to its elements of 4 bytes"));
  EXPECT_THAT(reduce(rank, bytes + 1, 1, TRIBUTARY_FLOAT16, TRIBUTARY_SUM),
              HasSubstr("is not aligned to its elements of 2 bytes"));
  EXPECT_THAT(reduce(rank, bytes, UINT64_MAX / 2, TRIBUTARY_INT32, TRIBUTARY_SUM),
              HasSubstr("do not fit into memory"));
  EXPECT_EQ(tributary_all_reduce_async(rank, bytes, 1, 0, 0, nullptr), TRIBUTARY_INVALID);
  EXPECT_STREQ(tributary_error_text(), "out is NULL");

  EXPECT_EQ(tributary_join("tributary://x", nullptr), TRIBUTARY_INVALID);
  EXPECT_EQ(tributary_wait(nullptr, 0), TRIBUTARY_INVALID);
  EXPECT_STREQ(tributary_error_text(), "operation is NULL");
  EXPECT_STREQ(tributary_operation_text(nullptr), "");
  EXPECT_STREQ(tributary_error_text(), "operation is NULL");  // Unchanged.
  EXPECT_EQ(tributary_get_info(rank, nullptr, 8), TRIBUTARY_INVALID);
  EXPECT_STREQ(tributary_error_text(), "info is NULL");
  EXPECT_EQ(tributary_get_counters(nullptr, nullptr, 0), TRIBUTARY_INVALID);
  EXPECT_EQ(tributary_close(nullptr), TRIBUTARY_INVALID);
  tributary_free(nullptr);
  tributary_operation_free(nullptr);

  EXPECT_EQ(tributary_all_reduce(rank, bytes, 2, TRIBUTARY_FLOAT32, TRIBUTARY_SUM), TRIBUTARY_OK);
  EXPECT_STREQ(tributary_error_text(), "");
  EXPECT_THAT(tensor, ::testing::ElementsAre(1, 2));
}

TEST(CApiFailures, ErrorTextsArePerThread) {
  EXPECT_EQ(tributary_wait(nullptr, 0), TRIBUTARY_INVALID);
  std::thread([] { EXPECT_STREQ(tributary_error_text(), ""); }).join();
  EXPECT_STREQ(tributary_error_text(), "operation is NULL");
}

TEST(CApiFailures, RefusesOverlapWithAPendingOperation) {
  const Server server(2);
  const std::vector<Rank> ranks = join_all(server.local(), 2);
  std::vector<float> tensor(1000, 1.0F);
  std::vector<float> other(400, 1.0F);
  tributary_operation* started = nullptr;
  ASSERT_EQ(tributary_all_reduce_async(ranks[0].get(), &tensor[300], 400, TRIBUTARY_FLOAT32,
                                       TRIBUTARY_SUM, &started),
            TRIBUTARY_OK);
  const Reduction middle(started);
  EXPECT_EQ(tributary_wait(middle.get(), 0), TRIBUTARY_PENDING);  // Rank 1 has not begun.
  EXPECT_STREQ(tributary_error_text(), "the operation is still on its way");
  tributary_report report{};
  EXPECT_EQ(tributary_operation_report(middle.get(), &report, sizeof report), TRIBUTARY_PENDING);
  struct Case {
    uint32_t first;
    uint32_t count;
  };
  for (const Case& part :
       {Case{300, 400}, Case{0, 301}, Case{699, 1}, Case{0, 1000}, Case{400, 10}}) {
    EXPECT_EQ(tributary_all_reduce_async(ranks[0].get(), &tensor[part.first], part.count,
                                         TRIBUTARY_FLOAT32, TRIBUTARY_SUM, &started),
              TRIBUTARY_OVERLAP);
    EXPECT_EQ(started, nullptr);
    EXPECT_THAT(tributary_error_text(), HasSubstr("still on its way; wait for that first"));
  }
  const Reduction peer = start(ranks[1], other, TRIBUTARY_FLOAT32);
  EXPECT_EQ(wait(middle), TRIBUTARY_OK);
  EXPECT_EQ(wait(peer), TRIBUTARY_OK);
  EXPECT_EQ(tensor[300], 2.0F);
  EXPECT_EQ(tensor[299], 1.0F);
  const Reduction again = start(ranks[0], tensor, TRIBUTARY_FLOAT32);  // The tensor is free again.
  std::vector<float> thousand(1000, 1.0F);
  const Reduction again_peer = start(ranks[1], thousand, TRIBUTARY_FLOAT32);
  EXPECT_EQ(wait(again), TRIBUTARY_OK);
  EXPECT_EQ(wait(again_peer), TRIBUTARY_OK);
}

// --- Joining ---

TEST(CApiFailures, FailedJoinStatesTheReason) {
  EXPECT_EQ(failed_join("tributary://127.0.0.1:1?rank=0&world=1&colour=red").status,
            TRIBUTARY_INVALID);
  EXPECT_THAT(failed_join("tributary://[::g]:1?rank=0&world=1").text, HasSubstr("::g"));
  for (const char* list : {"127.0.0.1:1,localhost:1/job/1?rank=0&world=1",
                           "127.0.0.1:1/job/1?rank=0&world=1&asynchronous=on&threads=2"}) {
    const JoinFailure refused = failed_join(std::string("tributary://") + list);
    EXPECT_EQ(refused.status, TRIBUTARY_INVALID) << refused.text;
  }
  const JoinFailure nobody = failed_join(url_of(Endpoint::ipv4(0x7f000001, 1), 0, 1, "", kShortMs));
  EXPECT_EQ(nobody.status, TRIBUTARY_AGGREGATOR_GONE);
  EXPECT_THAT(nobody.text, HasSubstr("aggregator 127.0.0.1:1 does not answer"));

  const Server server(2);
  const JoinFailure world = failed_join(url_of(server.local(), 0, 3));
  EXPECT_EQ(world.status, TRIBUTARY_REFUSED);
  EXPECT_THAT(world.text, HasSubstr("has 2 ranks, not 3"));
  const JoinFailure alone = failed_join(url_of(server.local(), 0, 2, "", kShortMs));
  EXPECT_EQ(alone.status, TRIBUTARY_PEER_MISSING);
  EXPECT_THAT(alone.text, HasSubstr("rank 1 has not joined job 1"));
  const JoinFailure gradients = failed_join(url_of(server.local(), 0, 2, "&gradients=2000"));
  EXPECT_EQ(gradients.status, TRIBUTARY_REFUSED);
  EXPECT_THAT(gradients.text, HasSubstr("takes at most 1024 gradients a packet, not 2000"));

  const std::vector<Rank> ranks = join_all(server.local(), 2);
  const JoinFailure full = failed_join(url_of(server.local(), 1, 2, "", kShortMs));
  EXPECT_EQ(full.status, TRIBUTARY_REFUSED);
  EXPECT_THAT(full.text, HasSubstr("rank 1 of job 1 is taken by another worker"));
}

// --- During an all-reduce ---

/// Starts two operations that do not match. Both ranks must get the error long before the deadline.
template <class A, class B>
void expect_mismatch(std::vector<A> first, int32_t first_type, std::vector<B> second,
                     int32_t second_type, int32_t second_op = TRIBUTARY_SUM) {
  const Server server(2);
  const std::vector<Rank> ranks = join_all(server.local(), 2, "&gradients=100&window=4");
  const Reduction one = start(ranks[0], first, first_type);
  const Reduction other = start(ranks[1], second, second_type, second_op);
  for (const Reduction* operation : {&one, &other}) {
    EXPECT_EQ(wait(*operation), TRIBUTARY_MISMATCH);
    EXPECT_THAT(tributary_operation_text(operation->get()),
                HasSubstr("all ranks must make the same calls"));
  }
  float more = 1;  // The communicator has ended: same error at once.
  EXPECT_EQ(tributary_all_reduce(ranks[0].get(), &more, 1, TRIBUTARY_FLOAT32, TRIBUTARY_SUM),
            TRIBUTARY_MISMATCH);
  EXPECT_THAT(tributary_error_text(), HasSubstr("all ranks must make"));
}

TEST(CApiFailures, SumAndMeanCauseAMismatchOnEveryRank) {
  const std::vector<float> floats(150);
  const std::vector<int32_t> integers(150);
  const std::vector<uint16_t> halves(150);
  expect_mismatch(floats, TRIBUTARY_FLOAT32, floats, TRIBUTARY_FLOAT32, TRIBUTARY_MEAN);
  expect_mismatch(integers, TRIBUTARY_INT32, integers, TRIBUTARY_INT32, TRIBUTARY_MEAN);
  expect_mismatch(halves, TRIBUTARY_BFLOAT16, halves, TRIBUTARY_BFLOAT16, TRIBUTARY_MEAN);
}

TEST(CApiFailures, DifferentLengthsCauseAMismatchOnEveryRank) {
  using Floats = std::vector<float>;
  expect_mismatch(Floats(50), TRIBUTARY_FLOAT32, Floats(51), TRIBUTARY_FLOAT32);
  expect_mismatch(Floats(100), TRIBUTARY_FLOAT32, Floats(5000), TRIBUTARY_FLOAT32);
  expect_mismatch(Floats(5000), TRIBUTARY_FLOAT32, Floats(100), TRIBUTARY_FLOAT32);
  expect_mismatch(std::vector<int32_t>(100), TRIBUTARY_INT32, std::vector<int32_t>(200),
                  TRIBUTARY_INT32);
}

TEST(CApiFailures, DifferentTypesCauseAMismatchOnEveryRank) {
  const std::vector<float> floats(150);
  const std::vector<int32_t> integers(150);
  const std::vector<uint16_t> halves(150);
  expect_mismatch(floats, TRIBUTARY_FLOAT32, integers, TRIBUTARY_INT32);
  expect_mismatch(floats, TRIBUTARY_FLOAT32, halves, TRIBUTARY_FLOAT16);
  expect_mismatch(halves, TRIBUTARY_FLOAT16, halves, TRIBUTARY_BFLOAT16);
  expect_mismatch(halves, TRIBUTARY_BFLOAT16, integers, TRIBUTARY_INT32);
}

TEST(CApiFailures, OverflowIsReportedAndTheNextOperationSucceeds) {
  const Server server(2);
  const std::vector<Rank> ranks = join_all(server.local(), 2, "&format=fixed&scale=1e8");
  const auto both = [&ranks](float first, float second) {
    std::vector<std::vector<float>> tensors{{first}, {second}};
    const Reduction one = start(ranks[0], tensors[0], TRIBUTARY_FLOAT32);
    const Reduction other = start(ranks[1], tensors[1], TRIBUTARY_FLOAT32);
    const tributary_status status = wait(one);
    EXPECT_EQ(wait(other), status);
    return std::pair(status, std::string(tributary_operation_text(one.get())));
  };
  EXPECT_EQ(both(30.0F, 1.0F).first, TRIBUTARY_OVERFLOW);
  EXPECT_THAT(both(1.0F, 30.0F).second, HasSubstr("use a smaller scale"));
  EXPECT_EQ(both(1.0F, std::numeric_limits<float>::infinity()).first, TRIBUTARY_NOT_FINITE);
  EXPECT_EQ(both(1.0F, 2.0F).first, TRIBUTARY_OK);
}

TEST(CApiFailures, MissingPeerIsNamedAndEndsTheCommunicator) {
  const Server server(3);
  const std::vector<Rank> ranks = join_all(server.local(), 3, "", kShortMs);
  std::vector<std::vector<float>> tensors(3, std::vector<float>(10, 1.0F));
  const Reduction first = start(ranks[0], tensors[0], TRIBUTARY_FLOAT32);
  const Reduction third = start(ranks[2], tensors[2], TRIBUTARY_FLOAT32);
  EXPECT_EQ(wait(first), TRIBUTARY_PEER_MISSING);
  EXPECT_THAT(tributary_error_text(), StartsWith("rank 1 has not contributed to block 0"));
  // Either rank 0's leave or this rank's own deadline ends this operation.
  const tributary_status other = wait(third);
  EXPECT_TRUE(other == TRIBUTARY_PEER_MISSING || other == TRIBUTARY_PEER_LEFT) << other;
  EXPECT_EQ(report_of(first).status, TRIBUTARY_PEER_MISSING);
  const Reduction late = start(ranks[0], tensors[0], TRIBUTARY_FLOAT32);
  EXPECT_EQ(wait(late), TRIBUTARY_PEER_MISSING);
}

TEST(CApiFailures, ErrorNamesALeavingPeer) {
  const Server server(2);
  const std::vector<Rank> ranks = join_all(server.local(), 2);
  EXPECT_EQ(tributary_close(ranks[1].get()), TRIBUTARY_OK);
  EXPECT_EQ(tributary_close(ranks[1].get()), TRIBUTARY_OK);  // A second close has no effect.
  std::vector<float> tensor(10, 1.0F);
  const Reduction operation = start(ranks[0], tensor, TRIBUTARY_FLOAT32);
  EXPECT_EQ(wait(operation), TRIBUTARY_PEER_LEFT);
  EXPECT_THAT(tributary_error_text(), StartsWith("rank 1 has left job 1"));
  const Reduction closed = start(ranks[1], tensor, TRIBUTARY_FLOAT32);
  EXPECT_EQ(wait(closed), TRIBUTARY_CLOSED);
}

TEST(CApiFailures, DetectsAStoppedAggregator) {
  std::optional<Server> server(std::in_place, 2);
  const std::vector<Rank> ranks = join_all(server->local(), 2);
  server.reset();
  std::vector<std::vector<float>> tensors(2, std::vector<float>(10, 1.0F));
  const Reduction one = start(ranks[0], tensors[0], TRIBUTARY_FLOAT32);
  const Reduction other = start(ranks[1], tensors[1], TRIBUTARY_FLOAT32);
  EXPECT_EQ(wait(one), TRIBUTARY_AGGREGATOR_GONE);
  EXPECT_EQ(wait(other), TRIBUTARY_AGGREGATOR_GONE);
  EXPECT_THAT(tributary_error_text(), HasSubstr("was stopped"));
}

// --- Handles ---

TEST(CApiFailures, HandlesMayBeFreedInAnyOrder) {
  const Server server(2);
  std::vector<Rank> ranks = join_all(server.local(), 2);
  std::vector<float> tensor(10, 1.0F);
  const Reduction operation = start(ranks[0], tensor, TRIBUTARY_FLOAT32);
  std::thread waiter([&operation] { EXPECT_EQ(wait(operation), TRIBUTARY_CLOSED); });
  ranks[0].reset();
  waiter.join();
  EXPECT_EQ(wait(operation), TRIBUTARY_CLOSED);
  EXPECT_STREQ(tributary_operation_text(operation.get()), "the communicator was closed");
  // Frees an operation in flight without a wait: the free itself waits.
  std::vector<float> other(10, 1.0F);
  Reduction last = start(ranks[1], other, TRIBUTARY_FLOAT32);
  last.reset();
}

TEST(CApiFailures, RefusesCallsFromAForkedProcess) {
  const Server server(1);
  const std::vector<Rank> ranks = join_all(server.local(), 1);
  float value = 1;
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = tributary_all_reduce(ranks[0].get(), &value, 1, TRIBUTARY_FLOAT32,
                                              TRIBUTARY_SUM) == TRIBUTARY_INVALID;
    tributary_free(ranks[0].get());  // Must neither hang nor send a leave for the parent.
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(tributary_all_reduce(ranks[0].get(), &value, 1, TRIBUTARY_FLOAT32, TRIBUTARY_SUM),
            TRIBUTARY_OK);
}

}  // namespace
}  // namespace tributary::testing
