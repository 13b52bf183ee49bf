// SPDX-License-Identifier: Apache-2.0
// Method: a file of each sort against its meaning, then a table of wrong files with the error line
// for each.
#include "net/topology_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_directory.h"

namespace tributary::net {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

Result<Topology> read(const std::string& text) {
  return read_topology(toml::parse(text), "t.toml");
}

TEST(TopologyFile, ReadsAShapeWithItsLinks) {
  const auto topology = read(R"(
[topology]
shape = "leaf-spine"
leaves = 3
workers_per_leaf = 2
spines = 2
leaf_kind = "trio"
[link]
rate_gbps = 25
queue_bytes = 100000
[uplink]
propagation_ns = 1500.5
loss = 0.25
)");
  ASSERT_TRUE(topology.has_value()) << topology.error().text;
  EXPECT_EQ(topology->nodes.size(), 2u + 3 + 6);
  EXPECT_EQ(topology->nodes[2].kind, "trio");
  EXPECT_EQ(topology->nodes[2].where, "t.toml:2");
  const LinkConfig& link = topology->cables[0].forth;
  EXPECT_EQ(link.rate_bits_per_s, 25'000'000'000u);
  EXPECT_EQ(link.queue_bytes_max, 100'000u);
  EXPECT_EQ(link.propagation, LinkConfig{}.propagation);
  const LinkConfig& uplink = topology->cables.back().back;
  EXPECT_EQ(uplink.rate_bits_per_s, 25'000'000'000u);
  EXPECT_EQ(uplink.propagation, nanoseconds(1500) + picoseconds(500));
  EXPECT_EQ(uplink.faults.loss, 0.25);
}

TEST(TopologyFile, ReadsAnExplicitList) {
  const auto topology = read(R"(
[[node]]
name = "a"
kind = "worker"
address = "10.0.0.1:12000"
speed = 3
[[node]]
name = "s"
kind = "switch"
[[cable]]
a = "a"
b = "s.7"
rate_gbps = 10
corrupt = 0.5
[cable.back]
corrupt = 0
jitter_ns = 20
[[group]]
address = "239.0.0.1:12000"
receivers = ["a"]
)");
  ASSERT_TRUE(topology.has_value()) << topology.error().text;
  ASSERT_EQ(topology->nodes.size(), 2u);
  EXPECT_EQ(topology->nodes[0].address.to_string(), "10.0.0.1:12000");
  ASSERT_EQ(topology->nodes[0].parameters.size(), 1u);
  EXPECT_EQ(topology->nodes[0].parameters[0].name, "speed");
  EXPECT_EQ(topology->nodes[0].parameters[0].where, "t.toml:6");
  const CableSpec& cable = topology->cables.at(0);
  EXPECT_EQ(cable.a.port, std::nullopt);
  EXPECT_EQ(cable.b.port, 7u);
  EXPECT_EQ(cable.forth.faults.corrupt, 0.5);
  EXPECT_EQ(cable.back.faults.corrupt, 0);
  EXPECT_EQ(cable.back.rate_bits_per_s, 10'000'000'000u);
  EXPECT_EQ(cable.back.faults.jitter, nanoseconds(20));
  EXPECT_THAT(topology->groups.at(0).receivers, ElementsAre("a"));
}

TEST(TopologyFile, ReadsAShapeWithAttachedNodes) {
  const auto topology = read(R"(
[topology]
shape = "star"
workers = 2
[[node]]
name = "aggregator"
kind = "trio"
address = "10.1.0.1:12000"
[[cable]]
a = "aggregator"
b = "switch"
)");
  ASSERT_TRUE(topology.has_value()) << topology.error().text;
  EXPECT_EQ(topology->nodes.size(), 4u);
  EXPECT_EQ(topology->cables.size(), 3u);
}

struct Wrong {
  const char* name;
  const char* text;
  const char* line;
};

const Wrong kWrong[] = {
    {"UnknownTable", "[topolgy]\nshape = \"star\"\n",
     "t.toml:1: unknown table 'topolgy' (did you mean 'topology'?); allowed:"},
    {"UnknownKey", "[topology]\nshape = \"star\"\nworker = 3\n",
     "t.toml:3: unknown key 'worker' (did you mean 'workers'?); allowed:"},
    {"NoShape", "[topology]\nworkers = 3\n", "t.toml:1: "},
    {"UnknownShape", "[topology]\nshape = \"ring\"\n",
     "t.toml:1: shape='ring' is unknown; allowed: star, chassis"},
    {"KeyOfAnotherShape", "[topology]\nshape = \"star\"\nspines = 3\n",
     "t.toml:1: spines does not belong to shape='star'; allowed: workers"},
    {"NoWorkers", "[topology]\nshape = \"star\"\nworkers = 0\n",
     "t.toml:3: workers=0 is out of range; allowed:"},
    {"TooMany", "[topology]\nshape = \"two-level\"\nleaves = 65536\nworkers_per_leaf = 2\n",
     "t.toml:1: workers_per_leaf=2 makes 131072 workers; allowed: at most 65536"},
    {"TooManySwitches", "[topology]\nshape = \"two-level\"\nleaves = 32768\nworkers_per_leaf = 1\n",
     "t.toml:1: leaves=32768 makes 65537 workers and switches; allowed: at most 65536"},
    {"TooManySpines",
     "[topology]\nshape = \"leaf-spine\"\nleaves = 65535\nspines = 65535\nworkers_per_leaf = 1\n",
     "t.toml:1: leaves=65535 makes 196605 workers and switches; allowed: at most 65536"},
    {"TooManyCables",
     "[topology]\nshape = \"leaf-spine\"\nleaves = 1024\nspines = 1024\nworkers_per_leaf = 1\n",
     "t.toml:1: leaves=1024 with 1024 spines makes 1049600 cables; allowed: at most 65536"},
    {"RateZero", "[topology]\nshape = \"star\"\n[link]\nrate_gbps = 0\n",
     "t.toml:4: rate_gbps=0 is out of range; allowed:"},
    {"NoProbability", "[topology]\nshape = \"star\"\n[link]\nloss = 1.5\n",
     "t.toml:4: loss=1.5 is out of range; allowed:"},
    {"ReorderWithoutBound", "[topology]\nshape = \"star\"\n[link]\nreorder = 0.5\n",
     "t.toml:3: reorder=0.5 needs a reorder_max"},
    {"BadAddress", "[[node]]\nname = \"a\"\nkind = \"worker\"\naddress = \"10.0.0:1\"\n",
     "t.toml:4: "},
    {"NodeWithoutKind", "[[node]]\nname = \"a\"\n", "t.toml:1: "},
    {"SwitchWithMore", "[[node]]\nname = \"a\"\nkind = \"switch\"\nspeed = 1\n",
     "t.toml:4: unknown key 'speed'; allowed: name, kind, address"},
    {"NotAList", "[node]\nname = \"a\"\n", "t.toml:1: node is not a table; allowed: [[node]]"},
    {"UnknownNode", "[[node]]\nname = \"a\"\nkind = \"switch\"\n[[cable]]\na = \"a\"\nb = \"b\"\n",
     "t.toml:4: b='b' is not a node; allowed:"},
    {"BadPort", "[[node]]\nname = \"a\"\nkind = \"switch\"\n[[cable]]\na = \"a.x\"\nb = \"b\"\n",
     "t.toml:4: a='a.x' is not a port; allowed: NODE or NODE.PORT"},
    {"DuplicatePort",
     "[topology]\nshape = \"star\"\n[[node]]\nname = \"a\"\nkind = \"x\"\n"
     "[[cable]]\na = \"a\"\nb = \"switch.2\"\n",
     "t.toml:6: b='switch.2' has a cable already (t.toml:1); allowed: one cable a port"},
    {"DuplicateName", "[topology]\nshape = \"star\"\n[[node]]\nname = \"switch\"\nkind = \"x\"\n",
     "t.toml:3: name='switch' is taken"},
    {"CableKey", "[[cable]]\na = \"a\"\nb = \"b\"\n[cable.back]\nlos = 1\n",
     "t.toml:5: unknown key 'los' (did you mean 'loss'?)"},
    {"Nothing", "", "t.toml: the topology has no node"},
};

class WrongFile : public ::testing::TestWithParam<Wrong> {};
INSTANTIATE_TEST_SUITE_P(TopologyFile, WrongFile, ::testing::ValuesIn(kWrong),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

TEST_P(WrongFile, RefusalNamesThePlace) {
  const auto topology = read(GetParam().text);
  ASSERT_FALSE(topology.has_value());
  EXPECT_THAT(topology.error().text, StartsWith(GetParam().line));
  EXPECT_EQ(topology.error().text.find('\n'), std::string::npos);
}

TEST(TopologyFile, ReadsAFileFromDisk) {
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.file("net.toml", "[topology]\nshape = \"star\"\n");
  EXPECT_TRUE(read_topology_file(path).has_value());
  EXPECT_FALSE(read_topology_file(path + ".not").has_value());
  const std::string broken = scratch.file("broken.toml", "[topology\n");
  EXPECT_THAT(read_topology_file(broken).error().text, StartsWith(broken + ":1: is not TOML"));
}

}  // namespace
}  // namespace tributary::net
