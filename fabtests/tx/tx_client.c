/* SPDX-License-Identifier: BSD-2-Clause */
/* tx_client.c -- the protocol on chains: read, prepare, install; tx.h says why that is right */
#include "tx_client.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common/stats.h"
#include "../kv/kv_chain.h"
#include "tx_chain.h"

#define PAUSE_NS 20000L
#define PATIENCE_MS 20 /* with somebody who is prepared, before he is stopped */

/* ---- both protocols ---- */

int tx_connect(struct tx_client *client, const struct options *opts,
	       const struct tx_protocol *protocol)
{
	bool spins = client->link.spins;

	*client = (struct tx_client){.protocol = protocol};
	client->link.spins = spins;
	client->link.opts = opts;
	return protocol->open(client);
}

void tx_disconnect(struct tx_client *client)
{
	if (client->protocol)
		client->protocol->close(client);
}

int tx_read(struct tx_client *client, uint64_t key, struct tx_access **access)
{
	uint64_t keys = client->link.buffers->lease.slots;
	int ret;

	if (key >= keys)
		return explain(&client->link.error, -FI_EINVAL, "there are %llu keys",
			       (unsigned long long) keys);
	*access = &client->accesses[client->count];
	**access = (struct tx_access){.key = key};
	ret = client->protocol->read(client, *access);
	client->count += !ret;
	return ret;
}

int tx_commit(struct tx_client *client)
{
	return client->protocol->commit(client);
}

void tx_pause(unsigned int tries)
{
	long most = PAUSE_NS << (tries < 6 ? tries : 6);

	nanosleep(&(struct timespec){.tv_nsec = random() % most}, NULL);
}

/* ---- execution ---- */

static bool same(const struct rs_tag *one, const struct rs_tag *other)
{
	return one->writer == other->writer && one->number == other->number;
}

int tx_look(struct tx_client *client, struct tx_access *access)
{
	int ret = kv_run(&client->link, tx_make_look(client, access));

	if (!ret && !tx_is_whole(&access->record, access->key))
		ret = explain(&client->link.error, -FI_EIO, "the record of key %llu is torn",
			      (unsigned long long) access->key);
	return ret;
}

/* stop_other -- who is prepared to write a key; if his commit has begun it will end */
static int stop_other(struct tx_client *client, const struct tx_access *access)
{
	struct rs_tag stamp = access->slot.pw;
	struct tx_running was;
	int ret = kv_run(&client->link, tx_make_stop(client, &stamp, &was));

	/* A stamp is in a stage before it is in a slot.  If another one is there it is over. */
	if (ret || (was.busy && same(&was.stamp, &stamp)))
		return ret;
	return kv_run(&client->link, tx_make_clear(client, access->key, &stamp));
}

static int read_key(struct tx_client *client, struct tx_access *access)
{
	uint64_t start = now_ns(), deadline = deadline_in(client->link.opts->timeout);
	struct rs_tag pending = {0};
	int ret = tx_look(client, access);

	for (unsigned int tries = 0; !ret; tries++) {
		const struct tx_slot *slot = &access->slot;

		if (same(&slot->pw, &slot->committed) &&
		    same(&access->record.stamp, &slot->committed))
			return 0;
		if (now_ns() > deadline)
			return explain(&client->link.error, -FI_ETIMEDOUT,
				       "a commit of key %llu does not end; if the target's disk "
				       "has failed, start the target again",
				       (unsigned long long) access->key);
		if (!same(&slot->pw, &pending)) {
			pending = slot->pw;
			start = now_ns();
		} else if (ms_since(start) >= PATIENCE_MS) {
			ret = stop_other(client, access);
		}
		tx_pause(tries);
		if (!ret)
			ret = tx_look(client, access);
	}
	return ret;
}

/* ---- prepare ---- */

/* take_stamp -- a poisoned key may have the last one: nobody can write that any more */
static int take_stamp(struct tx_client *client)
{
	uint64_t seen = client->stamp.number;
	struct timespec now;
	struct rs_tag stamp;

	for (unsigned int i = 0; i < client->count; i++) {
		const struct tx_slot *slot = &client->accesses[i].slot;

		if (slot->committed.number > seen)
			seen = slot->committed.number;
		if (slot->pr.number > seen)
			seen = slot->pr.number;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	stamp = tx_stamp(client->link.buffers->lease.client, seen,
			 (uint64_t) now.tv_sec * 1000000000U + (uint64_t) now.tv_nsec);
	if (!stamp.number)
		return explain(&client->link.error, -FI_EOVERFLOW,
			       "a key has the last of all stamps");
	client->stamp = stamp;
	return 0;
}

static int undo(struct tx_client *client)
{
	size_t count = tx_make_undo(client);
	int ret = count ? kv_run(&client->link, count) : 0;

	return ret ? ret : -FI_EAGAIN;
}

/* is_valid -- a key that is only read need not be changed if pr was greater already */
static bool is_valid(const struct tx_client *client, const struct tx_access *access)
{
	uint32_t status = client->link.steps[access->step].status;

	return !status || (!access->writes && status == FI_PMEMVERBS_STEP_FAILED &&
			   same(&access->was.pw, &access->slot.committed));
}

int tx_prepare(struct tx_client *client)
{
	bool valid = true;
	int ret = take_stamp(client);

	if (!ret)
		ret = kv_run(&client->link, tx_make_prepare(client));
	if (ret)
		return ret;
	for (unsigned int i = 0; i < client->count; i++) {
		struct tx_access *access = &client->accesses[i];

		access->prepared = access->writes && !client->link.steps[access->step].status;
		valid = valid && is_valid(client, access);
	}
	return valid ? 0 : undo(client);
}

/* ---- commit ---- */

/* name_others -- in a record, which goes to the client's own buffer of that number */
static void name_others(const struct tx_client *client, struct tx_record *record,
			unsigned int number)
{
	unsigned int other = 0, named = 0;

	for (unsigned int i = 0; i < client->count; i++) {
		const struct tx_access *access = &client->accesses[i];

		if (!access->writes)
			continue;
		if (other != number)
			record->others[named++] = (struct tx_other){
				access->key, client->own[other] - client->own[number]};
		other++;
	}
	for (; named < TX_KEYS - 1; named++)
		record->others[named] = (struct tx_other){0};
}

int tx_send(struct tx_client *client, unsigned int *count)
{
	uint64_t key = client->link.buffers->lease.key;
	int ret = 0;

	*count = 0;
	for (unsigned int i = 0; i < client->count && !ret; i++) {
		const struct tx_access *access = &client->accesses[i];
		struct tx_record *put = &tx_buffers(client)->put[*count];

		if (!access->writes)
			continue;
		*put = access->record;
		put->stamp = client->stamp;
		name_others(client, put, *count);
		put->check = tx_check(put);
		ret = kv_post_write(&client->link, put, sizeof(*put), client->own[*count], key, 0);
		++*count;
	}
	return ret;
}

int tx_install(struct tx_client *client)
{
	const struct fi_pmemverbs_step *steps = client->link.steps;
	unsigned int written;
	int ret = tx_send(client, &written);

	/* A transaction that has only read is over. */
	if (ret || !written)
		return ret;
	ret = kv_run(&client->link, tx_make_install(client));
	if (ret)
		return ret;
	if (steps[0].status)
		return undo(client);
	for (unsigned int i = 1; i <= 2 * written + 1; i++) {
		if (steps[i].status)
			return explain(&client->link.error, -FI_EIO,
				       "somebody else has changed what was prepared");
	}
	memcpy(client->own, client->left, written * sizeof(*client->own));
	return 0;
}

static int commit(struct tx_client *client)
{
	int ret = client->count ? tx_prepare(client) : 0;

	return ret ? ret : tx_install(client);
}

/* ---- connections ---- */

/* take_own -- a buffer; one that was given back may have to wait for chains that are under way */
static int take_own(struct tx_client *client, unsigned int number)
{
	uint64_t deadline = deadline_in(client->link.opts->timeout);
	int ret;

	do {
		ret = kv_run(&client->link, tx_make_own(client, number));
		if (ret || !client->link.steps[1].status)
			return ret;
		tx_pause(number);
	} while (now_ns() < deadline);
	return explain(&client->link.error, -FI_ENOSPC, "no buffer is free");
}

static int open_chains(struct tx_client *client)
{
	const struct kv_dialect dialect = {TX_HELLO, TX_MAGIC, sizeof(struct tx_buffers)};
	int ret = kv_connect_to(&client->link, client->link.opts, &dialect);

	for (unsigned int i = 0; i < TX_KEYS && !ret; i++)
		ret = take_own(client, i);
	return ret;
}

static void close_chains(struct tx_client *client)
{
	kv_disconnect(&client->link);
}

const struct tx_protocol tx_chains = {
	.name = "chains",
	.open = open_chains,
	.read = read_key,
	.commit = commit,
	.close = close_chains,
};
