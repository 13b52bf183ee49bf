// SPDX-License-Identifier: Apache-2.0
// Method: every cell of the tables in docs/number-formats.md, which must have the text that the
// constants below give. Tensors of each rank pass through BlockCodec; their sums are compared with
// exact sums in 128-bit integers. Worst cases by hand show that no bound is loose; random tensors
// must stay within it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "base/byte_order.h"
#include "host/formats/half_format.h"
#include "host/trio_ml/block_codec.h"
#include "memory/lanes.h"
#include "tests/support/seed.h"

namespace tributary::host {
namespace {

using testing::Prng;
using wire::ElementFormat;

constexpr std::array<uint32_t, 3> kWorlds{4, 32, 256};
constexpr uint32_t kBlock = 16;
constexpr float kScale = 1e8F;

enum class Type : uint8_t { kFloat32, kFloat16, kBfloat16 };

/// A row of the table of errors. With all ranks in the sum, the error of an element is at most
///   block exponent: 2^first * max(M, 2^-127) + 2^-rounding * r
///   fixed scale:    2^first / s + 2^-24 * (A + r)
/// r is the result's magnitude, M the largest input's in the block, A the sum of the magnitudes.
struct ErrorRow {
  const char* name;
  ElementFormat format;
  Type type;
  bool imprecise;
  std::array<int, 3> first;  ///< For each of kWorlds.
  int rounding;

  /// With 16-bit lanes, half of the first term is the aggregator's rounding.
  [[nodiscard]] bool is_narrow() const { return format == ElementFormat::kBlockExponent16; }
};

constexpr ErrorRow narrow_row(const char* name, Type type, int rounding) {
  return {name, ElementFormat::kBlockExponent16, type, false, {-12, -9, -6}, rounding};
}

constexpr std::array kErrorRows{
    ErrorRow{
        "fixed scale s, float32", ElementFormat::kFixedScale, Type::kFloat32, false, {1, 4, 7}, 24},
    ErrorRow{"block exponent, float32",
             ElementFormat::kBlockExponent,
             Type::kFloat32,
             false,
             {-27, -21, -14},
             24},
    ErrorRow{"block exponent, float16",
             ElementFormat::kBlockExponent,
             Type::kFloat16,
             false,
             {-27, -21, -14},
             11},
    ErrorRow{"block exponent, bfloat16",
             ElementFormat::kBlockExponent,
             Type::kBfloat16,
             false,
             {-27, -21, -14},
             8},
    ErrorRow{"the same, imprecise block",
             ElementFormat::kBlockExponent,
             Type::kFloat32,
             true,
             {-19, -13, -6},
             24},
    narrow_row("16-bit lanes, float32", Type::kFloat32, 24),
    narrow_row("16-bit lanes, float16", Type::kFloat16, 11),
    narrow_row("16-bit lanes, bfloat16", Type::kBfloat16, 8),
};

/// The bits of a lane: M has an exponent of at most 2^bits units.
constexpr std::array<int, 3> kBits{29, 26, 22};
/// The largest element at scale 10^8, in units of the last digit of kLargestText.
constexpr std::array<int, 3> kLargest{536, 671, 838};
constexpr std::array<double, 3> kLargestUnit{1e-2, 1e-3, 1e-4};
constexpr std::array<const char*, 3> kLargestText{"5.36", "0.671", "0.0838"};

// --- The tables as text ---

std::string row_of(const std::string& name, const std::array<std::string, 3>& cells) {
  return fmt::format("| {} | {} | {} | {} |\n", name, cells[0], cells[1], cells[2]);
}

/// Returns the row whose cells `cell(i)` returns for kWorlds[i].
template <class Cell>
std::string row_with(const std::string& name, Cell cell) {
  return row_of(name, {cell(0), cell(1), cell(2)});
}

std::string expected_tables() {
  std::string text = "| error of a sum, at most | 4 ranks | 32 ranks | 256 ranks |\n";
  text += "| --- | --- | --- | --- |\n";
  text += row_of("int32 (modulo 2^32)", {"0", "0", "0"});
  for (const ErrorRow& row : kErrorRows) {
    text += row_with(row.name, [&row](size_t i) {
      return row.format == ElementFormat::kFixedScale
                 ? fmt::format("{} / s + 2^-{} (A + r)", 1 << row.first[i], row.rounding)
                 : fmt::format("2^{} M + 2^-{} r", row.first[i], row.rounding);
    });
  }
  text += "\n| range | 4 ranks | 32 ranks | 256 ranks |\n| --- | --- | --- | --- |\n";
  text += row_with("fixed scale 10^8: largest", [](size_t i) { return kLargestText[i]; });
  text += row_with("fixed scale 10^8: counts as 0, up to", [](size_t) { return "5e-9"; });
  text += row_with("block exponent: bits of a lane",
                   [](size_t i) { return fmt::format("{}", kBits[i]); });
  text += row_with("block exponent: counts as 0, always below",
                   [](size_t i) { return fmt::format("2^-{} M", kBits[i] + 1); });
  text += row_with("block exponent: counts as 0, never above",
                   [](size_t i) { return fmt::format("2^-{} M", kBits[i]); });
  text += row_with("block exponent: the bounds hold from M =", [](size_t) { return "2^-127"; });
  return text;
}

TEST(NumberFormatBounds, TablesInTheDocumentAreThoseOfThisTest) {
  std::ifstream file(TRIBUTARY_NUMBER_FORMATS);
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_NE(page.str().find("<!-- bounds -->\n" + expected_tables()), std::string::npos)
      << "the tables behind <!-- bounds --> in docs/number-formats.md must be:\n"
      << expected_tables();
}

// --- All-reduces of one block, and their exact sums ---

/// The elements of a block, one tensor for each rank in the sum.
using Tensors = std::vector<std::vector<float>>;

/// Exact sums of floats as multiples of 2^-unit_power. Values are 0 or at least 2^-unit_power.
__extension__ using Wide = __int128;
struct Exact {
  int unit_power;

  [[nodiscard]] Wide of(float value) const {
    if (value == 0) return 0;
    int exponent = 0;
    const auto mantissa = static_cast<int64_t>(std::ldexp(std::frexp(value, &exponent), 24));
    const int shift = exponent - 24 + unit_power;
    EXPECT_TRUE(shift >= 0 || mantissa % (int64_t{1} << std::min(-shift, 40)) == 0) << value;
    EXPECT_LT(shift, 100);
    return shift >= 0 ? Wide{mantissa} * (Wide{1} << shift) : Wide{mantissa} >> -shift;
  }
  [[nodiscard]] double from(Wide value) const {
    return std::ldexp(static_cast<double>(value), -unit_power);
  }
};

struct Reduced {
  std::vector<float> result;
  int8_t exponent = 0;     ///< Agreed exponent of the block.
  bool imprecise = false;  ///< Some rank reported it.
};

/// Writes a block's sums as the lanes of its result.
void finish(const ErrorRow& row, uint32_t world, std::span<const int32_t> sums,
            std::vector<std::byte>& lanes) {
  if (row.is_narrow()) {
    memory::to_be16(lanes.data(), sums.data(), static_cast<uint32_t>(sums.size()),
                    wire::result_shift(world));
    return;
  }
  for (size_t i = 0; i < sums.size(); i++) {
    store_be(&lanes[i * sizeof(int32_t)], static_cast<uint32_t>(sums[i]));
  }
}

/// Reduces one block in a job of `world` ranks, as WorkerProtocol and the aggregator do.
/// @param headroom  Added to the largest exponent, as if a rank had missed the round.
Reduced reduce(const ErrorRow& row, uint32_t world, const Tensors& tensors, ReduceOp op,
               int8_t headroom) {
  const size_t count = tensors.front().size();
  BlockCodec codec(world);
  codec.open(static_cast<uint32_t>(count));
  std::vector<float> floats(count);
  std::vector<uint16_t> halves(count);
  const auto half_type = row.type == Type::kFloat16 ? HalfType::kFloat16 : HalfType::kBfloat16;
  Transfer transfer;
  transfer.format = row.format;
  transfer.scale = kScale;
  transfer.op = op;
  if (row.type == Type::kFloat32) {
    transfer.floats = floats;
  } else {
    transfer.halves = {.bits = halves, .type = half_type};
  }
  const auto load = [&](const std::vector<float>& tensor) {
    floats = tensor;
    for (size_t i = 0; i < count; i++) halves[i] = narrow_half(tensor[i], half_type);
  };
  AgreedExponent agreed;
  for (const auto& tensor : tensors) {
    load(tensor);
    agreed.stated = std::max(agreed.stated, codec.exponent_of(transfer, 0));
  }
  agreed.exponent = static_cast<int8_t>(agreed.stated + headroom);
  Reduced reduced{.result = {}, .exponent = agreed.exponent};
  std::vector<std::byte> lanes(count * sizeof(int32_t));
  std::vector<int32_t> sums(count, 0);
  for (const auto& tensor : tensors) {
    load(tensor);
    const Fit fit = codec.write(transfer, 0, agreed, lanes.data());
    EXPECT_TRUE(fit == Fit::kFits || fit == Fit::kImprecise);
    reduced.imprecise |= fit == Fit::kImprecise;
    const auto lane_count = static_cast<uint32_t>(count);
    (row.is_narrow() ? memory::add_be16 : memory::add_be32)(sums.data(), lanes.data(), lane_count);
  }
  finish(row, world, sums, lanes);
  codec.read(transfer, 0, agreed.exponent, static_cast<uint32_t>(tensors.size()), lanes.data());
  for (size_t i = 0; i < count; i++) {
    reduced.result.push_back(row.type == Type::kFloat32 ? floats[i]
                                                        : widen_half(halves[i], half_type));
  }
  return reduced;
}

/// Returns the largest ratio of an element's error to its bound in the table. 1 is the limit.
double worst_ratio(const ErrorRow& row, size_t column, const Tensors& tensors, ReduceOp op,
                   const Reduced& reduced, const Exact& exact) {
  const double divisor = op == ReduceOp::kMean ? static_cast<double>(tensors.size()) : 1;
  double share = static_cast<double>(tensors.size()) / kWorlds[column];
  if (row.is_narrow()) share = (1 + share) / 2;  // The aggregator rounds for all ranks.
  double block_max = 0;
  for (const auto& tensor : tensors) {
    for (const float x : tensor) block_max = std::max(block_max, std::abs(double{x}));
  }
  const bool fixed = row.format == ElementFormat::kFixedScale;
  block_max = std::max(block_max, 0x1p-127);
  const double first = std::exp2(row.first[column]) * share * (fixed ? 1 / kScale : block_max);
  double worst = 0;
  for (size_t i = 0; i < reduced.result.size(); i++) {
    Wide sum = 0;
    double magnitudes = 0;
    for (const auto& tensor : tensors) {
      sum += exact.of(tensor[i]);
      magnitudes += std::abs(double{tensor[i]});
    }
    const double result = std::abs(double{reduced.result[i]});
    if (std::isinf(result)) {
      // A sum beyond float16's largest value, 65504, rounds to infinity.
      EXPECT_EQ(row.type, Type::kFloat16);
      EXPECT_GE(std::abs(exact.from(sum)) / divisor, 65504.0);
      continue;
    }
    const Wide difference = exact.of(reduced.result[i]) * static_cast<int64_t>(divisor) - sum;
    const double error = std::abs(exact.from(difference)) / divisor;
    const double second =
        std::exp2(-row.rounding) * result + (fixed ? std::exp2(-24) * magnitudes / divisor : 0);
    const double bound = first / divisor + second;
    // For a mean, 1 / n and the product with it are rounded in double.
    worst = std::max(worst, error / (bound * (1 + 0x1p-26)));
  }
  return worst;
}

constexpr std::array kOps{ReduceOp::kSum, ReduceOp::kMean};

/// The same for 16-bit lanes with a unit of 2 * `small`: each rank loses half a unit, and the sum
/// of the others is half of a result's unit.
Tensors narrow_worst_case(uint32_t world, uint32_t ranks, float largest, float small) {
  std::vector<float> tensor(kBlock, small);
  tensor[0] = largest;
  Tensors tensors(ranks, tensor);
  const auto unit = static_cast<float>(uint32_t{1} << wire::result_shift(world)) * small;
  for (size_t i = 1; i < kBlock; i++) tensors[0][i] += unit;
  return tensors;
}

/// Returns tensors whose first element is `largest` and whose others are `small`.
Tensors worst_case(uint32_t ranks, float largest, float small) {
  std::vector<float> tensor(kBlock, small);
  tensor[0] = largest;
  return Tensors(ranks, tensor);
}

// Half a unit is lost by every rank: it ties with 0, which is even.
TEST(NumberFormatBounds, AreReachedByTheWorstCase) {
  for (const ErrorRow& row : kErrorRows) {
    for (size_t column = 0; column < kWorlds.size(); column++) {
      const uint32_t world = kWorlds[column];
      const bool fixed = row.format == ElementFormat::kFixedScale;
      const auto headroom = static_cast<int8_t>(row.imprecise ? kDegradedHeadroom : 0);
      // M = 2^12 has exponent 13; its unit is 2^(13 - bits). All are float16 values.
      const float largest = fixed ? 0x1p-10F : 0x1p12F;
      const float small =
          fixed ? std::nextafter(0.5F / kScale, 0.0F)
                : std::ldexp(0.5F, 13 + headroom - (row.is_narrow() ? 15 : kBits[column]));
      for (const ReduceOp op : kOps) {
        for (const uint32_t ranks : {world, world / 2}) {
          SCOPED_TRACE(fmt::format("{}, {} of {} ranks", row.name, ranks, world));
          const Tensors tensors = row.is_narrow() ? narrow_worst_case(world, ranks, largest, small)
                                                  : worst_case(ranks, largest, small);
          const Reduced reduced = reduce(row, world, tensors, op, headroom);
          const double ratio = worst_ratio(row, column, tensors, op, reduced, Exact{80});
          EXPECT_LE(ratio, 1.0);
          // bfloat16 cannot hold rank 0's half of a unit beside the others.
          EXPECT_GT(ratio, row.is_narrow() && row.type == Type::kBfloat16 ? 0.8 : 0.999);
          EXPECT_EQ(reduced.imprecise, row.imprecise);
        }
      }
    }
  }
}

/// Returns a float of any size from 2^(power - 50) to 2^power, or 0.
float any_value(Prng& prng, Type type, int power) {
  if (prng.below(10) == 0) return 0.0F;
  const auto mantissa = static_cast<float>(0x800000 + prng.below(0x800000));
  const uint32_t below = type == Type::kFloat16 ? prng.below(20) : prng.below(50);
  const float value =
      std::ldexp(prng.chance(0.5) ? mantissa : -mantissa, power - 24 - static_cast<int>(below));
  if (type == Type::kFloat32) return value;
  const HalfType half = type == Type::kFloat16 ? HalfType::kFloat16 : HalfType::kBfloat16;
  return widen_half(narrow_half(static_cast<double>(value), half), half);
}

TEST(NumberFormatBounds, HoldForRandomTensors) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (const ErrorRow& row : kErrorRows) {
    for (size_t column = 0; column < kWorlds.size(); column++) {
      const uint32_t world = kWorlds[column];
      double worst = 0;
      for (uint32_t step = 0; step < 1200 / world + 10; step++) {
        // Results stay finite: below 65504 in float16, and within the fixed scale.
        int power = static_cast<int>(prng.below(160)) - 70;
        if (row.type == Type::kFloat16) power = 15 - std::countr_zero(world);
        if (row.format == ElementFormat::kFixedScale) power = 2 - std::countr_zero(world / 4);
        const uint32_t ranks = prng.chance(0.5) ? world : 1 + prng.below(world);
        Tensors tensors(ranks, std::vector<float>(kBlock));
        for (auto& tensor : tensors) {
          for (float& value : tensor) value = any_value(prng, row.type, power);
        }
        const ReduceOp op = kOps[prng.below(2)];
        // The bound is that of the largest headroom; the smaller ones come nowhere near it.
        int8_t headroom = 0;
        if (row.imprecise && prng.chance(0.5))
          headroom = kDegradedHeadroom;
        else if (row.imprecise)
          headroom = static_cast<int8_t>(1 + prng.below(kDegradedHeadroom));
        const Reduced reduced = reduce(row, world, tensors, op, headroom);
        // A block that no rank reports keeps the bound of a round with all ranks.
        ErrorRow promised = row;
        if (row.imprecise && !reduced.imprecise) promised = kErrorRows[1];
        const double ratio =
            worst_ratio(promised, column, tensors, op, reduced, Exact{.unit_power = 100 - power});
        ASSERT_LE(ratio, 1.0) << row.name << ", " << ranks << " of " << world << ", step " << step;
        worst = std::max(worst, ratio);
      }
      EXPECT_GT(worst, 1.0 / 64) << row.name << ": the random tensors are too easy";
    }
  }
}

// --- Ranges ---

TEST(NumberFormatBounds, LanesHaveTheStatedBits) {
  for (size_t i = 0; i < kWorlds.size(); i++) {
    EXPECT_EQ(scale_for_exponent(0, kWorlds[i]), std::ldexp(1.0, kBits[i]));
  }
}

// The largest values of 256 ranks, which would exceed 16 bits if the aggregator did not divide.
TEST(NumberFormatBounds, SixteenBitLanesDoNotOverflow) {
  const ErrorRow& row = kErrorRows[5];
  for (size_t i = 0; i < kWorlds.size(); i++) {
    for (const float most : {1.0F, std::nextafter(1.0F, 0.0F), -std::nextafter(2.0F, 0.0F)}) {
      const Tensors tensors(kWorlds[i], std::vector<float>(kBlock, most));
      const Reduced reduced = reduce(row, kWorlds[i], tensors, ReduceOp::kSum, 0);
      EXPECT_LE(worst_ratio(row, i, tensors, ReduceOp::kSum, reduced, Exact{80}), 1.0) << most;
    }
  }
}

TEST(NumberFormatBounds, FixedScaleHasTheStatedRange) {
  std::array<std::byte, 4> lane;
  for (size_t i = 0; i < kWorlds.size(); i++) {
    const auto fit_of = [&](int units) {
      const auto value = static_cast<float>(units * kLargestUnit[i]);
      return pack_fixed({&value, 1}, kScale, lane_magnitude_max(kWorlds[i]), lane.data());
    };
    EXPECT_EQ(fit_of(kLargest[i]), Fit::kFits);
    EXPECT_EQ(fit_of(kLargest[i] + 1), Fit::kOverflows);
    EXPECT_EQ(fmt::format("{:.3g}", kLargest[i] * kLargestUnit[i]), kLargestText[i]);
  }
  EXPECT_EQ(to_fixed(4.999e-9F, kScale), 0);
  EXPECT_EQ(to_fixed(5.001e-9F, kScale), 1);
}

TEST(NumberFormatBounds, BlockExponentFlushesWhereStated) {
  for (size_t i = 0; i < kWorlds.size(); i++) {
    const float below = std::ldexp(1.0F, -kBits[i] - 1);  // Of M, which can be nearly 2 * 2^0.
    const auto lane_in_block_of = [&](float largest, float value) {
      const std::array tensor{largest, value};
      return to_fixed(value, scale_for_exponent(block_exponent(tensor), kWorlds[i]));
    };
    const float nearly_two = std::nextafter(2.0F, 1.0F);
    EXPECT_EQ(lane_in_block_of(1.0F, below), 0);
    EXPECT_EQ(lane_in_block_of(nearly_two, nearly_two * below), 0);
    const float above = std::nextafter(2 * below, 1.0F);
    EXPECT_EQ(lane_in_block_of(1.0F, above), 1);
    EXPECT_EQ(lane_in_block_of(nearly_two, nearly_two * above), 1);
  }
}

TEST(NumberFormatBounds, BlockExponentCoversSubnormalNumbers) {
  const ErrorRow& row = kErrorRows[1];
  for (size_t i = 0; i < kWorlds.size(); i++) {
    for (const int power : {-99, -106, -110, -123, -126, -127, -128, -140}) {
      const Tensors tensors =
          worst_case(kWorlds[i], std::ldexp(1.0F, power), std::ldexp(1.0F, power - 5));
      const Reduced reduced = reduce(row, kWorlds[i], tensors, ReduceOp::kSum, 0);
      EXPECT_LE(worst_ratio(row, i, tensors, ReduceOp::kSum, reduced, Exact{149}), 1.0) << power;
    }
    // From 2^-127 down the unit stays that of the exponent -126.
    EXPECT_EQ(scale_for_exponent(-126, kWorlds[i]), std::ldexp(1.0, kBits[i] + 126));
  }
  // 4 and 32 ranks lose nothing of the smallest float32, 2^-149; 256 have it as half a unit.
  EXPECT_EQ(to_fixed(0x1p-149F, scale_for_exponent(-126, 4)), 64);
  EXPECT_EQ(to_fixed(0x1p-149F, scale_for_exponent(-126, 32)), 8);
  EXPECT_EQ(to_fixed(0x1p-149F, scale_for_exponent(-126, 256)), 0);
  EXPECT_EQ(to_fixed(0x1p-148F, scale_for_exponent(-126, 256)), 1);
}

TEST(NumberFormatBounds, FirstTermDoublesBelowTheLargestPower) {
  const ErrorRow& row = kErrorRows[1];
  for (size_t i = 0; i < kWorlds.size(); i++) {
    const auto ratio_of = [&](float largest) {
      // Exponent 127 has the unit of 128.
      const Tensors tensors = worst_case(kWorlds[i], largest, std::ldexp(0.5F, 128 - kBits[i]));
      const Reduced reduced = reduce(row, kWorlds[i], tensors, ReduceOp::kMean, 0);
      return worst_ratio(row, i, tensors, ReduceOp::kMean, reduced, Exact{80 - 127});
    };
    EXPECT_NEAR(ratio_of(0x1p126F), 2.0, 1e-6);
    EXPECT_NEAR(ratio_of(0x1p127F), 1.0, 1e-6);
  }
}

// --- Special values ---

/// Returns the sum of `values`, one rank each, in a job of two.
float sum_of(Type type, std::array<float, 2> values) {
  ErrorRow row = kErrorRows[1];
  row.type = type;
  return reduce(row, 2, {{values[0]}, {values[1]}}, ReduceOp::kSum, 0).result[0];
}

TEST(NumberFormatBounds, SpecialValuesAreAsStated) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Type type : {Type::kFloat32, Type::kFloat16, Type::kBfloat16}) {
    EXPECT_FALSE(std::signbit(sum_of(type, {-0.0F, -0.0F})));
  }
  // A sum outside its type's range is infinite, and the status is ok.
  EXPECT_EQ(sum_of(Type::kFloat32, {3e38F, 3e38F}), kInfinity);
  EXPECT_EQ(sum_of(Type::kFloat16, {-60000.0F, -60000.0F}), -kInfinity);
  EXPECT_EQ(sum_of(Type::kBfloat16, {0x1p127F, 0x1p127F}), kInfinity);
  // Subnormal elements of float16 are ordinary floats; those of float32 lie below 2^-126.
  EXPECT_EQ(sum_of(Type::kFloat16, {0x1p-24F, 0x1p-24F}), 0x1p-23F);
  EXPECT_EQ(sum_of(Type::kFloat32, {0x1p-127F, 0x1p-127F}), 0x1p-126F);
  EXPECT_EQ(sum_of(Type::kFloat32, {0x1p-128F, 0x1p-128F}), 0x1p-127F);
  EXPECT_EQ(sum_of(Type::kFloat32, {0x1p-149F, 0x1p-149F}), 0x1p-148F);

  std::array<std::byte, 4> lane;
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const double scale : {double{kScale}, scale_for_exponent(block_exponent({&bad, 1}), 4)}) {
      EXPECT_EQ(pack_fixed({&bad, 1}, scale, lane_magnitude_max(4), lane.data()), Fit::kNotFinite);
    }
  }
}

TEST(NumberFormatBounds, IntegersWrapAndMeansRoundTowardZero) {
  std::array<int32_t, 2> tensor{INT32_MAX, -7};
  std::array<std::byte, 8> lanes;
  pack_int32(tensor, lanes.data());
  store_be(&lanes[0], load_be<uint32_t>(&lanes[0]) + 1);
  unpack_int32(lanes.data(), 1, tensor);
  EXPECT_EQ(tensor[0], INT32_MIN);
  unpack_int32(lanes.data(), 4, tensor);
  EXPECT_EQ(tensor[1], -1);
}

}  // namespace
}  // namespace tributary::host
