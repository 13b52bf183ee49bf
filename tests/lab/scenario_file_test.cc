// SPDX-License-Identifier: Apache-2.0
// Method: each kind of key set and read back by hand, then whole scenarios through text and back.
// Last, each refusal with its whole line.
#include "lab/scenario_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/scratch_directory.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;

std::vector<WrittenKey> keys_of_file(const std::string& text) {
  const testing::ScratchDirectory scratch;
  const auto keys = read_keys(scratch.file("s.toml", text));
  EXPECT_TRUE(keys) << keys.error().text;
  std::vector<WrittenKey> renamed = keys ? *keys : std::vector<WrittenKey>();
  for (WrittenKey& key : renamed) key.where = key.where.substr(key.where.find("s.toml"));
  return renamed;
}

std::string refusal(const std::string& text) {
  const auto scenario = make_scenario(keys_of_file(text));
  return scenario ? "accepted" : scenario.error().text;
}

Scenario accepted(const std::string& text) {
  const auto scenario = make_scenario(keys_of_file(text));
  EXPECT_TRUE(scenario) << scenario.error().text;
  return scenario ? *scenario : Scenario();
}

TEST(ScenarioFile, EmptyFileIsThePapersSetUp) {
  const Scenario scenario = accepted("");
  EXPECT_EQ(scenario_text(scenario), scenario_text(Scenario()));
  EXPECT_EQ(scenario.workers, 6);
}

TEST(ScenarioFile, SetsKeysOfEveryKind) {
  const Scenario s = accepted(R"(
workers = 4
backend = "optireduce"
payload = "elided"
[link]
rate_gbps = 25
propagation_ns = 0.5
loss = 1e-3
[host]
retransmission = true
[model]
name = "custom"
bucket_bytes = [4096, 8192]
forward_ms = 2
[mitigation]
timeout_ms = 2.5
[straggler]
pattern = "slow-worker"
probability = 0.16
)");
  EXPECT_EQ(s.workers, 4);
  EXPECT_EQ(s.backend, Backend::kOptireduce);
  EXPECT_EQ(s.link.rate_bits_per_s, 25'000'000'000);
  EXPECT_EQ(s.link.propagation, picoseconds(500));
  EXPECT_EQ(s.link.faults.loss, 1e-3);
  EXPECT_TRUE(s.host.retransmission);
  EXPECT_EQ(s.model.bucket_bytes, (std::vector<uint64_t>{4096, 8192}));
  // A number is a list of one.
  const WrittenKey one{.name = "model.bucket_bytes",
                       .text = "4096",
                       .type = WrittenType::kInteger,
                       .where = "s.toml"};
  EXPECT_TRUE(read_setting(one));
  EXPECT_EQ(s.model.forward, milliseconds(2));
  EXPECT_EQ(s.mitigation.timeout, microseconds(2500));
  EXPECT_EQ(s.straggler.probability, 0.16);
}

TEST(ScenarioFile, NamesSeveralStragglersAndPatterns) {
  const Scenario s = accepted(R"(
topology = "chassis"
[straggler]
pattern = "fail-slow+slow-worker"
probability = 0.1
workers = [4, 1, 4]
racks = [1]
)");
  EXPECT_TRUE(s.straggler.pattern.contains(Straggling::kSlowWorker));
  EXPECT_TRUE(s.straggler.pattern.contains(Straggling::kFailSlow));
  EXPECT_FALSE(s.straggler.pattern.contains(Straggling::kNone));
  EXPECT_EQ(s.straggler.workers, (std::vector<uint32_t>{1, 4}));
  EXPECT_EQ(s.straggler.racks, std::vector<uint32_t>{1});
  const std::string text = scenario_text(s);
  EXPECT_THAT(text, HasSubstr("straggler.pattern = \"slow-worker+fail-slow\"\n"));
  EXPECT_THAT(text, HasSubstr("straggler.workers = \"1,4\"\n"));
  EXPECT_EQ(scenario_text(accepted(text)), text);

  EXPECT_EQ(accepted("straggler.pattern = 'none'\n").straggler.pattern, Straggling::kNone);
  EXPECT_THAT(refusal("straggler.pattern = 'pause+slow'\n"),
              HasSubstr("straggler.pattern=pause+slow is refused: unknown name 'slow'"));
  EXPECT_THAT(refusal("straggler.pattern = 'pause+'\n"), HasSubstr("unknown name ''"));
  EXPECT_THAT(refusal("straggler.pattern = 'slow-worker+pause+slow-worker'\n"),
              HasSubstr("straggler.pattern=slow-worker+pause+slow-worker names slow-worker twice; "
                        "allowed: each pattern once"));
  for (const char* names : {"none+pause", "pause+none", "none+none"}) {
    EXPECT_THAT(refusal(fmt::format("straggler.pattern = '{}'\n", names)),
                HasSubstr("allowed: none alone, or patterns joined by +"));
  }
  EXPECT_THAT(refusal("straggler.workers = '1,x'\n"),
              HasSubstr("straggler.workers=1,x is not a list of numbers; allowed: 0 to 1023"));
}

TEST(ScenarioFile, LaterKeysOverrideEarlierOnes) {
  std::vector<WrittenKey> keys = keys_of_file("workers = 4\n");
  keys.push_back(*split_setting("workers=3", "--set"));
  EXPECT_EQ(make_scenario(keys)->workers, 3);
}

TEST(ScenarioFile, ScenarioSurvivesARoundTrip) {
  Scenario scenario;
  scenario.workers = 5;
  scenario.link.ecn_bytes = 12'345;
  scenario.fabric.propagation = Duration::from_ticks(12'345'678'901);
  scenario.model = {.kind = Model::kCustom, .bucket_bytes = {1, 2, 3}};
  scenario.straggler.probability = 1.0 / 3.0;
  scenario.pfe.overrides = {{.name = "clock_hz", .value = 1.5e9}};
  scenario.captures = {{.link = "a.0>b.1", .path = "x.pcap"}};
  const std::string text = scenario_text(scenario);
  Scenario read;
  for (const WrittenKey& key : keys_of_file(text)) {
    const auto setting = read_setting(key);
    ASSERT_TRUE(setting) << setting.error().text;
    setting->set(read);
  }
  EXPECT_EQ(scenario_text(read), text);
  EXPECT_EQ(read.fabric.propagation, scenario.fabric.propagation);
  EXPECT_EQ(read.link.ecn_bytes, 12'345);
  EXPECT_EQ(read.fabric.ecn_bytes, UINT64_MAX);  // 0 in the text.
  EXPECT_EQ(read.captures.at(0).path, "x.pcap");
}

TEST(ScenarioFile, EveryKeyHasAUniqueNameAndHelp) {
  std::set<std::string_view> names;
  for (const ScenarioKey& key : scenario_keys()) {
    EXPECT_TRUE(names.insert(key.spec.name).second) << key.spec.name;
    EXPECT_FALSE(key.spec.help.empty()) << key.spec.name;
    EXPECT_EQ(find_scenario_key(key.spec.name), &key);
  }
  EXPECT_EQ(find_scenario_key("none"), nullptr);
  EXPECT_THAT(scenario_help(), HasSubstr("workers: workers; more than 256 need a tree or a ring "
                                         "(a whole number from 1 to 1024; default 6)\n"));
}

TEST(ScenarioFile, RefusalsNameFileLineKeyAndAllowedValues) {
  EXPECT_THAT(refusal("\nworker = 4\n"),
              HasSubstr("s.toml:2: unknown key 'worker' (did you mean 'workers'?); allowed: "));
  EXPECT_EQ(refusal("workers = 1025\n"),
            "s.toml:1: workers=1025 is out of range; allowed: a whole number from 1 to 1024");
  EXPECT_EQ(refusal("[link]\nrate_gbps = 0\n"),
            "s.toml:2: link.rate_gbps=0 is out of range; allowed: a number from 0.001 to 10000");
  EXPECT_EQ(refusal("workers = \"4\"\n"),
            "s.toml:1: workers=4 is text; allowed: a whole number from 1 to 1024");
  EXPECT_EQ(refusal("workers = [1, 2]\n"),
            "s.toml:1: workers=1,2 is not a whole number; allowed: a whole number from 1 to 1024");
  EXPECT_EQ(refusal("straggler.probability = 1.5\n"),
            "s.toml:1: straggler.probability=1.5 is out of range; allowed: a number from 0 to 1");
  EXPECT_EQ(refusal("topology = \"sta\"\n"),
            "s.toml:1: topology=sta is refused: unknown name 'sta' (did you mean 'star'?); "
            "allowed: star, chassis, two-level, leaf-spine, file");
  EXPECT_THAT(refusal("backend = \"trio-mll\"\n"),
              HasSubstr("s.toml:1: backend=trio-mll is refused: unknown name 'trio-mll' (did you "
                        "mean 'trio-ml'?); allowed: "));
  EXPECT_EQ(
      refusal("model.bucket_bytes = [0]\n"),
      "s.toml:1: model.bucket_bytes=0 is not a list of sizes; allowed: sizes from 1 byte to 1 TB "
      "(10^12), separated by commas");
  EXPECT_THAT(refusal("model.bucket_bytes = \"4096,18446744073709551615\"\n"),
              HasSubstr("is not a list of sizes"));
  EXPECT_EQ(refusal("pfe.override = \"x\"\n"),
            "s.toml:1: pfe.override=x is not a list of parameters; allowed: name=number, separated "
            "by commas");
  EXPECT_EQ(
      refusal("capture = \"x\"\n"),
      "s.toml:1: capture=x is not a list of captures; allowed: link=file, separated by commas");
}

TEST(ScenarioFile, ScenarioRefusalsNameTheirKey) {
  // A window that is not a power of two is refused by check(), which does not know the file.
  EXPECT_THAT(refusal("workers = 6\nwindow = 1000\n"), HasSubstr("s.toml:2: window=1000"));
  EXPECT_THAT(refusal("topology = \"chassis\"\nleaves = 9\n"), HasSubstr("leaves=9"));
}

TEST(ScenarioFile, RefusesKeysWithoutEffect) {
  EXPECT_EQ(refusal("workers = 6\n[straggler]\nprobability = 0.2\n"),
            "s.toml:3: straggler.probability=0.2 has no effect; allowed: 0, or any with "
            "straggler.pattern=slow-worker, slow-worker-each or slow-worker-fixed");
  EXPECT_EQ(refusal("[straggler]\npattern = \"pause\"\nprobability = 0\n"), "accepted");
  EXPECT_EQ(refusal("[straggler]\npattern = \"pause+slow-worker-each\"\nprobability = 0.2\n"),
            "accepted");
  EXPECT_EQ(refusal("model.bucket_bytes = [4096, 8192]\n"),
            "s.toml:1: model.bucket_bytes=4096,8192 has no effect; allowed: none, or any with "
            "model.name=custom");
  EXPECT_EQ(refusal("topology_file = \"t.toml\"\n"),
            "s.toml:1: topology_file=t.toml has no effect; allowed: none, or the path of a file "
            "with topology=file");
  EXPECT_EQ(
      refusal("fabric.loss = 0.5\n"),
      "s.toml:1: fabric.loss=0.5 has no effect; allowed: any with topology=chassis, two-level "
      "or leaf-spine");
  EXPECT_EQ(refusal("leaves = 3\n"),
            "s.toml:1: leaves=3 has no effect; allowed: 2, or any with topology=chassis, two-level "
            "or leaf-spine");
  EXPECT_EQ(refusal("workers = 6\ntopology = \"two-level\"\nleaves = 3\nfabric.rate_gbps = 40\n"),
            "accepted");
  EXPECT_EQ(refusal("fabric.loss = 0\nstraggler.pause_for_ms = 500\n"), "accepted");  // Defaults.
  EXPECT_EQ(refusal("straggler.pause_for_ms = 20\n"),
            "s.toml:1: straggler.pause_for_ms=20 has no effect; allowed: any with "
            "straggler.pattern=pause");
}

TEST(ScenarioFile, RefusesKeysWithoutTheKeyThatReadsThem) {
  EXPECT_EQ(refusal("timeline.bin_ms = 5\n"),
            "s.toml:1: timeline.bin_ms=5 has no effect; allowed: 10, or any with timeline.link");
  EXPECT_EQ(refusal("timeline.bin_ms = 5\ntimeline.link = \"worker-0.0>switch.0\"\n"), "accepted");
  EXPECT_EQ(
      refusal("link.reorder_max_us = 9\n"),
      "s.toml:1: link.reorder_max_us=9 has no effect; allowed: any with link.reorder above 0");
  EXPECT_EQ(refusal("link.reorder_max_us = 9\nlink.reorder = 0.1\n"), "accepted");
  const std::string tree = "topology = \"two-level\"\nfabric.reorder_max_us = 9\n";
  EXPECT_EQ(
      refusal(tree),
      "s.toml:2: fabric.reorder_max_us=9 has no effect; allowed: any with fabric.reorder above 0");
  EXPECT_EQ(refusal(tree + "fabric.reorder = 0.1\n"), "accepted");
}

TEST(ScenarioFile, RefusesASingleStragglerWithoutAPatternThatHasOne) {
  const std::string worker = "straggler.worker = 2\n";
  for (const char* pattern : {"none", "heavy-tail", "slow-worker", "slow-worker-each"}) {
    const std::string text = fmt::format("straggler.pattern = \"{}\"\n", pattern);
    const std::string delays =
        std::string(pattern).starts_with("slow") ? "straggler.probability = 0.1\n" : "";
    EXPECT_THAT(refusal(worker + text + delays),
                HasSubstr("s.toml:1: straggler.worker=2 has no effect; allowed: 0, or any with"))
        << pattern;
  }
  for (const char* pattern : {"fail-slow", "pause", "absent", "background-flow"}) {
    const std::string text = fmt::format("straggler.pattern = \"{}\"\n", pattern);
    EXPECT_EQ(refusal(worker + text), "accepted") << pattern;
    EXPECT_THAT(refusal(worker + text + "straggler.workers = [1]\n"), HasSubstr("has no effect"));
  }
}

TEST(ScenarioFile, RefusesKeysOfAnotherSwitchThanSwitchml) {
  EXPECT_EQ(refusal("switchml.preset = \"published\"\n"),
            "s.toml:1: switchml.preset=published has no effect; allowed: paper, or any with a "
            "SwitchML back end");
  const std::string switchml = "backend = \"switchml-64\"\n";
  EXPECT_EQ(refusal(switchml + "switchml.preset = \"published\"\n"), "accepted");
  // SwitchML's workers resend only with retransmission.
  EXPECT_EQ(
      refusal(switchml + "switchml.timeout_ms = 2\n"),
      "s.toml:2: switchml.timeout_ms=2 has no effect; allowed: 0, or any with a SwitchML back "
      "end and host.retransmission=true");
  EXPECT_EQ(refusal(switchml + "switchml.timeout_ms = 2\nhost.retransmission = true\n"),
            "accepted");
  EXPECT_EQ(refusal(switchml + "window = 512\n"),
            "s.toml:2: window=512 has no effect; allowed: 4096, or any with a back end other than "
            "SwitchML, whose window is switchml.pool");
  EXPECT_EQ(
      refusal(switchml + "gradients = 64\n"),
      "s.toml:2: gradients=64 has no effect; allowed: 1024, or any with a back end other than "
      "SwitchML, which fixes the size of its packets");
  EXPECT_EQ(refusal("window = 512\ngradients = 64\n"), "accepted");
}

TEST(ScenarioFile, RefusesKeysWithoutEffectOnTheBackEnd) {
  EXPECT_EQ(refusal("backend = \"ring\"\nmitigation.timeout_ms = 5\n"),
            "s.toml:2: mitigation.timeout_ms=5 has no effect; allowed: 10, or any with "
            "backend=trio-ml, switchml-64-timeout, live, sharded-live or optireduce");
  EXPECT_EQ(refusal("backend = \"ring\"\npfe.generation = 4\n"),
            "s.toml:2: pfe.generation=4 has no effect; allowed: any with backend=trio-ml, "
            "trio-ml-wait or switchml-on-trio");
  for (const char* key : {"mitigation.catch_up = \"compute\"", "mitigation.history = 8",
                          "mitigation.permanent_after_ms = 50", "mitigation.timer_threads = 9"}) {
    const std::string text = fmt::format("{}\n", key);
    EXPECT_THAT(refusal("backend = \"waiting-switch\"\n" + text), HasSubstr("has no effect"));
    EXPECT_EQ(refusal("backend = \"trio-ml\"\n" + text), "accepted");
  }
  // With a quorum, workers of the waiting switch can be late, too.
  EXPECT_EQ(refusal("backend = \"waiting-switch\"\n[mitigation]\nquorum = 4\nhistory = 8\n"
                    "catch_up = \"compute\"\n"),
            "accepted");
  EXPECT_EQ(refusal("mitigation.timeout_ms = 0.5\n"),
            "s.toml:1: mitigation.timeout_ms=0.5 is not allowed; allowed: 1 to 60000 with "
            "backend=trio-ml");
}

TEST(ScenarioFile, RefusesKeysOfLinksThatATopologyFileSets) {
  const std::string file = "topology = \"file\"\ntopology_file = \"t.toml\"\n";
  EXPECT_EQ(refusal(file + "link.loss = 0.05\n"),
            "s.toml:3: link.loss=0.05 has no effect; allowed: any with a topology other than file, "
            "which sets each cable");
  for (const char* key : {"queue_bytes = 100000", "ecn_bytes = 9000", "corrupt = 0.1",
                          "duplicate = 0.1", "reorder = 0.1", "jitter_us = 2",
                          "propagation_ns = 900", "loss_run = 4", "reorder_max_us = 9"}) {
    EXPECT_THAT(refusal(fmt::format("{}link.{}\n", file, key)), HasSubstr("has no effect")) << key;
    EXPECT_THAT(refusal(fmt::format("{}fabric.{}\n", file, key)), HasSubstr("has no effect"))
        << key;
  }
  EXPECT_EQ(refusal(file + "link.loss = 0\n"), "accepted");
  // A switch that adds returns results at this rate, and SwitchML's pool covers this delay.
  EXPECT_EQ(refusal(file + "link.rate_gbps = 25\n"), "accepted");
  EXPECT_THAT(refusal(file + "link.rate_gbps = 25\nbackend = \"ring\"\n"),
              HasSubstr("s.toml:3: link.rate_gbps=25 has no effect; allowed: 100, or any with"));
  EXPECT_EQ(refusal(file + "link.propagation_ns = 900\nbackend = \"switchml-64\"\n"), "accepted");
}

TEST(ScenarioFile, FindsAKeyWithoutEffectInAnyRun) {
  const auto settings = read_settings(keys_of_file("workers = 4\nmitigation.timeout_ms = 5\n"));
  ASSERT_TRUE(settings);
  Scenario ring;
  ring.backend = Backend::kRing;
  for (const Setting& setting : *settings) setting.set(ring);
  Scenario trio = ring;
  trio.backend = Backend::kTrioMl;
  const auto checked = [&settings](std::vector<const Scenario*> scenarios) {
    const auto good = check_effects(scenarios, *settings);
    return good ? "accepted" : good.error().text;
  };
  EXPECT_EQ(checked({&ring, &trio}), "accepted");
  EXPECT_EQ(checked({&ring, &ring}),
            "s.toml:2: mitigation.timeout_ms=5 has no effect in any run; allowed: 10, or any with "
            "backend=trio-ml, switchml-64-timeout, live, sharded-live or optireduce");
  // The default says nothing of the others' values.
  Scenario usual = trio;
  usual.mitigation.timeout = milliseconds(10);
  EXPECT_THAT(checked({&usual, &ring}), HasSubstr("mitigation.timeout_ms=5 has no effect"));
  EXPECT_EQ(checked({&usual, &usual}), "accepted");
}

TEST(ScenarioFile, RefusesPatternsThatCanNeverAct) {
  constexpr char kNever[] = "has no effect; allowed: none, or patterns that can act: ";
  EXPECT_THAT(refusal("straggler.pattern = \"slow-worker\"\n"),
              HasSubstr(fmt::format("s.toml:1: straggler.pattern=slow-worker {}", kNever)));
  const std::string idle = "model.name = \"custom\"\nmodel.bucket_bytes = 4096\n";
  for (const char* pattern : {"fail-slow", "heavy-tail"}) {
    const std::string text = fmt::format("straggler.pattern = \"{}\"\n", pattern);
    EXPECT_THAT(refusal(idle + text), HasSubstr(kNever)) << pattern;
    EXPECT_EQ(refusal(idle + text + "model.backward_ms = 1\n"), "accepted") << pattern;
    EXPECT_EQ(refusal(text), "accepted") << pattern;
  }
  EXPECT_THAT(refusal("straggler.pattern = \"fail-slow\"\nstraggler.factor = 1\n"),
              HasSubstr(kNever));
}

TEST(ScenarioFile, StatesTheRangesOfTimesThatRunsAccept) {
  EXPECT_EQ(refusal("mitigation.timeout_ms = 60000\nmitigation.permanent_after_ms = 10\n"
                    "link.jitter_us = 3600000000\n"),
            "accepted");
  EXPECT_THAT(refusal("mitigation.timeout_ms = 60000.1\n"),
              HasSubstr("allowed: a number from 0 to 60000"));
  EXPECT_THAT(refusal("mitigation.permanent_after_ms = 9\n"),
              HasSubstr("allowed: a number from 10 to 3600000"));
  EXPECT_THAT(refusal("link.propagation_ns = 3600000000001\n"),
              HasSubstr("allowed: a number from 0 to 3600000000000"));
  EXPECT_THAT(refusal("mitigation.timer_threads = 1001\n"), HasSubstr("from 1 to 1000"));
}

TEST(ScenarioFile, RefusesUnreadableAndMalformedFiles) {
  const testing::ScratchDirectory scratch;
  EXPECT_THAT(read_keys(scratch.path() / "none.toml").error().text,
              HasSubstr("none.toml: cannot be read: "));
  EXPECT_THAT(read_keys(scratch.file("bad.toml", "a = 1\nb = = 2\n")).error().text,
              HasSubstr("bad.toml:2: is not TOML: "));
  EXPECT_EQ(split_setting("workers", "--set").error().text,
            "--set: 'workers' is not key=value; allowed: key=value");
  EXPECT_EQ(split_setting("=3", "--set").error().text,
            "--set: '=3' is not key=value; allowed: key=value");
}

}  // namespace
}  // namespace tributary::lab
