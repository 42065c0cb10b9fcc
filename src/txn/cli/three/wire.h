/* SPDX-License-Identifier: Apache-2.0 */
/* Options of participants and coordinators: who may ask, and how they are asked. */
#ifndef RT_WIRE_H
#define RT_WIRE_H

#include "txn/http/door.h"

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

struct rt_wire {
    const char *token_file, *cert_file, *key_file, *ca_file;
    bool insecure;
    char allow_hosts[4000];
};

#define RT_WIRE_ALLOW 'H' /* --allow-host: rt_wire_allow */

/* The last ones of a table. */
#define RT_WIRE_OPTIONS                                                                   \
    {"token-file", required_argument, NULL, 't'}, {"cert", required_argument, NULL, 'c'}, \
        {"key", required_argument, NULL, 'k'}, {"ca", required_argument, NULL, 'A'},      \
        {"insecure", no_argument, NULL, 'i'},                                             \
        {"allow-host", required_argument, NULL, RT_WIRE_ALLOW},                           \
    {                                                                                     \
        NULL, 0, NULL, 0                                                                  \
    }

#define RT_WIRE_HELP                                                                       \
    "      --token-file FILE      its first line is required from those who ask, and\n"    \
    "                             sent to those it asks, by https or on this machine\n"    \
    "      --cert FILE, --key FILE  https\n"                                               \
    "      --ca FILE              the authority for the others' certificates\n"            \
    "      --insecure             allow other machines without token and certificate\n"    \
    "      --allow-host NAME      a host name it is asked by, if it is not localhost or\n" \
    "                             the address; may be given several times\n"

/* False: C is none of these. */
static inline bool rt_wire_set(struct rt_wire *w, int c)
{
    const char **to = c == 't'   ? &w->token_file
                      : c == 'c' ? &w->cert_file
                      : c == 'k' ? &w->key_file
                      : c == 'A' ? &w->ca_file
                                 : NULL;
    if (to != NULL)
        *to = optarg;
    w->insecure = w->insecure || c == 'i';
    return to != NULL || c == 'i';
}

/* NULL, or what is wrong with it. */
static inline const char *rt_wire_allow(struct rt_wire *w)
{
    return rt_http_door_add(w->allow_hosts, sizeof(w->allow_hosts), optarg);
}

#endif
