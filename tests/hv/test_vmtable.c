/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The VM table alone: tags, VM ids, who is found and who no longer is, a
 * million entries, and what it does without memory. [KVM GATag layout],
 * [KVM VM id allocation]
 *
 * vCPUs are addresses here that nobody looks at.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "hv/vmtable.h"

#define NR(a) (sizeof(a) / sizeof((a)[0]))

/* ---- tags --------------------------------------------------------------- */

struct tag_row {
    const char *name;
    enum ae_tag_layout layout;
    uint32_t vm_id, vcpu_idx;
    int result;
    uint32_t tag;
};

/* clang-format off */
static const struct tag_row tags[] = {
    { "tag: 24/8, id 3, index 7",       AE_TAG_24_8,  3, 7, 0, 0x307 },
    { "tag: 23/9, id 3, index 7",       AE_TAG_23_9,  3, 7, 0, 0x607 },
    { "tag: 20/12, id 3, index 7",      AE_TAG_20_12, 3, 7, 0, 0x3007 },
    { "tag: 24/8, first",               AE_TAG_24_8,  1, 0, 0, 0x100 },
    { "tag: 23/9, first",               AE_TAG_23_9,  1, 0, 0, 0x200 },
    { "tag: 20/12, first",              AE_TAG_20_12, 1, 0, 0, 0x1000 },
    { "tag: 24/8, all ones",  AE_TAG_24_8,  0xffffff, 0xff,  0, 0xffffffff },
    { "tag: 23/9, all ones",  AE_TAG_23_9,  0x7fffff, 0x1ff, 0, 0xffffffff },
    { "tag: 20/12, all ones", AE_TAG_20_12, 0xfffff,  0xfff, 0, 0xffffffff },
    { "tag: 23/9, index bit 8 is kept", AE_TAG_23_9,  1, 0x101, 0, 0x301 },
    { "tag: 24/8, index 256",           AE_TAG_24_8,  1, 256,  -EINVAL, 0 },
    { "tag: 23/9, index 512",           AE_TAG_23_9,  1, 512,  -EINVAL, 0 },
    { "tag: 20/12, index 4096",         AE_TAG_20_12, 1, 4096, -EINVAL, 0 },
    { "tag: 24/8, id 1000000h",  AE_TAG_24_8,  0x1000000, 0, -EINVAL, 0 },
    { "tag: 23/9, id 800000h",   AE_TAG_23_9,  0x800000,  0, -EINVAL, 0 },
    { "tag: 20/12, id 100000h",  AE_TAG_20_12, 0x100000,  0, -EINVAL, 0 },
    { "tag: 24/8, id 0",         AE_TAG_24_8,  0, 7, -EINVAL, 0 },
    { "tag: 23/9, id 0",         AE_TAG_23_9,  0, 7, -EINVAL, 0 },
    { "tag: 20/12, id 0",        AE_TAG_20_12, 0, 7, -EINVAL, 0 },
    { "tag: greatest id and index", AE_TAG_24_8, UINT32_MAX, UINT32_MAX,
      -EINVAL, 0 },
};
/* clang-format on */

static void
row_tag(void **state)
{
    const struct tag_row *row = *state;
    uint32_t tag = 0x12345678, vm_id, vcpu_idx;

    assert_int_equal(ae_tag_pack(row->layout, row->vm_id, row->vcpu_idx, &tag),
                     row->result);
    if (row->result != 0) {
        assert_int_equal(tag, 0x12345678);
        return;
    }
    assert_int_equal(tag, row->tag);
    ae_tag_unpack(row->layout, tag, &vm_id, &vcpu_idx);
    assert_int_equal(vm_id, row->vm_id);
    assert_int_equal(vcpu_idx, row->vcpu_idx);
}

/* ---- a table ------------------------------------------------------------ */

struct fixture {
    struct ae_vmids ids;
    struct ae_vmtable table;
    struct ae_drain *drain;
    struct avicemu_allocator allocator;
    uint32_t nr_left;  /* allocations until there is no memory */
    int64_t nr_blocks; /* that are in use */
    size_t bytes;      /* in use */
};

static void *
counting_alloc(void *opaque, size_t align, size_t bytes)
{
    struct fixture *f = opaque;

    if (f->nr_left == 0) {
        return NULL;
    }
    f->nr_left--;
    f->nr_blocks++;
    f->bytes += bytes;
    return aligned_alloc(align, (bytes + align - 1) & ~(align - 1));
}

static void
counting_free(void *opaque, void *memory, size_t bytes)
{
    struct fixture *f = opaque;

    f->nr_blocks--;
    f->bytes -= bytes;
    free(memory);
}

static void
begin(struct fixture *f, enum ae_tag_layout layout)
{
    *f = (struct fixture){
        .allocator = { counting_alloc, counting_free, f },
        .nr_left = UINT32_MAX,
    };
    assert_int_equal(ae_vmids_init(&f->ids, &f->allocator, layout), 0);
    assert_int_equal(ae_vmtable_init(&f->table, &f->allocator, layout), 0);
    assert_int_equal(ae_drain_create(&f->table, &f->drain), 0);
}

static void
end(struct fixture *f)
{
    ae_drain_destroy(&f->table, f->drain);
    ae_vmtable_fini(&f->table);
    ae_vmids_fini(&f->ids);
    assert_int_equal(f->nr_blocks, 0);
    assert_int_equal(f->bytes, 0);
}

/* An address of its own for each number. */
static struct avicemu_vcpu *
who(uint32_t n)
{
    return (struct avicemu_vcpu *)((uintptr_t)(n + 1) << 6);
}

static struct avicemu_vcpu *
find(struct fixture *f, uint32_t tag)
{
    ae_drain_begin(f->drain);
    struct avicemu_vcpu *vcpu = ae_vmtable_find(&f->table, tag);

    ae_drain_end(f->drain);
    return vcpu;
}

static uint32_t
get_id(struct fixture *f)
{
    uint32_t id = 0;

    assert_int_equal(ae_vmid_get(&f->ids, &id), 0);
    return id;
}

/* ---- ids ---------------------------------------------------------------- */

static void
test_ids_wrap(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, AE_TAG_20_12);
    assert_int_equal(get_id(&f), 1);
    assert_int_equal(get_id(&f), 2);
    for (uint32_t want = 3; want <= 0xfffff; want++) {
        uint32_t id = get_id(&f);

        if (id != want) {
            fail_msg("id %x after %x", id, want - 1);
        }
        ae_vmid_put(&f.ids, id);
    }
    /* Round: not 0, and not those that are held. */
    assert_int_equal(get_id(&f), 3);
    ae_vmid_put(&f.ids, 1);
    assert_int_equal(get_id(&f), 4);
    end(&f);
}

static void
test_ids_exhausted(void **state)
{
    struct fixture f;
    uint32_t id = 0xabc;

    (void)state;
    begin(&f, AE_TAG_20_12);
    for (uint32_t want = 1; want <= 0xfffff; want++) {
        uint32_t got = get_id(&f);

        if (got != want) {
            fail_msg("id %x, not %x", got, want);
        }
    }
    assert_int_equal(ae_vmid_get(&f.ids, &id), -EBUSY);
    assert_int_equal(id, 0xabc);
    /* The one that is given back is the only one there is, wherever it is. */
    static const uint32_t back[] = { 0xfffff, 1, 63, 64, 0x7fff, 0x8000, 1 };

    for (unsigned i = 0; i < NR(back); i++) {
        ae_vmid_put(&f.ids, back[i]);
        assert_int_equal(get_id(&f), back[i]);
        assert_int_equal(ae_vmid_get(&f.ids, &id), -EBUSY);
    }
    end(&f);
}

/* ---- who is found ------------------------------------------------------- */

static void
test_found(void **state)
{
    static const uint32_t some[] = { 0x100,     0x101,      0x13f,
                                     0x140,     0x7ffff,    0x80000,
                                     0x1234567, 0xffffff00, ~0u };
    struct fixture f;

    (void)state;
    begin(&f, AE_TAG_24_8);
    assert_null(find(&f, 0));
    for (uint32_t i = 0; i < NR(some); i++) {
        assert_null(find(&f, some[i]));
        assert_int_equal(ae_vmtable_publish(&f.table, some[i], who(i)), 0);
        assert_int_equal(ae_vmtable_publish(&f.table, some[i], who(99)),
                         -EEXIST);
    }
    for (uint32_t i = 0; i < NR(some); i++) {
        assert_ptr_equal(find(&f, some[i]), who(i));
        ae_vmtable_remove(&f.table, some[i]);
        assert_null(find(&f, some[i]));
        ae_vmtable_remove(&f.table, some[i]); /* a second time: nothing */
    }
    ae_vmtable_remove(&f.table, 0x42);
    ae_vmtable_synchronize(&f.table);
    end(&f);
}

/* A tag that is still in a log when its VM is gone, and when its id has a new
 * owner: nobody, or the new owner's vCPU of that index. Never the old one. */
static void
test_stale(void **state)
{
    struct fixture f;
    uint32_t stale = 0, tag = 0, id;

    (void)state;
    begin(&f, AE_TAG_20_12);
    id = get_id(&f);
    assert_int_equal(ae_tag_pack(AE_TAG_20_12, id, 7, &stale), 0);
    assert_int_equal(ae_vmtable_publish(&f.table, stale, who(1)), 0);
    ae_vmtable_remove(&f.table, stale);
    ae_vmid_put(&f.ids, id);
    assert_null(find(&f, stale));
    /* All other ids first; each one's vCPU is another one's in the node that
     * the first one had. */
    for (uint32_t i = 2; i <= 0xfffff; i++) {
        id = get_id(&f);
        assert_int_equal(ae_tag_pack(AE_TAG_20_12, id, 7, &tag), 0);
        assert_int_equal(ae_vmtable_publish(&f.table, tag, who(id)), 0);
        if (find(&f, stale) != NULL || find(&f, tag) != who(id)) {
            fail_msg("id %x", id);
        }
        ae_vmtable_remove(&f.table, tag);
        ae_vmtable_synchronize(&f.table);
        ae_vmid_put(&f.ids, id);
    }
    assert_int_equal(get_id(&f), 1);
    assert_null(find(&f, stale));
    assert_int_equal(ae_vmtable_publish(&f.table, stale, who(2)), 0);
    assert_ptr_equal(find(&f, stale), who(2));
    ae_vmtable_remove(&f.table, stale);
    end(&f);
}

/* Removed and published over and over between two synchronizes: no memory is
 * taken for it, and the leaf goes when it is empty at the end, not before. */
static void
test_emptied(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, AE_TAG_24_8);
    assert_int_equal(ae_vmtable_publish(&f.table, 0x300, who(1)), 0);
    size_t bytes = f.bytes;

    for (unsigned i = 0; i < 100; i++) {
        ae_vmtable_remove(&f.table, 0x300);
        assert_null(find(&f, 0x300));
        assert_int_equal(ae_vmtable_publish(&f.table, 0x300, who(2)), 0);
        assert_ptr_equal(find(&f, 0x300), who(2));
    }
    ae_vmtable_synchronize(&f.table);
    assert_ptr_equal(find(&f, 0x300), who(2)); /* it was not empty */
    ae_vmtable_remove(&f.table, 0x300);
    assert_int_equal(f.table.root->nr, 1);
    ae_vmtable_synchronize(&f.table);
    assert_int_equal(f.table.root->nr, 0);
    assert_int_equal(ae_vmtable_publish(&f.table, 0x8000000, who(3)), 0);
    assert_ptr_equal(find(&f, 0x8000000), who(3));
    assert_null(find(&f, 0x300));
    assert_int_equal(f.bytes, bytes);
    ae_vmtable_remove(&f.table, 0x8000000);
    end(&f); /* its leaf is still on the list */
}

/* ---- a million ---------------------------------------------------------- */

#define MILLION_VMS   4096u
#define MILLION_VCPUS 256u

static void
million_publish(struct fixture *f)
{
    for (uint32_t vm = 0; vm < MILLION_VMS; vm++) {
        uint32_t id = get_id(f), tag = 0;

        for (uint32_t i = 0; i < MILLION_VCPUS; i++) {
            (void)ae_tag_pack(AE_TAG_24_8, id, i, &tag);
            if (ae_vmtable_publish(&f->table, tag, who(tag)) != 0) {
                fail_msg("tag %x", tag);
            }
        }
    }
}

static void
test_million(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, AE_TAG_24_8);
    million_publish(&f);
    printf("%u entries: %.1f bytes each\n", MILLION_VMS * MILLION_VCPUS,
           (double)f.bytes / (MILLION_VMS * MILLION_VCPUS));
    ae_drain_begin(f.drain);
    for (uint32_t tag = 0; tag < (MILLION_VMS + 2) << 8; tag++) {
        bool there = tag >> 8 >= 1 && tag >> 8 <= MILLION_VMS;

        if (ae_vmtable_find(&f.table, tag) != (there ? who(tag) : NULL)) {
            fail_msg("tag %x", tag);
        }
    }
    ae_drain_end(f.drain);
    for (uint32_t tag = 1u << 8; tag < (MILLION_VMS + 1) << 8; tag++) {
        ae_vmtable_remove(&f.table, tag);
    }
    ae_vmtable_synchronize(&f.table);
    assert_int_equal(f.table.root->nr, 0);
    /* Elsewhere, in the same memory. */
    size_t bytes = f.bytes;

    million_publish(&f);
    assert_int_equal(f.bytes, bytes);
    for (uint32_t vm = MILLION_VMS + 1; vm <= 2 * MILLION_VMS; vm++) {
        for (uint32_t i = 0; i < MILLION_VCPUS; i++) {
            ae_vmtable_remove(&f.table, vm << 8 | i);
        }
    }
    end(&f);
}

/* ---- drains, memory ----------------------------------------------------- */

static void
test_drains(void **state)
{
    struct fixture f;
    struct ae_drain *more[3];

    (void)state;
    begin(&f, AE_TAG_24_8);
    for (unsigned i = 0; i < NR(more); i++) {
        assert_int_equal(ae_drain_create(&f.table, &more[i]), 0);
        assert_ptr_not_equal(more[i], f.drain);
    }
    ae_drain_destroy(&f.table, NULL);
    for (unsigned i = 0; i < 100; i++) { /* without more memory each time */
        struct ae_drain *last = more[1];
        int64_t blocks = f.nr_blocks;

        ae_drain_begin(more[1]);
        ae_drain_end(more[1]);
        ae_drain_destroy(&f.table, more[1]);
        assert_int_equal(ae_drain_create(&f.table, &more[1]), 0);
        assert_ptr_equal(more[1], last);
        assert_int_equal(f.nr_blocks, blocks);
        ae_vmtable_synchronize(&f.table); /* no drain is odd */
    }
    for (unsigned i = 0; i < NR(more); i++) {
        ae_drain_destroy(&f.table, more[i]);
    }
    end(&f);
}

/* Each call without memory at each of its allocations: nothing half done. */
static void
test_no_memory(void **state)
{
    struct fixture f;
    struct ae_drain *drain = NULL;
    uint32_t id = 0;

    (void)state;
    for (uint32_t left = 0; left < 3; left++) {
        f = (struct fixture){
            .allocator = { counting_alloc, counting_free, &f }, .nr_left = left
        };
        assert_int_equal(ae_vmtable_init(&f.table, &f.allocator, AE_TAG_24_8),
                         -ENOMEM);
        assert_int_equal(f.nr_blocks, 0);
        ae_vmtable_fini(&f.table); /* what failed may be ended, too */
    }
    begin(&f, AE_TAG_24_8);
    for (uint32_t left = 0; left < 2; left++) {
        f.nr_left = left;
        assert_int_equal(ae_vmtable_publish(&f.table, 0x307, who(1)), -ENOMEM);
        assert_null(find(&f, 0x307));
    }
    f.nr_left = 0;
    assert_int_equal(ae_vmid_get(&f.ids, &id), -ENOMEM);
    assert_int_equal(id, 0);
    assert_int_equal(ae_drain_create(&f.table, &drain), -ENOMEM);
    assert_null(drain);
    f.nr_left = 3;
    assert_int_equal(get_id(&f), 1);
    assert_int_equal(ae_vmtable_publish(&f.table, 0x307, who(1)), 0);
    assert_int_equal(f.nr_left, 1); /* the middle node was kept */
    assert_ptr_equal(find(&f, 0x307), who(1));
    ae_vmtable_remove(&f.table, 0x307);
    end(&f);
}

/* ---- the tests ---------------------------------------------------------- */

int
main(void)
{
    static const struct CMUnitTest fixed[] = {
        { "ids go round, past 0 and past those in use", test_ids_wrap, NULL,
          NULL, NULL },
        { "no id is left: -EBUSY, and one given back is found",
          test_ids_exhausted, NULL, NULL, NULL },
        { "a tag finds its vCPU from publish to remove", test_found, NULL, NULL,
          NULL },
        { "G4: a leaf emptied and filled again between two synchronizes",
          test_emptied, NULL, NULL, NULL },
        { "G5: a stale tag finds nobody, or the new owner's vCPU", test_stale,
          NULL, NULL, NULL },
        { "a million entries, twice in the same memory", test_million, NULL,
          NULL, NULL },
        { "drains are used again", test_drains, NULL, NULL, NULL },
        { "no memory: nothing half done", test_no_memory, NULL, NULL, NULL },
    };
    struct CMUnitTest tests[NR(tags) + NR(fixed)];
    size_t n = 0;

    for (size_t i = 0; i < NR(tags); i++) {
        tests[n++] = (struct CMUnitTest){
            .name = tags[i].name,
            .test_func = row_tag,
            .initial_state = (void *)(uintptr_t)&tags[i],
        };
    }
    for (size_t i = 0; i < NR(fixed); i++) {
        tests[n++] = fixed[i];
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
