/* SPDX-License-Identifier: Apache-2.0 */
/* Connects like a keeper, for callers that are not: nobody cancels it, and it has its own time limit. */
#include "txn/manager/resource_inside.h"

#include "net/loop.h"
#include "txn/branch/talk.h"

#include <rota.h>

#include <stdio.h>
#include <string.h>

#define PASSWORD_ROOM 1024

/* One place after the other, each with its share of the time. The error of the first that refuses us counts. */
static int dial_any(const struct rt_reach *reach, const struct rt_url *url, int64_t until,
                    bool several, void **conn, char *errmsg, size_t size)
{
    struct rt_resource nobody = {.wake = -1,
                                 .nearest = INT64_MAX,
                                 .mu = PTHREAD_MUTEX_INITIALIZER,
                                 .seen = PTHREAD_COND_INITIALIZER};
    char marks[RT_PARTY_MARKS_MAX], why[RT_RESOURCE_LINE] = "";
    int err = ROTA_UNREACHABLE;
    size_t count = 1;

    for (size_t i = 0; i < count; i++) {
        int64_t now = rt_loop_clock();
        struct rt_effort effort = {
            .r = &nobody, .until = now + (until - now) / (int64_t)(count - i), .several = several};
        int last = reach->connect(url, i, &count, &effort, conn, marks, why, sizeof(why));
        if (last == 0)
            return 0;
        if (i == 0 || err == ROTA_UNREACHABLE) {
            err = last;
            snprintf(errmsg, size, "%s", why);
        }
    }
    return err;
}

int rt_reach_dial(const struct rt_reach *reach, const struct rt_url *url, int64_t ns, bool several,
                  void **conn, char *errmsg, size_t size)
{
    char password[PASSWORD_ROOM] = "";
    struct rt_url own = *url; /* its texts belong to URL */

    int err = rt_url_check_params(url, reach->params, errmsg, size);
    if (err == 0)
        err = reach->kind->talk->load(errmsg, size);
    if (err == 0)
        err = rt_url_password(url, password, sizeof(password), errmsg, size);
    if (password[0] != '\0')
        own.password = password;
    if (err == 0)
        err = dial_any(reach, &own, rt_loop_clock() + ns, several, conn, errmsg, size);
    explicit_bzero(password, sizeof(password));
    return err;
}
