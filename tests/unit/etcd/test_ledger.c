/* SPDX-License-Identifier: Apache-2.0 */
/* Every op of the etcd engine as etcd sees it: which keys, on which lease, under which conditions, what is watched, and what
 * users are told. The expected text is the test: a condition that is left out is an update lost (I1), a lease that is not ended
 * stays for years (I6), a flight more is twice the time. */
#include "ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static int cookie; /* of observers */

static void two_people(void)
{
    person_open('a');
    person_open('b');
    beat('a', true);
    beat('b', true);
    ledger_forget();
}

static uint64_t number(const struct rt_op *op)
{
    return op->join.joins[0].number;
}

/* ---- Sessions ------------------------------------------------------------------------------ */

static void sessions(void **state)
{
    (void)state;
    person_open('a');
    beat('a', true);
    beat('a', false);
    end_session('a');
    beat('a', false);
    expect("> a lease of 10 s => 7101\n"
           "> a put +rota/7101 'ann' on 7101\n"
           "a open ok 7101 10000 ms\n"
           "> a watch +rota/7101\n"
           "> a left 7101 keys => 9 s, 1 keys\n"
           "> a keep 7101 => 10 s\n"
           "a beat ok 7101 10000 ms\n"
           "> a unwatch +rota/7101\n"
           "> a revoke 7101\n"
           "a beat LOST: session 7101 has ended\n");
}

/* Its key tells of its end at once; a keep-alive that fails is not believed before the key was looked for. */
static void sessions_that_end(void **state)
{
    (void)state;
    two_people();
    join('a', (struct rt_join){.name = "lock", .nonce = 1});
    join('b', (struct rt_join){.name = "lock", .nonce = 2});
    lease_ends(0x7101);
    beat('a', false);
    join('a', (struct rt_join){.name = "lock", .nonce = 3});
    beat('a', true);
    expect(
        "> a if version lock/7101-s1 = 0 then put lock/7101-s1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-s1 => yes\n"
        "a join ok #4 granted\n"
        "> b if version lock/7202-s1 = 0 then put lock/7202-s1 'rota1_0_0_0_-_0_0_T_2_3_bob_' on 7202, get lock/..lock0 by create limit 2 else get lock/7202-s1 => yes\n"
        "b join ok #5\n"
        "> b watch lock/7101-s1 no puts\n"
        "> b if create lock/7202-s1 = 5 then get lock/..lock0 by create down limit 1 to 4, get lock/..lock0 by create limit 1 from 6 keys => yes\n"
        "a session lost 7101\n"
        "> a unwatch +rota/7101\n"
        "> b unwatch lock/7101-s1\n"
        "> b if create lock/7202-s1 = 5 then get lock/..lock0 by create down limit 1 to 4, get lock/..lock0 by create limit 1 from 6 keys => yes\n"
        "b granted lock #5\n"
        "a beat LOST: session 7101 has ended\n"
        "a join LOST: session 7101 has ended\n"
        "> a lease of 10 s => 7303\n"
        "> a put +rota/7303 'ann' on 7303\n"
        "a open ok 7303 10000 ms\n"
        "> a watch +rota/7303\n"
        "> a left 7303 keys => 9 s, 1 keys\n");
}

/* A ticket of it that others deleted is missed with the next beat; what stands there unknown to us is taken up. */
static void a_beat_looks_at_what_the_lease_has(void **state)
{
    (void)state;
    static const uint64_t tickets[] = {4};
    two_people();
    join('a', (struct rt_join){.name = "lock", .nonce = 1});
    others_put("stray/7101-9", "rota1 0 0 0 - 0 0 0 9 0  ", 0x7101);
    others_put("data/7101-8", "rota2 x", 0x7101);
    others_put("other/thing", "data", 0x7101);
    others_delete("lock/7101-s1");
    struct rt_op op = {.kind = RT_OP_BEAT, .user = (void *)(uintptr_t) "beat"};
    op.beat.session = 0x7101;
    op.beat.tickets = tickets;
    op.beat.ticket_count = 1;
    town_submit(person('a'), &op);
    ledger_run();
    expect(
        "> a if version lock/7101-s1 = 0 then put lock/7101-s1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-s1 => yes\n"
        "a join ok #4 granted\n"
        "> a keep 7101 => 10 s\n"
        "> a left 7101 keys => 9 s, 4 keys\n"
        "a beat ok 7101 10000 ms\n"
        "> a if create lock/7101-s1 = 4 => no\n"
        "> a get data/7101-8\n"
        "> a get stray/7101-9\n"
        "a lost lock #4\n"
        "> a if create stray/7101-9 = 5 then get stray/..stray0 by create down limit 1 to 4, get stray/..stray0 by create limit 1 from 6 keys => yes\n"
        "a granted stray #5\n");
}

/* ---- Locks --------------------------------------------------------------------------------- */

static void a_lock_is_handed_over(void **state)
{
    (void)state;
    two_people();
    struct rt_op *first = join('a', (struct rt_join){.name = "lock", .nonce = 1, .owner = 5});
    struct rt_op *second = join(
        'b', (struct rt_join){.name = "lock", .nonce = 2, .flags = RT_JOIN_DETECT});
    leave('a', "lock", number(first), 0);
    leave('b', "lock", number(second), 0);
    expect(
        "> a if version lock/7101-s1 = 0 then put lock/7101-s1 'rota1_0_0_0_-_5_0_T_1_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-s1 => yes\n"
        "a join ok #4 granted\n"
        "> b if version lock/7202-s1 = 0 then put lock/7202-s1 'rota1_0_0_0_d_0_0_T_2_3_bob_' on 7202, get lock/..lock0 by create limit 2 else get lock/7202-s1 => yes\n"
        "b join ok #5\n"
        "> b watch lock/7101-s1 no puts\n"
        "> b if create lock/7202-s1 = 5 then get lock/..lock0 by create down limit 1 to 4, get lock/..lock0 by create limit 1 from 6 keys => yes\n"
        "> a if create lock/7101-s1 = 4 then delete lock/7101-s1 => yes\n"
        "a leave ok granted\n"
        "> b unwatch lock/7101-s1\n"
        "> b if create lock/7202-s1 = 5 then get lock/..lock0 by create down limit 1 to 4, get lock/..lock0 by create limit 1 from 6 keys => yes\n"
        "b granted lock #5\n"
        "> b if create lock/7202-s1 = 5 then delete lock/7202-s1 => yes\n"
        "b leave ok granted\n");
}

/* Of three the last waits for the one ahead of it, whoever leaves. */
static void three_in_a_line(void **state)
{
    (void)state;
    two_people();
    person_open('c');
    beat('c', true);
    ledger_forget();
    struct rt_op *first = join('a', (struct rt_join){.name = "lock", .nonce = 1});
    struct rt_op *second = join('b', (struct rt_join){.name = "lock", .nonce = 2});
    join('c', (struct rt_join){.name = "lock", .nonce = 3});
    ledger_forget();
    leave('b', "lock", number(second), 0);
    leave('a', "lock", number(first), 0);
    leave('c', "lock", 0, 3);
    expect(
        "> b if create lock/7202-s1 = 6 then get lock/..lock0 by create, delete lock/7202-s1 => yes\n"
        "b leave ok\n"
        "> b unwatch lock/7101-s1\n"
        "> c unwatch lock/7202-s1\n"
        "> c if create lock/7303-s1 = 7 then get lock/..lock0 by create down limit 1 to 6, get lock/..lock0 by create limit 1 from 8 keys => yes\n"
        "> c watch lock/7101-s1 no puts\n"
        "> c if create lock/7303-s1 = 7 then get lock/..lock0 by create down limit 1 to 6, get lock/..lock0 by create limit 1 from 8 keys => yes\n"
        "> a if create lock/7101-s1 = 5 then delete lock/7101-s1 => yes\n"
        "a leave ok granted\n"
        "> c unwatch lock/7101-s1\n"
        "> c if create lock/7303-s1 = 7 then get lock/..lock0 by create down limit 1 to 6, get lock/..lock0 by create limit 1 from 8 keys => yes\n"
        "c granted lock #7\n"
        "> c if create lock/7303-s1 = 7 then delete lock/7303-s1 => yes\n"
        "c leave ok granted\n");
}

static void tries(void **state)
{
    (void)state;
    two_people();
    join('a', (struct rt_join){.name = "lock", .nonce = 1, .flags = RT_JOIN_TRY});
    join('b', (struct rt_join){.name = "lock", .nonce = 2, .flags = RT_JOIN_TRY});
    join('a', (struct rt_join){.name = "pool",
                               .nonce = 3,
                               .mode = RT_PERMITS,
                               .take = 2,
                               .of = 3,
                               .flags = RT_JOIN_TRY});
    join('b', (struct rt_join){.name = "pool",
                               .nonce = 4,
                               .mode = RT_PERMITS,
                               .take = 2,
                               .of = 3,
                               .flags = RT_JOIN_TRY});
    join('b', (struct rt_join){.name = "pool",
                               .nonce = 5,
                               .mode = RT_PERMITS,
                               .take = 1,
                               .of = 3,
                               .flags = RT_JOIN_TRY});
    others_put("thing/data", "x", 0);
    join('b', (struct rt_join){.name = "thing", .nonce = 6, .flags = RT_JOIN_TRY});
    others_put("held/7101", "x", 0x7101);
    join('b', (struct rt_join){.name = "held", .nonce = 7, .flags = RT_JOIN_TRY});
    expect(
        "> a if create lock/..lock0 = 0 then put lock/7101-s1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-s1, get lock/..lock0 by create limit 2 => yes\n"
        "a join ok #4 granted\n"
        "> b if create lock/..lock0 = 0 then put lock/7202-s1 'rota1_0_0_0_-_0_0_T_2_3_bob_' on 7202, get lock/..lock0 by create limit 2 else get lock/7202-s1, get lock/..lock0 by create limit 2 => no\n"
        "b join BUSY: lock is held by ann\n"
        "> a if create pool/..pool0 = 0 then put pool/7101-s1 'rota1_2_2_3_-_0_0_T_3_3_ann_' on 7101, get pool/..pool0 by create else get pool/7101-s1, get pool/..pool0 by create => yes\n"
        "a join ok #5 granted\n"
        "> b if create pool/..pool0 = 0 then put pool/7202-s1 'rota1_2_2_3_-_0_0_T_4_3_bob_' on 7202, get pool/..pool0 by create else get pool/7202-s1, get pool/..pool0 by create => no\n"
        "b join BUSY: pool is held by ann\n"
        "> b if create pool/..pool0 = 0 then put pool/7202-s1 'rota1_2_1_3_-_0_0_T_5_3_bob_' on 7202, get pool/..pool0 by create else get pool/7202-s1, get pool/..pool0 by create => no\n"
        "> b if mod pool/..pool0 < 6 and version pool/7202-s1 = 0 then put pool/7202-s1 'rota1_2_1_3_-_0_0_T_5_3_bob_' on 7202, get pool/..pool0 by create else get pool/7202-s1, get pool/..pool0 by create => yes\n"
        "b join ok #6 granted\n"
        "> b if create thing/..thing0 = 0 then put thing/7202-s1 'rota1_0_0_0_-_0_0_T_6_3_bob_' on 7202, get thing/..thing0 by create limit 2 else get thing/7202-s1, get thing/..thing0 by create limit 2 => no\n"
        "b join BUSY: thing is held by a key without a lease: thing/data\n"
        "> b if create held/..held0 = 0 then put held/7202-s1 'rota1_0_0_0_-_0_0_T_7_3_bob_' on 7202, get held/..held0 by create limit 2 else get held/7202-s1, get held/..held0 by create limit 2 => no\n"
        "b join BUSY: held is held by lease 7101\n");
}

/* Asked again after a lost reply it is found; where another ticket of ours stands it goes elsewhere. */
static void asked_again(void **state)
{
    (void)state;
    two_people();
    join('a', (struct rt_join){.name = "lock", .nonce = 1});
    join('a', (struct rt_join){.name = "lock", .nonce = 1});
    others_put("spot/7101-s1", "rota1 0 0 0 - 0 0 0 77 0  ", 0x7101);
    join('a', (struct rt_join){.name = "spot", .nonce = 2});
    expect(
        "> a if version lock/7101-s1 = 0 then put lock/7101-s1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-s1 => yes\n"
        "a join ok #4 granted\n"
        "> a if version lock/7101-s1 = 0 then put lock/7101-s1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-s1 => no\n"
        "> a  do get lock/..lock0 by create limit 2 => yes\n"
        "a join ok #4 granted\n"
        "> a if version spot/7101-s1 = 0 then put spot/7101-s1 'rota1_0_0_0_-_0_0_T_2_3_ann_' on 7101, get spot/..spot0 by create limit 2 else get spot/7101-s1 => no\n"
        "> a if version spot/7101-2 = 0 then put spot/7101-2 'rota1_0_0_0_-_0_0_T_2_3_ann_' on 7101, get spot/..spot0 by create limit 2 else get spot/7101-2 => yes\n"
        "a join ok #6\n"
        "> a watch spot/7101-s1 no puts\n"
        "> a if create spot/7101-2 = 6 then get spot/..spot0 by create down limit 1 to 5, get spot/..spot0 by create limit 1 from 7 keys => yes\n");
}

static void readers_and_writers(void **state)
{
    (void)state;
    two_people();
    person_open('c');
    beat('c', true);
    ledger_forget();
    struct rt_op *reader = join(
        'a', (struct rt_join){.name = "file", .nonce = 1, .mode = RT_SHARED, .flags = RT_JOIN_ARM});
    struct rt_op *other = join('b',
                               (struct rt_join){.name = "file", .nonce = 2, .mode = RT_SHARED});
    struct rt_op *writer = join('c', (struct rt_join){.name = "file", .nonce = 3});
    leave('a', "file", number(reader), 0);
    leave('b', "file", number(other), 0);
    change('c', "file", number(writer), RT_CHANGE_DOWNGRADE, NULL);
    expect(
        "> a if version file/7101-s1 = 0 then put file/7101-s1 'rota1_1_0_0_-_0_0_T_1_3_ann_' on 7101, get file/..file0 by create else get file/7101-s1 => yes\n"
        "a join ok #5 granted\n"
        "> a watch file/..file0 no deletes\n"
        "> a if create file/7101-s1 = 5 then get file/..file0 by create => yes\n"
        "> b if version file/7202-s1 = 0 then put file/7202-s1 'rota1_1_0_0_-_0_0_T_2_3_bob_' on 7202, get file/..file0 by create else get file/7202-s1 => yes\n"
        "b join ok #6 granted\n"
        "> a if create file/7101-s1 = 5 then get file/..file0 by create => yes\n"
        "> c if version file/7303-s1 = 0 then put file/7303-s1 'rota1_0_0_0_-_0_0_T_3_3_cid_' on 7303, get file/..file0 by create limit 2 else get file/7303-s1 => yes\n"
        "c join ok #7\n"
        "> c if create file/7303-s1 = 7 then get file/..file0 by create down limit 1 to 6, get file/..file0 by create limit 1 from 8 keys => yes\n"
        "> a if create file/7101-s1 = 5 then get file/..file0 by create => yes\n"
        "a wanted file #5\n"
        "> c watch file/7202-s1 no puts\n"
        "> a unwatch file/..file0\n"
        "> c if create file/7303-s1 = 7 then get file/..file0 by create down limit 1 to 6, get file/..file0 by create limit 1 from 8 keys => yes\n"
        "> a if create file/7101-s1 = 5 then delete file/7101-s1 => yes\n"
        "a leave ok granted\n"
        "> b if create file/7202-s1 = 6 then delete file/7202-s1 => yes\n"
        "b leave ok granted\n"
        "> c unwatch file/7202-s1\n"
        "> c if create file/7303-s1 = 7 then get file/..file0 by create down limit 1 to 6, get file/..file0 by create limit 1 from 8 keys => yes\n"
        "c granted file #7\n"
        "> c  do get file/..file0 by create => yes\n"
        "> c if mod file/7303-s1 = 7 then put file/7303-s1 'rota1_1_0_0_-_0_0_T_3_3_cid_' same lease, get file/..file0 by create => yes\n"
        "c change ok\n");
}

static void permits(void **state)
{
    (void)state;
    two_people();
    person_open('c');
    beat('c', true);
    ledger_forget();
    struct rt_op *two = join(
        'a', (struct rt_join){.name = "pool", .nonce = 1, .mode = RT_PERMITS, .take = 2, .of = 3});
    join('b', (struct rt_join){.name = "pool", .nonce = 2, .mode = RT_PERMITS, .take = 2, .of = 3});
    join('c', (struct rt_join){.name = "pool", .nonce = 3, .mode = RT_PERMITS, .take = 1, .of = 3});
    leave('a', "pool", number(two), 0);
    expect(
        "> a if version pool/7101-s1 = 0 then put pool/7101-s1 'rota1_2_2_3_-_0_0_T_1_3_ann_' on 7101, get pool/..pool0 by create else get pool/7101-s1 => yes\n"
        "a join ok #5 granted\n"
        "> b if version pool/7202-s1 = 0 then put pool/7202-s1 'rota1_2_2_3_-_0_0_T_2_3_bob_' on 7202, get pool/..pool0 by create else get pool/7202-s1 => yes\n"
        "b join ok #6\n"
        "> b watch pool/..pool0 no puts\n"
        "> b if create pool/7202-s1 = 6 then get pool/..pool0 by create => yes\n"
        "> c if version pool/7303-s1 = 0 then put pool/7303-s1 'rota1_2_1_3_-_0_0_T_3_3_cid_' on 7303, get pool/..pool0 by create else get pool/7303-s1 => yes\n"
        "c join ok #7\n"
        "> c watch pool/7202-s1\n"
        "> c if create pool/7303-s1 = 7 then get pool/..pool0 by create => yes\n"
        "> a if create pool/7101-s1 = 5 then delete pool/7101-s1 => yes\n"
        "a leave ok granted\n"
        "> b if create pool/7202-s1 = 6 then get pool/..pool0 by create => yes\n"
        "b granted pool #6\n"
        "> b unwatch pool/..pool0\n"
        "> b if create pool/7202-s1 = 6 then put pool/7202-s1 same lease => yes\n"
        "> c if create pool/7303-s1 = 7 then get pool/..pool0 by create => yes\n"
        "c granted pool #7\n"
        "> c unwatch pool/7202-s1\n");
}

static void several_at_once(void **state)
{
    const struct rt_join two[] = {{.name = "x", .nonce = 1}, {.name = "y", .nonce = 1}};
    const struct rt_join again[] = {{.name = "y", .nonce = 2}, {.name = "z", .nonce = 2}};
    const struct rt_join attempt[] = {{.name = "z", .nonce = 3, .flags = RT_JOIN_TRY},
                                      {.name = "y", .nonce = 3, .flags = RT_JOIN_TRY}};
    const struct rt_join twice[] = {{.name = "z", .nonce = 3}, {.name = "z", .nonce = 4}};
    const struct rt_join mixed[] = {
        {.name = "u", .nonce = 3},
        {.name = "z", .nonce = 4, .flags = RT_JOIN_DURABLE, .session = 9}};
    (void)state;
    two_people();
    struct rt_op *all = join_all('a', two, 2);
    join_all('b', attempt, 2);
    join_all('b', again, 2);
    leave('a', "y", all->join.joins[1].number, 0);
    leave('a', "x", all->join.joins[0].number, 0);
    join_all('b', twice, 2);
    join_all('b', mixed, 2);
    expect(
        "> a if version x/7101-s1 = 0 and version y/7101-s1 = 0 then put x/7101-s1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, put y/7101-s1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, get x/..x0 by create limit 1, get y/..y0 by create limit 1 else get x/7101-s1, get y/7101-s1 => yes\n"
        "a join ok #4 granted #4 granted\n"
        "> b if create z/..z0 = 0 and create y/..y0 = 0 then put z/7202-s1 'rota1_0_0_0_-_0_0_T_3_3_bob_' on 7202, put y/7202-s1 'rota1_0_0_0_-_0_0_T_3_3_bob_' on 7202, get z/..z0 by create limit 1, get y/..y0 by create limit 1 else get z/7202-s1, get y/7202-s1, get z/..z0 by create limit 1, get y/..y0 by create limit 1 => no\n"
        "b join BUSY: y is held by ann\n"
        "> b if version y/7202-s1 = 0 and version z/7202-s1 = 0 then put y/7202-s1 'rota1_0_0_0_-_0_0_T_2_3_bob_' on 7202, put z/7202-s1 'rota1_0_0_0_-_0_0_T_2_3_bob_' on 7202, get y/..y0 by create limit 1, get z/..z0 by create limit 1 else get y/7202-s1, get z/7202-s1 => yes\n"
        "b join ok #5 #5 granted\n"
        "> b if create y/7202-s1 = 5 then get y/..y0 by create down limit 1 to 4, get y/..y0 by create limit 1 from 6 keys => yes\n"
        "> b watch y/7101-s1 no puts\n"
        "> b if create y/7202-s1 = 5 then get y/..y0 by create down limit 1 to 4, get y/..y0 by create limit 1 from 6 keys => yes\n"
        "> a if create y/7101-s1 = 4 then delete y/7101-s1 => yes\n"
        "a leave ok granted\n"
        "> b unwatch y/7101-s1\n"
        "> b if create y/7202-s1 = 5 then get y/..y0 by create down limit 1 to 4, get y/..y0 by create limit 1 from 6 keys => yes\n"
        "b granted y #5\n"
        "> a if create x/7101-s1 = 4 then delete x/7101-s1 => yes\n"
        "a leave ok granted\n"
        "b join INVALID: a set names one line twice\n"
        "b join INVALID: a set is of one session\n");
}

/* ---- Barriers and latches -------------------------------------------------------------------- */

static void a_barrier(void **state)
{
    (void)state;
    two_people();
    person_open('c');
    beat('c', true);
    ledger_forget();
    join('a', (struct rt_join){.name = "gate", .nonce = 1, .mode = RT_GATHER, .of = 2});
    join('b', (struct rt_join){.name = "gate", .nonce = 2, .mode = RT_GATHER, .of = 2});
    join('c', (struct rt_join){.name = "gate", .nonce = 3, .mode = RT_GATHER, .of = 2});
    expect(
        "> a if version gate/7101-s1 = 0 then put gate/7101-s1 'rota1_4_0_2_-_0_0_T_1_3_ann_' on 7101, get gate/..gate0 by create else get gate/7101-s1 => yes\n"
        "a join ok #5\n"
        "> a watch gate/..gate0\n"
        "> a if create gate/7101-s1 = 5 then get gate/..gate0 by create => yes\n"
        "> b if version gate/7202-s1 = 0 then put gate/7202-s1 'rota1_4_0_2_-_0_0_T_2_3_bob_' on 7202, get gate/..gate0 by create else get gate/7202-s1 => yes\n"
        "b join ok #6\n"
        "> b watch gate/..gate0\n"
        "> a if create gate/7101-s1 = 5 then get gate/..gate0 by create => yes\n"
        "> b if create gate/7202-s1 = 6 then get gate/..gate0 by create => yes\n"
        "> a if mod gate/7202-s1 = 6 and mod gate/7101-s1 = 5 then put gate/7202-s1 'rota1_4_0_2_-_0_6_T_2_3_bob_' same lease, put gate/7101-s1 'rota1_4_0_2_-_0_6_T_1_3_ann_' same lease => yes\n"
        "> b if mod gate/7202-s1 = 6 and mod gate/7101-s1 = 5 then put gate/7202-s1 'rota1_4_0_2_-_0_6_T_2_3_bob_' same lease, put gate/7101-s1 'rota1_4_0_2_-_0_6_T_1_3_ann_' same lease => no\n"
        "> a if create gate/7101-s1 = 5 then get gate/..gate0 by create => yes\n"
        "a granted gate #5\n"
        "> b if create gate/7202-s1 = 6 then get gate/..gate0 by create => yes\n"
        "b granted gate #6\n"
        "> a unwatch gate/..gate0\n"
        "> b unwatch gate/..gate0\n"
        "> c if version gate/7303-s1 = 0 then put gate/7303-s1 'rota1_4_0_2_-_0_0_T_3_3_cid_' on 7303, get gate/..gate0 by create else get gate/7303-s1 => yes\n"
        "c join ok #8\n"
        "> c watch gate/..gate0\n"
        "> c if create gate/7303-s1 = 8 then get gate/..gate0 by create => yes\n");
}

static void a_latch(void **state)
{
    (void)state;
    two_people();
    observe('b', "latch", &cookie, false);
    join('a', (struct rt_join){.name = "latch",
                               .nonce = 1,
                               .session = 42,
                               .mode = RT_COUNT,
                               .of = 2,
                               .flags = RT_JOIN_DURABLE});
    join('a', (struct rt_join){.name = "latch",
                               .nonce = 2,
                               .session = 42,
                               .mode = RT_COUNT,
                               .of = 2,
                               .flags = RT_JOIN_DURABLE});
    break_it('b', "latch", 0, RT_COUNT);
    break_it('b', "latch", 0, RT_COUNT);
    observe('b', "latch", &cookie, true);
    join('a', (struct rt_join){.name = "latch",
                               .nonce = 3,
                               .session = 42,
                               .mode = RT_COUNT,
                               .of = 2,
                               .flags = RT_JOIN_DURABLE});
    expect(
        "> b watch latch/..latch0\n"
        "> b  do get latch/..latch0 by create limit 1 => yes\n"
        "b look ok\n"
        "b changed latch: 0 of mode 0/0, #0 '' of ''\n"
        "> b  do get latch/..latch0 by create limit 1 => yes\n"
        "> a if create latch/..latch0 = 0 then put latch/p2a-1 'rota1_3_0_2_-_0_0_T_1_3_ann_', get latch/..latch0 by create limit 1 else get latch/p2a-1, get latch/..latch0 by create limit 1 => yes\n"
        "a join ok #4 granted\n"
        "> b  do get latch/..latch0 by create limit 1 => yes\n"
        "b changed latch: 1 of mode 3/2, #4 '' of 'ann'\n"
        "> a if create latch/..latch0 = 0 then put latch/p2a-2 'rota1_3_0_2_-_0_0_T_2_3_ann_', get latch/..latch0 by create limit 1 else get latch/p2a-2, get latch/..latch0 by create limit 1 => no\n"
        "> a if create latch/p2a-1 = 4 and version latch/p2a-2 = 0 then put latch/p2a-2 'rota1_3_0_2_-_0_0_T_2_3_ann_', get latch/..latch0 by create limit 1 else get latch/p2a-2, get latch/..latch0 by create limit 1 => yes\n"
        "a join ok #5 granted\n"
        "> b  do get latch/..latch0 by create limit 1 => yes\n"
        "b changed latch: 2 of mode 3/2, #4 '' of 'ann'\n"
        "> b  do get latch/..latch0 by create => yes\n"
        "> b if mod latch/p2a-1 = 4 and mod latch/p2a-2 = 5 then delete latch/p2a-1, delete latch/p2a-2 => yes\n"
        "> b  do get latch/..latch0 by create limit 1 => yes\n"
        "> b  do get latch/..latch0 by create => yes\n"
        "b changed latch: 0 of mode 0/0, #0 '' of ''\n"
        "b break ok\n"
        "> b  do get latch/..latch0 by create limit 1 => yes\n"
        "> b  do get latch/..latch0 by create => yes\n"
        "b break LOST: no such ticket in the line of latch\n"
        "b look away ok\n"
        "> b unwatch latch/..latch0\n"
        "> a if create latch/..latch0 = 0 then put latch/p2a-3 'rota1_3_0_2_-_0_0_T_3_3_ann_', get latch/..latch0 by create limit 1 else get latch/p2a-3, get latch/..latch0 by create limit 1 => yes\n"
        "a join ok #7 granted\n");
}

/* ---- What stays by itself -------------------------------------------------------------------- */

static void durable_ones(void **state)
{
    (void)state;
    two_people();
    struct rt_op *once = join(
        'a',
        (struct rt_join){
            .name = "once", .nonce = 1, .session = 42, .flags = RT_JOIN_DURABLE, .value = "done"});
    join('b',
         (struct rt_join){
             .name = "once", .nonce = 2, .session = 43, .flags = RT_JOIN_DURABLE | RT_JOIN_TRY});
    join('b',
         (struct rt_join){.name = "once", .nonce = 2, .session = 43, .flags = RT_JOIN_DURABLE});
    join(
        'a',
        (struct rt_join){
            .name = "till", .nonce = 3, .session = 42, .flags = RT_JOIN_DURABLE, .until_ms = 1500});
    break_it('b', "once", number(once), 0);
    break_it('b', "once", number(once), 0);
    struct rt_op by_nonce = {.kind = RT_OP_LEAVE, .user = (void *)(uintptr_t) "leave"};
    by_nonce.leave.name = "till";
    by_nonce.leave.session = 42;
    by_nonce.leave.nonce = 3;
    town_submit(person('a'), &by_nonce);
    ledger_run();
    expect(
        "> a if create once/..once0 = 0 then put once/p2a-1 'rota1_0_0_0_-_0_0_T_1_3_ann_done', get once/..once0 by create limit 2 else get once/p2a-1, get once/..once0 by create limit 2 => yes\n"
        "a join ok #4 granted\n"
        "> b if create once/..once0 = 0 then put once/p2b-2 'rota1_0_0_0_-_0_0_T_2_3_bob_', get once/..once0 by create limit 2 else get once/p2b-2, get once/..once0 by create limit 2 => no\n"
        "b join BUSY: once is held by ann\n"
        "> b if create once/..once0 = 0 then put once/p2b-2 'rota1_0_0_0_-_0_0_T_2_3_bob_', get once/..once0 by create limit 2 else get once/p2b-2, get once/..once0 by create limit 2 => no\n"
        "> b if create once/p2a-1 = 4 and version once/p2b-2 = 0 then put once/p2b-2 'rota1_0_0_0_-_0_0_T_2_3_bob_', get once/..once0 by create limit 2 else get once/p2b-2, get once/..once0 by create limit 2 => yes\n"
        "b join ok #5\n"
        "> b watch once/p2a-1 no puts\n"
        "> b if create once/p2b-2 = 5 then get once/..once0 by create down limit 1 to 4, get once/..once0 by create limit 1 from 6 keys => yes\n"
        "> a lease of 2 s => 7303\n"
        "> a if create till/..till0 = 0 then put till/p2a-3 'rota1_0_0_0_-_0_0_T_3_3_ann_' on 7303, get till/..till0 by create limit 2 else get till/p2a-3, get till/..till0 by create limit 2 => yes\n"
        "a join ok #6 granted\n"
        "> b  do get once/..once0 by create from 4 to 4 => yes\n"
        "> b if create once/p2a-1 = 4 then delete once/p2a-1 => yes\n"
        "b break ok\n"
        "> b unwatch once/p2a-1\n"
        "> b if create once/p2b-2 = 5 then get once/..once0 by create down limit 1 to 4, get once/..once0 by create limit 1 from 6 keys => yes\n"
        "b granted once #5\n"
        "> b  do get once/..once0 by create from 4 to 4 => yes\n"
        "b break LOST: no such ticket in the line of once\n"
        "> a if create till/p2a-3 = 6 then delete till/p2a-3 => yes\n"
        "a leave ok granted\n"
        "> a revoke 7303\n");
}

/* at_least: the name stays taken, after its holder left and whether that lives, by a lease that ends in time. */
static void at_least(void **state)
{
    (void)state;
    two_people();
    ledger_hasty = true;
    struct rt_op *first = join('a',
                               (struct rt_join){.name = "lock", .nonce = 1, .at_least_ms = 30000});
    leave('a', "lock", number(first), 0);
    join('b', (struct rt_join){.name = "lock", .nonce = 2, .at_least_ms = 2500});
    join('a', (struct rt_join){.name = "lock", .nonce = 3, .flags = RT_JOIN_TRY});
    ledger_run(); /* until its time */
    expect(
        "> a if version lock/7101-1 = 0 then put lock/7101-1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-1 => yes\n"
        "> a lease of 44 s => 7303\n"
        "> a if create lock/7101-1 = 4 then get lock/7101-1 => yes\n"
        "> a if mod lock/7101-1 = 4 then put lock/7101-1 on 7303 => yes\n"
        "a join ok #4 granted\n"
        "> a lease of 33 s => 7404\n"
        "> a if create lock/7101-1 = 4 then put lock/7101-1 'rota1_0_0_0_l_0_0_T_1_3_ann_' on 7404 => yes\n"
        "a leave ok granted\n"
        "> b if version lock/7202-2 = 0 then put lock/7202-2 'rota1_0_0_0_-_0_0_T_2_3_bob_' on 7202, get lock/..lock0 by create limit 2 else get lock/7202-2 => yes\n"
        "b join ok #7\n"
        "> a revoke 7303\n"
        "> a if create lock/..lock0 = 0 then put lock/7101-s1 'rota1_0_0_0_-_0_0_T_3_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-s1, get lock/..lock0 by create limit 2 => no\n"
        "a join BUSY: lock is held by ann\n"
        "> b watch lock/7101-1 no puts\n"
        "> b if create lock/7202-2 = 7 then get lock/..lock0 by create down limit 1 to 6, get lock/..lock0 by create limit 1 from 8 keys => yes\n"
        "> a revoke 7404\n"
        "> b unwatch lock/7101-1\n"
        "> b if create lock/7202-2 = 7 then get lock/..lock0 by create down limit 1 to 6, get lock/..lock0 by create limit 1 from 8 keys => yes\n"
        "> b lease of 16 s => 7505\n"
        "> b if create lock/7202-2 = 7 then get lock/7202-2 => yes\n"
        "> b if mod lock/7202-2 = 7 then put lock/7202-2 on 7505 => yes\n"
        "b granted lock #7\n"
        "> b if create lock/7202-2 = 7 then put lock/7202-2 on 7202 => yes\n"
        "> b revoke 7505\n");
}

/* When it is over before the holder leaves, its own lease goes, and its ticket is on that of the session again. */
static void at_least_is_over(void **state)
{
    (void)state;
    two_people();
    struct rt_op *first = join('a',
                               (struct rt_join){.name = "lock", .nonce = 1, .at_least_ms = 30000});
    leave('a', "lock", number(first), 0);
    expect(
        "> a if version lock/7101-1 = 0 then put lock/7101-1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-1 => yes\n"
        "> a lease of 44 s => 7303\n"
        "> a if create lock/7101-1 = 4 then get lock/7101-1 => yes\n"
        "> a if mod lock/7101-1 = 4 then put lock/7101-1 on 7303 => yes\n"
        "a join ok #4 granted\n"
        "> a if create lock/7101-1 = 4 then put lock/7101-1 on 7101 => yes\n"
        "> a revoke 7303\n"
        "> a if create lock/7101-1 = 4 then delete lock/7101-1 => yes\n"
        "a leave ok granted\n");
}

/* Who gave up, and was told nothing, keeps nothing. */
static void at_least_untold(void **state)
{
    (void)state;
    two_people();
    ledger_hasty = true;
    struct rt_op *first = join('a',
                               (struct rt_join){.name = "lock", .nonce = 1, .at_least_ms = 30000});
    leave_untold('a', "lock", number(first));
    join('a', (struct rt_join){.name = "lock", .nonce = 2, .at_least_ms = 30000});
    join('b', (struct rt_join){.name = "lock", .nonce = 3, .at_least_ms = 2500});
    leave('a', "lock", 0, 2);
    leave('b', "lock", 0, 3);
    ledger_run();
    expect(
        "> a if version lock/7101-1 = 0 then put lock/7101-1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-1 => yes\n"
        "> a lease of 44 s => 7303\n"
        "> a if create lock/7101-1 = 4 then get lock/7101-1 => yes\n"
        "> a if mod lock/7101-1 = 4 then put lock/7101-1 on 7303 => yes\n"
        "a join ok #4 granted\n"
        "> a if create lock/7101-1 = 4 then delete lock/7101-1 => yes\n"
        "a leave ok granted\n"
        "> a revoke 7303\n"
        "> a if version lock/7101-2 = 0 then put lock/7101-2 'rota1_0_0_0_-_0_0_T_2_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-2 => yes\n"
        "> a lease of 44 s => 7404\n"
        "> a if create lock/7101-2 = 7 then get lock/7101-2 => yes\n"
        "> a if mod lock/7101-2 = 7 then put lock/7101-2 on 7404 => yes\n"
        "a join ok #7 granted\n"
        "> b if version lock/7202-3 = 0 then put lock/7202-3 'rota1_0_0_0_-_0_0_T_3_3_bob_' on 7202, get lock/..lock0 by create limit 2 else get lock/7202-3 => yes\n"
        "b join ok #9\n"
        "> a if create lock/7101-2 = 7 then delete lock/7101-2 => yes\n"
        "a leave ok granted\n"
        "> b watch lock/7101-2 no puts\n"
        "> b if create lock/7202-3 = 9 then get lock/..lock0 by create, delete lock/7202-3 => yes\n"
        "> b if create lock/7202-3 = 9 then get lock/..lock0 by create down limit 1 to 8, get lock/..lock0 by create limit 1 from 10 keys => no\n"
        "b leave ok granted\n"
        "> a revoke 7404\n"
        "> b unwatch lock/7101-2\n");
}

/* The session of a holder ends before its at_least does. */
static void at_least_outlives_its_session(void **state)
{
    (void)state;
    two_people();
    ledger_hasty = true;
    join('a', (struct rt_join){.name = "lock", .nonce = 1, .at_least_ms = 30000});
    lease_ends(0x7101);
    expect(
        "> a if version lock/7101-1 = 0 then put lock/7101-1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-1 => yes\n"
        "> a lease of 44 s => 7303\n"
        "> a if create lock/7101-1 = 4 then get lock/7101-1 => yes\n"
        "> a if mod lock/7101-1 = 4 then put lock/7101-1 on 7303 => yes\n"
        "a join ok #4 granted\n"
        "a session lost 7101\n"
        "> a unwatch +rota/7101\n"
        "> a revoke 7303\n");
}

/* ---- Connections ----------------------------------------------------------------------------- */

/* Who waits hears of its turn though its connection was cut: it watches again, and looks. */
static void a_connection_is_cut(void **state)
{
    (void)state;
    two_people();
    struct rt_op *first = join('a', (struct rt_join){.name = "lock", .nonce = 1});
    join('b', (struct rt_join){.name = "lock", .nonce = 2});
    observe('b', "lock", &cookie, false);
    ledger_forget();
    town_cut(person('b'));
    ledger_run();
    leave('a', "lock", number(first), 0);
    beat('b', false);
    expect(
        "> b left 7202 keys => 9 s, 2 keys\n"
        "> b watch +rota/7202\n"
        "> b watch lock/7101-s1 no puts\n"
        "> b watch lock/..lock0\n"
        "> b left 7202 keys => 9 s, 2 keys\n"
        "> b if create lock/7202-s1 = 5 then get lock/..lock0 by create down limit 1 to 4, get lock/..lock0 by create limit 1 from 6 keys => yes\n"
        "> b  do get lock/..lock0 by create limit 1 => yes\n"
        "> a if create lock/7101-s1 = 4 then delete lock/7101-s1 => yes\n"
        "a leave ok granted\n"
        "> b unwatch lock/7101-s1\n"
        "> b if create lock/7202-s1 = 5 then get lock/..lock0 by create down limit 1 to 4, get lock/..lock0 by create limit 1 from 6 keys => yes\n"
        "> b  do get lock/..lock0 by create limit 1 => yes\n"
        "b granted lock #5\n"
        "b changed lock: 1 of mode 0/0, #5 '' of 'bob'\n"
        "> b keep 7202 => 10 s\n"
        "b beat ok 7202 10000 ms\n"
        "b granted lock #5\n"
        "> b  do get lock/..lock0 by create limit 1 => yes\n");
}

/* ---- Changes --------------------------------------------------------------------------------- */

static void changes(void **state)
{
    (void)state;
    two_people();
    struct rt_op *leader = join('a', (struct rt_join){.name = "led", .nonce = 1, .value = "one"});
    change('a', "led", number(leader), RT_CHANGE_VALUE, "two");
    change('a', "led", number(leader), RT_CHANGE_ARM, NULL);
    join('b', (struct rt_join){.name = "led", .nonce = 2, .value = "three"});
    change('a', "led", number(leader), 0, NULL);
    change('b', "led", number(leader) + 1, 0, NULL);
    change('a', "led", 99, RT_CHANGE_VALUE, "x");
    expect(
        "> a if version led/7101-1 = 0 then put led/7101-1 'one' on 7101, get led/..led0 by create limit 2 else get led/7101-1 => yes\n"
        "a join ok #4 granted\n"
        "> a if create led/7101-1 = 4 then get led/..led0 by create limit 1 from 5 keys, put led/7101-1 'two' same lease => yes\n"
        "a change ok\n"
        "> a if create led/7101-1 = 4 then get led/..led0 by create limit 1 from 5 keys => yes\n"
        "a change ok\n"
        "> a watch led/..led0 no deletes\n"
        "> a if create led/7101-1 = 4 then get led/..led0 by create limit 1 from 5 keys => yes\n"
        "> b if version led/7202-2 = 0 then put led/7202-2 'three' on 7202, get led/..led0 by create limit 2 else get led/7202-2 => yes\n"
        "b join ok #6\n"
        "a wanted led #4\n"
        "> b watch led/7101-1 no puts\n"
        "> a unwatch led/..led0\n"
        "> b if create led/7202-2 = 6 then get led/..led0 by create down limit 1 to 5, get led/..led0 by create limit 1 from 7 keys => yes\n"
        "> a if create led/7101-1 = 4 then get led/..led0 by create limit 1 from 5 keys => yes\n"
        "a change ok wanted\n"
        "> b  do get led/..led0 by create => yes\n"
        "b change LOST: the ticket is not in the line of led any more\n"
        "> a  do get led/..led0 by create => yes\n"
        "a change LOST: the ticket is not in the line of led any more\n");
}

/* ---- Observers -------------------------------------------------------------------------------- */

static void observers(void **state)
{
    (void)state;
    two_people();
    observe('b', "led", &cookie, false);
    observe('b', "led", &cookie, false);
    struct rt_op *leader = join('a', (struct rt_join){.name = "led", .nonce = 1, .value = "one"});
    change('a', "led", number(leader), RT_CHANGE_VALUE, "two");
    leave('a', "led", number(leader), 0);
    join('a', (struct rt_join){.name = "led", .nonce = 2});
    others_put("led/99", "", 0);
    others_delete("led/7101-s1");
    others_put("led/99", "rota2 later", 0);
    observe('b', "led", &cookie, true);
    observe('b', "led", &cookie, true);
    others_delete("led/99");
    expect(
        "> b watch led/..led0\n"
        "> b  do get led/..led0 by create limit 1 => yes\n"
        "b look ok\n"
        "b changed led: 0 of mode 0/0, #0 '' of ''\n"
        "> b  do get led/..led0 by create limit 1 => yes\n"
        "> b  do get led/..led0 by create limit 1 => yes\n"
        "b look ok\n"
        "b changed led: 0 of mode 0/0, #0 '' of ''\n"
        "> a if version led/7101-1 = 0 then put led/7101-1 'one' on 7101, get led/..led0 by create limit 2 else get led/7101-1 => yes\n"
        "a join ok #4 granted\n"
        "> b  do get led/..led0 by create limit 1 => yes\n"
        "> b get +rota/7101\n"
        "b changed led: 1 of mode 0/0, #4 'one' of 'ann'\n"
        "> a if create led/7101-1 = 4 then get led/..led0 by create limit 1 from 5 keys, put led/7101-1 'two' same lease => yes\n"
        "a change ok\n"
        "> b  do get led/..led0 by create limit 1 => yes\n"
        "b changed led: 1 of mode 0/0, #4 'two' of 'ann'\n"
        "> a if create led/7101-1 = 4 then delete led/7101-1 => yes\n"
        "a leave ok granted\n"
        "> b  do get led/..led0 by create limit 1 => yes\n"
        "b changed led: 0 of mode 0/0, #0 '' of ''\n"
        "> a if version led/7101-s1 = 0 then put led/7101-s1 'rota1_0_0_0_-_0_0_T_2_3_ann_' on 7101, get led/..led0 by create limit 2 else get led/7101-s1 => yes\n"
        "a join ok #7 granted\n"
        "> b  do get led/..led0 by create limit 1 => yes\n"
        "b changed led: 1 of mode 0/0, #7 '' of 'ann'\n"
        "> b  do get led/..led0 by create limit 1 => yes\n"
        "b changed led: 2 of mode 0/0, #7 '' of 'ann'\n"
        "> b  do get led/..led0 by create limit 1 => yes\n"
        "b changed led: 1 of mode 0/0, #8 '' of 'no lease'\n"
        "> b  do get led/..led0 by create limit 1 => yes\n"
        "b changed led: 1 of mode 0/0, #8 '' of 'of a later layout: upgrade'\n"
        "b look away ok\n"
        "> b unwatch led/..led0\n"
        "b look away ok\n");
}

/* Armed when somebody waits already: told at once, and nothing is watched; as a reader, too. */
static void armed_late(void **state)
{
    (void)state;
    two_people();
    struct rt_op *first = join('a', (struct rt_join){.name = "lock", .nonce = 1});
    struct rt_op *second = join('b', (struct rt_join){.name = "lock", .nonce = 2});
    ledger_forget();
    change('a', "lock", number(first), RT_CHANGE_ARM, NULL);
    change('a', "lock", number(first), RT_CHANGE_DOWNGRADE, NULL);
    leave('b', "lock", number(second), 0);
    change('a', "lock", number(first), 0, NULL);
    expect(
        "> a if create lock/7101-s1 = 4 then get lock/..lock0 by create limit 1 from 5 keys => yes\n"
        "a change ok wanted\n"
        "> a  do get lock/..lock0 by create => yes\n"
        "> a if mod lock/7101-s1 = 4 then put lock/7101-s1 'rota1_1_0_0_-_0_0_T_1_3_ann_' same lease, get lock/..lock0 by create => yes\n"
        "a change ok wanted\n"
        "> b if create lock/7202-s1 = 5 then get lock/..lock0 by create, delete lock/7202-s1 => yes\n"
        "b leave ok\n"
        "> b unwatch lock/7101-s1\n"
        "> a if create lock/7101-s1 = 4 then get lock/..lock0 by create => yes\n"
        "a change ok\n"
        "> a watch lock/..lock0 no deletes\n"
        "> a if create lock/7101-s1 = 4 then get lock/..lock0 by create => yes\n");
}

/* What was told and not heard is told again with a beat: the grant, and that others wait. */
static void told_again_by_a_beat(void **state)
{
    (void)state;
    two_people();
    struct rt_op *first = join('a', (struct rt_join){.name = "lock", .nonce = 1});
    join('b', (struct rt_join){.name = "lock", .nonce = 2, .flags = RT_JOIN_ARM});
    leave('a', "lock", number(first), 0);
    join('a', (struct rt_join){.name = "lock", .nonce = 3});
    ledger_forget();
    beat('b', false);
    expect(
        "> b keep 7202 => 10 s\n"
        "b beat ok 7202 10000 ms\n"
        "b granted lock #5\n"
        "> b watch lock/..lock0 no deletes\n"
        "> b if create lock/7202-s1 = 5 then get lock/..lock0 by create limit 1 from 6 keys => yes\n"
        "b wanted lock #5\n"
        "> b unwatch lock/..lock0\n");
}

/* A JOIN whose answer was lost: its ticket may stand at its spot. Asked again it is found there; another finds the spot taken;
 * and it may be left by its nonce. */
static void a_join_in_doubt(void **state)
{
    (void)state;
    two_people();
    ledger_cancel_at = 1;
    join('a', (struct rt_join){.name = "lock", .nonce = 1});
    ledger_cancel_at = 1;
    join('a', (struct rt_join){.name = "other", .nonce = 2});
    join('a', (struct rt_join){.name = "lock", .nonce = 3});
    join('a', (struct rt_join){.name = "lock", .nonce = 1});
    leave('a', "other", 0, 2);
    leave('a', "other", 0, 2);
    join('a', (struct rt_join){.name = "other", .nonce = 4});
    leave('a', "lock", 0, 3);
    expect(
        "> a if version lock/7101-s1 = 0 then put lock/7101-s1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-s1 => yes\n"
        "a join UNKNOWN: given up under way\n"
        "> a if version other/7101-s1 = 0 then put other/7101-s1 'rota1_0_0_0_-_0_0_T_2_3_ann_' on 7101, get other/..other0 by create limit 2 else get other/7101-s1 => yes\n"
        "a join UNKNOWN: given up under way\n"
        "> a if version lock/7101-s2 = 0 then put lock/7101-s2 'rota1_0_0_0_-_0_0_T_3_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-s2 => yes\n"
        "a join ok #6\n"
        "> a watch lock/7101-s1 no puts\n"
        "> a if create lock/7101-s2 = 6 then get lock/..lock0 by create down limit 1 to 5, get lock/..lock0 by create limit 1 from 7 keys => yes\n"
        "> a if version lock/7101-s1 = 0 then put lock/7101-s1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-s1 => no\n"
        "> a  do get lock/..lock0 by create limit 2 => yes\n"
        "a join ok #4 granted\n"
        "> a  do get other/..other0 by create, get other/7101-2, get other/p7101-2, delete other/7101-2, delete other/p7101-2 => yes\n"
        "> a if create other/7101-s1 = 5 then get other/..other0 by create, delete other/7101-s1 => yes\n"
        "a leave ok granted\n"
        "> a  do get other/..other0 by create, get other/7101-2, get other/p7101-2, delete other/7101-2, delete other/p7101-2 => yes\n"
        "a leave LOST: the ticket is not in the line of other any more\n"
        "> a if version other/7101-s1 = 0 then put other/7101-s1 'rota1_0_0_0_-_0_0_T_4_3_ann_' on 7101, get other/..other0 by create limit 2 else get other/7101-s1 => yes\n"
        "a join ok #8 granted\n"
        "> a if create lock/7101-s2 = 6 then get lock/..lock0 by create, delete lock/7101-s2 => yes\n"
        "a leave ok\n"
        "> a unwatch lock/7101-s1\n");
}

/* A JOIN that never arrived: once that is known its spot is used again. */
static void a_join_that_never_arrived(void **state)
{
    (void)state;
    two_people();
    ledger_swallows = true;
    ledger_cancel_at = 1;
    join('a', (struct rt_join){.name = "lock", .nonce = 1});
    leave('a', "lock", 0, 1);
    join('a', (struct rt_join){.name = "lock", .nonce = 2});
    ledger_cancel_at = 1;
    join('a', (struct rt_join){.name = "other", .nonce = 3});
    join('a', (struct rt_join){.name = "other", .nonce = 4});
    expect(
        "> a if version lock/7101-s1 = 0 then put lock/7101-s1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-s1 => lost on its way\n"
        "a join UNKNOWN: given up under way\n"
        "> a  do get lock/..lock0 by create, get lock/7101-1, get lock/p7101-1, delete lock/7101-1, delete lock/p7101-1 => yes\n"
        "a leave LOST: the ticket is not in the line of lock any more\n"
        "> a if version lock/7101-s1 = 0 then put lock/7101-s1 'rota1_0_0_0_-_0_0_T_2_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-s1 => yes\n"
        "a join ok #4 granted\n"
        "> a if version other/7101-s1 = 0 then put other/7101-s1 'rota1_0_0_0_-_0_0_T_3_3_ann_' on 7101, get other/..other0 by create limit 2 else get other/7101-s1 => lost on its way\n"
        "a join UNKNOWN: given up under way\n"
        "> a if version other/7101-s2 = 0 then put other/7101-s2 'rota1_0_0_0_-_0_0_T_4_3_ann_' on 7101, get other/..other0 by create limit 2 else get other/7101-s2 => yes\n"
        "a join ok #5 granted\n");
}

/* Who asks, and finds that others wait, has no need to hear of them any more. */
static void armed_and_asked(void **state)
{
    (void)state;
    two_people();
    struct rt_op *first = join('a',
                               (struct rt_join){.name = "lock", .nonce = 1, .flags = RT_JOIN_ARM});
    ledger_forget();
    ledger_hasty = true;
    join('b', (struct rt_join){.name = "lock", .nonce = 2});
    change('a', "lock", number(first), 0, NULL);
    ledger_run();
    expect(
        "> b if version lock/7202-s1 = 0 then put lock/7202-s1 'rota1_0_0_0_-_0_0_T_2_3_bob_' on 7202, get lock/..lock0 by create limit 2 else get lock/7202-s1 => yes\n"
        "b join ok #5\n"
        "a wanted lock #4\n"
        "> a unwatch lock/..lock0\n"
        "> a if create lock/7101-s1 = 4 then get lock/..lock0 by create limit 1 from 5 keys => yes\n"
        "a change ok wanted\n"
        "> b watch lock/7101-s1 no puts\n"
        "> b if create lock/7202-s1 = 5 then get lock/..lock0 by create down limit 1 to 4, get lock/..lock0 by create limit 1 from 6 keys => yes\n");
}

/* ---- Rights that are taken away -------------------------------------------------------------- */

/* A LEAVE that was refused leaves the ticket where it is: it is looked at again, missed when it is gone, and may be left. */
static void a_leave_that_is_refused(void **state)
{
    static const uint64_t tickets[] = {4};
    struct rt_op op = {.kind = RT_OP_BEAT, .user = (void *)(uintptr_t) "beat"};
    (void)state;
    two_people();
    struct rt_op *first = join('a', (struct rt_join){.name = "lock", .nonce = 1});
    struct rt_op *second = join('a', (struct rt_join){.name = "other", .nonce = 2});
    ledger_refuses = true;
    leave('a', "lock", number(first), 0);
    leave('a', "other", number(second), 0);
    ledger_refuses = false;
    leave('a', "other", number(second), 0);
    others_delete("lock/7101-s1");
    op.beat.session = 0x7101;
    op.beat.tickets = tickets;
    op.beat.ticket_count = 1;
    town_submit(person('a'), &op);
    ledger_run();
    expect(
        "> a if version lock/7101-s1 = 0 then put lock/7101-s1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-s1 => yes\n"
        "a join ok #4 granted\n"
        "> a if version other/7101-s1 = 0 then put other/7101-s1 'rota1_0_0_0_-_0_0_T_2_3_ann_' on 7101, get other/..other0 by create limit 2 else get other/7101-s1 => yes\n"
        "a join ok #5 granted\n"
        "> a if create lock/7101-s1 = 4 then delete lock/7101-s1 => etcdserver: permission denied\n"
        "a leave AUTH: a:2379: etcdserver: permission denied\n"
        "> a if create other/7101-s1 = 5 then delete other/7101-s1 => etcdserver: permission denied\n"
        "a leave AUTH: a:2379: etcdserver: permission denied\n"
        "> a if create other/7101-s1 = 5 then delete other/7101-s1 => yes\n"
        "a leave ok granted\n"
        "> a keep 7101 => 10 s\n"
        "> a left 7101 keys => 9 s, 1 keys\n"
        "a beat ok 7101 10000 ms\n"
        "> a if create lock/7101-s1 = 4 => no\n"
        "a lost lock #4\n");
}

/* Every op without rights: told so, and nothing is left. */
static void without_rights(void **state)
{
    const struct rt_join two[] = {{.name = "x", .nonce = 7}, {.name = "y", .nonce = 7}};
    (void)state;
    two_people();
    struct rt_op *first = join('a', (struct rt_join){.name = "lock", .nonce = 1, .value = "v"});
    join('b', (struct rt_join){.name = "lock", .nonce = 2});
    ledger_forget();
    ledger_refuses = true;
    join('a', (struct rt_join){.name = "new", .nonce = 3});
    join('a', (struct rt_join){.name = "new", .nonce = 4, .flags = RT_JOIN_TRY});
    join('a',
         (struct rt_join){
             .name = "new", .nonce = 5, .session = 42, .flags = RT_JOIN_DURABLE, .until_ms = 3000});
    join('a', (struct rt_join){.name = "new", .nonce = 6, .at_least_ms = 3000});
    join_all('a', two, 2);
    leave('a', "lock", 0, 1);
    leave('a', "new", 0, 9);
    leave('a', "new", 99, 0);
    change('a', "lock", number(first), RT_CHANGE_VALUE, "w");
    change('a', "lock", number(first), RT_CHANGE_DOWNGRADE, NULL);
    break_it('a', "lock", number(first), 0);
    break_it('a', "latch", 0, RT_COUNT);
    observe('a', "lock", &cookie, false);
    beat('a', true);
    ledger_refuses = false;
    assert_int_equal(ledger_store.count, 4); /* two sessions, two tickets */
    expect(
        "> a if version new/7101-s1 = 0 then put new/7101-s1 'rota1_0_0_0_-_0_0_T_3_3_ann_' on 7101, get new/..new0 by create limit 2 else get new/7101-s1 => etcdserver: permission denied\n"
        "a join AUTH: a:2379: etcdserver: permission denied\n"
        "> a if create new/..new0 = 0 then put new/7101-s1 'rota1_0_0_0_-_0_0_T_4_3_ann_' on 7101, get new/..new0 by create limit 2 else get new/7101-s1, get new/..new0 by create limit 2 => etcdserver: permission denied\n"
        "a join AUTH: a:2379: etcdserver: permission denied\n"
        "> a lease of 3 s => etcdserver: permission denied\n"
        "a join AUTH: a:2379: etcdserver: permission denied\n"
        "> a if version new/7101-6 = 0 then put new/7101-6 'rota1_0_0_0_-_0_0_T_6_3_ann_' on 7101, get new/..new0 by create limit 2 else get new/7101-6 => etcdserver: permission denied\n"
        "a join AUTH: a:2379: etcdserver: permission denied\n"
        "> a if version x/7101-s1 = 0 and version y/7101-s1 = 0 then put x/7101-s1 'rota1_0_0_0_-_0_0_T_7_3_ann_' on 7101, put y/7101-s1 'rota1_0_0_0_-_0_0_T_7_3_ann_' on 7101, get x/..x0 by create limit 1, get y/..y0 by create limit 1 else get x/7101-s1, get y/7101-s1 => etcdserver: permission denied\n"
        "a join AUTH: a:2379: etcdserver: permission denied\n"
        "> a if create lock/7101-1 = 4 then delete lock/7101-1 => etcdserver: permission denied\n"
        "a leave AUTH: a:2379: etcdserver: permission denied\n"
        "> a  do get new/..new0 by create, get new/7101-9, get new/p7101-9, delete new/7101-9, delete new/p7101-9 => etcdserver: permission denied\n"
        "a leave AUTH: a:2379: etcdserver: permission denied\n"
        "> a  do get new/..new0 by create from 99 to 99 => etcdserver: permission denied\n"
        "a leave AUTH: a:2379: etcdserver: permission denied\n"
        "> a if create lock/7101-1 = 4 then get lock/..lock0 by create limit 1 from 5 keys, put lock/7101-1 'w' same lease => etcdserver: permission denied\n"
        "a change AUTH: a:2379: etcdserver: permission denied\n"
        "> a  do get lock/..lock0 by create => etcdserver: permission denied\n"
        "a change AUTH: a:2379: etcdserver: permission denied\n"
        "> a  do get lock/..lock0 by create from 4 to 4 => etcdserver: permission denied\n"
        "a break AUTH: a:2379: etcdserver: permission denied\n"
        "> a  do get latch/..latch0 by create => etcdserver: permission denied\n"
        "a break AUTH: a:2379: etcdserver: permission denied\n"
        "> a watch lock/..lock0\n"
        "> a  do get lock/..lock0 by create limit 1 => etcdserver: permission denied\n"
        "a look AUTH: a:2379: etcdserver: permission denied\n"
        "> a unwatch lock/..lock0\n"
        "> a lease of 10 s => etcdserver: permission denied\n"
        "a open AUTH: a:2379: etcdserver: permission denied\n");
}

/* ---- Others in the line ------------------------------------------------------------------------ */

/* etcdctl, Go's Mutex: their keys stand in the line as ours do. A ticket that lost its lease is taken out by who waits. */
static void foreign_ones(void **state)
{
    (void)state;
    two_people();
    others_put("lock/7202", "", 0x7202);
    join('a', (struct rt_join){.name = "lock", .nonce = 1});
    others_delete("lock/7202");
    others_put("torn/7202-9", "rota1 0 0 0 - 0 0 0 9 3 bob ", 0);
    join('a', (struct rt_join){.name = "torn", .nonce = 2});
    others_put("later/7202-9", "rota2 0", 0x7202);
    join('a', (struct rt_join){.name = "later", .nonce = 3});
    expect(
        "> a if version lock/7101-s1 = 0 then put lock/7101-s1 'rota1_0_0_0_-_0_0_T_1_3_ann_' on 7101, get lock/..lock0 by create limit 2 else get lock/7101-s1 => yes\n"
        "a join ok #5\n"
        "> a watch lock/7202 no puts\n"
        "> a if create lock/7101-s1 = 5 then get lock/..lock0 by create down limit 1 to 4, get lock/..lock0 by create limit 1 from 6 keys => yes\n"
        "> a unwatch lock/7202\n"
        "> a if create lock/7101-s1 = 5 then get lock/..lock0 by create down limit 1 to 4, get lock/..lock0 by create limit 1 from 6 keys => yes\n"
        "a granted lock #5\n"
        "> a if version torn/7101-s1 = 0 then put torn/7101-s1 'rota1_0_0_0_-_0_0_T_2_3_ann_' on 7101, get torn/..torn0 by create limit 2 else get torn/7101-s1 => yes\n"
        "a join ok #8\n"
        "> a watch torn/7202-9 no puts\n"
        "> a if mod torn/7202-9 = 7 and lease torn/7202-9 = 0 then delete torn/7202-9 => yes\n"
        "> a unwatch torn/7202-9\n"
        "> a if create torn/7101-s1 = 8 then get torn/..torn0 by create down limit 1 to 7, get torn/..torn0 by create limit 1 from 9 keys => yes\n"
        "> a if create torn/7101-s1 = 8 then get torn/..torn0 by create down limit 1 to 7, get torn/..torn0 by create limit 1 from 9 keys => yes\n"
        "a granted torn #8\n"
        "> a if version later/7101-s1 = 0 then put later/7101-s1 'rota1_0_0_0_-_0_0_T_3_3_ann_' on 7101, get later/..later0 by create limit 2 else get later/7101-s1 => yes\n"
        "> a if create later/7101-s1 = b then delete later/7101-s1 => yes\n"
        "a join UNSUPPORTED: later has tickets of a later layout: upgrade\n");
}

/* ---- What is refused --------------------------------------------------------------------------- */

static void kinds(void **state)
{
    static const struct rt_join asked[] = {
        {.name = "n", .nonce = 2},
        {.name = "n", .nonce = 2, .mode = RT_SHARED},
        {.name = "n", .nonce = 2, .mode = RT_PERMITS, .take = 1, .of = 3},
        {.name = "n", .nonce = 2, .mode = RT_PERMITS, .take = 1, .of = 4},
        {.name = "n", .nonce = 2, .mode = RT_GATHER, .of = 3},
        {.name = "n", .nonce = 2, .mode = RT_COUNT, .of = 3}};
    (void)state;
    two_people();
    join('a', (struct rt_join){.name = "n", .nonce = 1, .mode = RT_PERMITS, .take = 1, .of = 3});
    ledger_forget();
    for (size_t i = 0; i < 6; i++)
        join('b', asked[i]);
    expect(
        "> b if version n/7202-s1 = 0 then put n/7202-s1 'rota1_0_0_0_-_0_0_T_2_3_bob_' on 7202, get n/..n0 by create limit 2 else get n/7202-s1 => yes\n"
        "> b if create n/7202-s1 = 5 then delete n/7202-s1 => yes\n"
        "b join INVALID: n is permits of 3 now, not a lock: use another name\n"
        "> b if version n/7202-s1 = 0 then put n/7202-s1 'rota1_1_0_0_-_0_0_T_2_3_bob_' on 7202, get n/..n0 by create else get n/7202-s1 => yes\n"
        "> b if create n/7202-s1 = 7 then delete n/7202-s1 => yes\n"
        "b join INVALID: n is permits of 3 now, not a lock: use another name\n"
        "> b if version n/7202-s1 = 0 then put n/7202-s1 'rota1_2_1_3_-_0_0_T_2_3_bob_' on 7202, get n/..n0 by create else get n/7202-s1 => yes\n"
        "b join ok #9 granted\n"
        "> b if version n/7202-s1 = 0 then put n/7202-s1 'rota1_2_1_4_-_0_0_T_2_3_bob_' on 7202, get n/..n0 by create else get n/7202-s1 => no\n"
        "> b  do get n/..n0 by create => yes\n"
        "> b if create n/7202-s1 = 9 then delete n/7202-s1 => yes\n"
        "b join INVALID: n is permits of 3 now, not permits of 4: use another name\n"
        "> b if version n/7202-s1 = 0 then put n/7202-s1 'rota1_4_0_3_-_0_0_T_2_3_bob_' on 7202, get n/..n0 by create else get n/7202-s1 => yes\n"
        "> b if create n/7202-s1 = b then delete n/7202-s1 => yes\n"
        "b join INVALID: n is permits of 3 now, not a barrier of 3: use another name\n"
        "> b if version n/7202-s1 = 0 then put n/7202-s1 'rota1_3_0_3_-_0_0_T_2_3_bob_' on 7202, get n/..n0 by create limit 1 else get n/7202-s1 => yes\n"
        "> b if create n/7202-s1 = d then delete n/7202-s1 => yes\n"
        "b join INVALID: n is permits of 3 now, not a latch of 3: use another name\n");
}

static void what_is_refused_before_it_is_asked(void **state)
{
    (void)state;
    two_people();
    join('a', (struct rt_join){.name = "lock"});
    join('a', (struct rt_join){.name = "", .nonce = 1});
    join('a', (struct rt_join){.name = "lock", .nonce = 1, .take = 1});
    join('a', (struct rt_join){.name = "lock", .nonce = 1, .mode = RT_PERMITS, .take = 4, .of = 3});
    join('a', (struct rt_join){.name = "lock", .nonce = 1, .at_least_ms = -1});
    join('a', (struct rt_join){.name = "lock", .nonce = 1, .until_ms = -1});
    join('a', (struct rt_join){.name = "lock", .nonce = 1, .session = 99});
    leave('a', "", 5, 0);
    leave('a', "lock", 0, 0);
    leave('a', "lock", 5, 0);
    leave('a', "lock", 0, 5);
    change('a', "", 5, 0, NULL);
    change('a', "lock", 5, 0, NULL);
    break_it('a', "", 5, 0);
    break_it('a', "lock", 5, 0);
    observe('a', "", &cookie, false);
    expect(
        "a join INVALID: a join of lock without a nonce\n"
        "a join INVALID: a line needs a name\n"
        "a join INVALID: lock: mode 0 cannot take 1 of 0\n"
        "a join INVALID: lock: mode 2 cannot take 4 of 3\n"
        "a join INVALID: lock: a time cannot be negative\n"
        "a join INVALID: lock: a time cannot be negative\n"
        "a join LOST: session 63 has ended\n"
        "a leave INVALID: a line needs a name\n"
        "> a  do get lock/..lock0 by create, get lock/7101-0, get lock/p7101-0, delete lock/7101-0, delete lock/p7101-0 => yes\n"
        "a leave LOST: the ticket is not in the line of lock any more\n"
        "> a  do get lock/..lock0 by create from 5 to 5 => yes\n"
        "a leave LOST: the ticket is not in the line of lock any more\n"
        "> a  do get lock/..lock0 by create, get lock/7101-5, get lock/p7101-5, delete lock/7101-5, delete lock/p7101-5 => yes\n"
        "a leave LOST: the ticket is not in the line of lock any more\n"
        "a change INVALID: a line needs a name\n"
        "> a  do get lock/..lock0 by create => yes\n"
        "a change LOST: the ticket is not in the line of lock any more\n"
        "a break INVALID: a line needs a name\n"
        "> a  do get lock/..lock0 by create from 5 to 5 => yes\n"
        "a break LOST: no such ticket in the line of lock\n"
        "a look INVALID: a line needs a name\n");
}

int main(void)
{
#define STORY(fn) cmocka_unit_test_setup_teardown(fn, ledger_begin, ledger_end)
    const struct CMUnitTest tests[] = {
        STORY(sessions),
        STORY(sessions_that_end),
        STORY(a_beat_looks_at_what_the_lease_has),
        STORY(a_lock_is_handed_over),
        STORY(three_in_a_line),
        STORY(tries),
        STORY(asked_again),
        STORY(readers_and_writers),
        STORY(permits),
        STORY(several_at_once),
        STORY(a_barrier),
        STORY(a_latch),
        STORY(durable_ones),
        STORY(at_least),
        STORY(at_least_is_over),
        STORY(at_least_untold),
        STORY(at_least_outlives_its_session),
        STORY(a_connection_is_cut),
        STORY(changes),
        STORY(observers),
        STORY(armed_late),
        STORY(told_again_by_a_beat),
        STORY(a_join_in_doubt),
        STORY(a_join_that_never_arrived),
        STORY(armed_and_asked),
        STORY(a_leave_that_is_refused),
        STORY(without_rights),
        STORY(foreign_ones),
        STORY(kinds),
        STORY(what_is_refused_before_it_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
