/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * I/O ports: what a guest needs to say something and to stop.
 *
 *   3F8h-3FFh  serial port: bytes out go to stdout; the line is always ready
 *   F4h        exit: the value is the VMM's exit status
 *   510h-511h  QEMU's fw_cfg, the number of CPUs only: some test guests ask
 *   others     write: nothing; read: all ones
 */
#include <stdio.h>
#include <string.h>

#include "vmm.h"

#define PORT_SERIAL         0x3f8
#define SERIAL_DATA         0
#define SERIAL_LINE_CONTROL 3
#define SERIAL_LINE_STATUS  5
#define LINE_STATUS_EMPTY   0x60 /* transmitter and its register */
#define LINE_CONTROL_DLAB   0x80 /* data register is the divisor then */

#define PORT_EXIT 0xf4

#define PORT_FW_CFG_SELECT 0x510
#define PORT_FW_CFG_DATA   0x511
#define FW_CFG_NB_CPUS     5
#define FW_CFG_MAX_CPUS    15

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t line_control;

static void
serial_write(uint16_t reg, uint8_t value)
{
    (void)pthread_mutex_lock(&lock);
    if (reg == SERIAL_LINE_CONTROL) {
        line_control = value;
    } else if (reg == SERIAL_DATA && !(line_control & LINE_CONTROL_DLAB)) {
        (void)putchar(value);
        if (value == '\n') {
            (void)fflush(stdout);
        }
    }
    (void)pthread_mutex_unlock(&lock);
}

static uint8_t
fw_cfg_read(struct vm *vm)
{
    uint8_t value = 0;

    (void)pthread_mutex_lock(&lock);
    if ((vm->fw_cfg.selector == FW_CFG_NB_CPUS ||
         vm->fw_cfg.selector == FW_CFG_MAX_CPUS) &&
        vm->fw_cfg.offset++ == 0) {
        value = (uint8_t)vm->nr_vcpus;
    }
    (void)pthread_mutex_unlock(&lock);
    return value;
}

void
port_write(struct vm *vm, uint16_t port, const uint8_t *data, unsigned len)
{
    if (port >= PORT_SERIAL && port < PORT_SERIAL + 8) {
        serial_write((uint16_t)(port - PORT_SERIAL), data[0]);
    } else if (port == PORT_EXIT) {
        vm_stop(vm, data[0]);
    } else if (port == PORT_FW_CFG_SELECT && len == 2) {
        (void)pthread_mutex_lock(&lock);
        vm->fw_cfg.selector = (uint16_t)(data[0] | data[1] << 8);
        vm->fw_cfg.offset = 0;
        (void)pthread_mutex_unlock(&lock);
    }
}

void
port_read(struct vm *vm, uint16_t port, uint8_t *data, unsigned len)
{
    memset(data, 0xff, len);
    if (port == PORT_FW_CFG_DATA) {
        data[0] = fw_cfg_read(vm);
    } else if (port >= PORT_SERIAL && port < PORT_SERIAL + 8) {
        data[0] =
            port == PORT_SERIAL + SERIAL_LINE_STATUS ? LINE_STATUS_EMPTY : 0;
    }
}
