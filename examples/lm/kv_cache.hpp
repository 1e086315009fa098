// SPDX-License-Identifier: Apache-2.0
//
// What a decoder remembers of the tokens it has read: their keys and values per layer, simply
// appended, and the attention of new tokens over all of them. This is where the model meets heed,
// and the only place that knows how the memory is kept.

#pragma once

#include <heed/heed.hpp>

#include <algorithm>
#include <vector>

#include "threads.hpp"
#include "weights.hpp"

namespace lm {

class KvCache {
 public:
  KvCache(const Config& config, std::size_t layers) : config_(config), layers_(layers) {}

  // Appends the keys and values of new tokens, then lets their queries attend to all that is there
  // and not later. qkv [tokens, (heads + 2 kv_heads) dim]; into.out [1, heads, tokens, dim].
  void attend(const Threads& threads, std::size_t layer, const Matrix& qkv,
              const heed::Into& into) {
    const Index heads = config_.heads, kv_heads = config_.kv_heads;
    const Index kv_width = kv_heads * config_.dim;
    Memory& memory = layers_[layer];
    memory.append(qkv.middleCols(heads * config_.dim, kv_width), qkv.rightCols(kv_width));

    const auto q = heed::split_heads(qkv.leftCols(heads * config_.dim), heads);
    const auto k = heed::split_heads(memory.k.topRows(memory.tokens), kv_heads);
    const auto v = heed::split_heads(memory.v.topRows(memory.tokens), kv_heads);
    heed::attend(threads.device(), into, q, k, v, heed::causal, config_.rope);
  }

  Index tokens() const { return layers_.empty() ? 0 : layers_.back().tokens; }
  Index bytes() const {
    Index sum = 0;
    for (const Memory& memory : layers_) sum += memory.k.size() + memory.v.size();
    return sum * static_cast<Index>(sizeof(float));
  }

 private:
  struct Memory {
    Matrix k, v;  // [capacity, kv_heads dim]; keys as they were before RoPE
    Index tokens = 0;

    template <class Keys, class Values>
    void append(const Keys& new_k, const Values& new_v) {
      const Index wanted = tokens + new_k.rows();
      if (wanted > k.rows()) {
        const Index capacity = std::max(wanted, k.rows() * 2);
        k.conservativeResize(capacity, new_k.cols());
        v.conservativeResize(capacity, new_v.cols());
      }
      k.middleRows(tokens, new_k.rows()) = new_k;
      v.middleRows(tokens, new_v.rows()) = new_v;
      tokens = wanted;
    }
  };

  Config config_;
  std::vector<Memory> layers_;
};

}  // namespace lm
