// SPDX-License-Identifier: Apache-2.0
//
// One attention head that looks for the end of the k-th unit back, built by hand: width 2, no
// training. Channel 0 of a query asks for a position, channel 1 for the end of a unit; a key says
// in channel 1 whether it is one. With tau = 1/sqrt(2) the content logit is +30 at an end and -30
// elsewhere, so CoPE's gate sigmoid(tau q.k) is 1 or 0, and the position of a key is the number of
// ends from it up to the query, its own included.
//   CoPE      k + 2 vectors: e[k] is worth 30, the others nothing.
//   relative  the same content, and a vector for each distance (the last one for all beyond).

#pragma once

#include <Eigen/Core>

#include <heed/heed.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <thread>
#include <vector>

#include "text.hpp"

namespace count {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

using Row = Eigen::Map<const Eigen::ArrayXf>;  // the weights of a query's keys

inline constexpr float kContent = 30;
inline constexpr float kPlace = 30;
inline const float kRoot = std::sqrt(2.0f);  // 1 / tau

// heed starts no threads; it hands its jobs to whatever runs them.
struct Threads {
  void operator()(Index n, const heed::Job& job) const {
    std::atomic<Index> next = 0;
    const auto work = [&] {
      for (Index i = next++; i < n; i = next++) job(i);
    };
    std::vector<std::jthread> helpers;
    const auto cores = static_cast<Index>(std::thread::hardware_concurrency());
    for (Index i = 1; i < std::min(cores, n); ++i) helpers.emplace_back(work);
    work();
  }
};

// The text as the head sees it.
struct Head {
  Matrix q, k, v;  // [characters, 2], [characters, 2], [characters, 1]: the place of a character

  Head(Index characters, const std::vector<Index>& ends)
      : q(Matrix::Ones(characters, 2)), k(characters, 2), v(characters, 1) {
    k.col(0).setZero();
    k.col(1).setConstant(-kContent * kRoot);
    for (const Index end : ends) k(end, 1) = kContent * kRoot;
    for (Index i = 0; i < characters; ++i) v(i, 0) = static_cast<float>(i);
  }
  Index characters() const { return q.rows(); }
};

// What is asked of a character: the k-th end among those up to itself, or -1 if there are fewer.
inline std::vector<Index> right_places(Index characters, const std::vector<Index>& ends,
                                       Index back) {
  std::vector<Index> places(static_cast<std::size_t>(characters), -1);
  for (std::size_t seen = 0, i = 0; i < places.size(); ++i) {
    if (seen < ends.size() && ends[seen] == static_cast<Index>(i)) ++seen;
    if (static_cast<Index>(seen) >= back) places[i] = ends[seen - static_cast<std::size_t>(back)];
  }
  return places;
}

// CoPE's table. Form A adds q.e as it is, so channel 0 holds the logit itself.
inline Matrix cope_table(Index back) {
  Matrix table = Matrix::Zero(back + 2, 2);
  table(back, 0) = kPlace;
  return table;
}

// The relative encoding's table of n vectors, as good as this very text allows: the logit of a
// distance is the logarithm of the share of right ones among all ends seen at that distance.
// (Fitting the softmax itself by maximum likelihood was tried and finds no more.)
inline Matrix relative_table(Index n, const std::vector<Index>& ends,
                             const std::vector<Index>& places) {
  const auto characters = static_cast<Index>(places.size());
  const auto asked = static_cast<Index>(
      std::find_if(places.begin(), places.end(), [](Index p) { return p >= 0; }) - places.begin());
  Eigen::ArrayXd right = Eigen::ArrayXd::Zero(n), all = Eigen::ArrayXd::Zero(n);
  for (Index i = asked; i < characters; ++i) {
    right(std::min(i - places[static_cast<std::size_t>(i)], n - 1)) += 1;
  }
  // An end is seen once at every distance from its first query to its last.
  Eigen::ArrayXd change = Eigen::ArrayXd::Zero(characters + 1);
  for (const Index end : ends) {
    change(std::max(end, asked) - end) += 1;
    change(characters - end) -= 1;
  }
  double seen = 0;
  for (Index distance = 0; distance < characters; ++distance) {
    seen += change(distance);
    all(std::min(distance, n - 1)) += seen;
  }
  Matrix table = Matrix::Zero(n, 2);  // never right: as bad as a rare one, so content still decides
  const double floor = 1.0 / (2.0 * static_cast<double>(characters) + 2.0);
  for (Index i = 0; i < n; ++i) {
    const double share = right(i) > 0 ? right(i) / all(i) : floor;
    table(i, 0) = kRoot * static_cast<float>(std::log(std::max(share, floor)));  // tau scales it
  }
  return table;
}

// Runs queries [first, last) and calls visit(query, weights of the keys up to it, mean place).
// Some queries at a time, so that memory does not grow with the square of the text.
template <class Encoding, class Visit>
void look(const Head& head, Index first, Index last, const Encoding& encoding, Visit&& visit) {
  const Index chunk = std::min(last - first, std::clamp<Index>((Index{1} << 24) / last, 16, 256));
  std::vector<float> weights(static_cast<std::size_t>(chunk * last));
  Matrix out(chunk, 1);
  for (Index begin = first; begin < last; begin += chunk) {
    const Index rows = std::min(chunk, last - begin), keys = begin + rows;
    const heed::View<float> to(weights.data(), {1, 1, rows, keys});
    heed::attend(Threads{},
                 heed::Into{.out = heed::split_heads(out.topRows(rows), 1), .weights = {.to = to}},
                 heed::split_heads(head.q.middleRows(begin, rows), 1),
                 heed::split_heads(head.k.topRows(keys), 1),
                 heed::split_heads(head.v.topRows(keys), 1), heed::causal, encoding);
    for (Index i = 0; i < rows; ++i) {
      const Index query = begin + i;
      visit(query, Row(weights.data() + i * keys, query + 1), out(i, 0));
    }
  }
}

// CoPE's own count from the key at `place` up to a query: the carry after the last key.
inline float counted(const Head& head, Index query, Index place, const heed::Cope& cope) {
  float out = 0, carry[2] = {0, 0};
  heed::attend(heed::Into{.out = heed::View<float>(&out, {1, 1, 1, 1}),
                          .carry = heed::View<float>(carry, {1, 1, 1, 2})},
               heed::split_heads(head.q.middleRows(query, 1), 1),
               heed::split_heads(head.k.middleRows(place, query + 1 - place), 1),
               heed::split_heads(head.v.middleRows(place, query + 1 - place), 1), heed::causal,
               cope);
  return carry[0] + carry[1];
}

// How often the largest weight stood in the right place, and how large the weight there was.
struct Score {
  Index asked = 0;
  double right = 0, weight = 0;  // sums over the queries; a tie of n counts 1/n

  void add(const Row& weights, Index place) {
    ++asked;
    const float found = weights(place);
    weight += static_cast<double>(found);
    int ties = 0;
    for (const float other : weights) {
      if (other > found) return;
      ties += other == found;
    }
    right += 1.0 / ties;
  }
};

}  // namespace count
