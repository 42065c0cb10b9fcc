/* SPDX-License-Identifier: Apache-2.0 */
/* Tries a client, and looks at what it says as its user would. */
#include "lib/refusal.h"

#include "lib/history.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void refusal_note(struct refusal *r, int err, const char *text, int64_t since)
{
    r->err = err;
    r->ms = (rt_history_now() - since) / 1000000;
    snprintf(r->text, sizeof(r->text), "%s", text);
}

struct refusal refusal_of(const char *url, uint32_t call_ms)
{
    struct rota_options opts = {.ttl_ms = 1000, .call_ms = call_ms};
    struct rota_ask ask = {.limit_ms = call_ms};
    struct rota_lock *lock = NULL;
    struct refusal refusal = {0};
    struct rota *r = NULL;
    int64_t since = rt_history_now();
    int err = rota_open(&r, url, &opts);

    if (err != 0) {
        refusal_note(&refusal, err, rota_errmsg(NULL), since);
        return refusal;
    }
    err = rota_acquire(r, "some lock", &ask, &lock);
    if (err == 0)
        err = rota_release(lock);
    refusal_note(&refusal, err, err != 0 ? rota_errmsg(r) : "", since);
    rota_close(r);
    return refusal;
}

static void assert_words(const struct refusal *r, const char *words)
{
    char copy[256], *rest = NULL;

    snprintf(copy, sizeof(copy), "%s", words);
    for (char *word = strtok_r(copy, "|", &rest); word != NULL; word = strtok_r(NULL, "|", &rest)) {
        if (strcasestr(r->text, word) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", r->text, word);
    }
}

void refusal_assert(const struct refusal *r, int err, const char *words, const char *const *secrets)
{
    print_message("%s: %s (%lld ms)\n", rota_strerror(r->err), r->text, (long long)r->ms);
    assert_int_equal(r->err, err);
    assert_true(r->text[0] != '\0');
    assert_null(strchr(r->text, '\n'));
    for (; *secrets != NULL; secrets++)
        assert_null(strstr(r->text, *secrets));
    if (words != NULL)
        assert_words(r, words);
}
