/* SPDX-License-Identifier: Apache-2.0 */
/* Named engines and journals: lines `name = url`. */
#ifndef RT_CONFIG_H
#define RT_CONFIG_H

#include <stddef.h>

/* The URL that a name in ~/.config/rota/config, else in rt_config_system (/etc/rota/config; tests have
 * their own), stands for, in *OUT (rt_free). ROTA_INVALID: none. */
extern const char *rt_config_system;
int rt_config_find(const char *name, char **out, char *errmsg, size_t size);

#endif
