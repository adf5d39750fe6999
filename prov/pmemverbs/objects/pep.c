/* SPDX-License-Identifier: BSD-2-Clause */
/* pep.c -- passive endpoints */
#include "objects/eq.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "auth/admission.h"
#include "base/address.h"
#include "base/listener.h"
#include "base/log.h"
#include "base/silence.h"
#include "objects/handshake.h"
#include "objects/tickets.h"
#include "objects/unwrap.h"

/* So often others may have taken the core's port meanwhile: open_core. */
#define PORT_ATTEMPTS 8

static int pep_close(struct fid *fid)
{
	struct pmv_pep *pep = pmv_to_pep(fid);
	int ret = pmv_eq_close(pep->eq, fid);

	if (ret)
		return ret;
	pmv_tickets_close(pep);
	if (pep->rejecting)
		fi_close(&pep->rejecting->fid);
	fi_freeinfo(pep->info);
	free(pep);
	return 0;
}

static int pep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct pmv_pep *pep = pmv_to_pep(fid);
	struct fid *core_fid = pmv_unwrap_fid(bfid);
	int ret;

	/* Another provider's has no core's behind it. */
	if (bfid->fclass != FI_CLASS_EQ || !core_fid)
		return -FI_EINVAL;
	ret = fi_pep_bind(pep->core_fid, core_fid, flags);
	if (!ret)
		pep->eq = pmv_container_of(bfid, struct pmv_eq, eq_fid.fid);
	return ret;
}

struct fi_ops pmv_pep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = pep_close,
	.bind = pep_bind,
	.control = pmv_unwrap_control,
};

static struct fi_ops_ep pep_ops = {
	.size = offsetof(struct fi_ops_ep, tx_ctx),
	.getopt = pmv_unwrap_getopt,
	.setopt = pmv_unwrap_setopt,
};

/* guard -- where the core's socket is this process's, as long as it has it */
static void guard(struct pmv_pep *pep)
{
	union pmv_silence_addr own = {0};
	size_t len = sizeof(own);
	int ret;

	if (!pep->fabric->core->uses_sockets || fi_getname(&pep->core_fid->fid, &own, &len))
		return;
	ret = pmv_listener_guard(&own.any);
	if (ret)
		PMV_WARN(EP_CTRL,
			 "the socket that listens can't be found in /proc/self/fd (%s): whoever "
			 "begins a connection request and does not end it blocks the process\n",
			 strerror(ret));
}

/* join -- the listeners of the queue, which looks after their connections */
static void join(struct pmv_pep *pep)
{
	if (!pep->fabric->core->uses_sockets || !pep->eq)
		return;
	pthread_mutex_lock(&pep->eq->lock);
	if (!pep->listens)
		LIST_INSERT_HEAD(&pep->eq->listeners, pep, next_of_eq);
	pep->listens = true;
	pthread_mutex_unlock(&pep->eq->lock);
}

static int pep_listen(struct fid_pep *fid)
{
	struct pmv_pep *pep = pmv_to_pep(&fid->fid);
	int ret;

	guard(pep);
	pep->listens_since = pmv_admission_now();
	ret = pmv_tickets_listen(pep);
	if (!ret)
		ret = fi_listen(pep->core_fid);
	if (!ret)
		join(pep);
	return ret;
}

/*
 * reject -- the handle of a request belongs to the core, and may be that of another one as soon as
 * this one is rejected.
 */
static int reject(struct pmv_pep *pep, struct fid *handle, const void *param, size_t paramlen)
{
	pmv_handshake_take(pep->fabric, handle, NULL);
	return fi_reject(pep->core_fid, handle, param, paramlen);
}

/* pep_reject -- with the lock: who has asked is not taken for a stranger meanwhile */
static int pep_reject(struct fid_pep *fid, struct fid *handle, const void *param, size_t paramlen)
{
	struct pmv_pep *pep = pmv_to_pep(&fid->fid);
	int ret;

	if (!pep->eq)
		return reject(pep, handle, param, paramlen);
	pthread_mutex_lock(&pep->eq->lock);
	ret = reject(pep, handle, param, paramlen);
	pthread_mutex_unlock(&pep->eq->lock);
	return ret;
}

static struct fi_ops_cm pep_cm_ops = {
	.size = offsetof(struct fi_ops_cm, join),
	.setname = pmv_unwrap_setname,
	.getname = pmv_unwrap_getname,
	.listen = pep_listen,
	.reject = pep_reject,
};

/*
 * open_core -- the port that TCP has free need not be free for the core, if it is to choose one
 */
static int open_core(struct pmv_pep *pep, struct fi_info *core_info)
{
	struct sockaddr *addr = core_info->src_addr;
	int ret = -FI_EADDRINUSE;

	for (int attempts = 0; ret == -FI_EADDRINUSE && attempts < PORT_ATTEMPTS; attempts++) {
		ret = pmv_tickets_open(pep, core_info);
		if (ret)
			return ret;
		ret = fi_passive_ep(pep->fabric->core_fid, core_info, &pep->core_fid, pep);
		if (!ret || !pep->tickets)
			return ret;
		pmv_tickets_close(pep);
		pmv_address_set_port(addr, 0);
	}
	return ret;
}

int pmv_pep_open(struct fid_fabric *fabric_fid, struct fi_info *info, struct fid_pep **pep_fid,
		 void *context)
{
	struct pmv_fabric *fabric = pmv_to_fabric(fabric_fid);
	struct fi_info *core_info = pmv_unwrap_info(fabric->core, info);
	struct pmv_pep *pep = calloc(1, sizeof(*pep));
	int ret = -FI_ENOMEM;

	if (!core_info || !pep)
		goto free;
	pep->fabric = fabric;
	pep->info = fi_dupinfo(info);
	if (!pep->info)
		goto free;
	ret = open_core(pep, core_info);
	if (ret)
		goto free;
	pep->pep_fid = (struct fid_pep){
		.fid = {.fclass = FI_CLASS_PEP, .context = context, .ops = &pmv_pep_fi_ops},
		.ops = &pep_ops,
		.cm = &pep_cm_ops,
	};
	*pep_fid = &pep->pep_fid;
	fi_freeinfo(core_info);
	return 0;

free:
	if (core_info)
		fi_freeinfo(core_info);
	if (pep && pep->info)
		fi_freeinfo(pep->info);
	free(pep);
	return ret;
}
