// SPDX-License-Identifier: Apache-2.0
/// @file
/// A digest of the lab's models, which tells results of one version of the lab from those of
/// another.
///
/// Model:   FNV-1a over all numbers of the models (defaults of a scenario, every PFE generation,
///          the networks' buckets and computation) and over short runs of each back end, without
///          and with trains: their times, the digests of their deliveries and the aggregators'
///          uses. A change that none of these runs shows does not change the digest.
/// Exact:   The same on every machine and with every compiler.
/// Threads: Any.
/// Tests:   tests/lab/sweep/model_digest_test.cc
#pragma once

#include <string>

namespace tributary::lab {

/// Returns sixteen hexadecimal digits. The first call takes about as long as the short runs.
[[nodiscard]] const std::string& model_digest();

}  // namespace tributary::lab
