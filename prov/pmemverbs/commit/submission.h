/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * submission.h -- an application's call, as it is: what the core gets is made of it in post.c
 */
#ifndef PMV_SUBMISSION_H
#define PMV_SUBMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "engine/engine.h"

struct pmv_submission {
	uint64_t what;               /* FI_RMA | FI_WRITE, FI_ATOMIC | ..., FI_MSG | FI_SEND */
	const struct fi_rma_iov *to; /* places at the target, with the application's keys */
	size_t num_to;               /* 0: it is a message */
	void *context;
	uint64_t data;  /* immediate data */
	uint64_t flags; /* the application's */
	union {
		const struct fi_msg_rma *rma;
		const struct fi_msg *msg;
		const struct pmv_atomic *atomic;
	};
	bool no_completion; /* of a call that never completes (fi_inject) */
	bool inject;        /* an atomic of such a call: the core has no other way to post it */
	/* pmv_submit finds out: */
	bool event_only; /* it does not commit; only the target's application is told of it */
	bool delivers;   /* it does not commit; it completes when the data are in place */
	size_t changed;  /* the length at `to`, if the target's processor writes there: hooks.h */
};

/* pmv_submission_copy -- it and all that it points to, in one block to be freed; NULL: no memory */
struct pmv_submission *pmv_submission_copy(const struct pmv_submission *submission);

/* pmv_submission_gather -- the buffers, which are as long as the place at the target: length.h */
static inline void pmv_submission_gather(uint8_t *to, const struct fi_msg_rma *msg)
{
	for (size_t i = 0; i < msg->iov_count; i++) {
		const struct iovec *iov = &msg->msg_iov[i];

		if (iov->iov_len)
			to = mempcpy(to, iov->iov_base, iov->iov_len);
	}
}

/* pmv_submission_len -- the bytes that a commit makes durable; of a chain: 0 */
size_t pmv_submission_len(const struct pmv_submission *submission);

/* pmv_submission_notifies -- does immediate data follow it?  A message takes its data along. */
static inline bool pmv_submission_notifies(const struct pmv_submission *submission)
{
	return !(submission->what & FI_MSG) && (submission->flags & (FI_REMOTE_CQ_DATA | FI_IMMED));
}

/* pmv_submission_only_reads -- an atomic that changes nothing */
static inline bool pmv_submission_only_reads(const struct pmv_submission *submission)
{
	return (submission->what & FI_ATOMIC) && submission->atomic->msg->op == FI_ATOMIC_READ;
}

#endif /* PMV_SUBMISSION_H */
