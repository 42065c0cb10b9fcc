/* SPDX-License-Identifier: Apache-2.0 */
/* What is passed to calls: structs of other sizes, bad options; error texts per thread. */
#include "suite.h"

#include <stdio.h>
#include <string.h>

/* A program built against an older, smaller header. */
static void smaller_structs_work(void)
{
    struct rota *a = NULL, *b = conf_open();
    const char *name = conf_name("x");
    struct rota_options opts = {.label = "small", .ttl_ms = 20000, .flags = 0xffffffffu};
    size_t size = offsetof(struct rota_options, flags);
    assert_int_equal(rota_open_sized(&a, conf.url, &opts, size), 0);
    struct rota_ask ask = {
        .limit_ms = CONF_PATIENCE_MS, .owner = ROTA_OWNER_NONE, .linger_ms = 600000};
    struct rota_lock *lock = NULL, *out = NULL;
    size = offsetof(struct rota_ask, hold_ms);
    assert_int_equal(rota_acquire_sized(a, name, &ask, size, &lock), 0);
    ask.limit_ms = 1;
    assert_int_equal(rota_acquire_sized(b, name, &ask, size, &out), ROTA_TIMEOUT);
    assert_int_equal(conf_try(a, name, NULL, NULL), 0); /* owner was beyond: this thread */
    conf_give(lock);
    conf_left_line(b, name, 0, 0); /* as was linger_ms */
    size = offsetof(struct rota_ask, take);
    ask.mode = ROTA_SHARED;
    if ((conf.caps & ROTA_CAP_SHARED) != 0) {
        assert_int_equal(rota_acquire_sized(a, name, &ask, size, &lock), 0);
        conf_give(lock);
    }
    rota_close(a);
}

/* A program built against a newer, larger one, which asks for nothing new. */
static void larger_structs_work(void)
{
    struct {
        struct rota_ask ask;
        uint64_t more[4];
    } larger = {.ask = {.limit_ms = 1000}};
    struct rota *a = conf_open();
    struct rota_lock *lock = NULL;
    assert_int_equal(rota_acquire_sized(a, conf_name("x"), &larger.ask, sizeof larger, &lock), 0);
    conf_give(lock);
}

struct speaker {
    struct rota *r;
    const char *name;
    pthread_barrier_t *both;
    char text[2][256];
};

static void *speaker_main(void *arg)
{
    struct speaker *s = arg;
    struct rota_lock *out = NULL;
    snprintf(s->text[0], sizeof s->text[0], "%s", rota_errmsg(s->r));
    rota_acquire(s->r, s->name, NULL, &out);
    pthread_barrier_wait(s->both); /* the other thread's call failed too by now */
    snprintf(s->text[1], sizeof s->text[1], "%s", rota_errmsg(s->r));
    return NULL;
}

static void errmsg_is_per_thread(void)
{
    struct rota *a = conf_open();
    struct speaker *s = conf_alloc(2 * sizeof *s);
    pthread_barrier_t both;
    pthread_barrier_init(&both, NULL, 2);
    s[0] = (struct speaker){.r = a, .name = "", .both = &both};
    s[1] = (struct speaker){.r = a, .name = conf_name("\x01"), .both = &both};
    struct conf_thread *threads[2];
    for (size_t i = 0; i < 2; i++)
        threads[i] = conf_spawn(speaker_main, &s[i]);
    for (size_t i = 0; i < 2; i++) {
        conf_join(threads[i]);
        assert_string_equal(s[i].text[0], "");
        assert_true(s[i].text[1][0] != '\0');
        assert_null(strchr(s[i].text[1], '\n')); /* one line */
    }
    assert_string_not_equal(s[0].text[1], s[1].text[1]);
    assert_string_equal(rota_errmsg(a), ""); /* this thread did nothing wrong */
    pthread_barrier_destroy(&both);
}

static void assert_not_opened(const char *url, const struct rota_options *opts)
{
    struct rota *r = NULL;
    if (rota_open(&r, url, opts) != ROTA_INVALID)
        fail_msg("\"%s\" is opened, or refused for another reason", url);
    assert_null(r);
    assert_true(rota_errmsg(NULL)[0] != '\0');
    assert_null(strchr(rota_errmsg(NULL), '\n'));
}

static void bad_urls(void)
{
    char url[1024];
    assert_not_opened("nosuchscheme://host", NULL);
    snprintf(url, sizeof url, "%s%snosuchparameter=1", conf.url,
             strchr(conf.url, '?') != NULL ? "&" : "?");
    assert_not_opened(url, NULL);
    assert_non_null(strstr(rota_errmsg(NULL), "nosuchparameter"));
    assert_not_opened("nosuchscheme://me:hunter2@host", NULL);
    assert_null(strstr(rota_errmsg(NULL), "hunter2"));
}

static void bad_options(void)
{
    struct rota_options bad[] = {
        {.ttl_ms = 999}, {.ttl_ms = 3600001}, {.flags = 0x80000000u}, {.reserved = 1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (bad[i].ttl_ms == 0 || strstr(conf.url, "ttl=") == NULL) /* the URL goes before */
            assert_not_opened(conf.url, &bad[i]);
}

static void bad_ttl_in_the_url(void)
{
    static const char *const ttls[] = {"999ms", "3600001", "soon", ""};
    char url[1024];
    for (size_t i = 0; i < sizeof ttls / sizeof ttls[0]; i++) {
        size_t plain = strcspn(conf.url, "?");
        snprintf(url, sizeof url, "%.*s?ttl=%s", (int)plain, conf.url, ttls[i]);
        assert_not_opened(url, NULL);
    }
}

static void bad_arguments(void)
{
    struct rota *a = conf_open();
    struct rota_lock *lock = NULL;
    assert_int_equal(rota_acquire(a, conf_name("x"), &(struct rota_ask){.flags = 0x100}, &lock),
                     ROTA_INVALID);
    assert_int_equal(rota_unobserve(a, 12345), ROTA_INVALID);
    assert_true(rota_break(a, conf_name("x"), 0) != 0); /* 0 is nobody's fence */
    assert_int_equal(rota_release(NULL), 0);
    rota_close(NULL);
    conf_assert_line(a, conf_name("x"), 0, 0);
}

static void errors_have_sentences(void)
{
    assert_string_equal(rota_strerror(0), "success");
    assert_string_equal(rota_strerror(1), "unknown error");
    assert_string_equal(rota_strerror(-1000), "unknown error");
    for (int err = ROTA_INTERNAL; err < 0; err++)
        assert_string_not_equal(rota_strerror(err), "unknown error");
    assert_true(rota_version()[0] != '\0');
}

const struct conf_case conf_input[] = {
    CONF_CASE(smaller_structs_work, 0, 0),
    CONF_CASE(larger_structs_work, 0, 0),
    CONF_CASE(errmsg_is_per_thread, 0, 0),
    CONF_CASE(bad_urls, 0, 0),
    CONF_CASE(bad_options, 0, 0),
    CONF_CASE(bad_ttl_in_the_url, 0, 0),
    CONF_CASE(bad_arguments, 0, 0),
    CONF_CASE(errors_have_sentences, 0, 0),
    CONF_END,
};
