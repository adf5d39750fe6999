/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * initiator.c -- connections, and random operations on them: rounds, and the process
 *
 * Connections live for some rounds.  In a round, each thread of a connection executes a program.
 * What it does follows from the seed, the connection, the round and the thread, and from nothing
 * else: time decides only how the programs mix, and how far they come before somebody dies.
 */
#include <errno.h>
#include <netdb.h>
#include <signal.h>
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

/* await_counters -- nobody posts until they have counted all */
static void await_counters(struct worker *worker)
{
	struct link *link = worker->link;
	struct slot *slot = &world->slots[link->slot];
	bool all = false;

	if ((!link->cntr && !stress.events) || atomic_exchange(&link->held, true))
		return;
	while (!all && !atomic_load(&link->broken)) {
		uint64_t posted;

		oracle_lock(link->slot);
		posted = slot->tallies[OF_INITIATOR].posted;
		oracle_unlock(link->slot);
		if (link->cntr && !fi_cntr_wait(link->cntr, posted, 10))
			oracle_counted(link->slot, OF_INITIATOR, posted, 0);
		all = read_counter(link) && (!stress.events || oracle_told(link->slot));
		if (!all)
			reap(link);
	}
	atomic_store(&link->held, false);
}

/* go_on -- to the next round, also for a process that takes this one's place */
static void go_on(struct slot *slot, uint64_t operations)
{
	slot->round++;
	slot->operations += operations;
}

static void die(const struct worker *worker)
{
	struct slot *slot = &world->slots[worker->link->slot];

	/* Whoever takes its place must not come here again. */
	go_on(slot, worker->operations);
	stress_count(C_DEATHS, 1);
	if (worker->suicide)
		raise(SIGKILL);
	kill_target();
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	/* analyse clang-analyzer-core.uninitialized.Assign: there is at least one thread. */
	struct link *link = worker->link;
	struct op *ops = world->slots[link->slot].ops[worker->thread];
	struct todo todo;

	for (; worker->number < worker->operations && !atomic_load(&link->broken);
	     worker->number++) {
		if (worker->number == worker->death)
			die(worker);
		if (one_in(&worker->dice, 40))
			await_counters(worker);
		draw(worker, &todo);
		operate(worker, &todo);
	}
	for (unsigned int i = 0; i < WINDOW; i++) {
		while (atomic_load(&ops[i].state) == OP_UNDER_WAY && !atomic_load(&link->broken))
			reap(link);
	}
	return NULL;
}

/* commit_all -- at the end of a round, when all threads have ended */
static void commit_all(struct link *link, struct worker *worker)
{
	struct todo todo = {
		.kind = WRITE,
		.iovs = 1,
		.flags = FI_COMMIT_COMPLETE | FI_FENCE | (link->silent ? 0 : FI_COMPLETION),
		.reports = !link->silent,
		.commits = true,
		.claims = true,
	};

	operate(worker, &todo);
	work(worker);
	await_counters(worker);
	if (atomic_load(&link->broken))
		return;
	for (unsigned int i = 0; i < THREADS * REGIONS; i++) {
		const struct lane *lane = &world->slots[link->slot].lanes[i / REGIONS][i % REGIONS];

		if (lane->head != lane->next)
			stress_fail("connection %u: a fenced commit of all has not covered all",
				    link->slot);
	}
	oracle_known(link->slot);
}

static void plan_death(struct worker *worker, uint64_t *state)
{
	worker->death = NOTHING;
	if (!stress.kills || !one_in(state, stress.kills))
		return;
	/* analyse clang-analyzer-core.CallAndMessage: there is at least one thread. */
	worker->death = dice(state, worker->operations);
	worker->suicide = one_in(state, 3);
}

void run_round(struct link *link, uint64_t round, uint64_t *state)
{
	struct slot *slot = &world->slots[link->slot];
	uint64_t operations = 30 + dice(state, 200);
	struct worker workers[THREADS];

	atomic_store(&link->moved, now_ns());
	for (unsigned int t = 0; t < stress.threads; t++) {
		workers[t] = (struct worker){
			.link = link,
			.thread = t,
			.dice = mix(world->seed, link->slot + 1, round, t),
			.operations = operations,
			.death = NOTHING,
		};
	}
	plan_death(&workers[0], state);
	for (unsigned int t = 1; t < stress.threads; t++) {
		if (pthread_create(&workers[t].id, NULL, work, &workers[t]))
			stress_fail("no thread: %s", strerror(errno));
	}
	work(&workers[0]);
	for (unsigned int t = 1; t < stress.threads; t++)
		pthread_join(workers[t].id, NULL);
	if (!atomic_load(&link->broken))
		commit_all(link, &workers[0]);
	if (slot->round == round)
		go_on(slot, operations);
	stress_count(C_ROUNDS, 1);
}

/* The process */

uint64_t stress_caps(void)
{
	return FI_MSG | FI_RMA | FI_RMA_PMEM | (stress.rdm ? 0 : FI_FENCE);
}

struct fid_av *stress_av(const struct node *node)
{
	struct fi_av_attr attr = {.type = FI_AV_MAP};
	struct fid_av *av = NULL;
	int ret = stress.rdm ? fi_av_open(node->domain, &attr, &av, NULL) : 0;

	if (ret)
		stress_fail("no address vector: %s", fi_strerror(-ret));
	return av;
}

uint64_t stress_atomics(const struct options *opts, const struct node_attr *attr)
{
	struct node_attr wanted = *attr;
	struct fi_info *info;

	wanted.caps |= FI_ATOMIC;
	if (stress.no_atomics || fabric_offered(opts, &wanted, &info))
		return 0;
	fi_freeinfo(info);
	return FI_ATOMIC;
}

static void open_all(struct initiator *initiator, unsigned int process)
{
	static const uint64_t op_flags[] = {0, FI_COMPLETION, FI_COMPLETION | FI_COMMIT_COMPLETE};
	uint64_t state = mix(world->seed, 0, 0, process);
	char port[8];
	struct node_attr attr = {
		.type = stress.rdm ? FI_EP_RDM : FI_EP_MSG,
		.caps = stress_caps(),
		.threading = FI_THREAD_SAFE,
		.port = port,
	};
	int ret;

	snprintf(port, sizeof(port), "%u", atomic_load(&world->port));
	initiator->op_flags = op_flags[dice(&state, 3)];
	attr.op_flags = initiator->op_flags;
	initiator->opts = stress.opts;
	/* RxM listens there, and a source has no port. */
	if (stress.rdm)
		initiator->opts.src_addr = NULL;
	attr.caps |= stress_atomics(&initiator->opts, &attr);
	initiator->atomics = attr.caps & FI_ATOMIC;
	pthread_mutex_init(&initiator->lock, NULL);
	ret = fabric_open(&initiator->node, &initiator->opts, &attr);
	if (!ret)
		initiator->av = stress_av(&initiator->node);
	if (!ret)
		ret = region_register(&initiator->node, &initiator->pool, pool, POOL, FI_WRITE, 0);
	for (unsigned int i = 0; !ret && i < stress.connections; i++) {
		struct link *link = &initiator->links[i];
		size_t len = (size_t) THREADS * WINDOW * sizeof(struct buffers);

		link->initiator = initiator;
		link->slot = process * (unsigned int) stress.connections + i;
		link->buffers = aligned_alloc(4096, (len + 4095) & ~(size_t) 4095);
		if (!link->buffers)
			stress_fail("no memory");
		ret = region_register(&initiator->node, &link->region, link->buffers, len,
				      FI_SEND | FI_WRITE | FI_READ, 0);
	}
	if (ret)
		stress_fail("an initiator can't begin: %s", fi_strerror(-ret));
}

int stress_initiator(unsigned int process)
{
	const struct timespec moment = {.tv_nsec = 10000000};
	struct initiator *initiator = calloc(1, sizeof(*initiator));
	pthread_t ids[CONNECTIONS] = {0};

	if (!initiator)
		stress_fail("no memory");
	while (!atomic_load(&world->port))
		nanosleep(&moment, NULL);
	open_all(initiator, process);
	for (unsigned int i = 0; i < stress.connections; i++) {
		if (pthread_create(&ids[i], NULL, run_link, &initiator->links[i]))
			stress_fail("no thread: %s", strerror(errno));
	}
	for (unsigned int i = 0; i < stress.connections; i++)
		pthread_join(ids[i], NULL);
	for (unsigned int i = 0; i < stress.connections; i++) {
		region_close(&initiator->links[i].region);
		free(initiator->links[i].buffers);
	}
	region_close(&initiator->pool);
	CLOSE(initiator->av);
	node_close(&initiator->node);
	free(initiator);
	return 0;
}
