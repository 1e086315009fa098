// SPDX-License-Identifier: Apache-2.0
//
// The laws for scores that bend the logits, and for sinks.

#include "support/laws.hpp"

namespace support {

using Packs = ::testing::Types<
    Described<Causal, Capped>, Described<Causal, Bent>, Described<Causal, Uneven>,
    Described<Causal, HeadScaled, Capped>, Described<Causal, Sunk>, Described<Dense<false>, Sunk>,
    Described<Causal, Padded, Bent, Sunk>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Pointwises, Laws, Packs, PackName);

}  // namespace support
