// SPDX-License-Identifier: Apache-2.0
/// @file
/// A topology from a TOML file: a generator with its numbers, an explicit list, or a generator with
/// further nodes and cables.
///
/// Errors:  One line with file, line, key, value and allowed values. check(Topology) runs here too,
///          so errors of the whole topology (an unknown node, a port used twice) are refused.
/// Source:  docs/topology-files.md lists all keys; keep it complete.
/// Tests:   tests/net/topology_file_test.cc
#pragma once

#include <toml++/toml.h>

#include <span>
#include <string>

#include "base/key_table.h"
#include "base/result.h"
#include "net/topology.h"

namespace tributary::net {

/// Reads the topology of the file at `path`. All tables are optional, but there must be a node:
///
///   [topology]                      # net/topology.h lists the names of a shape's nodes.
///   shape = "leaf-spine"            # or star, chassis, two-level
///   leaves = 4
///   workers_per_leaf = 8
///   spines = 2
///
///   [link]                          # For workers, and the default for all cables.
///   rate_gbps = 100
///
///   [uplink]                        # Between leaves and the level above. [link]'s values apply
///   propagation_ns = 1500           # unless this table has its own.
///
///   [[node]]                        # Further keys go to the kind's factory.
///   name = "aggregator"
///   kind = "trio"
///   address = "10.1.0.1:12000"
///
///   [[cable]]
///   a = "aggregator"                # The lowest free port; "aggregator.3" is port 3.
///   b = "leaf-0"
///   rate_gbps = 400                 # Any key of [link], for both directions,
///   [cable.back]                    # or only for the direction from b to a.
///   loss = 0.01
///
///   [[group]]
///   address = "239.1.1.1:12000"
///   receivers = ["worker-0", "worker-1"]
///   senders = ["aggregator"]
[[nodiscard]] Result<Topology> read_topology_file(const std::string& path);
/// Reads a topology from a parsed table; `path` is for messages.
[[nodiscard]] Result<Topology> read_topology(const toml::table& file, const std::string& path);

/// Returns the keys of [link], for other files that describe links and for help.
[[nodiscard]] const KeyTable& link_keys();
/// Returns `base` with the keys in `row`, a row of link_keys(), applied.
[[nodiscard]] LinkConfig link_from(const KeyValues& row, const LinkConfig& base);

}  // namespace tributary::net
