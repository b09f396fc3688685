/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device queues' ring, and the event heap: each alone, and the ring
 * between two threads, with what its edge promises.
 */

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "heap.h"
#include "ring.h"

static void
ring_keeps_order_and_says_when_full(void **state)
{
    struct am_ring *ring = am_ring_create_spsc(5);
    uint32_t room = 0;

    (void)state;
    assert_non_null(ring);
    assert_int_equal(am_ring_get_spsc(ring), 0);
    while (am_ring_put_spsc(ring, room + 1)) {
        room++;
    }
    assert_true(room >= 5);
    assert_int_equal(am_ring_count(ring), room);
    for (uint32_t lap = 0; lap < 3 * room; lap++) {
        assert_int_equal(am_ring_get_spsc(ring), lap % room + 1);
        assert_true(am_ring_put_spsc(ring, lap % room + 1));
    }
    am_ring_destroy(ring);
}

#define WORDS 200000u

struct pair {
    struct am_ring *ring;
    uint32_t *plain; /* written before put, read after get */
};

static void *
producer(void *arg)
{
    struct pair *pair = arg;

    for (uint32_t i = 0; i < WORDS; i++) {
        pair->plain[i] = i ^ 0x5a5a5a5au;
        while (!am_ring_put_spsc(pair->ring, (uint64_t)i + 1)) {
            (void)sched_yield();
        }
    }
    return NULL;
}

static void
ring_hands_over_what_was_written_before(void **state)
{
    struct pair pair = { am_ring_create_spsc(60),
                         calloc(WORDS, sizeof(uint32_t)) };
    uint32_t wrong = 0;
    pthread_t thread;

    (void)state;
    assert_non_null(pair.ring);
    assert_non_null(pair.plain);
    assert_int_equal(pthread_create(&thread, NULL, producer, &pair), 0);
    for (uint32_t i = 0; i < WORDS; i++) {
        uint64_t word;

        while ((word = am_ring_get_spsc(pair.ring)) == 0) {
            (void)sched_yield();
        }
        wrong += word != (uint64_t)i + 1;
        wrong += pair.plain[i] != (i ^ 0x5a5a5a5au);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wrong, 0);
    am_ring_destroy(pair.ring);
    free(pair.plain);
}

static void
heap_is_by_time_then_by_order(void **state)
{
    struct am_heap heap = { 0 };
    struct am_heap_item item, last = { 0 };

    (void)state;
    assert_int_equal(am_heap_when(&heap), UINT64_MAX);
    for (uint32_t i = 0; i < 1000; i++) {
        item = (struct am_heap_item){ .when_ns = i * 7919u % 100, .index = i };
        assert_true(am_heap_put(&heap, item));
    }
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(am_heap_get(&heap, &item));
        assert_true(item.when_ns > last.when_ns ||
                    (item.when_ns == last.when_ns &&
                     (i == 0 || item.index > last.index)));
        last = item;
    }
    assert_false(am_heap_get(&heap, &item));
    am_heap_fini(&heap);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        { "a ring keeps order and says when it is full",
          ring_keeps_order_and_says_when_full, NULL, NULL, NULL },
        { "a ring hands over what was written before",
          ring_hands_over_what_was_written_before, NULL, NULL, NULL },
        { "a heap is by time, then by order of arrival",
          heap_is_by_time_then_by_order, NULL, NULL, NULL },
    };

    return cmocka_run_group_tests_name("mock ring", tests, NULL, NULL);
}
