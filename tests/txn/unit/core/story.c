/* SPDX-License-Identifier: Apache-2.0 */
/* A story of one transaction: events read from words, what follows written in words. */
#include "story.h"

#include "txn/core/reserve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- What follows ------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void say(struct story *s, const char *format, ...)
{
    size_t n = strlen(s->said);
    va_list args;
    if (n > 0)
        n += (size_t)snprintf(s->said + n, sizeof(s->said) - n, ", ");
    va_start(args, format);
    vsnprintf(s->said + n, sizeof(s->said) - n, format, args);
    va_end(args);
}

static void say_decide(struct story *s, const struct rt_txn_todo *todo)
{
    char list[64] = "";
    struct rt_txn_part parts[STORY_ROOM];
    bool commit = todo->decision == RT_DECISION_COMMIT;
    uint32_t n = commit ? rt_txn_parts(&s->t, parts, STORY_ROOM) : 0;
    for (uint32_t i = 0; i < n; i++)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), " %u", parts[i].number);
    say(s, "DECIDE %s%s", commit ? "COMMIT" : "ABORT", list);
}

static void say_entering(struct story *s)
{
    char list[64] = "";
    for (uint32_t i = 0; i < s->t.count; i++)
        if (s->b[i].entering)
            snprintf(list + strlen(list), sizeof(list) - strlen(list), " %u", s->b[i].number);
    say(s, "REGISTER%s", list);
}

static void say_todo(struct story *s, const struct rt_txn_todo *todo)
{
    static const char *const ops[] = {"",         "PREPARE", "ONE_PHASE", "COMMIT",
                                      "ROLLBACK", "ASK",     "GATE"};
    bool order = todo->op == RT_BRANCH_COMMIT || todo->op == RT_BRANCH_ROLLBACK;
    switch (todo->to) {
    case RT_TXN_DECIDE:
        say_decide(s, todo);
        break;
    case RT_TXN_REGISTER:
        say_entering(s);
        break;
    case RT_TXN_VOUCH:
        say(s, "VOUCH");
        break;
    case RT_TXN_LOOK:
        say(s, "LOOK");
        break;
    case RT_TXN_DONE:
        say(s, "DONE");
        break;
    default:
        if (todo->branch->service) {
            say(s, "%s %u", todo->op == RT_BRANCH_COMMIT ? "CONFIRM" : "CANCEL",
                todo->branch->number);
            break;
        }
        say(s, "%s %u%s%s", ops[todo->op], todo->branch->number, order && !todo->own ? " over" : "",
            todo->fence   ? " fence"
            : todo->stays ? " stays"
                          : "");
    }
}

static void say_all(struct story *s)
{
    static const char *const outcomes[] = {"OPEN",    "COMMITTED", "ABORTED", "EXPIRED",
                                           "UNKNOWN", "PREPARED",  "LATE"};
    struct rt_txn_todo todo;
    rt_txn_tick(&s->t, s->now);
    uint32_t news = rt_txn_news(&s->t);
    if ((news & RT_TXN_ANSWERED) != 0)
        say(s, "told %s", outcomes[s->t.told]);
    while (rt_txn_todo(&s->t, &todo, s->now))
        say_todo(s, &todo);
    if ((news & RT_TXN_ATTENTION) != 0)
        say(s, "attention");
    if ((news & RT_TXN_STUCK) != 0)
        say(s, "stuck");
    if ((news & RT_TXN_OVER) != 0)
        say(s, "ended");
    assert_int_equal(rt_txn_news(&s->t), 0);  /* to send something is no news */
    assert_true(rt_txn_next(&s->t) > s->now); /* and all that was due is done */
}

/* ---- What happens ------------------------------------------------------- */

static enum rt_reply reply_of(const char *word)
{
    static const char *const words[] = {"lost", "yes",    "readonly", "no",
                                        "done", "absent", "prepared", "committed",
                                        "held", "clear",  "refused"};
    for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i], word) == 0)
            return (enum rt_reply)i;
    fail_msg("what is %s?", word);
    return RT_REPLY_LOST;
}

static struct rt_branch *of_number(struct story *s, uint32_t number)
{
    for (uint32_t i = 0; i < s->t.count; i++)
        if (s->b[i].number == number)
            return &s->b[i];
    fail_msg("no branch %u", number);
    return NULL;
}

static void answer(struct story *s, struct rt_branch *b, struct rt_txn_answer a)
{
    a.seq = b != NULL ? b->retry.seq : s->t.journal.seq;
    assert_true(a.seq != 0); /* somebody has asked */
    s->last = a;
    s->last_of = b;
    rt_txn_answered(&s->t, b, &a, s->now);
}

static void branch_answers(struct story *s, const char *event)
{
    char *word;
    struct rt_branch *b = of_number(s, (uint32_t)strtoul(event, &word, 10));
    answer(s, b, (struct rt_txn_answer){.reply = reply_of(word + 1)});
}

static void journal_answers(struct story *s, const char *event)
{
    char what[16] = "";
    int used = 0;
    struct rt_txn_answer a = {.reply = RT_REPLY_STANDS, .parts = NULL};
    sscanf(event, "%15s%n", what, &used);
    const char *rest = event + used;
    for (char *end; *rest != '\0' && strcmp(rest, " done") != 0; rest = end) {
        uint32_t number = (uint32_t)strtoul(rest, &end, 10);
        struct rt_txn_part *part = &s->parts[a.part_count++];
        *part = (struct rt_txn_part){.number = number, .resource = number};
        part->service = *end == 's' || *end == 'v';
        part->vouched = *end == 'v';
        end += part->service;
        a.parts = s->parts;
        a.registered += 1 + part->vouched;
    }
    a.done = *rest != '\0';
    if (strcmp(what, "COMMIT") == 0)
        a.decision = RT_DECISION_COMMIT;
    else if (strcmp(what, "ABORT") == 0)
        a.decision = RT_DECISION_ABORT;
    else if (strcmp(what, "below") == 0)
        a.reply = RT_REPLY_BELOW;
    else if (strcmp(what, "open") == 0)
        a.reply = RT_REPLY_OPEN;
    else
        a.reply = reply_of(what);
    answer(s, NULL, a);
}

static void happen(struct story *s, const char *event)
{
    int64_t limit = s->now + 5000 * STORY_MS;
    if (strncmp(event, "commit", 6) == 0)
        rt_txn_commit(&s->t, event[6] != '\0', limit, s->now);
    else if (strcmp(event, "vote") == 0)
        rt_txn_vote(&s->t, limit, s->now);
    else if (event[0] == 'a' && event[1] == 'd')
        rt_txn_add(&s->t, (uint32_t)strtoul(event + 4, NULL, 10), s->t.count, false);
    else if (strncmp(event, "service ", 8) == 0)
        rt_reserve_add(&s->t, (uint32_t)strtoul(event + 8, NULL, 10), s->t.count);
    else if (strncmp(event, "try ", 4) == 0)
        rt_reserve_try(&s->t, of_number(s, (uint32_t)strtoul(event + 4, NULL, 10)));
    else if (strncmp(event, "serve ", 6) == 0)
        rt_reserve_back(of_number(s, (uint32_t)strtoul(event + 6, NULL, 10)), s->now);
    else if (strcmp(event, "abort") == 0)
        rt_txn_abort(&s->t, limit, s->now);
    else if (event[0] == '+')
        s->now += strtol(event + 1, NULL, 10) * STORY_MS;
    else if (strncmp(event, "back ", 5) == 0)
        rt_txn_back(&s->t, (uint32_t)strtoul(event + 5, NULL, 10), s->now);
    else if (strcmp(event, "again") == 0)
        rt_txn_answered(&s->t, s->last_of, &s->last, s->now);
    else if (strncmp(event, "journal ", 8) == 0)
        journal_answers(s, event + 8);
    else if (event[0] >= '0' && event[0] <= '9')
        branch_answers(s, event);
    else
        assert_string_equal(event, ""); /* nothing: what is due anyway */
}

void story_happens(struct story *s, const char *event, const char *follows, const char *file,
                   int line)
{
    s->said[0] = '\0';
    happen(s, event);
    say_all(s);
    if (strcmp(s->said, follows) != 0)
        fail_msg("%s:%d: after \"%s\" follows \"%s\", not \"%s\"", file, line, event, s->said,
                 follows);
}

/* ---- How it begins ------------------------------------------------------ */

static const struct rt_txn_id some_id = {{0, 0, 0, 7, 1}};

static void begin(struct story *s, uint32_t n, bool gated)
{
    memset(s, 0, sizeof(*s));
    s->now = 1000 * STORY_MS;
    rt_txn_begin(&s->t, &some_id, 60000, s->now + 60000 * STORY_MS, s->b, STORY_ROOM);
    for (uint32_t i = 0; i < n; i++)
        rt_txn_add(&s->t, i, i, gated);
}

void story_begin(struct story *s, uint32_t n)
{
    begin(s, n, false);
}

void story_begin_gated(struct story *s, uint32_t n)
{
    begin(s, n, true);
}

void story_join(struct story *s)
{
    memset(s, 0, sizeof(*s));
    s->now = 1000 * STORY_MS;
    rt_txn_join(&s->t, &some_id, 60000, s->now + 60000 * STORY_MS, s->now + 65000 * STORY_MS, s->b,
                STORY_ROOM);
}

void story_adopt(struct story *s, uint32_t n, bool gated)
{
    memset(s, 0, sizeof(*s));
    s->now = 1000 * STORY_MS;
    rt_txn_adopt(&s->t, &some_id, 60000, s->b, STORY_ROOM);
    for (uint32_t i = 0; i < n; i++)
        rt_txn_found(&s->t, &(struct rt_txn_part){.number = i, .resource = i, .gated = gated});
}
