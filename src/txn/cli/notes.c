/* SPDX-License-Identifier: Apache-2.0 */
/* Who resolved what. A note is the resource "rota:note:ID:TIME:RANDOM", with its text in place of a URL. And what a
 * person was called for: "rota:call:ID:RESOURCE". */
#include "txn/cli/notes.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define NOTE RT_JOURNAL_OWN "note:"
#define CALL RT_JOURNAL_OWN "call:"
#define NAME_ROOM 96
#define TEXT_ROOM 512

/* user@host; and the user who ran sudo, if any. */
static void who_am_i(char *out, size_t size)
{
    const struct passwd *me = getpwuid(geteuid());
    const char *behind = getenv("SUDO_USER");
    char host[128] = "?", number[32];

    snprintf(number, sizeof(number), "%lu", (unsigned long)geteuid());
    (void)gethostname(host, sizeof(host) - 1);
    if (behind != NULL && behind[0] != '\0')
        snprintf(out, size, "%s (sudo by %.64s)@%s", me != NULL ? me->pw_name : number, behind,
                 host);
    else
        snprintf(out, size, "%s@%s", me != NULL ? me->pw_name : number, host);
}

int rt_notes_write(const struct rt_visit *v, const struct rt_txn_id *id, const char *what)
{
    char name[NAME_ROOM], text[TEXT_ROOM], who[256], digits[RT_TXN_ID_TEXT];
    uint32_t salt = 0;

    rt_txn_id_text(id, digits);
    who_am_i(who, sizeof(who));
    (void)!getrandom(&salt, sizeof(salt), 0);
    snprintf(name, sizeof(name), NOTE "%s:%012" PRIx64 ":%08" PRIx32, digits,
             (uint64_t)rt_visit_wall_ms(), salt);
    snprintf(text, sizeof(text), "%s: %s", who, what);
    struct rt_journal_op op = {.kind = RT_JOURNAL_RESOURCE,
                               .resource = {.name = name, .url = text}};
    return rt_txns_ask(v->m, &op);
}

struct reading {
    char prefix[NAME_ROOM];
    size_t size;
    void (*each)(void *arg, int64_t at_ms, const char *text);
    void *arg;
};

static void take(void *arg, const char *name, const char *url, int64_t seen_ms)
{
    const struct reading *r = arg;

    (void)seen_ms;
    if (strncmp(name, r->prefix, r->size) == 0)
        r->each(r->arg, (int64_t)strtoull(name + r->size, NULL, 16), url);
}

int rt_notes_read(const struct rt_visit *v, const struct rt_txn_id *id,
                  void (*each)(void *arg, int64_t at_ms, const char *text), void *arg)
{
    struct reading r = {.each = each, .arg = arg};
    char digits[RT_TXN_ID_TEXT];
    struct rt_journal_op op = {.kind = RT_JOURNAL_RESOURCES,
                               .resources = {.each = take, .arg = &r}};

    rt_txn_id_text(id, digits);
    r.size = (size_t)snprintf(r.prefix, sizeof(r.prefix), NOTE "%s:", digits);
    return rt_txns_ask(v->m, &op);
}

/* ---- Calls ----------------------------------------------------------------------- */

int rt_notes_call(const struct rt_visit *v, const struct rt_txn_id *id, const char *resource,
                  const char *line)
{
    char name[RT_JOURNAL_NAME_MAX + 1], digits[RT_TXN_ID_TEXT];

    rt_txn_id_text(id, digits);
    snprintf(name, sizeof(name), CALL "%s:%s", digits, resource); /* a long one is cut */
    struct rt_journal_op op = {.kind = RT_JOURNAL_RESOURCE,
                               .resource = {.name = name, .url = line}};
    return rt_txns_ask(v->m, &op);
}

struct calling {
    char prefix[NAME_ROOM];
    size_t size;
    rt_notes_call_fn *each;
    void *arg;
};

static void take_call(void *arg, const char *name, const char *url, int64_t seen_ms)
{
    const struct calling *c = arg;
    const size_t digits = RT_TXN_ID_TEXT - 1, before = sizeof(CALL) - 1;

    if (strncmp(name, c->prefix, c->size) != 0 || strlen(name) <= before + digits)
        return;
    c->each(c->arg, name + before, name + before + digits + 1, url, seen_ms);
}

int rt_notes_calls(const struct rt_visit *v, const struct rt_txn_id *id, rt_notes_call_fn *each,
                   void *arg)
{
    struct calling c = {.prefix = CALL, .each = each, .arg = arg};
    struct rt_journal_op op = {.kind = RT_JOURNAL_RESOURCES,
                               .resources = {.each = take_call, .arg = &c}};
    char digits[RT_TXN_ID_TEXT];

    if (id != NULL) {
        rt_txn_id_text(id, digits);
        snprintf(c.prefix, sizeof(c.prefix), CALL "%s:", digits);
    }
    c.size = strlen(c.prefix);
    return rt_txns_ask(v->m, &op);
}
