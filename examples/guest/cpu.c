/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CPUs: descriptor tables, interrupt entry, boot by INIT and SIPI, and work
 * that the boot CPU hands to the others.
 *
 * A CPU's life
 *
 *     INIT        SIPI             ready             run_on()
 *   ------> wait ------> ap_main ------> HLT, IF=1 <--------> work, IF=0
 *              ^------------------------- INIT --------------------'
 *
 * Interrupt entry writes the CPU's own records (count, order, when), then
 * sends EOI, unless a hook takes that over. NMIs have records and a hook,
 * never an EOI: they bypass the APIC's ISR [APM2 16.6.3].
 */
#include "apic.h"

#define CODE_SELECTOR         0x18u /* CODE64 of boot.S */
#define TRAMPOLINE_PAGE       0x08u /* SIPI vector: starts at 8000h */
#define TRAMPOLINE_PAGE_OTHER 0x0au /* a second copy, for the vector test */

struct gate {
    uint16_t offset_0, selector, type, offset_16;
    uint32_t offset_32, zero;
};

struct idt_pointer {
    uint16_t limit;
    uint64_t base;
} __attribute__((packed));

/* An instruction that may fault, and where to go on if it does. */
struct fixup {
    uint32_t fault, resume;
};

struct area areas[MAX_CPUS];
uint32_t nr_cpus = 1;

/* boot.S: which area belongs to an initial APIC id; 0 = none yet (or BSP). */
uint8_t area_of_id[256];
volatile uint32_t nr_areas = 1;

static struct gate idt[256] __attribute__((aligned(16)));

extern const char stubs[];
extern const char trampoline[], trampoline_end[];
extern const struct fixup fixups_begin[], fixups_end[];

void
ap_main(uint32_t cs);
void
on_interrupt(struct frame *frame);
void *
memcpy(void *to, const void *from, size_t n);
void *
memset(void *to, int value, size_t n);

/* The compiler may call these two for any struct assignment. */
void *
memcpy(void *to, const void *from, size_t n)
{
    void *ret = to;

    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
    return ret;
}

void *
memset(void *to, int value, size_t n)
{
    void *ret = to;

    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(value) : "memory");
    return ret;
}

struct cpu *
cpu_at(uint32_t index)
{
    return &areas[index].cpu;
}

struct cpu *
this_cpu(void)
{
    uintptr_t rsp;

    __asm__("mov %%rsp, %0" : "=r"(rsp));
    return &((struct area *)(rsp & ~(uintptr_t)(AREA_BYTES - 1)))->cpu;
}

/* ------------------------------------------------------------------ *
 * Interrupts
 * ------------------------------------------------------------------ */

static void
record(struct cpu *cpu, uint8_t vector)
{
    uint32_t n = cpu->nr_order;

    if (n < NR_ORDER) {
        cpu->when[n] = rdtsc();
        cpu->order[n] = vector;
        cpu->nr_order = n + 1;
    }
    cpu->count[vector]++;
}

/*
 * Take everything that is deliverable now. STI holds interrupts off for one
 * more instruction, and a KVM that interprets guest code in batches looks for
 * interrupts only between those; so the window has an instruction that exits
 * (a write to the POST port), and is opened again until nothing comes.
 */
void
irq_window(void)
{
    const struct cpu *cpu = this_cpu();
    uint32_t before;

    do {
        before = cpu->nr_taken;
        __asm__ volatile("sti\n\t"
                         "nop\n\t"
                         "outb %%al, $0x80\n\t"
                         "nop\n\t"
                         "cli" ::
                             : "memory");
    } while (cpu->nr_taken != before);
}

/*
 * HLT in the shadow of STI: what pends already must end it, not come before
 * it. An emulator of SVM may get that wrong, and the CPU would then halt with
 * nothing to wake it. So on_interrupt() steps over a HLT that it came too early
 * for, and counts; the end of the run tells.
 */
extern const char halt_here[];
volatile uint32_t nr_shadows_broken;

__attribute__((noinline)) void
irq_halt(void)
{
    __asm__ volatile("sti\n"
                     ".globl halt_here\n"
                     "halt_here: hlt\n\t"
                     "cli" ::
                         : "memory");
}

static void
step_over_halt(struct frame *frame)
{
    if (frame->rip == (uintptr_t)halt_here) {
        frame->rip++; /* HLT has one byte */
        nr_shadows_broken++;
    }
}

static bool
fixup_apply(struct frame *frame)
{
    for (const struct fixup *f = fixups_begin; f < fixups_end; f++) {
        if (frame->rip == f->fault) {
            frame->rip = f->resume;
            return true;
        }
    }
    return false;
}

/*
 * Vectors 16, 18-20, 22-28 and 31 are legal for an APIC although the CPU keeps
 * them for exceptions [SDM3 10.5.2]. The faults among them cannot happen
 * here (no FPU, no machine check), so they count as interrupts.
 */
static bool
is_exception(uint32_t vector)
{
    return vector < 16 || vector == 17 || vector == 21 || vector == 29 ||
           vector == 30;
}

void
on_interrupt(struct frame *frame)
{
    struct cpu *cpu = this_cpu();
    uint8_t vector = (uint8_t)frame->vector;

    step_over_halt(frame);
    if (vector == VECTOR_NMI) {
        cpu->nr_taken++;
        record(cpu, vector);
        if (cpu->nmi_hook != NULL) {
            cpu->nmi_hook(cpu, vector);
        }
        return;
    }
    if (vector == VECTOR_GP && fixup_apply(frame)) {
        return;
    }
    if (is_exception(vector)) {
        panic("exception", frame);
    }
    cpu->nr_taken++;
    if (vector == VECTOR_WORK) {
        apic_eoi();
        return; /* its only purpose was to end HLT */
    }
    record(cpu, vector);
    if (vector == VECTOR_SPURIOUS) {
        return; /* sets no ISR bit, so wants no EOI [SDM3 10.9] */
    }
    if (cpu->hook != NULL) {
        cpu->hook(cpu, vector);
    } else {
        apic_eoi();
    }
}

static void
idt_load(void)
{
    const struct idt_pointer pointer = { sizeof(idt) - 1, (uintptr_t)idt };

    __asm__ volatile("lidt %0" ::"m"(pointer));
}

bool
try_rdmsr(uint32_t msr, uint64_t *value)
{
    uint32_t done = 1, low = 0, high = 0;

    __asm__ volatile("1: rdmsr\n"
                     "   jmp 3f\n"
                     "2: movl $0, %0\n"
                     "3:\n"
                     ".pushsection .fixups, \"a\"\n"
                     ".long 1b, 2b\n"
                     ".popsection"
                     : "+&r"(done), "+a"(low), "+d"(high)
                     : "c"(msr)
                     : "memory");
    *value = (uint64_t)high << 32 | low;
    return done != 0;
}

bool
try_wrmsr(uint32_t msr, uint64_t value)
{
    uint32_t done = 1;

    __asm__ volatile("1: wrmsr\n"
                     "   jmp 3f\n"
                     "2: movl $0, %0\n"
                     "3:\n"
                     ".pushsection .fixups, \"a\"\n"
                     ".long 1b, 2b\n"
                     ".popsection"
                     : "+&r"(done)
                     : "a"((uint32_t)value), "d"((uint32_t)(value >> 32)),
                       "c"(msr)
                     : "memory");
    return done != 0;
}

/* ------------------------------------------------------------------ *
 * Boot
 * ------------------------------------------------------------------ */

void
cpu_init_bsp(void)
{
    struct cpu *cpu = this_cpu();

    for (uint32_t i = 0; i < 256; i++) {
        uint64_t entry = (uintptr_t)stubs + 16 * i;

        idt[i] = (struct gate){
            (uint16_t)entry,         CODE_SELECTOR,           0x8e00,
            (uint16_t)(entry >> 16), (uint32_t)(entry >> 32), 0
        };
    }
    idt_load();
    outb(0x21, 0xff); /* a PIC, where there is one, has nothing to say */
    outb(0xa1, 0xff);
    memcpy((void *)at(TRAMPOLINE_PAGE << 12), trampoline,
           (size_t)(trampoline_end - trampoline));
    memcpy((void *)at(TRAMPOLINE_PAGE_OTHER << 12), trampoline,
           (size_t)(trampoline_end - trampoline));
    mode = (apic_base() & APIC_BASE_EXTD) ? MODE_X2APIC : MODE_XAPIC;
    cpu->apic_id = apic_initial_id();
    cpu->boots = 1;
    apic_enable();
}

static void
boot_state_read(struct boot_state *boot)
{
    boot->apic_base = apic_base();
    boot->tpr = apic_read(REG_TPR);
    boot->svr = apic_read(REG_SVR);
    boot->ldr = apic_read(REG_LDR);
    boot->dfr = mode == MODE_XAPIC ? apic_read(REG_DFR) : 0;
    boot->esr = apic_read(REG_ESR);
    boot->tmict = apic_read(REG_TMICT);
    boot->tdcr = apic_read(REG_TDCR);
    boot->icr = apic_read(REG_ICR);
    boot->lvt_and = 0xffffffffu;
    boot->lvt_or = 0;
    for (uint32_t reg = REG_LVT_TIMER; reg <= REG_LVT_ERROR; reg += 0x10) {
        uint32_t lvt = apic_read(reg);

        boot->lvt_and &= lvt;
        boot->lvt_or |= lvt;
    }
    boot->irr_or = apic_any(REG_IRR);
    boot->isr_or = apic_any(REG_ISR);
}

void
ap_main(uint32_t cs)
{
    struct cpu *cpu = this_cpu();

    idt_load();
    cpu->index = (uint32_t)((struct area *)cpu - areas);
    cpu->apic_id = apic_initial_id();
    boot_state_read(&cpu->boot);
    cpu->boot.cs = cs;
    cpu->work = NULL;
    apic_enable();
    cpu->boots++;
    for (;;) {
        work_fn fn = cpu->work;

        if (fn == NULL) {
            irq_halt();
            continue;
        }
        cpu->work = NULL;
        fn(cpu->work_arg);
        cpu->work_done++;
    }
}

/*
 * Start everybody at once, as firmware does; tests start single CPUs. SIPI
 * goes out twice, because the protocol says so [SDM3 9.4.4]; the second one
 * must find nobody waiting.
 */
void
cpu_boot_all(uint32_t wanted)
{
    apic_send(ICR_OTHERS | ICR_INIT | ICR_ASSERT, 0);
    apic_send(ICR_OTHERS | ICR_SIPI | ICR_ASSERT | TRAMPOLINE_PAGE, 0);
    apic_send(ICR_OTHERS | ICR_SIPI | ICR_ASSERT | TRAMPOLINE_PAGE, 0);
    if (wanted != 0) {
        (void)wait_for(&nr_areas, wanted);
    } else {
        delay_tsc(ms_to_tsc(200));
    }
    nr_cpus = nr_areas < MAX_CPUS ? nr_areas : MAX_CPUS;
    for (uint32_t i = 1; i < nr_cpus; i++) {
        (void)wait_for(&cpu_at(i)->boots, 1);
    }
}

bool
cpu_restart(struct cpu *cpu, uint8_t page)
{
    uint32_t boots = cpu->boots;

    cpu->hook = NULL;
    cpu->nmi_hook = NULL;
    apic_send(ICR_INIT | ICR_ASSERT, cpu->apic_id);
    apic_send(ICR_SIPI | ICR_ASSERT | (page ? page : TRAMPOLINE_PAGE),
              cpu->apic_id);
    return wait_for(&cpu->boots, boots + 1);
}

/* ------------------------------------------------------------------ *
 * Work
 * ------------------------------------------------------------------ */

bool
start_on(struct cpu *cpu, work_fn fn, void *arg)
{
    cpu->work_done = 0;
    cpu->work_arg = arg;
    cpu->work = fn;
    if (cpu == this_cpu()) {
        cpu->work = NULL;
        fn(arg);
        cpu->work_done = 1;
    } else {
        apic_send(ICR_FIXED | VECTOR_WORK, cpu->apic_id);
    }
    return true;
}

bool
join(struct cpu *cpu)
{
    bool done = wait_for(&cpu->work_done, 1);

    if (!done) {
        expect("a CPU finished its work", 0, 1);
        (void)cpu_restart(cpu, 0);
    }
    return done;
}

bool
run_on(struct cpu *cpu, work_fn fn, void *arg)
{
    return start_on(cpu, fn, arg) && join(cpu);
}

static void
take_pending(void *arg)
{
    (void)arg;
    irq_window();
}

/* Every CPU has taken what was sent to it before this call. */
void
settle(void)
{
    irq_window();
    for (uint32_t i = 1; i < nr_cpus; i++) {
        (void)run_on(cpu_at(i), take_pending, NULL);
    }
}

void
records_clear(void)
{
    for (uint32_t i = 0; i < nr_cpus; i++) {
        struct cpu *cpu = cpu_at(i);

        memset((void *)cpu->count, 0, sizeof(cpu->count));
        cpu->nr_order = 0;
        cpu->hook = NULL;
        cpu->nmi_hook = NULL;
    }
}
