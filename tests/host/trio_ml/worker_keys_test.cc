// SPDX-License-Identifier: Apache-2.0
// Method: messages whose key is another party's, or wrong in one bit, against a worker that waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/host/trio_ml/protocol_bed.h"

namespace tributary::testing {
namespace {

using host::Status;
using host::WorkerProtocol;
using ::testing::ElementsAre;

// A party that does not see the traffic must guess 64 bits. A member knows its own key and the
// result key, but no other member's.
TEST(WorkerKeys, MessagesWithAnotherKeyAreIgnored) {
  ProtocolBed bed;
  bed.join();
  IntTransfer tensor({5, 6});
  bed.protocol.submit(tensor.transfer, bed.now);
  (void)bed.take_sent();
  uint64_t ignored = 0;
  for (const uint64_t key :
       {uint64_t{0}, kKey, kNonce, kResultKey ^ 1, kResultKey ^ uint64_t{1} << 63}) {
    Message result = bed.result(0, 2, tensor.transfer);
    result.extension.key = key;
    bed.receive(result, std::array{500, 600});
    for (const Reason reason :
         {Reason::kSessionLost, Reason::kServerStopped, Reason::kPeerSilent, Reason::kPeerLeft}) {
      Message notice = bed.control(MessageType::kNotice, 0);
      notice.extension.key = key;
      notice.body.reason = reason;
      bed.receive(notice);
    }
    ignored += 5;
    EXPECT_EQ(bed.protocol.counters().invalid_packets, ignored);
  }
  EXPECT_FALSE(tensor.transfer.done);
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kRunning);
  EXPECT_THAT(tensor.tensor, ElementsAre(5, 6));
  bed.receive(bed.result(0, 2, tensor.transfer), std::array{50, 60});
  EXPECT_THAT(tensor.tensor, ElementsAre(50, 60));
}

TEST(WorkerKeys, OnlyAResetThatRepeatsItsKeyAndSourceEndsAWorker) {
  ProtocolBed bed;
  Message reset = bed.control(MessageType::kReset, 0);
  reset.header.src_id = 1;
  reset.extension.key = 0;
  bed.receive(reset);  // While joining it has no key.
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kJoining);
  bed.join();
  for (const uint64_t key : {uint64_t{0}, kResultKey, kNonce, kKey + 1}) {
    reset.extension.key = key;
    bed.receive(reset);
  }
  reset.extension.key = kKey;
  reset.header.src_id = 2;
  bed.receive(reset);
  EXPECT_EQ(bed.protocol.counters().invalid_packets, 6U);
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kRunning);
  reset.header.src_id = 1;
  bed.receive(reset);
  EXPECT_EQ(bed.protocol.status(), Status::kSessionLost);
}

}  // namespace
}  // namespace tributary::testing
