/* SPDX-License-Identifier: Apache-2.0 */
/* What both client libraries have in common: the next statement, and the answer. */
#include "txn/branch/talk.h"

#include "base/alloc.h"

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

bool rt_talk_add(struct rt_talk *t, const char *format, ...)
{
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    int need = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(need >= 0);
    bool ok = rt_grow(&t->sql, &t->room, t->size + (size_t)need + 1, 1);
    if (ok)
        vsnprintf(t->sql + t->size, (size_t)need + 1, format, again);
    va_end(again);
    t->size += ok ? (size_t)need : 0;
    return ok;
}

static int wait_ms(int64_t until)
{
    struct timespec now;

    if (until == INT64_MAX)
        return -1;
    clock_gettime(CLOCK_BOOTTIME, &now);
    int64_t left = (until - ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec)) / 1000000 + 1;
    return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

static bool is_past(int64_t deadline)
{
    return deadline != INT64_MAX && wait_ms(deadline) == 0;
}

void rt_talk_wait(struct rt_talk *t, int64_t deadline)
{
    bool cut = false;

    bool over = t->kind->usable(t, t->said.text, sizeof(t->said.text)) != 0;
    t->said.failed = t->said.lost = over;
    over = over || t->kind->send(t);
    while (!over) {
        struct pollfd fd = {.fd = t->kind->fd(t), .events = t->events};
        int n = poll(&fd, 1, wait_ms(t->until < deadline ? t->until : deadline));
        if (n == 0 && !cut && is_past(deadline)) { /* run the library to its end */
            shutdown(fd.fd, SHUT_RDWR);
            cut = true;
            deadline = INT64_MAX;
        } else if (n >= 0) {
            over = t->kind->advance(t, n > 0 ? fd.revents : 0);
        }
    }
    if (cut) {
        t->said.failed = t->said.lost = true;
        snprintf(t->said.text, sizeof(t->said.text), "no answer in time");
    }
}

void rt_talk_row(struct rt_talk *t, int cells, char *const *values)
{
    struct rt_said *said = &t->said;

    assert(cells >= 0);
    for (int i = 0; said->rows == 0 && i < cells && i < RT_SAID_CELLS; i++) {
        said->null[i] = values[i] == NULL;
        snprintf(said->cell[i], RT_SAID_CELL, "%s", values[i] != NULL ? values[i] : "");
    }
    said->rows++;
    if (t->row != NULL)
        t->row(t->row_arg, cells, values);
}

void rt_talk_result(struct rt_talk *t, uint64_t affected, uint32_t warnings, bool ends)
{
    struct rt_said *said = &t->said;

    said->one[said->results++ % RT_SAID_LAST] = (struct rt_said_one){affected, warnings, ends};
    said->ends += ends ? 1 : 0;
}

struct rt_said_one rt_talk_from_end(const struct rt_talk *t, uint32_t n)
{
    const struct rt_said *said = &t->said;

    assert(n < RT_SAID_LAST);
    return n < said->results ? said->one[(said->results - 1 - n) % RT_SAID_LAST]
                             : (struct rt_said_one){0};
}

void rt_talk_line(char *out, size_t size, const char *text)
{
    assert(size > 0);
    snprintf(out, size, "%.*s", (int)strcspn(text, "\r\n"), text);
}
