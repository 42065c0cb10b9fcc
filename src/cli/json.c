/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON that commands print; docs/json.md has the shapes. */
#include "cli/json.h"

#include "cli/cli.h"
#include "cli/out.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char replacement[] = "\xef\xbf\xbd";

/* How many bytes of TEXT jansson takes as one character; 0: none. */
static size_t sound_bytes(const char *text, size_t left)
{
    for (size_t n = 1; n <= 4 && n <= left; n++) {
        json_t *one = json_stringn(text, n);
        if (one != NULL) {
            json_decref(one);
            return n;
        }
    }
    return 0;
}

static json_t *mend_text(const char *text)
{
    size_t left = strlen(text), used = 0;
    char *mended = malloc(left * (sizeof(replacement) - 1) + 1);

    if (mended == NULL)
        return NULL;
    while (left > 0) {
        size_t n = sound_bytes(text, left);
        if (n > 0)
            memcpy(mended + used, text, n);
        else
            memcpy(mended + used, replacement, sizeof(replacement) - 1);
        used += n > 0 ? n : sizeof(replacement) - 1;
        text += n > 0 ? n : 1;
        left -= n > 0 ? n : 1;
    }
    json_t *result = json_stringn(mended, used);
    free(mended);
    return result;
}

json_t *rt_json_text(const char *text)
{
    json_t *plain = json_string(text);

    return plain != NULL ? plain : mend_text(text);
}

json_t *rt_json_id(uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    return json_string(text);
}

json_t *rt_json_ms(int64_t ms)
{
    return ms >= 0 ? json_integer(ms) : json_null();
}

int rt_json_print(json_t *all, bool line)
{
    if (all == NULL) {
        rt_out_error("cannot write JSON: out of memory");
        return RT_EXIT_INTERNAL;
    }
    json_dumpf(all, stdout, (line ? JSON_COMPACT : JSON_INDENT(2)) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(all);
    return RT_EXIT_OK;
}
