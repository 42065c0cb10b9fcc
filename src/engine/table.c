/* SPDX-License-Identifier: Apache-2.0 */
/* The engines of this build, by URL scheme. */
#include "engine/engine.h"
#include "engine/mem/mem.h"
#include "engines.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#if ROTA_ENGINE_FILE
extern const struct rt_engine rt_engine_file;
#endif
#if ROTA_ENGINE_REDIS
extern const struct rt_engine rt_engine_redis, rt_engine_redlock;
#endif
#if ROTA_ENGINE_ETCD
extern const struct rt_engine rt_engine_etcd;
#endif
#if ROTA_ENGINE_POSTGRES
extern const struct rt_engine rt_engine_postgres;
#endif
#if ROTA_ENGINE_MYSQL
extern const struct rt_engine rt_engine_mysql;
#endif
#if ROTA_ENGINE_ZOOKEEPER
extern const struct rt_engine rt_engine_zookeeper;
#endif

static const struct rt_engine *const engines[] = {
#if ROTA_ENGINE_FILE
    &rt_engine_file,
#endif
#if ROTA_ENGINE_REDIS
    &rt_engine_redis,     &rt_engine_redlock,
#endif
#if ROTA_ENGINE_ETCD
    &rt_engine_etcd,
#endif
#if ROTA_ENGINE_POSTGRES
    &rt_engine_postgres,
#endif
#if ROTA_ENGINE_MYSQL
    &rt_engine_mysql,
#endif
#if ROTA_ENGINE_ZOOKEEPER
    &rt_engine_zookeeper,
#endif
    &rt_engine_mem,
};

/* What engine.h does not allow to be NULL. */
static bool is_whole(const struct rt_engine *e)
{
    return e->schemes != NULL && e->params != NULL && e->conn_size >= sizeof(struct rt_conn) &&
           e->open != NULL && e->close != NULL && e->submit != NULL && e->cancel != NULL &&
           e->caps != NULL;
}

const struct rt_engine *rt_engine_find(const char *scheme)
{
    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
        assert(is_whole(engines[i]));
    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
        for (const char *const *s = engines[i]->schemes; *s != NULL; s++)
            if (strcmp(*s, scheme) == 0)
                return engines[i];
    return NULL;
}

void rt_engine_list(char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]) && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s:", at > 0 ? ", " : "",
                               engines[i]->schemes[0]);
    assert(at < size);
}
