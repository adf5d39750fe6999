/* SPDX-License-Identifier: BSD-2-Clause */
/* fake_impl.h -- what the two halves of the fake libraries share */
#ifndef FAKE_IMPL_H
#define FAKE_IMPL_H

#include "fake_verbs.h"

#define FAKE_QUEUE 1024

struct fake_qp {
	union {
		struct ibv_qp qp; /* its first member */
		struct ibv_qp_ex extended;
	};
	unsigned started; /* those before it are posted, others are by ibv_wr_complete */
	unsigned posted, ended, freed, max_send;
	struct ibv_send_wr sends[FAKE_QUEUE];
	unsigned recv_posted, recv_ended, max_recv;
	uint64_t recvs[FAKE_QUEUE];
	bool stopped; /* it is in error */
};

extern struct verbs_context fake_verbs_context;
#define fake_context fake_verbs_context.context

int fake_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t size);

/* fake_fails -- is it this call's turn? */
bool fake_fails(const char *call);

/* fake_zeros, fake_eventfd -- memory and a descriptor of the fakes' own, which never fail */
void *fake_zeros(size_t size);
int fake_eventfd(void);

/* fake_refusal -- what a call that posts returns if it fails */
int fake_refusal(void);

/* fake_take -- a request into the send queue */
void fake_take(struct fake_qp *qp, const struct ibv_send_wr *wr);

#endif /* FAKE_IMPL_H */
