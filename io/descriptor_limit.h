// SPDX-License-Identifier: Apache-2.0
/// @file
/// The remedy for a process that has as many open files as its limit allows.
///
/// Threads: Any.
#pragma once

namespace tributary::io {

/// Ends an error about EMFILE or ENFILE.
inline constexpr const char* kDescriptorRemedy =
    "; to fix: raise the limit of open files (ulimit -n, or LimitNOFILE= of the service)";

}  // namespace tributary::io
