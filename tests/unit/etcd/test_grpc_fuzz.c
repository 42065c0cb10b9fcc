/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations mutated: bytes flipped, lost, doubled, moved, and frames of any kind between good ones.
 * Nothing crashes or hangs, every call ends exactly once, memory stays bounded, nothing leaks.
 *
 *   test_grpc_fuzz [ROUNDS [SEED]] */
#include "engine/etcd/proto.h"
#include "lib/h2_raw.h"
#include "lib/scarce.h"
#include "peer.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROUNDS 3000
#define CALLS 8
#define MOST (4u << 20) /* of the heap: nothing here says more */

static uint64_t seed = 1;
static int rounds = ROUNDS;
static long survived, went_well;

static uint32_t roll(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

/* ---- What is said ---------------------------------------------------------------------------- */

static void insert(struct grpc_bytes *b, size_t at, const void *bytes, size_t n)
{
    struct grpc_bytes copy = {0};
    grpc_bytes_add(&copy, b->at, at);
    grpc_bytes_add(&copy, bytes, n);
    grpc_bytes_add(&copy, b->at + at, b->size - at);
    free(b->at);
    *b = copy;
}

static void mutate_byte(struct grpc_bytes *b)
{
    uint8_t noise[16];
    size_t at = roll((uint32_t)b->size), n = 1 + roll(16);
    n = n < b->size - at ? n : b->size - at;
    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (uint8_t)roll(256);
    switch (roll(6)) {
    case 0:
        b->at[at] ^= (uint8_t)(1u << roll(8));
        break;
    case 1:
        b->at[at] = (uint8_t)roll(256);
        break;
    case 2: /* lost */
        memmove(b->at + at, b->at + at + n, b->size - at - n);
        b->size -= n;
        break;
    case 3: { /* doubled */
        uint8_t again[16];
        memcpy(again, b->at + at, n);
        insert(b, at, again, n);
        break;
    }
    case 4:
        insert(b, at, noise, n);
        break;
    default: /* cut off */
        b->size = at;
    }
}

/* Where a frame begins, the one after AT. */
static size_t next_frame(const struct grpc_bytes *b, size_t at)
{
    if (b->size - at < 9)
        return b->size;
    size_t n = 9 + ((size_t)b->at[at] << 16 | (size_t)b->at[at + 1] << 8 | b->at[at + 2]);
    return n < b->size - at ? at + n : b->size;
}

/* A frame of any kind, at a place where one may be. */
static void mutate_frame(struct grpc_bytes *b)
{
    struct grpc_bytes f = {0};
    uint8_t noise[64];
    size_t at = 0;
    for (uint32_t i = roll(12); i > 0 && at < b->size; i--)
        at = next_frame(b, at);
    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = roll(3) == 0 ? (uint8_t)roll(256) : (uint8_t)roll(4);
    uint8_t flags = (uint8_t)(roll(2) == 0 ? roll(256) : 1u << roll(6));
    raw_frame(&f, (uint8_t)roll(11), flags, roll(4) == 0 ? 0 : roll(2 * CALLS + 2), noise,
              roll(64));
    insert(b, at, f.at, f.size);
    free(f.at);
}

/* Two frames change places. */
static void mutate_order(struct grpc_bytes *b)
{
    size_t at = 0, middle, end;
    for (uint32_t i = roll(12); i > 0 && at < b->size; i--)
        at = next_frame(b, at);
    middle = next_frame(b, at);
    end = next_frame(b, middle);
    if (middle == at || end == middle)
        return;
    uint8_t *first = malloc(middle - at);
    memcpy(first, b->at + at, middle - at);
    memmove(b->at + at, b->at + middle, end - middle);
    memcpy(b->at + at + (end - middle), first, middle - at);
    free(first);
}

/* A response of etcd's, as it might come. */
static size_t some_message(uint8_t *out)
{
    static const uint8_t watch[] = {0x0a, 4, 8, 1,    16, 2,    0x10, 7,   0x18, 1, 0x5a,
                                    9,    8, 1, 0x12, 5,  0x0a, 1,    'k', 0x10, 3};
    memcpy(out, watch, sizeof(watch));
    return sizeof(watch);
}

/* ---- A round --------------------------------------------------------------------------------- */

static void try_to_unpack(struct told *t)
{
    struct rt_arena a;
    void *m;
    a = RT_ETCD_ARENA;
    if (t->last.size > 0)
        (void)rt_etcd_unpack(&a,
                             roll(2) == 0 ? &rt_etcd__watch_response__descriptor
                                          : &rt_etcd__txn_response__descriptor,
                             t->last.at, t->last.size, &m);
    rt_arena_fini(&a);
}

static void maybe_cancel(struct told *t)
{
    try_to_unpack(t);
    if (roll(20) == 0) {
        rt_grpc_cancel(t->call);
        t->arg = t; /* canceled: no end is told */
    } else if (roll(4) == 0) {
        (void)rt_grpc_send(t->call, "more", 4);
    }
}

static void begin_calls(struct peer *p, struct told *calls, int *begun)
{
    for (int i = 0; i < CALLS; i++) {
        calls[i].on_message = maybe_cancel;
        calls[i].on_end = try_to_unpack;
        begun[i] = i % 3 == 0 ? told_stream(&calls[i], p->g, "watch", 5)
                              : told_unary(&calls[i], p->g, "question", 8);
    }
}

static void script(struct peer *p, struct grpc_bytes *out)
{
    uint8_t message[64];
    size_t n = some_message(message);
    for (size_t i = 0; i < p->count; i++) {
        bool stream = strstr(p->streams[i]->path, "Watch") != NULL;
        if (roll(8) == 0) {
            peer_refuse(p, i, "200", "application/grpc", "14", "etcdserver: no leader");
            continue;
        }
        if (stream)
            peer_answer(p, i, message, n, NULL, NULL);
        peer_answer(p, i, message, n, stream && roll(2) == 0 ? NULL : "0", NULL);
    }
    if (roll(10) == 0)
        (void)nghttp2_submit_goaway(p->server.session, 0, (int32_t)roll(2 * CALLS), roll(14), NULL,
                                    0);
    (void)grpc_server_says(&p->server, out);
}

static void one_round(void)
{
    static struct peer p;
    struct told calls[CALLS] = {0};
    struct grpc_bytes out = {0};
    int begun[CALLS];
    p = (struct peer){0};
    scarce_begin();
    peer_open(&p);
    begin_calls(&p, calls, begun);
    peer_server_reads(&p);
    script(&p, &out);
    for (uint32_t i = roll(5); i > 0 && out.size > 0; i--) {
        uint32_t kind = roll(4);
        if (kind == 0)
            mutate_frame(&out);
        else if (kind == 1)
            mutate_order(&out);
        else
            mutate_byte(&out);
    }
    p.chunk = roll(3) == 0 ? 1 + roll(40) : 0;
    peer_feed(&p, out.at, out.size);
    assert_true(scarce.bytes < MOST);
    survived += p.err == 0;
    rt_grpc_down(p.g, p.err != 0 ? p.err : ROTA_UNREACHABLE, "end");
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(calls[i].ends, begun[i] == 0 && calls[i].arg == NULL ? 1 : 0);
        went_well += calls[i].ends == 1 && calls[i].status == RT_GRPC_OK;
        told_clear(&calls[i]);
    }
    peer_close(&p);
    assert_int_equal(scarce.live, 0);
    scarce_end();
    free(out.at);
}

static void mutations(void **state)
{
    (void)state;
    for (int i = 0; i < rounds; i++)
        one_round();
    print_message("%d rounds: %ld connections survived, %ld of %ld calls went well\n", rounds,
                  survived, went_well, (long)rounds * CALLS);
    assert_true(survived > rounds / 10 && went_well > rounds); /* it is not all noise */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mutations)};
    if (argc > 1)
        rounds = (int)strtol(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
