/* SPDX-License-Identifier: Apache-2.0 */
/* A real broker for the suite of brokers: one suite, a program per broker (main.c). */
#ifndef RT_POST_H
#define RT_POST_H

#include "lib/servers.h"
#include "txn/relay/broker.h"

struct post {
    const struct rt_broker_kind *kind;
    bool refuses_without_route; /* else it takes every topic */
    bool has_passwords;
    const char *const *bad_topics; /* that it cannot carry; NULL at the end */
    const char *missing;  /* more of a URL: an exchange that is not there; NULL: it has none */
    bool has_short_limit; /* 2 MB are too long */
    const char *bad_key;  /* that it cannot carry; NULL: there is none */
    size_t message_max;   /* more breaks the whole connection; 0: no such limit */
    struct rt_server *(*start)(void); /* and waits until it serves */
    void (*run)(void);                /* again, after rt_server_kill */
    void (*fini)(void);
    void (*url)(char *out, size_t size, const char *user_at,
                const char *params); /* USER_AT: "" or "user:password@" */
    void (*route)(
        const char
            *topic); /* TOPIC leads somewhere, and group "g" of source ... takes it from there */
    void (*route_two)(
        const char
            *topic);  /* the same; there is room for two messages; NULL: it has no such limit */
    const char *full; /* a word of what it says then */
    void (*fill)(bool full);  /* it takes nothing, until it is called with false; NULL: it cannot */
    long long (*tries)(void); /* with fill: how often somebody has published */
    void (*source)(char *out, size_t size, const char *topic);
    /* Another program publishes "1" at TOPIC, with the id "a", a zero byte, "b"; NULL: it cannot. */
    void (*publish_zero)(const char *topic);
};

extern const struct post POST;

#endif
