/* SPDX-License-Identifier: Apache-2.0 */
/* Services by name: their URL taken apart, their token read. */
#include "txn/http/site.h"

#include "base/alloc.h"
#include "engine/url.h"
#include "txn/http/address.h"

#include <rota.h>

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

bool rt_http_site_is(const char *url)
{
    return strncmp(url, "http:", 5) == 0 || strncmp(url, "https:", 6) == 0;
}

static int fault(char *errmsg, size_t size, int err, const char *what)
{
    snprintf(errmsg, size, "%s", what);
    return err;
}

static int check_params(const struct rt_url *url, char *errmsg, size_t size)
{
    static const char *const known[] = {"ca", "cert", "key", "token_file"};

    for (size_t i = 0; i < url->param_count; i++) {
        bool is_known = false;
        for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
            is_known = is_known || strcmp(url->params[i].key, known[k]) == 0;
        if (!is_known) {
            snprintf(errmsg, size,
                     "a service has no parameter '%.40s'; it knows ca, cert, key, token_file",
                     url->params[i].key);
            return ROTA_INVALID;
        }
        if (url->params[i].value[0] == '\0') {
            snprintf(errmsg, size, "the parameter %s is empty: name a file, or leave it out",
                     url->params[i].key);
            return ROTA_INVALID;
        }
    }
    return 0;
}

static int check(const struct rt_url *url, const char *base, char *errmsg, size_t size)
{
    struct rt_http_address a;

    if (url->password[0] != '\0' || url->user[0] != '\0')
        return fault(
            errmsg, size, ROTA_INVALID,
            "the URL of a service must not have a user or a password: use ?token_file=, or ?cert=");
    if (rt_http_address_read(&a, base, errmsg, size) != 0)
        return ROTA_INVALID;
    if (!a.secure &&
        (rt_url_param(url, "ca", NULL) != NULL || rt_url_param(url, "cert", NULL) != NULL ||
         rt_url_param(url, "key", NULL) != NULL))
        return fault(errmsg, size, ROTA_INVALID, "certificates are for https:// only");
    if (rt_url_param(url, "key", NULL) != NULL && rt_url_param(url, "cert", NULL) == NULL)
        return fault(errmsg, size, ROTA_INVALID, "a key needs its certificate: ?cert=");
    if (!a.secure && !a.is_local && rt_url_param(url, "token_file", NULL) != NULL)
        return fault(
            errmsg, size, ROTA_INVALID,
            "a token is sent over https:// only, or to this machine: anybody on the way could read it");
    return check_params(url, errmsg, size);
}

/* Copies the strings of a checked URL into one block. */
static bool keep(struct rt_http_site *site, const struct rt_url *url)
{
    const char **to[] = {&site->ca, &site->cert, &site->key, &site->token_file};
    const char *from[] = {rt_url_param(url, "ca", NULL), rt_url_param(url, "cert", NULL),
                          rt_url_param(url, "key", NULL), rt_url_param(url, "token_file", NULL)};
    size_t n = 1;

    for (size_t i = 0; i < 4; i++)
        n += from[i] != NULL ? strlen(from[i]) + 1 : 0;
    site->text = rt_alloc(n);
    if (site->text == NULL)
        return false;
    char *at = site->text;
    for (size_t i = 0; i < 4; i++)
        if (from[i] != NULL) {
            size_t size = strlen(from[i]) + 1;
            memcpy(at, from[i], size);
            *to[i] = at;
            at += size;
        }
    return true;
}

int rt_http_site_new(struct rt_http_site **out, const char *url, char *errmsg, size_t size)
{
    struct rt_http_site *site = rt_alloc(sizeof(*site));
    struct rt_url parsed;

    if (site == NULL)
        return fault(errmsg, size, ROTA_NOMEM, "out of memory");
    int rv = rt_url_parse(&parsed, url, errmsg, size);
    if (rv != 0) {
        rt_free(site);
        return rv;
    }
    atomic_init(&site->refs, 1);
    site->base = rt_strdup(url);
    site->redacted = rt_strdup(url);
    if (site->base != NULL)
        site->base[strcspn(site->base, "?")] = '\0';
    if (site->base == NULL || site->redacted == NULL)
        rv = fault(errmsg, size, ROTA_NOMEM, "out of memory");
    if (rv == 0)
        rv = check(&parsed, site->base, errmsg, size);
    if (rv == 0 && !keep(site, &parsed))
        rv = fault(errmsg, size, ROTA_NOMEM, "out of memory");
    rt_url_fini(&parsed);
    if (rv != 0) {
        rt_http_site_let_go(site);
        return rv;
    }
    for (size_t n = strlen(site->base); site->base[n - 1] == '/'; n--)
        site->base[n - 1] = '\0';
    *out = site;
    return 0;
}

struct rt_http_site *rt_http_site_hold(struct rt_http_site *site)
{
    atomic_fetch_add(&site->refs, 1);
    return site;
}

void rt_http_site_let_go(struct rt_http_site *site)
{
    if (site == NULL || atomic_fetch_sub(&site->refs, 1) > 1)
        return;
    rt_free(site->base);
    rt_free(site->text);
    rt_free(site->redacted);
    rt_free(site);
}

int rt_http_token_read(const char *path, char out[RT_HTTP_TOKEN_MAX + 1], char *errmsg, size_t size)
{
    FILE *file = fopen(path, "re");
    char line[RT_HTTP_TOKEN_MAX + 3]; /* with its end, and one too many */

    if (file == NULL) {
        snprintf(errmsg, size, "the token_file %.100s cannot be read: %s", path, strerror(errno));
        return ROTA_INVALID;
    }
    setbuf(file, NULL); /* nothing of it stays on the heap */
    bool got = fgets(line, sizeof(line), file) != NULL;
    fclose(file);
    line[got ? strcspn(line, "\r\n") : 0] = '\0';
    size_t n = strlen(line);
    bool good = n > 0 && n <= RT_HTTP_TOKEN_MAX;
    for (size_t i = 0; good && i < n; i++)
        good = line[i] > ' ' && line[i] <= '~';
    if (good)
        memcpy(out, line, n + 1);
    else
        snprintf(
            errmsg, size,
            "the first line of the token_file %.100s is not a token: use 1 to %d visible bytes without blanks",
            path, RT_HTTP_TOKEN_MAX);
    explicit_bzero(line, sizeof(line));
    return good ? 0 : ROTA_INVALID;
}
