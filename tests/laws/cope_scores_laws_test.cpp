// SPDX-License-Identifier: Apache-2.0
//
// The laws for CoPE before and after other policies: each score sees what those before it left.

#include "support/laws.hpp"

namespace support {

using Packs = ::testing::Types<
    Described<Causal, HeadScaled, Coped<false, true>>,
    Described<Causal, Coped<false, true>, HeadScaled>,
    Described<Causal, AlibiSloped, Coped<true, true>>,
    Described<Causal, Coped<false, true>, Capped>,
    Described<Causal, Roped<true>, Coped<false, true>, Sunk>,
    Described<Causal, Relatived<true>, Coped<true, true>>,
    Described<Causal, Roped<true>, HeadScaled, Coped<true, true, oracle::Cope::Gates::keys>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(CopeScores, Laws, Packs, PackName);

}  // namespace support
