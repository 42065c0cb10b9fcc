/* SPDX-License-Identifier: Apache-2.0 */
/* The guard of a key in etcd: the text of one Txn, and what its answer means. etcd has no client for C; the caller
 * reaches its JSON gateway with whatever sends HTTP.
 *
 *   if   KEY.fence < fence + 1         as digits of one length, which compare as numbers do
 *   then put KEY.fence, put KEY
 *   else if KEY.fence was never made   (a comparison with a missing key is false)
 *        then the same */
#include "base/alloc.h"
#include "client/client.h"

#include <rota_guard.h>

#include <assert.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* ---- Asking -------------------------------------------------------------- */

static size_t coded_size(size_t size)
{
    return (size + 2) / 3 * 4;
}

static char *put_coded(char *at, const void *data, size_t size)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < size; i += 3) {
        size_t n = size - i < 3 ? size - i : 3;
        uint32_t group = (uint32_t)bytes[i] << 16;
        if (n > 1)
            group |= (uint32_t)bytes[i + 1] << 8;
        if (n > 2)
            group |= bytes[i + 2];
        *at++ = alphabet[group >> 18];
        *at++ = alphabet[group >> 12 & 63];
        *at++ = '=';
        *at++ = '=';
        if (n > 1)
            at[-2] = alphabet[group >> 6 & 63];
        if (n > 2)
            at[-1] = alphabet[group & 63];
    }
    return at;
}

static char *coded(const void *data, size_t size)
{
    char *text = rt_alloc(coded_size(size) + 1);

    if (text != NULL)
        *put_coded(text, data, size) = '\0';
    return text;
}

#define DIGITS 20

static char *coded_number(uint64_t number)
{
    char digits[DIGITS + 1];

    snprintf(digits, sizeof(digits), "%0*llu", DIGITS, (unsigned long long)number);
    return coded(digits, DIGITS);
}

static char *coded_guard(const char *key)
{
    size_t size = strlen(key) + sizeof(".fence");
    char *name = rt_alloc(size);

    if (name == NULL)
        return NULL;
    snprintf(name, size, "%s.fence", key);
    char *text = coded(name, size - 1);
    rt_free(name);
    return text;
}

struct words { /* all in base64 */
    char *guard, *mine, *above, *key, *value /* NULL: read */;
};

#define STEPS_FORMAT                                        \
    "[{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\"}}," \
    "{\"request_%s\":{\"key\":\"%s\"%s%s%s}}]"

static int steps_print(char *out, size_t size, const struct words *w)
{
    bool reads = w->value == NULL;

    return snprintf(out, size, STEPS_FORMAT, w->guard, w->mine, reads ? "range" : "put", w->key,
                    reads ? "" : ",\"value\":\"", reads ? "" : w->value, reads ? "" : "\"");
}

static int txn_print(char *out, size_t size, const struct words *w, const char *steps)
{
    return snprintf(
        out, size,
        "{\"compare\":[{\"key\":\"%s\",\"target\":\"VALUE\",\"result\":\"LESS\",\"value\":\"%s\"}],"
        "\"success\":%s,\"failure\":[{\"request_txn\":{"
        "\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"result\":\"EQUAL\","
        "\"create_revision\":\"0\"}],\"success\":%s}}]}",
        w->guard, w->above, steps, w->guard, steps);
}

static char *txn_new(const struct words *w)
{
    int length = steps_print(NULL, 0, w);
    char *steps = length >= 0 ? rt_alloc((size_t)length + 1) : NULL;
    if (steps == NULL)
        return NULL;
    steps_print(steps, (size_t)length + 1, w);
    length = txn_print(NULL, 0, w, steps);
    char *txn = length >= 0 ? rt_alloc((size_t)length + 1) : NULL;
    if (txn != NULL)
        txn_print(txn, (size_t)length + 1, w, steps);
    rt_free(steps);
    return txn;
}

int rota_guard_etcd(const char *key, uint64_t fence, const void *value, size_t size, char **out)
{
    char *txn = NULL;

    if (key == NULL || key[0] == '\0' || out == NULL)
        return rt_fail(NULL, ROTA_INVALID, "the key is missing");
    if (fence == 0 || fence > INT64_MAX)
        return rt_fail(NULL, ROTA_INVALID, "%llu is no fence", (unsigned long long)fence);
    struct words w = {.guard = coded_guard(key),
                      .mine = coded_number(fence),
                      .above = coded_number(fence + 1),
                      .key = coded(key, strlen(key)),
                      .value = value != NULL ? coded(value, size) : NULL};
    if (w.guard != NULL && w.mine != NULL && w.above != NULL && w.key != NULL &&
        (value == NULL || w.value != NULL))
        txn = txn_new(&w);
    rt_free(w.guard);
    rt_free(w.mine);
    rt_free(w.above);
    rt_free(w.key);
    rt_free(w.value);
    if (txn == NULL)
        return rt_fail(NULL, ROTA_NOMEM, NULL);
    *out = txn;
    return 0;
}

void rota_guard_etcd_free(char *request)
{
    rt_free(request);
}

/* ---- The answer ---------------------------------------------------------- */

static const char *skip_space(const char *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')
        at++;
    return at;
}

/* Points behind the colon of the next field NAME (with its quotes) from AT on; NULL: none. Everything that others
 * control comes in base64, or in an error's text, where quotes are escaped, so nothing else looks like a field. */
static const char *find_field(const char *at, const char *name)
{
    while ((at = strstr(at, name)) != NULL) {
        at = skip_space(at + strlen(name));
        if (*at == ':')
            return skip_space(at + 1);
    }
    return NULL;
}

static bool says_succeeded(const char *answer)
{
    for (const char *at = answer; (at = find_field(at, "\"succeeded\"")) != NULL;)
        if (strncmp(at, "true", 4) == 0)
            return true;
    return false;
}

/* By gRPC's codes. */
static int refused(const char *answer)
{
    const char *code = find_field(answer, "\"code\"");

    rt_fail(NULL, ROTA_PROTOCOL, "etcd said: %.200s", answer);
    switch (code != NULL ? strtol(code, NULL, 10) : -1) {
    case 3: /* INVALID_ARGUMENT */
        return ROTA_INVALID;
    case 7:  /* PERMISSION_DENIED */
    case 16: /* UNAUTHENTICATED */
        return ROTA_AUTH;
    case 1:  /* CANCELLED */
    case 2:  /* UNKNOWN */
    case 4:  /* DEADLINE_EXCEEDED */
    case 14: /* UNAVAILABLE */
        return ROTA_UNKNOWN;
    default:
        return ROTA_PROTOCOL;
    }
}

static int decode(const char *text, size_t length, unsigned char *out)
{
    uint32_t group = 0;
    size_t n = 0;

    for (size_t i = 0; i < length; i++) {
        const char *place = strchr(alphabet, text[i]);
        if (place == NULL || text[i] == '\0')
            return ROTA_PROTOCOL;
        group = group << 6 | (uint32_t)(place - alphabet);
        if (i % 4 != 0)
            out[n++] = (unsigned char)(group >> (6 - 2 * (i % 4)));
    }
    return 0;
}

/* The first value in the answer: our Txn reads one key. */
static int take_value(const char *answer, void *value, size_t room, size_t *size)
{
    const char *text = find_field(answer, "\"value\"");
    size_t length = 0;

    if (text != NULL) {
        if (*text++ != '"')
            return refused(answer);
        length = strcspn(text, "=\"");
    }
    size_t needed = length / 4 * 3 + (length % 4 > 0 ? length % 4 - 1 : 0);
    if (length % 4 == 1)
        return refused(answer);
    if (value != NULL && needed > room)
        return rt_fail(NULL, ROTA_INVALID, "the value has %zu bytes, there is room for %zu", needed,
                       room);
    if (value != NULL && length > 0 && decode(text, length, value) != 0)
        return refused(answer);
    if (size != NULL)
        *size = needed;
    return 0;
}

int rota_guard_etcd_answer(const char *answer, void *value, size_t room, size_t *size)
{
    if (answer == NULL)
        return rt_fail(NULL, ROTA_INVALID, "the answer is missing");
    if (find_field(answer, "\"header\"") == NULL)
        return refused(answer);
    if (!says_succeeded(answer))
        return rt_fail(NULL, ROTA_LOST, "a later fence was here already");
    return take_value(answer, value, room, size);
}
