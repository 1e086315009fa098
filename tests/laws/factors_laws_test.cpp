// SPDX-License-Identifier: Apache-2.0
//
// The laws for scores that multiply: folded into the queries when they stand first, or not.

#include "support/laws.hpp"

namespace support {

using Packs = ::testing::Types<
    Described<Causal, Scaled>, Described<Causal, HeadScaled>, Described<Causal, LogScaled>,
    Described<HeadScaled, Scaled, LogScaled, Causal>, Described<Causal, Biased, HeadScaled>,
    Described<Causal, Placed, LogScaled>, Described<HeadScaled>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Factors, Laws, Packs, PackName);

}  // namespace support
