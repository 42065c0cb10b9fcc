/* SPDX-License-Identifier: Apache-2.0 */
/* A keeper's connection: opened, and attached to the tables of markers that errands ask for.
 *
 *   connect ──▶ attached without a table (who is there, may it) ──▶ an errand that needs one: attached to that
 *
 * Attaching to a table tells which database it is in (branch/identity.c). An errand whose branch is in another database
 * is refused before anything is asked. */
#include "txn/manager/resource_inside.h"

#include "base/bug.h"
#include "net/loop.h"

#include <rota.h>

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define PASSWORD_ROOM 1024

/* ---- Opening ------------------------------------------------------------------------ */

/* Like rt_party_do, but it can be stopped. */
static enum rt_reply attach(struct rt_contact *contact, struct rt_effort *effort, uint32_t flags,
                            int *err)
{
    struct rt_party_op op = {.what = RT_PARTY_ATTACH, .flags = flags, .deadline = effort->until};
    bool over = rt_party_start(contact->party, &op);

    while (!over) {
        struct rt_party_wait w = rt_party_wait(contact->party);
        int said = rt_effort_wait(effort, w.fd, w.events, w.until);
        if (said < 0)
            op.deadline = 1;
        over = rt_party_go(contact->party, (short)(said > 0 ? said : 0));
    }
    *err = op.err;
    return op.reply;
}

/* Checks who is there, and whether it will do at all. */
static int greet(struct rt_contact *contact, struct rt_effort *effort, char *errmsg, size_t size)
{
    int err = rt_party_open(&contact->party, contact->reach->kind, contact->conn, true, NULL,
                            errmsg, size);

    if (err != 0)
        return err;
    enum rt_reply reply = attach(contact, effort, RT_PARTY_UNMARKED, &err);
    if (reply == RT_REPLY_DONE)
        return 0;
    snprintf(errmsg, size, "%s", contact->party->errmsg);
    return err != 0 ? err : ROTA_PROTOCOL;
}

static int open_at(struct rt_contact *contact, const struct rt_url *url, size_t i, size_t *count,
                   struct rt_effort *effort, char *errmsg, size_t size)
{
    int err = contact->reach->connect(url, i, count, effort, &contact->conn, contact->marks, errmsg,
                                      size);

    if (err == 0)
        err = greet(contact, effort, errmsg, size);
    if (err != 0)
        rt_contact_close(contact);
    return err;
}

/* One place after the other, each with its share of the time. The error of the first that refuses us counts, for the
 * others may just not be there. */
static int open_any(struct rt_contact *contact, struct rt_spot *spot, const struct rt_url *url,
                    struct rt_effort *effort, char *errmsg, size_t size)
{
    char why[RT_RESOURCE_LINE] = "";
    int err = ROTA_UNREACHABLE, last = 0;
    size_t count = 1;

    for (size_t i = 0; i < count && last != ROTA_CANCELED; i++) {
        int64_t now = rt_loop_clock();
        struct rt_effort own = {.r = effort->r,
                                .until = now + (effort->until - now) / (int64_t)(count - i)};
        *contact = (struct rt_contact){.reach = spot->reach, .spot = spot};
        last = open_at(contact, url, i, &count, &own, why, sizeof(why));
        if (last == 0)
            return 0;
        if (i == 0 || err == ROTA_UNREACHABLE || last == ROTA_CANCELED) {
            err = last;
            snprintf(errmsg, size, "%s", why);
        }
    }
    return err;
}

int rt_contact_open(struct rt_contact *contact, struct rt_spot *spot, struct rt_effort *effort,
                    char *errmsg, size_t size)
{
    char password[PASSWORD_ROOM];
    struct rt_url url = spot->url; /* its texts belong to the spot */

    int err = rt_url_password(&url, password, sizeof(password), errmsg, size);
    if (err == 0) {
        if (password[0] != '\0')
            url.password = password;
        err = open_any(contact, spot, &url, effort, errmsg, size);
    }
    explicit_bzero(password, sizeof(password));
    if (err != 0)
        *contact = (struct rt_contact){0};
    return err;
}

void rt_contact_close(struct rt_contact *contact)
{
    rt_party_close(contact->party);
    if (contact->conn != NULL)
        contact->reach->hang_up(contact->conn);
    *contact = (struct rt_contact){.reach = contact->reach, .spot = contact->spot};
}

bool rt_contact_has_ended(const struct rt_contact *contact)
{
    struct pollfd fd = {.fd = contact->reach->fd(contact->conn), .events = POLLRDHUP};

    return fd.fd < 0 || (poll(&fd, 1, 0) > 0 && fd.revents != 0);
}

/* ---- Places ---------------------------------------------------------------------------- */

static bool refuse(struct rt_errand *e, enum rt_reply reply, int err)
{
    assert(e->errmsg[0] != '\0');
    e->op.reply = reply;
    e->op.err = err;
    return false;
}

/* ASKED is not there, or we may not use it. */
static bool refuse_table(struct rt_contact *contact, const char *name, struct rt_errand *e, int err)
{
    bool elsewhere = e->place.marks[0] != '\0' && err == ROTA_INVALID;
    const char *why = contact->party->errmsg;

    snprintf(contact->party->marks, sizeof(contact->party->marks), "%s", "");
    if (elsewhere)
        snprintf(e->errmsg, sizeof(e->errmsg),
                 "%.60s: another database answers there than the one its branch is in (%.90s): "
                 "correct its URL",
                 name, why);
    else
        snprintf(e->errmsg, sizeof(e->errmsg), "%.60s: %.180s", name, why);
    return refuse(e, RT_REPLY_REFUSED, err);
}

/* Attaches to what E asks for: returns its index in `known`; or -1, and E has its reply. */
static int known_place(struct rt_contact *contact, struct rt_effort *effort, const char *name,
                       struct rt_errand *e)
{
    const char *asked = e->place.marks;
    struct rt_party *p = contact->party;
    int err;

    for (size_t i = 0; i < RT_CONTACT_KNOWN && i < contact->known_count; i++)
        if (strcmp(contact->known[i].asked, asked) == 0)
            return (int)i;
    snprintf(p->marks, sizeof(p->marks), "%s", asked[0] != '\0' ? asked : contact->marks);
    enum rt_reply reply = attach(contact, effort, asked[0] != '\0' ? RT_PARTY_KNOWN : 0, &err);
    if (reply == RT_REPLY_LOST) {
        snprintf(e->errmsg, sizeof(e->errmsg), "%.60s: %.180s", name, p->errmsg);
        return refuse(e, RT_REPLY_LOST, err) ? 0 : -1;
    }
    if (reply != RT_REPLY_DONE)
        return refuse_table(contact, name, e, err) ? 0 : -1;
    size_t i = contact->known_count++ % RT_CONTACT_KNOWN;
    snprintf(contact->known[i].asked, sizeof(contact->known[i].asked), "%s", asked);
    rt_place_of(p, &contact->known[i].is);
    return (int)i;
}

static bool needs_table(const struct rt_errand *e)
{
    return e->place.identity != 0 || e->op.what == RT_PARTY_COMMIT || e->op.what == RT_PARTY_ASK ||
           (e->op.what == RT_PARTY_FORGET &&
            (e->op.flags & (RT_PARTY_FENCES | RT_PARTY_PROMISES)) == 0);
}

bool rt_contact_place(struct rt_contact *contact, struct rt_effort *effort, const char *name,
                      struct rt_errand *e)
{
    struct rt_party *p = contact->party;

    if (e->op.what == RT_PARTY_FORGET) /* a fence is where the URL leads */
        snprintf(p->marks, sizeof(p->marks), "%s", contact->marks);
    bool anywhere = e->op.what == RT_PARTY_FORGET && p->kind->gated && p->marks[0] == '\0';
    if (!needs_table(e) || anywhere) /* MariaDB searches all its databases for markers */
        return true;
    int i = known_place(contact, effort, name, e);
    if (i < 0)
        return false;
    const struct rt_place *is = &contact->known[i].is;
    snprintf(p->marks, sizeof(p->marks), "%s", is->marks);
    p->identity = is->identity;
    e->seen = *is;
    if (e->place.identity == 0 || e->place.identity == is->identity ||
        RT_BUG(RT_BUG_RESOURCE_ANY_SERVER))
        return true;
    if (is->identity == 0) {
        snprintf(
            e->errmsg, sizeof(e->errmsg),
            "%.60s: cannot tell which database answers there: GRANT SELECT, INSERT ON %.90s TO "
            "its user",
            name, is->marks);
        return refuse(e, RT_REPLY_REFUSED, ROTA_AUTH);
    }
    snprintf(e->errmsg, sizeof(e->errmsg),
             "%.60s: another database answers there than the one its branch is in (%.60s is "
             "%016llx, not %016llx): correct its URL",
             name, is->marks, (unsigned long long)is->identity,
             (unsigned long long)e->place.identity);
    return refuse(e, RT_REPLY_REFUSED, ROTA_INVALID);
}
