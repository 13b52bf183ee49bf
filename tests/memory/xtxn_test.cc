// SPDX-License-Identifier: Apache-2.0
// Method: each operation once on the suspending machine: its effect, its reply and its kind. Then
// many threads swap at once, to show that a service is whole.
#include "memory/xtxn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/engine/step_machine.h"
#include "tests/support/seed.h"

namespace tributary::memory {
namespace {

using testing::StepMachine;

struct Words {
  uint64_t word = 0xff00;
  std::array<uint64_t, 7> replies{};
};

template <microcode::Machine M>
microcode::Thread run_each(M& m, Words& words) {
  uint64_t& word = words.word;
  words.replies[0] = co_await xtxn_fetch_and_and<M, uint64_t>(m, word, 0xf0f0);
  words.replies[1] = co_await xtxn_fetch_and_or<M, uint64_t>(m, word, 0x000f);
  words.replies[2] = co_await xtxn_fetch_and_xor<M, uint64_t>(m, word, 0xffff);
  words.replies[3] = co_await xtxn_fetch_and_clear<M, uint64_t>(m, word, 0x00f0);
  words.replies[4] = co_await xtxn_fetch_and_add<M, uint64_t>(m, word, 1);
  words.replies[5] = co_await xtxn_fetch_and_swap<M, uint64_t>(m, word, 0x1234);
  co_await xtxn_masked_write<M, uint64_t>(m, word, 0xabcd, 0x00ff);
  words.replies[6] = co_await xtxn_read(m, word);
  co_await xtxn_write<M, uint64_t>(m, word, 0x5678);
}

TEST(Xtxn, RepliesWithTheWordBeforeTheOperation) {
  StepMachine m({.seed = 1});
  Words words;
  m.start_timer([&](StepMachine& machine) { run_each(machine, words); });
  m.run();
  EXPECT_EQ(words.replies,
            (std::array<uint64_t, 7>{0xff00, 0xf000, 0xf00f, 0x0ff0, 0x0f00, 0x0f01, 0x12cd}));
  EXPECT_EQ(words.word, 0x5678U);
  for (const XtxnKind kind :
       {XtxnKind::kFetchAndAnd, XtxnKind::kFetchAndOr, XtxnKind::kFetchAndXor,
        XtxnKind::kFetchAndClear, XtxnKind::kFetchAndAdd, XtxnKind::kFetchAndSwap}) {
    EXPECT_EQ(m.xtxns(kind), 1U);
  }
  EXPECT_EQ(m.xtxns(XtxnKind::kMaskedWrite), 1U);
  EXPECT_EQ(m.xtxns(XtxnKind::kRead), 1U);
  EXPECT_EQ(m.xtxns(XtxnKind::kWrite), 1U);
}

template <microcode::Machine M>
microcode::Thread swap_in(M& m, uint64_t& word, uint64_t value, std::vector<uint64_t>& got) {
  got.push_back(co_await xtxn_fetch_and_swap(m, word, value));
}

TEST(Xtxn, SwapsLoseNoValue) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  StepMachine m({.seed = seed});
  uint64_t word = 0;
  std::vector<uint64_t> got;
  m.start_timer([&](StepMachine& machine) {
    for (uint64_t value = 1; value <= 100; value++) swap_in(machine, word, value, got);
  });
  m.run();
  got.push_back(word);
  std::ranges::sort(got);
  for (uint64_t value = 0; value <= 100; value++) EXPECT_EQ(got[value], value);
}

}  // namespace
}  // namespace tributary::memory
