// SPDX-License-Identifier: Apache-2.0
/// @file
/// The UDP sockets of a child process: their addresses, and packet loss.
///
/// Model:   Borrows the child's descriptors (pidfd_getfd) for the length of a call. Loss is a
///          classic BPF program on each socket that drops a received packet at random. The child
///          takes no part, and needs no option for it.
/// Threads: Any.
/// Errors:  The kernel's refusal. Another user's process, or one outside this process's descendants
///          where Yama is strict, needs CAP_SYS_PTRACE.
/// Source:  Linux pidfd_getfd(2), since 5.6; SKF_AD_RANDOM in include/uapi/linux/filter.h.
/// Tests:   tests/bench/chaos/process_sockets_test.cc
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/endpoint.h"
#include "base/result.h"

namespace tributary::chaos {

/// Returns the local addresses of all UDP sockets of a process.
[[nodiscard]] Result<std::vector<Endpoint>> udp_addresses(pid_t pid);

/// Lets all UDP sockets of a process drop received packets with this probability; 0 ends it. A
/// combined train of packets (UDP_GRO) is dropped as one.
Result<void> set_receive_loss(pid_t pid, double probability);

}  // namespace tributary::chaos
