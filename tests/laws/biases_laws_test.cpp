// SPDX-License-Identifier: Apache-2.0
//
// The laws for scores that add to the logits.

#include "support/laws.hpp"

namespace support {

using Packs = ::testing::Types<
    Described<Causal, AlibiSloped>, Described<AlibiSloped>, Described<Causal, Placed, AlibiSloped>,
    Described<Causal, T5Biased>, Described<Causal, Biased>, Described<Biased, Dense<false>>,
    Described<Causal, AlibiSloped, Biased>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Biases, Laws, Packs, PackName);

}  // namespace support
