/* SPDX-License-Identifier: Apache-2.0 */
/* The book is a file, $BANK_BOOK: one line for each thing that a role plans or is told, written at once. */
#include "bank.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void book_write(const char *format, ...)
{
    static int fd = -1;
    char line[240];
    va_list args;

    va_start(args, format);
    int size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (fd < 0)
        fd = open(getenv("BANK_BOOK"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)size) != size)
        abort();
}

static enum told told_of(const char *word)
{
    return strcmp(word, "committed") == 0 ? TOLD_COMMITTED
           : strcmp(word, "aborted") == 0 ? TOLD_ABORTED
           : strcmp(word, "unknown") == 0 ? TOLD_UNKNOWN
                                          : TOLD_ERROR;
}

/* plan TID SHAPE HOUSE, id TID ID, told TID WORD ERR, joiner TID WORD ERR. What is told after UNKNOWN counts. */
static void take(struct entry *all, size_t *count, char *line)
{
    char what[16], word[64];
    long tid;
    int number = 0;

    if (sscanf(line, "%15s %ld %63s %d", what, &tid, word, &number) < 3 || tid < 0 ||
        tid >= TIDS_MOST) {
        fprintf(stderr, "the book says: %s", line);
        abort();
    }
    struct entry *e = &all[tid];
    *count = (size_t)tid >= *count ? (size_t)tid + 1 : *count;
    if (strcmp(what, "plan") == 0) {
        e->shape = shape_find(word);
        e->house = number;
    } else if (strcmp(what, "id") == 0) {
        snprintf(e->id, sizeof(e->id), "%.63s", word);
    } else if (strcmp(what, "told") == 0) {
        e->told = told_of(word);
        e->err = number;
    } else if (strcmp(what, "joiner") == 0) {
        e->joiner = told_of(word);
    }
}

const struct entry *book_read(size_t *count)
{
    static struct entry all[TIDS_MOST];
    char line[256];
    FILE *file = fopen(getenv("BANK_BOOK"), "re");

    memset(all, 0, sizeof(all));
    *count = 0;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        take(all, count, line);
    if (file != NULL)
        fclose(file);
    return all;
}
