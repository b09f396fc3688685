/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenario files. inih splits lines into keys and values; it tells neither the
 * line of a key nor a section without keys, so its reader function counts
 * lines and looks at section headers itself. Blanks before a line mean
 * nothing: no value goes on over lines.
 *
 * The first fault is the one that is told.
 */

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

#define MAX_FILE_BYTES (1u << 20)
#define VALUE_BYTES    64

static const char *const section_names[AE_NR_SECTION] = { "host", "vm",
                                                          "device" };

/* Where a key was set, and to what: for messages about what does not fit. */
struct place {
    unsigned line;
    char value[VALUE_BYTES];
};

struct section {
    enum am_section kind;
    uint32_t index;
    unsigned line;
    char title[64];
    struct place *places; /* [am_nr_keys]; line 0: not set */
};

#define MAX_SECTIONS (1 + AVICEMU_MOCK_MAX_VMS + AVICEMU_MOCK_MAX_DEVICES)

struct reader {
    const char *name;
    const char *at; /* what is not read yet */
    unsigned line;
    struct avicemu_mock_scenario *scenario;
    struct section sections[MAX_SECTIONS];
    uint32_t nr_sections;
    struct section *now; /* NULL: before the first one */
    bool failed;
    char *error;
    size_t len;
};

static void
fault_at(struct reader *r, unsigned line, const char *fmt, ...)
    AVICEMU_PRINTF(3, 4);

static void
fault_at(struct reader *r, unsigned line, const char *fmt, ...)
{
    va_list args;
    int at;

    if (r->failed) {
        return;
    }
    r->failed = true;
    at = snprintf(r->error, r->len, "%s:%u: ", r->name, line);
    if (at >= 0 && (size_t)at < r->len) {
        va_start(args, fmt);
        (void)vsnprintf(r->error + at, r->len - (size_t)at, fmt, args);
        va_end(args);
    }
}

/* ---- sections ----------------------------------------------------------- */

/* "[vm web]" into its kind and name. False: no such section. */
static bool
title_split(const char *title, enum am_section *ret_kind, const char **ret_name)
{
    for (unsigned k = 0; k < AE_NR_SECTION; k++) {
        size_t n = strlen(section_names[k]);
        const char *rest = title + n;

        if (strncmp(title, section_names[k], n) != 0 ||
            (*rest != '\0' && *rest != ' ' && *rest != '\t')) {
            continue;
        }
        rest += strspn(rest, " \t");
        *ret_kind = (enum am_section)k;
        *ret_name = rest;
        return (k == AE_SECTION_HOST) == (*rest == '\0');
    }
    return false;
}

/* A VM's or device's struct with its defaults; false: there is no room. */
static bool
object_add(struct reader *r, struct section *s, const char *name)
{
    struct avicemu_mock_scenario *scenario = r->scenario;

    if (s->kind == AE_SECTION_VM) {
        s->index = scenario->nr_vms;
        if (s->index == AVICEMU_MOCK_MAX_VMS) {
            return false;
        }
        avicemu_mock_vm_init(&scenario->vms[scenario->nr_vms++], name);
    } else if (s->kind == AE_SECTION_DEVICE) {
        s->index = scenario->nr_devices;
        if (s->index == AVICEMU_MOCK_MAX_DEVICES) {
            return false;
        }
        avicemu_mock_device_init(&scenario->devices[scenario->nr_devices++],
                                 name);
    }
    return true;
}

static void
section_add(struct reader *r, const char *title)
{
    struct section *s = &r->sections[r->nr_sections];
    const char *name = "";
    enum am_section kind = AE_SECTION_HOST;

    r->now = NULL;
    if (!title_split(title, &kind, &name)) {
        fault_at(r, r->line,
                 "[%s]: no such section; allowed are [host], [vm NAME] and "
                 "[device NAME]",
                 title);
        return;
    }
    if (strlen(name) >= AVICEMU_MOCK_NAME_BYTES) {
        fault_at(r, r->line, "[%s]: a name must have 1..%d bytes", title,
                 AVICEMU_MOCK_NAME_BYTES - 1);
        return;
    }
    for (uint32_t i = 0; i < r->nr_sections; i++) {
        if (strcmp(r->sections[i].title, title) == 0) {
            fault_at(r, r->line, "[%s]: is in line %u already", title,
                     r->sections[i].line);
            return;
        }
    }
    *s = (struct section){ .kind = kind, .line = r->line };
    (void)snprintf(s->title, sizeof(s->title), "%s", title);
    if (r->nr_sections == MAX_SECTIONS || !object_add(r, s, name)) {
        fault_at(r, r->line, "[%s]: at most %u sections of this kind", title,
                 kind == AE_SECTION_VM ? AVICEMU_MOCK_MAX_VMS
                                       : AVICEMU_MOCK_MAX_DEVICES);
        return;
    }
    s->places = calloc(am_nr_keys, sizeof(*s->places));
    if (s->places == NULL) {
        fault_at(r, r->line, "no memory");
        return;
    }
    r->now = s;
    r->nr_sections++;
}

/* A line without its blanks in front, as inih is to see it. */
static void
line_look(struct reader *r, const char *line)
{
    const char *end = strchr(line, ']');
    char title[64];
    size_t n;

    if (line[0] != '[' || end == NULL) {
        return;
    }
    n = (size_t)(end - line) - 1;
    if (n >= sizeof(title)) {
        n = sizeof(title) - 1;
    }
    memcpy(title, line + 1, n);
    title[n] = '\0';
    section_add(r, title);
}

/* inih's reader: like fgets. */
static char *
line_read(char *buf, int room, void *stream)
{
    struct reader *r = stream;
    size_t bytes, blanks;

    if (*r->at == '\0' || r->failed) {
        return NULL;
    }
    r->line++;
    blanks = strspn(r->at, " \t");
    bytes = strcspn(r->at, "\n");
    r->at += blanks;
    bytes -= blanks;
    if (bytes + 2 > (size_t)room) {
        fault_at(r, r->line, "a line must have 0..%d bytes", room - 2);
        return NULL;
    }
    memcpy(buf, r->at, bytes);
    r->at += bytes;
    r->at += *r->at == '\n';
    while (bytes > 0 && buf[bytes - 1] == '\r') {
        bytes--;
    }
    buf[bytes] = '\0';
    line_look(r, buf);
    memcpy(buf + bytes, "\n", 2);
    return buf;
}

/* ---- values ------------------------------------------------------------- */

/* Digits only; false: something else, or too big. */
static bool
number_read(const char *text, uint64_t *ret, const char **ret_end)
{
    char *end = NULL;

    if (!isdigit((unsigned char)text[0])) {
        return false;
    }
    errno = 0;
    *ret = strtoull(text, &end, 10);
    *ret_end = end;
    return errno == 0;
}

static bool
time_read(const char *text, uint64_t *ret)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = { { "ns", 1 },           { "us", 1000u },
                  { "ms", 1000000u },    { "s", 1000000000u },
                  { "m", 60000000000u }, { "h", 3600000000000u } };
    const char *end = NULL;
    uint64_t n = 0;

    if (!number_read(text, &n, &end)) {
        return false;
    }
    for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].name) == 0 && n <= UINT64_MAX / units[i].ns) {
            *ret = n * units[i].ns;
            return true;
        }
    }
    return false;
}

static bool
value_read(const struct am_key *key, const char *text, uint64_t *ret)
{
    const char *end = NULL;

    switch (key->type) {
    case AE_KEY_U32:
    case AE_KEY_U64:
        return number_read(text, ret, &end) && *end == '\0';
    case AE_KEY_TIME:
        return time_read(text, ret);
    case AE_KEY_CHOICE:
    case AE_KEY_PROGRAM:
        for (unsigned i = 0; key->choices[i] != NULL; i++) {
            if (strcmp(key->choices[i], text) == 0) {
                *ret = key->min + i;
                return true;
            }
        }
        return false;
    case AE_KEY_VM: /* once all VMs are known */
        *ret = 0;
        return true;
    }
    return false;
}

static void
unknown_key(struct reader *r, const char *name, const char *value)
{
    char all[160] = "";
    size_t at = 0;

    for (unsigned i = 0; i < am_nr_keys; i++) {
        if (am_keys[i].section == r->now->kind && at < sizeof(all)) {
            at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s",
                                   at == 0 ? "" : ", ", am_keys[i].name);
        }
    }
    fault_at(r, r->line, "[%s] %s = %s: no such key; allowed are %s",
             r->now->title, name, value, all);
}

static void
key_take(struct reader *r, unsigned k, const char *text)
{
    const struct am_key *key = &am_keys[k];
    struct place *place = &r->now->places[k];
    uint64_t value = 0;
    char allowed[128];

    if (place->line != 0) {
        fault_at(r, r->line, "[%s] %s = %s: is set in line %u already",
                 r->now->title, key->name, text, place->line);
        return;
    }
    place->line = r->line;
    (void)snprintf(place->value, sizeof(place->value), "%s", text);
    if (!value_read(key, text, &value) || value < key->min ||
        value > key->max) {
        am_key_allowed(key, allowed, sizeof(allowed));
        fault_at(r, r->line, "[%s] %s = %s: %s", r->now->title, key->name, text,
                 allowed);
        return;
    }
    am_key_set(key, am_section_of(r->scenario, r->now->kind, r->now->index),
               value);
}

/* inih's handler: one key. */
static int
on_key(void *user, const char *section, const char *name, const char *value)
{
    struct reader *r = user;

    (void)section; /* cut off at 50 bytes; ours is whole */
    if (r->failed) {
        return 0;
    }
    if (r->now == NULL) {
        fault_at(r, r->line, "%s = %s: stands before the first section", name,
                 value);
        return 0;
    }
    for (unsigned k = 0; k < am_nr_keys; k++) {
        if (am_keys[k].section == r->now->kind &&
            strcmp(am_keys[k].name, name) == 0) {
            key_take(r, k, value);
            return !r->failed;
        }
    }
    unknown_key(r, name, value);
    return 0;
}

/* ---- the whole file ----------------------------------------------------- */

/* Which VM each device names. */
static void
devices_resolve(struct reader *r)
{
    for (uint32_t i = 0; i < r->nr_sections; i++) {
        struct section *s = &r->sections[i];

        for (unsigned k = 0; k < am_nr_keys; k++) {
            uint32_t vm = 0;

            if (am_keys[k].type != AE_KEY_VM || s->kind != AE_SECTION_DEVICE) {
                continue;
            }
            while (vm < r->scenario->nr_vms &&
                   strcmp(r->scenario->vms[vm].name, s->places[k].value) != 0) {
                vm++;
            }
            if (s->places[k].line == 0) {
                fault_at(r, s->line, "[%s]: needs vm = NAME", s->title);
            } else if (vm == r->scenario->nr_vms) {
                fault_at(r, s->places[k].line,
                         "[%s] vm = %s: must be the name of a [vm NAME]",
                         s->title, s->places[k].value);
            }
            r->scenario->devices[s->index].vm = vm;
        }
    }
}

static void
fault_tell(struct reader *r, const struct am_fault *fault)
{
    const struct section *s = NULL;

    for (uint32_t i = 0; i < r->nr_sections; i++) {
        if (r->sections[i].kind == fault->section &&
            r->sections[i].index == fault->index) {
            s = &r->sections[i];
        }
    }
    if (s == NULL || fault->key == NULL) {
        fault_at(r, s == NULL ? r->line : s->line, "%s", fault->why);
        return;
    }
    for (unsigned k = 0; k < am_nr_keys; k++) {
        if (am_keys[k].section == s->kind &&
            strcmp(am_keys[k].name, fault->key) == 0) {
            bool set = s->places[k].line != 0;

            fault_at(r, set ? s->places[k].line : s->line, "[%s] %s = %s: %s",
                     s->title, fault->key,
                     set ? s->places[k].value : "(default)", fault->why);
        }
    }
}

int
avicemu_mock_scenario_parse(const char *name, const char *text,
                            struct avicemu_mock_scenario *ret, char *error,
                            size_t len)
{
    struct avicemu_mock_scenario *scenario = calloc(1, sizeof(*scenario));
    struct reader *r = calloc(1, sizeof(*r));
    struct am_fault fault = { .section = AE_SECTION_HOST };
    bool failed = true;
    int line;

    if (scenario != NULL && r != NULL) {
        *r = (struct reader){ .name = name,
                              .at = text,
                              .error = error,
                              .len = len,
                              .scenario = scenario };
        avicemu_mock_scenario_init(scenario);
        line = ini_parse_stream(line_read, r, on_key, r);
        if (line != 0) {
            fault_at(r, line > 0 ? (unsigned)line : r->line,
                     "neither KEY = VALUE nor [SECTION] nor a comment");
        }
        devices_resolve(r);
        if (!am_scenario_fits(scenario, &fault)) {
            fault_tell(r, &fault);
        }
        failed = r->failed;
        for (uint32_t i = 0; i < r->nr_sections; i++) {
            free(r->sections[i].places);
        }
    }
    if (!failed) {
        *ret = *scenario;
    }
    line = scenario == NULL || r == NULL ? -ENOMEM : failed ? -EINVAL : 0;
    free(scenario);
    free(r);
    return line;
}

static char *
file_read(FILE *file, const char *name, char *error, size_t len)
{
    char *text = malloc(MAX_FILE_BYTES + 1);
    size_t n;

    if (text == NULL) {
        return NULL;
    }
    n = fread(text, 1, MAX_FILE_BYTES + 1, file);
    if (ferror(file) != 0 || n > MAX_FILE_BYTES ||
        memchr(text, '\0', n) != NULL) {
        (void)snprintf(error, len,
                       "%s: must be a readable text of at most %u bytes", name,
                       MAX_FILE_BYTES);
        free(text);
        return NULL;
    }
    text[n] = '\0';
    return text;
}

int
avicemu_mock_scenario_load(const char *path, struct avicemu_mock_scenario *ret,
                           char *error, size_t len)
{
    bool standard_input = strcmp(path, "-") == 0;
    FILE *file = standard_input ? stdin : fopen(path, "rb");
    char *text;
    int rc;

    if (file == NULL) {
        (void)snprintf(error, len, "%s: cannot be read: %s", path,
                       strerror(errno));
        return -ENOENT;
    }
    text = file_read(file, path, error, len);
    if (!standard_input) {
        (void)fclose(file);
    }
    if (text == NULL) {
        return -EINVAL;
    }
    rc = avicemu_mock_scenario_parse(path, text, ret, error, len);
    free(text);
    return rc;
}
