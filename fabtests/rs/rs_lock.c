/* SPDX-License-Identifier: BSD-2-Clause */
/* rs_lock.c -- lock a majority, read, write, unlock */
#include "rs_lock.h"

#include <stdlib.h>
#include <time.h>

#include "../common/stats.h"

#define PAUSE_NS 20000

static unsigned int count_locked(const struct rs_client *client)
{
	unsigned int locked = 0;

	for (unsigned int i = 0; i < client->count; i++)
		locked += client->replicas[i].locked;
	return locked;
}

static int unlock(struct rs_client *client, uint64_t block)
{
	int ret = rs_ask(client, RS_UNLOCK, block, rs_majority(client->count), true);

	for (unsigned int i = 0; i < client->count; i++)
		client->replicas[i].locked = false;
	return ret;
}

/* lock -- at a majority; who has the others is no matter */
static int lock(struct rs_client *client, uint64_t block)
{
	uint64_t deadline = deadline_in(client->opts->timeout);
	long pause = PAUSE_NS;
	int ret;

	for (;;) {
		ret = rs_ask(client, RS_LOCK, block, rs_majority(client->count), true);
		if (ret || count_locked(client) >= rs_majority(client->count))
			return ret;
		ret = unlock(client, block);
		if (!ret && now_ns() > deadline)
			ret = explain(&client->error, -FI_ETIMEDOUT, "block %llu is locked",
				      (unsigned long long) block);
		if (ret)
			return ret;
		/* Two that wait for each other are not to meet again. */
		nanosleep(&(struct timespec){.tv_nsec = random() % pause}, NULL);
		pause = pause < 100 * PAUSE_NS ? pause * 2 : pause;
	}
}

/* read_places -- *same: all have the same record; client->record: the newest */
static int read_places(struct rs_client *client, uint64_t block, bool *same)
{
	const struct rs_record *best = NULL, *oldest = NULL;
	int ret = rs_ask(client, RS_READ_PLACE, block, rs_majority(client->count), true);

	for (unsigned int i = 0; !ret && i < client->count; i++) {
		const struct rs_replica *replica = &client->replicas[i];
		const struct rs_record *got = &replica->buffers->got;

		if (!replica->locked || !rs_has_answered(client, i))
			continue;
		if (!rs_is_whole(got, block))
			return explain(&client->error, -FI_EIO, "a record is torn");
		if (!best || rs_less(&best->tag, &got->tag))
			best = got;
		if (!oldest || rs_less(&got->tag, &oldest->tag))
			oldest = got;
	}
	if (!best)
		return ret ? ret : explain(&client->error, -FI_ETIMEDOUT, "the locks are gone");
	*same = !rs_less(&oldest->tag, &best->tag);
	client->record = *best;
	return 0;
}

static int write_places(struct rs_client *client)
{
	client->record.check = rs_check(&client->record);
	return rs_ask(client, RS_WRITE_PLACE, client->record.block, rs_majority(client->count),
		      true);
}

/* finish -- also after an error, if it was not the unlocking */
static int finish(struct rs_client *client, uint64_t block, int ret)
{
	int unlocked = unlock(client, block);

	return ret ? ret : unlocked;
}

int rs_lock_get(struct rs_client *client, uint64_t block)
{
	bool same = false;
	int ret = lock(client, block);

	if (ret)
		return ret;
	ret = read_places(client, block, &same);
	if (!ret && !same)
		ret = write_places(client);
	return finish(client, block, ret);
}

int rs_lock_put(struct rs_client *client, uint64_t block)
{
	struct rs_record put = client->record;
	bool same;
	int ret = lock(client, block);

	if (ret)
		return ret;
	ret = read_places(client, block, &same);
	if (!ret) {
		put.block = block;
		put.tag = rs_next(client->writer, client->record.tag.number, client->number);
		client->number = put.tag.number;
		client->record = put;
		ret = write_places(client);
	}
	return finish(client, block, ret);
}
