/* SPDX-License-Identifier: BSD-2-Clause */
/* connect.c -- connections of an initiator, which live for some rounds; see initiator.c */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "memory/key.h"
#include "test/support/dice.h"
#include "../common/stats.h"
#include "initiator.h"

static void close_link(struct link *link)
{
	conn_close(&link->conn);
	CLOSE(link->cntr);
	link->cntr = NULL;
}

static void disconnect(struct link *link)
{
	struct initiator *initiator = link->initiator;

	pthread_mutex_lock(&initiator->lock);
	if (!stress.rdm)
		fi_shutdown(link->conn.ep, 0);
	close_link(link);
	pthread_mutex_unlock(&initiator->lock);
	link->open = false;
}

/* create -- an endpoint, with what it counts by */
static int create(struct link *link)
{
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
	struct node *node = &link->initiator->node;
	int ret = link->counts ? fi_cntr_open(node->domain, &cntr_attr, &link->cntr, NULL) : 0;
	struct conn_attr attr = {
		.format = FI_CQ_FORMAT_DATA,
		.wait = FI_WAIT_NONE,
		.selective = true,
		.av = link->initiator->av,
		.write_cntr = link->cntr,
		.read_cntr = link->counts_reads ? link->cntr : NULL,
	};

	atomic_store(&link->value, 0);
	return ret ? ret : conn_create(&link->conn, node, node->info, &attr);
}

/* try_to_connect -- once; false: nobody listens yet */
static bool try_to_connect(struct link *link)
{
	const struct node *node = &link->initiator->node;
	uint64_t deadline = deadline_in(stress.opts.timeout);
	uint32_t number = link->slot;
	int ret;

	pthread_mutex_lock(&link->initiator->lock);
	atomic_store(&link->connected, false);
	atomic_store(&link->down, false);
	ret = create(link);
	if (!ret)
		ret = fi_connect(link->conn.ep, node->info->dest_addr, &number, sizeof(number));
	if (ret)
		stress_fail("connection %u can't be made: %s", link->slot, fi_strerror(-ret));
	while (!atomic_load(&link->connected) && !atomic_load(&link->down) && now_ns() < deadline)
		hear(link->initiator);
	if (!atomic_load(&link->connected))
		close_link(link);
	pthread_mutex_unlock(&link->initiator->lock);
	return atomic_load(&link->connected);
}

/* try_to_ask -- the same for FI_EP_RDM; other links of the process go on meanwhile */
static bool try_to_ask(struct link *link)
{
	const struct timespec moment = {.tv_nsec = 100000};
	struct slot *slot = &world->slots[link->slot];
	unsigned int asked = atomic_fetch_add(&slot->asked, 1) + 1;
	uint64_t deadline = deadline_in(stress.opts.timeout);
	int ret = 0;

	while (atomic_load(&slot->granted) != asked) {
		if (now_ns() > deadline)
			return false;
		nanosleep(&moment, NULL);
	}
	pthread_mutex_lock(&link->initiator->lock);
	ret = create(link);
	if (!ret && fi_av_insert(link->initiator->av, slot->name, 1, &link->peer, 0, NULL) != 1)
		ret = -FI_EINVAL;
	pthread_mutex_unlock(&link->initiator->lock);
	if (ret)
		stress_fail("connection %u can't be made: %s", link->slot, fi_strerror(-ret));
	return true;
}

/* look_at_key -- is what survives what was written back?  FI_EP_RDM has no queries. */
static void look_at_key(struct link *link)
{
	struct pmv_attr attr;

	if (!pmv_key_unpack(world->slots[link->slot].key[0], &attr))
		stress_fail("a key does not describe the memory");
	atomic_store(&world->shadowed,
		     attr.persist == PMV_PAGE || (attr.persist == PMV_DMP && attr.ddio));
	/* The target's processor executes them, and the data are in its caches then. */
	link->sums_commit = attr.persist != PMV_PAGE && attr.persist != PMV_DMP && !stress.relaxed;
}

/* has_atomics -- FI_EP_RDM can't commit all of them by itself: see fi_pmemverbs_unmodified(7) */
static bool has_atomics(const struct link *link)
{
	bool alone = link->sums_commit || (!link->cntr && !stress.relaxed);

	return link->initiator->atomics && (alone || !stress.commit_all);
}

/* look -- the same by a query */
static void look(struct link *link)
{
	struct slot *slot = &world->slots[link->slot];
	struct fi_pmemverbs_region region = {0};
	struct fi_pmemverbs_ops *ops;
	int ret = fi_open_ops(&link->initiator->node.domain->fid, FI_PMEMVERBS_OPS, 0,
			      (void **) &ops, NULL);

	if (!ret)
		ret = ops->query_key(link->conn.ep, slot->key[0], &region);
	if (ret || region.method == FI_PMEMVERBS_REFUSED)
		stress_fail("nobody can commit to this memory: %s", fi_strerror(-ret));
	/* Where writes may be reordered, the agent also waits for memory that needs no write-back.
	 */
	atomic_store(&world->shadowed,
		     region.method == FI_PMEMVERBS_AGENT && (region.domain == FI_PMEMVERBS_PAGE ||
							     region.domain == FI_PMEMVERBS_DMP));
	link->sums_commit = true;
}

static void connect_link(struct link *link, uint64_t *state)
{
	const struct timespec moment = {.tv_nsec = 20000000};
	struct slot *slot = &world->slots[link->slot];
	uint64_t deadline = deadline_in(stress.opts.timeout);
	uint32_t life = slot->life;
	size_t many;

	slot->declares = one_in(state, 2);
	link->counts = !one_in(state, 3);
	link->counts_reads = link->counts && one_in(state, 2);
	link->silent = link->counts && one_in(state, 2);
	while (!(stress.rdm ? try_to_ask(link) : try_to_connect(link))) {
		if (now_ns() > deadline)
			stress_fail("connection %u: nobody answers", link->slot);
		nanosleep(&moment, NULL);
	}
	if (atomic_load(&link->broken) && !link->excused && life == slot->life)
		stress_fail("connection %u: it failed, nobody knows why: %s says %s", link->slot,
			    link->why, fi_strerror(link->err));
	atomic_store(&link->broken, false);
	if (stress.rdm)
		look_at_key(link);
	else
		look(link);
	link->sums = has_atomics(link) && !fi_atomicvalid(link->conn.ep, FI_UINT64, FI_SUM, &many);
	link->fetches =
		has_atomics(link) && !fi_fetch_atomicvalid(link->conn.ep, FI_UINT64, FI_SUM, &many);
	oracle_begin(link->slot);
	oracle_known(link->slot);
	link->open = true;
	stress_count(C_CONNECTS, 1);
}

static bool is_over(const struct slot *slot)
{
	if (stress.seconds)
		return ms_since(world->start) / 1000 >= stress.seconds;
	return slot->operations >= stress.operations;
}

void *run_link(void *arg)
{
	struct link *link = arg;
	struct slot *slot = &world->slots[link->slot];

	while (!is_over(slot)) {
		uint64_t round = slot->round, state = mix(world->seed, 0, round, link->slot);

		if (!link->open)
			connect_link(link, &state);
		else
			dice_bits(&state);
		run_round(link, round, &state);
		if (atomic_load(&link->broken) || one_in(&state, 3))
			disconnect(link);
	}
	if (link->open)
		disconnect(link);
	return NULL;
}
