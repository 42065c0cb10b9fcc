/* SPDX-License-Identifier: Apache-2.0 */
/* What a service manager is told, over the socket that $NOTIFY_SOCKET names: sd_notify(3) by hand. */
#include "txn/cli/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void rt_notify(const char *format, ...)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char text[512];
    va_list args;

    if (path == NULL || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(to.sun_path))
        return;
    memcpy(to.sun_path, path, strlen(path));
    if (path[0] == '@')
        to.sun_path[0] = '\0'; /* an abstract one */
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&to,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
    close(fd);
}

int64_t rt_notify_watchdog_ms(void)
{
    const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

    if (us == NULL || (pid != NULL && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    return (int64_t)(strtoll(us, NULL, 10) / 1000);
}
