/* SPDX-License-Identifier: Apache-2.0 */
/* Text as databases and terminals take it. */
#ifndef ROTA_BASE_UTF8_H
#define ROTA_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character at TEXT into *CODE (RFC 3629: shortest form, no surrogates, up to U+10FFFF). Returns its bytes;
 * 0 where there is none. The NUL at the end of TEXT is a character of one byte. */
size_t rt_utf8_next(const char *text, uint32_t *code);

bool rt_utf8_is(const char *text);

/* Copies TEXT into OUT of SIZE bytes, NUL-terminated: as many whole characters as fit; a byte that is not UTF-8 becomes
 * '?'. OUT may be TEXT. Returns OUT. */
char *rt_utf8_clean(const char *text, char *out, size_t size);

#endif
