/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus' text format, version 0.0.4. */
#ifndef RT_PROMETHEUS_H
#define RT_PROMETHEUS_H

#include <rota.h>
#include <stdio.h>

struct rt_prometheus {
    FILE *out;
    char last[128]; /* whose HELP and TYPE were printed last */
};

/* A rota_metric_fn: prints METRIC on the rt_prometheus ARG. */
rota_metric_fn rt_prometheus_print;

/* TEXT as it stands between the quotes of a label, in OUT, cut if need be. Returns OUT. */
const char *rt_prometheus_label(const char *text, char *out, size_t size);

/* Writes what R has counted to the file PATH, whole or not at all. Returns an exit code: RT_EXIT_OK,
 * or a message was printed. */
int rt_prometheus_save(struct rota *r, const char *path);

#endif
