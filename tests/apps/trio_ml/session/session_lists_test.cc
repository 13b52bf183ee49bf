// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked joins of workers with lists of aggregators, and a directory's answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "apps/trio_ml/session/session.h"
#include "tests/apps/trio_ml/bed.h"

namespace tributary::trio_ml {
namespace {

constexpr JobConfig kJob{.id = 1, .sources = 3, .block_cnt_max = 64, .block_grad_max = 500};

class SessionLists : public ::testing::Test {
 protected:
  /// Joins with this list. @param entry Of a directory's list.
  Session::JoinAnswer join_list(Session& session, uint32_t source, uint64_t nonce, uint64_t digest,
                                uint8_t entry = 0) {
    Message message = join_message(source, nonce, 3);
    message.body.list_digest = digest;
    message.body.source = entry;
    return session.join(message, worker(source), now_);
  }
  void pass(Duration time) { now_ = now_ + time; }

  Session session_{kJob, auth::key_of_seed(42)};
  Instant now_{seconds(100)};
};

TEST_F(SessionLists, WorkersWithDifferentListsAreAllRefused) {
  for (uint32_t source = 0; source < 3; source++) {
    static_cast<void>(join_list(session_, source, 100 + source, source == 1 ? 8 : 7));
  }
  for (uint32_t repeat = 0; repeat < 2; repeat++) {
    for (uint32_t source = 0; source < 3; source++) {
      const auto waiting = join_list(session_, source, 100 + source, source == 1 ? 8 : 7);
      EXPECT_EQ(waiting.reply, MessageType::kPending) << "a directory may still redirect it";
    }
    pass(kListsSettleWithin / 2);
  }
  const auto answer = join_list(session_, 1, 101, 8);
  EXPECT_EQ(answer.reply, MessageType::kRefusal);
  EXPECT_EQ(answer.body.reason, Reason::kListsDiffer);
  EXPECT_EQ(answer.body.value, 1U);
  EXPECT_TRUE(answer.to_all_pending);
  // A worker whose copy is lost asks again.
  EXPECT_EQ(join_list(session_, 2, 102, 7).body.reason, Reason::kListsDiffer);
  EXPECT_EQ(session_.number(), 0U);
  // New processes with one list start a session.
  for (uint32_t round = 0; round < 2; round++) {
    for (uint32_t source = 0; source < 3; source++) {
      static_cast<void>(join_list(session_, source, 200 + source, 7));
    }
  }
  EXPECT_NE(session_.number(), 0U);
}

// The digest of an honest list covers its weights; a worker that states another share is refused,
// too.
TEST_F(SessionLists, WorkersWithDifferentSharesAreAllRefused) {
  JobConfig job = kJob;
  job.asynchronous = true;
  job.parameters = 100;
  job.mitigation = false;
  Session session(job, auth::key_of_seed(44));
  Session::JoinAnswer answer;
  for (uint32_t round = 0; round < 3; round++) {
    for (uint32_t source = 0; source < 3; source++) {
      Message message = join_message(source, 100 + source, 3);
      message.body.asynchronous = true;
      message.body.list_digest = 7;
      message.body.share = {.before = 0, .own = source == 2 ? 2U : 1U, .all = 4};
      answer = session.join(message, worker(source), now_);
    }
    if (round > 0) pass(kListsSettleWithin);
  }
  EXPECT_EQ(answer.body.reason, Reason::kListsDiffer);
  EXPECT_EQ(answer.body.value, 2U);
  EXPECT_EQ(session.number(), 0U);
}

/// The job of an upper aggregator, with five ranks below two lower ones.
JobConfig above_two_aggregators() {
  JobConfig job = kJob;
  job.sources = 2;
  job.sources_are_aggregators = true;
  job.world = 5;
  return job;
}

TEST_F(SessionLists, RefusalNamesTheFirstRankBehindALowerAggregator) {
  Session upper(above_two_aggregators(), auth::key_of_seed(43));
  Session::JoinAnswer answer;
  for (uint32_t round = 0; round < 3; round++) {
    for (uint32_t source = 0; source < 2; source++) {
      Message message = join_message(source, 100 + source, 5);
      message.body.list_digest = 7 + source;
      message.body.mask = {source == 0 ? uint64_t{0b00111} : uint64_t{0b11000}};
      answer = upper.join(message, worker(source), now_);
    }
    if (round > 0) pass(kListsSettleWithin);
  }
  EXPECT_EQ(answer.body.reason, Reason::kListsDiffer);
  EXPECT_EQ(answer.body.value, 3U);
}

TEST_F(SessionLists, RefusesALowerAggregatorWithRanksOfAnother) {
  Session upper(above_two_aggregators(), auth::key_of_seed(43));
  const auto join = [&](uint32_t source, uint64_t ranks) {
    Message message = join_message(source, 100 + source, 5);
    message.body.mask = {ranks};
    return upper.join(message, worker(source), now_);
  };
  EXPECT_EQ(join(0, 0b00111).reply, MessageType::kPending);
  EXPECT_EQ(join(1, 0b01100).reply, MessageType::kRefusal);
  EXPECT_EQ(join(1, 0b01100).body.reason, Reason::kRanksOverlap);
  EXPECT_EQ(join(1, 0b01100).body.value, 2U);
  EXPECT_EQ(join(0, 0b00111).reply, MessageType::kPending);  // Its own ranks are no overlap.
  EXPECT_EQ(join(1, 0b11000).reply, MessageType::kPending);
  pass(kJoinFreshFor + nanoseconds(1));  // Aggregator 0 has ended, and comes back as source 1.
  EXPECT_EQ(join(1, 0b00111).reply, MessageType::kPending);
}

// Sources 0 and 1 have the directory's list. Source 2 comes with two older lists before it has it
// too.
TEST_F(SessionLists, WorkerThatIsRedirectedLastIsNotRefused) {
  for (const uint64_t list : {8U, 9U}) {
    const uint64_t nonce = 100 + list;
    for (uint32_t repeat = 0; repeat < 4; repeat++) {
      for (uint32_t source = 0; source < 3; source++) {
        const auto answer =
            join_list(session_, source, source == 2 ? nonce : 100 + source, source == 2 ? list : 7);
        EXPECT_EQ(answer.reply, MessageType::kPending);
      }
      pass(kListsSettleWithin / 5);
    }
    session_.withdraw(2, nonce);
  }
  Session::JoinAnswer answer;
  for (uint32_t repeat = 0; repeat < 2; repeat++) {
    for (uint32_t source = 0; source < 3; source++) {
      answer = join_list(session_, source, source == 2 ? 202 : 100 + source, 7);
      EXPECT_NE(answer.reply, MessageType::kRefusal);
    }
  }
  EXPECT_EQ(answer.reply, MessageType::kWelcome);
}

TEST_F(SessionLists, ListOfADeadWorkerDoesNotCount) {
  static_cast<void>(join_list(session_, 0, 100, 7));
  static_cast<void>(join_list(session_, 1, 101, 8));
  static_cast<void>(join_list(session_, 2, 102, 7));
  EXPECT_EQ(join_list(session_, 0, 100, 7).body.reason, Reason::kConfirm);
  pass(kJoinFreshFor + nanoseconds(1));  // Worker 101 has died.
  for (uint32_t round = 0; round < 2; round++) {
    for (uint32_t source = 0; source < 3; source++) {
      static_cast<void>(join_list(session_, source, source == 1 ? 201 : 100 + source, 7));
    }
  }
  EXPECT_NE(session_.number(), 0U);
}

TEST_F(SessionLists, DirectoryHandsOutItsListEntryByEntry) {
  JobConfig job = kJob;
  job.directory = true;
  Session directory(job, auth::key_of_seed(45));
  EXPECT_EQ(join_list(directory, 0, 100, 0).body.reason, Reason::kWaitingForAggregators);
  AggregatorTable table{.entries = {{worker(7), 3}, {worker(8), 5}}, .digest = 99};
  directory.set_aggregators(std::make_shared<AggregatorTable>(table));
  for (uint8_t entry = 0; entry < 3; entry++) {  // The last one does not exist.
    const auto answer = join_list(directory, 0, 100, 0, entry);
    const uint32_t given = std::min<uint32_t>(entry, 1);
    EXPECT_EQ(answer.reply, MessageType::kRefusal);
    EXPECT_EQ(answer.body.reason, Reason::kOtherList);
    EXPECT_EQ(answer.body.source, given);
    EXPECT_EQ(answer.body.sources, 2U);
    EXPECT_EQ(answer.body.group, table.entries[given].address);
    EXPECT_EQ(answer.body.value, table.entries[given].weight);
    EXPECT_EQ(answer.body.key, 99U);
  }
  EXPECT_EQ(join_list(directory, 0, 100, 99).body.reason, Reason::kWaitingForPeers);
}

// The rank joins with the new list under another nonce, while its last join would still count.
TEST_F(SessionLists, ARedirectedRankIsNotInItsOwnWay) {
  JobConfig job = kJob;
  job.directory = true;
  Session directory(job, auth::key_of_seed(45));
  AggregatorTable table{.entries = {{worker(7), 3}}, .digest = 99};
  directory.set_aggregators(std::make_shared<AggregatorTable>(table));
  EXPECT_EQ(join_list(directory, 0, 100, 99).body.reason, Reason::kWaitingForPeers);
  table.digest = 98;
  directory.set_aggregators(std::make_shared<AggregatorTable>(table));
  EXPECT_EQ(join_list(directory, 0, 100, 99).body.reason, Reason::kOtherList);
  EXPECT_EQ(join_list(directory, 0, 101, 98).body.reason, Reason::kWaitingForPeers);
}

}  // namespace
}  // namespace tributary::trio_ml
