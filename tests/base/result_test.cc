// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <gtest/gtest.h>

#include "base/errno_text.h"

namespace tributary {
namespace {

TEST(Result, AFailureLastsUnlessItSaysOtherwise) {
  EXPECT_EQ(failure("x").value().kind, ErrorKind::kLasting);
  EXPECT_EQ(failure("x", ErrorKind::kPassing).value().kind, ErrorKind::kPassing);
}

TEST(Result, WordsBeforeAnErrorKeepItsKind) {
  for (const ErrorKind kind : {ErrorKind::kLasting, ErrorKind::kPassing}) {
    const Error error = failure_in("--listen: ", {"it is taken", kind}).value();
    EXPECT_EQ(error.text, "--listen: it is taken");
    EXPECT_EQ(error.kind, kind);
  }
}

TEST(Result, SystemFailureHasTheTextAndTheKindOfItsErrno) {
  const Error in_use = system_failure(EADDRINUSE, "cannot listen").value();
  EXPECT_EQ(in_use.text, "cannot listen: Address already in use");
  EXPECT_EQ(in_use.kind, ErrorKind::kPassing);
  const Error refused = system_failure(EACCES, "cannot listen").value();
  EXPECT_EQ(refused.text, "cannot listen: Permission denied");
  EXPECT_EQ(refused.kind, ErrorKind::kLasting);
}

TEST(Result, FaultsThatTheMachineEndsByItselfPass) {
  for (const int error :
       {EADDRINUSE, EADDRNOTAVAIL, EMFILE, ENFILE, ENOBUFS, ENETDOWN, ENETUNREACH}) {
    EXPECT_EQ(errno_kind(error), ErrorKind::kPassing) << errno_text(error);
  }
  for (const int error : {ENOENT, EACCES, EPERM, EINVAL, EAFNOSUPPORT, ENOMEM}) {
    EXPECT_EQ(errno_kind(error), ErrorKind::kLasting) << errno_text(error);
  }
}

TEST(Result, ACallThatFoundNothingReadyIsRetryable) {
  for (const int error : {EAGAIN, EWOULDBLOCK, EINTR}) EXPECT_TRUE(is_retryable(error));
  for (const int error : {0, EPIPE, ECONNRESET, EMFILE}) EXPECT_FALSE(is_retryable(error));
}

}  // namespace
}  // namespace tributary
