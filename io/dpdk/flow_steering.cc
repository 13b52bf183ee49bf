// SPDX-License-Identifier: Apache-2.0
#include "io/dpdk/flow_steering.h"

#include <rte_flow.h>

#include <array>

#include "base/byte_order.h"

namespace tributary::io {
namespace {

/// A rule in DPDK's terms: Ethernet, IP, UDP port and, for a rule with a mask, the steering field.
class Rule {
 public:
  Rule(const SteeringRule& rule, bool ipv4) {
    store_be<uint32_t>(pattern_bytes(pattern_), rule.value);
    store_be<uint32_t>(pattern_bytes(mask_), rule.mask);
    udp_.hdr.dst_port = byte_swapped(rule.udp_port);
    udp_mask_.hdr.dst_port = 0xffff;
    raw_.relative = 1;
    raw_.offset = static_cast<int32_t>(SteeringField{}.payload_offset_bytes);
    raw_.length = static_cast<uint16_t>(pattern_.size());
    raw_.pattern = pattern_.data();
    raw_mask_ = raw_;
    raw_mask_.pattern = mask_.data();
    queue_.index = static_cast<uint16_t>(rule.queue);
    items_[0].type = RTE_FLOW_ITEM_TYPE_ETH;
    items_[1].type = ipv4 ? RTE_FLOW_ITEM_TYPE_IPV4 : RTE_FLOW_ITEM_TYPE_IPV6;
    items_[2] = {
        .type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp_, .last = nullptr, .mask = &udp_mask_};
    items_[3].type = RTE_FLOW_ITEM_TYPE_END;
    if (rule.mask != 0) {
      items_[3] = {
          .type = RTE_FLOW_ITEM_TYPE_RAW, .spec = &raw_, .last = nullptr, .mask = &raw_mask_};
      items_[4].type = RTE_FLOW_ITEM_TYPE_END;
    }
    actions_[0] = {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue_};
    actions_[1].type = RTE_FLOW_ACTION_TYPE_END;
    attributes_.ingress = 1;
  }
  Rule(const Rule&) = delete;
  Rule& operator=(const Rule&) = delete;

  [[nodiscard]] bool is_possible(uint16_t port_id) const {
    rte_flow_error error{};
    return rte_flow_validate(port_id, &attributes_, items_.data(), actions_.data(), &error) == 0;
  }
  [[nodiscard]] bool make(uint16_t port_id) const {
    rte_flow_error error{};
    return rte_flow_create(port_id, &attributes_, items_.data(), actions_.data(), &error) !=
           nullptr;
  }

 private:
  using Bytes4 = std::array<uint8_t, 4>;
  static std::byte* pattern_bytes(Bytes4& bytes) {
    return reinterpret_cast<std::byte*>(bytes.data());
  }

  Bytes4 pattern_{};
  Bytes4 mask_{};
  rte_flow_item_udp udp_{};
  rte_flow_item_udp udp_mask_{};
  rte_flow_item_raw raw_{};
  rte_flow_item_raw raw_mask_{};
  rte_flow_action_queue queue_{};
  std::array<rte_flow_item, 5> items_{};
  std::array<rte_flow_action, 2> actions_{};
  rte_flow_attr attributes_{};
};

}  // namespace

BlockSteering steer_blocks(uint16_t port_id, uint16_t udp_port, bool ipv4, uint32_t queues) {
  const auto make_all = [port_id, ipv4](std::span<const SteeringRule> rules) {
    for (const SteeringRule& rule : rules) {
      if (!Rule(rule, ipv4).is_possible(port_id)) return false;
    }
    for (const SteeringRule& rule : rules) {
      if (Rule(rule, ipv4).make(port_id)) continue;
      rte_flow_error error{};
      rte_flow_flush(port_id, &error);  // Some of the rules would be worse than none.
      return false;
    }
    return true;
  };
  return steer(udp_port, queues, make_all);
}

}  // namespace tributary::io
