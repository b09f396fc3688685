/* SPDX-License-Identifier: BSD-2-Clause */

/* One command, in the words of the manual, without any cleverness. */

#include "model_ipi.h"

#define ADDRESS 0x000ffffffffff000ull

static bool
bit(uint64_t word, unsigned n)
{
    return (word >> n & 1) != 0;
}

static void
fail(const struct model_ipi_in *in, struct model_ipi_out *out, uint32_t id,
     uint32_t index)
{
    uint32_t icrl = in->icrl, icrh = in->icrh;

    if (in->self_register) {
        icrl = 0x40000 | in->icrl;
        icrh = 0;
    }
    out->result = MODEL_IPI_EXIT;
    out->info1 = (uint64_t)icrh << 32 | icrl;
    out->info2 = (uint64_t)id << 32 | (index & 0xfff);
}

static bool
valid(const struct model_ipi_in *in, uint32_t id)
{
    return id <= in->max_index && bit(in->physical[id], 63);
}

static uint64_t
address(const struct model_ipi_in *in, uint32_t id)
{
    return in->physical[id] & ADDRESS;
}

/* Is the page of this entry there? */
static bool
legal(const struct model_ipi_in *in, uint32_t id)
{
    uint64_t size = (uint64_t)in->memory_pages * 4096;
    uint64_t at = address(in, id);

    return at >= in->memory_base && at < in->memory_base + size;
}

static void
add_target(const struct model_ipi_in *in, struct model_ipi_out *out,
           uint32_t id)
{
    struct model_ipi_target *target = &out->targets[out->nr_targets++];

    target->id = id;
    target->page = (uint32_t)((address(in, id) - in->memory_base) / 4096);
    target->running = bit(in->physical[id], 62);
    target->host_id = (uint32_t)(in->physical[id] & 0xfff);
}

/* One directed target; index names it in an exit. False: the IPI failed. */
static bool
resolve(const struct model_ipi_in *in, struct model_ipi_out *out, uint32_t id,
        uint32_t index)
{
    if (!valid(in, id)) {
        fail(in, out, 2, index);
        return false;
    }
    if (!legal(in, id)) {
        fail(in, out, 3, index);
        return false;
    }
    add_target(in, out, id);
    return true;
}

static bool
logical_x2avic(const struct model_ipi_in *in, struct model_ipi_out *out)
{
    for (uint32_t n = 0; n < 16; n++) {
        uint32_t id = (in->icrh >> 16) * 16 + n;

        if (bit(in->icrh, n) && !resolve(in, out, id, id)) {
            return false;
        }
    }
    return true;
}

static bool
logical_entry(const struct model_ipi_in *in, struct model_ipi_out *out,
              uint32_t index)
{
    uint32_t entry = in->logical[index];

    if (!bit(entry, 31)) {
        fail(in, out, 2, index);
        return false;
    }
    return resolve(in, out, entry & 0xff, index);
}

static bool
logical_xavic(const struct model_ipi_in *in, struct model_ipi_out *out)
{
    uint32_t dest = in->icrh >> 24, model = in->dfr >> 28;

    if (model != 0 && model != 15) {
        fail(in, out, 2, 0);
        return false;
    }
    for (uint32_t n = 0; n < (model == 15 ? 8u : 4u); n++) {
        uint32_t index = model == 15 ? n : dest / 16 * 4 + n;

        if (bit(dest, n) && !logical_entry(in, out, index)) {
            return false;
        }
    }
    return true;
}

static bool
directed(const struct model_ipi_in *in, struct model_ipi_out *out)
{
    uint32_t dest = in->x2avic ? in->icrh : in->icrh >> 24;

    if (!bit(in->icrl, 11)) {
        return resolve(in, out, dest, dest);
    }
    return in->x2avic ? logical_x2avic(in, out) : logical_xavic(in, out);
}

/* Invalid entries do not count; an entry without a page is left out, and then
 * reported. */
static bool
broadcast(const struct model_ipi_in *in, struct model_ipi_out *out,
          bool without_self)
{
    bool good = true;

    for (uint32_t id = 0; id <= in->max_index; id++) {
        if (!valid(in, id) ||
            (without_self && address(in, id) == in->own_page)) {
            continue;
        }
        if (legal(in, id)) {
            add_target(in, out, id);
        } else if (good) {
            good = false;
            fail(in, out, 3, id);
        }
    }
    return good;
}

/* The index of a target: a logical one in xAVIC is its logical index. */
static uint32_t
index_of(const struct model_ipi_in *in, uint32_t id)
{
    uint32_t dest = in->icrh >> 24, flat = in->dfr >> 28 == 15;

    if (in->x2avic || !bit(in->icrl, 11) || bit(in->icrl, 19) || dest == 255) {
        return id;
    }
    for (uint32_t n = 0; n < (flat ? 8u : 4u); n++) {
        uint32_t index = flat ? n : dest / 16 * 4 + n;

        if (bit(dest, n) && (in->logical[index] & 0xff) == id) {
            return index;
        }
    }
    return 0;
}

static void
deliver(const struct model_ipi_in *in, struct model_ipi_out *out)
{
    uint32_t shorthand = in->icrl >> 18 & 3;
    uint32_t dest = in->x2avic ? in->icrh : in->icrh >> 24;
    bool good;

    if (shorthand >= 2 || dest == (in->x2avic ? 0xffffffff : 0xff)) {
        good = broadcast(in, out, shorthand == 3);
    } else {
        good = directed(in, out);
        out->resolved = good && out->nr_targets != 0;
        out->nr_targets = good ? out->nr_targets : 0;
    }
    for (uint32_t n = 0; good && n < out->nr_targets; n++) {
        if (!out->targets[n].running) {
            fail(in, out, 1, index_of(in, out->targets[n].id));
            break;
        }
    }
}

void
model_ipi(const struct model_ipi_in *in, struct model_ipi_out *out)
{
    bool self = in->self_register || (in->icrl >> 18 & 3) == 1;

    out->result = MODEL_IPI_DONE;
    out->info1 = out->info2 = 0;
    out->stored = !in->self_register;
    out->resolved = out->self = false;
    out->nr_targets = 0;
    if ((in->self_register && (in->icrh != 0 || in->icrl > 255)) ||
        (!in->self_register && in->x2avic && in->icrl & 0xfff33000)) {
        out->result = MODEL_IPI_GP;
        out->stored = false;
    } else if ((in->icrl >> 8 & 7) != 0 || bit(in->icrl, 15)) {
        fail(in, out, 0, 0);
    } else if ((in->icrl & 0xff) < 16) {
        fail(in, out, 4, 0);
    } else if (self) {
        out->self = true;
    } else {
        deliver(in, out);
    }
}
