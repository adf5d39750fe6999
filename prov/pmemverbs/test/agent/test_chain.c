/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_chain.c -- chains among others: what is atomic, who waits for whom, and who is gone
 *
 * What the steps do is in objects/test_chain_ops.c.
 */
#include "disks.h"

#include <errno.h>
#include <string.h>

#include "agent/chain_message.h"

#define SLOT 3
#define BUFFER 1024

/* A chain that is written by hand. */

static struct pmv_chain_step at(struct pair *target, uint8_t kind, enum pair_memory memory,
				size_t offset, uint16_t flags)
{
	static const uint8_t zeros[32], ones[32] = {1, 1, 1, 1, 1, 1, 1, 1};
	struct pmv_range place = pair_range(target, memory, offset, 8);
	struct pmv_chain_step step = {.head = {.kind = kind,
					       .len = 8,
					       .addr = place.addr,
					       .key = (uint32_t) place.key,
					       .flags = flags}};

	if (kind != PMV_CHAIN_READ)
		step.operand = ones;
	if (kind == PMV_CHAIN_COMPARE_SWAP)
		step.expected = zeros;
	return step;
}

static struct pmv_flush_message message_of(struct pmv_chain *chain)
{
	struct pmv_flush_message message = {.count = 1, .store = true, .chain = true};

	chain->reply = SLOT;
	message.ranges[0].len =
		pmv_chain_encode((uint8_t *) (message.ranges + 1), PMV_STORE_ROOM(1), chain);
	cr_assert_neq(message.ranges[0].len, 0);
	return message;
}

static void tell_chain(struct pair *target, struct pmv_chain *chain)
{
	struct pmv_flush_message message = message_of(chain);

	pair_tell(target, &message);
}

/* The lock */

static char held[64];

/* note_lock -- 1: whoever is about to do something to memory holds it */
static void note_lock(void *arg)
{
	pthread_mutex_t *lock = arg;
	int busy = pthread_mutex_trylock(lock) == EBUSY;

	if (!busy)
		pthread_mutex_unlock(lock);
	held[strlen(held)] = busy ? '1' : '0';
}

static void watch_lock(struct pair *target)
{
	memset(held, 0, sizeof(held));
	target->on_event = note_lock;
	target->on_event_arg = &pair_agent(target)->regions.chains.lock;
}

/* Nobody else can execute a step, or store data, between the comparison and the swap. */
Test(chain_lock, is_held_by_a_step_and_by_no_flush)
{
	struct pair *target = pair_open(NULL);
	struct pmv_chain chain = {
		.count = 3,
		.steps = {at(target, PMV_CHAIN_COMPARE_SWAP, DMP, 0, 0),
			  at(target, PMV_CHAIN_FETCH_ADD, DMP, 8, PMV_CHAIN_COMMIT),
			  at(target, PMV_CHAIN_WRITE, DMP, 16, PMV_CHAIN_COMMIT)},
	};

	watch_lock(target);
	tell_chain(target, &chain);
	pair_serve(target);
	expect_done(target, "S F D S F D S F D K");
	cr_expect_str_eq(held, "1001001000");
	target->on_event = NULL;
	pair_close(target);
}

/* Also where there are no chains: who closes the endpoint waits for it. */
Test(chain_lock, is_held_by_a_store_and_by_no_flush)
{
	struct pair *target = pair_open(NULL);
	struct pmv_flush_message message = {
		.count = 1, .store = true, .ranges = {pair_range(target, DMP, 0, 8)}};

	watch_lock(target);
	pair_tell(target, &message);
	pair_serve(target);
	expect_done(target, "S F D K");
	cr_expect_str_eq(held, "1000");
	target->on_event = NULL;
	pair_close(target);
}

/* Slices */

Test(chain_slice, of_a_round_has_few_commits)
{
	struct pair *target = pair_open(NULL);
	struct pmv_receiver *receiver = &target->to->mailbox.receiver;
	struct pmv_chain chain = {.count = 16};

	for (int commits = 0; commits < 2; commits++) {
		for (unsigned int i = 0; i < 16; i++)
			chain.steps[i] = at(target, PMV_CHAIN_WRITE, DMP, 64 * i,
					    commits ? PMV_CHAIN_COMMIT : 0);
		/* 32 bytes a step are too many for one message. */
		chain.count = 13;
		for (int i = 0; i < 4; i++)
			tell_chain(target, &chain);
		pair_serve(target);
		/* 14 commits of 16, and those of one more chain. */
		cr_expect_eq(receiver->served, commits ? 4 + 2 : 4);
		pair_serve(target);
		cr_expect_eq(receiver->served, commits ? 8 : 4);
	}
	pair_close(target);
}

Test(chain_slice, of_a_round_has_few_syncs)
{
	struct pair *target = pair_open(NULL);
	struct pmv_receiver *receiver = &target->to->mailbox.receiver;
	struct pmv_chain chain = {.count = 13};

	for (unsigned int i = 0; i < 13; i++)
		chain.steps[i] =
			at(target, PMV_CHAIN_WRITE, i ? DMP : PAGE, 64 * i, PMV_CHAIN_COMMIT);
	for (int i = 0; i < 4; i++)
		tell_chain(target, &chain);
	pair_serve(target);
	cr_expect_eq(receiver->served, 2);
	pair_close(target);
}

/* large -- a READ into the peer's memory */
static struct pmv_chain_step large(struct pair *target, enum pair_memory memory, unsigned int len)
{
	struct pmv_chain_step step = at(target, PMV_CHAIN_READ, memory, 0, PMV_CHAIN_LARGE);

	step.head.len = len & 0xffffff;
	step.result_key = 0x4711;
	return step;
}

/* A peer that names one slot for all of them has nothing of it, and nobody else is held up. */
Test(chain_slice, of_a_round_has_few_large_results)
{
	struct pair *target = pair_open(NULL);
	struct pmv_receiver *receiver = &target->to->mailbox.receiver;
	struct pmv_chain chain = {.count = 1, .steps = {large(target, DMP, PMV_CHAIN_LARGE_ROOM)}};

	for (int i = 0; i < 6; i++)
		tell_chain(target, &chain);
	pair_serve(target);
	cr_expect_eq(receiver->served, 4);
	pair_serve(target);
	cr_expect_eq(receiver->served, 6);
	chain.steps[0] = large(target, DMP, 4096);
	for (int i = 0; i < 6; i++)
		tell_chain(target, &chain);
	pair_serve(target);
	cr_expect_eq(receiver->served, 12);
	pair_close(target);
}

/* Messages */

Test(chain_mailbox, ends_with_a_malformed_chain)
{
	struct pair *target = pair_open(NULL);
	struct pmv_chain chain = {.count = 1, .steps = {at(target, PMV_CHAIN_WRITE, DMP, 0, 0)}};

	for (int what = 0; what < 6; what++) {
		struct pmv_flush_message message = message_of(&chain);

		message.ranges[0].addr = what == 0;
		message.ranges[0].key = what == 1;
		message.notify = what == 2;
		message.event = what == 3 ? PMV_EVENT_WRITE : PMV_EVENT_NONE;
		if (what == 4)
			message.ranges[0].len--;
		if (what == 5)
			((uint8_t *) (message.ranges + 1))[0]++;
		cr_expect(!pmv_flush_message_is_valid(&message), "%d", what);
	}
	/* The length of the envelope counts as well. */
	for (int more = -1; more <= 1; more++) {
		struct pmv_flush_message message = message_of(&chain);

		message.envelope.len =
			(uint16_t) (pmv_flush_message_len(1) + message.ranges[0].len + more);
		cr_expect_eq(pmv_flush_message_is_valid(&message), !more);
	}
	chain.steps[0].head.to = 1;
	tell_chain(target, &chain);
	pair_serve(target);
	expect_done(target, "K");
	pair_expect_ack(target, 1, PMV_FAULT_MESSAGE);
	pair_close(target);
}

/* Beside the agent's thread, while a disk is busy */

static void ask_chain(int peer, struct pmv_chain *chain)
{
	struct pmv_flush_message message = message_of(chain);

	ask(peer, &message);
}

/* status_of -- the reply that the peer was sent last */
static uint8_t status_of(int peer, unsigned int step)
{
	const struct pmv_mailbox *mailbox = &peers[peer]->mailbox;
	const struct pmv_ack *ack =
		(const struct pmv_ack *) (mailbox->link.outbox +
					  pmv_ack_at(mailbox->receiver.posted_acks));
	struct pmv_reply_step steps[PMV_CHAIN_STEPS];

	cr_assert_eq(ack->done, asked[peer]);
	cr_assert_gt(ack->reply_len, step * sizeof(steps[0]));
	memcpy(steps, ack->reply, ack->reply_len);
	return steps[step].status;
}

/* begin_chain -- the first peer's waits for a disk in the middle */
static void begin_chain(void)
{
	struct pmv_chain chain = {
		.count = 2,
		.steps = {at(pair, PMV_CHAIN_WRITE, PAGE, 0, 0),
			  at(pair, PMV_CHAIN_WRITE, DMP, 0, PMV_CHAIN_COMMIT)},
	};

	hold(PAGE, true);
	ask_chain(0, &chain);
	await_begun(PAGE, 1);
}

Test(chain_beside, waits_for_its_disk_and_keeps_nobody_out, .timeout = 60)
{
	struct pmv_chain other = {.count = 1};

	open_target();
	begin_chain();
	cr_expect_eq(pair->memory[PAGE][0], 1);
	cr_expect_eq(pair->memory[DMP][0], 0, "it did not wait for its commit");
	other.steps[0] = at(pair, PMV_CHAIN_FETCH_ADD, DMP, 64, 0);
	for (int i = 0; i < 5; i++) {
		ask_chain(1, &other);
		await_end(1);
		cr_expect_eq(status_of(1, 0), PMV_CHAIN_OK);
	}
	cr_expect_eq(pair->memory[DMP][64], 5);
	cr_expect_eq(look_at(0).acks, 0);
	end_sync();
	cr_expect_eq(status_of(0, 1), PMV_CHAIN_OK);
	cr_expect_eq(pair->memory[DMP][0], 1);
	close_target();
}

Test(chain_beside, goes_on_to_no_step_after_an_error, .timeout = 60)
{
	open_target();
	begin_chain();
	set_error(PAGE, -FI_EIO);
	end_sync();
	cr_expect_eq(look_at(0).faulted, 1);
	cr_expect_eq(status_of(0, 0), PMV_CHAIN_OK);
	cr_expect_eq(status_of(0, 1), PMV_CHAIN_LOST);
	cr_expect_eq(pair->memory[DMP][0], 0);
	close_target();
}

/* Its peer may have written there since, on another connection. */
Test(chain_beside, goes_on_to_no_step_when_its_endpoint_is_closed, .timeout = 60)
{
	open_target();
	begin_chain();
	accepted(fi_close(&peers[0]->ep_fid.fid));
	peers[0] = NULL;
	hold(PAGE, false);
	/* The same disk's next group comes behind it. */
	ask_for(1, PAGE, 64);
	await_end(1);
	cr_expect_eq(pair->memory[DMP][0], 0);
	close_target();
}

/* It has memory for large results, which nobody else frees. */
Test(chain_beside, ends_behind_its_endpoint, .timeout = 60)
{
	struct pmv_chain chain = {.count = 3};

	open_target();
	chain.steps[0] = at(pair, PMV_CHAIN_WRITE, PAGE, 0, 0);
	chain.steps[1] = large(pair, PAGE, 60000);
	chain.steps[2] = at(pair, PMV_CHAIN_WRITE, DMP, 0, PMV_CHAIN_COMMIT);
	hold(PAGE, true);
	ask_chain(0, &chain);
	await_begun(PAGE, 1);
	accepted(fi_close(&peers[0]->ep_fid.fid));
	peers[0] = NULL;
	hold(PAGE, false);
	ask_chain(1, &chain);
	await_end(1);
	cr_expect_eq(status_of(1, 1), PMV_CHAIN_OK);
	close_target();
}

/* is_in_group -- a peer's request was taken: is it in a group? */
static bool is_in_group(int peer)
{
	struct seen seen;

	do {
		seen = look_at(peer);
		sched_yield();
	} while (seen.served < asked[peer]);
	return seen.syncing;
}

/* All that a chain may use is looked at, by each of its keys. */
static struct pmv_chain_step uses_page(unsigned int how, uint16_t flags)
{
	struct pmv_range page = pair_range(pair, PAGE, 0, 8);
	struct pmv_chain_step step = at(pair, PMV_CHAIN_WRITE, how ? DMP : PAGE, 0, flags);

	if (how == 1) { /* a pointer of 0 */
		step.head.flags |= PMV_CHAIN_INDIRECT;
		step.head.to_key = (uint32_t) page.key;
	} else if (how == 2) {
		step.head.flags |= PMV_CHAIN_FROM_MEMORY;
		step.operand = NULL;
		step.from_addr = page.addr;
		step.from_key = (uint32_t) page.key;
	}
	return step;
}

/* Its steps may wait for pages of the disk, also if nothing is synced for it. */
Test(chain_beside, belongs_to_the_disk_of_all_that_it_uses, .timeout = 60)
{
	for (unsigned int how = 0; how < 3; how++) {
		for (int commits = 0; commits < 2; commits++) {
			struct pmv_chain chain = {.count = 1};

			open_target();
			chain.steps[0] = uses_page(how, commits ? PMV_CHAIN_COMMIT : 0);
			begin_sync(PAGE);
			ask_chain(1, &chain);
			cr_expect(is_in_group(1), "%u, %d", how, commits);
			end_sync();
			await_end(1);
			cr_expect_eq(status_of(1, 0), how == 1 ? PMV_CHAIN_NULL : PMV_CHAIN_OK);
			close_target();
			memset(asked, 0, sizeof(asked));
		}
	}
}

/* A lost region fails a chain only where the chain uses it, or promises something of it. */
Test(chain_beside, does_not_fail_for_what_it_does_not_promise, .timeout = 60)
{
	struct pmv_chain chain = {.count = 1};

	open_target();
	set_error(PAGE, -FI_EIO);
	ask_for(0, PAGE, 0);
	await_end(0);
	cr_expect_eq(look_at(0).faulted, 1);
	chain.steps[0] = uses_page(1, 0);
	ask_chain(1, &chain);
	await_end(1);
	cr_expect_eq(look_at(1).faulted, 0);
	chain.steps[0] = uses_page(1, PMV_CHAIN_COMMIT);
	ask_chain(1, &chain);
	await_end(1);
	cr_expect_eq(look_at(1).faulted, 2);
	close_target();
}

static int stores_apart, stores;

static void note_store(void)
{
	pthread_mutex_t *lock = &pair_agent(pair)->regions.chains.lock;

	stores++;
	if (pthread_mutex_trylock(lock) == EBUSY)
		stores_apart++;
	else
		pthread_mutex_unlock(lock);
}

/* The agent's thread may execute chains while a disk's thread stores data. */
Test(chain_beside, steps_are_atomic_against_stores_of_disks, .timeout = 60)
{
	struct pmv_flush_message message;

	open_target();
	watch_stores(note_store);
	message = (struct pmv_flush_message){
		.count = 2,
		.store = true,
		.ranges = {pair_range(pair, PAGE, 0, 8), pair_range(pair, DMP, 0, 8)}};
	ask(0, &message);
	await_end(0);
	watch_stores(NULL);
	cr_expect_eq(stores, 1);
	cr_expect_eq(stores_apart, 1);
	close_target();
}

/* What the chain that waits may have seen is not given out. */
Test(chain_beside, buffers_wait_for_chains_under_way, .timeout = 60)
{
	struct fi_pmemverbs_chain_ops *ops;
	struct fi_pmemverbs_list *list;
	struct pmv_chain allocate = {.count = 1}, give = {.count = 1};

	open_target();
	accepted(fi_open_ops(&pair->away->domain->fid, FI_PMEMVERBS_CHAIN_OPS, 0, (void **) &ops,
			     NULL));
	accepted(ops->list_open(pair->mr[DMP], BUFFER, 64, 1, &list));
	allocate.steps[0] = at(pair, PMV_CHAIN_ALLOCATE, DMP, 0, 0);
	allocate.steps[0].head.addr = 0;
	allocate.steps[0].head.to_key = list->number;
	give.steps[0] = (struct pmv_chain_step){.head = {.kind = PMV_CHAIN_FREE,
							 .addr = list->addr,
							 .key = allocate.steps[0].head.key,
							 .to_key = list->number}};
	begin_chain();
	ask_chain(1, &give);
	await_end(1);
	cr_expect_eq(status_of(1, 0), PMV_CHAIN_OK);
	for (int i = 0; i < 3; i++) {
		ask_chain(1, &allocate);
		await_end(1);
		cr_expect_eq(status_of(1, 0), PMV_CHAIN_EMPTY);
	}
	end_sync();
	ask_chain(1, &allocate);
	await_end(1);
	cr_expect_eq(status_of(1, 0), PMV_CHAIN_OK);
	cr_expect_eq(pair->memory[DMP][BUFFER], 1);
	accepted(ops->list_close(list));
	close_target();
}

/* Pages that a disk has to read */

static bool faults_held;
static int faults; /* under way */

void __real_pmv_region_fault_in(const struct pmv_region *region, uint64_t offset, uint64_t len,
				bool writes);
void __wrap_pmv_region_fault_in(const struct pmv_region *region, uint64_t offset, uint64_t len,
				bool writes);

void __wrap_pmv_region_fault_in(const struct pmv_region *region, uint64_t offset, uint64_t len,
				bool writes)
{
	pthread_mutex_lock(&disk.lock);
	if (region->attr.persist == PMV_PAGE && len) {
		faults++;
		pthread_cond_broadcast(&disk.changed);
		while (faults_held)
			pthread_cond_wait(&disk.changed, &disk.lock);
		faults--;
	}
	pthread_mutex_unlock(&disk.lock);
	__real_pmv_region_fault_in(region, offset, len, writes);
}

static void hold_faults(bool on)
{
	pthread_mutex_lock(&disk.lock);
	faults_held = on;
	pthread_cond_broadcast(&disk.changed);
	pthread_mutex_unlock(&disk.lock);
}

static void await_fault(void)
{
	pthread_mutex_lock(&disk.lock);
	while (!faults)
		pthread_cond_wait(&disk.changed, &disk.lock);
	pthread_mutex_unlock(&disk.lock);
}

/* use_page -- the first peer's chain, or its data */
static void use_page(unsigned int how, struct fi_pmemverbs_list *list)
{
	struct pmv_chain chain = {.count = 1};
	struct pmv_chain_step *step = &chain.steps[0];

	*step = uses_page(how, PMV_CHAIN_COMMIT);
	if (how == 3) {
		step->head.flags |= PMV_CHAIN_INDIRECT;
		step->head.addr = pair_addr(pair, PAGE, 0);
		step->head.to_key = step->head.key;
		step->head.key = (uint32_t) pair_key(pair, PAGE);
	} else if (how == 4) {
		step->head.kind = PMV_CHAIN_ALLOCATE;
		step->head.addr = 0;
		step->head.key = (uint32_t) list->key;
		step->head.to_key = list->number;
	}
	if (how < 5)
		ask_chain(0, &chain);
	else
		ask(0, &(struct pmv_flush_message){.count = 1,
						   .store = true,
						   .ranges = {pair_range(pair, PAGE, 0, 8)}});
}

/* Neither steps of others nor their data, nor the application, wait for the disk. */
Test(chain_beside, waits_for_pages_and_keeps_nobody_out, .timeout = 60)
{
	struct fi_pmemverbs_chain_ops *ops;
	struct fi_pmemverbs_list *list;
	struct pmv_chain other = {.count = 1};

	open_target();
	accepted(fi_open_ops(&pair->away->domain->fid, FI_PMEMVERBS_CHAIN_OPS, 0, (void **) &ops,
			     NULL));
	accepted(ops->list_open(pair->mr[PAGE], BUFFER, 64, 1, &list));
	accepted(ops->list_put(list, list->addr));
	other.steps[0] = at(pair, PMV_CHAIN_FETCH_ADD, DMP, 64, 0);
	for (unsigned int how = 0; how < 6; how++) {
		uint64_t to = pair_addr(pair, how == 3 ? DMP : PAGE, 512);

		memcpy(pair->memory[how == 3 ? PAGE : DMP], &to, sizeof(to));
		hold_faults(true);
		use_page(how, list);
		await_fault();
		ask_chain(1, &other);
		await_end(1);
		ask(1, &(struct pmv_flush_message){.count = 1,
						   .store = true,
						   .ranges = {pair_range(pair, DMP, 128, 8)}});
		await_end(1);
		cr_expect_eq(ops->list_num_free(list), how <= 4);
		cr_expect_eq(look_at(0).acks, how);
		hold_faults(false);
		await_end(0);
		if (how < 5)
			cr_expect_eq(status_of(0, 0), PMV_CHAIN_OK, "%u", how);
	}
	accepted(ops->list_close(list));
	close_target();
}

/* Nothing of what is there changes. */
Test(chain, pages_are_faulted_in_as_they_are)
{
	struct pair *target = pair_open(NULL);
	struct pmv_region *region =
		pmv_region_find(&pair_agent(target)->regions, (uint32_t) pair_key(target, PAGE));
	static char before[PAIR_SIZE];

	for (int i = 0; i < PAIR_SIZE; i++)
		before[i] = target->memory[PAGE][i] = (char) i;
	for (int writes = 0; writes < 2; writes++) {
		pmv_region_fault_in(region, 1, PAIR_SIZE - 1, writes);
		cr_expect_eq(memcmp(before, target->memory[PAGE], PAIR_SIZE), 0);
	}
	pmv_region_put(&pair_agent(target)->regions, region);
	pair_close(target);
}
