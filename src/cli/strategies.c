/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to lock that an engine has: its own line, and the dialects of others. */
#include "cli/strategies.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct {
    /* up to the colon, or a prefix of it: "redis" also covers rediss and redis+unix */
    const char *scheme;
    struct rt_strategy strategy;
} known[] = {
    {"redis", {"token", false}},
    {"redis", {"redisson", false}},
    {"redis", {"redisson-fair", false}},
    {"redis", {"redisson-rw", false}},
    {"redis", {"getset", true}},
    {"redis", {"setnx", true}},
    {"postgres", {"row", false}},
    {"postgres", {"version", false}},
    {"postgres", {"shedlock", false}},
    {"postgres", {"advisory", false}},
    {"postgres", {"forupdate", false}},
    {"postgres", {"table", false}},
    {"mysql", {"row", false}},
    {"mysql", {"version", false}},
    {"mysql", {"shedlock", false}},
    {"mysql", {"getlock", false}},
    {"mysql", {"forupdate", false}},
    {"mysql", {"table", false}},
    {"zk", {"curator-rw", false}},
    {"zk", {"curator-latch", false}},
    {"zk", {"kazoo", false}},
    {"zk", {"simple", false}},
};

/* The usual spelling of URL's scheme; URL itself if it already has it. */
static const char *usual(const char *url)
{
    return strncmp(url, "postgresql:", 11) == 0 ? "postgres:"
           : strncmp(url, "mariadb:", 8) == 0   ? "mysql:"
                                                : url;
}

/* A name from the configuration is not a URL: what it stands for cannot be seen here. */
static bool is_of(const char *url, const char *scheme)
{
    size_t size = strlen(scheme);

    return strncmp(url, scheme, size) == 0 && strchr(":s+", url[size]) != NULL &&
           strchr(url, ':') != NULL;
}

size_t rt_strategies_of(const char *url, struct rt_strategy out[RT_STRATEGIES_MOST])
{
    size_t count = 0;

    out[count++] = (struct rt_strategy){.dialect = NULL};
    if (strstr(url, "dialect=") != NULL)
        return count;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        assert(count < RT_STRATEGIES_MOST);
        if (is_of(usual(url), known[i].scheme))
            out[count++] = known[i].strategy;
    }
    return count;
}

bool rt_strategies_url(const struct rt_strategy *strategy, const char *url, char *out, size_t size)
{
    int n = strategy->dialect == NULL
                ? snprintf(out, size, "%s", url)
                : snprintf(out, size, "%s%cdialect=%s", url, strchr(url, '?') == NULL ? '?' : '&',
                           strategy->dialect);

    return n >= 0 && (size_t)n < size;
}
