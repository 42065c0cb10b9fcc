/* SPDX-License-Identifier: Apache-2.0 */
/* JOIN and JOIN_ALL: tickets made in one step, and their lines listed right after it, in one flight.
 *
 *   create, list ──▶ stand ── all fit ──▶ [durable: heirs] ──▶ [at_least: keepers] ──▶ done, those not granted wait
 *     ▲   │            └── busy, of another kind ──▶ taken back ──▶ refused
 *     │   ├── no such line: made, and again
 *     ├───┴── the answer was lost: the list, asked again, has (session, nonce): adopted; or not: again
 *     └── its number is beyond the last: taken back, and the line with it if it is empty
 *
 * A durable ticket stands as an ephemeral one until it is judged, so a client that dies before leaves nothing; then a
 * node without a session takes its place in one step, with its number. A client that finds the same (session, nonce) of
 * an earlier try, or of another process, keeps that one and takes its own back: a latch counts a party once. */
#include "engine/zookeeper/ops.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define TRIES 16

struct one {
    struct rt_join *join;
    struct rt_zk_look look;
    const struct rt_zk_place *place;
    struct rt_zk_ticket *ticket;
    uint64_t number;            /* 0: not known */
    char node[RT_ZK_NODE_ROOM]; /* made by us; "": none was */
    bool spare;                 /* it is spare: another stands for it */
};

struct joining {
    struct rt_work work; /* first */
    size_t n;
    uint32_t tries, ways; /* ways: how often its lines were made */
    bool durable, attempt, lone;
    bool lost; /* the answer to the last create: only the list knows */
    bool no_line;
    bool adopts; /* an earlier try, or somebody else, has made some of them */
    bool taken;  /* simple: somebody has one of the nodes */
    int refusal;
    struct one ones[];
};

static struct joining *of(struct rt_work *w)
{
    return (struct joining *)(void *)w;
}

static void free_joining(struct rt_conn *conn, struct rt_work *w)
{
    struct joining *j = of(w);
    (void)conn;
    for (size_t i = 0; i < j->n; i++)
        rt_zk_look_fini(&j->ones[i].look);
}

static void decide(struct rt_zk *z, struct joining *j);

static bool is_any_made(const struct joining *j)
{
    for (size_t i = 0; i < j->n; i++)
        if (j->ones[i].node[0] != '\0')
            return true;
    return false;
}

static void one_over(struct rt_zk *z, struct joining *j,
                     void (*next)(struct rt_zk *z, struct joining *j))
{
    if (j->work.pending > 0)
        return;
    if (j->work.err != 0 && j->work.err != ROTA_LOST && (j->lost || is_any_made(j)))
        j->work.err = ROTA_UNKNOWN; /* what failed was noted before that */
    if (j->work.err != 0)
        rt_zk_end(z, &j->work, 0);
    else
        next(z, j);
}

/* An error after something was done is no longer definite, unless it is the session's end. */
static void note(struct rt_zk *z, struct joining *j, int err)
{
    if (err != 0 && err != ROTA_LOST && is_any_made(j))
        err = ROTA_UNKNOWN;
    rt_work_note(&z->base, &j->work, err);
}

/* ---- Made ------------------------------------------------------------------------------------- */

static struct rt_zk_id id_of(const struct rt_join *join)
{
    return (struct rt_zk_id){.session = join->session,
                             .nonce = join->nonce,
                             .mode = join->mode,
                             .take = join->take,
                             .of = join->of,
                             .detect = join->flags & RT_JOIN_DETECT,
                             .keep_ms = join->flags & RT_JOIN_DURABLE ? 0 : join->at_least_ms};
}

static void made(void *arg, size_t part, struct rt_text path)
{
    struct joining *j = arg;
    size_t at = path.size;
    if (j->lone) { /* the second of two nodes is the ticket */
        if (part % 2 == 0)
            return;
        part /= 2;
    }
    while (at > 0 && ((const char *)path.at)[at - 1] != '/')
        at--;
    if (part < j->n && path.size - at < RT_ZK_NODE_ROOM)
        (void)snprintf(j->ones[part].node, RT_ZK_NODE_ROOM, "%.*s", (int)(path.size - at),
                       (const char *)path.at + at);
}

/* Reads what was made, and its number. Returns what the servers said. */
static int32_t read_created(struct rt_zk *z, struct joining *j, const struct rt_zk_ask *a,
                            struct rt_zk_reply *reply)
{
    struct rt_zk_stat stat = {.czxid = reply->zxid}; /* a MULTI's is that of all */
    int32_t said = reply->said;
    if (a->call == RT_ZK_MULTI)
        said = rt_zk_multi_read(reply, made, j);
    else
        made(j, 0, rt_zk_answered_node(0, reply, &stat));
    if (stat.ctime != 0)
        rt_zk_clock(z, stat.ctime);
    for (size_t i = 0; i < j->n && stat.czxid != 0; i++)
        j->ones[i].number = (uint64_t)stat.czxid;
    return said;
}

static void created(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct joining *j = a->owner;
    int32_t said = err == 0 ? read_created(z, j, a, reply) : RT_ZK_OK;
    j->no_line = said == RT_ZK_NO_NODE;
    j->taken = j->lone && said == RT_ZK_EXISTS_ALREADY;
    if (err == ROTA_UNKNOWN && !a->entry.given_up &&
        rt_loop_now(z->base.loop) < j->work.op->deadline) {
        j->lost = true;
        err = 0;
    } else if (err == 0 && reply->body.bad && a->call != RT_ZK_MULTI) {
        err = rt_zk_odd(&z->c);
    } else if (said == -102) {
        err = rt_words_fail(&z->base, ROTA_AUTH, "that user may not create there");
    } else if (said != RT_ZK_OK && !j->no_line && !j->taken) {
        err = rt_words_fail(&z->base, ROTA_PROTOCOL, "ZooKeeper says %d", (int)said);
    }
    note(z, j, err);
    one_over(z, j, decide);
}

static void looked(struct rt_zk *z, struct rt_zk_look *look)
{
    struct joining *j = look->owner;
    note(z, j, look->err);
    one_over(z, j, decide);
}

static int send_looks(struct rt_zk *z, struct joining *j, uint32_t flags)
{
    int rv = 0;
    for (size_t i = 0; rv == 0 && i < j->n; i++)
        rv = rt_zk_work_look(z, &j->work, &j->ones[i].look, j->ones[i].join->name, flags, looked);
    return rv;
}

static int send_create(struct rt_zk *z, struct joining *j)
{
    const uint32_t flags = RT_ZK_EPHEMERAL | RT_ZK_SEQUENTIAL;
    char node[RT_ZK_NODE_ROOM];
    bool multi = j->n > 1 || j->lone;
    struct rt_zk_ask *a = multi ? rt_zk_ask_new(&z->c, RT_ZK_MULTI, created) : NULL;
    for (size_t i = 0; i < j->n; i++) {
        const struct rt_join *join = j->ones[i].join;
        struct rt_zk_id id = id_of(join);
        struct rt_text data = rt_zk_card_write(z, join->owner, join->value);
        rt_zk_node(node, z->dialect, &id, NULL);
        const char *path = rt_zk_node_path(z, join->name, node);
        j->ones[i].node[0] = '\0';
        if (j->lone)
            rt_zk_herd_create(z, a, join->name, node, data);
        else if (multi)
            rt_zk_multi_create(&z->c, a, path, data, flags);
        else
            a = rt_zk_create(&z->c, RT_ZK_CREATE2, path, data, flags, created);
    }
    if (!j->durable)
        a->session = j->ones[0].join->session; /* it is in their names: not sent in any other */
    j->lost = j->no_line = j->adopts = j->taken = false;
    int rv = rt_zk_work_send(z, &j->work, a, 0);
    return rv != 0 ? rv : send_looks(z, j, RT_ZK_LOOK_TIDY);
}

/* If something could not be begun, waits for what is under way. */
static void go(struct rt_zk *z, struct joining *j, int err)
{
    note(z, j, err);
    if (err != 0 && j->work.pending == 0)
        rt_zk_end(z, &j->work, 0);
}

/* ---- Taken back ------------------------------------------------------------------------------- */

static void refused(struct rt_zk *z, struct joining *j)
{
    rt_zk_end(z, &j->work, j->refusal);
}

static void gone(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct joining *j = a->owner;
    (void)reply; /* it is gone, whoever did it */
    if (err != 0 && err != ROTA_LOST)
        err =
            ROTA_UNKNOWN; /* what was made may stand, even if this was not sent: its time was up */
    note(z, j, err);
    one_over(z, j, j->refusal == 0 ? decide : refused);
}

/* Reads the words of whoever is in the way. */
static void front_seen(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct joining *j = a->owner;
    struct rt_zk_card card;
    rt_zk_card_read(z, rt_zk_answered_node(err, reply, NULL), &card);
    const char *who = card.label.size > 0 ? card.label.at : "another";
    (void)rt_words_busy(&z->base, j->ones[a->extra].join->name, who,
                        card.label.size > 0 ? card.label.size : strlen(who));
    rt_work_note(&z->base, &j->work, ROTA_BUSY);
    if (j->work.pending == 0)
        rt_zk_end(z, &j->work, 0);
}

/* Deletes what was made and is not wanted; with a REFUSAL, all of it. The words of REFUSAL are in errmsg, or come from
 * the ticket in the way of the one at BUSY. */
static void take_back(struct rt_zk *z, struct joining *j, int refusal, size_t busy)
{
    const char *path;
    int rv = 0;
    j->refusal = refusal;
    if (refusal != 0 && refusal != ROTA_BUSY)
        rt_work_note(&z->base, &j->work, refusal);
    for (size_t i = 0; rv == 0 && i < j->n; i++) {
        struct one *one = &j->ones[i];
        if (one->node[0] == '\0' || (refusal == 0 && !one->spare))
            continue;
        rv = rt_zk_work_send(z, &j->work, rt_zk_take_out(z, one->join->name, one->node, gone), i);
        one->node[0] = '\0';
    }
    if (rv == 0 && refusal == ROTA_BUSY) {
        const struct one *one = &j->ones[busy];
        path = rt_zk_node_path(z, one->join->name, one->look.line.places[0].node);
        rv = rt_zk_work_send(z, &j->work, rt_zk_read(&z->c, RT_ZK_GET, path, false, front_seen),
                             busy);
    }
    if (rv != 0)
        rt_work_note(&z->base, &j->work, ROTA_UNKNOWN);
    if (j->work.pending == 0)
        rt_zk_end(z, &j->work, rv != 0 ? ROTA_UNKNOWN : refusal);
}

/* ---- They stand ------------------------------------------------------------------------------- */

static void finish(struct rt_zk *z, struct joining *j)
{
    for (size_t i = 0; i < j->n; i++) {
        struct one *one = &j->ones[i];
        struct rt_zk_ticket *t = one->ticket;
        struct rt_join *join = one->join;
        join->number = one->number;
        join->granted = t->granted = one->place->granted;
        t->wanted = join->wanted = t->granted && t->armed &&
                                   (one->look.line.waiting > 0 || j->lone);
        if (!t->granted)
            rt_zk_wait(z, t, t->id.durable ? NULL : &one->look.line, one->place, one->look.ends_ms);
        else if (t->armed && !t->wanted)
            rt_zk_wait_look(z, t);
    }
    rt_zk_end(z, &j->work, 0);
}

static void drop_tickets(struct rt_zk *z, struct joining *j)
{
    for (size_t i = 0; i < j->n; i++)
        if (j->ones[i].ticket != NULL)
            rt_zk_ticket_drop(z, j->ones[i].ticket);
}

/* Meanwhile the session may have ended, or a ticket may have been found gone. */
static bool still_known(struct rt_zk *z, struct joining *j)
{
    bool all = true;
    for (size_t i = 0; i < j->n; i++) {
        const struct rt_join *join = j->ones[i].join;
        j->ones[i].ticket = rt_zk_ticket_find(z, join->name, join->session, 0, join->nonce);
        all = all && j->ones[i].ticket != NULL;
    }
    return all;
}

static void kept(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct joining *j = a->owner;
    if (still_known(z, j))
        note(z, j, rt_zk_kept(z, j->ones[a->extra].ticket, err, reply));
    else
        note(z, j, rt_words_no_ticket(&z->base, j->ones[a->extra].join->name));
    if (j->work.pending == 0 && j->work.err != 0)
        drop_tickets(z, j);
    one_over(z, j, finish);
}

/* The tickets are certain: puts them into the table; one that is granted and has an at_least gets its keeper before
 * it is told. */
static void settle(struct rt_zk *z, struct joining *j)
{
    int rv = 0;
    for (size_t i = 0; i < j->n && rv == 0; i++) {
        struct one *one = &j->ones[i];
        one->ticket = rt_zk_ticket_find(z, one->join->name, one->join->session, 0,
                                        one->join->nonce);
        if (one->ticket == NULL)
            one->ticket = rt_zk_ticket_new(
                z, one->join, one->node[0] != '\0' ? one->node : one->place->node, one->number);
        struct rt_zk_ticket *t = one->ticket;
        if (t == NULL)
            rv = ROTA_UNKNOWN;
        else if (t->number >= RT_ZK_CALLED) /* it waited, and got it by an earlier try */
            rt_zk_herd_won(z, t, one->number);
        else if (one->place->granted && t->at_least_ms > 0 && t->kept_until_ms == 0)
            rv = rt_zk_keep(z, t, j->work.op, kept, j, i, &j->work.pending);
    }
    if (rv != 0)
        note(z, j, ROTA_UNKNOWN);
    if (j->work.pending > 0)
        return;
    if (rv != 0) {
        drop_tickets(z, j);
        rt_zk_end(z, &j->work, 0);
    } else {
        finish(z, j);
    }
}

static void inherited(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct joining *j = a->owner;
    if (err == 0 && rt_zk_multi_read(reply, NULL, NULL) != RT_ZK_OK)
        err = rt_words_fail(&z->base, ROTA_UNKNOWN, "%.120s: the ticket is gone, or has an heir",
                            j->ones[0].join->name);
    note(z, j, err);
    one_over(z, j, settle);
}

/* Nodes without a session take the places of those that have no such heir yet. */
static void make_heirs(struct rt_zk *z, struct joining *j)
{
    struct rt_zk_ask *a = rt_zk_ask_new(&z->c, RT_ZK_MULTI, inherited);
    bool any = false;
    for (size_t i = 0; i < j->n; i++) {
        struct one *one = &j->ones[i];
        struct rt_zk_id id = one->place->id;
        struct rt_text data = rt_zk_card_write(z, one->join->owner, one->join->value);
        if (id.durable)
            continue;
        any = true;
        id.durable = true;
        id.number = one->number;
        id.until_ms = one->join->until_ms;
        rt_zk_node(one->node, z->dialect, &id, &one->place->id.seq);
        rt_zk_multi_heir(z, a, one->join->name, one->place->node, one->node, data,
                         RT_ZK_PERSISTENT);
    }
    if (any) {
        go(z, j, rt_zk_work_send(z, &j->work, a, 0));
        return;
    }
    rt_zk_forgo(&z->c, a);
    settle(z, j);
}

/* ---- Judged ----------------------------------------------------------------------------------- */

/* Drops what one create made twice, which no ZooKeeper does: nobody else would ever take it out. */
static void drop_twins(struct rt_zk *z, const struct one *one)
{
    const struct rt_zk_line *line = &one->look.line;
    for (const struct rt_zk_place *p = one->place; p != NULL && ++p < line->places + line->count;)
        if (p->id.ours && !p->id.durable && p->id.session == one->join->session &&
            p->id.nonce == one->join->nonce && strcmp(p->node, one->node) != 0)
            (void)rt_zk_chore_delete(z, one->join->name, p->node);
}

/* Finds where each stands. ROTA_LOST: some do, and others are gone. */
static int find(struct rt_zk *z, struct joining *j, size_t *missing)
{
    *missing = 0;
    for (size_t i = 0; i < j->n; i++) {
        struct one *one = &j->ones[i];
        const struct rt_join *join = one->join;
        one->place = rt_zk_line_find(&one->look.line, join->session, join->nonce, 0);
        *missing += one->place == NULL;
        drop_twins(z, one);
        one->spare = one->place != NULL && one->node[0] != '\0' &&
                     strcmp(one->place->node, one->node) != 0;
        j->adopts = j->adopts || one->spare;
    }
    if (*missing == 0 || (*missing == j->n && (j->lost || j->taken)))
        return 0;
    return j->n == 1 ? rt_words_no_ticket(&z->base, j->ones[0].join->name)
                     : rt_words_set_ended(&z->base);
}

/* Whether what stands before it is of another kind, or of a recipe that does not exclude ours. */
static int check_kind(struct rt_zk *z, const struct one *one)
{
    const struct rt_zk_line *line = &one->look.line;
    if (line->other != NULL)
        return rt_words_fail(&z->base, ROTA_INVALID,
                             "%.80s: somebody stands there as %.60s, whom ?dialect=%s does not see",
                             one->join->name, line->other, z->dialect->name);
    for (const struct rt_zk_place *p = line->places; p < one->place; p++)
        if (!rt_grant_same_kind(p->id.mode, p->id.of, one->join->mode, one->join->of))
            return rt_words_other_kind(&z->base, one->join, p->id.mode, p->id.of);
    return 0;
}

static void judge(struct rt_zk *z, struct joining *j)
{
    size_t busy = j->n;
    for (size_t i = 0; i < j->n && !j->adopts; i++) {
        int rv = check_kind(z, &j->ones[i]);
        if (rv != 0) {
            take_back(z, j, rv, 0);
            return;
        }
    }
    for (size_t i = 0; i < j->n; i++)
        if (!j->ones[i].place->granted)
            busy = i;
    if (j->attempt && busy < j->n)
        take_back(z, j, ROTA_BUSY, busy);
    else if (j->durable)
        make_heirs(z, j);
    else
        settle(z, j);
}

/* simple: waits for those whose nodes others have. */
static int wait_there(struct rt_zk *z, struct joining *j, size_t busy)
{
    struct rt_zk_ticket **fresh = rt_alloc(j->n * sizeof(struct rt_zk_ticket *));
    char node[RT_ZK_NODE_ROOM];
    size_t n = 0;
    int rv = fresh != NULL ? 0 : rt_words_nomem(&z->base);
    for (size_t i = 0; rv == 0 && i < j->n; i++) {
        struct one *one = &j->ones[i];
        struct rt_zk_id id = id_of(one->join);
        rt_zk_node(node, z->dialect, &id, NULL);
        one->ticket = rt_zk_ticket_find(z, one->join->name, id.session, 0, id.nonce);
        if (one->ticket != NULL && one->ticket->granted) /* it was, and is no longer there */
            rv = rt_words_no_ticket(&z->base, one->join->name);
        if (one->ticket != NULL)
            continue;
        one->ticket = rt_zk_ticket_new(z, one->join, node, RT_ZK_CALLED | ++z->serial);
        if (one->ticket == NULL)
            rv = ROTA_NOMEM;
        else
            fresh[n++] = one->ticket, one->ticket->called = one->ticket->number;
    }
    if (rv == 0 && n > 0)
        rv = rt_zk_herd_wait(z, fresh, n, n == j->n ? busy : 0);
    for (size_t i = 0; rv != 0 && i < n; i++)
        rt_zk_ticket_drop(z, fresh[i]);
    rt_free(fresh);
    return rv;
}

/* simple: somebody has one of them, or had when we tried. */
static void stand_by(struct rt_zk *z, struct joining *j)
{
    size_t busy = 0;
    int rv = 0;
    while (busy < j->n && j->ones[busy].look.line.count == 0)
        busy++;
    for (size_t i = 0; i < j->n && rv == 0; i++)
        rv = check_kind(z, &j->ones[i]);
    if (rv == 0 && busy == j->n && j->tries++ < TRIES) {
        go(z, j, send_create(z, j));
        return;
    }
    if (rv == 0 && j->attempt && busy < j->n) {
        take_back(z, j, ROTA_BUSY, busy);
        return;
    }
    if (rv == 0)
        rv = j->attempt ? rt_words_busy(&z->base, j->ones[0].join->name, "another", 7)
                        : wait_there(z, j, busy < j->n ? busy : 0);
    for (size_t i = 0; rv == 0 && i < j->n; i++) {
        j->ones[i].join->number = j->ones[i].ticket->number;
        j->ones[i].join->granted = j->ones[i].ticket->granted;
    }
    rt_zk_end(z, &j->work, rv);
}

/* ---- A line that is used up --------------------------------------------------------------------- */

static bool is_used_up(const struct joining *j)
{
    for (size_t i = 0; i < j->n; i++) {
        const struct rt_zk_id *id = &j->ones[i].place->id;
        if (id->placed && (id->seq < 0 || id->seq > RT_ZK_SEQ_LAST))
            return true;
    }
    return false;
}

static void create_again(struct rt_zk *z, struct joining *j)
{
    go(z, j, send_create(z, j));
}

static void line_gone(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct joining *j = a->owner;
    const char *name = j->ones[a->extra].join->name;
    if (err == 0 && reply->said == RT_ZK_NOT_EMPTY)
        err = j->attempt ? rt_words_busy(&z->base, name, NULL, 0)
                         : rt_words_fail(&z->base, ROTA_UNKNOWN, /* it will be asked again */
                                         "%.120s: its numbers are used up; it begins anew when all "
                                         "who stand there have left",
                                         name);
    note(z, j, err);
    one_over(z, j, create_again);
}

/* From there on ZooKeeper gives numbers twice, and its lines have no order: nobody stands there. Whoever comes takes
 * its own node back, and the line away once it is empty: made anew, it begins with 0. */
static void begin_lines_anew(struct rt_zk *z, struct joining *j)
{
    int rv = j->tries++ < TRIES
                 ? 0
                 : rt_words_fail(&z->base, ROTA_UNKNOWN, "%.120s does not begin anew",
                                 j->ones[0].join->name);
    for (size_t i = 0; rv == 0 && i < j->n; i++) {
        struct one *one = &j->ones[i];
        one->node[0] = '\0';
        if (!one->place->id.durable &&
            rt_zk_chore_delete(z, one->join->name, one->place->node) != 0)
            rv = ROTA_UNKNOWN; /* it stands */
        else
            rv = rt_zk_send(&z->c,
                            rt_zk_delete(&z->c, rt_zk_line_path(z, one->join->name), line_gone),
                            j->work.op, j, i, &j->work.pending);
    }
    go(z, j, rv);
}

static void make_lines(struct rt_zk *z, struct joining *j)
{
    int rv = 0;
    for (size_t i = 0; rv == 0 && i < j->n; i++)
        rv = rt_zk_make_way(z, rt_zk_node_path(z, j->ones[i].join->name, "x"));
    go(z, j, rv != 0 ? rv : send_create(z, j));
}

/* What is left comes from two tries, because others were taken out: two such sets could wait for each
 * other for ever. */
static void start_over(struct rt_zk *z, struct joining *j)
{
    for (size_t i = 0; i < j->n; i++)
        (void)rt_zk_post(&z->c,
                         rt_zk_take_out(z, j->ones[i].join->name, j->ones[i].place->node, NULL));
    rt_zk_end(z, &j->work,
              rt_words_fail(&z->base, ROTA_UNKNOWN, "what is left of the set is of two tries"));
}

/* Spares are gone, or must go; asks for the numbers of those that others have made. */
static void adopt(struct rt_zk *z, struct joining *j)
{
    bool spare = false, unknown = false, apart = false;
    j->adopts = true;
    for (size_t i = 0; i < j->n; i++) {
        struct one *one = &j->ones[i];
        spare = spare || (one->spare && one->node[0] != '\0');
        if (one->spare || one->node[0] == '\0' || one->number == 0)
            one->number = rt_zk_number(one->place);
        if (!spare && j->lost && !one->place->id.durable) /* ours, after all */
            (void)snprintf(one->node, sizeof(one->node), "%s", one->place->node);
        unknown = unknown || one->number == 0;
        apart = apart || one->number != j->ones[0].number;
    }
    if (spare)
        take_back(z, j, 0, 0);
    else if (unknown)
        go(z, j, send_looks(z, j, RT_ZK_LOOK_DATA | RT_ZK_LOOK_SYNC));
    else if (apart)
        start_over(z, j);
    else
        judge(z, j);
}

static void decide(struct rt_zk *z, struct joining *j)
{
    size_t missing = 0;
    int gone_session = rt_check_session(&z->base, j->work.op, z->session.id);
    if (gone_session != 0) { /* what is there of it dies with it */
        rt_zk_end(z, &j->work, gone_session);
        return;
    }
    if (j->no_line) {
        if (j->ways++ < 3)
            make_lines(z, j);
        else
            rt_zk_end(z, &j->work, rt_zk_no_way(z, rt_zk_line_path(z, j->ones[0].join->name)));
        return;
    }
    int rv = find(z, j, &missing);
    if (rv != 0 && missing == j->n)
        rt_zk_end(z, &j->work, rv);
    else if (rv != 0)
        take_back(z, j, rv, 0);
    else if (missing == j->n && j->taken)
        stand_by(z, j);
    else if (missing == j->n && j->tries++ < TRIES)
        go(z, j, send_create(z, j));
    else if (missing > 0)
        rt_zk_end(z, &j->work,
                  rt_words_fail(&z->base, ROTA_UNKNOWN, "no answer came, time after time"));
    else if (is_used_up(j))
        begin_lines_anew(z, j);
    else if (j->adopts || j->lost || j->taken)
        adopt(z, j);
    else
        judge(z, j);
}

static int begin_join(void *engine, struct rt_work *w)
{
    struct rt_zk *z = engine;
    struct joining *j = of(w);
    const struct rt_op *op = w->op;
    bool detect = false;
    int rv = rt_check_joins(&z->base, op);
    for (size_t i = 0; rv == 0 && i < op->join.n; i++) {
        rv = rt_zk_check_name(z, op->join.joins[i].name);
        j->ones[i].join = &op->join.joins[i];
        detect = detect || op->join.joins[i].flags & RT_JOIN_DETECT;
    }
    if (rv == 0 && rt_turn_names(w) != op->join.n)
        rv = rt_words_fail(&z->base, ROTA_INVALID, "a set names a lock twice");
    if (rv == 0)
        rv = rt_check_session(&z->base, op, z->session.id);
    if (rv != 0)
        return rv;
    j->n = op->join.n;
    j->lone = z->dialect->lone != NULL;
    j->durable = op->join.joins[0].flags & RT_JOIN_DURABLE;
    j->attempt = op->join.joins[0].flags & RT_JOIN_TRY;
    if (detect && !j->durable)
        rv = rt_zk_show_lines(z, op);
    if (rv == 0)
        rv = send_create(z, j);
    rt_work_note(&z->base, w, rv);
    return w->pending == 0 ? rv : 0;
}

const struct rt_turn_kind rt_zk_join = {.size = sizeof(struct joining),
                                        .each = sizeof(struct one),
                                        .begin = begin_join,
                                        .free = free_joining};
