// SPDX-License-Identifier: Apache-2.0
#include "auth/private_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>

namespace tributary::auth {

Result<std::string> read_private_file(std::string_view what, const std::string& path,
                                      size_t bytes_max, bool group_may_read) {
  const mode_t forbidden = group_may_read ? S_IROTH : S_IRGRP | S_IROTH;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return failure(fmt::format("{} {}: is not a readable file", what, path));
  }
  if ((status.st_mode & forbidden) != 0) {
    return failure(
        fmt::format("{} {}: other users can read it; run: chmod 600 {}", what, path, path));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(bytes_max + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || file.gcount() == 0) {
    return failure(fmt::format("{} {}: is empty or cannot be read", what, path));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() <= bytes_max) return text;
  return failure(fmt::format("{} {}: has more than {} bytes", what, path, bytes_max));
}

}  // namespace tributary::auth
