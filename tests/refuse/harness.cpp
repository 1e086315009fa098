// expect: heed: this case only shows that the harness works
#include <heed/version.hpp>

#ifdef HEED_REFUSE
static_assert(HEED_VERSION_MAJOR < 0, "heed: this case only shows that the harness works");
#endif
