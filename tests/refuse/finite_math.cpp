// expect: heed: masked logits are infinite, so -ffinite-math-only
#ifdef HEED_REFUSE
#pragma GCC diagnostic ignored "-Wbuiltin-macro-redefined"
#undef __FINITE_MATH_ONLY__
#define __FINITE_MATH_ONLY__ 1
#endif
#include <heed/heed.hpp>
