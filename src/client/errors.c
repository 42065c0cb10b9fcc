/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: fixed sentences, and what the last failing call of each thread had to say. */
#include "client/client.h"

#include <stdarg.h>
#include <stdio.h>

/* How many clients a thread may alternate between before their messages push each other out. */
#define REMEMBERED 4

static _Thread_local struct {
    uint64_t serial; /* of the client; 0: rota_open */
    char text[RT_ERRMSG_SIZE];
} messages[REMEMBERED];
static _Thread_local unsigned last;

const char *rota_strerror(int err)
{
    switch (err) {
    case 0:
        return "success";
#define ROTA_ERROR_TEXT(name, value, text) \
    case value:                            \
        return text;
        ROTA_ERRORS(ROTA_ERROR_TEXT)
#undef ROTA_ERROR_TEXT
    default:
        return "unknown error";
    }
}

const char *rota_version(void)
{
    return ROTA_VERSION;
}

static char *find(uint64_t serial)
{
    for (unsigned i = 0; i < REMEMBERED; i++)
        if (messages[i].text[0] != '\0' && messages[i].serial == serial)
            return messages[i].text;
    return NULL;
}

static char *room_for(uint64_t serial)
{
    char *text = find(serial);

    if (text != NULL)
        return text;
    last = (last + 1) % REMEMBERED;
    messages[last].serial = serial;
    return messages[last].text;
}

const char *rota_errmsg(const struct rota *r)
{
    const char *text = find(r != NULL ? r->serial : 0);

    return text != NULL ? text : "";
}

int rt_fail_waiter(uint64_t serial, int err, const char *text)
{
    if (err == 0)
        return 0;
    snprintf(room_for(serial), RT_ERRMSG_SIZE, "%s",
             text != NULL && text[0] != '\0' ? text : rota_strerror(err));
    return err;
}

const char *rt_engine_said(const struct rota *r, int err)
{
    int said = r->d.err;

    if ((said == ROTA_UNREACHABLE || said == ROTA_AUTH) && err == ROTA_UNKNOWN)
        said = err; /* a release that was tried in vain is told so */
    return err != 0 && said == err ? r->d.errmsg : NULL;
}

int rt_fail(const struct rota *r, int err, const char *format, ...)
{
    va_list args;

    if (format == NULL)
        return rt_fail_waiter(r != NULL ? r->serial : 0, err, NULL);
    va_start(args, format);
    vsnprintf(room_for(r != NULL ? r->serial : 0), RT_ERRMSG_SIZE, format, args);
    va_end(args);
    return err;
}
