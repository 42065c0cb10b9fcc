/* SPDX-License-Identifier: Apache-2.0 */
/* Passwords and tokens do not stay in freed memory: every block is searched when it is freed. */
#include "base/alloc.h"
#include "client/client.h"
#include "engine/etcd/link.h"
#include "engine/etcd/ops.h"
#include "lib/etcd_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- A heap that looks at what it gets back ---------------------------------------------------- */

struct block {
    size_t size;
    _Alignas(max_align_t) char bytes[];
};

static char secrets[2][128]; /* "": none */
static size_t found[2], freed;

static struct block *block_of(void *p)
{
    return (struct block *)(void *)((char *)p - offsetof(struct block, bytes));
}

static void look_through(const struct block *b)
{
    freed++;
    for (size_t i = 0; i < 2; i++)
        if (secrets[i][0] != '\0' &&
            memmem(b->bytes, b->size, secrets[i], strlen(secrets[i])) != NULL)
            found[i]++;
}

static void *heap_calloc(size_t n, size_t size)
{
    struct block *b = calloc(1, sizeof(*b) + n * size);
    assert_non_null(b);
    b->size = n * size;
    return b->bytes;
}

static void heap_free(void *p)
{
    if (p == NULL)
        return;
    look_through(block_of(p));
    free(block_of(p));
}

static void *heap_realloc(void *p, size_t size)
{
    void *grown = heap_calloc(1, size);
    if (p != NULL)
        memcpy(grown, p, block_of(p)->size < size ? block_of(p)->size : size);
    heap_free(p);
    return grown;
}

/* ---- A life ---------------------------------------------------------------------------------------- */

static void nothing_of_them_is_freed(void **state)
{
    static const struct rt_allocator heap = {heap_calloc, heap_realloc, heap_free};
    struct rt_etcds_options user = {.user = true};
    struct rota_options opts = {.flags = ROTA_NO_KEEPER, .call_ms = 15000};
    struct rt_etcds etcds;
    struct rota *r = NULL;
    (void)state;
    rt_etcds_start(&etcds, 1, &user);
    char *url = rt_etcds_url(&etcds, NULL);
    snprintf(secrets[0], sizeof(secrets[0]), "%s", etcds.password);
    rt_alloc_set(&heap);
    if (rota_open(&r, url, &opts) != 0)
        fail_msg("%s", rota_errmsg(NULL));
    const struct rt_etcd_conn *c = rt_etcd_of(r->d.conn);
    assert_non_null(c->token);
    snprintf(secrets[1], sizeof(secrets[1]), "%s", c->token);
    for (int i = 0; i < 3; i++) {
        struct rota_lock *lock = NULL;
        if (rota_acquire(r, "secret", NULL, &lock) != 0)
            fail_msg("%s", rota_errmsg(r));
        assert_int_equal(rota_release(lock), 0);
    }
    rota_close(r);
    rt_alloc_set(NULL);
    assert_true(freed > 50);
    assert_int_equal(found[0], 0); /* the password */
    assert_int_equal(found[1], 0); /* the token */
    free(url);
    rt_etcds_fini(&etcds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_them_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
