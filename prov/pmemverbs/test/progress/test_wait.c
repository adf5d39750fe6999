/* SPDX-License-Identifier: BSD-2-Clause */
/* test_wait.c -- who is woken, and that nobody is woken for nothing */
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "agent/agent.h"
#include "objects/cq.h"
#include "progress/ready.h"
#include "test/support/pair.h"

/* wakes -- since the last time that this was asked */
static uint64_t wakes(struct pmv_queue *queue)
{
	uint64_t count;

	return eventfd_read(queue->wake_fd, &count) ? 0 : count;
}

static struct rig *open_rig(struct pmv_queue **queue)
{
	struct rig *rig = rig_open(&(struct rig_options){.wait_obj = FI_WAIT_FD});

	*queue = &pmv_to_cq(rig->cq)->queue;
	return rig;
}

/* An endpoint that waits, and whose answers have come */
static struct {
	struct pmv_waiter waiter;
	struct pmv_queue *queue;
	int answers;
} waiting;

static enum pmv_pending push(struct pmv_waiter *waiter, bool looking)
{
	struct fi_cq_tagged_entry entry = {.op_context = CONTEXT(1)};

	(void) looking;
	cr_assert_eq(waiter, &waiting.waiter);
	for (; waiting.answers; waiting.answers--)
		cr_assert(pmv_queue_add(waiting.queue, pmv_comp_success(waiting.queue, &entry)));
	return PMV_PENDING_ACKS;
}

static void wait_for(struct pmv_queue *queue, int answers)
{
	waiting.queue = queue;
	waiting.answers = answers;
	waiting.waiter.push = push;
	pmv_queue_wait(queue, &waiting.waiter, PMV_PENDING_ACKS);
}

Test(wait, whoever_may_sleep_is_told_of_a_new_wait)
{
	struct pmv_queue *queue;
	struct rig *rig = open_rig(&queue);
	unsigned int armed;

	accepted(pmv_queue_arm(queue));
	wait_for(queue, 0);
	cr_expect_eq(wakes(queue), 1);
	pmv_queue_unwait(queue, &waiting.waiter);

	/* Nobody sleeps any more. */
	accepted(pmv_queue_arm(queue));
	pmv_queue_disarm(queue, atomic_load(&queue->armed));
	wait_for(queue, 0);
	cr_expect_eq(wakes(queue), 0);
	pmv_queue_unwait(queue, &waiting.waiter);

	/* Another one does, since then. */
	accepted(pmv_queue_arm(queue));
	armed = atomic_load(&queue->armed);
	accepted(pmv_queue_arm(queue));
	pmv_queue_disarm(queue, armed);
	wait_for(queue, 0);
	cr_expect_eq(wakes(queue), 1);
	pmv_queue_unwait(queue, &waiting.waiter);
	rig_close(rig);
}

Test(wait, nobody_is_woken_for_what_the_reader_takes_itself)
{
	struct pmv_queue *queue;
	struct rig *rig = open_rig(&queue);
	struct fi_cq_tagged_entry entries[2];

	for (int answers = 1; answers <= 2; answers++) {
		wait_for(queue, answers);
		cr_expect_geq(pmv_queue_arm(queue), 0);
		cr_expect_eq(fi_cq_read(rig->cq, entries, 1), 1);
		/* But for what it leaves. */
		cr_expect_eq(wakes(queue), answers - 1);
		pmv_queue_unwait(queue, &waiting.waiter);
	}
	cr_expect_eq(fi_cq_read(rig->cq, entries, 1), 1);
	/* And for what others add: nobody reads now. */
	accepted(pmv_queue_arm(queue));
	waiting.answers = 1;
	push(&waiting.waiter, false);
	cr_expect_eq(wakes(queue), 1);
	cr_expect_eq(fi_cq_read(rig->cq, entries, 2), 1);
	rig_close(rig);
}

/* It waits for more than whoever sleeps knows, and the reader goes away. */
Test(wait, whoever_may_sleep_is_told_if_a_reader_has_left_more_to_wait_for)
{
	struct pmv_queue *queue;
	struct rig *rig = open_rig(&queue);
	struct fi_cq_tagged_entry entry = {.op_context = CONTEXT(2)};

	for (int entries = 0; entries < 2; entries++) {
		wait_for(queue, 0);
		atomic_store(&queue->pending, PMV_PENDING_FLUSH);
		accepted(pmv_queue_arm(queue));
		if (entries)
			cr_assert(pmv_ready_add(queue, pmv_comp_success(queue, &entry)));
		cr_expect_eq(fi_cq_read(rig->cq, &entry, 1), entries ? 1 : -FI_EAGAIN);
		cr_expect_eq(pmv_queue_pending(queue), PMV_PENDING_ACKS);
		cr_expect_eq(wakes(queue), 1);
		/* Once */
		cr_expect_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAGAIN);
		cr_expect_eq(wakes(queue), 0);
		pmv_queue_unwait(queue, &waiting.waiter);
	}
	rig_close(rig);
}

/* A call that slept leaves nobody asleep, unless others do in a call, or by fi_trywait. */
Test(wait, whoever_comes_back_from_its_sleep_need_not_be_told)
{
	struct pmv_queue *queue;
	struct rig *rig = open_rig(&queue);
	struct fi_cq_tagged_entry entry;

	for (int others = 0; others < 3; others++) {
		/* It sleeps, and has no entry. */
		atomic_store(&queue->sleepers, others == 1);
		if (others == 2)
			accepted(pmv_cq_trywait(pmv_to_cq(rig->cq)));
		cr_expect_eq(fi_cq_sread(rig->cq, &entry, 1, NULL, 1), -FI_EAGAIN);
		atomic_store(&queue->sleepers, 0);
		wakes(queue);
		wait_for(queue, 0);
		cr_expect_eq(wakes(queue), others > 0);
		pmv_queue_unwait(queue, &waiting.waiter);
	}
	rig_close(rig);
}

/* Two slept, and the one that slept last has gone before. */
Test(wait, whoever_leaves_last_need_not_be_told_either)
{
	struct pmv_queue *queue;
	struct rig *rig = open_rig(&queue);
	struct fi_cq_tagged_entry entry;

	accepted(pmv_queue_arm(queue));
	cr_expect_eq(fi_cq_sread(rig->cq, &entry, 1, NULL, 0), -FI_EAGAIN);
	wait_for(queue, 0);
	cr_expect_eq(wakes(queue), 0);
	pmv_queue_unwait(queue, &waiting.waiter);
	rig_close(rig);
}

/* Whoever is about to sleep may take what was to wake another one: it passes that on. */
Test(wait, nobody_keeps_from_others_what_was_to_wake_them)
{
	struct pmv_queue *queue;
	struct rig *rig = open_rig(&queue);
	struct pmv_cq *cq = pmv_to_cq(rig->cq);

	/* An endpoint waits, and somebody has to look for that. */
	accepted(pmv_queue_arm(queue));
	wait_for(queue, 0);
	pmv_queue_hurry(queue, &waiting.waiter);
	refused(pmv_cq_trywait(cq), FI_EAGAIN);
	cr_expect_eq(wakes(queue), 1);
	/* But there is nothing to pass on now. */
	refused(pmv_cq_trywait(cq), FI_EAGAIN);
	cr_expect_eq(wakes(queue), 0);
	pmv_queue_unwait(queue, &waiting.waiter);
	/* A signal */
	accepted(fi_cq_signal(rig->cq));
	refused(pmv_cq_trywait(cq), FI_EAGAIN);
	cr_expect_eq(wakes(queue), 1);
	rig_close(rig);
}
