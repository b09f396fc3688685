/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AVICEMU_VERSION_H
#define AVICEMU_VERSION_H

/*
 * Version of these headers. meson asserts that it equals the project version.
 * Before 1.0 a change of the minor number may break source compatibility;
 * CHANGELOG.md says which upgrade step it takes.
 */
#define AVICEMU_VERSION_MAJOR 0
#define AVICEMU_VERSION_MINOR 1
#define AVICEMU_VERSION_PATCH 0

#endif
