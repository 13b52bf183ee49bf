// SPDX-License-Identifier: Apache-2.0
/// @file
/// Small programs for tests: one header of two 16-bit fields, and the parts that a test adds.
///
/// Threads: One.
/// Tests:   used by the tests in tests/tofino/
#pragma once

#include <string>
#include <vector>

#include "tofino/compile/placement.h"
#include "tofino/program/program_builder.h"

namespace tributary::tofino::testing {

/// Parses the header "h" (fields a, b) and sends the packet to the port that the tables set.
struct SmallProgram {
  SmallProgram() {
    h = b.header("h", {{"a", 16}, {"b", 16}});
    Intrinsics& in = b.program.intrinsics;
    in.ingress_port = b.metadata("ingress_port", 9);
    in.egress_port = b.metadata("egress_port", 9);
    in.egress_valid = b.metadata("egress_valid", 1);
    in.multicast_group = b.metadata("multicast_group", 16);
    in.drop = b.metadata("drop", 1);
    in.resubmit = b.metadata("resubmit", 1);
    in.resubmitted = b.metadata("resubmitted", 1);
    in.mirror_session = b.metadata("mirror_session", 10);
    in.bypass_egress = b.metadata("bypass_egress", 1);
    in.replication_id = b.metadata("replication_id", 16);
    b.program.ingress.parser = {{.name = "start", .extracts = {h}, .otherwise = kAccept}};
    b.program.ingress.deparser = {h};
    b.program.egress.parser = b.program.ingress.parser;
    b.program.egress.deparser = {h};
  }
  [[nodiscard]] FieldId a() const { return b.field_of(h, "a"); }
  [[nodiscard]] FieldId bb() const { return b.field_of(h, "b"); }

  /// Adds a table without keys that always runs `operations`. The caller must apply it.
  TableId always(const std::string& name, std::vector<Operation> operations) {
    const ActionId action = b.add(Action{.name = name, .operations = std::move(operations)});
    return b.add(Table{.name = name, .default_action = action});
  }
  void then(Statement statement) { b.program.ingress.control.push_back(std::move(statement)); }

  ProgramBuilder b{"small"};
  HeaderId h = kNone;
};

/// Returns "" if the program fits, else the error.
[[nodiscard]] inline std::string refusal(const Program& program) {
  const auto placed = place(program);
  return placed ? std::string() : placed.error().text;
}

}  // namespace tributary::tofino::testing
