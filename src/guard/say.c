/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread's last failing guard had to say, kept where rota_errmsg(NULL) finds it. */
#include "client/client.h"

#include <rota_guard.h>

int rota_guard_say(int err, const char *text)
{
    if (text == NULL)
        return rt_fail(NULL, err, NULL);
    /* Servers end their message with a newline, and some go on after it. */
    return rt_fail(NULL, err, "%.*s", (int)strcspn(text, "\r\n"), text);
}
