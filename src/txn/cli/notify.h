/* SPDX-License-Identifier: Apache-2.0 */
/* What a service manager is told, over the socket that $NOTIFY_SOCKET names: sd_notify(3) by hand. */
#ifndef RT_NOTIFY_H
#define RT_NOTIFY_H

#include <stdint.h>

/* "READY=1", "STOPPING=1", "WATCHDOG=1", "STATUS=...". Does nothing if nobody asked. */
__attribute__((format(printf, 1, 2))) void rt_notify(const char *format, ...);

/* How often the watchdog wants to hear from us, in ms; 0: never. */
int64_t rt_notify_watchdog_ms(void);

#endif
