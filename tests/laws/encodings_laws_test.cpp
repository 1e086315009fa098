// SPDX-License-Identifier: Apache-2.0
//
// The laws for encodings, alone and beside masks, placements and scores.

#include "support/laws.hpp"

namespace support {

using Packs = ::testing::Types<
    Described<Causal, Roped<true>>, Described<Roped<false>>,
    Described<Placed, Roped<true>, WindowSinks>, Described<Causal, Padded, Roped<false>>,
    Described<Causal, HeadScaled, Roped<true>>, Described<Roped<true>, Roped<false>, Causal>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Encodings, Laws, Packs, PackName);

}  // namespace support
