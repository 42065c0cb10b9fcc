/* SPDX-License-Identifier: Apache-2.0 */
#include "desk.h"

#include "lib/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

const struct site *const my = &site_mysql, *const pg = &site_postgres;
struct rota_txns *m;
char journal[400], resources[400];
const char *program, *pty;

static long long rows;
static char password[64];

int64_t desk_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void told(int err)
{
    if (err != 0)
        fail_msg("%d: %s", err, rota_txn_errmsg(m));
}

static void name_resource(const char *name, const char *url)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_RESOURCE, .resource = {.name = name, .url = url}};

    told(rt_txns_ask(m, &op));
}

/* URL with the password in it, which must not appear anywhere. */
static void name_password(char *url, char *out, size_t size)
{
    char *file = strstr(url, "?password_file="), *at = strchr(url, '@');

    assert_true(file != NULL && at != NULL);
    FILE *from = fopen(file + strlen("?password_file="), "re");
    assert_non_null(from);
    assert_non_null(fgets(password, sizeof(password), from));
    fclose(from);
    password[strcspn(password, "\n")] = '\0';
    snprintf(out, size, "%.*s:%s%.*s", (int)(at - url), url, password, (int)(file - at), at);
}

void desk_open(const char *rota_txn, const char *url)
{
    char secret[600];

    program = rota_txn;
    my->start();
    pg->start();
    if (url != NULL)
        snprintf(journal, sizeof(journal), "%s", url);
    else
        snprintf(journal, sizeof(journal), "file:%s/journal", rt_tmpdir());
    snprintf(resources, sizeof(resources), "%s/resources", rt_tmpdir());
    char *at_my = my->url(0), *at_pg = pg->url(0);
    FILE *file = fopen(resources, "we");
    assert_non_null(file);
    assert_int_equal(chmod(resources, 0600), 0);
    name_password(at_my, secret, sizeof(secret));
    fprintf(file, "# of the test\nshop = %s\nledger = %s\n", secret, at_pg);
    fclose(file);
    free(at_my);
    free(at_pg);
    int err = rota_txns_open(&m, journal, &(struct rota_txns_options){.resources = resources});
    if (err != 0)
        fail_msg("%d: %s", err, rota_txn_errmsg(NULL));
    name_resource("shop", "mysql://shop");
    name_resource("ledger", "postgres://ledger");
}

void desk_close(void)
{
    rota_txns_close(m);
    my->fini();
    pg->fini();
}

/* ---- The command ------------------------------------------------------------ */

#define WORDS_MOST 20

static void drain(int fd, char *to, size_t size, size_t *used)
{
    char spill[4096];
    bool room = *used + 1 < size;
    ssize_t n = read(fd, room ? to + *used : spill, room ? size - 1 - *used : sizeof(spill));

    if (n > 0 && room)
        *used += (size_t)n;
}

static void collect(struct said *said, int out, int err)
{
    struct pollfd fds[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    size_t used[2] = {0, 0};

    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        assert_true(poll(fds, 2, SITE_LIMIT_MS) > 0);
        for (int i = 0; i < 2; i++) {
            size_t before = used[i];
            if (fds[i].fd < 0 || fds[i].revents == 0)
                continue;
            drain(fds[i].fd, i == 0 ? said->out : said->err,
                  i == 0 ? sizeof(said->out) : sizeof(said->err), &used[i]);
            if (used[i] == before)
                fds[i].fd = -1;
        }
    }
    said->out[used[0]] = said->err[used[1]] = '\0';
}

static struct said *run_words(char **words)
{
    static struct said said;
    posix_spawn_file_actions_t actions;
    int out[2], err[2], status;
    pid_t pid;

    rt_watchdog(DESK_LIMIT_S, "rota-txn hangs");
    assert_int_equal(pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    assert_int_equal(posix_spawn(&pid, program, &actions, NULL, words, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(err[1]);
    collect(&said, out[0], err[0]);
    close(out[0]);
    close(err[0]);
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    assert_null(strstr(said.out, password));
    assert_null(strstr(said.err, password));
    said.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    return &said;
}

static struct said *run_list(bool json, const char *first, va_list more)
{
    static char j[] = "--journal", r[] = "--resources", json_word[] = "--json", name[] = "rota-txn";
    char *words[WORDS_MOST] = {name, j, journal, r, resources};
    size_t n = 5;

    if (json)
        words[n++] = json_word;
    for (const char *w = first; w != NULL && n + 1 < WORDS_MOST; w = va_arg(more, const char *)) {
        words[n] = strdup(w);
        assert_non_null(words[n++]);
    }
    struct said *said = run_words(words);
    for (size_t i = json ? 6 : 5; i < n; i++)
        free(words[i]);
    return said;
}

struct said *run(const char *first, ...)
{
    va_list more;

    va_start(more, first);
    struct said *said = run_list(false, first, more);
    va_end(more);
    return said;
}

json_t *run_json(int code, const char *first, ...)
{
    json_error_t wrong;
    va_list more;

    va_start(more, first);
    const struct said *said = run_list(true, first, more);
    va_end(more);
    json_t *all = json_loads(said->out, 0, &wrong);
    if (said->code != code || all == NULL)
        fail_msg("%s: %d, not %d; %s: %s: %s", first, said->code, code,
                 all == NULL ? wrong.text : "it is JSON", said->out, said->err);
    return all;
}

void refuses(int code, const char *text, const char *first, ...)
{
    va_list more;

    va_start(more, first);
    const struct said *said = run_list(false, first, more);
    va_end(more);
    if (said->code != code || strstr(said->err, text) == NULL)
        fail_msg("%s: %d, not %d, or no '%s' in: %s (%s)", first, said->code, code, text, said->err,
                 said->out);
    assert_int_equal(said->err[strlen(said->err) - 1], '\n');
}

int run_at_terminal(const char *script, const char *words)
{
    char path[400], line[2400];

    snprintf(path, sizeof(path), "%s/script", rt_tmpdir());
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(script, file);
    fclose(file);
    snprintf(line, sizeof(line), "'%s' '%s' --journal '%s' --resources '%s' %s <'%s' >/dev/null",
             pty, program, journal, resources, words, path);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- The daemon ------------------------------------------------------------- */

void daemon_start(struct daemon *d)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    posix_spawn_file_actions_t actions;
    char *words[] = {(char[]){"rota-txn"},
                     (char[]){"--journal"},
                     journal,
                     (char[]){"--resources"},
                     resources,
                     (char[]){"recover"},
                     (char[]){"--every"},
                     (char[]){"1s"},
                     (char[]){"--metrics"},
                     d->metrics,
                     NULL};

    snprintf(at.sun_path, sizeof(at.sun_path), "%s/notify", rt_tmpdir());
    unlink(at.sun_path);
    d->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(d->fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    snprintf(d->metrics, sizeof(d->metrics), "%s/metrics.prom", rt_tmpdir());
    setenv("NOTIFY_SOCKET", at.sun_path, 1);
    setenv("WATCHDOG_USEC", "3000000", 1);
    snprintf(d->log, sizeof(d->log), "%s/log", rt_tmpdir());
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, d->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(posix_spawn(&d->pid, program, &actions, NULL, words, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
}

void hears(const struct daemon *d, const char *text)
{
    char said[600] = "";
    struct pollfd fd = {.fd = d->fd, .events = POLLIN};

    while (strncmp(said, text, strlen(text)) != 0) {
        assert_int_equal(poll(&fd, 1, SITE_LIMIT_MS), 1);
        ssize_t n = recv(d->fd, said, sizeof(said) - 1, 0);
        assert_true(n > 0);
        said[n] = '\0';
    }
}

void logs(const struct daemon *d, const char *text)
{
    char line[700];

    for (bool found = false; !found; poll(NULL, 0, 20)) { /* the watchdog ends it */
        while (recv(d->fd, line, sizeof(line), MSG_DONTWAIT) > 0) {
        } /* else it waits for room to tell its service manager more */
        FILE *file = fopen(d->log, "re");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file) != NULL)
            found = found || strstr(line, text) != NULL;
        fclose(file);
    }
}

void daemon_stop(struct daemon *d)
{
    int status;

    assert_int_equal(kill(d->pid, SIGTERM), 0);
    hears(d, "STOPPING=1");
    while (waitpid(d->pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(d->fd);
}

/* ---- What is left behind ------------------------------------------------------- */

struct left left_new(int64_t birth_ms, int64_t deadline_ms)
{
    struct left l = {.deadline_ms = birth_ms + deadline_ms, .row = ++rows};
    uint64_t random = 0;

    assert_int_equal(getrandom(&random, 6, 0), 6);
    l.id = rt_txn_id_make(rt_txns_number(m), birth_ms, random);
    rt_txn_id_text(&l.id, l.text);
    return l;
}

static void prepare(const struct site *site, const struct left *l, uint32_t branch)
{
    struct rt_part part = {.name = {.id = l->id, .branch = branch, .deadline_ms = l->deadline_ms}};
    struct seat s;

    seat_open(&s, site, 0, false);
    seat_work(&s, &part, l->row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
    seat_close(&s);
}

struct left leave_prepared(int64_t deadline_ms)
{
    struct left l = left_new(desk_now_ms() - 120000, 120000 + deadline_ms);

    prepare(my, &l, 1);
    prepare(pg, &l, 2);
    return l;
}

void decide(const struct left *l, bool commit, const char *third)
{
    const struct rt_journal_branch branches[] = {{.number = 1, .mode = 1, .resource = "shop"},
                                                 {.number = 2, .mode = 2, .resource = "ledger"},
                                                 {.number = 3, .mode = 2, .resource = third}};
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE,
                               .decide = {.id = l->id,
                                          .decision = commit ? RT_JOURNAL_COMMIT : RT_JOURNAL_ABORT,
                                          .deadline_ms = l->deadline_ms,
                                          .label = "of the test",
                                          .branches = branches,
                                          .count = third != NULL ? 3 : 2}};

    if (third != NULL)
        name_resource(third, "postgres://cellar");
    told(rt_txns_ask(m, &op));
}

struct left leave_decided(bool commit)
{
    struct left l = leave_prepared(60000);

    decide(&l, commit, NULL);
    return l;
}

void mark_done(const struct left *l)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_DONE, .finish = {.ids = &l->id, .count = 1}};

    told(rt_txns_ask(m, &op));
}

void is_at_both(const struct left *l, bool there)
{
    assert_int_equal(has_row(my, l->row), there);
    assert_int_equal(has_row(pg, l->row), there);
}

long prepared(void)
{
    return my->prepared() + pg->prepared();
}

void wait_until_prepared(long at_my, long at_pg)
{
    while (my->prepared() != at_my || (at_pg >= 0 && pg->prepared() != at_pg))
        poll(NULL, 0, 50); /* the watchdog ends it */
}

/* ---- Answers --------------------------------------------------------------------- */

void has_keys(const json_t *object, const char *keys)
{
    size_t n = 0;

    assert_true(json_is_object(object));
    for (const char *k = keys; *k != '\0'; k += strspn(k, " "), n++) {
        char key[40];
        snprintf(key, sizeof(key), "%.*s", (int)strcspn(k, " "), k);
        if (json_object_get(object, key) == NULL)
            fail_msg("no '%s'", key);
        k += strlen(key);
    }
    assert_int_equal(json_object_size(object), n);
}

const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    if (text == NULL)
        fail_msg("no text '%s'", key);
    return text;
}

long long number_of(const json_t *object, const char *key)
{
    const json_t *number = json_object_get(object, key);

    if (!json_is_integer(number))
        fail_msg("no number '%s'", key);
    return json_integer_value(number);
}

json_t *entry_of(const json_t *object, const char *array, const char *key, const char *value)
{
    json_t *rows_ = json_object_get(object, array), *entry;
    size_t i;

    assert_true(json_is_array(rows_));
    json_array_foreach(rows_, i, entry)
    {
        const char *text = json_string_value(json_object_get(entry, key));
        if (text != NULL && strcmp(text, value) == 0)
            return entry;
    }
    return NULL;
}
