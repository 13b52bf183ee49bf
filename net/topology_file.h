// SPDX-License-Identifier: Apache-2.0
/// @file
/// A topology from a TOML file: a generator with its numbers, an explicit list, or a generator with
/// nodes and cables added.
///
/// Shapes:  All tables are optional, but there must be a node.
///
///            [topology]                      # The shape's nodes have the names of net/topology.h.
///            shape = "leaf-spine"            # or star, chassis, two-level
///            leaves = 4
///            workers_per_leaf = 8
///            spines = 2
///
///            [link]                          # Of workers, and of cables that do not say
///            otherwise. rate_gbps = 100
///
///            [uplink]                        # Between leaves and what is above; [link]'s values
///            propagation_ns = 1500           # unless it has its own.
///
///            [[node]]                        # Further keys go to the kind's factory.
///            name = "aggregator"
///            kind = "trio"
///            address = "10.1.0.1:12000"
///
///            [[cable]]
///            a = "aggregator"                # The lowest free port; "aggregator.3" is port 3.
///            b = "leaf-0"
///            rate_gbps = 400                 # Any key of [link], for both directions,
///            [cable.back]                    # or for that from b to a alone.
///            loss = 0.01
///
///            [[group]]
///            address = "239.1.1.1:12000"
///            receivers = ["worker-0", "worker-1"]
///            senders = ["aggregator"]
///
/// Errors:  One line with file, line, key, value and what is allowed. What only the whole topology
///          shows (an unknown node, a port used twice) is refused here, too, by check(Topology).
/// Tests:   tests/net/topology_file_test.cc
#pragma once

#include <toml++/toml.h>

#include <span>
#include <string>

#include "base/key_table.h"
#include "base/result.h"
#include "net/topology.h"

namespace tributary::net {

/// The topology of the file at `path`.
[[nodiscard]] Result<Topology> read_topology_file(const std::string& path);
/// The same of a table that was read already; `path` is for messages.
[[nodiscard]] Result<Topology> read_topology(const toml::table& file, const std::string& path);

/// The keys of [link]: for other files that describe links, and for help.
[[nodiscard]] const KeyTable& link_keys();
/// The link that is `base` but for the keys in `row`, which is a row of link_keys().
[[nodiscard]] LinkConfig link_from(const KeyValues& row, const LinkConfig& base);

}  // namespace tributary::net
