/* SPDX-License-Identifier: BSD-2-Clause */
/* slices.c -- a target with a region of many slices; slices.h says how it is used */
#include "slices.h"

#include <stdlib.h>
#include <string.h>

struct written_back done;

static void count_flush(const void *addr, size_t len)
{
	void (*on_flush)(void) = done.on_flush;

	(void) addr;
	done.flushed += len;
	if (len > done.most)
		done.most = len;
	if (on_flush)
		on_flush();
}

static void count_drain(void)
{
	done.drains++;
}

static void count_store(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

static int no_touch(void *addr, size_t len)
{
	(void) addr, (void) len;
	return 0;
}

static int count_sync(void *addr, size_t len)
{
	(void) addr;
	done.syncs++;
	done.synced += len;
	return done.on_sync ? done.on_sync() : 0;
}

static const struct pmv_flush_ops counter = {
	.flush = count_flush,
	.drain = count_drain,
	.store = count_store,
	.touch = no_touch,
	.sync = count_sync,
};

struct pmv_region *add_big(struct shared *shared, enum pmv_persist persist, size_t len)
{
	/* Nothing in here touches it. */
	struct iovec iov = {(void *) 0x10000000, len};
	const struct pmv_region_attr attr = {
		.key = BIG_KEY,
		.persist = persist,
		.use = PMV_REGION_REMOTE,
		.iov = &iov,
		.iov_count = 1,
		.needs_agent = true,
	};
	struct pmv_region *region;

	accepted(pmv_agent_add_region(&shared->domain->agent, &attr, -1, &region));
	return region;
}

struct shared *share(enum pmv_persist persist, size_t len, const struct pair_options *options)
{
	struct shared *shared = calloc(1, sizeof(*shared));

	cr_assert_not_null(shared);
	memset(&done, 0, sizeof(done));
	shared->pair = pair_open(options);
	shared->domain = pmv_to_domain(shared->pair->away->domain);
	pmv_flush = &counter;
	shared->region = add_big(shared, persist, len);
	shared->other = pair_join(shared->pair);
	return shared;
}

void end_sharing(struct shared *shared)
{
	if (shared->other)
		accepted(fi_close(&shared->other->ep_fid.fid));
	if (shared->region)
		pmv_agent_remove_region(&shared->domain->agent, shared->region);
	pair_close(shared->pair);
	free(shared);
}

void ask_at(struct pmv_mailbox *mailbox, struct pmv_flush_message *message, uint64_t number)
{
	message->envelope.number = number;
	message_encode(mailbox->link.block + number % PMV_SLOTS * PMV_MESSAGE_SIZE, message,
		       &mailbox->receiver.message_in);
}

void ask(struct shared *shared, struct pmv_flush_message *message)
{
	ask_at(&shared->other->mailbox, message, ++shared->told);
}

void ask_for(struct shared *shared, uint64_t offset, uint64_t len)
{
	ask(shared, &(struct pmv_flush_message){.count = 1, .ranges = {{offset, len, BIG_KEY}}});
}

void tell_of(struct shared *shared, uint64_t offset, uint64_t len)
{
	struct pmv_flush_message message = {.count = PMV_MAX_RANGES};

	for (unsigned int i = 0; i < message.count; i++)
		message.ranges[i] = (struct pmv_range){offset, len, BIG_KEY};
	pair_tell(shared->pair, &message);
}
