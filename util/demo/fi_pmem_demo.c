/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_demo.c -- a durable log on another machine's memory, as an example
 *
 * The target lends a file or /dev/dax device; the initiator appends records to it.  A record is
 * followed by the new tail, written with FI_FENCE and FI_COMMIT: when its completion comes, both
 * are durable, and at no time does the tail point past a record that is not.
 *
 * As an example it calls libfabric itself, and shares no code with other programs here.
 * demo_log.c has the log, and the memory that it lies in.
 *
 *   fi_pmem_demo -M /dev/dax0.0          on the machine with the memory
 *   fi_pmem_demo -n 1000 target.example  on the other one
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "demo_log.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

#define DEFAULT_PORT "7471"
#define DEFAULT_RECORDS 1000 /* the help says so */
#define EVENT_TIMEOUT_MS 10000
#define TRIES_PER_LOOK 4096
#define COMPLETION_TIMEOUT_NS INT64_C(30000000000)

/* What the target tells the initiator when it accepts the connection. */
struct lease {
	uint64_t addr;
	uint64_t key;
};

struct side {
	const char *host; /* whom to connect to; NULL at the target */
	const char *port;
	const char *path; /* of the target's log; NULL: none */
	struct log_memory memory;
	bool tells; /* the initiator, of each record */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_pep *pep;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
};

struct event {
	uint32_t type;
	union {
		struct fi_eq_cm_entry cm;
		char room[sizeof(struct fi_eq_cm_entry) + 256];
	};
};

static const char *const domain_words[] = {
	[FI_PMEMVERBS_NONE] = "nothing (volatile memory; a commit means visibility)",
	[FI_PMEMVERBS_PAGE] = "what msync has written to the file (PAGE)",
	[FI_PMEMVERBS_DMP] = "the DIMMs and the memory controller (DMP, as with ADR)",
	[FI_PMEMVERBS_MHP] = "the CPU caches, too (MHP, as with eADR)",
	[FI_PMEMVERBS_WSP] = "everything, down to the NIC's buffers (WSP)",
};

static const char *const method_words[] = {
	[FI_PMEMVERBS_REFUSED] = "none: a commit would be refused",
	[FI_PMEMVERBS_WRITE] = "the write's own completion",
	[FI_PMEMVERBS_READ] = "a small READ behind the write, which pushes it to the memory",
	[FI_PMEMVERBS_AGENT] = "the target's agent, which writes it back and acknowledges",
	[FI_PMEMVERBS_FLUSH] = "an RDMA FLUSH behind the write",
};

static int fail(const char *call, ssize_t ret)
{
	fprintf(stderr, "fi_pmem_demo: %s: %s\n", call, fi_strerror((int) -ret));
	return 1;
}

/* DO -- a call that has to succeed */
#define DO(call)                                                                                   \
	do {                                                                                       \
		ssize_t ret_ = (call);                                                             \
		if (ret_)                                                                          \
			return fail(#call, ret_);                                                  \
	} while (0)

/* explain -- fi_getinfo says "No data available" for everything: what to look at */
static int explain(const char *node, int ret)
{
	const char *path = getenv("FI_PROVIDER_PATH");
	struct addrinfo *found;
	int unknown = node ? getaddrinfo(node, NULL, NULL, &found) : 0;

	fail("fi_getinfo", ret);
	if (unknown) {
		fprintf(stderr, "there is no host '%s': %s\n", node, gai_strerror(unknown));
		return 1;
	}
	if (node)
		freeaddrinfo(found);
	fprintf(stderr,
		"Is the provider found? fi_info -l has to list pmemverbs. FI_PROVIDER_PATH names "
		"the\ndirectory of libpmemverbs-fi.so; it is %s.\n"
		"If it is found, FI_LOG_LEVEL=info says why it can't be used.\n",
		path ? path : "not set");
	return 1;
}

/* explain_connection -- the peer is not there, or has gone: then tcp may give any reason */
static int explain_connection(const struct side *side, int err)
{
	fprintf(stderr, "fi_pmem_demo: ");
	if (!side->host)
		fprintf(stderr, "the initiator has gone before it was connected\n");
	else if (err == FI_ECONNREFUSED)
		fprintf(stderr,
			"connection refused: nobody accepts connections at %s, port %s.\n"
			"Is the target running, on that host and port? If it has ended, it has "
			"printed why.\n",
			side->host, side->port);
	else if (err == FI_ETIMEDOUT || err == FI_EHOSTUNREACH || err == FI_ENETUNREACH)
		fprintf(stderr, "no connection to %s, port %s: %s\n", side->host, side->port,
			fi_strerror(err));
	else
		fprintf(stderr,
			"connection refused: the target at %s, port %s, has ended it instead of "
			"accepting it.\nIt has printed why.\n",
			side->host, side->port);
	return 1;
}

static void close_side(struct side *side)
{
	struct fid *fids[] = {
		side->ep ? &side->ep->fid : NULL,         side->mr ? &side->mr->fid : NULL,
		side->cq ? &side->cq->fid : NULL,         side->pep ? &side->pep->fid : NULL,
		side->eq ? &side->eq->fid : NULL,         side->domain ? &side->domain->fid : NULL,
		side->fabric ? &side->fabric->fid : NULL,
	};

	for (size_t i = 0; i < sizeof(fids) / sizeof(fids[0]); i++) {
		if (fids[i])
			fi_close(fids[i]);
	}
	if (side->info)
		fi_freeinfo(side->info);
}

static int open_fabric(struct side *side)
{
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_info *hints = fi_allocinfo();
	int ret;

	if (!hints)
		return fail("fi_allocinfo", -FI_ENOMEM);
	hints->caps = FI_MSG | FI_RMA | FI_PMEM | FI_FENCE;
	hints->mode = FI_RX_CQ_DATA;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup("pmemverbs");
	ret = fi_getinfo(FI_VERSION(1, 17), side->host, side->port, side->host ? 0 : FI_SOURCE,
			 hints, &side->info);
	fi_freeinfo(hints);
	if (ret)
		return explain(side->host, ret);
	DO(fi_fabric(side->info->fabric_attr, &side->fabric, NULL));
	DO(fi_eq_open(side->fabric, &eq_attr, &side->eq, NULL));
	return 0;
}

static int wait_event(struct side *side, uint32_t type, struct event *event, int timeout)
{
	struct fi_eq_err_entry err = {0};
	ssize_t ret =
		fi_eq_sread(side->eq, &event->type, event->room, sizeof(event->room), timeout, 0);

	if (ret == -FI_EAVAIL && fi_eq_readerr(side->eq, &err, 0) > 0)
		return explain_connection(side, err.err);
	if (ret < 0)
		return fail("fi_eq_sread", ret);
	return event->type == type ? 0 : explain_connection(side, FI_ECONNABORTED);
}

/* open_endpoint -- an endpoint with one completion queue, ready to be connected */
static int open_endpoint(struct side *side, struct fi_info *info)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_UNSPEC};

	DO(fi_domain(side->fabric, info, &side->domain, NULL));
	DO(fi_cq_open(side->domain, &cq_attr, &side->cq, NULL));
	DO(fi_endpoint(side->domain, info, &side->ep, NULL));
	DO(fi_ep_bind(side->ep, &side->eq->fid, 0));
	DO(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
	DO(fi_enable(side->ep));
	return 0;
}

/* The target */

/* serve -- lend the memory to one initiator; the target's program has nothing else to do */
static int serve(struct side *side)
{
	struct log *log;
	struct fi_cq_msg_entry entry;
	struct lease lease;
	struct event event;
	ssize_t ret;

	if (wait_event(side, FI_CONNREQ, &event, -1) || open_endpoint(side, event.cm.info))
		return 1;
	ret = log_open(&side->memory, side->domain, side->path);
	if (ret) {
		fail(side->path, ret);
		fprintf(stderr, "FI_LOG_LEVEL=warn says why.\n");
		return 1;
	}
	log = side->memory.log;
	log->tail = 0;
	ret = fi_mr_reg(side->domain, log, LOG_SIZE, FI_REMOTE_WRITE, 0, 0, FI_PMEM, &side->mr,
			NULL);
	if (ret) {
		fail("fi_mr_reg", ret);
		fprintf(stderr,
			"The provider refuses this memory: FI_LOG_LEVEL=warn says why. "
			"FI_PMEMVERBS_DOMAIN=mhp\ndeclares memory that is not durable, to try "
			"things out.\n");
		return 1;
	}
	lease.key = fi_mr_key(side->mr);
	lease.addr = event.cm.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR
			     ? (uint64_t) (uintptr_t) log
			     : 0;
	fi_freeinfo(event.cm.info);
	DO(fi_accept(side->ep, &lease, sizeof(lease)));
	if (wait_event(side, FI_CONNECTED, &event, EVENT_TIMEOUT_MS))
		return 1;
	/* tcp places data only inside such calls; RDMA hardware needs none. */
	do {
		fi_cq_read(side->cq, &entry, 1);
		ret = fi_eq_read(side->eq, &event.type, event.room, sizeof(event.room), 0);
	} while (ret == -FI_EAGAIN);
	return log_check(log);
}

static int listen_and_serve(struct side *side)
{
	if (open_fabric(side))
		return 1;
	DO(fi_passive_ep(side->fabric, side->info, &side->pep, NULL));
	DO(fi_pep_bind(side->pep, &side->eq->fid, 0));
	DO(fi_listen(side->pep));
	printf("target: waiting on port %s\n", side->port);
	fflush(stdout);
	return serve(side);
}

/* The initiator */

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static int write_at(struct side *side, const struct lease *lease, struct log *log, void *from,
		    size_t len, uint64_t flags)
{
	void *desc = fi_mr_desc(side->mr);
	struct iovec iov = {.iov_base = from, .iov_len = len};
	struct fi_rma_iov rma_iov = {
		.addr = lease->addr + (size_t) ((char *) from - (char *) log),
		.len = len,
		.key = lease->key,
	};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
	};
	int64_t end = now_ns() + COMPLETION_TIMEOUT_NS;
	ssize_t ret;

	do {
		ret = fi_writemsg(side->ep, &msg, flags);
		if (ret == -FI_EAGAIN)
			fi_cq_read(side->cq, NULL, 0);
	} while (ret == -FI_EAGAIN && now_ns() < end);
	return ret ? fail("fi_writemsg", ret) : 0;
}

/* look_for_end -- once the end of a connection has been read, what was under way fails */
static void look_for_end(struct side *side)
{
	struct fi_eq_err_entry err = {0};
	struct event event;

	if (fi_eq_read(side->eq, &event.type, event.room, sizeof(event.room), 0) == -FI_EAVAIL)
		fi_eq_readerr(side->eq, &err, 0);
}

static int wait_commit(struct side *side)
{
	struct fi_cq_err_entry err = {0};
	struct fi_cq_msg_entry entry;
	int64_t end = now_ns() + COMPLETION_TIMEOUT_NS;
	unsigned int tries = 0;
	ssize_t ret;

	do {
		ret = fi_cq_read(side->cq, &entry, 1);
		if (++tries % TRIES_PER_LOOK == 0)
			look_for_end(side);
	} while (ret == -FI_EAGAIN && now_ns() < end);
	if (ret == -FI_EAVAIL && fi_cq_readerr(side->cq, &err, 0) > 0)
		return fail("commit", -err.err);
	return ret == 1 ? 0 : fail("fi_cq_read", ret);
}

static int append(struct side *side, const struct lease *lease, struct log *log, uint64_t number)
{
	log_record(log->record[number], number);
	log->tail = number + 1;
	return write_at(side, lease, log, log->record[number], RECORD_SIZE, 0) ||
	       write_at(side, lease, log, &log->tail, sizeof(log->tail),
			FI_COMMIT | FI_FENCE | FI_COMPLETION) ||
	       wait_commit(side);
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

	return (x > y) - (x < y);
}

/* describe -- what the key says of the memory, and what will be done */
static int describe(struct side *side, const struct lease *lease)
{
	struct fi_pmemverbs_region region;
	struct fi_pmemverbs_ops *ops;

	DO(fi_open_ops(&side->domain->fid, FI_PMEMVERBS_OPS, 0, (void **) &ops, NULL));
	DO(ops->query_key(side->ep, lease->key, &region));
	printf("initiator: connected; the core provider below is %s, on %s\n"
	       "initiator: what survives a power failure at the target: %s\n"
	       "initiator: what makes a write durable there: %s\n",
	       ops->core_name(side->domain), side->info->domain_attr->name,
	       domain_words[region.domain], method_words[region.method]);
	fflush(stdout);
	return 0;
}

static int append_all(struct side *side, const struct lease *lease, struct log *log,
		      uint64_t records)
{
	int64_t *took = calloc(records, sizeof(*took));
	int ret = took ? 0 : fail("calloc", -FI_ENOMEM);

	for (uint64_t i = 0; !ret && i < records; i++) {
		took[i] = -now_ns();
		ret = append(side, lease, log, i);
		took[i] += now_ns();
		if (!ret && side->tells) {
			printf("durable: %" PRIu64 " records\n", i + 1);
			fflush(stdout);
		}
	}
	if (!ret) {
		qsort(took, records, sizeof(*took), by_value);
		printf("initiator: %" PRIu64 " records of %d bytes appended, each durable before "
		       "the next\n"
		       "initiator: one took %.1f us (median; the fastest %.1f us)\n",
		       records, RECORD_SIZE, took[records / 2] / 1e3, took[0] / 1e3);
	}
	free(took);
	return ret;
}

static int connect_and_append(struct side *side, uint64_t records)
{
	struct log *log = side->memory.log;
	struct event event;
	struct lease lease;

	if (open_fabric(side) || open_endpoint(side, side->info))
		return 1;
	DO(fi_mr_reg(side->domain, log, LOG_SIZE, FI_WRITE, 0, 1, 0, &side->mr, NULL));
	DO(fi_connect(side->ep, side->info->dest_addr, NULL, 0));
	if (wait_event(side, FI_CONNECTED, &event, EVENT_TIMEOUT_MS))
		return 1;
	memcpy(&lease, event.cm.data, sizeof(lease));
	if (describe(side, &lease) || append_all(side, &lease, log, records))
		return 1;
	fi_shutdown(side->ep, 0);
	return 0;
}

/* The command line */

struct choices {
	struct side side;
	const char *check;
	uint64_t records;
};

enum { OPT_VERSION = 256 };

static const struct argp_option options[] = {
	{NULL, 'M', "PATH", 0,
	 "the log: a file, which is made, or a /dev/dax device; 2 MiB of it; direct:FILE: memory "
	 "with that file behind it, for any NIC (default: memory of this process)",
	 0},
	{NULL, 'c', "FILE", 0, "only check the log in this file (default: make one)", 0},
	{NULL, 'P', "PORT", 0, "of the target, 1 to 65535 (default: " DEFAULT_PORT ")", 0},
	{NULL, 'n', "COUNT", 0, "records of 64 bytes to append, 1 to 32767 (default: 1000)", 0},
	{NULL, 'v', NULL, 0, "tell of each record when it is durable", 0},
	{"help", 'h', NULL, 0, "this text", -1},
	{"version", OPT_VERSION, NULL, 0, "the version of pmemverbs", -1},
	{0},
};

/* number -- from 1 to max; or 0, when that was told */
static uint64_t number(int key, const char *text, uint64_t max)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (!*end && *text != '-' && value && value <= max)
		return value;
	fprintf(stderr, "-%c: '%s' is not a number from 1 to %" PRIu64 "\n", key, text, max);
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		/* What is wrong is told by main, and by getopt. */
		state->err_stream = NULL;
		return 0;
	case 'P':
		choices->side.port = arg;
		return number(key, arg, UINT16_MAX) ? 0 : EINVAL;
	case 'M':
		choices->side.path = arg;
		return 0;
	case 'c':
		choices->check = arg;
		return 0;
	case 'v':
		choices->side.tells = true;
		return 0;
	case 'n':
		choices->records = number(key, arg, MAX_RECORDS);
		return choices->records ? 0 : EINVAL;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		return 0;
	case OPT_VERSION:
		printf("fi_pmem_demo of pmemverbs %s\n", PACKAGE_VERSION);
		exit(EXIT_SUCCESS);
	case ARGP_KEY_ARG:
		if (choices->side.host)
			return EINVAL;
		choices->side.host = arg;
		return 0;
	case ARGP_KEY_END:
		return choices->side.host && choices->side.path ? EINVAL : 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "\nHOST",
	.doc = "Append records to a durable log on another machine's memory: be the target, or "
	       "append to the log at HOST.\vFI_PMEMVERBS_DOMAIN declares what survives a power "
	       "failure where the target can't find it out; see fi_pmemverbs(7).",
};

int main(int argc, char **argv)
{
	struct choices choices = {.side = {.port = DEFAULT_PORT}, .records = DEFAULT_RECORDS};
	struct side *side = &choices.side;
	int ret;

	if (argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, &choices)) {
		fprintf(stderr, "one HOST, or -M; fi_pmem_demo --help tells the options\n");
		return 2;
	}
	if (choices.check)
		return log_check_file(choices.check);
	if (log_map(&side->memory, side->path)) {
		perror(side->path ? side->path : "mmap");
		return EXIT_FAILURE;
	}
	ret = side->host ? connect_and_append(side, choices.records) : listen_and_serve(side);
	close_side(side);
	log_close(&side->memory);
	return ret;
}
