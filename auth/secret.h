// SPDX-License-Identifier: Apache-2.0
/// @file
/// The secret of a job, which its workers and its aggregators share.
///
/// Model:   Read from a file, an environment variable or a systemd credential, never from the
///          command line, which every user of a machine can read. Any bytes are allowed, at least
///          kSecretBytesMin; white space at the end does not count. Its hash is the job's key.
/// Threads: Pure functions.
/// Errors:  One line that names the source and the remedy; never the secret.
/// Tests:   tests/auth/secret_test.cc
#pragma once

#include <string>
#include <string_view>

#include "auth/keys.h"
#include "auth/mode.h"
#include "base/result.h"

namespace tributary::auth {

/// Fewest bytes of a secret. Source: 128 bits, if each byte is random.
inline constexpr size_t kSecretBytesMin = 16;
/// Most bytes of a secret file. Assumed.
inline constexpr size_t kSecretBytesMax = 4096;
/// The environment variable that may hold the secret.
inline constexpr const char* kSecretVariable = "TRIBUTARY_SECRET";
/// The name of the systemd credential (LoadCredential=) that may hold the secret.
inline constexpr const char* kSecretCredential = "tributary-secret";
/// A credential's text if the operator has written no file (SetCredential= in tributary@.service).
inline constexpr std::string_view kNoCredential = "none";

/// A job's authentication: its mode, and the key that its secret gives.
struct JobAuth {
  Mode mode = Mode::kNone;
  Key256 key{};  ///< Not used in mode kNone.

  bool operator==(const JobAuth&) const = default;
};

/// Returns the key of a secret. Refuses a secret that is too short or too long.
[[nodiscard]] Result<Key256> key_of_secret(std::string_view secret);

/// Returns the key of the secret in a file. Refuses a file that other users can read.
/// @param what           Name of the setting, which begins each error.
/// @param group_may_read For a file that systemd provides: an ACL lets the service's user read it,
///                       and the ACL's mask shows as the group's bits.
[[nodiscard]] Result<Key256> read_secret(std::string_view what, const std::string& path,
                                         bool group_may_read = false);

/// Tells whether systemd provides a credential at `path`: false if there is no such file, or if its
/// text is kNoCredential. True for a file that cannot be read, so that reading it reports why.
[[nodiscard]] bool has_credential(const std::string& path);

/// Finds a job's secret: in the file at `path`, or if that is empty in the environment variable
/// kSecretVariable, or in the systemd credential kSecretCredential. Refuses a file that other users
/// can read, and a mode that this build does not have. In mode kNone it reads nothing, and refuses
/// a path.
[[nodiscard]] Result<JobAuth> find_secret(Mode mode, const std::string& path);

}  // namespace tributary::auth
