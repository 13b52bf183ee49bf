// SPDX-License-Identifier: Apache-2.0
/// @file
/// Two lower aggregators below an upper one, and three workers below each lower one. Packets are
/// carried by hand between the ports of their beds, so a test can lose any of them.
///
/// Threads: One.
/// Memory:  Allocates; for tests only.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/apps/trio_ml/bed.h"
#include "tests/support/seed.h"

namespace tributary::trio_ml {

inline constexpr uint32_t kLowerCount = 2;
inline constexpr uint32_t kBelow = 3;  // Workers below each.
inline constexpr uint32_t kRanks = kLowerCount * kBelow;
inline constexpr Duration kTimeout = milliseconds(10);

inline Endpoint upper_address() { return Endpoint::ipv4(0x0a0000c8, wire::kTrioMlPort); }
inline Endpoint lower_address(uint32_t index) {
  return Endpoint::ipv4(0x0a0000d0 + index, wire::kTrioMlPort);
}

inline JobConfig lower_job(uint32_t index, bool mitigation, uint32_t window = 8) {
  return {.id = 1,
          .sources = kBelow,
          .block_cnt_max = window,
          .block_grad_max = 16,
          .mitigation = mitigation,
          .timeout = kTimeout,
          .upstream = upper_address(),
          .upstream_source = index,
          .rank_base = index * kBelow,
          .world = kRanks};
}
inline JobConfig upper_job(bool mitigation, uint32_t window = 8) {
  return {.id = 1,
          .sources = kLowerCount,
          .block_cnt_max = window,
          .block_grad_max = 16,
          .mitigation = mitigation,
          .timeout = kTimeout * 3,
          .sources_are_aggregators = true,
          .world = kRanks};
}

/// The tree, the workers' mailboxes, and the losses of each link.
class Tree {
 public:
  using Windows = std::array<uint32_t, kLowerCount>;

  /// @param windows Windows of the lower aggregators. The upper one has the largest.
  explicit Tree(engine::PacketLayer layer, bool mitigation = false, const Windows& windows = {8, 8})
      : upper_({.jobs = {upper_job(mitigation, *std::ranges::max_element(windows))},
                .layer = layer,
                .local = upper_address()}) {
    for (uint32_t i = 0; i < kLowerCount; i++) {
      lower_.push_back(
          std::make_unique<Bed>(BedConfig{.jobs = {lower_job(i, mitigation, windows[i])},
                                          .layer = layer,
                                          .local = lower_address(i)}));
    }
  }

  [[nodiscard]] Bed& upper() { return upper_; }
  [[nodiscard]] Bed& lower(uint32_t index) { return *lower_[index]; }
  [[nodiscard]] Bed& above(uint32_t rank) { return *lower_[rank / kBelow]; }

  /// Sends a worker's packet to its aggregator and carries packets until none is left.
  void send(uint32_t rank, const Bytes& payload) {
    above(rank).deliver(payload, worker(rank));
    carry();
  }
  void contribute(uint32_t rank, uint32_t block_id, const Values& values, uint16_t gen_id = 0) {
    send(rank, plain_bytes(rank % kBelow, block_id, gen_id, values));
  }
  /// Returns the packets that a worker received since the last call.
  std::vector<Reply> take(uint32_t rank) { return std::exchange(mail_[rank], {}); }
  Reply take_result(uint32_t rank) {
    const auto mine = take(rank);
    EXPECT_EQ(mine.size(), 1U) << "rank " << rank;
    return mine.empty() ? Reply{} : mine.front();
  }

  /// Advances the time on all machines.
  void pass(Duration time) {
    const Instant until = upper_.now() + time;
    while (upper_.now() < until) {
      const Instant next = std::min(until, upper_.now() + milliseconds(1));
      upper_.run_until(next);
      for (auto& bed : lower_) {
        if (bed.get() == stopped_) {
          bed->set_now(next);
        } else {
          bed->run_until(next);
        }
      }
      carry();
    }
  }

  /// Lets time pass while a lower aggregator is stopped and hears nothing.
  void pass_without(uint32_t stopped, Duration time) {
    stopped_ = &lower(stopped);
    pass(time);
    stopped_ = nullptr;
  }

  /// Loses `count` packets between aggregators, after `passed` that arrive.
  void lose_after(uint32_t passed, uint32_t count) {
    pass_ = passed;
    lose_ = count;
  }
  /// Starts to lose and duplicate packets between aggregators.
  void set_faults(Prng& prng, double loss, double duplicate) {
    prng_ = &prng;
    loss_ = loss;
    duplicate_ = duplicate;
  }

 private:
  void carry() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Reply& packet : upper_.take()) {
        moved = true;
        across(lower_at(packet.to), packet.bytes, upper_address());
      }
      for (uint32_t i = 0; i < kLowerCount; i++) {
        for (Reply& packet : lower_[i]->take()) {
          if (packet.to == upper_address()) {
            moved = true;
            across(upper_, packet.bytes, lower_address(i));
          } else {
            mail_[packet.to.port - worker(0).port].push_back(std::move(packet));
          }
        }
      }
    }
  }
  Bed& lower_at(const Endpoint& address) {
    return address == lower_address(0) ? *lower_[0] : *lower_[1];
  }
  void across(Bed& to, const Bytes& payload, const Endpoint& from) {
    if (pass_ > 0) {
      pass_--;
    } else if (lose_ > 0) {
      lose_--;
      return;
    }
    if (&to == stopped_ || (prng_ != nullptr && prng_->chance(loss_))) return;
    to.deliver(payload, from);
    if (prng_ != nullptr && prng_->chance(duplicate_)) to.deliver(payload, from);
  }

  Bed upper_;
  std::vector<std::unique_ptr<Bed>> lower_;
  std::map<uint32_t, std::vector<Reply>> mail_;
  uint32_t pass_ = 0;
  uint32_t lose_ = 0;
  const Bed* stopped_ = nullptr;
  Prng* prng_ = nullptr;
  double loss_ = 0;
  double duplicate_ = 0;
};

/// Sends a worker's join, and reads the replies: a cookie, or its membership.
inline void ask_to_join(Tree& tree, uint32_t rank, Message& join, Member& member) {
  if (member.key != 0) return;
  tree.send(rank, encoded(join));
  for (const Reply& reply : tree.take(rank)) {
    const wire::ControlBody& body = reply.message.body;
    if (reply.message.extension.type == MessageType::kCookie) join.body.key = body.key;
    if (reply.message.extension.type != MessageType::kWelcome) continue;
    EXPECT_EQ(reply.message.extension.key, join.extension.key);
    EXPECT_EQ(body.value, rank / kBelow * kBelow);  // rank_base.
    member = {.source = rank % kBelow, .key = body.key, .result_key = body.result_key};
  }
}

/// All workers join; each is welcomed through its aggregator. They ask for a window of `window`.
inline std::vector<Member> join_tree(Tree& tree, uint64_t nonce_base = 100, uint32_t window = 0) {
  std::vector<Message> joins;
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    joins.push_back(join_message(rank % kBelow, nonce_base + rank, kRanks));
    joins[rank].body.window = window;
  }
  std::vector<Member> members(kRanks);
  // For the cookie, to be pending, to confirm, and until the last welcome has arrived.
  for (uint32_t round = 0; round < 5; round++) {
    for (uint32_t rank = 0; rank < kRanks; rank++) {
      ask_to_join(tree, rank, joins[rank], members[rank]);
    }
    tree.pass(milliseconds(50));
  }
  for (uint32_t rank = 0; rank < kRanks; rank++) EXPECT_NE(members[rank].key, 0U) << rank;
  return members;
}

}  // namespace tributary::trio_ml
