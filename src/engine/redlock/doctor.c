/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor: which promises hold on these nodes as they are set, and what to change. */
#include "engine/redlock/redlock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_OFF_US 1000000

/* A row for which one of the nodes is the reason: "HOST: WHAT". */
static void say_of(const struct rt_op *op, const struct rt_redlock_node *node, const char *promise,
                   const char *verdict, const char *what, const char *remedy)
{
    char setting[400];
    (void)snprintf(setting, sizeof(setting), "%s: %s",
                   node->link.nodes != NULL ? node->link.nodes->at : "a node", what);
    rt_words_verdict(op, promise, verdict, setting, remedy);
}

static const struct rt_resp_facts *facts_of(const struct rt_redlock_node *node)
{
    static const struct rt_resp_facts none;
    return node->link.nodes != NULL ? &node->link.nodes->facts : &none;
}

static bool keeps(const struct rt_resp_facts *f)
{
    return f->known && f->aof && f->replay == RT_RESP_REPLAY_KEPT && !f->config_refused &&
           strcmp(f->appendfsync, "always") == 0 && strcmp(f->rewrite, "no") == 0;
}

/* The first node that IS says no to; NULL: none. */
static const struct rt_redlock_node *first_without(const struct rt_redlock_conn *c,
                                                   bool (*is)(const struct rt_resp_facts *f))
{
    for (uint32_t i = 0; i < c->count; i++)
        if (facts_of(&c->nodes[i])->known && !is(facts_of(&c->nodes[i])))
            return &c->nodes[i];
    return NULL;
}

static bool spares(const struct rt_resp_facts *f)
{
    return strcmp(f->policy, "noeviction") == 0;
}

static bool stands_alone(const struct rt_resp_facts *f)
{
    return f->replicas == 0;
}

/* Servers that are one: the same run, by two names. */
static const struct rt_redlock_node *find_twice(const struct rt_redlock_conn *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (facts_of(&c->nodes[i])->known && facts_of(&c->nodes[k])->known &&
                strcmp(facts_of(&c->nodes[i])->run_id, facts_of(&c->nodes[k])->run_id) == 0)
                return &c->nodes[i];
    return NULL;
}

static void check_holders(struct rt_redlock_conn *c, const struct rt_op *op)
{
    static const char promise[] = "one holder at a time (I1)";
    const struct rt_redlock_node *twice = find_twice(c), *evicts = first_without(c, spares);
    const struct rt_redlock_node *forgets = first_without(c, keeps);
    const struct rt_redlock_node *copied = first_without(c, stands_alone);
    if (twice != NULL)
        say_of(op, twice, promise, "limited",
               "the same server as another node: only one of them counts", "name each server once");
    else if (evicts != NULL)
        say_of(op, evicts, promise, "limited", "it may evict locks when memory is short",
               "set maxmemory-policy noeviction");
    else if (copied != NULL)
        say_of(op, copied, promise, "limited",
               "it has replicas, and one that is promoted may lack the last locks",
               "use servers without");
    else if (forgets != NULL && c->longest == 0)
        say_of(op, forgets, promise, "broken",
               "a crash forgets locks, and ?max_ttl=0 lets it count at once",
               "leave ?max_ttl=0 out, or set appendonly yes and appendfsync always");
    else if (forgets != NULL)
        say_of(op, forgets, promise, "limited",
               "a crash forgets locks: after it the node does not count for the longest ttl; and a "
               "clock that jumps ends locks early",
               "set appendonly yes and appendfsync always, or guard the resource by the fence");
    else
        rt_words_verdict(op, promise, "limited",
                         "a clock that jumps on a majority of nodes ends locks early",
                         "guard the resource by the fence");
}

static void check_fences(struct rt_redlock_conn *c, const struct rt_op *op)
{
    static const char promise[] = "fences only grow (I2)";
    const struct rt_redlock_node *forgets = first_without(c, keeps);
    if (forgets == NULL)
        rt_words_verdict(op, promise, "kept", "every node keeps its counter", "");
    else
        say_of(op, forgets, promise, "limited",
               "a majority that forgets its counters counts on by its clocks",
               "set appendonly yes and appendfsync always on all");
}

static void check_majority(struct rt_redlock_conn *c, const struct rt_op *op)
{
    char setting[320];
    uint32_t up = rt_redlock_up(c), majority = rt_quorum_majority(c->count), counts = 0;
    for (uint32_t i = 0; i < c->count; i++)
        counts += c->nodes[i].up && rt_redlock_counts(&c->nodes[i]);
    const char *trouble = rt_redlock_trouble(&c->base);
    (void)snprintf(setting, sizeof(setting), "%u of %u nodes answer, %u of them count%s%s", up,
                   c->count, counts, trouble != NULL ? ": " : "", trouble != NULL ? trouble : "");
    rt_words_verdict(op, "goes on when a node is lost",
                     counts < majority    ? "broken"
                     : counts == majority ? "limited"
                                          : "kept",
                     setting, counts <= majority ? "bring the other nodes back" : "");
}

static void check_clocks(struct rt_redlock_conn *c, const struct rt_op *op)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    char setting[160];
    for (uint32_t i = 0; i < c->count; i++) {
        if (!c->nodes[i].known)
            continue;
        least = c->nodes[i].ahead_us < least ? c->nodes[i].ahead_us : least;
        most = c->nodes[i].ahead_us > most ? c->nodes[i].ahead_us : most;
    }
    int64_t apart = most > least ? most - least : 0;
    (void)snprintf(setting, sizeof(setting), "the nodes' clocks are %lld ms apart",
                   (long long)(apart / 1000));
    rt_words_verdict(op, "clocks agree", apart > CLOCK_OFF_US ? "limited" : "kept", setting,
                     apart > CLOCK_OFF_US
                         ? "let all nodes follow one NTP server; ttls do not mind, "
                           "jumps end locks early"
                         : "");
}

/* ---- Rights --------------------------------------------------------------------------------------------- */

struct checking {
    struct rt_work work; /* first */
    uint32_t refused;    /* nodes */
    char lacks[240];
};

static void check_rights(struct rt_redlock_conn *c, const struct checking *k,
                         const struct rt_op *op)
{
    uint32_t spare = c->count - rt_quorum_majority(c->count);
    if (k->refused == 0)
        rt_words_verdict(op, "rights", "kept", "the user may do all that is needed", "");
    else
        rt_words_verdict(op, "rights", k->refused > spare ? "broken" : "limited", k->lacks,
                         "grant what docs/engines/redlock.md lists, on every node");
}

/* ---- The report ----------------------------------------------------------------------------------------- */

static void report(struct rt_redlock_conn *c, struct checking *k)
{
    const struct rt_op *op = k->work.op;
    char longest[160];
    check_holders(c, op);
    check_fences(c, op);
    rt_words_verdict(op, "order of arrival (I7)", "broken",
                     "who waits asks again every 20 to 100 ms: nobody stands in line",
                     "use an engine with a line where order matters");
    check_majority(c, op);
    (void)snprintf(longest, sizeof(longest),
                   c->longest == 0
                       ? "?max_ttl=0: a node counts from its start"
                       : "a node counts when it has been up for %lld s (?max_ttl=); it must be the "
                         "same for all clients, and no foreign ttl may be longer",
                   (long long)(c->longest / (1000 * RT_MS)));
    rt_words_verdict(op, "a restart forgets no holder", c->longest == 0 ? "limited" : "kept",
                     longest,
                     c->longest == 0 ? "only with nodes that keep all: appendfsync always" : "");
    check_clocks(c, op);
    check_rights(c, k, op);
    rt_work_end(&c->base, &k->work, 0);
}

static void note_lack(struct checking *k, const struct rt_redlock_node *node, const char *what)
{
    if (k->refused++ == 0)
        (void)snprintf(k->lacks, sizeof(k->lacks), "%.60s: the user lacks%.110s",
                       node->link.nodes != NULL ? node->link.nodes->at : "a node", what);
}

static void rights_answered(struct rt_redlock_node *node, struct rt_redlock_request *rq, int err,
                            int status, const redisReply *reply)
{
    struct checking *k = rq->owner;
    if (err == ROTA_AUTH)
        note_lack(k, node, " the right to run scripts, or to reach rota:f");
    else if (err == 0 && status == RT_REDLOCK_OK && reply->type == REDIS_REPLY_ARRAY &&
             reply->elements == 3 && reply->element[2]->type == REDIS_REPLY_STRING &&
             reply->element[2]->len > 0)
        note_lack(k, node, reply->element[2]->str);
    if (k->work.op != NULL && k->work.pending == 0)
        report(node->conn, k);
    else
        rt_work_settle(&node->conn->base, &k->work);
}

int rt_redlock_begin_check(struct rt_redlock_conn *c, struct rt_op *op)
{
    struct checking *k = rt_work_new(&c->works, &c->base, sizeof(*k), op);
    if (k == NULL)
        return ROTA_NOMEM;
    struct rt_redlock_call call = {.script = RT_REDLOCK_RIGHTS,
                                   .name = "rota:f",
                                   .deadline = rt_loop_now(c->base.loop) + rt_redlock_limit(c),
                                   .pending = &k->work.pending,
                                   .owner = k,
                                   .answer = rights_answered};
    call.deadline = op->deadline < call.deadline ? op->deadline : call.deadline;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->nodes[i].up && /* what it does not answer in time says nothing of rights */
            rt_redlock_send(&c->nodes[i], &call) == NULL)
            rt_work_note(&c->base, &k->work, rt_words_nomem(&c->base));
    if (k->work.pending == 0)
        report(c, k);
    else
        rt_redlock_by(c, op->deadline);
    return 0;
}
