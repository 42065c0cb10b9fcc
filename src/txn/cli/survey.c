/* SPDX-License-Identifier: Apache-2.0 */
/* What the databases really have: prepared branches at every resource that the journal or this machine knows, and who
 * waits for them. */
#include "txn/cli/survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows: connection, who, since when, whom they wait for (a connection; 0: no connection has it any more), table. */
static const char waits_mysql[] =
    "SELECT r.trx_mysql_thread_id, CONCAT(IFNULL(p.USER, '?'), '@', IFNULL(p.HOST, '?')), "
    "CAST(UNIX_TIMESTAMP(r.trx_wait_started) AS SIGNED) * 1000, b.trx_mysql_thread_id, "
    "IFNULL(l.lock_table, '') "
    "FROM information_schema.INNODB_LOCK_WAITS w "
    "JOIN information_schema.INNODB_TRX r ON r.trx_id = w.requesting_trx_id "
    "JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_trx_id "
    "LEFT JOIN information_schema.INNODB_LOCKS l ON l.lock_id = w.requested_lock_id "
    "LEFT JOIN information_schema.PROCESSLIST p ON p.ID = r.trx_mysql_thread_id";

/* The same; whom: the gid. PostgreSQL says that whoever waits for a prepared transaction waits for process 0. */
static const char waits_postgres[] =
    "SELECT DISTINCT w.pid, coalesce(a.usename, '?') || '@' || coalesce(a.client_addr::text, 'local'), "
    "floor(extract(epoch FROM coalesce((to_jsonb(w) ->> 'waitstart')::timestamptz, a.state_change)) * "
    "1000)::bigint, p.gid, coalesce((SELECT t.relation::regclass::text FROM pg_locks t WHERE "
    "t.pid = w.pid AND t.locktype = 'tuple' LIMIT 1), w.relation::regclass::text, '') "
    "FROM pg_prepared_xacts p "
    "JOIN pg_locks x ON x.pid IS NULL AND x.granted AND x.locktype = 'transactionid' "
    "AND x.transactionid = p.transaction "
    "JOIN pg_locks h ON h.pid IS NULL AND h.granted AND h.virtualtransaction = x.virtualtransaction "
    "JOIN pg_locks w ON NOT w.granted AND w.pid IS NOT NULL AND w.locktype = h.locktype "
    "AND (w.database, w.relation, w.page, w.tuple, w.transactionid, w.classid, w.objid, w.objsubid) "
    "IS NOT DISTINCT FROM "
    "(h.database, h.relation, h.page, h.tuple, h.transactionid, h.classid, h.objid, h.objsubid) "
    "LEFT JOIN pg_stat_activity a ON a.pid = w.pid "
    "WHERE p.database = current_database() AND 0 = ANY (pg_blocking_pids(w.pid))";

/* Room for one more in an array of SIZE-byte things; NULL: no memory. */
static void *grow(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    size_t more = *room == 0 ? 16 : *room * 2;
    void *grown = realloc(array, more * size);
    if (grown != NULL)
        *room = more;
    return grown;
}

static char *copy(struct rt_survey *s, const char *text)
{
    char *all = strdup(text != NULL ? text : "");

    s->failed = s->failed || all == NULL;
    return all;
}

/* ---- Resources ---------------------------------------------------------------- */

bool rt_survey_is_note(const char *name)
{
    return strncmp(name, RT_JOURNAL_OWN, sizeof(RT_JOURNAL_OWN) - 1) == 0;
}

static void take_site(void *arg, const char *name, const char *url, int64_t seen_ms)
{
    struct rt_survey *s = arg;

    (void)seen_ms;
    if (s->failed || rt_survey_is_note(name))
        return;
    struct rt_site *sites = grow(s->sites, s->site_count, &s->site_room, sizeof(*sites));
    s->failed = sites == NULL;
    if (s->failed)
        return;
    s->sites = sites;
    sites[s->site_count++] = (struct rt_site){.name = copy(s, name), .url = copy(s, url)};
}

/* One that has a URL here, though the journal has not heard of it: what is prepared there belongs to others. */
static void take_configured(void *arg, struct rt_resource *r)
{
    struct rt_survey *s = arg;
    char url[RT_JOURNAL_URL_MAX];

    rt_resource_url(r, url, sizeof(url));
    if (rt_survey_site(s, rt_resource_name(r)) == NULL)
        take_site(s, rt_resource_name(r), url, 0);
}

/* ---- What is prepared ------------------------------------------------------------ */

struct listing {
    struct rt_survey *s;
    size_t site;
};

/* The name inside the text of another journal's branch: 'NAME',... or rota1-NAME. */
static bool read_name(const char *text, struct rt_name *name)
{
    char part[RT_NAME_TEXT];
    const char *from = strncmp(text, "rota1-", 6) == 0 ? text + 6
                       : text[0] == '\''               ? text + 1
                                                       : NULL;

    if (from == NULL || strlen(from) < RT_NAME_TEXT - 1)
        return false;
    memcpy(part, from, RT_NAME_TEXT - 1);
    part[RT_NAME_TEXT - 1] = '\0';
    return rt_name_parse(part, name);
}

static void take_found(void *arg, const struct rt_party_seen *seen)
{
    const struct listing *l = arg;
    struct rt_survey *s = l->s;
    struct rt_found *found = grow(s->found, s->found_count, &s->found_room, sizeof(*found));

    s->failed = s->failed || found == NULL;
    if (s->failed)
        return;
    s->found = found;
    found += s->found_count++;
    *found = (struct rt_found){.site = l->site,
                               .ours = seen->ours,
                               .rota = seen->ours,
                               .name = seen->name,
                               .connection = seen->connection,
                               .text = copy(s, seen->text),
                               .finish = copy(s, seen->finish),
                               .prepared_ms = seen->prepared_ms};
    if (!found->ours)
        found->rota = read_name(seen->text != NULL ? seen->text : "", &found->name);
}

/* ---- Who waits ------------------------------------------------------------------- */

static size_t behind(const struct listing *l, const char *whom)
{
    const struct rt_survey *s = l->s;
    uint64_t connection = strtoull(whom, NULL, 10);
    size_t count = 0, one = SIZE_MAX;

    for (size_t i = 0; i < s->found_count; i++) {
        if (s->found[i].site != l->site)
            continue;
        if (!s->sites[l->site].mysql && strcmp(s->found[i].text, whom) == 0)
            return i;
        if (s->sites[l->site].mysql && connection != 0 && s->found[i].connection == connection)
            return i;
        count++;
        one = i;
    }
    return connection == 0 && count == 1 ? one : SIZE_MAX;
}

static void take_wait(void *arg, int cells, char *const *values)
{
    const struct listing *l = arg;
    struct rt_survey *s = l->s;

    if (cells < 5 || values[0] == NULL || values[3] == NULL)
        return;
    size_t found = behind(l, values[3]);
    if (found == SIZE_MAX && strcmp(values[3], "0") != 0)
        return; /* for some other transaction */
    struct rt_wait *waits = grow(s->waits, s->wait_count, &s->wait_room, sizeof(*waits));
    s->failed = s->failed || waits == NULL;
    if (s->failed)
        return;
    s->waits = waits;
    waits[s->wait_count++] = (struct rt_wait){
        .site = l->site,
        .found = found,
        .connection = strtoull(values[0], NULL, 10),
        .who = copy(s, values[1]),
        .on = copy(s, values[4]),
        .since_ms = values[2] != NULL ? strtoll(values[2], NULL, 10) : 0};
}

static void take_version(void *arg, int cells, char *const *values)
{
    struct rt_site *site = arg;

    site->mysql = cells > 0 && values[0] != NULL && strstr(values[0], "PostgreSQL") == NULL;
}

/* ---- All of it --------------------------------------------------------------------- */

static int look(const struct rt_visit *v, const char *site, const char *sql,
                void (*row)(void *arg, int cells, char *const *values), void *arg)
{
    struct rt_party_op op = {.what = RT_PARTY_LOOK, .look = {.sql = sql, .row = row, .arg = arg}};

    return rt_txns_errand(v->m, site, &op);
}

static void ask_site(struct rt_survey *s, const struct rt_visit *v, size_t i)
{
    struct rt_site *site = &s->sites[i];
    struct listing l = {s, i};
    struct rt_party_op op = {.what = RT_PARTY_LIST,
                             .list = {.journal = v->number, .each = take_found, .arg = &l}};
    size_t before = s->found_count;

    site->err = rt_txns_errand(v->m, site->name, &op);
    if (site->err == 0)
        site->err = look(v, site->name, "SELECT version()", take_version, site);
    if (site->err != 0) {
        site->why = copy(s, rota_txn_errmsg(v->m));
        return;
    }
    if (s->found_count > before &&
        look(v, site->name, site->mysql ? waits_mysql : waits_postgres, take_wait, &l) != 0)
        site->blind = copy(s, rota_txn_errmsg(v->m));
}

int rt_survey_make(struct rt_survey *s, const struct rt_visit *v)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_RESOURCES,
                               .resources = {.each = take_site, .arg = s}};

    *s = (struct rt_survey){0};
    int err = rt_txns_ask(v->m, &op);
    if (err == 0 && !s->failed)
        rt_resources_each(rt_txns_resources(v->m), take_configured, s);
    for (size_t i = 0; err == 0 && !s->failed && i < s->site_count; i++) {
        ask_site(s, v, i);
        if (v->beat != NULL)
            v->beat();
    }
    return err != 0 ? err : s->failed ? ROTA_NOMEM : 0;
}

void rt_survey_free(struct rt_survey *s)
{
    for (size_t i = 0; i < s->site_count; i++) {
        free(s->sites[i].name);
        free(s->sites[i].url);
        free(s->sites[i].why);
        free(s->sites[i].blind);
    }
    for (size_t i = 0; i < s->found_count; i++) {
        free(s->found[i].text);
        free(s->found[i].finish);
    }
    for (size_t i = 0; i < s->wait_count; i++) {
        free(s->waits[i].who);
        free(s->waits[i].on);
    }
    free(s->sites);
    free(s->found);
    free(s->waits);
    *s = (struct rt_survey){0};
}

const char *rt_survey_statement(const struct rt_found *found, bool commit, char *out, size_t size)
{
    static const char rollback[] = "ROLLBACK";
    const char *at = strstr(found->finish, rollback);

    if (!commit || at == NULL)
        snprintf(out, size, "%s", found->finish);
    else
        snprintf(out, size, "%.*sCOMMIT%s", (int)(at - found->finish), found->finish,
                 at + sizeof(rollback) - 1);
    return out;
}

const struct rt_found *rt_survey_find(const struct rt_survey *s, const char *site,
                                      const struct rt_txn_id *id, uint32_t number)
{
    for (size_t i = 0; i < s->found_count; i++) {
        const struct rt_found *f = &s->found[i];
        if (f->ours && f->name.branch == number && rt_txn_id_same(&f->name.id, id) &&
            strcmp(s->sites[f->site].name, site) == 0)
            return f;
    }
    return NULL;
}

const struct rt_site *rt_survey_site(const struct rt_survey *s, const char *name)
{
    for (size_t i = 0; i < s->site_count; i++)
        if (strcmp(s->sites[i].name, name) == 0)
            return &s->sites[i];
    return NULL;
}
