// SPDX-License-Identifier: Apache-2.0
// Method: SwitchML's 64-element program between two workers. After one contribution and after both,
// the registers hold the values that Algorithm 3 gives.
#include "lab/inspect/tofino_snapshot.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tofino/pipeline/udp_frame.h"
#include "tofino/switchml/control.h"
#include "wire/switchml.h"

namespace tributary::lab {
namespace {

using wire::SwitchmlMessage;

class TofinoSnapshot : public ::testing::Test, private tofino::SwitchSink {
 protected:
  static constexpr uint64_t kWorkerMac = 0x0200'0000'0100;
  static constexpr uint32_t kWorkerIp = 0x0a00'0100;

  TofinoSnapshot() : device_(*tofino::SwitchmlSwitch::make(variant_, *this)) {
    tofino::SwitchmlSession session{.workers = {}, .pool_slots = 4};
    for (uint32_t rank = 0; rank < 2; rank++) {
      session.workers.push_back({rank * 4, kWorkerMac + rank, kWorkerIp + rank});
    }
    EXPECT_TRUE(device_.set_session(session));
  }
  /// Sends values rank + 1, rank + 2, … from worker `rank` for a slot of set 0.
  void contribute(uint32_t rank, uint16_t slot);
  [[nodiscard]] SnapshotTable table(const std::string& name, uint64_t slot, size_t rows_max = 100) {
    SnapshotRequest request;
    request.slot = slot;
    request.rows_max = rows_max;
    const NodeSnapshot all = tofino_snapshot("tofino", device_.device(), {variant_.slots}, request);
    const auto found = std::find_if(all.tables.begin(), all.tables.end(),
                                    [&](const SnapshotTable& one) { return one.name == name; });
    EXPECT_NE(found, all.tables.end()) << name;
    return *found;
  }
  /// Returns the row of a register's set.
  [[nodiscard]] std::vector<std::string> reg(const std::string& name, uint64_t slot,
                                             const std::string& set) {
    for (const auto& row : table("registers", slot).rows) {
      if (row[2] == name && row[3] == set) return row;
    }
    return {};
  }

  const tofino::SwitchmlVariant variant_;
  tofino::SwitchmlSwitch device_;
  Instant now_;

 private:
  void send(Instant, uint32_t, tofino::PacketView) override {}
};

void TofinoSnapshot::contribute(uint32_t rank, uint16_t slot) {
  SwitchmlMessage message{.slot = slot};
  for (uint32_t i = 0; i < variant_.elements; i++) {
    message.elements.push_back(static_cast<int32_t>(rank + 1 + i));
  }
  const auto frame =
      tofino::udp_frame({kWorkerMac + rank, kWorkerIp + rank, 4000},
                        {variant_.switch_mac, variant_.switch_ip, wire::kSwitchmlPort},
                        wire::switchml_payload(message));
  now_ = now_ + microseconds(1);
  device_.device().arrive(now_, rank * 4, {frame, static_cast<uint32_t>(frame.size())});
  device_.device().run_until(now_ + nanoseconds(999));
}

TEST_F(TofinoSnapshot, RegistersOfASlotFollowItsContributions) {
  EXPECT_EQ(table("slots", 0).rows.size(), 0U);
  contribute(0, 3);
  const SnapshotTable slots = table("slots", 0);
  ASSERT_EQ(slots.rows.size(), 1U);
  EXPECT_EQ(slots.rows[0][0], "3");
  const auto column = std::find(slots.columns.begin(), slots.columns.end(), "bitmap");
  ASSERT_NE(column, slots.columns.end());
  // Worker 0 in set 0, no worker in set 1.
  EXPECT_EQ(slots.rows[0][static_cast<size_t>(column - slots.columns.begin())], "1/0");
  EXPECT_EQ(reg("bitmap", 3, "0")[5], "1");
  // Values i and i + 32 of a packet lie in the words of register i.
  EXPECT_EQ(reg("values0", 3, "0")[5], "1");
  EXPECT_EQ(reg("values0", 3, "0")[6], "33");
  EXPECT_EQ(reg("values5", 3, "0")[5], "6");
  EXPECT_EQ(reg("values0", 3, "1")[5], "0");  // The other set,
  EXPECT_EQ(reg("values0", 2, "0")[5], "0");  // … and another slot.
  contribute(1, 3);
  EXPECT_EQ(reg("bitmap", 3, "0")[5], "3");
  EXPECT_EQ(reg("values0", 3, "0")[5], "3");  // 1 + 2.
  EXPECT_EQ(reg("values0", 3, "0")[6], "67");
}

TEST_F(TofinoSnapshot, StagesMatchThePlacement) {
  const auto row = reg("bitmap", 0, "0");
  ASSERT_FALSE(row.empty());
  const auto values = reg("values0", 0, "0");
  EXPECT_LT(std::stoi(row[1]), std::stoi(values[1]));  // The bitmap decides how values change.
  EXPECT_LT(std::stoi(values[1]), 12);
}

TEST_F(TofinoSnapshot, ShowsCountersAndTraffic) {
  contribute(0, 3);
  contribute(0, 99);  // Outside the session's pool.
  const auto counters = table("counters", 3).rows;
  const auto outside = std::find_if(counters.begin(), counters.end(),
                                    [](const auto& row) { return row[0] == "slot_outside_pool"; });
  ASSERT_NE(outside, counters.end());
  EXPECT_EQ((*outside)[2], "1");
  const SnapshotTable traffic = table("traffic", 3);
  EXPECT_EQ(traffic.rows[0], (std::vector<std::string>{"arrived", "2"}));
  EXPECT_EQ(traffic.title, "nothing is on its way back");
}

TEST_F(TofinoSnapshot, RowsAreBounded) {
  const SnapshotTable short_table = table("registers", 0, 5);
  EXPECT_EQ(short_table.rows.size(), 5U);
  EXPECT_GT(short_table.rows_left_out, 50U);
  const SnapshotTable none = table("registers", variant_.slots);
  EXPECT_TRUE(none.rows.empty());
  EXPECT_EQ(none.title, "there is no slot 8192; there are 0 to 8191");
}

}  // namespace
}  // namespace tributary::lab
