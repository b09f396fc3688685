/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A guest that tests its interrupt controller: what all its files share.
 *
 * The guest is a 32-bit multiboot file that runs in 64-bit mode.
 * It boots every other CPU with INIT and SIPI, runs the table of tests in
 * main.c in xAPIC mode, moves all CPUs to x2APIC mode and runs it again.
 *
 * How a test is written
 *   - It runs on the boot CPU, interrupts off. Every other CPU sits in HLT
 *     with interrupts on and takes work by run_on().
 *   - expect() records the first difference; the runner prints the verdict.
 *   - Nothing waits without bound: wait_for() gives up, and the runner starts
 *     a CPU again that a failed test has left behind.
 *   - "Nothing happened" is checked after settle(), which makes every CPU
 *     take what pends there.
 *
 * Who writes what
 *   struct cpu     its own CPU, in interrupt context; work, work_arg and hook
 *                  are written by the boot CPU while that CPU has no work
 *   all else       the boot CPU
 * Words that another CPU waits for are volatile 32-bit words: on x86 stores
 * become visible in program order, and nothing more is needed here.
 */
#ifndef GUEST_H
#define GUEST_H

/* Also on the assembler's command line: meson passes both numbers. */
#ifndef MAX_CPUS
#error "MAX_CPUS and AREA_BYTES come from the build"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vector {
    VECTOR_NMI = 0x02,
    VECTOR_GP = 0x0d,
    VECTOR_WORK = 0x21,     /* only ends a HLT; never recorded */
    VECTOR_SPURIOUS = 0xdf, /* SVR[7:0] in every test but those about it */
};

enum personality {
    PERSONALITY_AMD,
    PERSONALITY_INTEL,
    PERSONALITY_KVM
};

/* What the stubs leave on the stack, lowest address first. */
struct frame {
    uint64_t r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax;
    uint64_t vector, error;
    uint64_t rip, cs, rflags, rsp, ss;
};

#define NR_ORDER 64 /* interrupts remembered in order; later ones only count */

struct cpu;
typedef void (*work_fn)(void *arg);
/* Called in place of the handler's EOI, which it then owes. Never for NMI. */
typedef void (*hook_fn)(struct cpu *cpu, uint8_t vector);

/* An AP's registers as INIT left them, before it writes any [SDM3 10.4.7.3] */
struct boot_state {
    uint64_t apic_base;
    uint32_t cs;
    uint32_t tpr, svr, ldr, dfr, esr, tmict, tdcr, icr;
    uint32_t lvt_and, lvt_or; /* over all LVTs that every model has */
    uint32_t irr_or, isr_or;
};

/* At the bottom of its CPU's stack, so that a CPU finds itself by RSP. */
struct cpu {
    uint32_t index;
    uint32_t apic_id;
    volatile uint32_t boots; /* times that it came through the trampoline */
    struct boot_state boot;

    volatile uint32_t nr_taken;   /* interrupts and NMIs, all vectors */
    volatile uint32_t count[256]; /* ... by vector, but for VECTOR_WORK */
    volatile uint32_t nr_order;
    volatile uint8_t order[NR_ORDER];
    uint64_t when[NR_ORDER]; /* TSC at entry, parallel to order */
    volatile hook_fn hook;
    volatile hook_fn nmi_hook;

    volatile work_fn work;
    void *volatile work_arg;
    volatile uint32_t work_done;
};

struct area {
    struct cpu cpu;
    uint8_t stack[AREA_BYTES - sizeof(struct cpu)];
} __attribute__((aligned(AREA_BYTES)));

/* cpu.c */
extern struct area areas[MAX_CPUS];
extern uint32_t nr_cpus;
struct cpu *
cpu_at(uint32_t index);
struct cpu *
this_cpu(void);
void
cpu_init_bsp(void);
void
cpu_boot_all(uint32_t wanted);
bool
cpu_restart(struct cpu *cpu, uint8_t page);
bool
start_on(struct cpu *cpu, work_fn fn, void *arg);
bool
join(struct cpu *cpu);
bool
run_on(struct cpu *cpu, work_fn fn, void *arg);
void
settle(void);
void
records_clear(void);
void
irq_window(void);
void
irq_halt(void);
extern volatile uint32_t nr_shadows_broken;
bool
try_rdmsr(uint32_t msr, uint64_t *value);
bool
try_wrmsr(uint32_t msr, uint64_t value);

/* console.c */
extern enum personality personality;
extern uint32_t tsc_khz;
void
print(const char *format, ...) __attribute__((format(printf, 1, 2)));
void
expect(const char *what, uint64_t got, uint64_t want);
void
expect_between(const char *what, uint64_t got, uint64_t low, uint64_t high);
void
verdict_begin(void);
bool
verdict_end(const char *mode, const char *name);
void
verdict_skip(const char *mode, const char *name, const char *why);
void
finish(void) __attribute__((noreturn));
void
panic(const char *why, const struct frame *frame) __attribute__((noreturn));
uint64_t
ms_to_tsc(uint32_t ms);
void
delay_tsc(uint64_t tsc);
bool
wait_for(const volatile uint32_t *word, uint32_t at_least);

/* A test's conditions, beside the number of CPUs it needs. */
#define ONLY_XAPIC     0x01u
#define ONLY_X2APIC    0x02u
#define NOT_AMD        0x04u
#define NOT_INTEL      0x08u
#define NOT_KVM        0x10u
#define NEEDS_DEADLINE 0x20u
#define NEEDS_X2APIC   0x40u

struct test {
    const char *name; /* a sentence, begun by its subject; NULL ends a table */
    void (*fn)(void);
    uint32_t cpus;
    uint32_t flags;
};

extern const struct test register_tests[], priority_tests[], timer_tests[];
extern const struct test ipi_tests[], start_tests[], nmi_tests[];
extern const struct test error_tests[], disable_tests[], base_tests[];

/* timer.c: measure the bus clock against the TSC before any test runs. */
extern uint32_t bus_khz; /* as the command line claims; 0 = not said */
void
timer_calibrate(void);
/* Counts at divide-by-1 for a time. */
uint32_t
timer_count(uint32_t ms);

static inline uint64_t
rdtsc(void)
{
    uint32_t low, high;

    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}

static inline void
irq_off(void)
{
    __asm__ volatile("cli" ::: "memory");
}

static inline void
irq_on(void)
{
    __asm__ volatile("sti" ::: "memory");
}

/* TPR[7:4], the CPU's own way to it [APM2 16.6.4]. */
static inline uint64_t
cr8_read(void)
{
    uint64_t value;

    __asm__ volatile("mov %%cr8, %0" : "=r"(value)::"memory");
    return value;
}

static inline void
cr8_write(uint64_t value)
{
    __asm__ volatile("mov %0, %%cr8" ::"r"(value) : "memory");
}

static inline void
outb(uint16_t port, uint8_t value)
{
    __asm__ volatile("outb %0, %1" ::"a"(value), "Nd"(port));
}

static inline void
cpuid(uint32_t leaf, uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d)
{
    __asm__ volatile("cpuid"
                     : "=a"(*a), "=b"(*b), "=c"(*c), "=d"(*d)
                     : "0"(leaf), "2"(0));
}

#endif
