// SPDX-License-Identifier: Apache-2.0
//
// Which rows of a block see which keys of a tile: a word of lane bits per key, and from them the
// groups of lanes that each chunk of keys reaches, so that the products skip the rest.

#pragma once

#include "block.hpp"

namespace heed::inline HEED_ABI {

struct Seen {
  LaneBits lanes[kKeys];
  simd::Reach reach;

  // How the rows of a block see a tile of keys: as the masks know, or pair by pair.
  template <class Masks>
  Visibility look(const Masks& masks, const Rows& rows, const Keys& keys) {
    const Visibility known = masks.visibility(rows, keys);
    if (known != Visibility::some) return known;
    masks.see(rows, keys, lanes);
    return settle(keys.count, rows.lanes());
  }
  // From lanes[0, n): the reach, and whether the tile is none, some or all for rows in use.
  Visibility settle(Index n, LaneBits in_use) {
    LaneBits any = 0, every = ~LaneBits{0};
    for (Index chunk = 0; chunk < simd::kChunks; ++chunk) {
      LaneBits word = 0;
      for (Index j = chunk * simd::kGroup; j < std::min(n, (chunk + 1) * simd::kGroup); ++j) {
        word |= lanes[j];
        every &= lanes[j];
      }
      any |= word;
      const auto at = static_cast<std::size_t>(chunk);
      reach.first[at] = word == 0 ? 0 : std::uint8_t(__builtin_ctzll(word) / simd::kGroup);
      reach.last[at] = word == 0 ? 0 : std::uint8_t((63 - __builtin_clzll(word)) / simd::kGroup + 1);
    }
    if (any == 0) return Visibility::none;
    return (every & in_use) == in_use ? Visibility::all : Visibility::some;
  }
};

}  // namespace heed::inline HEED_ABI
