/* SPDX-License-Identifier: BSD-2-Clause */
/* engine.c -- the engine on a libfabric core provider; engine.h has the table */
#include "engine/engine.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/setting.h"
#include "engine/atomic.h"
#include "pmemrdma/pmemrdma_post.h"

static ssize_t write_msg(const struct pmv_engine_ep *ep, const struct fi_msg_rma *msg,
			 uint64_t flags)
{
	return fi_writemsg(ep->fid, msg, flags);
}

static ssize_t read_msg(const struct pmv_engine_ep *ep, const struct fi_msg_rma *msg,
			uint64_t flags)
{
	return fi_readmsg(ep->fid, msg, flags);
}

static ssize_t inject_write(const struct pmv_engine_ep *ep, const struct fi_msg_rma *msg,
			    uint64_t flags)
{
	const struct fi_rma_iov *to = msg->rma_iov;
	const struct iovec *from = msg->msg_iov;

	if (flags & FI_REMOTE_CQ_DATA)
		return fi_inject_writedata(ep->fid, from->iov_base, from->iov_len, msg->data,
					   msg->addr, to->addr, to->key);
	return fi_inject_write(ep->fid, from->iov_base, from->iov_len, msg->addr, to->addr,
			       to->key);
}

static ssize_t send_msg(const struct pmv_engine_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return fi_sendmsg(ep->fid, msg, flags);
}

static ssize_t recv_msg(const struct pmv_engine_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return fi_recvmsg(ep->fid, msg, flags);
}

static ssize_t inject_send(const struct pmv_engine_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	const struct iovec *from = msg->msg_iov;

	if (flags & FI_REMOTE_CQ_DATA)
		return fi_injectdata(ep->fid, from->iov_base, from->iov_len, msg->data, msg->addr);
	return fi_inject(ep->fid, from->iov_base, from->iov_len, msg->addr);
}

/* operand_value -- the 64 bits that stand for an operand where it is passed by value */
static uint64_t operand_value(enum fi_datatype datatype, const struct fi_ioc *ioc)
{
	uint64_t value = 0;
	size_t size = pmv_operand_size(datatype);

	/* verbs has none that is longer. */
	memcpy(&value, ioc->addr, size < sizeof(value) ? size : sizeof(value));
	return value;
}

static ssize_t post_atomic(const struct pmv_engine_ep *ep, const struct pmv_atomic *op,
			   uint64_t flags)
{
	bool by_value = FI_VERSION_LT(fi_version(), ep->engine->core->values_until);
	struct fi_msg_atomic msg = *op->msg;
	struct fi_ioc operand;

	if (!op->fetch)
		return fi_atomicmsg(ep->fid, &msg, flags);
	if (by_value && msg.iov_count && msg.msg_iov->addr)
		msg.addr = operand_value(msg.datatype, msg.msg_iov);
	if (!op->compare)
		return fi_fetch_atomicmsg(ep->fid, &msg, op->result, op->result_desc,
					  op->result_count, flags);
	if (!op->operand_count)
		return -FI_EINVAL;
	operand = op->operand[0];
	if (by_value)
		operand.addr = (void *) operand_value(msg.datatype, &operand);
	return fi_compare_atomicmsg(ep->fid, &msg, by_value ? &operand : op->operand,
				    op->operand_desc, op->operand_count, op->result,
				    op->result_desc, op->result_count, flags);
}

static ssize_t inject_atomic(const struct pmv_engine_ep *ep, const struct pmv_atomic *op)
{
	const struct fi_msg_atomic *msg = op->msg;

	return fi_inject_atomic(ep->fid, msg->msg_iov->addr, msg->msg_iov->count, msg->addr,
				msg->rma_iov->addr, msg->rma_iov->key, msg->datatype, msg->op);
}

const struct pmv_engine_ops pmv_engine_libfabric = {
	.write = write_msg,
	.read = read_msg,
	.send = send_msg,
	.recv = recv_msg,
	.atomic = post_atomic,
	.inject_write = inject_write,
	.inject_send = inject_send,
	.inject_atomic = inject_atomic,
	.poll = fi_cq_read,
	.poll_error = fi_cq_readerr,
};

void pmv_engine_join(struct pmv_engine_ep *ep, struct pmv_engine *engine)
{
	void *lists = NULL;

	ep->engine = engine;
	ep->ops = engine->core->ops;
	ep->lists = NULL;
	if (!engine->core->posts_lists ||
	    fi_open_ops(&ep->fid->fid, PMEMRDMA_POST_OPS_V3, 0, &lists, NULL) || !lists)
		return;
	ep->lists = lists;
	/* What is in front of the core (FI_HOOK) gives the core's table, and can't be used with it.
	 */
	if (ep->lists->post(ep->fid, NULL, 0) == -FI_EOPNOTSUPP)
		ep->lists = NULL;
}

void pmv_engine_hold(const struct pmv_engine_ep *ep)
{
	if (ep->lists && ep->lists->hold)
		ep->lists->hold(ep->fid);
}

int pmv_engine_establish(const struct pmv_engine_ep *ep)
{
	return ep->lists && ep->lists->hold ? ep->lists->establish(ep->fid) : 0;
}

/* in_list -- a message as a request of a list */
static struct pmemrdma_request in_list(enum pmemrdma_kind kind, const struct fi_msg_rma *msg,
				       uint64_t flags)
{
	return (struct pmemrdma_request){
		.kind = kind,
		.flags = flags,
		.iov = msg->msg_iov,
		.desc = msg->desc,
		.iov_count = msg->iov_count,
		.addr = msg->rma_iov->addr,
		.key = msg->rma_iov->key,
		.context = msg->context,
	};
}

ssize_t pmv_engine_write_read(const struct pmv_engine_ep *ep, const struct fi_msg_rma *write,
			      const struct fi_msg_rma *read)
{
	const struct pmemrdma_request list[] = {
		in_list(PMEMRDMA_WRITE, write, 0),
		in_list(PMEMRDMA_READ, read, FI_COMPLETION),
	};

	return ep->lists->post(ep->fid, list, 2);
}

void pmv_engine_explain(int err, size_t len)
{
	struct rlimit limit;

	if (err == -FI_ENOMEM && !getrlimit(RLIMIT_MEMLOCK, &limit) &&
	    limit.rlim_cur != RLIM_INFINITY)
		PMV_WARN(MR,
			 "%zu bytes can't be registered: there is no memory, or this process may "
			 "not lock so much for a NIC (RLIMIT_MEMLOCK is %llu KiB; see ulimit -l)\n",
			 len, (unsigned long long) limit.rlim_cur / 1024);
}

bool pmv_engine_flushes(const struct pmv_engine_ep *ep)
{
	return ep->lists && (ep->lists->flushes(ep->fid) & PMEMRDMA_FLUSH_PERSISTENT);
}

bool pmv_engine_atomic_writes(const struct pmv_engine_ep *ep)
{
	const unsigned ways = PMEMRDMA_FLUSH_PERSISTENT | PMEMRDMA_ATOMIC_WRITES;

	return ep->lists && (ep->lists->flushes(ep->fid) & ways) == ways;
}

const uint64_t pmv_engine_atomic_write_right = PMEMRDMA_MR_ATOMIC_WRITE;

uint64_t pmv_engine_flush_right(const struct pmv_engine *engine)
{
	return engine->core->posts_lists && !pmv_setting.no_flush ? PMEMRDMA_MR_FLUSH : 0;
}

static struct pmemrdma_request flush_of(const struct pmv_engine_range *range, uint64_t flags,
					void *context)
{
	return (struct pmemrdma_request){
		.kind = PMEMRDMA_FLUSH,
		.flags = flags,
		.addr = range->addr,
		.key = range->key,
		.context = context,
		.len = range->len,
		.flush = PMEMRDMA_FLUSH_PERSISTENT,
	};
}

ssize_t pmv_engine_write_flush(const struct pmv_engine_ep *ep, const struct fi_msg_rma *write,
			       uint64_t flags, const struct pmv_engine_range *range)
{
	const struct pmemrdma_request list[2] = {
		in_list(PMEMRDMA_WRITE, write, flags),
		flush_of(range, FI_COMPLETION, write->context),
	};
	ssize_t ret = ep->lists->post(ep->fid, list, 2);

	return ret ? ret : -FI_EIO;
}

/* posted -- all of them, or none */
static ssize_t posted(ssize_t ret, size_t count)
{
	return ret == (ssize_t) count ? 0 : ret < 0 ? ret : -FI_EIO;
}

ssize_t pmv_engine_flush(const struct pmv_engine_ep *ep, const struct pmv_engine_range *range,
			 void *context)
{
	const struct pmemrdma_request request = flush_of(range, FI_COMPLETION, context);

	return posted(ep->lists->post(ep->fid, &request, 1), 1);
}

ssize_t pmv_engine_tail(const struct pmv_engine_ep *ep, const struct pmv_engine_range *before,
			const struct fi_msg_rma *write, uint64_t flags,
			const struct pmv_engine_range *behind)
{
	struct pmemrdma_request list[3];
	size_t count = 0;

	if (before)
		list[count++] = flush_of(before, 0, write->context);
	list[count++] = in_list(PMEMRDMA_ATOMIC_WRITE, write, flags);
	list[count++] = flush_of(behind, FI_COMPLETION, write->context);
	return posted(ep->lists->post(ep->fid, list, count), count);
}

/* So many keys that are drawn are not all taken. */
#define MOST_DRAWN 64

int pmv_engine_region(const struct pmv_engine *engine, const struct fi_mr_attr *attr,
		      uint64_t flags, struct fid_mr **mr)
{
	struct fi_mr_attr drawn = *attr;
	int ret = -FI_ENOKEY;
	uint32_t key;

	if (!engine->draws_keys)
		return fi_mr_regattr(engine->domain_fid, attr, flags, mr);
	for (int i = 0; i < MOST_DRAWN && ret == -FI_ENOKEY; i++) {
		if (getrandom(&key, sizeof(key), 0) != sizeof(key))
			return -FI_EOTHER;
		drawn.requested_key = key;
		ret = fi_mr_regattr(engine->domain_fid, &drawn, flags, mr);
	}
	return ret;
}

int pmv_engine_register(const struct pmv_engine *engine, void *buf, size_t len, uint64_t access,
			struct fid_mr **mr)
{
	const struct iovec iov = {buf, len};
	const struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1, .access = access};
	int ret = pmv_engine_region(engine, &attr, PMV_CORE_MR_NOCACHE, mr);

	pmv_engine_explain(ret, len);
	return ret;
}

/* next_spare -- it is in the last bytes of each */
static void **next_spare(void *memory, size_t len)
{
	return (void **) ((char *) memory + len) - 1;
}

void *pmv_engine_map(struct pmv_engine *engine, size_t len)
{
	void *memory;

	pthread_mutex_lock(&engine->lock);
	memory = engine->spare;
	if (memory)
		engine->spare = *next_spare(memory, len);
	pthread_mutex_unlock(&engine->lock);
	if (memory)
		return memory;
	memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

void pmv_engine_unmap(struct pmv_engine *engine, void *memory, size_t len)
{
	/* The addresses are what is kept, not the memory. */
	madvise(memory, len, MADV_DONTNEED);
	pthread_mutex_lock(&engine->lock);
	*next_spare(memory, len) = engine->spare;
	engine->spare = memory;
	engine->spare_len = len;
	pthread_mutex_unlock(&engine->lock);
}

static void free_spares(struct pmv_engine *engine)
{
	void *memory;

	while ((memory = engine->spare)) {
		engine->spare = *next_spare(memory, engine->spare_len);
		munmap(memory, engine->spare_len);
	}
}

int pmv_engine_open(struct pmv_engine *engine, int mr_mode)
{
	int ret;

	pthread_mutex_init(&engine->lock, NULL);

	engine->scratch = mmap(NULL, PMV_SCRATCH_SIZE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (engine->scratch == MAP_FAILED)
		return -FI_ENOMEM;
	engine->scratch_byte = (struct iovec){.iov_base = engine->scratch, .iov_len = 1};
	if (!(mr_mode & (FI_MR_LOCAL | PMV_MR_BASIC)))
		return 0;
	ret = pmv_engine_register(engine, engine->scratch, PMV_SCRATCH_SIZE, FI_READ | FI_WRITE,
				  &engine->scratch_mr);
	if (ret)
		munmap(engine->scratch, PMV_SCRATCH_SIZE);
	else
		engine->scratch_desc = fi_mr_desc(engine->scratch_mr);
	return ret;
}

int pmv_engine_close(struct pmv_engine *engine)
{
	int ret = engine->scratch_mr ? fi_close(&engine->scratch_mr->fid) : 0;

	if (ret)
		return ret;
	/* The domain may be closed again, and the addresses be another's by then. */
	if (engine->scratch)
		munmap(engine->scratch, PMV_SCRATCH_SIZE);
	engine->scratch = NULL;
	engine->scratch_mr = NULL;
	free_spares(engine);
	return 0;
}
