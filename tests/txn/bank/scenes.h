/* SPDX-License-Identifier: Apache-2.0 */
/* What the bank plays: a case each. */
#ifndef BANK_SCENES_H
#define BANK_SCENES_H

#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Nobody is left over from the scene before. */
int scene_begin(void **state);
#define SCENE(f) cmocka_unit_test_setup(f, scene_begin)

extern const struct CMUnitTest point_scenes[], other_scenes[];
extern const size_t point_scene_count, other_scene_count;

#endif
