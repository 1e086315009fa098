// SPDX-License-Identifier: Apache-2.0
//
// One token of decoding: attend over every slot, hand the weights to the eviction, evict. Keys are
// cut into parts at fixed ranks (multiples of 2048), in serial too, and only where no score walks;
// the parts of a head are merged newest to oldest. So results depend on shapes alone.
//
// The weights of the query come out of the same pass: each tile's e^(x - m), m being the maximum so
// far, is kept beside m, and a weight is e^(x - m) e^(m - M) / l.

#pragma once

#include "../kernel/into.hpp"
#include "few_rows.hpp"

namespace heed::inline HEED_ABI::detail {

// A head's running softmax over one part, as it is stored until the merge.
struct PartView {
  static constexpr Index kHead = 16;   // max, sum, moment, unused
  float* data;

  static Index size(Index width) { return kHead + width; }
  float& max() const { return data[0]; }
  float& sum() const { return data[1]; }
  float& moment() const { return data[2]; }
  float* out() const { return data + kHead; }
};

template <class E, class... Ps>
class Step {
  using Reads = SlotReads<E, Ps...>;
  static constexpr Index kPartTiles = 32;

 public:
  // The token has been appended to every entry b with active[b].
  Step(const Reads& reads, CacheScratch& scratch, Index batch)
      : reads_(reads),
        scratch_(scratch),
        batch_(batch),
        blocks_((reads.group + kRows - 1) / kRows),
        stride_((reads.group + simd::kFew - 1) / simd::kFew * simd::kFew),
        width_((reads.v_dim + simd::kPad - 1) / simd::kPad * simd::kPad) {}

  // Rows [batch, heads] of `into` at time t, for the entries that are active.
  template <class Executor>
  void run_all(Executor&& executor, const Into& into, Index t, const Index* active) {
    Index most = 0;
    for (Index b = 0; b < batch_; ++b) {
      for (Index g = 0; active[b] && g < reads_.kv_heads; ++g) {
        most = std::max(most, reads_.cache.size(b, g));
      }
    }
    tiles_ = (most + kKeys - 1) / kKeys;
    with_entropy_ = into.entropy.data != nullptr;
    parts_ = parts_of(tiles_);
    const Index heads = batch_ * reads_.kv_heads;
    results_ = scratch_.results.get(batch_ * reads_.heads * parts_ * PartView::size(width_));
    serial_ = std::same_as<std::remove_cvref_t<Executor>, Serial>;
    if constexpr (watches<E>() != Watches::none) {
      const Index at_a_time = serial_ ? 1 : heads;
      kept_ = scratch_.kept.get(at_a_time * tiles_ * kKeys * stride_);
      tops_ = scratch_.tops.get(at_a_time * tiles_ * stride_);
      shares_ = scratch_.shares.get(heads * tiles_ * kKeys);
    }
    // One job per kv head, or several threads get one per part; the last one merges the parts, in
    // an order of their own, while the weights are at hand.
    const Index pieces = blocks_ * parts_, jobs_per_head = serial_ ? 1 : pieces;
    Index* const left = scratch_.left.get(heads);   // jobs of a head that are not done
    std::fill_n(left, heads, jobs_per_head);
    run(executor, heads * jobs_per_head, [&](Index job) {
      const Index head = job / jobs_per_head, b = head / reads_.kv_heads;
      const Index g = head % reads_.kv_heads, first = job % jobs_per_head;
      if (!active[b]) return;
      const CacheScratch::Loan loan(scratch_);
      for (Index piece = first; piece < first + pieces / jobs_per_head; ++piece) {
        attend(b, g, piece / parts_, piece % parts_);
      }
      if (__atomic_fetch_sub(left + head, Index{1}, __ATOMIC_ACQ_REL) == 1) finish(b, g, into, t);
    });
    for (Index b = 0; b < batch_; ++b) {
      for (Index g = 0; active[b] && g < CacheAccess::banks(reads_.cache); ++g) settle(b, g);
    }
  }

 private:
  Index parts_of(Index tiles) const {
    return Pack<Ps...>::kCarry != 0 ? 1 : std::max<Index>(1, (tiles + kPartTiles - 1) / kPartTiles);
  }
  bool watched(Index b, Index g) const {
    if constexpr (watches<E>() == Watches::none) return false;
    if constexpr (watches<E>() == Watches::every) return true;
    const auto& bank = CacheAccess::bank(reads_.cache, b, g);
    return bank.slots.size() > bank.budget;
  }
  PartView result(Index b, Index head, Index part) const {
    return {results_ + ((b * reads_.heads + head) * parts_ + part) * PartView::size(width_)};
  }
  float* kept(Index b, Index g) const {
    return kept_ + (serial_ ? 0 : b * reads_.kv_heads + g) * tiles_ * kKeys * stride_;
  }
  float* tops(Index b, Index g) const {
    return tops_ + (serial_ ? 0 : b * reads_.kv_heads + g) * tiles_ * stride_;
  }
  float* shares(Index b, Index g) const {
    return shares_ + (b * reads_.kv_heads + g) * tiles_ * kKeys;
  }

  void attend(Index b, Index g, Index block, Index part) {
    const Index tiles = (reads_.cache.size(b, g) + kKeys - 1) / kKeys;
    const Index oldest = part * kPartTiles;
    if (oldest >= tiles) return;
    const bool whole = Pack<Ps...>::kCarry != 0;
    const Index newest = whole ? tiles - 1 : std::min(tiles, oldest + kPartTiles) - 1;
    FewWalk<Reads> walk(reads_);
    walk.open(b, g, block);
    const Rows& rows = walk.rows();
    auto states = walk.begin();
    Buffer<float> out(rows.count * width_);
    BlockSoftmax softmax;
    softmax.out = out.data();
    softmax.width = width_;
    softmax.with_moment = with_entropy_;
    std::fill_n(softmax.max, kRows, -INFINITY);
    std::fill_n(softmax.sum, kRows, 0.0f);
    std::fill_n(softmax.moment, kRows, 0.0f);
    std::fill_n(softmax.out, rows.count * width_, 0.0f);
    if (newest == tiles - 1) {   // a sink counts once
      for (Index lane = 0; lane < rows.count; ++lane) {
        softmax.start_from(lane, reads_.pack.prior(rows.query(lane)));
      }
    }
    const bool keeps = watched(b, g);
    for (Index number = newest; number >= oldest; --number) {
      const bool seen = walk.load(number, oldest);
      if (seen) {
        const Tile tile = walk.tile();
        walk.absorb(softmax, tile, reads_.pack.forward(tile, states));
      }
      if (keeps) keep(b, g, block, number, seen ? walk.tile().logits.data : nullptr, rows, softmax);
    }
    for (Index lane = 0; lane < rows.count; ++lane) {
      const PartView to = result(b, rows.head[lane], part);
      to.max() = softmax.max[lane];
      to.sum() = softmax.sum[lane];
      to.moment() = softmax.moment[lane];
      std::copy_n(softmax.out + lane * width_, width_, to.out());
    }
  }

  void keep(Index b, Index g, Index block, Index number, const float* weights, const Rows& rows,
            const BlockSoftmax& softmax) {
    const Index first = block * kRows;
    const Index n = std::min(kKeys, reads_.cache.size(b, g) - number * kKeys);
    float* const to = kept(b, g) + number * kKeys * stride_ + first;
    const Index padded = (rows.count + simd::kFew - 1) / simd::kFew * simd::kFew;
    if (weights != nullptr) {
      simd::decode().keep(to, stride_, weights, n, rows.count);
    } else {
      for (Index j = 0; j < n; ++j) std::fill_n(to + j * stride_, padded, 0.0f);
    }
    for (Index lane = 0; lane < padded; ++lane) {
      const bool used = lane < rows.count && weights != nullptr;
      tops(b, g)[(first + lane) * tiles_ + number] = used ? softmax.max[lane] : -INFINITY;
    }
  }

  // Merges the parts of the query heads of a kv head, writes them, and shares out the weights.
  void finish(Index b, Index g, const Into& into, Index t) {
    const Index tiles = (reads_.cache.size(b, g) + kKeys - 1) / kKeys;
    const Index parts = parts_of(tiles);
    const bool keeps = watched(b, g);
    for (Index i = 0; i < reads_.group; ++i) {
      const Index head = g * reads_.group + i;
      const PartView total = result(b, head, parts - 1);
      for (Index part = parts - 2; part >= 0; --part) merge(total, result(b, head, part));
      write(total, into, b, head, t);
      if (!keeps) continue;
      if (total.sum() == 0) {   // sees nothing
        std::fill_n(tops(b, g) + i * tiles_, tiles, 0.0f);
      } else {
        simd::forward().weigh(tops(b, g) + i * tiles_, tiles, total.max(), total.sum());
      }
    }
    if (!keeps) return;
    for (Index i = reads_.group; i < stride_; ++i)
      std::fill_n(tops(b, g) + i * tiles_, tiles, 0.0f);
    Buffer<float> factor(stride_);
    for (Index number = 0; number < tiles; ++number) {
      for (Index i = 0; i < stride_; ++i) factor[i] = tops(b, g)[i * tiles_ + number];
      const Index n = std::min(kKeys, reads_.cache.size(b, g) - number * kKeys);
      simd::decode().share(shares(b, g) + number * kKeys, kept(b, g) + number * kKeys * stride_,
                           stride_, n, factor.data());
    }
  }

  // An older part into the newer ones.
  void merge(const PartView& to, const PartView& from) const {
    constexpr float kLog2e = 1.44269504f;   // moments count in powers of two
    if (from.sum() == 0) return;
    if (to.sum() == 0) {
      std::copy_n(from.data, PartView::size(width_), to.data);
      return;
    }
    const float max = from.max() > to.max() ? from.max() : to.max();
    const float rise = max - to.max(), fall = max - from.max();
    const float a = std::exp(-rise), b = std::exp(-fall);
    to.moment() = a * (to.moment() - rise * kLog2e * to.sum()) +
                  b * (from.moment() - fall * kLog2e * from.sum());
    to.sum() = a * to.sum() + b * from.sum();
    to.max() = max;
    for (Index d = 0; d < width_; ++d) to.out()[d] = a * to.out()[d] + b * from.out()[d];
  }
  static float lse(const PartView& p) {
    return p.sum() == 0 ? -INFINITY : float(double(p.max()) + std::log(double(p.sum())));
  }
  void write(const PartView& p, const Into& into, Index b, Index head, Index t) const {
    const float inverse = p.sum() == 0 ? 0.0f : 1.0f / p.sum();
    if (into.out.dim() != 0) {
      float* const to = into.out.row(b, head, t);
      for (Index d = 0; d < into.out.dim(); ++d) to[d] = p.out()[d] * inverse;
    }
    if (into.lse.data != nullptr) into.lse(b, head, t) = lse(p);
    if (into.entropy.data == nullptr) return;
    constexpr double kLn2 = 0.693147180559945309417;
    const double sum = p.sum();
    into.entropy(b, head, t) =
        sum == 0 ? 0.0f : float(std::log(sum) - kLn2 * double(p.moment()) / sum);
  }

  // Observe and evict.
  void settle(Index b, Index g) {
    auto& bank = CacheAccess::bank(reads_.cache, b, g);
    if (watched(b, g)) {
      float* const weights = shares(b, g);
      const Index n = bank.slots.size();
      if (CacheAccess::banks(reads_.cache) == 1) {
        using Sums = Eigen::Map<Eigen::ArrayXf>;
        for (Index other = 1; other < reads_.kv_heads; ++other) {
          Sums(weights, n) += Sums(shares(b, other), n);
        }
      }
      observe(bank.eviction, weights, bank.slots);
    }
    CacheAccess::evict(reads_.cache, b, g);
  }

  const Reads& reads_;
  CacheScratch& scratch_;
  const Index batch_, blocks_, stride_, width_;
  Index tiles_ = 0, parts_ = 1;
  bool serial_ = false, with_entropy_ = false;
  float* results_ = nullptr;
  float* kept_ = nullptr;
  float* tops_ = nullptr;
  float* shares_ = nullptr;
};

}  // namespace heed::inline HEED_ABI::detail
