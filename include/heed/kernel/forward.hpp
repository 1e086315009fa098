// SPDX-License-Identifier: Apache-2.0
//
// One block forward: walk, absorb, write. Independent jobs are (batch, kv head, row block).

#pragma once

#include "../tile/softmax.hpp"
#include "into.hpp"
#include "walk.hpp"

namespace heed::inline HEED_ABI::detail {

// Where the weights of a query row go: its slot in Into{.weights}, or -1.
inline Index weights_slot(const Weights& weights, Index row, Index q_len) {
  if (weights.to.data == nullptr) return -1;
  if (weights.rows.size == 0) return std::max<Index>(row - (q_len - weights.to.time()), -1);
  const Index* const end = weights.rows.data + weights.rows.size;
  const Index* const at = std::find(weights.rows.data, end, row);
  return at == end ? -1 : at - weights.rows.data;
}

// What a row that is not attended gets: absent, or the sink alone.
inline void write_empty(const Into& into, Index b, Index h, Index row, float lse) {
  if (into.out.dim() != 0) std::fill_n(into.out.row(b, h, row), into.out.dim(), 0.0f);
  if (into.lse.data != nullptr) into.lse(b, h, row) = lse;
  if (into.entropy.data != nullptr) into.entropy(b, h, row) = 0;
  if (into.carry.data != nullptr) std::fill_n(into.carry.row(b, h, row), into.carry.dim(), 0.0f);
}

template <class Reads>
class ForwardBlock {
  using Policies = typename Reads::Policies;
  using States = typename Policies::States;

 public:
  ForwardBlock(const Reads& operands, const Into& into)
      : operands_(operands),
        into_(into),
        walk_(operands),
        out_(kRows * operands.padded_width) {}

  void run(Index batch, Index kv_head, Index block) {
    if (!walk_.open(batch, kv_head, block)) return;
    const Rows& rows = walk_.rows();
    auto states = walk_.begin();
    resume(rows, states);
    softmax_.reset(out_.data(), operands_.padded_width, into_.entropy.data != nullptr);
    for (Index lane = 0; lane < rows.count; ++lane) {
      softmax_.start_from(lane, operands_.pack.prior(rows.query(lane)));
    }
    clear_weights(rows);
    walk_.walk(states, [&](const Tile& tile, const float* offset) {
      alignas(64) static constexpr float kNoOffset[kRows] = {};
      if (offset == nullptr) offset = kNoOffset;
      keep_logits(tile, offset);
      softmax_.absorb(tile, offset, operands_.zeros.data());
    });
    write(rows, states);
  }

 private:
  void resume(const Rows& rows, States& states) const {
    const View<const float> resumed = operands_.pack.resumed_carry();
    if (resumed.data == nullptr) return;
    Index at = 0;
    Policies::each_carry(states, [&](float* carry, Index n) {
      for (Index i = 0; i < n; ++i, ++at) {
        for (Index lane = 0; lane < rows.count; ++lane) {
          carry[i * kRows + lane] = resumed.row(rows.batch, rows.head[lane], rows.row[lane])[at];
        }
      }
    });
  }

  float* weights_row(const Rows& rows, Index lane) const {
    const Index slot = weights_slot(into_.weights, rows.row[lane], operands_.shape.q_len);
    return slot < 0 ? nullptr : into_.weights.to.row(rows.batch, rows.head[lane], slot);
  }
  void clear_weights(const Rows& rows) const {
    if (into_.weights.to.data == nullptr) return;
    for (Index lane = 0; lane < rows.count; ++lane) {
      if (float* const to = weights_row(rows, lane)) {
        std::fill_n(to, operands_.shape.kv_len, -INFINITY);
      }
    }
  }
  // The logits of chosen rows wait in the output until their lse is known.
  void keep_logits(const Tile& tile, const float* offset) const {
    if (into_.weights.to.data == nullptr) return;
    for (Index lane = 0; lane < tile.rows.count; ++lane) {
      float* const to = weights_row(tile.rows, lane);
      if (to == nullptr) continue;
      for (Index j = 0; j < tile.keys.count; ++j) {
        to[tile.keys.first + j] = tile.logits.data[j * kRows + lane] + offset[lane];
      }
    }
  }

  void write(const Rows& rows, States& states) const {
    for (Index lane = 0; lane < rows.count; ++lane) {
      const Index h = rows.head[lane], row = rows.row[lane];
      if (into_.out.dim() != 0) {
        softmax_.write(lane, into_.out.row(rows.batch, h, row), into_.out.dim());
      }
      if (into_.lse.data != nullptr) into_.lse(rows.batch, h, row) = softmax_.lse(lane);
      if (into_.entropy.data != nullptr) {
        into_.entropy(rows.batch, h, row) = softmax_.entropy(lane);
      }
      if (float* const to = weights_row(rows, lane)) {
        simd::forward().weigh(to, operands_.shape.kv_len, softmax_.max[lane], softmax_.sum[lane]);
      }
      if (into_.carry.data == nullptr) continue;
      float* to = into_.carry.row(rows.batch, h, row);
      Policies::each_carry(states, [&](const float* carry, Index n) {
        for (Index i = 0; i < n; ++i) *to++ = carry[i * kRows + lane];
      });
    }
  }

  const Reads& operands_;
  const Into& into_;
  Walk<Reads> walk_;
  Buffer<float> out_;
  BlockSoftmax softmax_;
};

// Rows beyond a batch entry's valid ones.
template <class... Ps>
void write_absent(const Operands<Ps...>& operands, const Into& into, Index b, Index kv_head) {
  const Shape& s = operands.shape;
  const Index group = s.heads / s.kv_heads;
  for (Index h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    for (Index row = operands.placed(b, kv_head).extents.q_len; row < s.q_len; ++row) {
      write_empty(into, b, h, row, -INFINITY);
      const Index slot = weights_slot(into.weights, row, s.q_len);
      if (slot >= 0) std::fill_n(into.weights.to.row(b, h, slot), s.kv_len, 0.0f);
    }
  }
}

template <class E, class... Ps>
void forward(E&& executor, const Into& into, View<const float> q, View<const float> k,
             View<const float> v, const Pack<Ps...>& pack) {
  const Shape shape = shape_of("attend", q, k, v);
  check_into(into, shape, Pack<Ps...>::kCarry);
  pack.check(shape);
  const View<const float> resumed = pack.resumed_carry();
  if (resumed.data != nullptr) {
    contract::same_shape("attend", "Resume's carry", resumed.extent,
                         {shape.batch, shape.heads, shape.q_len, Pack<Ps...>::kCarry});
  }
  check_apart("attend", into,
              {{"q", Bytes::of(q)},
               {"k", Bytes::of(k)},
               {"v", Bytes::of(v)},
               {"the gate keys", Bytes::of(pack.gate_stream().keys)},
               {"Resume's carry", Bytes::of(resumed)}});
  if (shape.batch * shape.heads * shape.q_len == 0) return;

  const Operands<Ps...> operands(executor, shape, q, k, v, pack);
  const Index blocks = Blocks(shape).count;
  // Head by head, so that a head's keys and values stay in the cache; later rows, which see more
  // keys under a causal mask, go first, so that the last jobs are short.
  run(executor, shape.batch * shape.kv_heads * blocks, [&](Index job) {
    const Index head = job / blocks, block = blocks - 1 - job % blocks;
    const Index b = head / shape.kv_heads, kv_head = head % shape.kv_heads;
    if (block == 0) write_absent(operands, into, b, kv_head);
    ForwardBlock(operands, into).run(b, kv_head, block);
  });
}

}  // namespace heed::inline HEED_ABI::detail
