// SPDX-License-Identifier: Apache-2.0
// Method: compares a pipe that has seen packets before and takes shortcuts with a new pipe that
// goes from state to state. Parsers and packets are random. Verdict, fields and bytes must be the
// same.
#include "tofino/pipeline/parser_route.h"

#include <gtest/gtest.h>

#include "tests/support/seed.h"
#include "tofino/pipeline/pipe.h"
#include "tofino/program/program_builder.h"

namespace tributary::tofino {
namespace {

using tributary::testing::Prng;

/// Makes five headers of one to three fields, and a parser whose states only lead forward.
Program random_program(Prng& prng) {
  ProgramBuilder b("random");
  b.program.intrinsics.ingress_port = b.metadata("ingress_port", 9);
  const FieldId mark = b.metadata("mark", 4);
  std::vector<HeaderId> headers;
  std::vector<FieldId> fields{b.program.intrinsics.ingress_port, mark};
  for (uint32_t i = 0; i < 5; i++) {
    const std::string name = "h" + std::to_string(i);
    std::vector<ProgramBuilder::FieldShape> shapes;
    const uint32_t shape = prng.below(4);
    if (shape == 0) shapes = {{"a", 8}};
    if (shape == 1) shapes = {{"a", 3}, {"b", 7}, {"c", 6}};
    if (shape == 2) shapes = {{"a", 16}, {"b", 8}};
    if (shape == 3) shapes = {{"a", 32}, {"b", 32}};
    headers.push_back(b.header(name, shapes));
    for (const auto& one : shapes) fields.push_back(b.field_of(headers.back(), one.name));
  }
  for (StateId state = 0; state < 5; state++) {
    ParserState one{.name = "s" + std::to_string(state), .extracts = {headers[state]}};
    if (state == 0) one.extracts.clear();
    if (prng.chance(0.3)) one.sets.emplace_back(mark, prng.below(4));
    const auto next = [&]() -> StateId {
      if (prng.chance(0.1)) return kReject;
      const auto to = static_cast<StateId>(state + 1 + prng.below(3));
      return to < 5 ? to : kAccept;
    };
    const FieldId key = fields[prng.below(static_cast<uint32_t>(fields.size()))];
    one.select = {key};
    if (b.program.fields[key].bits <= 16 && mark != key) one.select.push_back(mark);
    for (uint32_t i = 0; i < prng.below(4); i++) {
      Transition transition{.matches = {}, .next = next()};
      for (size_t k = 0; k < one.select.size(); k++) {
        const uint32_t bits = b.program.fields[one.select[k]].bits;
        const uint32_t wanted = prng.chance(0.2) ? 0 : prng.chance(0.5) ? 0x81 : 3;
        const uint32_t mask = wanted & (bits >= 32 ? 0xffffffff : (1U << bits) - 1);
        transition.matches.push_back({(prng.below(4) | prng.below(2) << 7) & mask, mask});
      }
      one.transitions.push_back(transition);
    }
    one.otherwise = next();
    b.program.ingress.parser.push_back(one);
  }
  b.program.ingress.deparser = headers;
  return std::move(b.program);
}

TEST(ParserRoutes, ShortcutsReadTheSameFieldsAsTheStates) {
  const uint64_t seed = tributary::testing::seed_from_env();
  SCOPED_TRACE(tributary::testing::replay_hint(seed));
  Prng prng(seed);
  uint32_t accepted = 0;
  for (uint32_t round = 0; round < 60; round++) {
    const auto executable = Executable::load(random_program(prng));
    ASSERT_TRUE(executable.has_value()) << executable.error().text;
    const Program& program = *executable->program;
    const Tables tables(executable->program);
    Pipe experienced(*executable, tables, 1);
    for (uint32_t step = 0; step < 120; step++) {
      std::vector<std::byte> bytes(prng.below(24));
      // Few different values, so that packets repeat their paths.
      for (std::byte& byte : bytes)
        byte = static_cast<std::byte>(prng.below(4) | prng.below(2) << 7);
      const PacketView packet{bytes, static_cast<uint32_t>(bytes.size())};
      // Ports 0 and 128 share one entry of the remembered paths.
      const uint32_t port = prng.below(3) + 128 * prng.below(2);
      Pipe fresh(*executable, tables, 1);
      PacketBuffer out_experienced;
      PacketBuffer out_fresh;
      for (Pipe* pipe : {&experienced, &fresh}) {
        pipe->begin();
        pipe->set(program.intrinsics.ingress_port, port);
      }
      const Verdict expected = fresh.run_ingress(packet, out_fresh);
      ASSERT_EQ(experienced.run_ingress(packet, out_experienced), expected)
          << "round " << round << " step " << step;
      if (expected != Verdict::kPassed) continue;
      accepted++;
      for (FieldId id = 0; id < program.fields.size(); id++) {
        ASSERT_EQ(experienced.get(id), fresh.get(id))
            << "round " << round << " step " << step << ", field " << program.fields[id].name;
      }
      const PacketView a = out_experienced.view();
      const PacketView b = out_fresh.view();
      ASSERT_EQ(a.size_bytes, b.size_bytes);
      ASSERT_TRUE(std::equal(a.stored.begin(), a.stored.end(), b.stored.begin(), b.stored.end()));
    }
  }
  EXPECT_GT(accepted, 1'000U);
}

}  // namespace
}  // namespace tributary::tofino
