// SPDX-License-Identifier: Apache-2.0
//
// The laws for relative vectors, in and beside other scores.

#include "support/laws.hpp"

namespace support {

using Packs =
    ::testing::Types<Described<Causal, Relatived<false>>, Described<Causal, Relatived<true>>,
                     Described<Relatived<true>>, Described<Causal, Placed, Relatived<true>>,
                     Described<Causal, HeadScaled, Relatived<false>>,
                     Described<Causal, Scaled, Relatived<true>, Roped<true>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Relatives, Laws, Packs, PackName);

}  // namespace support
