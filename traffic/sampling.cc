// SPDX-License-Identifier: Apache-2.0
#include "traffic/sampling.h"

#include <bit>

#include "base/assert.h"

namespace tributary::traffic {
namespace {

constexpr double kLn2 = 0.693147180559945309417;
constexpr double kSqrt2 = 1.414213562373095048802;
constexpr int64_t kExponentBias = 1023;
constexpr uint32_t kMantissaBits = 52;
constexpr double kTicksPerSecond = 1e12 / static_cast<double>(kPicosecondsPerTick);
/// Shares of a column are stored in 2^-32.
constexpr double kShareOne = 4294967296.0;

}  // namespace

double natural_log(double x) {
  // x = m * 2^k with m from sqrt(1/2) to sqrt(2); ln(m) = 2 * atanh((m - 1) / (m + 1)).
  const auto bits = std::bit_cast<uint64_t>(x);
  int64_t k = static_cast<int64_t>(bits >> kMantissaBits) - kExponentBias;
  const uint64_t mantissa = bits & ((uint64_t{1} << kMantissaBits) - 1);
  double m =
      std::bit_cast<double>(mantissa | static_cast<uint64_t>(kExponentBias) << kMantissaBits);
  if (m > kSqrt2) {
    m *= 0.5;
    k++;
  }
  const double s = (m - 1.0) / (m + 1.0);  // At most 0.172, so s^23 / 23 is below 1e-18.
  const double square = s * s;
  double power = s;
  double sum = 0.0;
  for (int term = 1; term <= 21; term += 2) {
    sum += power / term;
    power *= square;
  }
  return static_cast<double>(k) * kLn2 + 2.0 * sum;
}

double exponential(double x) {
  TRIB_ASSERT(x >= -700.0 && x <= 700.0);
  // e^x = e^r * 2^k with |r| <= ln(2) / 2 = 0.347; r^15 / 15! is below 1e-18.
  const auto k = static_cast<int64_t>(x / kLn2 + (x < 0 ? -0.5 : 0.5));
  const double r = x - static_cast<double>(k) * kLn2;
  double term = 1.0;
  double sum = 1.0;
  for (int i = 1; i <= 14; i++) {
    term = term * r / i;
    sum += term;
  }
  const double scale =
      std::bit_cast<double>(static_cast<uint64_t>(k + kExponentBias) << kMantissaBits);
  return sum * scale;
}

Duration poisson_gap(Prng& prng, double rate) {
  const double one_to_zero = 1.0 - prng.unit();  // In (0, 1], so its logarithm exists.
  return Duration::from_ticks(
      static_cast<int64_t>(-natural_log(one_to_zero) * (kTicksPerSecond / rate)));
}

ZipfTable::ZipfTable(uint32_t count, double exponent) : columns_(count) {
  TRIB_ASSERT(count >= 1 && exponent >= 0.0 && exponent <= 5.0);
  std::vector<double> share(count);
  double total = 0.0;
  for (uint32_t rank = 0; rank < count; rank++) {
    share[rank] = exponential(-exponent * natural_log(static_cast<double>(rank) + 1.0));
    total += share[rank];
  }
  // Each column has the mean share. Columns with less are filled up by ranks with more.
  std::vector<uint32_t> small;
  std::vector<uint32_t> large;
  for (uint32_t rank = 0; rank < count; rank++) {
    share[rank] = share[rank] / total * count;
    (share[rank] < 1.0 ? small : large).push_back(rank);
  }
  while (!small.empty() && !large.empty()) {
    const uint32_t poor = small.back();
    const uint32_t rich = large.back();
    small.pop_back();
    columns_[poor] = {static_cast<uint32_t>(share[poor] * kShareOne), rich};
    share[rich] -= 1.0 - share[poor];
    if (share[rich] < 1.0) {
      large.pop_back();
      small.push_back(rich);
    }
  }
  // Rounding leaves columns that are full.
  for (const uint32_t rank : small) columns_[rank] = {UINT32_MAX, rank};
  for (const uint32_t rank : large) columns_[rank] = {UINT32_MAX, rank};
}

}  // namespace tributary::traffic
