/* SPDX-License-Identifier: Apache-2.0 */
/* The counter in etcd, which also has the lock. */
#include "lib/etcd_server.h"
#include "lib/http.h"
#include "scene.h"

#include <rota_guard.h>
#include <unistd.h>

static struct rt_etcds etcds;

struct db {
    int fd;
    char answer[16384];
};

static char *start(void)
{
    rt_etcds_start(&etcds, 1, NULL);
    return rt_etcds_url(&etcds, NULL);
}

static void reset(void)
{
    rt_etcds_must(&etcds, "del", "count");
    rt_etcds_must(&etcds, "del", "count.fence");
}

static void fini(void)
{
    rt_etcds_fini(&etcds);
}

static void *open_db(void)
{
    struct db *db = calloc(1, sizeof(*db));

    if (db == NULL || (db->fd = rt_http_open(etcds.node[0].server.port)) < 0)
        abort();
    return db;
}

static void close_db(void *arg)
{
    struct db *db = arg;

    close(db->fd);
    free(db);
}

/* A Txn without a comparison, in the same words: it always succeeds. */
static char *unguarded(const char *request)
{
    const char *begin = strstr(request, "\"success\""), *end = strstr(request, ",\"failure\"");
    char *txn = NULL;

    if (asprintf(&txn, "{%.*s}", (int)(end - begin), begin) < 0)
        abort();
    return txn;
}

static int send_txn(struct db *db, uint64_t fence, const char *value, char *got, size_t room)
{
    size_t size = 0;
    char *request;

    int err = rota_guard_etcd("count", fence != 0 ? fence : 1, value,
                              value != NULL ? strlen(value) : 0, &request);
    if (err != 0)
        return err;
    char *plain = unguarded(request);
    err = rt_http_post(db->fd, "/v3/kv/txn", fence != 0 ? request : plain, db->answer,
                       sizeof(db->answer));
    free(plain);
    rota_guard_etcd_free(request);
    if (err != 0)
        return ROTA_UNREACHABLE;
    err = rota_guard_etcd_answer(db->answer, got, room, &size);
    if (err == 0 && got != NULL)
        got[size] = '\0';
    return err;
}

static int look(void *db, uint64_t fence, uint64_t *value)
{
    char text[32] = "";
    int err = send_txn(db, fence, NULL, text, sizeof(text) - 1);

    *value = err == 0 ? strtoull(text, NULL, 10) : 0;
    return err;
}

static int write_db(void *db, uint64_t fence, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return send_txn(db, fence, text, NULL, 0);
}

const struct guard_store guard_store = {.name = "etcd",
                                        .start = start,
                                        .reset = reset,
                                        .fini = fini,
                                        .open = open_db,
                                        .close = close_db,
                                        .look = look,
                                        .write = write_db};
