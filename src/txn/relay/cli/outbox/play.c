/* SPDX-License-Identifier: Apache-2.0 */
/* The director of the demo: starts everybody, kills some of them, restarts whoever has ended, and counts. */
#include "txn/relay/cli/outbox/outbox.h"

#include "cli/out.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TICK_NS 20000000
#define PATIENCE 6000 /* ticks without any progress: two minutes */
#define CALM 100      /* ticks: by hand nobody knows if more will come */

enum { SHOP, RELAY, MAIL, PEOPLE };
static const char *const titles[PEOPLE] = {"the shop", "the relay", "the mail service"};

struct cast { /* who plays */
    struct rt_outbox *o;
    struct rt_outbox_sum *sum;
    pid_t pids[PEOPLE];
    bool shop_done;
    unsigned strikes; /* how many of those below are done */
};

/* Who is killed once this many of a hundred mails are sent. */
static const struct {
    int percent;
    const char *who; /* NULL: the broker */
    int index;
} plan[] = {{15, "the relay", RELAY},       {30, NULL, 0}, {45, "the relay", RELAY},
            {60, "the mail service", MAIL}, {70, NULL, 0}, {85, "the relay", RELAY}};
#define STRIKES (sizeof(plan) / sizeof(plan[0]))

/* ---- Processes -------------------------------------------------------------------------------- */

static void run_relay(const struct rt_outbox *o)
{
    execl("/proc/self/exe", "rota-relay", "--from", o->from, "--to", o->to, "--map", rt_outbox_map,
          "--lease", "1s", "--republish-after", "2s", "--lanes", "1", "--batch", "20",
          "--clean-after", "0", (char *)NULL);
}

static void hush(const struct rt_outbox *o)
{
    char path[PATH_MAX + 16];

    snprintf(path, sizeof(path), "%s/again", o->scratch.folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0)
        dup2(fd, STDERR_FILENO);
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        dup2(fd, STDOUT_FILENO);
}

static pid_t start(struct cast *c, int who)
{
    pid_t parent = getpid();

    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    if (who == RELAY) {
        int fd = open("/dev/null", O_RDWR);
        if (fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0)
            run_relay(c->o);
        _exit(127);
    }
    hush(c->o);
    c->o->store = NULL; /* the director's */
    _exit(who == SHOP ? rt_outbox_shop(c->o) : rt_outbox_mail(c->o));
}

/* Restarts whoever has ended, except a shop that is done. */
static void tend(struct cast *c)
{
    for (int i = 0; i < PEOPLE; i++) {
        int status = 0;
        if ((i == SHOP && c->shop_done) || (i == RELAY && c->o->by_hand))
            continue;
        if (c->pids[i] > 0 && waitpid(c->pids[i], &status, WNOHANG) != c->pids[i])
            continue;
        if (i == SHOP && c->pids[i] > 0) {
            c->shop_done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
            c->sum->shop += WIFSIGNALED(status);
        }
        c->pids[i] = i == SHOP && c->shop_done ? 0 : start(c, i);
    }
}

static void end(struct cast *c, int who)
{
    if (c->pids[who] > 0 && kill(c->pids[who], SIGKILL) == 0)
        (void)waitpid(c->pids[who], NULL, 0);
    c->pids[who] = 0;
}

/* ---- What is seen ----------------------------------------------------------------------------- */

static long long count(struct cast *c, const char *sql)
{
    return rt_outbox_number(c->o, sql);
}

static void show(struct cast *c, const char *what)
{
    struct rt_store_stats s = {0};
    bool terminal = isatty(STDOUT_FILENO);

    if (c->o->json || (what == NULL && !terminal) || c->o->by_hand)
        return;
    if (rt_store_stats(c->o->store, &s) != 0)
        return;
    printf("%s  new %-4" PRIu64 " published %-4" PRIu64 " processed %-5" PRIu64 "%s%s%s%s",
           terminal ? "\r" : "", s.counts[RT_EVENT_NEW], s.counts[RT_EVENT_PUBLISHED],
           s.counts[RT_EVENT_PROCESSED], rt_out_color(stdout, RT_OUT_RED), what != NULL ? what : "",
           rt_out_color(stdout, RT_OUT_PLAIN), what != NULL ? "\n" : "");
    fflush(stdout);
}

/* ---- Trouble ---------------------------------------------------------------------------------- */

/* Our broker forgets what it had: it writes nothing to disk. */
static int strike_broker(struct cast *c)
{
    if (c->o->to_given != NULL)
        return RT_EXIT_OK;
    rt_house_kill_redis(&c->o->house, 0);
    c->sum->broker++;
    show(c, "the broker is killed, and forgets what it had");
    return rt_house_redis(&c->o->house, 0, false);
}

static int strike(struct cast *c, long long mails)
{
    if (c->o->by_hand || c->strikes == STRIKES ||
        mails * 100 < (long long)c->o->orders * plan[c->strikes].percent)
        return RT_EXIT_OK;
    int who = plan[c->strikes].index;
    char line[64];

    if (plan[c->strikes++].who == NULL)
        return strike_broker(c);
    end(c, who);
    c->sum->relay += who == RELAY;
    c->sum->mail += who == MAIL;
    snprintf(line, sizeof(line), "%s is killed", titles[who]);
    show(c, line);
    return RT_EXIT_OK;
}

/* ---- One way ------------------------------------------------------------------------------------ */

/* Waits until every event is processed; by hand, until no more mails come for a while. */
static int wait_for_mails(struct cast *c)
{
    long long last = -1;
    int still = 0;

    for (;;) {
        tend(c);
        long long mails = count(c, "SELECT COUNT(*) FROM rota_demo_mail");
        if (mails < 0 || still > PATIENCE) {
            rt_out_error("%s", mails < 0 ? rt_store_errmsg(c->o->store) : "no more mails arrive");
            return RT_EXIT_UNREACHABLE;
        }
        still = mails == last ? still + 1 : 0;
        last = mails;
        int code = strike(c, mails);
        if (code != RT_EXIT_OK)
            return code;
        show(c, NULL);
        if (c->shop_done && c->o->by_hand && (still > CALM || mails == (long long)c->o->orders))
            return RT_EXIT_OK;
        if (c->shop_done && !c->o->by_hand &&
            count(c, "SELECT COUNT(*) FROM rota_demo_event WHERE state <> 'processed'") == 0)
            return RT_EXIT_OK;
        (void)nanosleep(&(struct timespec){0, TICK_NS}, NULL);
    }
}

static long long count_again(const struct rt_outbox *o)
{
    char path[PATH_MAX + 16];
    long long dots = 0;

    snprintf(path, sizeof(path), "%s/again", o->scratch.folder);
    FILE *file = fopen(path, "re");
    for (int ch; file != NULL && (ch = fgetc(file)) != EOF;)
        dots += ch == '.';
    if (file != NULL)
        fclose(file);
    return dots;
}

static bool add_up(struct cast *c)
{
    struct rt_outbox_sum *s = c->sum;

    s->orders = count(c, "SELECT COUNT(*) FROM rota_demo_order");
    s->mails = count(c, "SELECT COUNT(*) FROM rota_demo_mail");
    s->lost = count(c, "SELECT COUNT(*) FROM rota_demo_order WHERE id NOT IN (SELECT number FROM "
                       "rota_demo_mail)");
    s->twice = count(c, "SELECT COUNT(*) FROM rota_demo_mail") -
               count(c, "SELECT COUNT(DISTINCT number) FROM rota_demo_mail");
    s->again = count_again(c->o);
    return s->orders >= 0 && s->mails >= 0 && s->lost >= 0 && s->twice >= 0;
}

static int play_way(struct rt_outbox *o, bool by_hand)
{
    struct cast c = {.o = o, .sum = by_hand ? &o->hand : &o->outbox};

    o->by_hand = by_hand;
    snprintf(o->topic, sizeof(o->topic), "rota-demo-%s-%ld", by_hand ? "hand" : "outbox",
             (long)getpid());
    int code = rt_outbox_open(o, true);
    if (code == RT_EXIT_OK)
        code = wait_for_mails(&c);
    for (int i = 0; i < PEOPLE; i++)
        end(&c, i);
    if (code == RT_EXIT_OK && !add_up(&c)) {
        rt_out_error("%s", rt_store_errmsg(o->store));
        code = RT_EXIT_UNREACHABLE;
    }
    if (o->store != NULL)
        rt_outbox_drop(o);
    rt_store_close(o->store);
    o->store = NULL;
    if (!o->json && !by_hand && isatty(STDOUT_FILENO))
        putchar('\n');
    return code;
}

/* ---- Both ------------------------------------------------------------------------------------------ */

static void tell(const struct rt_outbox *o, bool by_hand)
{
    const struct rt_outbox_sum *s = by_hand ? &o->hand : &o->outbox;
    enum rt_out_color color = s->lost + s->twice == 0 ? RT_OUT_GREEN : RT_OUT_RED;

    if (o->json)
        return;
    printf("  %lld orders, %lld mails, %s", s->orders, s->mails, rt_out_color(stdout, color));
    if (s->twice == 0)
        printf("none twice, ");
    else
        printf("%lld twice, ", s->twice);
    if (s->lost == 0)
        printf("none lost");
    else
        printf("%lld lost", s->lost);
    printf("%s\n", rt_out_color(stdout, RT_OUT_PLAIN));
    printf("  killed: the shop %" PRIu32 " time%s, each time after its COMMIT", s->shop,
           s->shop == 1 ? "" : "s");
    if (!by_hand)
        printf("; the relay %" PRIu32 ", the mail service %" PRIu32 ", the broker %" PRIu32,
               s->relay, s->mail, s->broker);
    if (s->again > 0)
        printf("\n  %lld messages came again, and no mail was sent for them", s->again);
    printf("\n");
    fflush(stdout);
}

static void title(const struct rt_outbox *o, const char *text)
{
    if (!o->json)
        printf("%s%s%s\n", rt_out_color(stdout, RT_OUT_BOLD), text,
               rt_out_color(stdout, RT_OUT_PLAIN));
    fflush(stdout);
}

/* SQLite takes an empty file for a database. */
static int set_up(struct rt_outbox *o)
{
    char path[PATH_MAX + 16];
    int code = RT_EXIT_OK;

    o->house.folder = o->scratch.folder;
    if (o->to_given == NULL)
        code = rt_house_redis(&o->house, 0, false);
    if (code != RT_EXIT_OK) {
        rt_out_error("the demo needs a Redis: install redis-server, or name one by --to "
                     "redis://HOST");
        return code;
    }
    if (o->to_given == NULL)
        snprintf(o->to, sizeof(o->to), "redis+unix:%s", o->house.redis[0].socket);
    if (o->from_given != NULL)
        return RT_EXIT_OK;
    snprintf(path, sizeof(path), "%s/shop.db", o->scratch.folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || snprintf(o->from, sizeof(o->from), "sqlite:%s", path) >= (int)sizeof(o->from)) {
        rt_out_error("%s: %s", path, strerror(errno));
        return RT_EXIT_UNREACHABLE;
    }
    close(fd);
    return RT_EXIT_OK;
}

int rt_outbox_play(void *outbox)
{
    struct rt_outbox *o = outbox;

    int code = set_up(o);
    if (code == RT_EXIT_OK) {
        title(o, "By hand: the order's row, then the message");
        code = play_way(o, true);
    }
    if (code == RT_EXIT_OK) {
        tell(o, true);
        title(o, "With the outbox: an event in the order's transaction, and a relay");
        code = play_way(o, false);
    }
    if (code == RT_EXIT_OK) {
        tell(o, false);
        if (o->outbox.lost + o->outbox.twice != 0 || o->outbox.orders != (long long)o->orders)
            code = RT_EXIT_FAILED;
    }
    rt_house_close(&o->house);
    return code;
}
