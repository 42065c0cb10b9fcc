/* SPDX-License-Identifier: Apache-2.0 */
/* What a service manager is told, by the socket that $NOTIFY_SOCKET names: sd_notify(3) by hand. */
#ifndef RT_NOTIFY_H
#define RT_NOTIFY_H

#include <stdint.h>

/* "READY=1", "STOPPING=1", "WATCHDOG=1", "STATUS=...". Nothing where nobody asked. */
__attribute__((format(printf, 1, 2))) void rt_notify(const char *format, ...);

/* How often the watchdog wants to hear of us, in ms; 0: it does not. */
int64_t rt_notify_watchdog_ms(void);

#endif
