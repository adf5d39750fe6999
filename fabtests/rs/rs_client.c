/* SPDX-License-Identifier: BSD-2-Clause */
/* rs_client.c -- the protocol ABD, with several writers; rs.h says why a read asks what is durable
 */
#include "rs_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/random.h>
#include <time.h>

#include "../common/stats.h"

#define PAUSE_NS 50000

/* ---- asking ---- */

bool rs_has_answered(const struct rs_client *client, unsigned int number)
{
	return client->replicas[number].answered == client->asked.number;
}

static bool looks_at(const struct rs_client *client, unsigned int number)
{
	return !client->only || client->only & 1U << number;
}

/* is_answered -- by enough of them; all: nobody is to be waited for who is not away */
static bool is_answered(const struct rs_client *client, unsigned int enough, bool all)
{
	unsigned int answers = 0, missing = 0;

	for (unsigned int i = 0; i < client->count; i++) {
		const struct rs_replica *replica = &client->replicas[i];

		if (rs_has_answered(client, i))
			answers++;
		else if (replica->state == RS_READY)
			missing += rs_replica_concerns(replica, client->asked.what);
	}
	return answers >= enough && (!all || !missing);
}

static void sleep_a_little(const struct rs_client *client)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	if (client->spins)
		sched_yield();
	else
		nanosleep(&pause, NULL);
}

/* tell_late -- which targets have not answered, and why */
static int tell_late(struct rs_client *client)
{
	const char *why = "";

	for (unsigned int i = 0; i < client->count; i++) {
		if (!rs_has_answered(client, i) && client->replicas[i].error.text[0])
			why = client->replicas[i].error.text;
	}
	return explain(&client->error, -FI_ETIMEDOUT, "no majority of the targets has answered; %s",
		       *why ? why : "they are silent");
}

uint64_t rs_blocks(const struct rs_client *client)
{
	uint64_t blocks = 0;

	for (unsigned int i = 0; i < client->count; i++) {
		const struct rs_replica *replica = &client->replicas[i];
		uint64_t slots = replica->state == RS_READY ? replica->buffers->lease.slots : 0;

		if (slots && (!blocks || slots < blocks))
			blocks = slots;
	}
	return blocks;
}

/* wait_for -- answers to what is asked */
static int wait_for(struct rs_client *client, unsigned int enough, bool all)
{
	uint64_t deadline = deadline_in(client->opts->timeout);

	while (!is_answered(client, enough, all)) {
		uint64_t blocks = rs_blocks(client);
		bool changed = false;

		if (blocks && client->asked.block >= blocks)
			return explain(&client->error, -FI_EINVAL, "there are %llu blocks",
				       (unsigned long long) blocks);
		for (unsigned int i = 0; i < client->count; i++) {
			if (looks_at(client, i))
				changed |= rs_replica_poll(&client->replicas[i], &client->asked,
							   &client->record);
		}
		if (now_ns() > deadline)
			return tell_late(client);
		if (!changed)
			sleep_a_little(client);
	}
	return 0;
}

/* pose -- the next question, to which nobody has an answer yet */
static void pose(struct rs_client *client, enum rs_what what, uint64_t block)
{
	client->asked = (struct rs_request){
		.number = client->asked.number + 1,
		.what = what,
		.block = block,
		.writer = client->writer,
	};
}

int rs_ask(struct rs_client *client, enum rs_what what, uint64_t block, unsigned int enough,
	   bool all)
{
	pose(client, what, block);
	return wait_for(client, enough, all);
}

/* ---- the protocol ---- */

int rs_write(struct rs_client *client, unsigned int have)
{
	client->record.check = rs_check(&client->record);
	pose(client, RS_WRITE, client->record.block);
	for (unsigned int i = 0; i < client->count; i++) {
		if (have & 1U << i)
			client->replicas[i].answered = client->asked.number;
	}
	return wait_for(client, rs_majority(client->count), false);
}

/* choose -- the newest record that was read */
static int choose(struct rs_client *client, uint64_t block)
{
	const struct rs_record *best = NULL;

	for (unsigned int i = 0; i < client->count; i++) {
		const struct rs_record *got = &client->replicas[i].buffers->got;

		if (!rs_has_answered(client, i))
			continue;
		if (!rs_is_whole(got, block))
			return explain(&client->error, -FI_EIO,
				       "target %u has a torn record of block %llu", i,
				       (unsigned long long) block);
		if (!best || rs_less(&best->tag, &got->tag))
			best = got;
	}
	/* A majority has answered: it is not empty. */
	if (best)
		client->record = *best;
	return best ? 0 : -FI_EOTHER;
}

/* who_has -- a bit for each target that has this record, or a newer one, durably */
static unsigned int who_has(const struct rs_client *client)
{
	unsigned int have = 0;

	for (unsigned int i = 0; i < client->count; i++) {
		if (rs_has_answered(client, i) &&
		    !rs_less(&client->replicas[i].buffers->durable, &client->record.tag))
			have |= 1U << i;
	}
	return have;
}

int rs_get(struct rs_client *client, uint64_t block)
{
	int ret = rs_ask(client, RS_READ, block, rs_majority(client->count), false);

	if (!ret)
		ret = choose(client, block);
	/* If a majority has it, this asks nobody. */
	return ret ? ret : rs_write(client, who_has(client));
}

int rs_put(struct rs_client *client, uint64_t block)
{
	uint64_t others = 0;
	int ret = rs_ask(client, RS_TAG, block, rs_majority(client->count), false);

	if (ret)
		return ret;
	for (unsigned int i = 0; i < client->count; i++) {
		if (rs_has_answered(client, i) && client->replicas[i].buffers->tag.number > others)
			others = client->replicas[i].buffers->tag.number;
	}
	client->record.tag = rs_next(client->writer, others, client->number);
	if (!client->record.tag.number)
		return explain(&client->error, -FI_EOVERFLOW, "a target has the last of all tags");
	client->record.block = block;
	client->number = client->record.tag.number;
	return rs_write(client, 0);
}

/* ---- opening ---- */

int rs_failed(const struct rs_client *client, int ret)
{
	if (ret)
		fprintf(stderr, "%s\n",
			client->error.text[0] ? client->error.text : fi_strerror(-ret));
	return ret;
}

int rs_open(struct rs_client *client, const struct options *opts)
{
	bool spins = client->spins;
	int ret = 0;

	*client = (struct rs_client){.opts = opts, .count = opts->nhosts, .spins = spins};
	if (getrandom(&client->writer, sizeof(client->writer), 0) != sizeof(client->writer))
		return explain_call(&client->error, "getrandom", -errno);
	/* 0 is nobody. */
	client->writer |= 1;
	for (unsigned int i = 0; i < client->count && !ret; i++) {
		ret = rs_replica_open(&client->replicas[i], opts, i);
		if (ret)
			client->error = client->replicas[i].error;
	}
	return ret;
}

void rs_close(struct rs_client *client)
{
	for (unsigned int i = 0; i < client->count; i++)
		rs_replica_close(&client->replicas[i]);
}
