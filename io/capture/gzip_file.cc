// SPDX-License-Identifier: Apache-2.0
#include "io/capture/gzip_file.h"

#include <sys/types.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string_view>

namespace tributary::io {
namespace {

/// zlib's own buffer; its default of 8 KiB costs a system call for each 8 KiB.
constexpr unsigned kBufferBytes = 128 * 1024;

struct Cookie {
  gzFile file;
  GzipProblem problem;
};

/// Removes the name that gzdopen() gave the file, as in "<fd:3>: unexpected end of file".
std::string_view without_file(std::string_view text) {
  constexpr std::string_view kNameEnd = ">: ";
  const size_t end = text.starts_with("<fd:") ? text.find(kNameEnd) : std::string_view::npos;
  return end == std::string_view::npos ? text : text.substr(end + kNameEnd.size());
}

ssize_t read_cookie(void* opaque, char* to, size_t size) {
  auto* const cookie = static_cast<Cookie*>(opaque);
  const int read = gzread(cookie->file, to, static_cast<unsigned>(std::min<size_t>(size, INT_MAX)));
  int status = Z_OK;
  const char* const text = gzerror(cookie->file, &status);
  // At an end inside of compressed data, gzread() returns 0 like at any other end.
  if (read < 0 || (read == 0 && status == Z_BUF_ERROR)) {
    *cookie->problem = without_file(text);
    errno = EIO;
    return -1;
  }
  return read;
}

int close_cookie(void* opaque) {
  const std::unique_ptr<Cookie> cookie(static_cast<Cookie*>(opaque));
  gzclose_r(cookie->file);
  return 0;
}

}  // namespace

std::FILE* open_gzip(int compressed, const GzipProblem& problem) {
  gzFile file = gzdopen(compressed, "rb");
  if (file == nullptr) {
    close(compressed);
    return nullptr;
  }
  gzbuffer(file, kBufferBytes);
  auto cookie = std::make_unique<Cookie>(Cookie{file, problem});
  std::FILE* const opened =
      fopencookie(cookie.get(), "rb",
                  {.read = read_cookie, .write = nullptr, .seek = nullptr, .close = close_cookie});
  if (opened == nullptr) {
    gzclose_r(file);
    return nullptr;
  }
  static_cast<void>(cookie.release());
  return opened;
}

}  // namespace tributary::io
