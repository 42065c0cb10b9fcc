/* SPDX-License-Identifier: Apache-2.0 */
/* The disk of a SQL server is full for a while: what cannot be done is reported, and afterwards all goes on. In one
 * case every write that would make a file longer fails; in the other its disk is a small file system in memory, in a
 * mount namespace that ends with this program, which only root can have. */
#include "house.h"
#include "lib/players.h"
#include "lib/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

#define TTL_MS 1000
#define LONG_TTL_MS 10000 /* so long that a session does not end on a slow machine */
#define ASK_MS 3000 /* less than the patience of a call, and longer than a slow server takes */
#define NAMES_MAX 20000

static struct house_knob knob;
static char ballast[4200]; /* "": the server is told */

/* False: not here. */
static bool small_disk(void)
{
    const char *at = rt_memdir();
    if (strcmp(at, rt_tmpdir()) == 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", at, "tmpfs", 0, "size=200m,mode=0711") != 0) {
        print_message("no small disk: %s\n", strerror(errno));
        return false;
    }
    snprintf(ballast, sizeof(ballast), "%s/ballast", at);
    return true;
}

static void fill(void)
{
    static char block[65536];
    if (ballast[0] == '\0') {
        house_knob_set(&knob, 1);
        return;
    }
    int fd = open(ballast, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    size_t size = sizeof(block);
    assert_true(fd >= 0);
    memset(block, 'x', sizeof(block));
    while (size > 0)
        size = write(fd, block, size) > 0 ? size : size / 2;
    close(fd);
}

static void make_room(void)
{
    if (ballast[0] == '\0')
        house_knob_set(&knob, 0);
    else
        assert_int_equal(unlink(ballast), 0);
}

static void spell(char out[300], int i)
{
    snprintf(out, 300, "%0200d", i);
}

/* New names need new room. A full disk is reported as such, in one line, even where the limit is over before the
 * patience of a call: it is not somebody else's turn. (A PostgreSQL that cannot write its log is gone: then the error
 * says that.) Returns how many names were asked for. */
static int new_names_are_refused(struct rota *r)
{
    const struct rota_ask ask = {.limit_ms = ASK_MS};
    struct rota_lock *lock = NULL;
    int err = 0, in_vain = 0, i = 0;
    for (; i < NAMES_MAX && (err == 0 || (err == ROTA_TIMEOUT && in_vain < 10)); i++) {
        char name[300];
        spell(name, i);
        err = rota_acquire(r, name, &ask, &lock);
        if (err == 0)
            (void)rota_release(lock);
        in_vain += err == ROTA_TIMEOUT;
        fill();
    }
    print_message("%s: %s\n", rota_strerror(err), err != 0 ? rota_errmsg(r) : "");
    assert_true(err == ROTA_UNREACHABLE || err == ROTA_UNKNOWN);
    assert_null(strchr(rota_errmsg(r), '\n'));
    return i;
}

/* A session that was lost with its server leaves the line of its one hold as it was: whoever asks for it next is
 * granted at once, and then nothing of it is left. */
static void names_are_free(const char *url, int count)
{
    struct rota *r = player(url, LONG_TTL_MS, HOUSE_LIMIT_MS);
    for (int i = 0; i < count; i++) {
        char name[300];
        spell(name, i);
        assert_int_equal(rota_release(player_take(r, name, NULL)), 0);
    }
    rota_close(r);
}

static void a_full_disk(void **state)
{
    static char title[64];
    snprintf(title, sizeof(title), "%s: %s disk", house->name,
             ballast[0] == '\0' ? "full" : "small");
    struct stage_plan plan = {.title = title,
                              .processes = 5,
                              .threads = 1,
                              .locks = 3,
                              .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                       STAGE_SPICE,
                              .ttl_ms = TTL_MS,
                              .call_ms = 5000,
                              .long_permille = 20,
                              .long_ms = 1500,
                              .pause_us = 2000};
    struct stage *st = stage_new(&plan);
    char *url = house->url(0);
    (void)state;
    stage_url(st, url);
    stage_start(st);
    for (uint32_t i = 0; i < stage_factor(); i++) {
        struct rota *r = player(url, LONG_TTL_MS, 0);
        stage_pause(st, 300);
        stage_mark(st);
        fill();
        int names = new_names_are_refused(r);
        stage_pause(st, 500);
        make_room();
        house->kill(); /* a PostgreSQL that cannot write its log has ended by itself */
        house->run();
        stage_await_grants(st);
        rota_close(r);
        names_are_free(url, names);
    }
    house_finish(st, true);
    free(url);
}

static int told_so(void **state)
{
    house_knob_begin(&knob, HOUSE_DISK);
    return house_setup(state);
}

static int told_no_more(void **state)
{
    house_knob_end(HOUSE_DISK); /* it was started anew meanwhile */
    return house_teardown(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk),
    };
    if (!house_choose(argc, argv))
        return 64;
    int failed = cmocka_run_group_tests_name("every write is refused", tests, told_so,
                                             told_no_more);
    if (small_disk())
        failed += cmocka_run_group_tests_name("a small disk", tests, house_setup, house_teardown);
    return failed;
}
