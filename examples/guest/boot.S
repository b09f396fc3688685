/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The guest's only assembly: the ways in.
 *
 *   start         the boot CPU, from a multiboot loader: 32-bit, paging off
 *   trampoline    a starting AP: real mode at the page its SIPI named. It is
 *                 copied below 1 MiB, so it may use only its own offsets
 *   enter_long    both: to 64-bit mode, where CR8 is and where IRET works on
 *                 every KVM (some interpret 32-bit code without it)
 *   stubs         256 interrupt entries of 16 bytes, all to on_interrupt()
 *
 * Everything runs at ring 0 in flat segments, with the lowest 4 GiB mapped to
 * themselves, so that the APIC page is where its base says.
 */

#define CODE32 0x08
#define DATA 0x10
#define CODE64 0x18

#define MULTIBOOT_MAGIC 0x1badb002
#define MULTIBOOT_FLAGS 0x00000002

#define CR0_PE 0x00000001
#define CR0_ET 0x00000010
#define CR0_PG 0x80000000
#define CR4_PAE 0x20
#define MSR_EFER 0xc0000080
#define EFER_LME 0x100

    .section .multiboot, "a"
    .align 4
    .long MULTIBOOT_MAGIC, MULTIBOOT_FLAGS, -(MULTIBOOT_MAGIC + MULTIBOOT_FLAGS)

    .text
    .code32
    .globl start
start:
    cli
    cld
    lgdt gdt_pointer
    mov %eax, %edi                  /* guest_main()'s arguments */
    mov %ebx, %esi
    mov $bsp_start, %ebp
    jmp enter_long

/*
 * Entered at CS:0 with CS = page << 8 [SDM3 9.4.4, MP initialization]. CS goes
 * on in EDI, because a test asks whether the page came from the SIPI's vector.
 */
    .code16
    .globl trampoline, trampoline_end
trampoline:
    cli
    xor %edi, %edi
    mov %cs, %di
    mov %di, %ds
    lgdtl trampoline_gdt - trampoline
    mov %cr0, %eax
    or $CR0_PE, %al
    mov %eax, %cr0
    ljmpl $CODE32, $ap_protected
    .align 4
trampoline_gdt:
    .word gdt_end - gdt - 1
    .long gdt
trampoline_end:

    .code32
ap_protected:
    mov $ap_start, %ebp

/* To 64-bit mode, then to EBP. Keeps EDI and ESI. No stack is used. */
enter_long:
    mov $DATA, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    mov %eax, %fs
    mov %eax, %gs
    mov $CR4_PAE, %eax
    mov %eax, %cr4
    mov $pml4, %eax
    mov %eax, %cr3
    mov $MSR_EFER, %ecx
    rdmsr
    or $EFER_LME, %eax
    wrmsr
    mov $(CR0_PG | CR0_ET | CR0_PE), %eax
    mov %eax, %cr0
    ljmp $CODE64, $1f
    .code64
1:  mov %ebp, %ebp                  /* bits 63:32 are undefined so far */
    mov %edi, %edi
    mov %esi, %esi
    cld
    jmp *%rbp

bsp_start:
    mov $areas + AREA_BYTES, %esp
    call guest_main
    jmp stop

/*
 * A CPU that is started again gets the area it had: areas are found by the
 * initial APIC id, which INIT does not change. No stack before that.
 */
ap_start:
    mov $1, %eax
    xor %ecx, %ecx
    cpuid
    shr $24, %ebx
    movzbl area_of_id(%rbx), %eax
    test %eax, %eax
    jnz 1f
    mov $1, %eax
    lock xadd %eax, nr_areas
    cmp $MAX_CPUS, %eax
    jae stop
    mov %al, area_of_id(%rbx)
1:  inc %eax
    imul $AREA_BYTES, %eax
    add $areas, %eax
    mov %eax, %esp
    call ap_main
stop:
    cli
    hlt
    jmp stop

/* Vectors for which the CPU pushes an error code [SDM3 6.15]. */
#define HAS_ERROR_CODE(v) \
    (v == 8 || (v >= 10 && v <= 14) || v == 17 || v == 21 || v == 29 || v == 30)

    .align 16
    .globl stubs
stubs:
    vector = 0
    .rept 256
    .align 16
    .if !HAS_ERROR_CODE(vector)
    push $0
    .endif
    push $vector
    jmp common
    vector = vector + 1
    .endr

common:
    push %rax
    push %rcx
    push %rdx
    push %rsi
    push %rdi
    push %r8
    push %r9
    push %r10
    push %r11
    cld
    mov %rsp, %rdi
    push %rbp                       /* callee-saved; aligns the stack again */
    mov %rsp, %rbp
    and $-16, %rsp
    call on_interrupt
    mov %rbp, %rsp
    pop %rbp
    pop %r11
    pop %r10
    pop %r9
    pop %r8
    pop %rdi
    pop %rsi
    pop %rdx
    pop %rcx
    pop %rax
    add $16, %rsp
    iretq

    .data
    .align 8
gdt:
    .quad 0
    .quad 0x00cf9b000000ffff        /* CODE32: base 0, limit 4 GiB */
    .quad 0x00cf93000000ffff        /* DATA */
    .quad 0x00af9b000000ffff        /* CODE64 */
gdt_end:
gdt_pointer:
    .word gdt_end - gdt - 1
    .long gdt

    .align 4096
pml4:
    .quad pdpt + 3                  /* present, writable */
    .fill 511, 8, 0
pdpt:
    .quad pages + 0x0003, pages + 0x1003, pages + 0x2003, pages + 0x3003
    .fill 508, 8, 0
pages:
    page = 0
    .rept 2048
    .quad page << 21 | 0x83         /* 2 MiB, present, writable */
    page = page + 1
    .endr

    .section .note.GNU-stack, "", @progbits
