/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Routes by GSI, irqfds and their producers, what is postable; and every error
 * of <avicemu/iommu.h>. [KVM MSI routing], [KVM irqbypass], [KVM GATag layout]
 */

#include <errno.h>
#include <stdlib.h>

#include "post_rig.h"

#define WORD   .doorbells = AVICEMU_DOORBELL_WORD, .nr_pcpus = 16
#define VECTOR 0x51u
#define FEE    0xfee00000ull

static struct avicemu_irqfd *
irqfd(struct rig *rig, uint32_t gsi, const void *token)
{
    struct avicemu_irqfd *fd = NULL;

    assert_int_equal(avicemu_irqfd_create(rig->vm, gsi, token, &fd), 0);
    return fd;
}

static void
set_route(struct rig *rig, uint64_t address, uint32_t data)
{
    const struct avicemu_msi_route route = { 5, data, address };

    assert_int_equal(avicemu_vm_set_routes(rig->vm, &route, 1), 0);
}

/* ---- by GSI ------------------------------------------------------------- */

static void
test_signal(void **state)
{
    struct rig *rig = *state;
    const struct avicemu_msi_route routes[] = { { 5, VECTOR, FEE | 1 << 12 },
                                                { 4095, 0x61, FEE } };
    struct avicemu_posted posted;

    assert_int_equal(avicemu_vm_signal(rig->vm, 5, &posted), -ENOENT);
    assert_int_equal(avicemu_vm_set_routes(rig->vm, routes, 2), 0);
    assert_int_equal(avicemu_vm_signal(rig->vm, 5, &posted), 0);
    assert_int_equal(posted.nr_new, 1);
    assert_true(vec_bit(rig->v[1], R_IRR, VECTOR));
    assert_int_equal(avicemu_vm_signal(rig->vm, 4095, NULL), 0);
    assert_true(vec_bit(rig->v[0], R_IRR, 0x61));
    assert_int_equal(avicemu_vm_signal(rig->vm, 6, NULL), -ENOENT);
    assert_int_equal(avicemu_vm_signal(rig->vm, 4096, NULL), -ENOENT);
    assert_int_equal(avicemu_vm_set_routes(rig->vm, NULL, 0), 0);
    assert_int_equal(avicemu_vm_signal(rig->vm, 5, NULL), -ENOENT);
    rig_drain(rig);
}

/* ---- bypass ------------------------------------------------------------- */

/* Consumer first, producer first: the same connection. */
static void
test_connect(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);
    int token;

    set_route(rig, FEE | 1 << 12, VECTOR);
    for (int producer_first = 0; producer_first < 2; producer_first++) {
        struct avicemu_irqfd *fd;

        if (producer_first) {
            assert_int_equal(
                avicemu_iommu_add_producer(iommu, DEVICE, 2, &token), 0);
            /* Alone: the host's, who signals the event. */
            assert_int_equal(post_raise(iommu, 2).way, AVICEMU_WAY_HOST);
            fd = irqfd(rig, 5, &token);
        } else {
            fd = irqfd(rig, 5, &token);
            assert_int_equal(
                avicemu_iommu_add_producer(iommu, DEVICE, 2, &token), 0);
        }
        assert_int_equal(post_raise(iommu, 2).way, AVICEMU_WAY_POSTED);
        assert_true(vec_bit(rig->v[1], R_IRR, VECTOR));
        assert_int_equal(avicemu_irqfd_signal(fd, NULL), 0);
        if (producer_first) {
            assert_int_equal(avicemu_iommu_remove_producer(iommu, DEVICE, 2),
                             0);
            assert_int_equal(avicemu_irqfd_destroy(fd), 0);
        } else {
            assert_int_equal(avicemu_irqfd_destroy(fd), 0);
            assert_int_equal(post_raise(iommu, 2).way, AVICEMU_WAY_HOST);
            assert_int_equal(avicemu_iommu_remove_producer(iommu, DEVICE, 2),
                             0);
        }
        rig_drain(rig);
    }
    post_close(iommu);
}

/* Each route with what becomes of the interrupt. */
static void
test_postable(void **state)
{
    static const struct {
        uint64_t address;
        uint32_t data;
        enum avicemu_iommu_way way;
        uint32_t irr; /* who has the vector */
    } rows[] = {
        { FEE | 1 << 12, VECTOR, AVICEMU_WAY_POSTED, 2 },
        { FEE | 1 << 12, 0x100 | VECTOR, AVICEMU_WAY_POSTED, 2 },
        { FEE | 2 << 12 | 4, VECTOR, AVICEMU_WAY_POSTED, 2 }, /* logical */
        { FEE | 3 << 12 | 4, VECTOR, AVICEMU_WAY_INJECTED, 3 },
        { FEE | 0xffu << 12, VECTOR, AVICEMU_WAY_INJECTED, 7 },
        { FEE | 1 << 12, 0xc000 | VECTOR, AVICEMU_WAY_INJECTED, 2 }, /* level */
        { FEE | 1 << 12, 0x400 | VECTOR, AVICEMU_WAY_INJECTED, 0 },  /* NMI */
        { FEE | 1 << 12, 0x200, AVICEMU_WAY_INJECTED, 0 },           /* SMI */
        { FEE | 1 << 12, 0x5, AVICEMU_WAY_INJECTED, 0 },    /* vector 5 */
        { FEE | 9 << 12, VECTOR, AVICEMU_WAY_INJECTED, 0 }, /* nobody */
        { 0x1000, VECTOR, AVICEMU_WAY_INJECTED, 0 },
    };
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);
    int token;
    struct avicemu_irqfd *fd = irqfd(rig, 5, &token);

    for (uint32_t i = 0; i < 3; i++) {
        reg_w(rig->v[i], R_LDR, 0x01000000u << i);
        (void)rig_enter(rig, i, 0);
        rig_exit(rig, i, 0);
    }
    assert_int_equal(avicemu_iommu_add_producer(iommu, DEVICE, 0, &token), 0);
    /* No route: as a masked entry. */
    assert_int_equal(post_raise(iommu, 0).posted.why,
                     1u << AVICEMU_DROP_MASKED);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set_route(rig, rows[i].address, rows[i].data);
        assert_int_equal(post_raise(iommu, 0).way, rows[i].way);
        assert_int_equal(rig_irr_mask(rig, VECTOR), rows[i].irr);
        rig_drain(rig);
    }
    /* A new route re-targets a posted entry. */
    set_route(rig, FEE, VECTOR);
    (void)post_raise(iommu, 0);
    assert_int_equal(rig_irr_mask(rig, VECTOR), 1);
    set_route(rig, FEE | 2 << 12, VECTOR);
    (void)post_raise(iommu, 0);
    assert_int_equal(rig_irr_mask(rig, VECTOR), 5);
    rig_drain(rig);
    assert_int_equal(avicemu_irqfd_destroy(fd), 0);
    assert_int_equal(avicemu_iommu_remove_producer(iommu, DEVICE, 0), 0);
    post_close(iommu);
}

/* ---- errors ------------------------------------------------------------- */

static void
test_device_errors(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);
    uint64_t address;
    uint32_t data;

    assert_int_equal(avicemu_iommu_add_device(iommu, DEVICE, 1), -EEXIST);
    assert_int_equal(avicemu_iommu_add_device(iommu, 256, 1), -EINVAL);
    assert_int_equal(avicemu_iommu_add_device(iommu, 9, 0), -EINVAL);
    assert_int_equal(avicemu_iommu_add_device(iommu, 9, IRQS + 1), -EINVAL);
    assert_int_equal(avicemu_iommu_add_device(iommu, 9, IRQS), 0);
    assert_int_equal(avicemu_iommu_add_device(iommu, 10, 1), -ENOMEM);
    assert_int_equal(avicemu_iommu_remove_device(iommu, 9), 0);
    assert_int_equal(avicemu_iommu_remove_device(iommu, 9), -ENOENT);
    assert_int_equal(avicemu_iommu_destroy(iommu), -EBUSY);
    assert_int_equal(
        avicemu_iommu_message(iommu, DEVICE, IRQS, &address, &data), -ENOENT);
    assert_int_equal(avicemu_iommu_message(iommu, 77, 0, &address, &data),
                     -ENOENT);
    post_close(iommu);
    assert_int_equal(avicemu_iommu_destroy(NULL), 0);
}

static void
test_route_errors(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);
    const struct avicemu_msi_route twice[] = { { 5, 0x41, FEE },
                                               { 5, 0x42, FEE } };
    const struct avicemu_msi_route beyond = { 4096, 0x41, FEE };

    assert_int_equal(avicemu_iommu_route(iommu, DEVICE, 0, rig->v[0], 15),
                     -EINVAL);
    assert_int_equal(avicemu_iommu_route(iommu, DEVICE, IRQS, rig->v[0], 16),
                     -ENOENT);
    assert_int_equal(avicemu_iommu_route(iommu, 77, 0, rig->v[0], 16), -ENOENT);
    assert_int_equal(avicemu_vm_set_routes(rig->vm, twice, 2), -EEXIST);
    assert_int_equal(avicemu_vm_set_routes(rig->vm, &beyond, 1), -EINVAL);
    assert_int_equal(avicemu_vm_set_routes(rig->vm, NULL, 1), -EINVAL);
    post_close(iommu);
}

static void
test_bypass_errors(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);
    struct avicemu_irqfd *other = NULL;
    int token, another;
    struct avicemu_irqfd *fd = irqfd(rig, 5, &token);

    assert_int_equal(avicemu_irqfd_create(rig->vm, 6, &token, &other), -EEXIST);
    assert_int_equal(avicemu_irqfd_create(rig->vm, 4096, &rig, &other),
                     -EINVAL);
    assert_null(other);
    assert_int_equal(avicemu_vm_destroy(rig->vm), -EBUSY);
    assert_int_equal(avicemu_iommu_add_producer(iommu, DEVICE, IRQS, &token),
                     -ENOENT);
    assert_int_equal(avicemu_iommu_add_producer(iommu, DEVICE, 0, NULL),
                     -EINVAL);
    assert_int_equal(avicemu_iommu_add_producer(iommu, DEVICE, 0, &token), 0);
    assert_int_equal(avicemu_iommu_add_producer(iommu, DEVICE, 0, &another),
                     -EEXIST);
    assert_int_equal(avicemu_iommu_add_producer(iommu, DEVICE, 1, &token),
                     -EEXIST);
    assert_int_equal(avicemu_iommu_route(iommu, DEVICE, 0, rig->v[0], 16),
                     -EBUSY);
    assert_int_equal(avicemu_iommu_remove_device(iommu, DEVICE), -EBUSY);
    assert_int_equal(avicemu_iommu_route(iommu, DEVICE, 1, rig->v[0], 16), 0);
    assert_int_equal(avicemu_iommu_add_producer(iommu, DEVICE, 1, &another),
                     -EBUSY);
    assert_int_equal(avicemu_iommu_remove_producer(iommu, DEVICE, 1), -ENOENT);
    assert_int_equal(avicemu_iommu_remove_producer(iommu, DEVICE, 0), 0);
    assert_int_equal(avicemu_irqfd_destroy(fd), 0);
    assert_int_equal(avicemu_irqfd_destroy(NULL), 0);
    post_close(iommu);
}

/* A device that is none: aborted, an event, one interrupt. */
static void
test_event(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);
    struct avicemu_iommu_stats stats = { .size = 1 };
    struct avicemu_iommu_event event;

    assert_int_equal(avicemu_iommu_stats(iommu, &stats), -EINVAL);
    assert_int_equal(avicemu_iommu_event(iommu, &event), -EAGAIN);
    assert_int_equal(avicemu_iommu_msi(iommu, 77, FEE, 0, NULL), 0);
    assert_int_equal(rig->event_interrupts, 1);
    assert_int_equal(avicemu_iommu_event(iommu, &event), 0);
    assert_int_equal(event.low >> 60, 8); /* INVALID_DEVICE_REQUEST */
    assert_int_equal(avicemu_iommu_event(iommu, &event), -EAGAIN);
    post_close(iommu);
}

/* The event log overflows, is read, and runs again. */
static void
test_event_log(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = post_open(rig, 0);
    struct avicemu_iommu_event event;
    unsigned n = 0;

    for (unsigned i = 0; i < 600; i++) {
        (void)avicemu_iommu_msi(iommu, 77, FEE, 0, NULL);
    }
    assert_int_equal(rig->event_interrupts, 1);
    while (avicemu_iommu_event(iommu, &event) == 0) {
        n++;
    }
    assert_int_equal(n, 511);
    (void)avicemu_iommu_msi(iommu, 77, FEE, 0, NULL);
    assert_int_equal(avicemu_iommu_event(iommu, &event), 0);
    post_close(iommu);
}

static void
test_config(void **state)
{
    struct rig *rig = *state;
    struct avicemu_iommu *iommu = NULL;
    const struct avicemu_iommu_config good = { .size = sizeof(good) };
    struct avicemu_iommu_config c;
    struct avicemu_host *plain;

#define BAD(field, value)                                             \
    do {                                                              \
        c = good;                                                     \
        c.field = (value);                                            \
        assert_int_equal(avicemu_iommu_create(rig->host, &c, &iommu), \
                         -EINVAL);                                    \
    } while (0)
    BAD(features, AVICEMU_IOMMU_GA);
    BAD(features, AVICEMU_IOMMU_DEFAULT | AVICEMU_IOMMU_GAPPI);
    BAD(nr_device_ids, 65537);
    BAD(max_devices, 65537);
    BAD(irqs_per_device, 2049);
    BAD(ga_log_entries, 511);
    BAD(ga_log_entries, 513);
    BAD(ga_log_entries, 131072);
    BAD(nr_cached, 3);
    assert_null(iommu);
    c = good;
    c.features = AVICEMU_IOMMU_GA | AVICEMU_IOMMU_GAM;
    c.irqs_per_device = 513;
    assert_int_equal(avicemu_iommu_create(rig->host, &c, &iommu), -EINVAL);
    assert_int_equal(avicemu_host_create(NULL, &plain), 0);
    assert_int_equal(avicemu_iommu_create(plain, NULL, &iommu), -EOPNOTSUPP);
    assert_int_equal(avicemu_host_destroy(plain), 0);
    /* The largest of all; and the host waits for it. */
    c = good;
    c.nr_device_ids = 65536;
    c.irqs_per_device = 2048;
    c.ga_log_entries = 65536;
    c.opaque = rig;
    assert_int_equal(avicemu_iommu_create(rig->host, &c, &iommu), 0);
    assert_ptr_equal(avicemu_iommu_opaque(iommu), rig);
    assert_int_equal(avicemu_host_destroy(rig->host), -EBUSY);
    assert_int_equal(avicemu_iommu_destroy(iommu), 0);
}

/* ---- memory ------------------------------------------------------------- */

struct failing {
    unsigned left; /* allocations until one fails */
    size_t in_use; /* bytes */
};

static void *
failing_alloc(void *opaque, size_t align, size_t bytes)
{
    struct failing *f = opaque;

    if (f->left-- == 0) {
        f->left = 0;
        return NULL;
    }
    f->in_use += bytes;
    return aligned_alloc(align, (bytes + align - 1) & ~(align - 1));
}

static void
failing_free(void *opaque, void *memory, size_t bytes)
{
    struct failing *f = opaque;

    f->in_use -= bytes;
    free(memory);
}

/* Every allocation of a set-up fails in turn, and leaves nothing behind. */
static void
test_no_memory(void **state)
{
    struct failing f = { .left = UINT32_MAX, .in_use = 0 };
    struct avicemu_host_config hc = {
        .size = sizeof(hc),
        .allocator = { failing_alloc, failing_free, &f },
        .avic = AVICEMU_HOST_AVIC,
    };
    struct avicemu_vm_config vc = { .size = sizeof(vc),
                                    .flags = AVICEMU_VM_AVIC };
    struct fake_vmm vmm;
    int done = 0, token;

    (void)state;
    fake_vmm_init(&vmm);
    fake_vmm_config(&vmm, &vc);
    for (unsigned n = 0; !done; n++) {
        struct avicemu_host *host = NULL;
        struct avicemu_vm *vm = NULL;
        struct avicemu_vcpu *vcpu = NULL;
        struct avicemu_iommu *iommu = NULL;
        struct avicemu_irqfd *fd = NULL;
        const struct avicemu_msi_route route = { 5, 0x41, FEE };
        int r;

        f.left = n;
        r = avicemu_host_create(&hc, &host);
        r = r != 0 ? r : avicemu_iommu_create(host, NULL, &iommu);
        r = r != 0 ? r : avicemu_vm_create(host, &vc, &vm);
        r = r != 0 ? r : avicemu_vcpu_create(vm, 0, &vmm.vcpus[0], &vcpu);
        r = r != 0 ? r : avicemu_iommu_add_device(iommu, 8, 1);
        r = r != 0 ? r : avicemu_vm_set_routes(vm, &route, 1);
        r = r != 0 ? r : avicemu_irqfd_create(vm, 5, &token, &fd);
        r = r != 0 ? r : avicemu_iommu_add_producer(iommu, 8, 0, &token);
        assert_true(r == 0 || r == -ENOMEM);
        done = r == 0;
        f.left = UINT32_MAX;
        (void)avicemu_irqfd_destroy(fd);
        (void)avicemu_iommu_remove_producer(iommu, 8, 0);
        (void)avicemu_iommu_remove_device(iommu, 8);
        (void)avicemu_vcpu_destroy(vcpu);
        assert_int_equal(avicemu_vm_destroy(vm), 0);
        assert_int_equal(avicemu_iommu_destroy(iommu), 0);
        assert_int_equal(avicemu_host_destroy(host), 0);
        assert_int_equal(f.in_use, 0);
    }
}

/* Tag layouts: how many vCPUs a VM may have. */
static void
test_layouts(void **state)
{
    static const struct {
        enum avicemu_tag_layout layout;
        uint32_t max;
    } rows[] = { { AVICEMU_TAG_24_8, 256 },
                 { AVICEMU_TAG_23_9, 512 },
                 { AVICEMU_TAG_20_12, 4096 } };
    struct fake_vmm vmm;

    (void)state;
    fake_vmm_init(&vmm);
    for (unsigned i = 0; i < 3; i++) {
        struct avicemu_host_config hc = { .size = sizeof(hc),
                                          .avic = AVICEMU_HOST_AVIC,
                                          .tag_layout = rows[i].layout };
        struct avicemu_vm_config vc = { .size = sizeof(vc),
                                        .flags = AVICEMU_VM_AVIC,
                                        .max_vcpus = rows[i].max + 1 };
        struct avicemu_host *host;
        struct avicemu_vm *vm = NULL;

        fake_vmm_config(&vmm, &vc);
        assert_int_equal(avicemu_host_create(&hc, &host), 0);
        assert_int_equal(avicemu_vm_create(host, &vc, &vm), -EINVAL);
        vc.max_vcpus = rows[i].max;
        assert_int_equal(avicemu_vm_create(host, &vc, &vm), 0);
        assert_int_equal(avicemu_vm_destroy(vm), 0);
        assert_int_equal(avicemu_host_destroy(host), 0);
    }
}

#define THREE .nr_vcpus = 3, .avic = RIG_X2AVIC

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST("a GSI is signalled", test_signal, THREE, WORD),
        RIG_TEST("producer and consumer, in both orders", test_connect, THREE,
                 WORD),
        RIG_TEST("what is postable", test_postable, THREE, WORD),
        RIG_TEST("errors of devices", test_device_errors, THREE, WORD),
        RIG_TEST("errors of routes", test_route_errors, THREE, WORD),
        RIG_TEST("errors of irqfds and producers", test_bypass_errors, THREE,
                 WORD),
        RIG_TEST("an event", test_event, THREE, WORD),
        RIG_TEST("the event log overflows", test_event_log, THREE, WORD),
        RIG_TEST("fields of the config", test_config, THREE, WORD),
        RIG_TEST("no memory, each time", test_no_memory, THREE, WORD),
        RIG_TEST("GA tag layouts", test_layouts, THREE, WORD),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
