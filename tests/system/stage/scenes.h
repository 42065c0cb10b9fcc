/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that are the same on every engine: rounds of them on a stage that runs, and single steps. */
#ifndef RT_SCENES_H
#define RT_SCENES_H

#include "lib/proxy.h"
#include "stage.h"

/* kill -9 of contenders, holders as well as others, and new ones in their place. */
void scene_kill(struct stage *st, uint32_t rounds);

/* A holder and another are stopped for longer than the ttl. */
void scene_stop(struct stage *st, uint32_t rounds);

/* Some of the contenders, those behind N proxies, are cut off. */
struct scene_cut {
    struct rt_proxy *const *proxies;
    size_t n;
    uint32_t least_ms, most_ms; /* so long */
    uint32_t slow_us;           /* before some of them replies take up to this; 0: they do not */
};
#define SCENE_CUTS 6 /* kinds: in each direction and in both, what was sent late or gone */
void scene_cut(struct stage *st, const struct scene_cut *cut, uint32_t kind);
/* In make test half of the kinds, from FROM on; in make torture all, many times. */
void scene_cut_rounds(struct stage *st, const struct scene_cut *cut, uint32_t from);

/* ---- Step by step: each ends the test, by cmocka, if it is not so ---------------------------- */

/* A process stopped past its ttl sees, when it resumes, that it no longer holds. */
void scene_first_look(const char *url, uint32_t ttl_ms);

/* The client of PROXIED is cut off, while its heartbeats (requests that have BEAT in their words) are
 * answered LATE_US late: it is told of its loss before DIRECT's client is granted. */
struct scene_told {
    const char *direct, *proxied, *beat;
    struct rt_proxy *const *proxies;
    size_t n;
    uint32_t ttl_ms, late_us;
};
void scene_told_before(const struct scene_told *told);

#endif
