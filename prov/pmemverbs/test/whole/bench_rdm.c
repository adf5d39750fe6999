/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_rdm.c -- commits over FI_EP_RDM; bench_rdm.h says how they are counted */
#include "bench_rdm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>
#include <rdma/fi_rma.h>

#define SIZE 64
#define CONNECTING 100 /* commits that may find no connection yet, of those that warm up */

struct side {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	char memory[4096];
};

static struct side here, there;
static fi_addr_t peer;
static void (*count_call)(void (*call)(int i), int times);
static int number;
static ssize_t posted;

static void check(int ret, const char *what)
{
	if (!ret)
		return;
	fprintf(stderr, "bench_calls: %s failed: %s\n", what, fi_strerror(abs(ret)));
	exit(1);
}

static void open_side(struct side *side, uint64_t access, uint64_t flags)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};

	check(hints ? 0 : -FI_ENOMEM, "fi_allocinfo");
	hints->caps = FI_MSG | FI_RMA | FI_RMA_PMEM;
	hints->ep_attr->type = FI_EP_RDM;
	hints->mode = FI_CONTEXT;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup("pmemverbs");
	check(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, hints, &side->info),
	      "fi_getinfo");
	fi_freeinfo(hints);
	check(fi_fabric(side->info->fabric_attr, &side->fabric, NULL), "fi_fabric");
	check(fi_domain(side->fabric, side->info, &side->domain, NULL), "fi_domain");
	check(fi_av_open(side->domain, &av_attr, &side->av, NULL), "fi_av_open");
	check(fi_cq_open(side->domain, &cq_attr, &side->cq, NULL), "fi_cq_open");
	check(fi_endpoint(side->domain, side->info, &side->ep, NULL), "fi_endpoint");
	check(fi_ep_bind(side->ep, &side->av->fid, 0), "fi_ep_bind");
	check(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	check(fi_enable(side->ep), "fi_enable");
	check(fi_mr_reg(side->domain, side->memory, sizeof(side->memory), access, 0, 1, flags,
			&side->mr, NULL),
	      "fi_mr_reg");
}

static void close_side(struct side *side)
{
	check(fi_close(&side->ep->fid), "fi_close");
	check(fi_close(&side->mr->fid), "fi_close");
	check(fi_close(&side->cq->fid), "fi_close");
	check(fi_close(&side->av->fid), "fi_close");
	check(fi_close(&side->domain->fid), "fi_close");
	check(fi_close(&side->fabric->fid), "fi_close");
	fi_freeinfo(side->info);
}

bool bench_rdm_open(const char *domain, void (*count)(void (*call)(int i), int times))
{
	char name[256];
	size_t length = sizeof(name);

	count_call = count;
	setenv("FI_PMEMVERBS_CORE", "tcp", true);
	setenv("FI_PMEMVERBS_DOMAIN", domain, true);
	setenv("FI_PMEMVERBS_AGENT", "progress", true);
	open_side(&there, FI_REMOTE_WRITE | FI_REMOTE_READ, FI_RMA_PMEM);
	open_side(&here, FI_WRITE | FI_READ, 0);
	check(fi_getname(&there.ep->fid, name, &length), "fi_getname");
	return fi_av_insert(here.av, name, 1, &peer, 0, NULL) == 1;
}

static void post(int i)
{
	struct iovec iov = {here.memory, SIZE};
	void *desc = fi_mr_desc(here.mr);
	bool virtual = there.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
	uint64_t addr = virtual ? (uintptr_t) there.memory : 0;
	struct fi_rma_iov to = {addr, SIZE, fi_mr_key(there.mr)};
	static struct fi_context contexts[2];
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.addr = peer,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = &contexts[i % 2],
	};

	posted = fi_writemsg(here.ep, &msg, FI_COMMIT_COMPLETE | FI_COMPLETION);
}

static bool is_complete(void)
{
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error = {0};
	ssize_t ret = fi_cq_read(there.cq, &entry, 1);

	check(ret == -FI_EAGAIN ? 0 : (int) ret, "the target's fi_cq_read");
	ret = fi_cq_read(here.cq, &entry, 1);
	if (ret == -FI_EAVAIL) {
		fi_cq_readerr(here.cq, &error, 0);
		check(-error.err, "a commit");
	}
	check(ret == -FI_EAGAIN || ret == 1 ? 0 : (int) ret, "fi_cq_read");
	return ret == 1;
}

void bench_rdm_commit(int i)
{
	/* A connection is made by the first posts. */
	if (number++ < CONNECTING) {
		for (post(i); posted == -FI_EAGAIN; post(i))
			is_complete();
	} else {
		count_call(post, 1);
	}
	check((int) posted, "fi_writemsg");
	while (!is_complete())
		;
}

void bench_rdm_close(void)
{
	close_side(&here);
	close_side(&there);
}
