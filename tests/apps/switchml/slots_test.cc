// SPDX-License-Identifier: Apache-2.0
// Method: the records of one slot by hand, where several threads use them. program_test.cc tests
// the whole program.
#include "apps/switchml/slots.h"

#include <gtest/gtest.h>

namespace tributary::switchml {
namespace {

constexpr uint32_t kEpoch = 1;

struct Slot {
  SetRecord sets[2];
  uint32_t generation = 0;

  Admission admit(uint32_t set, uint32_t worker, uint32_t packet_id, uint32_t epoch = kEpoch,
                  uint16_t udp_port = 4000) {
    return switchml::admit(
        sets[set], sets[1 - set], {.epoch = epoch, .workers = 2, .generation = generation},
        {.name = {.packet_id = packet_id}, .worker = worker, .udp_port = udp_port}, [] {});
  }
  /// Returns the same contribution from a process that was started later.
  Admission admit_anew(uint32_t set, uint32_t worker, uint32_t packet_id) {
    return admit(set, worker, packet_id, kEpoch, 5000);
  }
  bool settle(uint32_t set, uint32_t workers, int8_t exponent = 0) {
    return switchml::settle(sets[set], workers, {.exponent0 = exponent});
  }
  /// Runs a whole use by two workers.
  void use(uint32_t set, uint32_t packet_id) {
    for (uint32_t worker = 0; worker < 2; worker++) {
      EXPECT_EQ(admit(set, worker, packet_id), worker == 0 ? Admission::kFirst : Admission::kAdded);
      EXPECT_EQ(settle(set, 2), worker == 1);
    }
    sets[set].phase = SetPhase::kComplete;
  }
};

TEST(SwitchmlSlots, LastSettledContributionCompletesTheSum) {
  Slot slot;
  EXPECT_EQ(slot.admit(0, 0, 7), Admission::kFirst);
  EXPECT_EQ(slot.admit(0, 1, 7), Admission::kAdded);
  // Both are admitted; neither has added its elements yet.
  EXPECT_EQ(slot.admit(0, 1, 7), Admission::kDuplicate);
  EXPECT_FALSE(slot.settle(0, 2, -3));
  EXPECT_TRUE(slot.settle(0, 2, -9));
  EXPECT_EQ(slot.sets[0].exponent0, -3);
  // The result is being made: it cannot be sent yet, and no new use may begin.
  EXPECT_EQ(slot.admit(0, 0, 7), Admission::kDuplicate);
  EXPECT_EQ(slot.admit(1, 0, 8), Admission::kPhaseAhead);
}

TEST(SwitchmlSlots, ResultIsNotOverwrittenWhileItIsSent) {
  Slot slot;
  slot.use(0, 1);
  slot.use(1, 2);
  // Worker 1 lost the second result and retransmits. Set 1 has no new use until it is sent.
  EXPECT_EQ(slot.admit(1, 1, 2), Admission::kKept);
  slot.use(0, 3);
  EXPECT_EQ(slot.admit(1, 0, 4), Admission::kBusy);
  slot.sets[1].readers--;
  EXPECT_EQ(slot.admit(1, 0, 4), Admission::kFirst);
}

TEST(SwitchmlSlots, RecordsOfAnOlderSessionAreUnused) {
  Slot slot;
  slot.use(0, 1);
  EXPECT_EQ(slot.admit(1, 0, 2), Admission::kFirst);
  EXPECT_EQ(slot.admit(0, 0, 1, kEpoch + 1), Admission::kFirst);
  EXPECT_EQ(slot.sets[1].phase, SetPhase::kUnused);
}

TEST(SwitchmlSlots, NextPacketRestartsAUseBegunByAnOldOne) {
  Slot slot;
  slot.use(0, 1);
  slot.use(1, 2);
  EXPECT_EQ(slot.admit(0, 0, 1), Admission::kFirst);  // Late: cannot be told from a new use.
  EXPECT_EQ(slot.admit(0, 1, 3), Admission::kChunkDiffers);
  EXPECT_EQ(slot.admit(0, 0, 3), Admission::kDuplicate);  // Its elements are being added.
  EXPECT_FALSE(slot.settle(0, 2));
  EXPECT_EQ(slot.admit(0, 0, 3), Admission::kRestarted);
  EXPECT_EQ(slot.sets[0].seen, 1U);
  EXPECT_FALSE(slot.settle(0, 2));
  EXPECT_EQ(slot.admit(0, 1, 3), Admission::kAdded);
  EXPECT_TRUE(slot.settle(0, 2));
}

TEST(SwitchmlSlots, UseRepeatedByOldPacketsIsReplaced) {
  Slot slot;
  slot.use(0, 1);
  slot.use(1, 2);
  slot.use(0, 1);  // Old packets of both workers.
  EXPECT_EQ(slot.admit(0, 0, 3), Admission::kFirst);
  // A worker may need the newer of the two results. A packet of an older use only gets a copy of
  // it.
  Slot in_order;
  in_order.use(0, 1);
  in_order.use(1, 2);
  EXPECT_EQ(in_order.admit(1, 0, 0), Admission::kKept);
}

TEST(SwitchmlSlots, NewWorkerProcessReclaimsItsSlot) {
  Slot slot{.sets = {}, .generation = 1};
  slot.use(0, 1);
  // The first packet of the next run has the old name. The kept result must not answer it.
  slot.generation++;
  EXPECT_EQ(slot.admit_anew(0, 0, 1), Admission::kReclaimed);
  EXPECT_EQ(slot.sets[0].seen, 1U);
  EXPECT_FALSE(slot.settle(0, 2));
  // Worker 1's new process appears: worker 0's earlier packets may be of a dead process.
  slot.generation++;
  EXPECT_EQ(slot.admit_anew(0, 1, 1), Admission::kReclaimed);
  EXPECT_EQ(slot.sets[0].seen, 2U);
  EXPECT_FALSE(slot.settle(0, 2));
  EXPECT_EQ(slot.admit_anew(0, 0, 1), Admission::kAdded);  // Retransmitted after no answer.
  EXPECT_TRUE(slot.settle(0, 2));
}

TEST(SwitchmlSlots, NewWorkerProcessClearsTheOtherSet) {
  Slot slot{.sets = {}, .generation = 1};
  slot.use(0, 1);
  EXPECT_EQ(slot.admit(1, 0, 2), Admission::kFirst);
  EXPECT_FALSE(slot.settle(1, 2));
  EXPECT_EQ(slot.admit_anew(0, 1, 1), Admission::kReclaimed);
  EXPECT_EQ(slot.sets[1].phase, SetPhase::kUnused);
}

// Worker 1 was killed after its first packet, and worker 0 before it. Their successors' first sum
// must not contain the dead process's part.
TEST(SwitchmlSlots, NewPortDiscardsAnIncompleteSum) {
  Slot slot{.sets = {}, .generation = 1};
  EXPECT_EQ(slot.admit(0, 1, 1), Admission::kFirst);
  EXPECT_FALSE(slot.settle(0, 2));
  slot.generation++;
  EXPECT_EQ(slot.admit(0, 0, 1), Admission::kReclaimed);
  EXPECT_EQ(slot.sets[0].seen, 1U);
  // A complete result stays: a worker may have lost it.
  Slot complete{.sets = {}, .generation = 1};
  complete.use(0, 1);
  complete.generation++;
  EXPECT_EQ(complete.admit(0, 0, 1), Admission::kKept);
}

TEST(SwitchmlSlots, NewWorkerProcessWaitsForActiveThreads) {
  Slot slot{.sets = {}, .generation = 1};
  EXPECT_EQ(slot.admit(0, 0, 1), Admission::kFirst);
  EXPECT_EQ(slot.admit_anew(0, 0, 1), Admission::kBusy);  // Elements are being added.
  EXPECT_FALSE(slot.settle(0, 2));
  EXPECT_EQ(slot.admit_anew(0, 0, 1), Admission::kReclaimed);
}

TEST(SwitchmlSlots, ControlPlaneDisablesPortDetection) {
  Slot slot;
  slot.use(0, 1);
  EXPECT_EQ(slot.admit_anew(0, 0, 1), Admission::kKept);
}

TEST(SwitchmlSlots, MemoryFollowsTheSlotCount) {
  // 33 slots are two runs of 32; on two cores one run each.
  EXPECT_EQ(SlotPool::memory_bytes(33, 1), 2U * 64 * (sizeof(SetRecord) + 64 + 1024));
  EXPECT_EQ(SlotPool::memory_bytes(33, 2), 2U * 32 * (sizeof(SetRecord) + 64 + 1024));
  auto memory = memory::SharedMemory::create({.sram_size_bytes = 4096, .dram_size_bytes = 4096});
  ASSERT_TRUE(memory.has_value());
  EXPECT_FALSE(SlotPool::create(33, 1, *memory).has_value());
}

}  // namespace
}  // namespace tributary::switchml
