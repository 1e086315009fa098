// SPDX-License-Identifier: Apache-2.0
//
// One bank of slots, without what is stored in them: which slots are taken, and by which
// positions. A slot keeps its place until its token goes and is then used anew; only the order
// (slots by ascending position, "ranks") moves. So a step costs a shift of indices, never of keys.

#pragma once

#include <algorithm>
#include <vector>

#include "../core/view.hpp"

namespace heed::inline HEED_ABI {

class Slots {
 public:
  Slots() = default;
  explicit Slots(Index room) { grow(room); }

  Index size() const { return size_; }                                 // tokens held
  Index room() const { return Index(position_.size()); }               // slots
  Index position(Index rank) const { return position_[at(rank)]; }     // ascending in rank
  Index slot(Index rank) const { return order_[at(rank)]; }
  const Index* positions() const { return position_.data(); }          // [size], by rank
  const Index* order() const { return order_.data(); }                 // [size], by rank
  // How many tokens stand before this position.
  Index rank_of(Index position) const {
    return std::lower_bound(position_.begin(), position_.begin() + size_, position) -
           position_.begin();
  }

  // The slot for a token newer than all others; there must be room.
  Index append(Index position) {
    const Index slot = order_[at(size_)];
    position_[at(size_++)] = position;
    return slot;
  }
  // Frees the slot of a rank and returns it. Free slots wait behind the taken ones.
  Index remove(Index rank) {
    const Index slot = order_[at(rank)];
    std::move(order_.begin() + rank + 1, order_.begin() + size_, order_.begin() + rank);
    std::move(position_.begin() + rank + 1, position_.begin() + size_, position_.begin() + rank);
    order_[at(--size_)] = slot;
    return slot;
  }
  void clear() { size_ = 0; }
  void grow(Index room) {
    for (Index slot = this->room(); slot < room; ++slot) {
      order_.push_back(slot);
      position_.push_back(0);
    }
  }

 private:
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }

  std::vector<Index> order_;      // [room]: taken slots by rank, then the free ones
  std::vector<Index> position_;   // [room]
  Index size_ = 0;
};

}  // namespace heed::inline HEED_ABI
