/* SPDX-License-Identifier: Apache-2.0 */
/* The fault proxy as a program, for shell tests: commands on stdin, one answer per line on stdout. */
#include "proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE                                                                                         \
    "usage: faultproxy [--raw|--http] [--seed N] [--listen /PATH] PORT|HOST:PORT|/PATH\n"             \
    "First says \"port N\". Then one command per line; the answer ends with \"ok\" or\n"              \
    "\"error\", its results before that. DIR is up, down or both. Ends with its input.\n"             \
    "  delay DIR US [JITTER_US]   chaos MAX_US   split DIR BYTES\n"                                   \
    "  hold DIR   release DIR   lose DIR   heal\n"                                                    \
    "  cut [CONNECTION]   reset [CONNECTION]   end-after DIR BYTES cut|reset\n"                       \
    "  open   refuse   mute   target HOST PORT\n"                                                     \
    "  fault reply|request|push look|drop|silence|cut|reset|double|delay\n"                           \
    "        [nth=N] [times=N|always] [chance=PERCENT] [us=N] [match=WORDS TO THE END OF THE LINE]\n" \
    "  hits FAULT   await FAULT HITS MS   fault-release FAULT   fault-end [FAULT]\n"                  \
    "  counts   counts-of CONNECTION   trace   trace-off (on stderr)\n"

static struct rt_proxy *proxy;

#define WORDS 8

struct line {
    char *word[WORDS]; /* "" beyond the last */
};

/* ---- Words -------------------------------------------------------------- */

static uint64_t number(const char *word)
{
    return strcmp(word, "always") == 0 ? RT_FAULT_ALWAYS : strtoull(word, NULL, 10);
}

static uint32_t number32(const char *word)
{
    return (uint32_t)strtoul(word, NULL, 10);
}

/* The place of WORD in the list, -1: not there. */
static int choice(const char *word, const char *const *list)
{
    for (int i = 0; list[i] != NULL; i++) {
        if (strcmp(word, list[i]) == 0)
            return i;
    }
    return -1;
}

static const char *const dirs[] = {"up", "down", "both", NULL};
static const char *const ends[] = {"cut", "reset", NULL};

/* ---- Commands: false is "error" ----------------------------------------- */

static bool delay(const struct line *l)
{
    int dir = choice(l->word[1], dirs);

    if (dir >= 0)
        rt_proxy_delay(proxy, (enum rt_proxy_dir)dir, number32(l->word[2]), number32(l->word[3]));
    return dir >= 0;
}

static bool chaos(const struct line *l)
{
    rt_proxy_chaos(proxy, number32(l->word[1]));
    return true;
}

/* split, hold, release, lose: a direction, perhaps a number. */
static bool in_direction(const struct line *l)
{
    int chosen = choice(l->word[1], dirs);
    enum rt_proxy_dir dir = (enum rt_proxy_dir)chosen;

    if (chosen < 0)
        return false;
    if (strcmp(l->word[0], "split") == 0)
        rt_proxy_split(proxy, dir, number32(l->word[2]));
    else if (strcmp(l->word[0], "hold") == 0)
        rt_proxy_hold(proxy, dir);
    else if (strcmp(l->word[0], "release") == 0)
        rt_proxy_release(proxy, dir);
    else
        rt_proxy_lose(proxy, dir);
    return true;
}

static bool heal(const struct line *l)
{
    (void)l;
    rt_proxy_heal(proxy);
    return true;
}

static bool end_now(const struct line *l)
{
    rt_proxy_end(proxy, (enum rt_proxy_end)choice(l->word[0], ends), number(l->word[1]));
    return true;
}

static bool end_after(const struct line *l)
{
    int dir = choice(l->word[1], dirs), how = choice(l->word[3], ends);
    uint64_t bytes = number(l->word[2]);

    if (dir < 0 || dir == RT_PROXY_BOTH || how < 0 || bytes == 0)
        return false;
    rt_proxy_end_after(proxy, (enum rt_proxy_dir)dir, bytes, (enum rt_proxy_end)how);
    return true;
}

static bool door(const struct line *l)
{
    static const char *const doors[] = {"open", "refuse", "mute", NULL};

    rt_proxy_door(proxy, (enum rt_proxy_door)choice(l->word[0], doors));
    return true;
}

static bool target(const struct line *l)
{
    rt_proxy_target(proxy, l->word[1], (uint16_t)number(l->word[2]));
    return true;
}

static bool fault_option(struct rt_fault *f, const char *word)
{
    if (strncmp(word, "nth=", 4) == 0)
        f->nth = number(word + 4);
    else if (strncmp(word, "times=", 6) == 0)
        f->times = number(word + 6);
    else if (strncmp(word, "chance=", 7) == 0)
        f->chance = number32(word + 7);
    else if (strncmp(word, "us=", 3) == 0)
        f->delay_us = number32(word + 3);
    else if (strncmp(word, "match=", 6) == 0)
        f->match = word + 6;
    else
        return word[0] == '\0';
    return true;
}

static bool fault(const struct line *l)
{
    static const char *const ons[] = {"reply", "request", "push", NULL};
    static const char *const whats[] = {"look",  "drop",   "silence", "cut",
                                        "reset", "double", "delay",   NULL};
    int on = choice(l->word[1], ons), what = choice(l->word[2], whats);
    struct rt_fault f = {.on = (enum rt_fault_on)on, .what = (enum rt_fault_do)what};

    if (on < 0 || what < 0)
        return false;
    for (int i = 3; i < WORDS; i++) {
        if (!fault_option(&f, l->word[i]))
            return false;
    }
    printf("%u ", (unsigned)rt_proxy_fault(proxy, &f));
    return true;
}

/* hits, await, fault-release, fault-end. */
static bool of_fault(const struct line *l)
{
    uint32_t n = number32(l->word[1]);

    if (strcmp(l->word[0], "fault-end") == 0) {
        rt_proxy_fault_end(proxy, n);
        return true;
    }
    if (n == 0)
        return false;
    if (strcmp(l->word[0], "hits") == 0)
        printf("%llu ", (unsigned long long)rt_proxy_fault_hits(proxy, n));
    else if (strcmp(l->word[0], "await") == 0)
        return rt_proxy_await_hits(proxy, n, number(l->word[2]), number32(l->word[3]));
    else
        rt_proxy_fault_release(proxy, n);
    return true;
}

static bool counts(const struct line *l)
{
    struct rt_proxy_counts c = {0};

    if (strcmp(l->word[0], "counts") == 0)
        rt_proxy_counts(proxy, &c);
    else if (!rt_proxy_conn_counts(proxy, number(l->word[1]), &c))
        return false;
    printf("connections=%llu requests=%llu replies=%llu pushes=%llu flights=%llu "
           "chunks=%llu/%llu bytes=%llu/%llu delivered=%llu/%llu ",
           (unsigned long long)c.connections, (unsigned long long)c.requests,
           (unsigned long long)c.replies, (unsigned long long)c.pushes,
           (unsigned long long)c.flights, (unsigned long long)c.chunks[0],
           (unsigned long long)c.chunks[1], (unsigned long long)c.bytes[0],
           (unsigned long long)c.bytes[1], (unsigned long long)c.delivered[0],
           (unsigned long long)c.delivered[1]);
    return true;
}

static bool trace(const struct line *l)
{
    rt_proxy_trace(proxy, strcmp(l->word[0], "trace") == 0 ? rt_proxy_show : NULL, NULL);
    return true;
}

/* ---- The program -------------------------------------------------------- */

static const struct command {
    const char *name;
    bool (*run)(const struct line *l);
} commands[] = {
    {"delay", delay},
    {"chaos", chaos},
    {"split", in_direction},
    {"hold", in_direction},
    {"release", in_direction},
    {"lose", in_direction},
    {"heal", heal},
    {"cut", end_now},
    {"reset", end_now},
    {"end-after", end_after},
    {"open", door},
    {"refuse", door},
    {"mute", door},
    {"target", target},
    {"fault", fault},
    {"hits", of_fault},
    {"await", of_fault},
    {"fault-release", of_fault},
    {"fault-end", of_fault},
    {"counts", counts},
    {"counts-of", counts},
    {"trace", trace},
    {"trace-off", trace},
};

/* Splits at single blanks; match= takes the rest. */
static void split_words(char *text, struct line *l)
{
    static char none[] = "";
    char *rest = text;

    for (int i = 0; i < WORDS; i++) {
        l->word[i] = none;
        if (rest != NULL && strncmp(rest, "match=", 6) == 0) {
            l->word[i] = rest;
            rest = NULL;
        } else if (rest != NULL) {
            l->word[i] = strsep(&rest, " ");
        }
    }
}

/* A command prints what it has to say before "ok", on the same line. */
static void answer(char *text)
{
    struct line l;

    text[strcspn(text, "\n")] = '\0';
    split_words(text, &l);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].name, l.word[0]) == 0) {
            puts(commands[i].run(&l) ? "ok" : "error");
            fflush(stdout);
            return;
        }
    }
    puts("error");
    fflush(stdout);
}

/* PORT, HOST:PORT or /PATH. */
static bool parse_target(char *text, struct rt_proxy_options *opts)
{
    char *colon = strrchr(text, ':');

    if (text[0] == '/') {
        opts->host = text;
        return true;
    }
    if (colon != NULL) {
        *colon = '\0';
        opts->host = text;
    }
    opts->port = (uint16_t)strtoul(colon != NULL ? colon + 1 : text, NULL, 10);
    return opts->port != 0;
}

static bool parse(int argc, char **argv, struct rt_proxy_options *opts)
{
    int i = 1;

    for (; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--raw") == 0)
            opts->framing = &rt_proxy_raw;
        else if (strcmp(argv[i], "--http") == 0)
            opts->framing = &rt_proxy_http;
        else if (strcmp(argv[i], "--seed") == 0)
            opts->seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--listen") == 0)
            opts->listen = argv[++i];
        else
            return false;
    }
    return i < argc && argv[i][0] != '-' && parse_target(argv[i], opts);
}

int main(int argc, char **argv)
{
    struct rt_proxy_options opts = {.framing = &rt_proxy_resp};
    char *text = NULL;
    size_t size = 0;

    if (!parse(argc, argv, &opts)) {
        fputs(USAGE, stderr);
        return 64;
    }
    proxy = rt_proxy_start(&opts);
    printf("port %u\n", (unsigned)rt_proxy_port(proxy));
    fflush(stdout);
    while (getline(&text, &size, stdin) > 0)
        answer(text);
    free(text);
    rt_proxy_stop(proxy);
    return 0;
}
