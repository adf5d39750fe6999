/* SPDX-License-Identifier: BSD-2-Clause */
/* target.c -- lends memory to whoever connects, takes messages, and hears of notices */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "stress.h"

/* A receive: where its buffer is follows from its index. */
struct receive {
	struct fi_context2 context;
	uint64_t held; /* the number of the message in it; 0: it is posted */
};

struct lender {
	unsigned int slot;
	struct conn conn;
	bool open;
	struct region regions[REGIONS + 1];
	struct fid_cntr *cntrs[TALLIES]; /* with FI_RMA_EVENT, but that of the initiator */
	struct receive receives[BUFFERS];
};

struct target {
	struct node node;
	struct fid_av *av;
	struct lender lenders[SLOTS];
};

static void stop_lending(struct lender *lender)
{
	conn_close(&lender->conn);
	for (unsigned int i = 0; i <= REGIONS; i++)
		region_close(&lender->regions[i]);
	for (unsigned int i = 0; i < TALLIES; i++) {
		CLOSE(lender->cntrs[i]);
		lender->cntrs[i] = NULL;
	}
	lender->open = false;
}

static int open_counters(struct target *target, struct lender *lender)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	int ret = 0;

	for (unsigned int i = OF_ENDPOINT; stress.events && !ret && i < TALLIES; i++)
		ret = fi_cntr_open(target->node.domain, &attr, &lender->cntrs[i], NULL);
	for (unsigned int i = OF_REGION; stress.events && !ret && i < TALLIES; i++)
		ret = fi_mr_bind(lender->regions[i - OF_REGION].mr, &lender->cntrs[i]->fid,
				 FI_REMOTE_WRITE);
	return ret;
}

/* read_counters -- what they have counted by then is there, and what was committed is durable */
static void read_counters(struct lender *lender)
{
	struct slot *slot = &world->slots[lender->slot];

	for (unsigned int i = OF_ENDPOINT; i < TALLIES; i++) {
		uint64_t least = i < OF_REGION ? 0 : atomic_load(&slot->completed[i - OF_REGION]);
		uint64_t value = fi_cntr_read(lender->cntrs[i]);
		uint64_t errors = fi_cntr_readerr(lender->cntrs[i]);

		if (errors && !atomic_load(&slot->faults))
			stress_fail("connection %u: the target was told that a commit has failed",
				    lender->slot);
		if (value + errors < least)
			stress_fail("connection %u: %llu operations have completed, of which the "
				    "target was told of %llu",
				    lender->slot, (unsigned long long) least,
				    (unsigned long long) value);
		oracle_counted(lender->slot, i, value, errors);
	}
}

static int post_receive(struct lender *lender, unsigned int i)
{
	lender->receives[i].held = 0;
	return (int) fi_recv(lender->conn.ep, live + buffer_at(lender->slot, i), BUFFER,
			     lender->regions[REGIONS].desc, 0, &lender->receives[i]);
}

/* prepare -- register the slot's memory, and open an endpoint with receives */
static int prepare(struct target *target, struct lender *lender, struct fi_info *info)
{
	struct conn_attr attr = {
		.format = FI_CQ_FORMAT_DATA, .wait = FI_WAIT_NONE, .selective = true};
	struct fid_mr *mr;
	int ret = 0;

	for (unsigned int i = 0; !ret && i <= REGIONS; i++) {
		size_t len = i < REGIONS ? region_len() : (size_t) BUFFERS * BUFFER;

		ret = region_register(
			&target->node, &lender->regions[i], live + region_at(lender->slot, i), len,
			i < REGIONS ? FI_REMOTE_WRITE | FI_REMOTE_READ : FI_RECV, FI_RMA_PMEM);
	}
	if (!ret)
		ret = open_counters(target, lender);
	attr.av = target->av;
	attr.remote_write_cntr = lender->cntrs[OF_ENDPOINT];
	if (!ret)
		ret = conn_create(&lender->conn, &target->node, info, &attr);
	mr = lender->regions[REGIONS].mr;
	if (!ret && !stress.rdm && world->slots[lender->slot].declares)
		ret = fi_setopt(&lender->conn.ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_RECV_MR,
				&mr, sizeof(mr));
	for (unsigned int i = 0; !ret && !stress.rdm && i < BUFFERS; i++)
		ret = post_receive(lender, i);
	return ret;
}

/* answer -- the initiator may begin */
static int answer(struct lender *lender)
{
	struct slot *slot = &world->slots[lender->slot];
	size_t len = sizeof(slot->name);

	return stress.rdm ? fi_getname(&lender->conn.ep->fid, slot->name, &len)
			  : (int) fi_accept(lender->conn.ep, NULL, 0);
}

/* lend -- to the connection that has this slot */
static void lend(struct target *target, unsigned int number, struct fi_info *info)
{
	struct lender *lender = &target->lenders[number];
	struct slot *slot = &world->slots[number];
	int ret;

	/* Its last connection may be lost without our having heard of it. */
	stop_lending(lender);
	lender->slot = number;
	/* The memory is registered anew, so it is synced again. */
	oracle_end(number);
	memset(live + region_at(number, REGIONS), 0, (size_t) BUFFERS * BUFFER);
	memset(shadow + region_at(number, REGIONS), 0, (size_t) BUFFERS * BUFFER);
	ret = prepare(target, lender, info);
	for (unsigned int i = 0; !ret && i < REGIONS; i++) {
		slot->addr[i] = lender->regions[i].addr;
		slot->key[i] = lender->regions[i].key;
	}
	slot->life = atomic_load(&world->life);
	if (!ret)
		ret = answer(lender);
	if (ret)
		stress_fail("the target can't accept connection %u: %s", number, fi_strerror(-ret));
	lender->open = true;
}

/* arrived -- keep a message until its initiator has looked for it */
static void arrived(struct lender *lender, const struct fi_cq_data_entry *entry)
{
	struct receive *receive = entry->op_context;

	if (entry->flags & FI_REMOTE_CQ_DATA)
		oracle_notice(lender->slot, (uint32_t) entry->data);
	if (!receive || stress.rdm)
		return;
	if (entry->flags & FI_REMOTE_WRITE || !(entry->flags & FI_RECV))
		post_receive(lender, (unsigned int) (receive - lender->receives));
	else
		memcpy(&receive->held,
		       live + buffer_at(lender->slot, (unsigned int) (receive - lender->receives)) +
			       8,
		       sizeof(receive->held));
}

static bool progress(struct lender *lender)
{
	uint64_t released = atomic_load(&world->slots[lender->slot].released);
	struct fi_cq_data_entry entries[8];
	struct fi_cq_err_entry error;
	ssize_t ret = fi_cq_read(lender->conn.rxcq, entries, 8);

	/* Receives that end with their connection; initiators see what else is wrong. */
	if (ret == -FI_EAVAIL)
		cq_error(lender->conn.rxcq, &error);
	for (ssize_t i = 0; i < ret; i++)
		arrived(lender, &entries[i]);
	for (unsigned int i = 0; i < BUFFERS; i++) {
		if (lender->receives[i].held && lender->receives[i].held <= released)
			post_receive(lender, i);
	}
	if (stress.events)
		read_counters(lender);
	return ret > 0;
}

/* hear_asked -- FI_EP_RDM: who asks for memory? */
static void hear_asked(struct target *target)
{
	for (unsigned int i = 0; i < stress.processes * stress.connections; i++) {
		unsigned int asked = atomic_load(&world->slots[i].asked);

		if (asked == atomic_load(&world->slots[i].granted))
			continue;
		lend(target, i, target->node.info);
		atomic_store(&world->slots[i].granted, asked);
	}
}

/* slot_named -- which the request names */
static unsigned int slot_named(const struct cm_event *request)
{
	uint32_t number = SLOTS;

	if (request->len >= sizeof(number))
		memcpy(&number, request->entry.data, sizeof(number));
	if (number >= stress.processes * stress.connections)
		stress_fail("a request for slot %u, which there is not", number);
	return number;
}

/* hear -- of connections */
static bool hear(struct target *target)
{
	struct cm_event event;

	/* What has failed is seen from the operations' errors. */
	if (node_event(&target->node, &event, 0) != 1 || event.err)
		return false;
	if (event.event == FI_CONNREQ) {
		if (node_domain(&target->node, event.entry.info))
			stress_fail("the target can't open a domain");
		lend(target, slot_named(&event), event.entry.info);
		fi_freeinfo(event.entry.info);
	}
	for (unsigned int i = 0; event.event == FI_SHUTDOWN && i < SLOTS; i++) {
		struct lender *lender = &target->lenders[i];

		if (lender->open && event.entry.fid == &lender->conn.ep->fid)
			stop_lending(lender);
	}
	return true;
}

static void serve(struct target *target)
{
	/* FI_EP_RDM progresses in these calls, and does not tell of it. */
	const struct timespec moment = {.tv_nsec = stress.rdm ? 50000 : 1000000};

	while (!atomic_load(&world->ending)) {
		bool busy = !stress.rdm && hear(target);

		if (stress.rdm)
			hear_asked(target);
		for (unsigned int i = 0; i < SLOTS; i++) {
			if (target->lenders[i].open)
				busy = progress(&target->lenders[i]) || busy;
		}
		if (!busy)
			nanosleep(&moment, NULL);
	}
}

int stress_target(void)
{
	char port[8];
	struct node_attr attr = {
		.type = stress.rdm ? FI_EP_RDM : FI_EP_MSG,
		.caps = stress_caps(),
		.threading = FI_THREAD_DOMAIN,
		.port = stress.rdm ? NULL : port,
	};
	struct options opts = stress.opts;
	struct target *target = calloc(1, sizeof(*target));
	int ret;

	/* A target that takes another one's place listens where that did. */
	snprintf(port, sizeof(port), "%u", atomic_load(&world->port));
	opts.dst_addr = NULL;
	if (!target)
		stress_fail("no memory");
	shadow_begin();
	attr.caps |= stress.events ? FI_RMA_EVENT : 0;
	attr.caps |= stress_atomics(&opts, &attr);
	ret = stress.rdm ? fabric_open(&target->node, &opts, &attr)
			 : fabric_listen(&target->node, &opts, &attr);
	if (ret)
		stress_fail("the target can't listen: %s", fi_strerror(-ret));
	target->av = stress_av(&target->node);
	atomic_store(&world->port, stress.rdm ? 1 : node_port(&target->node));
	serve(target);
	for (unsigned int i = 0; i < SLOTS; i++)
		stop_lending(&target->lenders[i]);
	CLOSE(target->av);
	node_close(&target->node);
	free(target);
	return 0;
}
