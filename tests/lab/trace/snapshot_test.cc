// SPDX-License-Identifier: Apache-2.0
#include "lab/trace/snapshot.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tributary::lab {
namespace {

NodeSnapshot small() {
  SnapshotTable banks{.name = "banks",
                      .title = "two of them",
                      .columns = {"bank", "state"},
                      .rows = {},
                      .text_columns = {1}};
  for (const char* state : {"busy", "idle", "idle"}) {
    banks.add({std::to_string(banks.rows.size()), state}, /*rows_max=*/2);
  }
  return {.node = "switch",
          .tables = {banks,
                     {.name = "queue", .title = "0 packets", .columns = {"packet"}, .rows = {}}}};
}

TEST(Snapshot, PrintsText) {
  EXPECT_EQ(snapshot_text(small(), Instant(microseconds(12))), R"(switch at 12 us:

banks: two of them
  bank  state
     0  busy
     1  idle
… 1 more

queue: 0 packets
)");
}

TEST(Snapshot, PrintsJson) {
  EXPECT_EQ(nlohmann::json::parse(snapshot_json_line(small(), Instant(microseconds(12)))),
            nlohmann::json::parse(
                R"({"node":"switch","at_ns":12000.0,"banks":[{"bank":"0","state":"busy"},)"
                R"({"bank":"1","state":"idle"}],"banks_left_out":1,"queue":[]})"));
}

TEST(Snapshot, NodeWithoutTablesIsReported) {
  EXPECT_EQ(snapshot_text({.node = "core", .tables = {}}, Instant()),
            "core at 0 ns:\n  nothing to show: its inside is not modelled\n");
}

}  // namespace
}  // namespace tributary::lab
