/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's own tables, beside whatever else the database has. */
#include "txn/relay/cli/outbox/outbox.h"

#include "cli/out.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char rt_outbox_map[] =
    "table=rota_demo_event,id=id,topic=topic,payload=payload,state=state,created=created,updated="
    "updated,dead=dead";

#define COLUMNS \
    "topic VARCHAR(255) NOT NULL, payload VARCHAR(64) NOT NULL, state VARCHAR(16) NOT NULL, "
#define MYSQL_EVENT                                                                              \
    "CREATE TABLE rota_demo_event (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, " COLUMNS      \
    "created TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), updated TIMESTAMP(3) NOT NULL " \
    "DEFAULT CURRENT_TIMESTAMP(3)) ENGINE = InnoDB"
#define POSTGRES_EVENT                                                 \
    "CREATE TABLE rota_demo_event (id bigserial PRIMARY KEY, " COLUMNS \
    "created timestamptz NOT NULL DEFAULT now(), updated timestamptz NOT NULL DEFAULT now())"
#define SQLITE_EVENT                                                                          \
    "CREATE TABLE rota_demo_event (id INTEGER PRIMARY KEY AUTOINCREMENT, " COLUMNS            \
    "created DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, updated DATETIME NOT NULL DEFAULT " \
    "CURRENT_TIMESTAMP)"

static const char *const event_table[] = {[RT_STMT_MYSQL] = MYSQL_EVENT,
                                          [RT_STMT_POSTGRES] = POSTGRES_EVENT,
                                          [RT_STMT_SQLITE] = SQLITE_EVENT};
static const char *const others[] = {
    "CREATE INDEX rota_demo_event_state ON rota_demo_event (state, id)",
    "CREATE TABLE rota_demo_order (id INTEGER PRIMARY KEY)",
    "CREATE TABLE rota_demo_mail (number INTEGER NOT NULL)",
    "CREATE TABLE rota_demo_inbox (event_id VARCHAR(64) NOT NULL PRIMARY KEY)",
};

bool rt_outbox_say(struct rt_outbox *o, const char *sql)
{
    return rt_store_begin(o->store) == 0 && rt_store_say_text(o->store, sql) == 0;
}

long long rt_outbox_number(struct rt_outbox *o, const char *sql)
{
    return rt_outbox_say(o, sql) ? rt_store_number(rt_store_cell(o->store, 0, 0, 0), 0) : -1;
}

void rt_outbox_drop(struct rt_outbox *o)
{
    static const char *const tables[] = {"order", "mail", "inbox", "event"};
    char sql[100];

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        snprintf(sql, sizeof(sql), "DROP TABLE IF EXISTS rota_demo_%s", tables[i]);
        (void)rt_outbox_say(o, sql);
    }
}

static bool make_tables(struct rt_outbox *o)
{
    rt_outbox_drop(o);
    bool made = rt_outbox_say(o, event_table[o->store->kind->dialect]);
    for (size_t i = 0; made && i < sizeof(others) / sizeof(others[0]); i++)
        made = rt_outbox_say(o, others[i]);
    return made;
}

/* A store checks its table when it is opened: the first one has none yet, so it is given another. */
static int connect_to(struct rt_outbox *o, const struct rt_event_map *map, bool looks, char *line,
                      size_t size)
{
    const struct rt_store_options opts = {.reads_only = looks, .call_ms = 20000};

    return rt_store_open(&o->store, o->from, map, &opts, line, size);
}

int rt_outbox_open(struct rt_outbox *o, bool make)
{
    struct rt_event_map map;
    char line[400] = "";

    int err = rt_event_map_read(&map, rt_outbox_map, line, sizeof(line));
    if (err == 0 && make) { /* rota_event_trouble, too */
        err = connect_to(o, NULL, false, line, sizeof(line));
        if (err == 0 && !make_tables(o)) {
            snprintf(line, sizeof(line), "%s", rt_store_errmsg(o->store));
            err = ROTA_UNREACHABLE;
        }
        rt_store_close(o->store);
        o->store = NULL;
    }
    if (err == 0)
        err = connect_to(o, &map, true, line, sizeof(line));
    if (err == 0)
        return RT_EXIT_OK;
    rt_out_error("%s", line);
    return RT_EXIT_UNREACHABLE;
}
