/* SPDX-License-Identifier: Apache-2.0 */
/* Which planted bug is on; empty in ordinary builds. */
#include "base/bug.h"

#ifdef ROTA_PLANTED
#include <stdlib.h>

int rt_bug;

__attribute__((constructor)) static void read_bug(void)
{
    const char *text = getenv("ROTA_BUG");
    rt_bug = text != NULL ? atoi(text) : 0;
}
#else
typedef int rt_bug_is_not_built_in;
#endif
