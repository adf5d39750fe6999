/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_inject_open.c -- opening, registering and connecting, while what is below fails
 *
 * Every call that can fail fails once.  What the application called then fails, too, and works
 * when it is called again.  In the end all can be closed, and nothing is left in the core.
 */
#include <stdlib.h>

#include <rdma/fi_cm.h>

#include "test/support/inject.h"
#include "objects/eq.h"
#include "objects/handshake.h"

#define TRIES 3

/* All that is opened on a rig. */
struct objects {
	struct rig *rig;
	char *memory;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_eq *eq;
	struct fid_pep *pep;
	struct fid_mr *mr;
	struct fid_ep *ep;
};

static int open_domain(struct objects *all)
{
	struct rig *rig = all->rig;

	return pmv_domain_open(&rig->fabric.fabric_fid, rig->info, &all->domain, NULL);
}

static int open_cq(struct objects *all)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};

	return fi_cq_open(all->domain, &attr, &all->cq, NULL);
}

static int open_cntr(struct objects *all)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};

	return fi_cntr_open(all->domain, &attr, &all->cntr, NULL);
}

static int open_eq(struct objects *all)
{
	return pmv_eq_open(&all->rig->fabric.fabric_fid, &(struct fi_eq_attr){.size = 8}, &all->eq,
			   NULL);
}

static int open_pep(struct objects *all)
{
	return pmv_pep_open(&all->rig->fabric.fabric_fid, all->rig->info, &all->pep, NULL);
}

static int open_mr(struct objects *all)
{
	return fi_mr_reg(all->domain, all->memory, PAIR_SIZE, FI_REMOTE_WRITE | FI_REMOTE_READ, 0,
			 0, FI_PMEM, &all->mr, NULL);
}

static int open_ep(struct objects *all)
{
	return fi_endpoint(all->domain, all->rig->info, &all->ep, NULL);
}

static int bind_pep(struct objects *all)
{
	return fi_pep_bind(all->pep, &all->eq->fid, 0);
}

static int bind_cq(struct objects *all)
{
	return fi_ep_bind(all->ep, &all->cq->fid, FI_TRANSMIT | FI_RECV);
}

static int bind_cntr(struct objects *all)
{
	return fi_ep_bind(all->ep, &all->cntr->fid, FI_WRITE);
}

static int bind_eq(struct objects *all)
{
	return fi_ep_bind(all->ep, &all->eq->fid, 0);
}

static int enable(struct objects *all)
{
	return fi_enable(all->ep);
}

/* shake_hands -- as with a peer that is this endpoint */
static int shake_hands(struct objects *all)
{
	struct pmv_ep *ep = pmv_to_ep(all->ep);
	uint8_t buf[PMV_HANDSHAKE_SIZE];
	struct pmv_handshake handshake;
	int ret = pmv_mailbox_open(&ep->mailbox);

	if (ret)
		return ret;
	pmv_mailbox_handshake(&ep->mailbox, buf);
	cr_assert_eq(pmv_handshake_decode(buf, sizeof(buf), &handshake), 0);
	pmv_handshake_connect(ep, &handshake);
	return pmv_agent_attach(&ep->domain->agent, &ep->mailbox.receiver);
}

static int receive(struct objects *all)
{
	return (int) fi_recv(all->ep, all->memory, 64, NULL, 0, NULL);
}

static int (*const steps[])(struct objects *all) = {
	open_domain, open_cq, open_cntr, open_eq, open_pep, open_mr,     bind_pep,
	open_ep,     bind_cq, bind_cntr, bind_eq, enable,   shake_hands, receive,
};

static void close_one(struct fid *fid)
{
	if (fid)
		accepted(fi_close(fid));
}

static void close_all(struct objects *all)
{
	close_one(all->ep ? &all->ep->fid : NULL);
	close_one(all->mr ? &all->mr->fid : NULL);
	close_one(all->pep ? &all->pep->fid : NULL);
	close_one(all->eq ? &all->eq->fid : NULL);
	close_one(all->cntr ? &all->cntr->fid : NULL);
	close_one(all->cq ? &all->cq->fid : NULL);
	close_one(all->domain ? &all->domain->fid : NULL);
}

/* take -- a step; what is returned with an error is not looked at */
static int take(struct objects *all, size_t i)
{
	struct objects before = *all;
	int ret = steps[i](all);

	if (ret)
		*all = before;
	return ret;
}

/* open_all -- give_up: at the first step that fails; else it is tried again */
static void open_all(const struct inject_fault *faults, const struct rig_options *options,
		     bool give_up)
{
	struct objects all = {.rig = rig_open(options), .memory = aligned_alloc(4096, PAIR_SIZE)};
	int open = all.rig->fake.open_objects;

	cr_assert_not_null(all.memory);
	all.rig->fake.on_open = inject_open;
	inject_start(faults, NULL);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		int ret = take(&all, i);

		cr_assert(!ret || inject.done, "step %zu fails without a reason%s: %d", i,
			  inject_text(), ret);
		cr_assert_leq(ret, 0);
		if (ret && give_up)
			break;
		for (int try = 0; ret && try < TRIES; try++)
			ret = take(&all, i);
		cr_assert_eq(ret, 0, "step %zu fails again%s: %d", i, inject_text(), ret);
	}
	inject_stop();
	close_all(&all);
	cr_assert_eq(all.rig->fake.open_objects, open, "%s: %d objects are left", inject_text(),
		     all.rig->fake.open_objects - open);
	free(all.memory);
	/* The core has one domain, which was replaced. */
	rig_close(all.rig);
}

static void fail_each(const struct rig_options *options)
{
	static const int errors[] = {FI_ENOMEM, FI_EMFILE, FI_EIO};
	struct inject_fault faults[INJECT_FAULTS] = {{0}};
	unsigned int calls[INJECT_KINDS];

	open_all(faults, options, false);
	for (int kind = 0; kind < INJECT_KINDS; kind++)
		calls[kind] = inject.calls[kind][INJECT_HOME];
	cr_assert_gt(calls[INJECT_OPEN], 6);
	cr_assert_gt(calls[INJECT_MEMORY], 20);
	for (enum inject_kind kind = INJECT_OPEN; kind <= INJECT_MEMORY; kind++) {
		for (unsigned int n = 1; n <= calls[kind]; n++) {
			for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
				faults[0] =
					(struct inject_fault){kind, INJECT_HOME, n, 0, errors[i]};
				open_all(faults, options, true);
				open_all(faults, options, false);
			}
		}
	}
}

static const struct rig_options kinds[] = {
	{.virt_addr = true},
	{.mr_local = true},
	{.no_fence = true, .local = true, .needs_cqs = true},
	{.events = true, .imm_receives = true},
};

Test(inject, every_open_fails_once, .timeout = 3600)
{
	pair_describe_memory();
	pmv_setting.agent = PMV_AGENT_PROGRESS;
	pmv_setting.domain_declared = pmv_setting.ddio_declared = true;
	pmv_setting.domain = PMV_DMP;
	pmv_setting.ddio = true;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		fail_each(&kinds[i]);
}
