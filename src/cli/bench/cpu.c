/* SPDX-License-Identifier: Apache-2.0 */
/* Processor time that processes have spent. */
#include "cli/bench/measure.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

double rt_bench_cpu_us(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* That of process PID with its dead children; sets *PARENT. */
static double one_cpu_us(long pid, long *parent)
{
    char path[64], line[1024] = "";
    unsigned long user = 0, system = 0;
    long dead_user = 0, dead_system = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "re");
    const char *at = f != NULL ? fgets(line, sizeof line, f) : NULL;
    if (f != NULL)
        fclose(f);
    at = at != NULL ? strrchr(at, ')') : NULL; /* behind its name */
    if (at == NULL || sscanf(at, ") %*c %ld %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu %ld %ld",
                             parent, &user, &system, &dead_user, &dead_system) != 5)
        return 0;
    return ((double)(user + system) + (double)(dead_user + dead_system)) * 1e6 /
           (double)sysconf(_SC_CLK_TCK);
}

double rt_bench_tree_cpu_us(pid_t pid)
{
    long parent = 0;
    double sum = one_cpu_us((long)pid, &parent);
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        double us = one_cpu_us(strtol(entry->d_name, NULL, 10), &parent);
        sum += parent == (long)pid ? us : 0;
    }
    if (dir != NULL)
        closedir(dir);
    return sum;
}
