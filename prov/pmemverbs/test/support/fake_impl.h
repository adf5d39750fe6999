/* SPDX-License-Identifier: BSD-2-Clause */
/* fake_impl.h -- the objects of the fake core, for the files that it consists of */
#ifndef FAKE_IMPL_H
#define FAKE_IMPL_H

#include "fake_core.h"

struct fake_cq {
	struct testcore_cq core;
	struct fake *fake;
	int fd;      /* -1: no wait object */
	int pair[2]; /* what is in it; 0: nothing */
};

struct fake_ep {
	struct testcore_ep core;
	struct fake *fake;
	struct fake_ep *next;
	bool closed;
	struct fake_ep *peer;
};

struct fake_mr {
	struct testcore_mr core;
	struct fake *fake;
};

/* Who is connected to whom, and all regions; behind the locks of cores. */
extern pthread_mutex_t fake_network;

struct fake_ep *fake_to_ep(struct fid *fid);
struct fake_cq *fake_to_cq(struct fid *fid);

/* fake_may_open -- 0, or why no object can be opened now */
static inline int fake_may_open(const struct fake *fake)
{
	return fake->on_open ? fake->on_open(fake) : 0;
}

/* fake_core.c: an endpoint's way to post; an operation ends, with the core's lock held */
ssize_t fake_post_request(struct testcore_ep *ep, const struct testcore_request *request);
void fake_end(struct fake_post *post, int err, int prov_errno);

/* fake_objects.c: with the core's lock held */
void fake_cq_add(struct testcore_cq *cq, const struct testcore_entry *entry);

/* fake_eq.c: what a fabric opens beside domains */
int fake_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
		 void *context);
bool fake_eq_is_empty(struct fid *fid);
int fake_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
		  void *context);

#endif /* FAKE_IMPL_H */
