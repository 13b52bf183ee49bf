// SPDX-License-Identifier: Apache-2.0
// Method: several SwitchML workers with Algorithm 3 in its simplest form, over links that lose and
// duplicate packets, keep their order, and have any delay.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <deque>
#include <memory>
#include <set>

#include "tests/host/switchml/switchml_worker.h"
#include "tests/support/seed.h"

namespace tributary::host {
namespace {

using testing::small_config;
using wire::SwitchmlMessage;
using Worker = testing::SwitchmlWorker;

/// Algorithm 3, as the paper writes it. take() returns the recipients of the answer.
class SimpleSwitch {
 public:
  SimpleSwitch(uint32_t world, uint32_t pool) : world_(world), pool_(pool) {}

  enum class Answer : uint8_t { kNobody, kSender, kAll };
  Answer take(uint32_t worker, SwitchmlMessage& message) {
    Slot& slot = slots_[message.set ? 1 : 0].at(message.slot);
    if (slot.seen.contains(worker)) {
      if (slot.count != 0) return Answer::kNobody;
      fill(slot, message);
      return Answer::kSender;
    }
    slot.seen.insert(worker);
    slots_[message.set ? 0 : 1].at(message.slot).seen.erase(worker);
    slot.count = (slot.count + 1) % world_;
    if (slot.count == 1 % world_) {
      slot.sum = message;
    } else {
      for (size_t i = 0; i < message.elements.size(); i++) {
        slot.sum.elements[i] = static_cast<int32_t>(static_cast<uint32_t>(slot.sum.elements[i]) +
                                                    static_cast<uint32_t>(message.elements[i]));
      }
      slot.sum.exponent0 = std::max(slot.sum.exponent0, message.exponent0);
      slot.sum.exponent1 = std::max(slot.sum.exponent1, message.exponent1);
    }
    if (slot.count != 0) return Answer::kNobody;
    fill(slot, message);
    return Answer::kAll;
  }

 private:
  struct Slot {
    std::set<uint32_t> seen;
    uint32_t count = 0;
    SwitchmlMessage sum;
  };
  static void fill(const Slot& slot, SwitchmlMessage& message) {
    message.elements = slot.sum.elements;
    message.exponent0 = slot.sum.exponent0;
    message.exponent1 = slot.sum.exponent1;
  }
  const uint32_t world_;
  const uint32_t pool_;
  std::array<std::vector<Slot>, 2> slots_{std::vector<Slot>(pool_), std::vector<Slot>(pool_)};
};

/// One tensor for each worker, as integers or floats of several magnitudes.
struct Tensor {
  bool floats = false;
  size_t count = 0;
  std::vector<std::vector<int32_t>> integers;  ///< Shape [worker][count].
  std::vector<std::vector<float>> values;      ///< Likewise.
  std::vector<int32_t> sum;
  std::vector<double> exact;
  std::vector<double> magnitude;  ///< Largest of any worker, by block.
};

Tensor make_tensor(testing::Prng& prng, uint32_t world) {
  Tensor tensor;
  tensor.floats = prng.chance(0.5);
  tensor.count = 1 + prng.below(64 * 12);
  tensor.sum.resize(tensor.count);
  tensor.exact.resize(tensor.count);
  tensor.magnitude.resize(tensor.count / 64 + 1);
  for (uint32_t worker = 0; worker < world; worker++) {
    std::vector<int32_t> integers(tensor.count);
    std::vector<float> values(tensor.count);
    for (size_t i = 0; i < tensor.count; i++) {
      integers[i] = prng.any_i32();
      values[i] = std::ldexp(static_cast<float>(integers[i]), static_cast<int>(i / 64 * 8) - 60);
      tensor.sum[i] = static_cast<int32_t>(static_cast<uint32_t>(tensor.sum[i]) +
                                           static_cast<uint32_t>(integers[i]));
      tensor.exact[i] += static_cast<double>(values[i]);
      double& largest = tensor.magnitude[i / 64];
      largest = std::max(largest, std::fabs(static_cast<double>(values[i])));
    }
    tensor.integers.push_back(std::move(integers));
    tensor.values.push_back(std::move(values));
  }
  return tensor;
}

class RandomWalk : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RandomWalk, SumsAreExactUnderLossAndDuplication) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed + GetParam());
  const uint32_t world = 1 + prng.below(5);
  const uint32_t pool = 1 + prng.below(9);
  const double loss = prng.chance(0.5) ? 0.1 : 0;
  SimpleSwitch device(world, pool);
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::deque<SwitchmlMessage>> up(world);
  std::vector<std::deque<SwitchmlMessage>> down(world);
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < 4; i++) tensors.push_back(make_tensor(prng, world));
  std::vector<std::vector<Transfer>> transfers(world);
  for (uint32_t w = 0; w < world; w++) {
    SwitchmlConfig config = small_config(pool, world);
    config.rank = w;
    config.deadline = seconds(100);
    workers.push_back(std::make_unique<Worker>(config));
    transfers[w].resize(tensors.size());
    for (size_t i = 0; i < tensors.size(); i++) {
      Transfer& transfer = transfers[w][i];
      if (tensors[i].floats) {
        transfer.floats = tensors[i].values[w];
        transfer.format = wire::ElementFormat::kBlockExponent;
      } else {
        transfer.integers = tensors[i].integers[w];
      }
      workers[w]->protocol.submit(transfer, workers[w]->now);
    }
  }
  const auto put = [&](std::deque<SwitchmlMessage>& link, const SwitchmlMessage& message) {
    if (prng.chance(loss)) return;
    link.push_back(message);
    if (prng.chance(loss / 2)) link.push_back(message);
  };
  const auto all_done = [&] {
    for (const auto& of_worker : transfers) {
      for (const Transfer& transfer : of_worker) {
        if (!transfer.done) return false;
      }
    }
    return true;
  };
  uint32_t rounds = 0;
  for (; rounds < 200'000 && !all_done(); rounds++) {
    const uint32_t w = prng.below(world);
    Worker& worker = *workers[w];
    switch (prng.below(4)) {
      case 0:
        for (const SwitchmlMessage& message : worker.sent()) put(up[w], message);
        break;
      case 1: {
        if (up[w].empty()) break;
        SwitchmlMessage message = std::move(up[w].front());
        up[w].pop_front();
        const auto answer = device.take(w, message);
        if (answer == SimpleSwitch::Answer::kSender) put(down[w], message);
        if (answer == SimpleSwitch::Answer::kAll) {
          for (auto& link : down) put(link, message);
        }
        break;
      }
      case 2:
        if (down[w].empty()) break;
        worker.hear(down[w].front());
        down[w].pop_front();
        break;
      default:
        worker.after(microseconds(prng.below(300)));
    }
  }
  ASSERT_TRUE(all_done()) << "after " << rounds << " rounds";
  for (size_t i = 0; i < tensors.size(); i++) {
    const Tensor& tensor = tensors[i];
    for (uint32_t w = 0; w < world; w++) {
      ASSERT_EQ(transfers[w][i].outcome.status, Status::kOk);
      if (!tensor.floats) {
        ASSERT_EQ(tensor.integers[w], tensor.sum);
        continue;
      }
      // Every rank has the same bits. A value is scaled in float32 (24 bits) and rounded to a unit
      // of n x 2^m / 2^31, where 2^m is at most twice the block's largest.
      ASSERT_EQ(tensor.values[w], tensor.values[0]);
      for (size_t j = 0; j < tensor.count; j++) {
        const double largest = tensor.magnitude[j / 64];
        const double each = largest * 2 * world * 0x1p-32 + largest * 0x1p-23;
        ASSERT_NEAR(tensor.values[w][j], tensor.exact[j],
                    each * world + std::fabs(tensor.exact[j]) * 0x1p-23);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomWalk, ::testing::Range(0U, 24U));

}  // namespace
}  // namespace tributary::host
