// SPDX-License-Identifier: Apache-2.0
#include "base/trusted_folder.h"

#include <sys/stat.h>
#include <unistd.h>

namespace tributary {
namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

bool is_ours(const struct stat& status) {
  return status.st_uid == ::geteuid() || status.st_uid == 0;
}

}  // namespace

bool is_trusted_folder(const std::string& folder) {
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0 || !is_ours(status)) return false;
  if (S_ISLNK(status.st_mode) && ::stat(folder.c_str(), &status) != 0) return false;
  return S_ISDIR(status.st_mode) && is_ours(status) && (status.st_mode & kOthersWrite) == 0;
}

}  // namespace tributary
