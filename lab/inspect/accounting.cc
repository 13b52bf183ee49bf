// SPDX-License-Identifier: Apache-2.0
#include "lab/inspect/accounting.h"

#include <nlohmann/json.hpp>

#include "lab/inspect/inspected_node.h"
#include "lab/inspect/run_tracer.h"

namespace tributary::lab {
namespace {

using Json = nlohmann::ordered_json;

/// Returns a list with an object for each node: its name, then the members of
/// object_of(accounting).
std::string json_list(const std::vector<NodeAccounting>& nodes,
                      Json (*object_of)(const engine::Accounting&)) {
  Json list = Json::array();
  for (const NodeAccounting& node : nodes) {
    Json object{{"node", node.node}};
    object.update(object_of(node.measured));
    list.push_back(std::move(object));
  }
  return list.dump(2) + '\n';
}

}  // namespace

Result<void> AccountingObserver::begin(const RunInside& inside) {
  if (!node_.empty()) {
    if (const auto known = check_trace_node(inside, node_); !known) return known;
  }
  for (const InspectedNode* const node : inside.aggregators) {
    if (!node_.empty() && node->name() != node_) continue;
    if (node->pfe() != nullptr) pfes_.emplace_back(node->name(), node->pfe());
  }
  if (!pfes_.empty()) return {};
  return failure(
      "no packet program runs on a modelled Trio here, so there are no instructions to measure; "
      "back ends with one: trio-ml, trio-ml-wait, switchml-on-trio");
}

void AccountingObserver::end() {
  nodes_.clear();
  for (const auto& [name, pfe] : pfes_) nodes_.push_back({name, engine::accounting_of(*pfe)});
}

std::string accounting_text(const NodeAccounting& node) {
  return node.node + ": " + engine::accounting_text(node.measured);
}

std::string unpriced_text(const NodeAccounting& node) {
  return node.node + ", program " + node.measured.program + ": " +
         engine::unpriced_text(node.measured);
}

std::string accounting_json(const std::vector<NodeAccounting>& nodes) {
  return json_list(nodes, engine::accounting_json);
}

std::string unpriced_json(const std::vector<NodeAccounting>& nodes) {
  return json_list(nodes, engine::unpriced_json);
}

}  // namespace tributary::lab
