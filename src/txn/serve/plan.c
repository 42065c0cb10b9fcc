/* SPDX-License-Identifier: Apache-2.0 */
#include "txn/serve/plan.h"

#include "txn/http/address.h"
#include "txn/http/payload.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SECONDS_MAX INT64_C(31536000) /* a year */
#define HEADERS_MAX 8192
#define CALL_SPARE \
    256 /* bytes of a call beside its URL and data: the names of added parameters, its head */

static const char *const kinds[] = {NULL, "tcc", "saga", "msg"};

__attribute__((format(printf, 2, 3))) static bool fail(char *errmsg, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(errmsg, RT_PLAN_LINE, format, args);
    va_end(args);
    for (char *c = errmsg; *c != '\0'; c++)
        if (iscntrl((unsigned char)*c))
            *c = ' ';
    return false;
}

const char *rt_plan_word(enum rt_plan_kind kind)
{
    assert(kind >= RT_PLAN_TCC && kind <= RT_PLAN_MSG);
    return kinds[kind];
}

/* The text KEY of O; "" if it has none. False: it is not a text. */
static bool get_text(const json_t *o, const char *key, const char **out, char *errmsg)
{
    const json_t *v = json_object_get(o, key);

    *out = v == NULL || json_is_null(v) ? "" : json_string_value(v);
    return *out != NULL || fail(errmsg, "%s is not a text", key);
}

static bool get_number(const json_t *o, const char *key, int64_t most, int64_t *out, char *errmsg)
{
    const json_t *v = json_object_get(o, key);

    *out = v == NULL || json_is_null(v) ? 0 : json_is_integer(v) ? json_integer_value(v) : -1;
    return (*out >= 0 && *out <= most) ||
           fail(errmsg, "%s is not a number from 0 to %lld", key, (long long)most);
}

bool rt_plan_gid(const char *text, char *errmsg)
{
    size_t size = strlen(text);

    if (size == 0)
        return fail(errmsg, "gid is missing");
    if (size > RT_TXN_NAME_MAX)
        return fail(errmsg, "gid has %zu bytes: at most %d", size, RT_TXN_NAME_MAX);
    for (const char *c = text; *c != '\0'; c++)
        if (iscntrl((unsigned char)*c))
            return fail(errmsg, "gid has a control character");
    return true;
}

static bool check_url(const char *url, const char *what, char *errmsg)
{
    struct rt_http_address address;
    char why[RT_PLAN_LINE];

    if (url[0] == '\0')
        return true;
    if (strncmp(url, "topic://", 8) == 0)
        return fail(errmsg, "%s: topics are not supported: name the services' URLs", what);
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return fail(errmsg, "%s: only http:// and https:// are called", what);
    if (rt_http_address_read(&address, url, why, sizeof(why)) != 0)
        return fail(errmsg, "%s: %.200s", what, why);
    return true;
}

/* How many bytes TEXT takes in a query. */
static size_t encoded(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += isalnum((unsigned char)*text) || strchr("-_.~", *text) != NULL ? 1 : 3;
    return n;
}

/* Whether S of GID can be called at all: one that cannot would be retried for ever. */
static bool check_call(const struct rt_plan_step *s, const char *gid, const char *id, char *errmsg)
{
    size_t more = encoded(gid) + encoded(id) + CALL_SPARE / 2;
    size_t forward = strlen(s->forward), back = strlen(s->back);
    size_t url = (forward > back ? forward : back) + more;

    if (url > RT_HTTP_URL_MAX)
        return fail(errmsg,
                    "branch '%.64s': a URL has, with what is added to it, more than %d bytes", id,
                    RT_HTTP_URL_MAX);
    if (url + strlen(s->data) + CALL_SPARE / 2 > RT_HTTP_PAYLOAD_MAX)
        return fail(errmsg,
                    "branch '%.64s': its data and its URL have more than %d bytes: send a key, and "
                    "leave the rest where the service finds it",
                    id, RT_HTTP_PAYLOAD_MAX);
    return true;
}

static struct rt_plan_step *add_step(struct rt_plan *p, char *errmsg)
{
    if (p->count >= RT_PLAN_STEPS_MAX && p->kind != RT_PLAN_TCC) {
        fail(errmsg, "more than %d steps", RT_PLAN_STEPS_MAX);
        return NULL;
    }
    if (p->count == p->room) {
        size_t room = p->room == 0 ? 8 : p->room * 2;
        struct rt_plan_step *steps = realloc(p->steps, room * sizeof(*steps));
        if (steps == NULL) {
            fail(errmsg, "out of memory");
            return NULL;
        }
        p->steps = steps;
        p->room = room;
    }
    p->steps[p->count] = (struct rt_plan_step){.data = "", .forward = "", .back = ""};
    return &p->steps[p->count++];
}

static bool read_step(struct rt_plan *p, size_t i, const json_t *from, const json_t *payload,
                      char *errmsg)
{
    struct rt_plan_step *s = add_step(p, errmsg);

    if (s == NULL)
        return false;
    if (!json_is_object(from))
        return fail(errmsg, "step %zu is not an object", i);
    if (!get_text(from, "action", &s->forward, errmsg) ||
        !get_text(from, "compensate", &s->back, errmsg) ||
        !check_url(s->forward, "action", errmsg) || !check_url(s->back, "compensate", errmsg))
        return false;
    if (payload == NULL)
        return get_text(from, "data", &s->data, errmsg);
    s->data = json_string_value(payload);
    return s->data != NULL || fail(errmsg, "payload %zu is not a text", i);
}

static bool read_steps(struct rt_plan *p, char *errmsg)
{
    const json_t *steps = json_object_get(p->json, "steps");
    const json_t *payloads = json_object_get(p->json, "payloads");

    if (p->kind == RT_PLAN_TCC)
        return true;
    if (steps != NULL && !json_is_array(steps))
        return fail(errmsg, "steps is not an array");
    for (size_t i = 0; i < json_array_size(steps); i++) {
        if (!read_step(p, i, json_array_get(steps, i), json_array_get(payloads, i), errmsg))
            return false;
        struct rt_plan_step *s = &p->steps[i];
        snprintf(s->id, sizeof(s->id), "%02zu", i + 1);
        s->number = (uint32_t)i + 1;
        if (!check_call(s, p->gid, s->id, errmsg))
            return false;
    }
    return true;
}

/* custom_data: a text that is JSON: {"orders": {"2": [0, 1]}, "concurrent": true}, {"delay": 5}. */
static bool read_orders(struct rt_plan *p, json_t *orders, char *errmsg)
{
    const char *key;
    json_t *pres, *pre;
    size_t i, n = 0;

    json_object_foreach(orders, key, pres) n += json_array_size(pres);
    p->orders = n > 0 ? calloc(n, sizeof(*p->orders)) : NULL;
    if (n > 0 && p->orders == NULL)
        return fail(errmsg, "out of memory");
    json_object_foreach(orders, key, pres)
    {
        char *end;
        unsigned long step = strtoul(key, &end, 10);
        if (*end != '\0' || end == key || step >= p->count || !json_is_array(pres))
            return fail(errmsg, "custom_data: orders name no step '%.40s'", key);
        json_array_foreach(pres, i, pre)
        {
            json_int_t before = json_is_integer(pre) ? json_integer_value(pre) : -1;
            if (before < 0 || (unsigned long)before >= step)
                return fail(errmsg, "custom_data: step %lu can come only after earlier ones", step);
            p->orders[p->order_count].step = (uint32_t)step;
            p->orders[p->order_count++].pre = (uint32_t)before;
        }
    }
    return true;
}

static bool read_custom(struct rt_plan *p, char *errmsg)
{
    const char *text;
    bool good = true;

    if (!get_text(p->json, "custom_data", &text, errmsg))
        return false;
    if (text[0] == '\0' || p->kind == RT_PLAN_TCC)
        return true;
    json_t *custom = json_loads(text, 0, NULL);
    if (!json_is_object(custom)) {
        json_decref(custom);
        return fail(errmsg, "custom_data is not a JSON object");
    }
    if (p->kind == RT_PLAN_MSG) {
        good = get_number(custom, "delay", SECONDS_MAX, &p->delay_s, errmsg);
    } else {
        p->concurrent = p->concurrent || json_is_true(json_object_get(custom, "concurrent"));
        good = read_orders(p, json_object_get(custom, "orders"), errmsg);
    }
    json_decref(custom);
    return good;
}

/* Whether HTTP allows NAME; not one that says where a request ends, which is ours to say. */
static bool header_name(const char *name)
{
    static const char *const framing[] = {"content-length", "transfer-encoding", "connection", "te",
                                          "trailer",        "upgrade",           "expect"};
    const char *c = name;

    for (size_t i = 0; i < sizeof(framing) / sizeof(framing[0]); i++)
        if (strcasecmp(name, framing[i]) == 0)
            return false;
    for (; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("-_.", *c) == NULL)
            return false;
    return c != name;
}

static bool read_headers(struct rt_plan *p, char *errmsg)
{
    json_t *all = json_object_get(p->json, "branch_headers"), *value;
    const char *key;
    size_t size = 0;

    if (all == NULL || json_is_null(all) || json_object_size(all) == 0)
        return all == NULL || json_is_null(all) || json_is_object(all) ||
               fail(errmsg, "branch_headers is not an object");
    p->headers = calloc(1, HEADERS_MAX);
    if (p->headers == NULL)
        return fail(errmsg, "out of memory");
    json_object_foreach(all, key, value)
    {
        const char *text = json_string_value(value);
        if (!header_name(key) || text == NULL)
            return fail(errmsg, "branch_headers: '%.40s' is not a header, or not one you may set",
                        key);
        for (const char *c = text; *c != '\0'; c++)
            if (iscntrl((unsigned char)*c))
                return fail(errmsg, "branch_headers: '%.40s' has a control character", key);
        size += (size_t)snprintf(p->headers + size, HEADERS_MAX - size, "%s: %s\n", key, text);
        if (size >= HEADERS_MAX)
            return fail(errmsg, "branch_headers: more than %d bytes", HEADERS_MAX);
    }
    return true;
}

static bool read_kind(struct rt_plan *p, char *errmsg)
{
    const char *word, *protocol;

    if (!get_text(p->json, "trans_type", &word, errmsg) ||
        !get_text(p->json, "protocol", &protocol, errmsg))
        return false;
    if (protocol[0] != '\0' && strcmp(protocol, "http") != 0)
        return fail(errmsg, "protocol '%.40s': only http is supported", protocol);
    for (int i = RT_PLAN_TCC; i <= RT_PLAN_MSG; i++)
        if (strcmp(word, kinds[i]) == 0)
            p->kind = (enum rt_plan_kind)i;
    return p->kind != 0 ||
           (word[0] == '\0'
                ? fail(errmsg, "trans_type is missing: tcc, saga or msg")
                : fail(errmsg, "trans_type '%.40s': only tcc, saga and msg are supported", word));
}

static bool read_all(struct rt_plan *p, int64_t now_ms, char *errmsg)
{
    if (!json_is_object(p->json))
        return fail(errmsg, "the body is not a JSON object");
    if (!get_text(p->json, "gid", &p->gid, errmsg) || !rt_plan_gid(p->gid, errmsg) ||
        !read_kind(p, errmsg) || !get_text(p->json, "query_prepared", &p->query, errmsg) ||
        !check_url(p->query, "query_prepared", errmsg) ||
        !get_number(p->json, "created_ms", RT_TXN_BIRTH_MAX / 4, &p->created_ms, errmsg) ||
        !get_number(p->json, "timeout_to_fail", SECONDS_MAX, &p->timeout_s, errmsg) ||
        !get_number(p->json, "request_timeout", SECONDS_MAX, &p->request_s, errmsg) ||
        !get_number(p->json, "retry_interval", SECONDS_MAX, &p->retry_s, errmsg) ||
        !get_number(p->json, "retry_limit", 1000000, &p->retry_limit, errmsg))
        return false;
    if (!check_call(&(struct rt_plan_step){.forward = p->query, .back = "", .data = ""}, p->gid,
                    "00", errmsg))
        return false;
    p->concurrent = json_is_true(json_object_get(p->json, "concurrent"));
    p->wait = json_is_true(json_object_get(p->json, "wait_result"));
    if (p->created_ms == 0) {
        p->created_ms = now_ms;
        if (json_object_set_new(p->json, "created_ms", json_integer(now_ms)) != 0)
            return fail(errmsg, "out of memory");
    }
    return read_steps(p, errmsg) && read_custom(p, errmsg) && read_headers(p, errmsg);
}

bool rt_plan_read(struct rt_plan *plan, const char *text, size_t size, int64_t now_ms, char *errmsg)
{
    json_error_t error;

    *plan = (struct rt_plan){.gid = ""};
    errmsg[0] = '\0';
    plan->json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    bool good = plan->json != NULL ? read_all(plan, now_ms, errmsg)
                                   : fail(errmsg, "the body is not JSON: %.100s", error.text);
    if (!good)
        rt_plan_free(plan);
    return good;
}

/* What is kept, and nothing else. */
char *rt_plan_write(const struct rt_plan *plan, size_t *size)
{
    static const char *const keys[] = {
        "gid",         "trans_type",      "steps",           "payloads",       "query_prepared",
        "custom_data", "timeout_to_fail", "request_timeout", "retry_interval", "retry_limit",
        "concurrent",  "branch_headers",  "created_ms"};
    json_t *out = json_object();

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        json_t *v = json_object_get(plan->json, keys[i]);
        if (v != NULL && json_object_set(out, keys[i], v) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    char *text = json_dumps(out, JSON_COMPACT);
    json_decref(out);
    *size = text != NULL ? strlen(text) : 0;
    return text;
}

void rt_plan_free(struct rt_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        json_decref(plan->steps[i].json);
    free(plan->steps);
    free(plan->orders);
    free(plan->headers);
    json_decref(plan->json);
    *plan = (struct rt_plan){.gid = ""};
}

/* ---- Branches of a tcc ---------------------------------------------------------------- */

/* A branch_id of a few digits, as all clients make them, is its own number. Any other gets a number that tells it apart
 * barring bad luck: whoever registers checks for that. */
static uint32_t number_of(const char *id)
{
    uint32_t hash = 2166136261u;
    size_t size = strlen(id);

    if (size <= 8 && strspn(id, "0123456789") == size)
        return (uint32_t)strtoul(id, NULL, 10) + (uint32_t)size * 100000000u;
    for (const char *c = id; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    return hash | 0x80000000u;
}

static bool read_branch(struct rt_plan_step *s, int64_t now_us, const char **gid, char *errmsg)
{
    const char *id;

    if (!json_is_object(s->json))
        return fail(errmsg, "the body is not a JSON object");
    if (!get_text(s->json, "gid", gid, errmsg) || !rt_plan_gid(*gid, errmsg) ||
        !get_text(s->json, "branch_id", &id, errmsg) ||
        !get_text(s->json, "confirm", &s->forward, errmsg) ||
        !get_text(s->json, "cancel", &s->back, errmsg) ||
        !get_text(s->json, "data", &s->data, errmsg) || !check_url(s->forward, "confirm", errmsg) ||
        !check_url(s->back, "cancel", errmsg) ||
        !get_number(s->json, "at", INT64_MAX, &s->at, errmsg))
        return false;
    if (id[0] == '\0')
        return fail(errmsg, "branch_id is missing");
    if (strlen(id) > RT_PLAN_BRANCH_MAX)
        return fail(errmsg, "branch_id has more than %d bytes", RT_PLAN_BRANCH_MAX);
    if (!check_call(s, *gid, id, errmsg))
        return false;
    snprintf(s->id, sizeof(s->id), "%s", id);
    s->number = number_of(id);
    if (s->at == 0) {
        s->at = now_us;
        return json_object_set_new(s->json, "at", json_integer(now_us)) == 0 ||
               fail(errmsg, "out of memory");
    }
    return true;
}

bool rt_plan_add(struct rt_plan *plan, const char *text, size_t size, int64_t now_us,
                 const char **gid, char *errmsg)
{
    json_error_t error;
    struct rt_plan_step *s = add_step(plan, errmsg);

    if (s == NULL)
        return false;
    s->json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    bool good = s->json != NULL ? read_branch(s, now_us, gid, errmsg)
                                : fail(errmsg, "the body is not JSON: %.100s", error.text);
    if (!good) {
        json_decref(s->json);
        plan->count--;
        return false;
    }
    for (size_t i = plan->count - 1; i > 0 && plan->steps[i - 1].at > plan->steps[i].at; i--) {
        struct rt_plan_step later = plan->steps[i - 1];
        plan->steps[i - 1] = plan->steps[i];
        plan->steps[i] = later;
    }
    return true;
}

char *rt_plan_write_branch(const struct rt_plan_step *step, size_t *size)
{
    static const char *const keys[] = {"gid", "branch_id", "confirm", "cancel", "data", "at"};
    json_t *out = json_object();

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        json_t *v = json_object_get(step->json, keys[i]);
        if (v != NULL && json_object_set(out, keys[i], v) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    char *text = json_dumps(out, JSON_COMPACT);
    json_decref(out);
    *size = text != NULL ? strlen(text) : 0;
    return text;
}
