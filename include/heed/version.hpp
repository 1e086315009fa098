// SPDX-License-Identifier: Apache-2.0
//
// The version of heed, and the only place that states it: CMake reads these lines, and from there
// it goes into the package config and heed.pc. Semantic; while the major number is 0, a new minor
// number may change the API.
#pragma once

#define HEED_VERSION_MAJOR 0
#define HEED_VERSION_MINOR 1
#define HEED_VERSION_PATCH 0
