/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guest images. All start in 32-bit protected mode, flat segments, paging and
 * interrupts off, EAX = 2BADB002h, EBX = the multiboot information.
 *
 *   multiboot ELF       32-bit, EM_386, program headers tell where
 *   multiboot, no ELF   header with bit 16: its addresses tell where
 *   flat                anything else: to 1 MiB, entered at its first byte
 *
 * Where the loader's own data lies:
 *
 *   1000h  multiboot information
 *   1080h  memory map, two entries
 *   1100h  command line, up to 2000h
 *
 * An image is untrusted: every size in it is checked against the file and the
 * guest's memory before it is used.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm.h"

#define MULTIBOOT_HEADER_MAGIC 0x1badb002u
#define MULTIBOOT_LOADER_MAGIC 0x2badb002u
#define MULTIBOOT_SEARCH_BYTES 8192u
#define MULTIBOOT_ADDRESSES    (1u << 16)

#define INFO_GPA      0x1000u
#define MAP_GPA       0x1080u
#define CMDLINE_GPA   0x1100u
#define CMDLINE_BYTES 0xf00u
#define FLAT_GPA      0x100000u
#define LOW_BYTES     0xa0000u /* RAM below the old VGA hole */

struct image {
    const char *path;
    uint8_t *bytes;
    size_t len;
};

struct multiboot_header {
    uint32_t magic, flags, checksum;
    uint32_t header_addr, load_addr, load_end_addr, bss_end_addr, entry_addr;
};

struct multiboot_info {
    uint32_t flags, mem_lower, mem_upper, boot_device, cmdline;
    uint32_t mods_count, mods_addr, syms[4], mmap_length, mmap_addr;
};

struct multiboot_map {
    uint32_t size;
    uint64_t base, length;
    uint32_t type;
} __attribute__((packed));

#define INFO_MEMORY  (1u << 0)
#define INFO_CMDLINE (1u << 2)
#define INFO_MAP     (1u << 6)

static int
image_read(struct image *image)
{
    FILE *file = fopen(image->path, "rb");
    long len = -1;
    int ret = -1;

    if (file == NULL || fseek(file, 0, SEEK_END) != 0 ||
        (len = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) != 0) {
        say("cannot read the image %s: %s", image->path, strerror(errno));
        goto out;
    }
    if (len == 0) {
        say("the image %s is empty", image->path);
        goto out;
    }
    image->len = (size_t)len;
    image->bytes = malloc(image->len);
    if (image->bytes == NULL ||
        fread(image->bytes, 1, image->len, file) != image->len) {
        say("cannot read the image %s: short or no memory", image->path);
        goto out;
    }
    ret = 0;
out:
    if (file != NULL) {
        (void)fclose(file);
    }
    return ret;
}

/* Copy file bytes to guest memory and clear the rest of the piece. */
static int
place(struct vm *vm, const struct image *image, uint64_t offset,
      uint64_t file_bytes, uint64_t gpa, uint64_t memory_bytes)
{
    if (offset > image->len || file_bytes > image->len - offset ||
        file_bytes > memory_bytes) {
        say("the image %s is damaged: a piece of %#llx bytes at file offset "
            "%#llx, of %#zx",
            image->path, (unsigned long long)file_bytes,
            (unsigned long long)offset, image->len);
        return -1;
    }
    if (gpa > vm->memory_bytes || memory_bytes > vm->memory_bytes - gpa) {
        say("the image %s wants %#llx bytes at %#llx; the guest has %#zx (see "
            "--memory)",
            image->path, (unsigned long long)memory_bytes,
            (unsigned long long)gpa, vm->memory_bytes);
        return -1;
    }
    memcpy(vm->memory + gpa, image->bytes + offset, (size_t)file_bytes);
    memset(vm->memory + gpa + file_bytes, 0,
           (size_t)(memory_bytes - file_bytes));
    return 0;
}

static int
elf_place(struct vm *vm, const struct image *image)
{
    Elf32_Ehdr elf;
    int pieces = 0;

    if (image->len < sizeof(elf)) {
        say("the image %s is a truncated ELF file", image->path);
        return -1;
    }
    memcpy(&elf, image->bytes, sizeof(elf));
    if (elf.e_ident[EI_CLASS] != ELFCLASS32 || elf.e_machine != EM_386 ||
        elf.e_phentsize != sizeof(Elf32_Phdr)) {
        say("the image %s is no 32-bit x86 ELF file (objcopy -O elf32-i386 "
            "makes one)",
            image->path);
        return -1;
    }
    for (uint32_t i = 0; i < elf.e_phnum; i++) {
        uint64_t at = (uint64_t)elf.e_phoff + i * sizeof(Elf32_Phdr);
        Elf32_Phdr piece;

        if (at + sizeof(piece) > image->len) {
            say("the image %s is damaged: program header %u of %u is missing",
                image->path, i, elf.e_phnum);
            return -1;
        }
        memcpy(&piece, image->bytes + at, sizeof(piece));
        if (piece.p_type != PT_LOAD || piece.p_memsz == 0) {
            continue;
        }
        if (place(vm, image, piece.p_offset, piece.p_filesz, piece.p_paddr,
                  piece.p_memsz) != 0) {
            return -1;
        }
        pieces++;
    }
    if (pieces == 0) {
        say("the image %s has nothing to load", image->path);
        return -1;
    }
    vm->entry = elf.e_entry;
    return 0;
}

/* Offset of a valid multiboot header, or the file's length. */
static size_t
multiboot_find(const struct image *image, struct multiboot_header *ret)
{
    for (size_t at = 0; at + sizeof(*ret) <= image->len &&
                        at + sizeof(*ret) <= MULTIBOOT_SEARCH_BYTES;
         at += 4) {
        memcpy(ret, image->bytes + at, sizeof(*ret));
        if (ret->magic == MULTIBOOT_HEADER_MAGIC &&
            ret->magic + ret->flags + ret->checksum == 0) {
            return at;
        }
    }
    return image->len;
}

static int
addresses_place(struct vm *vm, const struct image *image, size_t at,
                const struct multiboot_header *header)
{
    uint32_t before = header->header_addr - header->load_addr;

    if (before > at) {
        say("the image %s is damaged: its multiboot header lies before it",
            image->path);
        return -1;
    }
    uint64_t offset = at - before;
    uint64_t bytes = header->load_end_addr
                         ? header->load_end_addr - header->load_addr
                         : image->len - offset;
    uint64_t memory =
        header->bss_end_addr ? header->bss_end_addr - header->load_addr : bytes;

    vm->entry = header->entry_addr;
    return place(vm, image, offset, bytes, header->load_addr, memory);
}

static int
info_place(struct vm *vm, const char *cmdline)
{
    const struct multiboot_map map[2] = {
        { sizeof(map[0]) - 4, 0, LOW_BYTES, 1 },
        { sizeof(map[0]) - 4, FLAT_GPA, vm->memory_bytes - FLAT_GPA, 1 },
    };
    struct multiboot_info info;
    size_t len = strlen(cmdline) + 1;

    if (len > CMDLINE_BYTES) {
        say("the command line has %zu bytes; %u fit", len, CMDLINE_BYTES);
        return -1;
    }
    memset(&info, 0, sizeof(info));
    info.flags = INFO_MEMORY | INFO_CMDLINE | INFO_MAP;
    info.mem_lower = LOW_BYTES / 1024;
    info.mem_upper = (uint32_t)((vm->memory_bytes - FLAT_GPA) / 1024);
    info.cmdline = CMDLINE_GPA;
    info.mmap_length = sizeof(map);
    info.mmap_addr = MAP_GPA;
    memcpy(vm->memory + INFO_GPA, &info, sizeof(info));
    memcpy(vm->memory + MAP_GPA, map, sizeof(map));
    memcpy(vm->memory + CMDLINE_GPA, cmdline, len);
    vm->boot_info = INFO_GPA;
    vm->multiboot_magic = MULTIBOOT_LOADER_MAGIC;
    return 0;
}

int
image_load(struct vm *vm, const char *path, const char *cmdline)
{
    struct image image = { .path = path };
    struct multiboot_header header;
    int ret = image_read(&image);

    if (ret == 0) {
        size_t at = multiboot_find(&image, &header);

        if (image.len >= SELFMAG && memcmp(image.bytes, ELFMAG, SELFMAG) == 0) {
            ret = elf_place(vm, &image);
        } else if (at < image.len && (header.flags & MULTIBOOT_ADDRESSES)) {
            ret = addresses_place(vm, &image, at, &header);
        } else {
            vm->entry = FLAT_GPA;
            ret = place(vm, &image, 0, image.len, FLAT_GPA, image.len);
        }
    }
    free(image.bytes);
    return ret != 0 ? ret : info_place(vm, cmdline);
}
