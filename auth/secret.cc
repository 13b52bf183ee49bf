// SPDX-License-Identifier: Apache-2.0
#include "auth/secret.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <system_error>

#include "auth/gmac.h"
#include "auth/private_file.h"

namespace tributary::auth {

Result<Key256> key_of_secret(std::string_view secret) {
  if (secret.size() > kSecretBytesMax) {
    return failure(fmt::format("the secret has more than {} bytes", kSecretBytesMax));
  }
  const size_t end = secret.find_last_not_of(" \t\r\n");
  secret = secret.substr(0, end == std::string_view::npos ? 0 : end + 1);
  if (secret.size() < kSecretBytesMin) {
    return failure(
        fmt::format("the secret has {} bytes; it needs at least {}: head -c 32 "
                    "/dev/urandom | base64 makes one",
                    secret.size(), kSecretBytesMin));
  }
  return hash(std::as_bytes(std::span(secret)));
}

Result<Key256> read_secret(std::string_view what, const std::string& path, bool group_may_read) {
  const auto secret = read_private_file(what, path, kSecretBytesMax, group_may_read);
  if (!secret) return tl::unexpected(secret.error());
  auto key = key_of_secret(*secret);
  if (!key) return failure(fmt::format("{} {}: {}", what, path, key.error().text));
  return key;
}

bool has_credential(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::not_found) return false;
  std::ifstream file(path, std::ios::binary);
  std::string text(kNoCredential.size() + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text != kNoCredential;
}

Result<JobAuth> find_secret(Mode mode, const std::string& path) {
  if (mode == Mode::kNone) {
    if (path.empty()) return JobAuth{};
    return failure(
        fmt::format("secret_file {}: auth=none uses no secret; give auth=header or "
                    "auth=full",
                    path));
  }
  if (mode == Mode::kFull && !Gmac::is_available()) {
    return failure("auth=full needs libipsec-mb, which this build lacks; give auth=header");
  }
  const auto with_mode = [mode](const Key256& key) { return JobAuth{mode, key}; };
  if (!path.empty()) return read_secret("secret_file", path).map(with_mode);
  if (const char* secret = std::getenv(kSecretVariable)) {
    const auto key = key_of_secret(secret);
    if (!key) return failure(fmt::format("{}: {}", kSecretVariable, key.error().text));
    return with_mode(*key);
  }
  if (const char* folder = std::getenv("CREDENTIALS_DIRECTORY")) {
    const std::string credential = fmt::format("{}/{}", folder, kSecretCredential);
    if (has_credential(credential)) {
      return read_secret("the secret (of a service: /etc/tributary/NAME.secret) in", credential,
                         /*group_may_read=*/true)
          .map(with_mode);
    }
  }
  return failure(
      fmt::format("auth={} needs the job's secret; give secret_file, set {}, or as a service write "
                  "/etc/tributary/NAME.secret and restart",
                  to_string(mode), kSecretVariable));
}

}  // namespace tributary::auth
