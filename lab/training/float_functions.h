// SPDX-License-Identifier: Apache-2.0
/// @file
/// The functions of a model's layers, for many values at once.
///
/// Model:   e^x = 2^n e^r with n = round(x / ln 2). |r| is at most ln 2 / 2, where 7 terms after
///          the first of the Taylor series are exact to 6e-9. tanh x = 1 - 2 / (e^2x + 1).
/// Exact:   Equal values give equal bits on every machine and compiler. A C library's functions do
///          not: they differ between its versions.
/// Errors:  None. An infinity counts as the largest value of its sign; a NaN stays a NaN.
/// Threads: None; pure functions.
/// Tests:   tests/lab/training/float_functions_test.cc
#pragma once

#include <span>

namespace tributary::lab {

/// Replaces each value x by e^x, with a relative error of up to 2e-7. Values below -87 count as
/// -87, values above 88 as 88: results stay normal numbers.
void exp_in_place(std::span<float> values);

/// Replaces each value x by tanh x, with an absolute error of up to 2e-7.
void tanh_in_place(std::span<float> values);

}  // namespace tributary::lab
