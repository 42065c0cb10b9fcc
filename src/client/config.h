/* SPDX-License-Identifier: Apache-2.0 */
/* Named engines and journals: lines `name = url`. */
#ifndef RT_CONFIG_H
#define RT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

/* The path of the user's own FILE ("config") among Rota's settings. False: there is no $HOME, or it is too long. */
bool rt_config_own(const char *file, char *path, size_t size);
char *rt_config_trim(char *text); /* without the white space at both ends, which is cut off */

/* What NAME stands for in ~/.config/rota/config, else in rt_config_system (/etc/rota/config; tests have their own):
 * its URL in *OUT (rt_free). ROTA_INVALID: there is none. */
extern const char *rt_config_system;
int rt_config_find(const char *name, char **out, char *errmsg, size_t size);

#endif
