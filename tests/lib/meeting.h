/* SPDX-License-Identifier: Apache-2.0 */
/* A client meets a server that is not one: for tests with cmocka that link the library. */
#ifndef RT_MEETING_H
#define RT_MEETING_H

#include "rogue.h"

#include <stdint.h>

#define MEETING_EITHER 1 /* ROTA_PROTOCOL, or ROTA_UNREACHABLE: by how its bytes fall into reads */

/* Opens SCHEME://such a server/PATH and works there, with CALL_MS for each call: the result is ERR, with WORDS and
 * without SECRETS, as in refusal_assert; and no descriptor stays open. WHAT is printed. */
void meeting(const struct rogue_options *opts, const char *scheme, const char *path,
             uint32_t call_ms, const char *what, int err, const char *words,
             const char *const *secrets);

#endif
