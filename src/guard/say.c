/* SPDX-License-Identifier: Apache-2.0 */
/* What the last failing guard of a thread had to say: kept where rota_errmsg(NULL) finds it. */
#include "client/client.h"

#include <rota_guard.h>

int rota_guard_say(int err, const char *text)
{
    return text != NULL ? rt_fail(NULL, err, "%s", text) : rt_fail(NULL, err, NULL);
}
