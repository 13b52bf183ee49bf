// SPDX-License-Identifier: Apache-2.0
// Method: fields worked out by hand, then a random walk of stores and loads against a model that
// moves one bit at a time, at widths and offsets of every alignment.
#include "wire/bit_field.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tests/support/seed.h"

namespace tributary::wire {
namespace {

constexpr uint32_t kHeaderBytes = 12;
using Header = std::array<std::byte, kHeaderBytes>;

template <uint32_t kOffset, uint32_t kWidth>
using At = Field<kHeaderBytes, kOffset, kWidth>;

Header header_of(std::array<uint8_t, kHeaderBytes> bytes) {
  Header header;
  std::ranges::transform(bytes, header.begin(), [](uint8_t byte) { return std::byte{byte}; });
  return header;
}

// --- Hand-worked ---------------------------------------------------------------------------------

TEST(BitField, LoadsMostSignificantBitFirst) {
  const Header header = header_of({0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0, 0, 0, 0, 0, 0xff});
  EXPECT_EQ((At<0, 4>::load(header.data())), 0x1U);
  EXPECT_EQ((At<4, 4>::load(header.data())), 0x2U);
  EXPECT_EQ((At<0, 8>::load(header.data())), 0x12U);
  EXPECT_EQ((At<4, 8>::load(header.data())), 0x23U);
  EXPECT_EQ((At<0, 16>::load(header.data())), 0x1234U);
  EXPECT_EQ((At<0, 32>::load(header.data())), 0x12345678U);
  EXPECT_EQ((At<4, 32>::load(header.data())), 0x23456789U);  // Over five bytes.
  EXPECT_EQ((At<3, 1>::load(header.data())), 1U);            // 0x12 = 0001 0010.
  EXPECT_EQ((At<4, 1>::load(header.data())), 0U);
  EXPECT_EQ((At<95, 1>::load(header.data())), 1U);  // The very last bit.
  EXPECT_EQ((At<64, 32>::load(header.data())), 0xffU);
}

TEST(BitField, StoresOnlyItsOwnBits) {
  Header header{};
  At<4, 8>::store(header.data(), 0xab);
  EXPECT_EQ(header, header_of({0x0a, 0xb0}));

  header.fill(std::byte{0xff});
  At<12, 1>::store(header.data(), 0);
  EXPECT_EQ(header[1], std::byte{0xf7});
  EXPECT_EQ(header[0], std::byte{0xff});
  EXPECT_EQ(header[2], std::byte{0xff});
}

TEST(BitField, BitsAboveTheWidthAreIgnored) {
  Header header{};
  At<8, 4>::store(header.data(), 0xffffff05);
  EXPECT_EQ(header, header_of({0, 0x50}));
}

// --- Views ---------------------------------------------------------------------------------------

struct Small {
  static constexpr uint32_t kBytes = 4;
  using High = Field<kBytes, 0, 16>;
  using Low = Field<kBytes, 16, 16>;
};

TEST(MutableView, ViewSetsFields) {
  std::array<std::byte, Small::kBytes> bytes{};
  MutableView<Small> view(bytes.data());
  view.set<Small::High>(0x1234);
  view.set<Small::Low>(0x5678);
  EXPECT_EQ(View<Small>(bytes.data()).get<Small::High>(), 0x1234U);
  EXPECT_EQ(bytes[3], std::byte{0x78});
}

// --- Random walk ---------------------------------------------------------------------------------

bool bit_at(const Header& header, uint32_t bit) {
  return (std::to_integer<uint32_t>(header[bit / 8]) >> (7 - bit % 8) & 1) != 0;
}

uint32_t model_load(const Header& header, uint32_t offset, uint32_t width) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < width; i++) {
    value = value << 1 | static_cast<uint32_t>(bit_at(header, offset + i));
  }
  return value;
}

void model_store(Header& header, uint32_t offset, uint32_t width, uint32_t value) {
  for (uint32_t i = 0; i < width; i++) {
    const uint32_t bit = offset + i;
    const auto mask = static_cast<std::byte>(0x80U >> (bit % 8));
    header[bit / 8] &= ~mask;
    if ((value >> (width - 1 - i) & 1) != 0) header[bit / 8] |= mask;
  }
}

/// Stores and loads one field in `header` and in `model`. @return whether the two agree.
template <uint32_t kOffset, uint32_t kWidth>
bool agrees(Header& header, Header& model, uint32_t value) {
  At<kOffset, kWidth>::store(header.data(), value);
  model_store(model, kOffset, kWidth, value);
  return header == model &&
         At<kOffset, kWidth>::load(header.data()) == model_load(model, kOffset, kWidth);
}

/// Checks one width at the offsets of two bytes: every alignment on both sides of a boundary.
template <uint32_t kWidth, uint32_t... kOffsets>
void check_width(Header& header, Header& model, Prng& prng,
                 std::integer_sequence<uint32_t, kOffsets...>) {
  const std::array<bool, sizeof...(kOffsets)> good{
      agrees<kOffsets, kWidth>(header, model, prng.any_u32())...};
  EXPECT_EQ(std::ranges::find(good, false) - good.begin(), std::ssize(good))
      << "width " << kWidth << ", the first wrong offset";
}

template <uint32_t... kWidths>
void check_widths(Header& header, Header& model, Prng& prng,
                  std::integer_sequence<uint32_t, kWidths...>) {
  (check_width<kWidths>(header, model, prng, std::make_integer_sequence<uint32_t, 16>{}), ...);
}
/// The widths around each number of bytes.
using Widths = std::integer_sequence<uint32_t, 1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 25, 31, 32>;

TEST(BitField, EveryAlignmentMatchesTheBitwiseModel) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  Header header{};
  Header model{};
  for (uint32_t round = 0; round < 200 && !::testing::Test::HasFailure(); round++) {
    for (std::byte& byte : header) byte = static_cast<std::byte>(prng.any_u32());
    model = header;
    check_widths(header, model, prng, Widths{});
  }
}

}  // namespace
}  // namespace tributary::wire
