/* SPDX-License-Identifier: Apache-2.0 */
/* jute and the names of tickets: written and read back, in each dialect; foreign ones; lines judged; all of it fuzzed.
 *
 *   test_zookeeper_codec [ROUNDS [SEED]] */
#include "engine/zookeeper/line.h"
#include "engine/zookeeper/zk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROUNDS 20000

static uint64_t seed = 1;
static int rounds = ROUNDS;
static const char *const dialects[] = {"curator", "curator-rw", "curator-latch", "kazoo", "simple"};

static uint32_t roll(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

/* ---- jute ------------------------------------------------------------------------------------- */

static void what_is_written_is_read(void **state)
{
    struct rt_jute_out o = {0};
    (void)state;
    rt_jute_int(&o, -5);
    rt_jute_long(&o, INT64_MIN + 3);
    rt_jute_bool(&o, true);
    rt_jute_text(&o, "/a/b");
    rt_jute_bytes(&o, "", 0);
    rt_jute_set_int(&o, 0, 7);
    struct rt_jute_in in = {o.at, o.size, false};
    assert_int_equal(rt_jute_get_int(&in), 7);
    assert_true(rt_jute_get_long(&in) == INT64_MIN + 3);
    assert_true(rt_jute_get_bool(&in));
    struct rt_text text = rt_jute_get_bytes(&in);
    assert_int_equal(text.size, 4);
    assert_memory_equal(text.at, "/a/b", 4);
    assert_int_equal(rt_jute_get_bytes(&in).size, 0);
    assert_false(in.bad);
    assert_int_equal(in.left, 0);
    assert_int_equal(rt_jute_get_int(&in), 0);
    assert_true(in.bad);
    rt_jute_free(&o);
}

static void sizes_that_cannot_be(void **state)
{
    static const uint8_t negative[] = {0xff, 0xff, 0xff, 0xfe}, none[] = {0xff, 0xff, 0xff, 0xff};
    static const uint8_t huge[] = {0x7f, 0xff, 0xff, 0xff, 'x'};
    struct rt_jute_in in = {negative, 4, false};
    (void)state;
    assert_int_equal(rt_jute_get_bytes(&in).size, 0);
    assert_true(in.bad);
    in = (struct rt_jute_in){none, 4, false};
    assert_int_equal(rt_jute_get_bytes(&in).size, 0);
    assert_false(in.bad);
    in = (struct rt_jute_in){huge, 5, false};
    assert_int_equal(rt_jute_get_count(&in, 4), 0);
    assert_true(in.bad);
}

/* ---- Names ------------------------------------------------------------------------------------ */

static struct rt_zk_id drawn(const struct rt_zk_dialect *d)
{
    struct rt_zk_id id = {.session = seed * 3, .nonce = seed * 5 + 1, .ours = true, .placed = true};
    bool all = d->caps & ROTA_CAP_DURABLE;
    id.seq = (int32_t)roll(UINT32_MAX);
    id.mode = roll(d->caps & ROTA_CAP_SHARED ? 2 : 1);
    id.mode = all ? roll(5) : id.mode;
    id.of = id.mode > RT_SHARED ? 1 + roll(50) : 0;
    id.take = id.mode == RT_PERMITS ? 1 + roll(id.of) : 0;
    id.detect = roll(2) != 0;
    id.durable = all && roll(2) != 0;
    id.until_ms = id.durable && roll(2) != 0 ? roll(100000) + 1 : 0;
    id.keep_ms = all && roll(2) != 0 ? roll(100000) + 1 : 0;
    id.number = roll(2) != 0 ? seed | 1 : 0;
    return id;
}

static void names_are_read_as_written(void **state)
{
    (void)state;
    for (int i = 0; i < rounds; i++) {
        const struct rt_zk_dialect *d = rt_zk_dialect(dialects[roll(5)]);
        struct rt_zk_id id = drawn(d), back;
        char node[RT_ZK_NODE_ROOM], again[RT_ZK_NODE_ROOM];
        rt_zk_node(node, d, &id, d->lone == NULL ? &id.seq : NULL);
        rt_zk_node_read(d, node, &back);
        rt_zk_node(again, d, &back, d->lone == NULL ? &back.seq : NULL);
        if (d->lone != NULL) /* which has no places */
            id.seq = 0, id.placed = false;
        if (strcmp(node, again) != 0 || !back.ours || back.placed != id.placed ||
            back.seq != id.seq || back.session != id.session || back.nonce != id.nonce ||
            back.number != id.number || back.mode != id.mode || back.take != id.take ||
            back.of != id.of)
            fail_msg("%s, %s: read otherwise than it was written", d->name, node);
    }
}

struct foreign {
    const char *dialect, *node;
    bool ours, placed, other;
    uint32_t mode;
    int32_t seq;
};

static void foreign_names(void **state)
{
    static const struct foreign all[] = {
        {"curator", "_c_2f9c1e44-0a0b-4c4d-8e8f-000102030405-lock-0000000007", true, true, false,
         RT_EXCLUSIVE, 7},
        {"curator", "_c_0123456789abcdef0123456789abcdef-lock-0000000012", true, true, false,
         RT_EXCLUSIVE, 12},
        {"curator", "_c_2f9c1e44-0a0b-4c4d-8e8f-000102030405-__READ__0000000003", false, true, true,
         RT_EXCLUSIVE, 3},
        {"curator", "x-1234-0000000004", false, true, false, RT_EXCLUSIVE, 4},
        {"curator", "lock--2147483648", false, true, false, RT_EXCLUSIVE, INT32_MIN},
        {"curator", "readme", false, false, false, RT_EXCLUSIVE, 0},
        {"curator", "_c_2f9c1e44-0a0b-4c4d-8e8f-000102030405-r-p2of5-lock-0000000007", true, true,
         false, RT_PERMITS, 7},
        {"curator", "_c_2f9c1e44-0a0b-4c4d-8e8f-000102030405-zoo-lock-0000000007", false, true,
         false, RT_EXCLUSIVE, 7},
        {"curator", "_c_2f9c1e44-0a0b-4c4d-8e8f-000102030405-p6of5-lock-0000000007", false, true,
         false, RT_EXCLUSIVE, 7},
        {"curator-rw", "_c_2f9c1e44-0a0b-4c4d-8e8f-000102030405-__READ__0000000003", true, true,
         false, RT_SHARED, 3},
        {"curator-rw", "_c_2f9c1e44-0a0b-4c4d-8e8f-000102030405-lock-0000000003", false, true, true,
         RT_EXCLUSIVE, 3},
        {"simple", "_c_2f9c1e44-0a0b-4c4d-8e8f-000102030405-holds", true, false, false,
         RT_EXCLUSIVE, 0},
        {"simple", "_c_2f9c1e44-0a0b-4c4d-8e8f-000102030405-lock-0000000003", false, true, true,
         RT_EXCLUSIVE, 3},
        {"simple", "lock", false, false, false, RT_EXCLUSIVE, 0},
        {"simple", "0123456789abcdef0123456789abcdef__lock__0000000010", false, true, true,
         RT_EXCLUSIVE, 10},
        {"simple", "0123456789abcdef0123456789abcdef__rlock__0000000010", false, true, true,
         RT_EXCLUSIVE, 10},
        {"curator", "_c_2f9c1e44-0a0b-4c4d-8e8f-000102030405-holds", false, false, true,
         RT_EXCLUSIVE, 0},
        {"kazoo", "_c_2f9c1e44-0a0b-4c4d-8e8f-000102030405-holds", false, false, true, RT_EXCLUSIVE,
         0},
        {"curator", "0123456789abcdef0123456789abcdef__lock__0000000010", false, true, false,
         RT_EXCLUSIVE, 10},
        {"curator", "she-holds", false, false, false, RT_EXCLUSIVE, 0},
        {"kazoo", "0123456789abcdef0123456789abcdef__rlock__0000000009", true, true, false,
         RT_SHARED, 9},
        {"kazoo", "0123456789abcdef0123456789abcdef__lock__0000000010", true, true, false,
         RT_EXCLUSIVE, 10},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const struct foreign *f = &all[i];
        struct rt_zk_id id;
        rt_zk_node_read(rt_zk_dialect(f->dialect), f->node, &id);
        if (id.ours != f->ours || id.placed != f->placed || id.other != f->other ||
            id.mode != f->mode || id.seq != f->seq)
            fail_msg("%s, %s: ours %d placed %d other %d mode %u seq %d", f->dialect, f->node,
                     id.ours, id.placed, id.other, (unsigned)id.mode, (int)id.seq);
    }
}

/* ---- Lines ------------------------------------------------------------------------------------ */

static void line_of(struct rt_zk_line *line, const char *const *nodes, size_t n)
{
    struct rt_jute_out o = {0};
    rt_jute_int(&o, (int32_t)n);
    for (size_t i = 0; i < n; i++)
        rt_jute_text(&o, nodes[i]);
    struct rt_jute_in in = {o.at, o.size, false};
    assert_int_equal(rt_zk_line_read(line, rt_zk_dialect("curator"), &in), 0);
    (void)rt_zk_line_judge(line, 0);
    rt_jute_free(&o);
}

#define ID "_c_00000000-0000-0001-0000-00000000000"

/* Also where the sequence wraps around, and a keeper beside its ticket is one place with it. */
static void lines_are_ordered(void **state)
{
    static const char *const nodes[] = {ID "3-r-lock--2147483648", ID "2-k5-lock-2147483647",
                                        ID "4-lock--2147483647", ID "2-d-k5-n9-lock-2147483647"};
    struct rt_zk_line line = {0};
    (void)state;
    line_of(&line, nodes, 4);
    assert_int_equal(line.count, 3);
    assert_int_equal(line.waiting, 2);
    assert_string_equal(line.places[0].node, nodes[1]);
    assert_string_equal(line.places[0].keeper, nodes[3]);
    assert_string_equal(line.places[1].node, nodes[0]);
    assert_ptr_equal(rt_zk_line_aim(&line, &line.places[2]), &line.places[1]);
    rt_zk_line_fini(&line);
}

/* Numbers that no ZooKeeper gives, as far apart as they can be: whoever is behind somebody stays there, in whatever
 * order a server lists them. */
static void odd_numbers_move_nobody(void **state)
{
    static const char *const nodes[] = {"x-1500000000",         "x-3000000000",
                                        ID "1-lock-0000000000", ID "2-lock-0000000001",
                                        "x-0000000900",         "x-0000000901"};
    const char *listed[6];
    (void)state;
    for (int order = 0; order < 720; order++) {
        struct rt_zk_line line = {0};
        memcpy(listed, nodes, sizeof(nodes));
        for (int i = 5, rest = order; i > 0; rest /= i + 1, i--) {
            const char *other = listed[rest % (i + 1)];
            listed[rest % (i + 1)] = listed[i];
            listed[i] = other;
        }
        line_of(&line, listed, 6);
        assert_true(rt_zk_line_node(&line, nodes[2]) < rt_zk_line_node(&line, nodes[3]));
        rt_zk_line_fini(&line);
    }
}

static void barriers_open_when_they_are_full(void **state)
{
    static const char *const nodes[] = {ID "1-g2-lock-0000000001", ID "2-g2-lock-0000000002",
                                        ID "3-g2-lock-0000000003"};
    struct rt_zk_line line = {0};
    (void)state;
    line_of(&line, nodes, 3);
    assert_int_equal(line.waiting, 3);
    assert_ptr_equal(line.opener, &line.places[1]);
    line.opener = NULL;
    line.bounded = true;
    line.bound = 2;
    (void)rt_zk_line_judge(&line, 0);
    assert_int_equal(line.waiting, 1);
    assert_null(line.opener);
    rt_zk_line_fini(&line);
}

/* ---- Fuzzed ----------------------------------------------------------------------------------- */

static void whatever_a_server_lists(void **state)
{
    static const char *const parts[] = {
        "_c_",       "-lock-", "0000000001", "-p",  "of",  "-",
        "__READ__",  "-d",     "-t9",        "-k1", "-g2", "00000000-0000-0001-0000-000000000001",
        "9999999999"};
    (void)state;
    for (int i = 0; i < rounds; i++) {
        struct rt_jute_out o = {0};
        struct rt_zk_line line = {0};
        uint32_t n = roll(6);
        rt_jute_int(&o, (int32_t)(roll(20) == 0 ? roll(UINT32_MAX) : n));
        while (n-- > 0) {
            char node[512] = "";
            for (uint32_t k = roll(9); k > 0; k--)
                strcat(node, parts[roll(sizeof(parts) / sizeof(parts[0]))]);
            rt_jute_text(&o, node);
        }
        for (uint32_t k = roll(3); k > 0 && o.size > 0; k--)
            o.at[roll((uint32_t)o.size)] = (uint8_t)roll(256);
        struct rt_jute_in in = {o.at, o.size - roll(2) * roll((uint32_t)o.size), false};
        if (rt_zk_line_read(&line, rt_zk_dialect(dialects[roll(5)]), &in) == 0) {
            (void)rt_zk_line_judge(&line, roll(100));
            for (size_t k = 0; k < line.count; k++)
                if (!line.places[k].granted)
                    (void)rt_zk_line_aim(&line, &line.places[k]);
        }
        rt_zk_line_fini(&line);
        rt_jute_free(&o);
    }
}

static void whatever_a_server_says_of_several(void **state)
{
    (void)state;
    for (int i = 0; i < rounds; i++) {
        uint8_t bytes[96];
        struct rt_zk_reply reply = {.body = {bytes, roll(sizeof(bytes)), false}};
        for (size_t k = 0; k < sizeof(bytes); k++)
            bytes[k] = (uint8_t)(roll(3) == 0 ? roll(256) : roll(4) == 0 ? 255 : 0);
        (void)rt_zk_multi_read(&reply, NULL, NULL);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(sizes_that_cannot_be),
        cmocka_unit_test(names_are_read_as_written),
        cmocka_unit_test(foreign_names),
        cmocka_unit_test(lines_are_ordered),
        cmocka_unit_test(odd_numbers_move_nobody),
        cmocka_unit_test(barriers_open_when_they_are_full),
        cmocka_unit_test(whatever_a_server_lists),
        cmocka_unit_test(whatever_a_server_says_of_several),
    };
    rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : seed;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
