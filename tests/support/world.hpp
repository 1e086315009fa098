// SPDX-License-Identifier: Apache-2.0
//
// One set of inputs, seen by the kernel and by the oracle; and one way to call the kernel: every
// output asked for, memory filled with NaN first, a fence of sentinels around each buffer.

#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <heed/kernel/attend.hpp>
#include <heed/kernel/merge.hpp>
#include <thread>

#include "compare.hpp"
#include "shapes.hpp"

namespace support {

inline std::size_t size(Index n) { return static_cast<std::size_t>(n); }

// A part of a call: some batch entries, some query rows, the first keys.
struct Slice {
  Index batch_first = 0, batch = 0, row_first = 0, rows = 0, keys = 0;
};

struct World {
  Extents shape;
  Data data;

  World(const Extents& e, Filling filling, std::uint64_t seed)
      : shape(e), data(fill(e, filling, seed)) {}

  Slice whole() const { return {0, shape.batch, 0, shape.q_len, shape.kv_len}; }
  heed::View<const float> q(const Slice& s) const {
    const Index t = shape.dim, h = shape.q_len * t, b = shape.heads * h;
    return {data.q.data() + s.batch_first * b + s.row_first * t,
            {s.batch, shape.heads, s.rows, shape.dim}, {b, h, t}};
  }
  heed::View<const float> k(const Slice& s) const { return keys_of(data.k, shape.dim, s); }
  heed::View<const float> v(const Slice& s) const { return keys_of(data.v, shape.v_dim, s); }
  heed::View<const float> keys_of(const std::vector<float>& x, Index dim, const Slice& s) const {
    const Index h = shape.kv_len * dim, b = shape.kv_heads * h;
    return {x.data() + s.batch_first * b, {s.batch, shape.kv_heads, s.keys, dim}, {b, h, dim}};
  }

  oracle::Array<double> q_array() const {
    return array(data.q, {shape.batch, shape.heads, shape.q_len, shape.dim});
  }
  oracle::Array<double> kv_array(const std::vector<float>& x, Index dim) const {
    return array(x, {shape.batch, shape.kv_heads, shape.kv_len, dim});
  }
  oracle::Case oracle_case() const {
    oracle::Case c;
    c.q = q_array();
    c.k = kv_array(data.k, shape.dim);
    c.v = kv_array(data.v, shape.v_dim);
    return c;
  }

 private:
  static oracle::Array<double> array(const std::vector<float>& x, std::array<Index, 4> e) {
    oracle::Array<double> a(e);
    for (std::size_t i = 0; i < x.size(); ++i) a.data[i] = static_cast<double>(x[i]);
    return a;
  }
};

// Runs jobs on `threads` threads of its own; 0: on the caller's, last job first.
struct Workers {
  Index threads = 1;

  void operator()(Index n, const heed::Job& job) const {
    if (threads <= 1) {
      for (Index i = 0; i < n; ++i) job(threads == 0 ? n - 1 - i : i);
      return;
    }
    std::atomic<Index> next = 0;
    std::vector<std::thread> pool;
    for (Index t = 0; t < threads; ++t) {
      pool.emplace_back([&] {
        for (Index i = next++; i < n; i = next++) job(i);
      });
    }
    for (std::thread& t : pool) t.join();
  }
};

// A buffer between two fences; `take` checks them and returns what is between.
class Fenced {
 public:
  explicit Fenced(Index n) : memory_(size(n + 2 * kFence), kSentinel) {
    for (Index i = 0; i < n; ++i)
      memory_[size(kFence + i)] = std::numeric_limits<float>::quiet_NaN();
  }
  float* data() { return memory_.data() + kFence; }
  std::vector<float> take() const {
    for (Index i = 0; i < kFence; ++i) {
      EXPECT_EQ(memory_[size(i)], kSentinel) << "written before the output's start";
      EXPECT_EQ(memory_[memory_.size() - 1 - size(i)], kSentinel)
          << "written past the output's end";
    }
    return {memory_.begin() + kFence, memory_.end() - kFence};
  }

 private:
  static constexpr Index kFence = 64;
  static constexpr float kSentinel = 12345.5f;
  std::vector<float> memory_;
};

enum class Weights { no, yes };

template <class Pack>
Outputs run(const World& world, const Slice& s, const Pack& pack, Workers workers = {},
            Weights wanted = Weights::no) {
  const Extents& e = world.shape;
  const Index rows = s.batch * e.heads * s.rows;
  Fenced out(rows * e.v_dim), lse(rows), entropy(rows), weights(rows * s.keys);
  heed::Into into;
  into.out = {out.data(), {s.batch, e.heads, s.rows, e.v_dim}};
  into.lse = {lse.data(), {s.batch, e.heads, s.rows}};
  into.entropy = {entropy.data(), {s.batch, e.heads, s.rows}};
  if (wanted == Weights::yes) {
    into.weights.to = {weights.data(), {s.batch, e.heads, s.rows, s.keys}};
  }
  heed::attend(workers, into, world.q(s), world.k(s), world.v(s), pack);
  Outputs outputs{out.take(), lse.take(), entropy.take(), {}};
  if (wanted == Weights::yes) outputs.weights = weights.take();
  return outputs;
}

// The whole call, as a user writes it: serial, policies one by one, every output.
template <class... Policies>
Outputs attended(const World& world, const Policies&... policies) {
  return run(world, world.whole(), heed::pack(policies...), {}, Weights::yes);
}

// All logits 0, and the value of key j is j in every column: an output is the mean of the indices
// that its row sees.
inline World counting(const Extents& e) {
  World world(e, Filling::equal, 0);
  std::fill(world.data.q.begin(), world.data.q.end(), 0.f);
  for (std::size_t i = 0; i < world.data.v.size(); ++i) {
    world.data.v[i] = static_cast<float>(static_cast<Index>(i) / e.v_dim % e.kv_len);
  }
  return world;
}

// The first column of the outputs of one head.
inline std::vector<float> column(const World& world, const Outputs& outputs, Index batch = 0,
                                 Index head = 0) {
  const Extents& e = world.shape;
  std::vector<float> x;
  for (Index i = 0; i < e.q_len; ++i) {
    x.push_back(outputs.out[size(((batch * e.heads + head) * e.q_len + i) * e.v_dim)]);
  }
  return x;
}

// The rows of a slice, cut out of the outputs of the whole.
inline Outputs cut(const World& world, const Outputs& whole, const Slice& s) {
  const Extents& e = world.shape;
  Outputs part;
  for (Index b = s.batch_first; b < s.batch_first + s.batch; ++b) {
    for (Index h = 0; h < e.heads; ++h) {
      for (Index i = s.row_first; i < s.row_first + s.rows; ++i) {
        const Index row = (b * e.heads + h) * e.q_len + i;
        for (Index d = 0; d < e.v_dim; ++d) {
          part.out.push_back(whole.out[size(row * e.v_dim + d)]);
        }
        part.lse.push_back(whole.lse[size(row)]);
        part.entropy.push_back(whole.entropy[size(row)]);
      }
    }
  }
  return part;
}

}  // namespace support
