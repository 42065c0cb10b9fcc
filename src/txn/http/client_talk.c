/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a service: the request, what comes back, what that means. */
#include "txn/http/client_inside.h"

#include "base/alloc.h"
#include "net/fd.h"
#include "txn/http/address.h"

#include <rota.h>

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define HEADS_MAX 65536 /* bytes of all heads of an answer */
#define SAID_MAX 200    /* of a refusal's body, for people */
/* Bytes read at once: libcurl allocates them for each call, and most answers are short. (Its default is 16 KB.) */
#define READ_SIZE 1024L
#define CA_CACHE_S 300L /* a new CA file takes effect after this */

/* ---- Words ------------------------------------------------------------------------- */

/* Where the call goes, without anything that may be secret: `stock` or https://stock.example. */
static void whom(const struct rt_http_flight *f, char *out, size_t size)
{
    struct rt_http_address a;
    char unused[RT_SERVICE_LINE];

    if (f->url != NULL && rt_http_address_read(&a, f->url, unused, sizeof(unused)) == 0)
        snprintf(out, size, "%.*s", (int)(a.origin < 80 ? a.origin : 80), f->url);
    else
        snprintf(out, size, "%.60s", f->call->resource != NULL ? f->call->resource : "a service");
}

/* Replaces control characters by blanks, and trims the end. */
static void one_line(char *text)
{
    char *from = text;

    for (; *text != '\0'; text++)
        if (iscntrl((unsigned char)*text))
            *text = ' ';
    while (text > from && text[-1] == ' ')
        *--text = '\0';
}

void rt_http_talk_lost(struct rt_http_flight *f, const char *what, ...)
{
    struct rt_service_call *c = f->call;
    char at[100];
    va_list args;

    whom(f, at, sizeof(at));
    c->reply = RT_REPLY_LOST;
    size_t n = (size_t)snprintf(c->errmsg, sizeof(c->errmsg), "%s: ", at);
    va_start(args, what);
    vsnprintf(c->errmsg + n, sizeof(c->errmsg) - n, what, args);
    va_end(args);
    one_line(c->errmsg);
}

/* ---- Preparing ---------------------------------------------------------------------- */

static bool join(struct rt_http_flight *f, const char *path)
{
    size_t base = strlen(f->site->base), size = strlen(path) + 1;

    f->url = rt_alloc(base + size);
    if (f->url == NULL)
        return false;
    memcpy(f->url, f->site->base, base);
    memcpy(f->url + base, path, size);
    return true;
}

bool rt_http_talk_prepare(struct rt_http_flight *f, const struct rt_http_calls_options *options)
{
    struct rt_service_call *c = f->call;

    assert(c->op >= RT_SERVICE_TRY && c->op <= RT_SERVICE_CANCEL);
    if (!rt_http_payload_read(c->payload, c->size, &f->payload)) {
        rt_http_talk_lost(f, "what the journal has of this branch is not what this version of Rota "
                             "keeps of a service over HTTP");
        return false;
    }
    const char *url = f->payload.urls[c->op - 1];
    if (url[0] == '\0') {
        c->reply = c->op == RT_SERVICE_TRY ? RT_REPLY_YES : RT_REPLY_DONE;
        return false;
    }
    if (url[0] == '/' && options->site != NULL && c->resource != NULL)
        f->site = options->site(options->arg, c->resource);
    if (url[0] == '/' && f->site == NULL) {
        rt_http_talk_lost(f,
                          "no service of that name is known here: add `NAME = https://...` to the "
                          "file of resources");
        return false;
    }
    if (url[0] == '/' ? join(f, url) : (f->url = rt_strdup(url)) != NULL)
        return true;
    rt_http_talk_lost(f, "out of memory");
    return false;
}

/* ---- What comes ----------------------------------------------------------------------- */

static size_t on_head(char *bytes, size_t one, size_t n, void *arg)
{
    struct rt_http_flight *f = arg;

    if (one * n > 5 && memcmp(bytes, "HTTP/", 5) == 0)
        f->is_headed = false; /* another head may follow a 1xx */
    else if (one * n > 0 && (bytes[0] == '\r' || bytes[0] == '\n'))
        f->is_headed = true;
    f->heads += one * n;
    f->endless = f->heads > HEADS_MAX;
    return f->endless ? 0 : one * n;
}

/* A try's body is kept for whoever asked; of others, only as much as people are shown. */
static size_t on_body(char *bytes, size_t one, size_t n, void *arg)
{
    struct rt_http_flight *f = arg;
    size_t most = f->call->op == RT_SERVICE_TRY ? RT_SERVICE_BODY_MAX : SAID_MAX;
    size_t size = one * n, room = most - f->body_size, keep = size < room ? size : room;

    if (keep > 0 && !rt_grow(&f->body, &f->body_room, f->body_size + keep + 1, 1)) {
        f->starved = true;
        return 0;
    }
    if (keep > 0)
        memcpy(f->body + f->body_size, bytes, keep);
    f->body_size += keep;
    f->seen += size;
    f->is_cut = f->seen > RT_SERVICE_BODY_MAX;
    return f->is_cut ? 0 : size;
}

static curl_socket_t on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
    (void)arg;
    (void)purpose;
    return rt_fd_lift(socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol));
}

/* ---- The request ------------------------------------------------------------------------ */

static bool set_tls(CURL *easy, const struct rt_http_site *site)
{
    struct stat st;
    bool folder = site->ca != NULL && stat(site->ca, &st) == 0 && S_ISDIR(st.st_mode);
    const char *key = site->key != NULL ? site->key : site->cert;

    if (site->ca != NULL &&
        (rt_curl.easy_setopt(easy, CURLOPT_CAINFO, folder ? NULL : site->ca) != 0 ||
         rt_curl.easy_setopt(easy, CURLOPT_CAPATH, folder ? site->ca : NULL) != 0))
        return false;
    return site->cert == NULL || (rt_curl.easy_setopt(easy, CURLOPT_SSLCERT, site->cert) == 0 &&
                                  rt_curl.easy_setopt(easy, CURLOPT_SSLKEY, key) == 0 &&
                                  /* nobody is asked for a passphrase on a terminal */
                                  rt_curl.easy_setopt(easy, CURLOPT_KEYPASSWD, "") == 0);
}

bool rt_http_talk_set_up(CURL *easy, const struct rt_http_site *site)
{
    rt_curl.easy_reset(easy);
    /* The rest works without these; it is only slower to end during a name lookup, or to see a new authority. */
    (void)rt_curl.easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    (void)rt_curl.easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, CA_CACHE_S);
    (void)rt_curl.easy_setopt(easy, CURLOPT_BUFFERSIZE, READ_SIZE);
    return rt_curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == 0 &&
           rt_curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == 0 &&
           rt_curl.easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == 0 &&
           rt_curl.easy_setopt(easy, CURLOPT_PROXY, "") == 0 &&
           rt_curl.easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == 0 &&
           rt_curl.easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) == 0 &&
           rt_curl.easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L) == 0 &&
           rt_curl.easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == 0 &&
           rt_curl.easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_socket) == 0 &&
           rt_curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) == 0 &&
           rt_curl.easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_head) == 0 &&
           rt_curl.easy_setopt(easy, CURLOPT_USERAGENT, "rota/" ROTA_VERSION) == 0 &&
           rt_curl.easy_setopt(easy, CURLOPT_POST, 1L) == 0 &&
           (site == NULL || set_tls(easy, site));
}

__attribute__((format(printf, 2, 3))) static bool add(struct rt_http_flight *f, const char *format,
                                                      ...)
{
    char line[RT_HTTP_TOKEN_MAX + 64];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    struct curl_slist *list = rt_curl.slist_append(f->headers, line);
    explicit_bzero(line, strlen(line)); /* not the whole buffer: this runs for each line */
    f->headers = list != NULL ? list : f->headers;
    return list != NULL;
}

/* The call's own header lines, however long. */
static bool add_more(struct rt_http_flight *f)
{
    char *lines = f->call->headers != NULL ? rt_strdup(f->call->headers) : NULL, *at = lines;
    bool good = (lines != NULL) == (f->call->headers != NULL);

    for (char *line; good && (line = strsep(&at, "\n")) != NULL;) {
        struct curl_slist *list = *line != '\0' ? rt_curl.slist_append(f->headers, line)
                                                : f->headers;
        good = list != NULL || *line == '\0';
        f->headers = list != NULL ? list : f->headers;
    }
    if (lines != NULL) /* a token may be among them */
        rt_free_wiped(lines, strlen(f->call->headers));
    return good;
}

static bool add_own(struct rt_http_flight *f)
{
    static const char *const ops[] = {"try", "confirm", "cancel"};
    const struct rt_name *name = &f->call->name;
    char ticket[RT_NAME_TICKET];

    rt_name_ticket(name, ticket);
    return add(f, "Rota-Txn: %s", ticket) && add(f, "Rota-Branch: %" PRIu32, name->branch) &&
           add(f, "Rota-Op: %s", ops[f->call->op - 1]) &&
           add(f, "Rota-Deadline: %" PRId64, name->deadline_ms);
}

static bool add_headers(struct rt_http_flight *f)
{
    return (f->call->bare || add_own(f)) && add_more(f) &&
           add(f, f->payload.type[0] != '\0' ? "Content-Type: %s" : "Content-Type:%s",
               f->payload.type);
}

/* 1: there is none, or it was added; 0: no memory; -1: the call has its answer. */
static int add_token(struct rt_http_flight *f)
{
    char token[RT_HTTP_TOKEN_MAX + 1], why[RT_SERVICE_LINE];

    if (f->site == NULL || f->site->token_file == NULL)
        return 1;
    if (rt_http_token_read(f->site->token_file, token, why, sizeof(why)) != 0) {
        rt_http_talk_lost(f, "%s", why);
        return -1;
    }
    bool added = add(f, "Authorization: Bearer %s", token);
    explicit_bzero(token, sizeof(token));
    return added ? 1 : 0;
}

bool rt_http_talk_begin(struct rt_http_flight *f, CURL *easy)
{
    int token = add_token(f);

    if (token < 0)
        return false;
    f->easy = easy;
    if (token > 0 && add_headers(f) && rt_curl.easy_setopt(easy, CURLOPT_URL, f->url) == 0 &&
        rt_curl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)f->payload.size) == 0 &&
        rt_curl.easy_setopt(easy, CURLOPT_POSTFIELDS, f->payload.body) == 0 &&
        (!f->call->bare || f->payload.size > 0 ||
         rt_curl.easy_setopt(easy, CURLOPT_HTTPGET, 1L) == 0) &&
        rt_curl.easy_setopt(easy, CURLOPT_HTTPHEADER, f->headers) == 0 &&
        rt_curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, f->error) == 0 &&
        rt_curl.easy_setopt(easy, CURLOPT_WRITEDATA, f) == 0 &&
        rt_curl.easy_setopt(easy, CURLOPT_HEADERDATA, f) == 0 &&
        rt_curl.easy_setopt(easy, CURLOPT_PRIVATE, f) == 0)
        return true;
    rt_http_talk_lost(f, "out of memory");
    return false;
}

bool rt_http_talk_connected(const struct rt_http_flight *f)
{
    curl_off_t at = 0;

    return f->easy != NULL &&
           rt_curl.easy_getinfo(f->easy, CURLINFO_PRETRANSFER_TIME_T, &at) == 0 && at > 0;
}

/* ---- What it means ------------------------------------------------------------------------ */

static const char *way_out(CURLcode code)
{
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
        return " (name an authority of its own by ?ca= of its resource)";
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
        return " (see ?ca=, ?cert= and ?key= of its resource)";
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
        return " (it closed the connection before its answer was whole)";
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
        return " (what answers there does not speak HTTP)";
    default:
        return "";
    }
}

static void judge_failure(struct rt_http_flight *f, CURLcode code)
{
    const char *why = f->error[0] != '\0' ? f->error : rt_curl.easy_strerror(code);

    if (f->starved || code == CURLE_OUT_OF_MEMORY)
        rt_http_talk_lost(f, "out of memory");
    else if (code == CURLE_OK)
        rt_http_talk_lost(f, "closed the connection before the head of its answer was whole");
    else if (f->endless)
        rt_http_talk_lost(f, "the head of its answer has more than %d bytes", HEADS_MAX);
    else
        rt_http_talk_lost(f, "%.90s%s", why, way_out(code));
}

/* 409, with what the service says about it. */
static void judge_refusal(struct rt_http_flight *f)
{
    struct rt_service_call *c = f->call;
    int n = f->body_size < SAID_MAX ? (int)f->body_size : SAID_MAX;
    char at[100];

    c->reply = c->op == RT_SERVICE_TRY ? RT_REPLY_NO : RT_REPLY_REFUSED;
    whom(f, at, sizeof(at));
    snprintf(c->errmsg, sizeof(c->errmsg), "%s: answered 409, refused%s%.*s", at, n > 0 ? ": " : "",
             n, f->body != NULL ? f->body : "");
    one_line(c->errmsg);
}

static void judge_status(struct rt_http_flight *f, int status)
{
    struct rt_service_call *c = f->call;

    if (status >= 200 && status <= 299) {
        c->reply = c->op == RT_SERVICE_TRY ? RT_REPLY_YES : RT_REPLY_DONE;
    } else if (status == 409) {
        judge_refusal(f);
    } else if (status == 421 || status == 415) { /* a server of ours says what to change */
        int n = f->body_size < SAID_MAX ? (int)f->body_size : SAID_MAX;
        rt_http_talk_lost(f, "answered %d: %.*s", status, n, f->body != NULL ? f->body : "");
    } else {
        rt_http_talk_lost(
            f,
            status == 425 ? "answered %d: it is under way"
            : status >= 300 && status <= 399
                ? "answered %d, a redirect, which is not followed: correct its URL"
            : status == 401 || status == 403
                ? "answered %d: it denies us access (see ?token_file= and ?cert= of its resource)"
            : status == 404 ? "answered %d: no such address there: correct its URL"
                            : "answered %d",
            status);
        c->reply = status == 425 ? RT_REPLY_HELD : RT_REPLY_LOST;
    }
}

void rt_http_talk_judge(struct rt_http_flight *f, CURLcode code)
{
    struct rt_service_call *c = f->call;
    long status = 0;

    (void)rt_curl.easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
    c->status = (int)status;
    if (!f->is_headed || (code != CURLE_OK && !(code == CURLE_WRITE_ERROR && f->is_cut)))
        judge_failure(f, code);
    else
        judge_status(f, (int)status);
    if (c->op == RT_SERVICE_TRY && c->reply != RT_REPLY_LOST && f->body != NULL) {
        f->body[f->body_size] = '\0';
        c->body = f->body;
        c->body_size = f->body_size;
        f->body = NULL;
    }
}

void rt_http_talk_free(struct rt_http_flight *f)
{
    for (struct curl_slist *h = f->headers; h != NULL; h = h->next)
        explicit_bzero(h->data, strlen(h->data)); /* one of them is the token */
    if (f->headers != NULL)
        rt_curl.slist_free_all(f->headers);
    rt_http_site_let_go(f->site);
    rt_free(f->url);
    rt_free(f->body);
    rt_free(f);
}
