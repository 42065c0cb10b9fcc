/* SPDX-License-Identifier: Apache-2.0 */
/* The shop and the mail service of the demo: each a process that may be killed anywhere. */
#include "txn/relay/cli/outbox/outbox.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define ORDER_NS 12000000 /* from one order to the next */
#define MAIL_NS 8000000   /* one mail takes this */
#define ACK_MS 1000

static void pause_for(long ns)
{
    (void)nanosleep(&(struct timespec){0, ns}, NULL);
}

/* Opens the broker, and finds its kind. */
static bool reach(const struct rt_outbox *o, const struct rt_broker_kind **kind,
                  struct rt_broker **out)
{
    const struct rt_broker_options opts = {.app = "rota-demo", .ack_ms = ACK_MS};
    static struct rt_url url; /* stays as long as the process */
    char line[RT_BROKER_LINE];

    if (rt_url_parse(&url, o->to, line, sizeof(line)) != 0)
        return false;
    *kind = rt_broker_find(url.scheme);
    return *kind != NULL &&
           (*kind)->open(out, &url, &opts, rt_relay_now() + 10 * SECOND, line, sizeof(line)) == 0;
}

/* ---- The shop --------------------------------------------------------------------------- */

static bool take_order(struct rt_outbox *o, long long number, const char *event)
{
    char sql[600];

    snprintf(sql, sizeof(sql), "%s; INSERT INTO rota_demo_order VALUES (%lld); %sCOMMIT",
             o->store->kind->dialect == RT_STMT_SQLITE ? "BEGIN IMMEDIATE" : "START TRANSACTION",
             number, event);
    if (!rt_outbox_say(o, sql))
        return false;
    if (number % 10 == RT_OUTBOX_LAST_WORDS)
        kill(getpid(), SIGKILL); /* just then: the row is there */
    return true;
}

static bool publish(struct rt_outbox *o, const struct rt_broker_kind *kind, struct rt_broker *b,
                    long long number)
{
    char text[32], id[64];
    enum rt_sent sent = RT_SENT_LOST;
    const char *why = NULL;

    snprintf(text, sizeof(text), "%lld", number);
    snprintf(id, sizeof(id), "by-hand:%lld", number);
    const struct rt_message m = {.id = id, .topic = o->topic, .body = text, .size = strlen(text)};
    return kind->publish(b, &m, 1, rt_relay_now() + 10 * SECOND, &sent, &why) == 0 &&
           sent == RT_SENT_CONFIRMED;
}

int rt_outbox_shop(struct rt_outbox *o)
{
    const struct rt_broker_kind *kind = NULL;
    struct rt_broker *b = NULL;
    char event[300] = "";

    if (rt_outbox_open(o, false) != RT_EXIT_OK || (o->by_hand && !reach(o, &kind, &b)))
        return 1;
    long long done = rt_outbox_number(o, "SELECT COALESCE(MAX(id), 0) FROM rota_demo_order");
    for (long long i = done + 1; done >= 0 && i <= (long long)o->orders; i++) {
        if (!o->by_hand)
            snprintf(event, sizeof(event),
                     "INSERT INTO rota_demo_event (topic, payload, state) VALUES ('%s', '%lld', "
                     "'new'); ",
                     o->topic, i);
        if (!take_order(o, i, event) || (o->by_hand && !publish(o, kind, b, i)))
            return 1;
        pause_for(ORDER_NS);
    }
    return done >= 0 ? 0 : 1;
}

/* ---- The mail service ---------------------------------------------------------------------- */

/* The inbox, the mail and `processed` are one transaction. True: the message may be acknowledged. */
static bool send_mail(struct rt_outbox *o, const struct rt_message *m)
{
    struct rt_store *s = o->store;
    const char *ids[] = {m->id};
    bool mysql = s->kind->dialect == RT_STMT_MYSQL;

    if (rt_store_begin(s) != 0)
        return false;
    rt_stmt_add(&s->q,
                s->kind->dialect == RT_STMT_SQLITE ? "BEGIN IMMEDIATE" : "START TRANSACTION");
    rt_stmt_add(&s->q, "; INSERT %sINTO rota_demo_inbox VALUES (", mysql ? "IGNORE " : "");
    rt_stmt_text(&s->q, m->id);
    rt_stmt_add(&s->q, mysql ? ")" : ") ON CONFLICT DO NOTHING");
    s->open = true;
    if (rt_store_say(s) != 0)
        return false;
    bool first = s->said.affected == 1;
    rt_stmt_clear(&s->q);
    if (first)
        rt_stmt_add(&s->q, "INSERT INTO rota_demo_mail VALUES (%.*s); ", (int)m->size,
                    (const char *)m->body);
    if (!o->by_hand && rt_event_process(&s->q, &s->map, ids, 1, s->form))
        rt_stmt_add(&s->q, "; ");
    rt_stmt_add(&s->q, "COMMIT");
    bool done = rt_store_say(s) == 0;
    s->open = false;
    if (done && !first)
        fputc('.', stderr); /* counted by the director */
    return done;
}

/* Whether it is a number, and nothing else: the stream may contain anything. */
static bool is_order(const struct rt_message *m)
{
    const char *body = m->body;

    for (size_t i = 0; i < m->size; i++)
        if (body[i] < '0' || body[i] > '9')
            return false;
    return m->size > 0 && m->size < 10;
}

int rt_outbox_mail(struct rt_outbox *o)
{
    const struct rt_broker_kind *kind = NULL;
    struct rt_broker *b = NULL;
    struct rt_message m;
    uint64_t token;

    if (rt_outbox_open(o, false) != RT_EXIT_OK || !reach(o, &kind, &b) ||
        kind->subscribe(b, o->topic, "mail", 8) != 0)
        return 1;
    for (;;) {
        int err = kind->next(b, rt_relay_now() + SECOND, &m, &token);
        if (err == ROTA_BUSY)
            continue;
        if (err != 0 || !is_order(&m) || !send_mail(o, &m) || kind->ack(b, token) != 0)
            return 1;
        pause_for(MAIL_NS);
    }
}
