/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The guest's voice: a serial port at 3F8h, verdicts, the exit port, and the
 * bounded waits that keep it talking.
 *
 * A byte on the serial port costs an exit of the VMM, so a test has one line
 * and a failing one says its first difference only. No line status is read
 * before a byte: every emulated UART takes it at once.
 */
#include <stdarg.h>

#include "apic.h"

#define PORT_SERIAL 0x3f8
#define PORT_EXIT   0xf4

enum personality personality;
/* Rate of RDTSC. The default only bounds waits; a command line says better. */
uint32_t tsc_khz = 2000000;

static uint32_t nr_passed, nr_failed;
static bool failing;
static struct {
    const char *what;
    uint64_t got, low, high;
} difference;

static void
put_number(uint64_t n, uint32_t base)
{
    char digits[24];
    uint32_t i = sizeof(digits);

    do {
        uint32_t digit = (uint32_t)(n % base);

        digits[--i] = (char)(digit < 10 ? '0' + digit : 'a' + digit - 10);
        n /= base;
    } while (n != 0);
    while (i < sizeof(digits)) {
        outb(PORT_SERIAL, (uint8_t)digits[i++]);
    }
}

/* %s, %u and %x (uint32_t), %lu and %lx (uint64_t). */
void
print(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    for (; *format != '\0'; format++) {
        bool wide = false;

        if (*format != '%') {
            outb(PORT_SERIAL, (uint8_t)*format);
            continue;
        }
        format++;
        if (*format == 'l') {
            wide = true;
            format++;
        }
        if (*format == 's') {
            for (const char *s = va_arg(args, const char *); *s; s++) {
                outb(PORT_SERIAL, (uint8_t)*s);
            }
        } else {
            put_number(wide ? va_arg(args, uint64_t) : va_arg(args, uint32_t),
                       *format == 'x' ? 16 : 10);
        }
    }
    va_end(args);
}

void
expect_between(const char *what, uint64_t got, uint64_t low, uint64_t high)
{
    if (failing || (got >= low && got <= high)) {
        return;
    }
    failing = true;
    difference.what = what;
    difference.got = got;
    difference.low = low;
    difference.high = high;
}

void
expect(const char *what, uint64_t got, uint64_t want)
{
    expect_between(what, got, want, want);
}

void
verdict_begin(void)
{
    failing = false;
}

bool
verdict_end(const char *mode_name, const char *name)
{
    if (!failing) {
        nr_passed++;
        print("PASS %s %s\n", mode_name, name);
        return true;
    }
    nr_failed++;
    print("FAIL %s %s: %s: got 0x%lx want 0x%lx", mode_name, name,
          difference.what, difference.got, difference.low);
    if (difference.high != difference.low) {
        print(" to 0x%lx", difference.high);
    }
    print("\n");
    return false;
}

void
verdict_skip(const char *mode_name, const char *name, const char *why)
{
    print("SKIP %s %s: %s\n", mode_name, name, why);
}

/* QEMU's debug-exit device turns value v into status 2v+1; our VMM says v. */
static void
leave(uint8_t value)
{
    for (;;) {
        outb(PORT_EXIT, value);
        irq_off();
        __asm__ volatile("hlt");
    }
}

void
finish(void)
{
    if (nr_passed + nr_failed == 0) {
        print("FAIL no test has run\n");
        nr_failed++;
    }
    if (nr_shadows_broken != 0) {
        print("guest: interrupts in the shadow of STI: %u\n",
              nr_shadows_broken);
    }
    print("guest: %u passed, %u failed\n", nr_passed, nr_failed);
    leave(nr_failed == 0 ? 0 : 1);
    __builtin_unreachable();
}

void
panic(const char *why, const struct frame *frame)
{
    print("FAIL cpu %u: %s: vector %lu error %lx at %lx\n", this_cpu()->index,
          why, frame->vector, frame->error, frame->rip);
    print("guest: %u passed, %u failed\n", nr_passed, nr_failed + 1);
    leave(1);
    __builtin_unreachable();
}

uint64_t
ms_to_tsc(uint32_t ms)
{
    return (uint64_t)ms * tsc_khz;
}

void
delay_tsc(uint64_t tsc)
{
    uint64_t end = rdtsc() + tsc;

    while (rdtsc() < end) {
        __asm__ volatile("pause");
    }
}

/* Two seconds: far beyond any latency that is not a lost event. */
#define PATIENCE_MS 2000u

bool
wait_for(const volatile uint32_t *word, uint32_t at_least)
{
    uint64_t end = rdtsc() + ms_to_tsc(PATIENCE_MS);

    while (*word < at_least) {
        if (rdtsc() > end) {
            return *word >= at_least;
        }
        __asm__ volatile("pause");
    }
    return true;
}
