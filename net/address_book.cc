// SPDX-License-Identifier: Apache-2.0
#include "net/address_book.h"

#include <utility>

#include "net/digest.h"

namespace tributary::net {
namespace {

constexpr uint64_t kPlacesStart = 16;

}  // namespace

AddressBook::AddressBook() : places_(kPlacesStart) {}

/// Returns the place that holds the address, or the free one where it belongs.
uint64_t AddressBook::place_of(uint64_t high, uint64_t low) const {
  const uint64_t mask = places_.size() - 1;
  for (uint64_t at = hash_mix(hash_chain(high, low)) & mask;; at = (at + 1) & mask) {
    const Place& place = places_[at];
    if (place.number == kUnknown || (place.low == low && place.high == high)) return at;
  }
}

uint32_t AddressBook::add(const Endpoint& endpoint) {
  if (size_ * 2 >= places_.size()) {
    const auto old = std::exchange(places_, std::vector<Place>(places_.size() * 2));
    for (const Place& place : old) {
      if (place.number != kUnknown) places_[place_of(place.high, place.low)] = place;
    }
  }
  const AddressWords words(endpoint);
  Place& place = places_[place_of(words.high, words.low)];
  if (place.number == kUnknown) place = {words.high, words.low, size_++};
  return place.number;
}

uint32_t AddressBook::find(const Endpoint& endpoint) const {
  const AddressWords words(endpoint);
  return places_[place_of(words.high, words.low)].number;
}

}  // namespace tributary::net
