/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at lines: inspect, list, break, doctor. */
#include "client/client.h"

#include "base/alloc.h"
#include "client/heap.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct look {
    struct rt_call call; /* first */
    struct rt_heap records, texts;
    const struct rota *r;
    size_t count;
};

static void restart(struct rt_call *call)
{
    struct look *look = (struct look *)(void *)call;

    rt_heap_reset(&look->records);
    rt_heap_reset(&look->texts);
    look->count = 0;
}

static void look_free(struct look *look)
{
    rt_heap_free(&look->records);
    rt_heap_free(&look->texts);
}

static int look_begin(struct rota *r, struct look *look, enum rt_op_kind kind)
{
    memset(look, 0, sizeof(*look));
    look->r = r;
    int rv = rt_client_check(r, true);
    if (rv == 0)
        rv = rt_client_begin(r);
    if (rv != 0)
        return rv;
    rt_call_init(r, &look->call, kind);
    look->call.restart = restart;
    return 0;
}

static int look_run(struct rota *r, struct look *look)
{
    int rv = rt_call_insist(r, &look->call);

    if (rv == 0 && (look->records.failed || look->texts.failed))
        rv = rt_fail(r, ROTA_NOMEM, NULL);
    return rv;
}

/* ---- One line ----------------------------------------------------------- */

struct place_record {
    struct rota_place place;
    size_t label, value; /* where they begin in the texts */
};

void rt_inspect_nobody(void *arg, const char *name, const struct rota_place *place)
{
    (void)arg;
    (void)name;
    (void)place;
}

static void each_place(void *arg, const char *name, const struct rota_place *place)
{
    struct look *look = arg;
    struct place_record record = {.place = *place};

    (void)name;
    record.label = rt_heap_text(&look->texts, place->label);
    record.value = rt_heap_text(&look->texts, place->value);
    if (place->session != 0 && place->session == rt_desk_session(&look->r->d.desk))
        record.place.flags |= ROTA_PLACE_MINE;
    rt_heap_add(&look->records, &record, sizeof(record));
    look->count++;
}

/* One piece of memory: the line, its places, the texts, the name. */
static struct rota_line *build_line(const struct look *look, const char *name)
{
    assert(look->records.used == look->count * sizeof(struct place_record));
    size_t places_size = look->count * sizeof(struct rota_place);
    size_t name_size = strlen(name) + 1;
    struct rota_line *line = rt_alloc(sizeof(*line) + places_size + look->texts.used + name_size);

    if (line == NULL)
        return NULL;
    struct rota_place *places = (struct rota_place *)(void *)(line + 1);
    char *texts = (char *)places + places_size;
    memcpy(texts + look->texts.used, name, name_size);
    if (look->texts.used > 0)
        memcpy(texts, look->texts.bytes, look->texts.used);
    *line = (struct rota_line){
        .name = texts + look->texts.used, .count = look->count, .places = places};
    const struct place_record *records = (const struct place_record *)(const void *)
                                             look->records.bytes;
    for (size_t i = 0; i < look->count; i++) {
        places[i] = records[i].place;
        places[i].label = texts + records[i].label;
        places[i].value = texts + records[i].value;
        if ((places[i].flags & ROTA_PLACE_GRANTED) != 0)
            line->granted++;
    }
    return line;
}

int rota_inspect(struct rota *r, const char *name, struct rota_line **out)
{
    char spelled[RT_NAME_ROOM];
    struct look look;
    int rv = rt_name_check(r, name);

    if (rv == 0 && out == NULL)
        rv = rt_fail(r, ROTA_INVALID, "there is no place for the line");
    if (rv == 0)
        rv = look_begin(r, &look, RT_OP_INSPECT);
    if (rv != 0)
        return rv;
    rt_name_spell(&r->spelling, name, spelled);
    look.call.rq.op.inspect.name = spelled;
    look.call.rq.op.inspect.each = each_place;
    look.call.rq.op.inspect.arg = &look;
    rv = look_run(r, &look);
    if (rv == 0) {
        struct rota_line *line = build_line(&look, name);
        if (line != NULL)
            *out = line;
        else
            rv = rt_fail(r, ROTA_NOMEM, NULL);
    }
    look_free(&look);
    return rv;
}

void rota_line_free(struct rota_line *line)
{
    rt_free(line);
}

/* ---- All lines ---------------------------------------------------------- */

struct line_record {
    size_t name, count, granted;
};

static void each_line(void *arg, const char *name, size_t count, size_t granted)
{
    struct look *look = arg;
    char read[RT_NAME_ROOM];

    if (!rt_name_read(&look->r->spelling, name, read))
        return; /* another client's spelling: not a name here */
    struct line_record record = {.count = count, .granted = granted};
    record.name = rt_heap_text(&look->texts, read);
    rt_heap_add(&look->records, &record, sizeof(record));
    look->count++;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(((const struct rota_line *)a)->name, ((const struct rota_line *)b)->name);
}

static struct rota_line *build_list(const struct look *look)
{
    assert(look->records.used == look->count * sizeof(struct line_record));
    size_t lines_size = look->count * sizeof(struct rota_line);
    struct rota_line *lines = rt_alloc(lines_size + look->texts.used + 1);

    if (lines == NULL)
        return NULL;
    char *texts = (char *)lines + lines_size;
    if (look->texts.used > 0)
        memcpy(texts, look->texts.bytes, look->texts.used);
    const struct line_record *records = (const struct line_record *)(const void *)
                                            look->records.bytes;
    for (size_t i = 0; i < look->count; i++)
        lines[i] = (struct rota_line){.name = texts + records[i].name,
                                      .count = records[i].count,
                                      .granted = records[i].granted};
    /* Escapes sort differently from what they stand for. */
    if (look->count > 1)
        qsort(lines, look->count, sizeof(*lines), compare_lines);
    return lines;
}

int rota_list(struct rota *r, const char *prefix, struct rota_line **out, size_t *count)
{
    char spelled[RT_NAME_ROOM];
    struct look look;

    if (out == NULL || count == NULL)
        return rt_fail(r, ROTA_INVALID, "there is no place for the lines or their count");
    if (prefix == NULL)
        prefix = "";
    if (strlen(prefix) > RT_NAME_MAX)
        return rt_fail(r, ROTA_INVALID, "the prefix is longer than %d bytes", RT_NAME_MAX);
    int rv = look_begin(r, &look, RT_OP_LIST);
    if (rv != 0)
        return rv;
    rt_name_spell(&r->spelling, prefix, spelled);
    look.call.rq.op.list.prefix = spelled;
    look.call.rq.op.list.each = each_line;
    look.call.rq.op.list.arg = &look;
    rv = look_run(r, &look);
    if (rv == 0) {
        struct rota_line *lines = build_list(&look);
        if (lines != NULL) {
            *out = lines;
            *count = look.count;
        } else {
            rv = rt_fail(r, ROTA_NOMEM, NULL);
        }
    }
    look_free(&look);
    return rv;
}

void rota_list_free(struct rota_line *lines, size_t count)
{
    (void)count;
    rt_free(lines);
}

/* ---- The doctor --------------------------------------------------------- */

struct verdict_record {
    size_t promise, verdict, setting, remedy;
};

static void each_verdict(void *arg, const struct rota_verdict *v)
{
    struct look *look = arg;
    struct verdict_record record = {
        .promise = rt_heap_text(&look->texts, v->promise),
        .verdict = rt_heap_text(&look->texts, v->verdict),
        .setting = rt_heap_text(&look->texts, v->setting),
        .remedy = rt_heap_text(&look->texts, v->remedy),
    };

    rt_heap_add(&look->records, &record, sizeof(record));
    look->count++;
}

/* At worst the last beat was a quarter of the ttl before; rota run ends its command a sixth of the ttl before the end;
 * and a server that is back is found, and the beat answered, in what remains (engine/kit/dial.h). */
#define OUTLASTS_PARTS 2

static void tell_outages(const struct rota *r, rota_verdict_fn *fn, void *arg)
{
    double ttl = rota_ttl_ms(r) / 1000.0;
    char text[160];

    if (ttl <= 0) /* held as long as the process lives */
        return;
    snprintf(text, sizeof(text),
             "ttl %g s: holders outlast %.1f s without the engine, and have lost after %g s; "
             "waiters with ROTA_REJOIN (rota run, elect) outlast any",
             ttl, ttl / OUTLASTS_PARTS, ttl);
    fn(arg, &(struct rota_verdict){"outages", "kept", text, ""});
}

int rota_doctor(struct rota *r, rota_verdict_fn *fn, void *arg)
{
    struct look look;

    int rv = look_begin(r, &look, RT_OP_CHECK);
    if (rv != 0)
        return rv;
    look.call.rq.op.check.each = each_verdict;
    look.call.rq.op.check.arg = &look;
    rv = look_run(r, &look);
    const struct verdict_record *records = (const struct verdict_record *)(const void *)
                                               look.records.bytes;
    const char *texts = look.texts.bytes;
    for (size_t i = 0; rv == 0 && fn != NULL && i < look.count; i++) {
        struct rota_verdict v = {texts + records[i].promise, texts + records[i].verdict,
                                 texts + records[i].setting, texts + records[i].remedy};
        fn(arg, &v);
    }
    if (rv == 0 && fn != NULL)
        tell_outages(r, fn, arg);
    look_free(&look);
    return rv;
}

/* ---- Breaking ----------------------------------------------------------- */

int rt_break(struct rota *r, const char *name, uint64_t number, uint32_t mode)
{
    char spelled[RT_NAME_ROOM];
    struct rt_call call;

    int rv = rt_client_begin(r);
    if (rv != 0)
        return rv;
    rt_name_spell(&r->spelling, name, spelled);
    rt_call_init(r, &call, RT_OP_BREAK);
    call.rq.op.brk.name = spelled;
    call.rq.op.brk.number = number;
    call.rq.op.brk.mode = mode;
    return rt_call_insist(r, &call);
}

int rota_break(struct rota *r, const char *name, uint64_t fence)
{
    int rv = rt_client_check(r, true);

    if (rv == 0)
        rv = rt_name_check(r, name);
    if (rv == 0 && fence == 0)
        rv = rt_fail(r, ROTA_INVALID, "to break a lock, say which fence: see rota_inspect");
    return rv != 0 ? rv : rt_break(r, name, fence, 0);
}
