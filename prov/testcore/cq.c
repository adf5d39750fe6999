/* SPDX-License-Identifier: BSD-2-Clause */
/* cq.c -- the completion queue of a test core */
#include "testcore/cq.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "testcore/fid.h"

#define MANY 64

/* restart -- with the oldest entry at the start */
static void restart(struct testcore_cq *cq)
{
	memmove(cq->entries, cq->entries + cq->first, cq->count * sizeof(cq->entries[0]));
	memset(cq->entries + cq->count, 0, cq->first * sizeof(cq->entries[0]));
	cq->first = 0;
}

void testcore_cq_add(struct testcore_cq *cq, const struct testcore_entry *entry)
{
	if (cq->first > cq->count)
		restart(cq);
	if (cq->first + cq->count == cq->room) {
		cq->room = cq->room ? 2 * cq->room : 8;
		cq->entries =
			testcore_need(realloc(cq->entries, cq->room * sizeof(cq->entries[0])));
	}
	cq->entries[cq->first + cq->count++] = *entry;
}

/* drop -- where there are many, one must not cost as much as all */
static void drop(struct testcore_cq *cq, size_t n)
{
	if (!n)
		return;
	cq->first += n;
	cq->count -= n;
	if (cq->count < MANY)
		restart(cq);
}

ssize_t testcore_cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	struct testcore_cq *cq = testcore_of(fid, struct testcore_cq, fid);
	size_t got = 0;

	while (got < count && got < cq->count && !cq->entries[cq->first + got].err) {
		memcpy((char *) buf + got * cq->entry_size, &cq->entries[cq->first + got].ok,
		       cq->entry_size);
		got++;
	}
	drop(cq, got);
	if (got)
		return (ssize_t) got;
	return count && cq->count ? -FI_EAVAIL : -FI_EAGAIN;
}

ssize_t testcore_cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct testcore_cq *cq = testcore_of(fid, struct testcore_cq, fid);
	size_t room = buf->err_data ? buf->err_data_size : 0;
	void *err_data = room >= sizeof(int) ? buf->err_data : NULL;
	const struct testcore_entry *entry = cq->entries + cq->first;

	(void) flags;
	if (!cq->count || !entry->err)
		return -FI_EAGAIN;
	*buf = (struct fi_cq_err_entry){
		.op_context = entry->ok.op_context,
		.flags = entry->ok.flags,
		.len = entry->ok.len,
		.buf = entry->ok.buf,
		.data = entry->ok.data,
		.tag = entry->ok.tag,
		.err = entry->err,
		.prov_errno = entry->prov_errno,
		.err_data = err_data,
		.err_data_size = err_data ? sizeof(int) : 0,
	};
	if (err_data)
		memcpy(err_data, &entry->prov_errno, sizeof(int));
	drop(cq, 1);
	return 1;
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = testcore_cq_read,
	.readerr = testcore_cq_readerr,
};

void testcore_cq_init(struct testcore_cq *cq, const struct fi_cq_attr *attr, struct fi_ops *ops,
		      void *context)
{
	static const size_t sizes[] = {
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};

	*cq = (struct testcore_cq){
		.fid = {.fid = {.fclass = FI_CLASS_CQ, .context = context, .ops = ops},
			.ops = &cq_ops},
		.entry_size = sizes[attr->format],
	};
}

void testcore_cq_destroy(struct testcore_cq *cq)
{
	free(cq->entries);
}
