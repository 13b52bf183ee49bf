// SPDX-License-Identifier: Apache-2.0
/// @file
/// The join of a rank: a channel to each aggregator, and then the further ones of its threads.
///
/// Model:   All aggregators are joined at once. If one is a directory with another list, the rank
///          leaves, and joins the aggregators of that list.
/// Threads: Blocks the caller, at most config.deadline.
/// Errors:  One line that names the aggregator or the rank at fault.
/// Tests:   tests/host/communicator_test.cc, tests/host/sharded_communicator_test.cc
#pragma once

#include <memory>

#include "host/channel_group.h"
#include "host/communicator.h"

namespace tributary::host {

/// Checks a join's configuration. The error names the key, its value and the allowed values.
[[nodiscard]] Result<void> check_config(const CommunicatorConfig& config);

/// @param status Receives the protocol's status if the protocol failed, or kRefused if the
///               aggregators' jobs do not fit each other; may be null.
[[nodiscard]] Result<std::unique_ptr<ChannelGroup>> join_channels(
    const CommunicatorConfig& config, const Communicator::PortOpener& open_port, Status* status);

}  // namespace tributary::host
