/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmemsim.h -- a libfabric core provider over the model of the hardware
 *
 * Fabrics, domains, endpoints, completion queues and regions as a core provider
 * has them, inside one process: what is posted is posted to hw.h's model, and
 * nothing moves but by its steps.  It behaves like verbs: regions have keys that
 * the provider chooses and virtual addresses, a fence is the NIC's, one remote
 * range an operation.
 */
#ifndef PMEMSIM_H
#define PMEMSIM_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "hw.h"
#include "testcore/mr.h"

/* The network: one model, one name space of keys. */
struct sim {
	struct hw *hw;
	uint64_t last_key;
	struct testcore_mrs mrs;
	unsigned int devices;
	unsigned int room;  /* of a send queue */
	bool atomic_writes; /* lists have them */
	/*
	 * As native: READs and atomics beside FLUSHes, and these, are refused (-FI_EAGAIN) when
	 * more would be under way than that.  0: never.
	 */
	unsigned int slots;
	int note; /* what is posted now is told of under this number */
	/* Called with every request before it is posted; it may change it. */
	void (*filter)(struct hw_request *request, void *arg);
	void *filter_arg;
};

struct sim *sim_new(const struct hw_rules *rules, unsigned int room);
void sim_free(struct sim *sim);

/* sim_fabric -- each domain opened there has a NIC of its own */
int sim_fabric(struct sim *sim, struct fid_fabric **fabric);

/* sim_connect -- both endpoints are enabled */
void sim_connect(struct fid_ep *one, struct fid_ep *other);

struct hw_port *sim_port(struct fid_ep *ep);

#endif /* PMEMSIM_H */
