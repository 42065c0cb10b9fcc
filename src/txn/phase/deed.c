/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a participant in three-phase commit. */
#include "txn/phase/deed.h"

#include "net/loop.h"
#include "txn/manager/resource_inside.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define CALL_NS INT64_C(5000000000)
#define LINE 256
#define GATE_TRIES 40
#define GATE_MS 130 /* InnoDB shows nothing new to anyone who asks more often */

void rt_deed_drop(struct rt_deed *k)
{
    if (k->party != NULL)
        rt_party_close(k->party);
    if (k->open)
        rt_till_close(&k->till);
    k->party = NULL;
    k->open = false;
    k->part.by = NULL;
}

static enum rt_reply ask(struct rt_deed *k, enum rt_party_what what, uint32_t flags, char *errmsg)
{
    struct rt_party_op op = {.what = what, .flags = flags, .deadline = rt_loop_clock() + CALL_NS};
    op.part = what == RT_PARTY_ATTACH ? NULL : &k->part;
    enum rt_reply reply = rt_party_do(k->party, &op);
    if (reply == RT_REPLY_LOST || reply == RT_REPLY_NO || reply == RT_REPLY_REFUSED)
        snprintf(errmsg, LINE, "%s", k->party->errmsg);
    return reply;
}

/* A connection, attached. KEEPER: to end what another prepared. */
static bool connect_to(struct rt_deed *k, const char *url, const struct rt_word *w, bool keeper,
                       char *errmsg)
{
    assert(!k->open);
    memset(&k->part, 0, sizeof(k->part));
    k->part.name = w->name;
    k->open = true; /* must be closed, also after a failure */
    if (rt_till_open(&k->till, url) != 0) {
        snprintf(errmsg, LINE, "%s", k->till.errmsg);
        return false;
    }
    if (rt_party_open(&k->party, k->till.reach->kind, k->till.conn, keeper, NULL, errmsg, LINE) !=
        0)
        return false;
    return ask(k, RT_PARTY_ATTACH, 0, errmsg) == RT_REPLY_DONE;
}

static bool statements(struct rt_deed *k, const struct rt_word *w, char *errmsg)
{
    for (size_t i = 0; i < json_array_size(w->statements); i++) {
        bool good = rt_till_tell(&k->till, json_string_value(json_array_get(w->statements, i)),
                                 w->t1_ms * INT64_C(1000000));
        bool ended = good && k->till.talk.said.ends > 0;
        if (!good || ended) {
            snprintf(errmsg, LINE, "%s",
                     ended
                         ? "a statement ended the transaction, which only the participant may do, "
                           "or rolled back to a savepoint; what it has committed stays"
                         : k->till.errmsg);
            return false;
        }
    }
    return true;
}

enum rt_reply rt_deed_do(struct rt_deed *k, const char *url, const struct rt_word *w, char *errmsg)
{
    enum rt_reply reply = RT_REPLY_NO;
    rt_deed_drop(k);
    if (!connect_to(k, url, w, false, errmsg) ||
        ask(k, RT_PARTY_BEGIN, RT_PARTY_WRITES, errmsg) != RT_REPLY_DONE)
        rt_deed_drop(k); /* closing it ends what has begun */
    else if (!statements(k, w, errmsg))
        rt_deed_drop(k);
    else
        reply = ask(k, RT_PARTY_PREPARE, RT_PARTY_WRITES, errmsg);
    if (reply != RT_REPLY_YES)
        rt_deed_drop(k);
    return reply == RT_REPLY_YES || reply == RT_REPLY_LOST ? reply : RT_REPLY_NO;
}

struct finder {
    const struct rt_name *name;
    bool found;
    uint64_t connection;
};

static void find(void *arg, const struct rt_party_seen *seen)
{
    struct finder *f = arg;
    if (!seen->ours || seen->name.branch != f->name->branch ||
        !rt_txn_id_same(&seen->name.id, &f->name->id))
        return;
    f->found = true;
    f->connection = seen->connection;
}

/* MariaDB: through the gate, or its commit could be lost. */
static enum rt_reply pass_gate(struct rt_deed *k, char *errmsg)
{
    struct finder f = {.name = &k->part.name};
    struct rt_party_op op = {.what = RT_PARTY_LIST, .deadline = rt_loop_clock() + CALL_NS};
    op.list.journal = rt_txn_id_journal(&k->part.name.id);
    op.list.each = find;
    op.list.arg = &f;
    enum rt_reply reply = rt_party_do(k->party, &op);
    if (reply != RT_REPLY_DONE)
        return RT_REPLY_LOST;
    if (!f.found)
        return RT_REPLY_ABSENT;
    k->part.connection = f.connection;
    k->part.prepared = true;
    for (int i = 0; i < GATE_TRIES; i++) {
        if (i > 0)
            (void)poll(NULL, 0, GATE_MS);
        reply = ask(k, RT_PARTY_GATE, 0, errmsg);
        if (reply != RT_REPLY_HELD)
            return reply;
    }
    snprintf(errmsg, LINE, "another connection still has it");
    return RT_REPLY_LOST;
}

static enum rt_reply take_over(struct rt_deed *k, enum rt_party_what what, char *errmsg)
{
    enum rt_reply reply = k->till.mysql ? pass_gate(k, errmsg) : RT_REPLY_CLEAR;
    k->part.prepared = true;
    if (reply == RT_REPLY_CLEAR)
        reply = ask(k, what, 0, errmsg);
    if (reply == RT_REPLY_ABSENT) /* who has ended it, and how? */
        reply = ask(k, RT_PARTY_ASK, what == RT_PARTY_ROLLBACK ? RT_PARTY_FENCE : 0, errmsg);
    bool known = reply == RT_REPLY_DONE || reply == RT_REPLY_ABSENT || reply == RT_REPLY_COMMITTED;
    return known ? reply : RT_REPLY_LOST;
}

enum rt_reply rt_deed_end(struct rt_deed *k, const char *url, const struct rt_word *w,
                          enum rt_party_what what, char *errmsg)
{
    enum rt_reply reply = RT_REPLY_LOST;
    assert(what == RT_PARTY_COMMIT || what == RT_PARTY_ROLLBACK);
    if (k->party != NULL && ask(k, what, 0, errmsg) == RT_REPLY_DONE)
        reply = RT_REPLY_DONE;
    rt_deed_drop(k);
    if (reply != RT_REPLY_DONE && connect_to(k, url, w, true, errmsg))
        reply = take_over(k, what, errmsg);
    rt_deed_drop(k);
    return reply;
}

enum rt_reply rt_deed_look(struct rt_deed *k, const char *url, const struct rt_word *w,
                           char *errmsg)
{
    enum rt_reply reply = RT_REPLY_LOST;
    rt_deed_drop(k);
    if (connect_to(k, url, w, true, errmsg))
        reply = ask(k, RT_PARTY_ASK, 0, errmsg);
    rt_deed_drop(k);
    bool known = reply == RT_REPLY_PREPARED || reply == RT_REPLY_ABSENT ||
                 reply == RT_REPLY_COMMITTED;
    return known ? reply : RT_REPLY_LOST;
}
