// SPDX-License-Identifier: Apache-2.0
#include "io/capture/gzip_file.h"

#include <sys/types.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <utility>

namespace tributary::io {
namespace {

/// Most bytes of one read().
constexpr size_t kInputBytes = 128 * 1024;

/// The first two bytes of each member of a gzip file. Source: RFC 1952 §2.3.1.
constexpr std::array<unsigned char, 2> kMagic{0x1f, 0x8b};

/// Tells inflate() to expect the header and the checksum of gzip. Source: zlib.h, inflateInit2().
constexpr int kGzipWindowBits = 16 + MAX_WBITS;

class Input {
 public:
  Input(int file, GzipProblem problem) : file_(file), problem_(std::move(problem)) {}
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  ~Input() {
    if (kind_ == Kind::kGzip) inflateEnd(&stream_);
    close(file_);
  }

  /// Reads at least one byte, at most `size`. @return their number; 0 at the end; -1 with errno.
  ssize_t read(char* to, size_t size) {
    if (kind_ == Kind::kUnknown && !find_kind()) return -1;
    return kind_ == Kind::kGzip ? read_gzip(to, size) : read_plain(to, size);
  }

 private:
  enum class Kind : uint8_t { kUnknown, kPlain, kGzip };

  [[nodiscard]] size_t held() const { return end_ - begin_; }

  /// Appends the bytes of one read(). @return false with errno: it failed.
  bool fill() {
    std::copy(&input_[begin_], &input_[end_], input_.begin());
    end_ -= std::exchange(begin_, 0);
    const ssize_t got = ::read(file_, &input_[end_], kInputBytes - end_);
    if (got < 0) return false;
    is_at_end_ = got == 0;
    end_ += static_cast<size_t>(got);
    return true;
  }
  /// Reads until the magic number is there, or the end. @return as fill().
  bool fill_magic() {
    while (held() < kMagic.size() && !is_at_end_) {
      if (!fill()) return false;
    }
    return true;
  }
  [[nodiscard]] bool is_at_member() const {
    return held() >= kMagic.size() && std::equal(kMagic.begin(), kMagic.end(), &input_[begin_]);
  }
  bool find_kind() {
    if (!fill_magic()) return false;
    kind_ = is_at_member() ? Kind::kGzip : Kind::kPlain;
    if (kind_ == Kind::kPlain || inflateInit2(&stream_, kGzipWindowBits) == Z_OK) return true;
    kind_ = Kind::kPlain;
    errno = ENOMEM;
    return false;
  }

  ssize_t read_plain(char* to, size_t size) {
    if (held() == 0 && !is_at_end_ && !fill()) return -1;
    const size_t count = std::min(size, held());
    std::memcpy(to, &input_[begin_], count);
    begin_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t read_gzip(char* to, size_t size) {
    const auto wanted = static_cast<unsigned>(std::min<size_t>(size, INT_MAX));
    stream_.next_out = reinterpret_cast<unsigned char*>(to);
    stream_.avail_out = wanted;
    while (stream_.avail_out == wanted) {
      if (is_damaged_) {
        errno = EIO;
        return -1;
      }
      if (held() == 0 && !is_at_end_ && !fill()) return -1;
      if (is_member_over_) {
        if (!fill_magic()) return -1;
        // Bytes behind the last member belong to nothing.
        if (!is_at_member()) return 0;
        inflateReset(&stream_);
        is_member_over_ = false;
      }
      inflate_some();
    }
    return wanted - stream_.avail_out;
  }
  /// Inflates held bytes into the stream's output. Output before the damage counts.
  void inflate_some() {
    if (held() == 0) return fail("unexpected end of file");
    stream_.next_in = &input_[begin_];
    stream_.avail_in = static_cast<unsigned>(held());
    const int status = inflate(&stream_, Z_NO_FLUSH);
    begin_ = end_ - stream_.avail_in;
    is_member_over_ = status == Z_STREAM_END;
    if (status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR) return;
    fail(stream_.msg != nullptr ? stream_.msg : zError(status));
  }
  void fail(const char* text) {
    *problem_ = text;
    is_damaged_ = true;
  }

  const int file_;
  const GzipProblem problem_;
  Kind kind_ = Kind::kUnknown;
  bool is_at_end_ = false;       ///< The file has ended.
  bool is_member_over_ = false;  ///< Another member, or the end, follows.
  bool is_damaged_ = false;
  size_t begin_ = 0;  ///< Begin of the held bytes in input_; end_ is their end.
  size_t end_ = 0;
  std::array<unsigned char, kInputBytes + 1> input_;  ///< One more, so that &input_[end_] exists.
  z_stream stream_{};
};

ssize_t read_cookie(void* opaque, char* to, size_t size) {
  return static_cast<Input*>(opaque)->read(to, size);
}

int close_cookie(void* opaque) {
  const std::unique_ptr<Input> input(static_cast<Input*>(opaque));
  return 0;
}

}  // namespace

std::FILE* open_gzip(int compressed, const GzipProblem& problem) {
  auto input = std::make_unique<Input>(compressed, problem);
  std::FILE* const opened =
      fopencookie(input.get(), "rb",
                  {.read = read_cookie, .write = nullptr, .seek = nullptr, .close = close_cookie});
  if (opened != nullptr) static_cast<void>(input.release());
  return opened;
}

}  // namespace tributary::io
