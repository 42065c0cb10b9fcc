/* SPDX-License-Identifier: Apache-2.0 */
/* What a URL stands for, before there is a client: an engine, its parameters, the password. */
#ifndef RT_TARGET_H
#define RT_TARGET_H

#include "client/client.h"
#include "engine/url.h"

#define RT_PASSWORD_ROOM 1024
#define RT_DEFAULT_CALL_MS 5000

struct rt_target {
    struct rt_url url;
    char *named; /* the URL a name stood for; NULL: it was a URL */
    const struct rt_engine *engine;
    char password[RT_PASSWORD_ROOM]; /* from elsewhere than the URL; "": none */
    uint32_t ttl_ms;
    char errmsg[RT_ERRMSG_SIZE];
};

/* Finds out what TEXT (as in rota_open) and TTL_MS (0: the default) mean, and checks all that needs no
 * connection. Give T back with rt_target_fini, also after an error, which errmsg explains. */
int rt_target_find(struct rt_target *t, const char *text, uint32_t ttl_ms);
void rt_target_fini(struct rt_target *t);

/* Opens a connection with the up, loop, label and call_ms of GIVEN. *OUT is to be closed and rt_freed. */
int rt_target_open(struct rt_target *t, const struct rt_conn *given, struct rt_conn **out);

/* As rota_ddl, of an engine that was found. */
int rt_target_ddl(struct rt_target *t, rota_ddl_fn *fn, void *arg);

#endif
