// SPDX-License-Identifier: Apache-2.0
//
// The laws for masks: by position, by index, and none at all.

#include "support/laws.hpp"

namespace support {

using Packs = ::testing::Types<
    Described<>, Described<Causal>, Described<WindowSinks>, Described<NarrowWindow>,
    Described<NotWhere>, Described<Documents>, Described<Dense<false>>, Described<Dense<true>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Masks, Laws, Packs, PackName);

}  // namespace support
