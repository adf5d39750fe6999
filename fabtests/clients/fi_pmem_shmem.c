/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_shmem.c -- one-sided operations as OpenSHMEM libraries have libfabric do them
 *
 * Two processing elements (PEs) with a symmetric heap each, a shared mapping of a
 * file or of device DAX: put, put_nbi and quiet, which waits for a counter, get,
 * fetch-add, and a barrier made of puts.  They know nothing of persistent memory:
 * no capability, no flag.  That quiet means durable is FI_PMEMVERBS_COMMIT=all's
 * doing; over tcp a put that nobody commits completes while the other PE is stopped.
 *
 * With -o log PE 1 puts numbered records into PE 0's heap instead, and prints each
 * number after quiet; fabtests/power/plug cuts the power meanwhile, and -A compares
 * what is left with what was printed.
 */
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>

#include "acks.h"
#include "../common/common.h"
#include "../common/control.h"
#include "../common/memory.h"
#include "../common/stats.h"

#define HEAP_SIZE ((size_t) ACKS_LOG_SIZE + 4096)
#define SYNC_AT ((uint64_t) ACKS_LOG_SIZE) /* barriers that the other PE has come to */
#define COUNT_AT (SYNC_AT + 8)
#define STOPPED_NS UINT64_C(100000000)
#define ADDS 50

static const struct program program = {
	.name = "fi_pmem_shmem",
	.summary = "Checks put and quiet in OpenSHMEM's style. Both take -M, of the same length.",
	.letters = "fdBPMAoh",
	.operations = "check: put, quiet, get, fetch-add, barrier (default); log: write a log",
};

static const char *const operations[] = {"check", "log", NULL};

enum { OP_CHECK, OP_LOG };

/* What a launcher would exchange. */
struct card {
	uint64_t key, addr;
	size_t name_len;
	char name[128];
};

struct pe {
	const struct options *opts;
	int me;
	int control;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_cntr *put_cntr, *get_cntr;
	struct fid_ep *ep;
	struct memory heap;
	struct fid_mr *mr;
	char *source; /* what puts come from and gets go to */
	struct fid_mr *source_mr;
	fi_addr_t peer;
	uint64_t peer_key, peer_addr;
	uint64_t puts, gets; /* begun */
	uint64_t barriers;
	struct fi_context2 contexts[64];
	unsigned int next_context;
};

/* ---- what a library is made of ---- */

static struct fi_info *make_hints(const struct options *opts)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->caps = FI_RMA | FI_ATOMIC;
	hints->ep_attr->type = FI_EP_RDM;
	hints->mode = FI_CONTEXT;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->av_type = FI_AV_MAP;
	if (opts->fabric)
		hints->fabric_attr->name = strdup(opts->fabric);
	if (opts->domain)
		hints->domain_attr->name = strdup(opts->domain);
	return hints;
}

static int open_fabric(struct pe *pe, const char *node, uint64_t flags)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
	struct fi_av_attr av_attr = {.type = FI_AV_MAP};
	struct fi_cntr_attr cntr_attr = {
		.events = FI_CNTR_EVENTS_COMP,
		.wait_obj = FI_WAIT_UNSPEC,
	};
	struct fi_info *hints = make_hints(pe->opts);
	int ret;

	if (!hints)
		return report("fi_allocinfo", -FI_ENOMEM);
	ret = fi_getinfo(FI_VERSION(1, 17), node, NULL, flags, hints, &pe->info);
	fi_freeinfo(hints);
	if (ret)
		return explain_offer(NULL, pe->opts->provider, pe->opts->dst_addr, ret);
	DO(fi_fabric(pe->info->fabric_attr, &pe->fabric, NULL));
	DO(fi_domain(pe->fabric, pe->info, &pe->domain, NULL));
	DO(fi_av_open(pe->domain, &av_attr, &pe->av, NULL));
	DO(fi_cq_open(pe->domain, &cq_attr, &pe->cq, NULL));
	DO(fi_cntr_open(pe->domain, &cntr_attr, &pe->put_cntr, NULL));
	DO(fi_cntr_open(pe->domain, &cntr_attr, &pe->get_cntr, NULL));
	DO(fi_endpoint(pe->domain, pe->info, &pe->ep, NULL));
	DO(fi_ep_bind(pe->ep, &pe->av->fid, 0));
	DO(fi_ep_bind(pe->ep, &pe->cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
	DO(fi_ep_bind(pe->ep, &pe->put_cntr->fid, FI_WRITE));
	DO(fi_ep_bind(pe->ep, &pe->get_cntr->fid, FI_READ));
	DO(fi_enable(pe->ep));
	return 0;
}

static int open_heap(struct pe *pe)
{
	uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
	int ret;

	if (memory_map(&pe->heap, pe->opts->memory, HEAP_SIZE))
		return -FI_ENOMEM;
	memset((char *) pe->heap.base + SYNC_AT, 0, HEAP_SIZE - SYNC_AT);
	/* A power failure may take what is in the file, but not the file. */
	sync();
	pe->source = calloc(1, HEAP_SIZE);
	if (!pe->source)
		return report("calloc", -FI_ENOMEM);
	ret = fi_mr_reg(pe->domain, pe->heap.base, HEAP_SIZE, access, 0, 1, 0, &pe->mr, NULL);
	if (ret)
		return explain_memory(NULL, ret);
	DO(fi_mr_reg(pe->domain, pe->source, HEAP_SIZE, FI_READ | FI_WRITE, 0, 2, 0, &pe->source_mr,
		     NULL));
	return 0;
}

static int exchange(struct pe *pe)
{
	bool virt_addr = pe->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
	struct card mine = {
		.key = fi_mr_key(pe->mr),
		.addr = virt_addr ? (uintptr_t) pe->heap.base : 0,
		.name_len = sizeof(mine.name),
	};
	struct control_msg msg = {.len = sizeof(mine)};
	struct card other;

	DO(fi_getname(&pe->ep->fid, mine.name, &mine.name_len));
	if (control_send(pe->control, &msg, &mine) ||
	    control_receive(pe->control, &msg, &other, sizeof(other), pe->opts->timeout))
		return report("the exchange of addresses", -FI_ECONNRESET);
	if (fi_av_insert(pe->av, other.name, 1, &pe->peer, 0, NULL) != 1)
		return report("fi_av_insert", -FI_EOTHER);
	pe->peer_key = other.key;
	pe->peer_addr = other.addr;
	return 0;
}

static void *next_context(struct pe *pe)
{
	return &pe->contexts[pe->next_context++ % 64];
}

/* progress -- what the other PE wants is done in calls */
static int progress(struct pe *pe)
{
	struct fi_cq_entry entry;
	ssize_t ret = fi_cq_read(pe->cq, &entry, 1);

	if (ret == -FI_EAVAIL)
		return cq_report(pe->cq);
	return ret >= 0 || ret == -FI_EAGAIN ? 0 : report("fi_cq_read", ret);
}

#define RETRY(pe, call)                                                                            \
	do {                                                                                       \
		ssize_t ret_;                                                                      \
		while ((ret_ = (call)) == -FI_EAGAIN) {                                            \
			if (progress(pe))                                                          \
				return -FI_EIO;                                                    \
		}                                                                                  \
		if (ret_)                                                                          \
			return report(#call, ret_);                                                \
	} while (0)

static int put_nbi(struct pe *pe, uint64_t at, const void *from, size_t len)
{
	RETRY(pe, fi_write(pe->ep, from, len, fi_mr_desc(pe->source_mr), pe->peer,
			   pe->peer_addr + at, pe->peer_key, next_context(pe)));
	pe->puts++;
	return 0;
}

static int quiet(struct pe *pe)
{
	int ret = fi_cntr_wait(pe->put_cntr, pe->puts, (int) pe->opts->timeout * 1000);

	/* The CQ has the error. */
	if (ret == -FI_EAVAIL && progress(pe))
		return -FI_EIO;
	return ret ? report("fi_cntr_wait", ret) : 0;
}

/* put -- the source may be used again at once: it is copied or waited for */
static int put(struct pe *pe, uint64_t at, const void *from, size_t len)
{
	int ret;

	if (len > pe->info->tx_attr->inject_size) {
		ret = put_nbi(pe, at, from, len);
		return ret ? ret : quiet(pe);
	}
	RETRY(pe, fi_inject_write(pe->ep, from, len, pe->peer, pe->peer_addr + at, pe->peer_key));
	pe->puts++;
	return 0;
}

static int await_gets(struct pe *pe)
{
	DO(fi_cntr_wait(pe->get_cntr, pe->gets, (int) pe->opts->timeout * 1000));
	return 0;
}

static int get(struct pe *pe, void *to, uint64_t at, size_t len)
{
	RETRY(pe, fi_read(pe->ep, to, len, fi_mr_desc(pe->source_mr), pe->peer, pe->peer_addr + at,
			  pe->peer_key, next_context(pe)));
	pe->gets++;
	return await_gets(pe);
}

/* fetch_add -- -FI_EOPNOTSUPP without a word: that memory has none */
static int fetch_add(struct pe *pe, uint64_t at, uint64_t add, uint64_t *fetched)
{
	uint64_t *operands = (uint64_t *) pe->source;
	void *desc = fi_mr_desc(pe->source_mr);
	ssize_t ret;

	operands[0] = add;
	while ((ret = fi_fetch_atomic(pe->ep, &operands[0], 1, desc, &operands[1], desc, pe->peer,
				      pe->peer_addr + at, pe->peer_key, FI_UINT64, FI_SUM,
				      next_context(pe))) == -FI_EAGAIN) {
		if (progress(pe))
			return -FI_EIO;
	}
	if (ret)
		return ret == -FI_EOPNOTSUPP ? (int) ret : report("fi_fetch_atomic", ret);
	pe->gets++;
	ret = await_gets(pe);
	*fetched = operands[1];
	return (int) ret;
}

static uint64_t load(const struct pe *pe, uint64_t at)
{
	return *(const volatile uint64_t *) ((char *) pe->heap.base + at);
}

static int barrier_all(struct pe *pe)
{
	uint64_t deadline = deadline_in(pe->opts->timeout);
	uint64_t mine = ++pe->barriers;
	int ret = quiet(pe);

	if (!ret)
		ret = put(pe, SYNC_AT, &mine, sizeof(mine));
	if (!ret)
		ret = quiet(pe);
	while (!ret && load(pe, SYNC_AT) < mine) {
		ret = progress(pe);
		if (now_ns() > deadline)
			return report("a barrier", -FI_ETIMEDOUT);
	}
	return ret;
}

/*
 * meet -- a barrier by way of the launcher.  A PE that comes out of barrier_all may
 * still owe the other one the acknowledgement of its last put, and must not stop or
 * end before that.
 */
static int meet(struct pe *pe)
{
	uint64_t deadline = deadline_in(pe->opts->timeout);
	struct control_msg msg = {0};
	int ret = quiet(pe);

	if (!ret && control_send(pe->control, &msg, NULL))
		return -FI_ECONNRESET;
	while (!ret && !control_waits(pe->control, 0) && now_ns() < deadline)
		ret = progress(pe);
	if (!ret && control_receive(pe->control, &msg, NULL, 0, 1))
		return -FI_ECONNRESET;
	return ret;
}

/* ---- the checks: 0, negative, or 1 for one that can't be made ---- */

static int expect(const char *what, const void *bytes, size_t len, uint64_t seed, size_t offset)
{
	size_t right = pattern_check(bytes, len, seed, offset);

	if (right == len)
		return 0;
	fprintf(stderr, "%s: byte %zu of %zu is wrong\n", what, right, len);
	return -FI_EIO;
}

/* Each PE puts its own patterns. */
static uint64_t seed_of(int pe, uint64_t number)
{
	return 2 * number + (uint64_t) pe;
}

static int check_put(struct pe *pe)
{
	static const size_t sizes[] = {1, 8, 63, 200, 4096, 65537, 1 << 20};
	char *heap = pe->heap.base;
	size_t at = 3;
	int ret = 0;

	for (size_t i = 0; !ret && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		pattern_fill(pe->source, sizes[i], seed_of(pe->me, i), at);
		ret = put(pe, at, pe->source, sizes[i]);
		/* It has been taken. */
		memset(pe->source, 0, sizes[i]);
		if (!ret)
			ret = barrier_all(pe);
		if (!ret)
			ret = expect("a put", heap + at, sizes[i], seed_of(!pe->me, i), at);
		at += sizes[i];
	}
	return ret;
}

static int check_put_nbi(struct pe *pe)
{
	enum { COUNT = 300, SIZE = 200, STRIDE = 256 };
	char *heap = pe->heap.base;
	int ret = 0;

	for (uint64_t round = 0; !ret && round < 5; round++) {
		pattern_fill(pe->source, (size_t) COUNT * STRIDE, seed_of(pe->me, round), 0);
		for (size_t i = 0; !ret && i < COUNT; i++)
			ret = put_nbi(pe, i * STRIDE, pe->source + i * STRIDE, SIZE);
		if (!ret)
			ret = barrier_all(pe);
		for (size_t at = 0; !ret && at < (size_t) COUNT * STRIDE; at += STRIDE)
			ret = expect("one of many puts", heap + at, SIZE, seed_of(!pe->me, round),
				     at);
		/* Not to be overwritten while it is looked at. */
		if (!ret)
			ret = barrier_all(pe);
	}
	return ret;
}

static int check_get(struct pe *pe)
{
	enum { SIZE = 65536 };
	int ret;

	pattern_fill(pe->heap.base, SIZE, seed_of(pe->me, 7), 0);
	ret = barrier_all(pe);
	if (!ret)
		ret = get(pe, pe->source, 0, SIZE);
	if (!ret)
		ret = expect("a get", pe->source, SIZE, seed_of(!pe->me, 7), 0);
	return ret ? ret : barrier_all(pe);
}

/* What is fetched has to grow by what is added: nobody else counts there. */
static int check_fetch_add(struct pe *pe)
{
	uint64_t fetched = 0;
	int ret = 0, refused = 0;

	for (uint64_t i = 0; !ret && !refused && i < ADDS; i++) {
		ret = fetch_add(pe, COUNT_AT, 3, &fetched);
		if (!i && ret == -FI_EOPNOTSUPP) {
			refused = 1;
			ret = 0;
		} else if (!ret && fetched != 3 * i) {
			fprintf(stderr, "fetched %llu\n", (unsigned long long) fetched);
			ret = -FI_EIO;
		}
	}
	if (!ret)
		ret = barrier_all(pe);
	if (!ret && load(pe, COUNT_AT) != (refused ? 0 : UINT64_C(3) * ADDS)) {
		fprintf(stderr, "the sum is wrong\n");
		ret = -FI_EIO;
	}
	return ret ? ret : refused;
}

/* A put that is quiet while the other PE is stopped has not asked it. */
static int put_to_stopped(struct pe *pe)
{
	struct control_msg msg;
	uint64_t end;
	int ret;

	if (control_receive(pe->control, &msg, NULL, 0, pe->opts->timeout))
		return -FI_ECONNRESET;
	pattern_fill(pe->source, 4096, seed_of(pe->me, 9), 0);
	ret = put_nbi(pe, 0, pe->source, 4096);
	end = now_ns() + STOPPED_NS;
	while (!ret && now_ns() < end) {
		ret = progress(pe);
		if (fi_cntr_read(pe->put_cntr) < pe->puts)
			continue;
		fprintf(stderr, "a put completed while its target was stopped\n");
		ret = -FI_EIO;
	}
	msg = (struct control_msg){0};
	if (control_send(pe->control, &msg, NULL))
		return -FI_ECONNRESET;
	return ret ? ret : quiet(pe);
}

static int check_quiet_waits(struct pe *pe)
{
	int ret;

	/* A NIC may do without the other PE, where no agent is needed. */
	if (pe->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
		return 1;
	ret = meet(pe);
	if (!ret)
		ret = pe->me ? put_to_stopped(pe) : control_stop(pe->control);
	if (ret)
		return ret;
	ret = barrier_all(pe);
	return ret || pe->me ? ret : expect("a put", pe->heap.base, 4096, seed_of(!pe->me, 9), 0);
}

/* ---- running them ---- */

static int check_all(struct pe *pe)
{
	static const struct {
		const char *name;
		int (*check)(struct pe *pe);
	} checks[] = {
		{"shmem_put", check_put},
		{"shmem_put_nbi", check_put_nbi},
		{"shmem_get", check_get},
		{"shmem_fetch_add", check_fetch_add},
		{"shmem_quiet_waits", check_quiet_waits},
	};

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		int ret = checks[i].check(pe);

		if (!ret)
			ret = barrier_all(pe);
		if (pe->me || ret < 0)
			printf("%s %s\n", ret < 0 ? "not ok" : ret ? "skip" : "ok", checks[i].name);
		fflush(stdout);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int write_log(struct pe *pe)
{
	int ret = barrier_all(pe);

	for (uint64_t number = 1; !ret && pe->me && number <= ACKS_RECORDS; number++) {
		acks_record(pe->source, number);
		ret = put_nbi(pe, acks_offset(number), pe->source, ACKS_RECORD_SIZE);
		if (!ret)
			ret = quiet(pe);
		if (!ret)
			acks_say(number);
	}
	return ret;
}

static int close_all(struct pe *pe)
{
	int ret = CLOSE(pe->ep) | CLOSE(pe->mr) | CLOSE(pe->source_mr) | CLOSE(pe->put_cntr) |
		  CLOSE(pe->get_cntr) | CLOSE(pe->cq) | CLOSE(pe->av) | CLOSE(pe->domain) |
		  CLOSE(pe->fabric);

	if (pe->info)
		fi_freeinfo(pe->info);
	memory_unmap(&pe->heap);
	free(pe->source);
	close(pe->control);
	return ret;
}

static int run(const struct options *opts, int op)
{
	struct pe pe = {.opts = opts, .me = opts->dst_addr != NULL};
	char node[NI_MAXHOST];
	int ret;

	pe.control = pe.me ? control_connect(opts->dst_addr, opts->dst_port, opts->timeout)
			   : control_accept(opts->src_addr, opts->src_port);
	if (pe.control < 0)
		return -FI_ECONNREFUSED;
	ret = control_address(pe.control, node, sizeof(node));
	if (!ret)
		ret = open_fabric(&pe, node, FI_SOURCE);
	if (!ret)
		ret = open_heap(&pe);
	if (!ret)
		ret = exchange(&pe);
	if (!ret)
		ret = op == OP_LOG ? write_log(&pe) : check_all(&pe);
	if (!ret)
		ret = meet(&pe);
	return close_all(&pe) | ret;
}

int main(int argc, char **argv)
{
	struct options opts = {0};
	int op;

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	if (opts.acks)
		return acks_check(opts.memory, opts.acks) ? EXIT_FAILURE : EXIT_SUCCESS;
	op = options_op(&opts, operations);
	if (op < 0)
		return EXIT_USAGE;
	signal(SIGPIPE, SIG_IGN);
	return run(&opts, op) ? EXIT_FAILURE : EXIT_SUCCESS;
}
