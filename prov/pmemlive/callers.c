/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * callers.c -- peers without a handshake, or with one: they connect to the target and go, or go
 * before they are answered.  The target hears of each end in time, and nothing is left of them.
 */
#include "world.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "objects/ep.h"

#define MOST 24

/* The target's end of such a connection. */
struct guest {
	struct fid_ep *ep;
	int64_t gone_ns, excused_ns; /* its peer has gone then; 0: it has not */
};

static struct guest guests[MOST];
static unsigned int num_asked;     /* callers whom the target has not answered yet */
static struct core_domain outside; /* where they come from */
static struct fid_domain *outside_domain;
static struct fid_cq *outside_cq;
static struct fid_pep *pep;

void callers_open(void)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE};

	if (!world.called)
		return;
	core_open(&outside);
	sure(fi_domain(&outside.fabric, world.info, &outside_domain, NULL), "a domain");
	sure(fi_cq_open(outside_domain, &attr, &outside_cq, NULL), "a queue");
	sure(pmv_pep_open(&world.target.fabric.fabric_fid, world.info, &pep, NULL),
	     "a passive endpoint");
	sure(fi_pep_bind(pep, &world.target.eq->fid, 0), "its event queue");
	sure(fi_listen(pep), "to listen");
}

void callers_close(void)
{
	if (!world.called)
		return;
	for (int i = 0; i < MOST; i++) {
		if (guests[i].ep)
			sched_fail("a peer that has gone has left its endpoint");
	}
	if (core_pep_is_asked(pmv_container_of(pep, struct pmv_pep, pep_fid)->core_fid))
		sched_fail("the core has a request still that was answered");
	sure(fi_close(&pep->fid), "to close a passive endpoint");
	sure(fi_close(&outside_cq->fid), "to close a queue");
	sure(fi_close(&outside_domain->fid), "to close a domain");
	core_close(&outside);
}

/* The callers */

/* say_hello -- nothing, or what a peer of the provider's says; how much */
static size_t say_hello(uint8_t data[CORE_CM_DATA])
{
	const struct conn *conn = &world.initiators[0].conns[0];

	if (!conn->open || sched_one_in(2))
		return 0;
	/* Somebody else has said it before. */
	pmv_mailbox_handshake(&pmv_to_ep(conn->ep)->mailbox, data);
	return PMV_HANDSHAKE_SIZE;
}

static void *call(void *arg)
{
	uint8_t hello[CORE_CM_DATA];
	size_t len = say_hello(hello);
	struct fid_ep *ep;

	sure(fi_endpoint(outside_domain, world.info, &ep, NULL), "an endpoint");
	sure(fi_ep_bind(ep, &outside_cq->fid, FI_TRANSMIT | FI_RECV), "its queue");
	sched_trace("somebody calls");
	num_asked++;
	sure(core_call(ep, pmv_container_of(pep, struct pmv_pep, pep_fid)->core_fid, hello, len),
	     "to call");
	sched_sleep(sched_between(0, sched_one_in(2) ? 20000 : 5000000));
	sched_trace("who has called goes");
	for (int i = 0; i < MOST; i++) {
		if (guests[i].ep && core_to_ep(&ep->fid)->peer &&
		    pmv_to_ep(guests[i].ep)->engine.fid == &core_to_ep(&ep->fid)->peer->core.fid) {
			guests[i].gone_ns = sched_now_ns;
			guests[i].excused_ns = world_stopped_ns();
		}
	}
	sure(fi_close(&ep->fid), "to close an endpoint");
	return arg;
}

void *callers_come(void *arg)
{
	struct sched_task *tasks[4];

	for (uint64_t rounds = sched_dice(6); rounds; rounds--) {
		for (int i = 0; i < 4; i++)
			tasks[i] = sched_spawn(sched_process(), "caller", call, NULL);
		for (int i = 0; i < 4; i++)
			sched_join(tasks[i]);
	}
	return arg;
}

/* The target's application */

static void accept_guest(struct guest *guest, struct fi_info *info)
{
	struct party *party = &world.target;
	const struct core_ep *core;

	sure(fi_endpoint(party->domain, info, &guest->ep, NULL), "an endpoint");
	conns_bind(party, guest->ep);
	sure(fi_accept(guest->ep, NULL, 0), "to accept");
	core = core_to_ep(&pmv_to_ep(guest->ep)->engine.fid->fid);
	if (core->peer || guest->gone_ns)
		return;
	guest->gone_ns = sched_now_ns;
	guest->excused_ns = world_stopped_ns();
}

static void answer(struct fi_info *info)
{
	for (int i = 0; i < MOST && !sched_one_in(4); i++) {
		if (guests[i].ep)
			continue;
		accept_guest(&guests[i], info);
		fi_freeinfo(info);
		return;
	}
	sure(fi_reject(pep, info->handle, NULL, 0), "to reject");
	fi_freeinfo(info);
}

void callers_answer(struct fi_info *info)
{
	answer(info);
	num_asked--;
}

void callers_end(const struct fid *ep)
{
	for (int i = 0; i < MOST; i++) {
		struct fid_ep *its = guests[i].ep;

		if (!its || &its->fid != ep)
			continue;
		guests[i] = (struct guest){0};
		sure(fi_close(&its->fid), "to close an endpoint");
	}
}

int64_t callers_deadline_ns(void)
{
	int64_t next = SCHED_NEVER;

	for (int i = 0; world.called && i < MOST; i++) {
		const struct guest *guest = &guests[i];
		int64_t one =
			guest->gone_ns + world.bound_ns + world_stopped_ns() - guest->excused_ns;

		if (guest->ep && guest->gone_ns && one < next)
			next = one;
	}
	return next;
}

static bool has_none(void *arg)
{
	(void) arg;
	for (int i = 0; i < MOST; i++) {
		if (guests[i].ep)
			return false;
	}
	return !num_asked;
}

void callers_await_end(void)
{
	if (world.called)
		sched_block("waits for guests to go", has_none, NULL, SCHED_NEVER);
}
