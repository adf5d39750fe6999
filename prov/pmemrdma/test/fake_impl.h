/* SPDX-License-Identifier: BSD-2-Clause */
/* fake_impl.h -- what the two halves of the fake libraries share */
#ifndef FAKE_IMPL_H
#define FAKE_IMPL_H

#include "fake_verbs.h"

#define FAKE_QUEUE 1024

struct fake_qp {
	struct ibv_qp qp;
	unsigned posted, ended, freed, max_send;
	struct ibv_send_wr sends[FAKE_QUEUE];
	unsigned recv_posted, recv_ended, max_recv;
	uint64_t recvs[FAKE_QUEUE];
	bool stopped; /* it is in error */
};

extern struct ibv_context fake_context;

/* fake_fails -- is it this call's turn? */
bool fake_fails(const char *call);

#endif /* FAKE_IMPL_H */
