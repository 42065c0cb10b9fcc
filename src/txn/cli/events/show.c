/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn events show: one event, its payload as text where it is text, else as hexadecimal digits. */
#include "txn/cli/events/events.h"

#include "cli/out.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MOST 4096 /* bytes shown of a text */
#define HEX_MOST 512   /* of anything else: 32 lines */
#define HEX_LINE 16

/* ---- Payloads ------------------------------------------------------------------------- */

/* UTF-8 without control characters except tabs and line ends. */
static bool is_text(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if ((c < ' ' && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
            return false;
    }
    json_t *text = json_stringn(bytes, size);
    json_decref(text);
    return text != NULL;
}

static char *hex_of(const unsigned char *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    char *hex = malloc(2 * size + 1);

    for (size_t i = 0; hex != NULL && i < size; i++) {
        hex[2 * i] = digits[bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    if (hex != NULL)
        hex[2 * size] = '\0';
    return hex;
}

static size_t print_hex(const unsigned char *bytes, size_t size)
{
    size_t shown = size < HEX_MOST ? size : HEX_MOST;

    for (size_t at = 0; at < shown; at += HEX_LINE) {
        printf("%08zx ", at);
        for (size_t i = at; i < at + HEX_LINE; i++)
            if (i < shown)
                printf(" %02x", bytes[i]);
            else
                fputs("   ", stdout);
        fputs("  ", stdout);
        for (size_t i = at; i < at + HEX_LINE && i < shown; i++)
            putchar(bytes[i] >= ' ' && bytes[i] < 0x7f ? bytes[i] : '.');
        putchar('\n');
    }
    return shown;
}

/* Line by line, because a terminal obeys what is in them. */
static size_t print_lines(const char *bytes, size_t size)
{
    size_t shown = size < TEXT_MOST ? size : TEXT_MOST;
    char line[TEXT_MOST + 1];

    while (shown < size && shown > 0 && ((unsigned char)bytes[shown] & 0xc0) == 0x80)
        shown--; /* no character is cut in two */
    for (size_t at = 0; at < shown;) {
        const char *end = memchr(bytes + at, '\n', shown - at);
        size_t n = end != NULL ? (size_t)(end - bytes) - at : shown - at;
        memcpy(line, bytes + at, n);
        line[n > 0 && line[n - 1] == '\r' ? n - 1 : n] = '\0';
        for (char *tab = line; (tab = strchr(tab, '\t')) != NULL;)
            *tab = ' ';
        puts(rt_out_clean(line, line, sizeof(line)));
        at += n + 1;
    }
    return shown;
}

static void print_payload(const struct rt_store_item *item)
{
    bool text = is_text(item->payload, item->size);

    printf("payload   %zu byte%s%s\n", item->size, item->size == 1 ? "" : "s",
           item->size == 0 ? ""
           : text          ? ", text:"
                           : ", not text:");
    size_t shown = text ? print_lines(item->payload, item->size)
                        : print_hex(item->payload, item->size);
    if (shown < item->size)
        printf("... and %zu more byte%s: --raw prints all of it\n", item->size - shown,
               item->size - shown == 1 ? "" : "s");
}

/* ---- One event ---------------------------------------------------------------------------- */

static int print_json(const struct rt_store_item *item)
{
    bool text = is_text(item->payload, item->size);
    char *hex = text ? NULL : hex_of(item->payload, item->size);
    json_t *all = rt_events_json(item);

    if (all != NULL && (text || hex != NULL)) {
        json_object_set_new(all, "payload",
                            text ? json_stringn(item->payload, item->size) : json_null());
        json_object_set_new(all, "payload_hex", text ? json_null() : json_string(hex));
    } else {
        json_decref(all);
        all = NULL;
    }
    free(hex);
    return rt_json_print(all, false);
}

static void print_line(const char *name, const char *value)
{
    char text[512];

    if (value != NULL)
        printf("%-10s%s\n", name, rt_out_clean(value, text, sizeof(text)));
}

static void print_text(const struct rt_store_item *item)
{
    char text[32];

    printf("number    %" PRId64 "\n", item->id);
    print_line("id", item->event_id);
    print_line("topic", item->topic);
    print_line("key", item->key);
    print_line("type", item->type);
    printf("state     %s", rt_events_state(item));
    if (item->changed_ms >= 0)
        printf(" for %s", rt_out_time(item->changed_ms, text, sizeof(text)));
    putchar('\n');
    if (item->age_ms >= 0)
        printf("written   %s ago\n", rt_out_time(item->age_ms, text, sizeof(text)));
    if (item->attempts > 0)
        printf("refused   %" PRIu32 " time%s%s%s\n", item->attempts, item->attempts == 1 ? "" : "s",
               item->next_in_ms > 0 ? ", next in " : "",
               item->next_in_ms > 0 ? rt_out_time(item->next_in_ms, text, sizeof(text)) : "");
    else if (item->next_in_ms > 0)
        printf("waits     next in %s\n", rt_out_time(item->next_in_ms, text, sizeof(text)));
    print_line("why", item->reason);
    print_payload(item);
}

int rt_events_show(struct rt_events *e)
{
    const struct rt_store_item *item = NULL;

    if (e->raw && e->json)
        return rt_events_usage("--raw and --json exclude each other");
    int err = rt_store_show(e->store, e->operands[0], &item);
    if (err != 0)
        return rt_events_report(e, err);
    if (item == NULL) {
        rt_out_error("there is no event '%.80s' in %s", e->operands[0], e->map.table);
        return RT_EXIT_FAILED;
    }
    if (e->json)
        return print_json(item);
    if (e->raw)
        fwrite(item->payload != NULL ? item->payload : "", 1, item->size, stdout);
    else
        print_text(item);
    return RT_EXIT_OK;
}
