// SPDX-License-Identifier: Apache-2.0
//
// Law 2 for gradients: the number of threads and the order of jobs do not show, bit for bit, where
// jobs are heads and where they are ranges of rows.

#include "support/gradients.hpp"

namespace support {
namespace {

template <class Pack>
void expect_same(const World& w, const Pack& pack) {
  Random random(3);
  const auto dout = floats(upstream(w.shape, random).data);
  const auto serial = felt(w, dout, pack, {1});
  constexpr auto all = std::make_index_sequence<decltype(serial.parameters)::kSize>{};
  for (const Index threads : {0, 2, 3, 4, 7, 8, 16}) {
    const auto parallel = felt(w, dout, pack, {threads});
    ASSERT_TRUE(same_gradient_bits(serial, parallel)) << threads << " threads";
    ASSERT_TRUE(same_parameters(serial.parameters, parallel.parameters, all)) << threads;
  }
}

TEST(GradientThreads, GiveTheSameBits) {
  for (const Extents& e : {Extents{1, 1, 1, 600, 600, 8, 8}, {2, 4, 2, 150, 170, 5, 5},
                           {1, 16, 8, 20, 30, 6, 6}, {3, 4, 4, 70, 70, 4, 4}}) {
    const World w(e, Filling::normal, 1);
    expect_same(w, heed::pack(heed::causal));
    const Described<Causal, Roped<true>, HeadScaled, Biased, Coped<true, true>> walking(w, 2);
    expect_same(w, walking.policy(w.whole()));
    const Described<Causal, Scaled, AlibiSloped, Relatived<false>, T5Biased, Sunk> many(w, 2);
    expect_same(w, many.policy(w.whole()));
    const Described<Causal, Coped<false, true, oracle::Cope::Gates::keys>> gates(w, 2);
    expect_same(w, gates.policy(w.whole()));
  }
}

}  // namespace
}  // namespace support
