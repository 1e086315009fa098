// SPDX-License-Identifier: Apache-2.0
//
// R62: the choice of a level is a pure function of what CPUID and XGETBV report.

#include <gtest/gtest.h>

#include <heed/simd/dispatch.hpp>

namespace {

using heed::Isa;
using heed::simd::best_isa;
using heed::simd::Cpu;

constexpr std::uint32_t kFma = 1u << 12, kOsxsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
constexpr std::uint32_t kBmi1 = 1u << 3, kAvx2 = 1u << 5, kBmi2 = 1u << 8;
constexpr std::uint32_t kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31;
constexpr std::uint32_t kLzcnt = 1u << 5;

// A machine that has everything.
constexpr Cpu full() {
  Cpu cpu;
  cpu.leaf1_ecx = kFma | kOsxsave | kAvx | kF16c;
  cpu.leaf7_ebx = kBmi1 | kAvx2 | kBmi2 | kF | kDq | kBw | kVl;
  cpu.extended1_ecx = kLzcnt;
  cpu.xcr0 = 0xe7;
  return cpu;
}
template <class Change>
Isa without(const Change& change) {
  Cpu cpu = full();
  change(cpu);
  return best_isa(cpu);
}

TEST(Dispatch, R62EverythingIsAvx512) { EXPECT_EQ(best_isa(full()), Isa::avx512); }
TEST(Dispatch, R62SystemThatSavesNoZmmIsAvx2) {
  EXPECT_EQ(without([](Cpu& c) { c.xcr0 = 0x7; }), Isa::avx2);
  EXPECT_EQ(without([](Cpu& c) { c.xcr0 = 0x27; }), Isa::avx2);   // masks only
  EXPECT_EQ(without([](Cpu& c) { c.xcr0 = 0xc7; }), Isa::avx2);   // zmm without masks
}
TEST(Dispatch, R62SystemThatSavesNoYmmIsGeneric) {
  EXPECT_EQ(without([](Cpu& c) { c.xcr0 = 0x3; }), Isa::generic);
  EXPECT_EQ(without([](Cpu& c) { c.xcr0 = 0xe3; }), Isa::generic);
  EXPECT_EQ(without([](Cpu& c) { c.xcr0 = 0; }), Isa::generic);
  EXPECT_EQ(without([](Cpu& c) { c.leaf1_ecx &= ~kOsxsave; }), Isa::generic);
}
TEST(Dispatch, R62HalfOfAvx512IsAvx2) {
  for (const std::uint32_t bit : {kF, kDq, kBw, kVl}) {
    EXPECT_EQ(without([&](Cpu& c) { c.leaf7_ebx &= ~bit; }), Isa::avx2) << bit;
  }
}
TEST(Dispatch, R62HalfOfAvx2IsGeneric) {
  for (const std::uint32_t bit : {kFma, kAvx, kF16c}) {
    EXPECT_EQ(without([&](Cpu& c) { c.leaf1_ecx &= ~bit; }), Isa::generic) << bit;
  }
  for (const std::uint32_t bit : {kBmi1, kAvx2, kBmi2}) {
    EXPECT_EQ(without([&](Cpu& c) { c.leaf7_ebx &= ~bit; }), Isa::generic) << bit;
  }
  EXPECT_EQ(without([](Cpu& c) { c.extended1_ecx = 0; }), Isa::generic);
}
TEST(Dispatch, R62NothingIsGeneric) { EXPECT_EQ(best_isa(Cpu{}), Isa::generic); }

TEST(Dispatch, ForcedLevelOnlyLowers) {
  using heed::simd::choose_isa;
  EXPECT_EQ(choose_isa(Isa::avx512, "avx2"), Isa::avx2);
  EXPECT_EQ(choose_isa(Isa::avx512, "generic"), Isa::generic);
  EXPECT_EQ(choose_isa(Isa::avx2, "avx512"), Isa::avx2);
  EXPECT_EQ(choose_isa(Isa::generic, "avx2"), Isa::generic);
}
TEST(Dispatch, UnknownLevelIsIgnored) {
  using heed::simd::choose_isa;
  EXPECT_EQ(choose_isa(Isa::avx2, nullptr), Isa::avx2);
  EXPECT_EQ(choose_isa(Isa::avx2, ""), Isa::avx2);
  EXPECT_EQ(choose_isa(Isa::avx2, "sse9"), Isa::avx2);
}
// So that a run which should test one level does not test another.
TEST(Dispatch, EnvironmentIsObeyed) {
  const char* forced = std::getenv("HEED_ISA");
  const Isa best = best_isa(heed::simd::this_cpu());
  EXPECT_EQ(heed::isa(), heed::simd::choose_isa(best, forced));
}

}  // namespace
