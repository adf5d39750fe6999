/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_remotelog.c -- appends to a remote log, by every strategy there is
 *
 * One append is under way at a time; its time is from the first call to the completion
 * that says that all of it is durable.  What a record contains, its checksum too, is
 * computed before.  Some appends and some READs of the log take turns: a READ is the shortest
 * round trip without the target's processor, and meets the same disturbances.  When all
 * appends of a strategy are done, the target looks how many whole records its log has.
 *
 * fabtests/remotelog/remotelog runs this for all configurations of a target.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_ext_pmemverbs.h>
#include <sodium.h>

#include "../common/common.h"
#include "../common/control.h"
#include "../common/memory.h"
#include "remotelog.h"
#include "../common/stats.h"

#define ACKS 8
#define TURN 25
#define POLLS_PER_CLOCK 4096

static const struct program program = {
	.name = "fi_pmem_remotelog",
	.summary = "Latency of appends to a log at the target, which is verified afterwards.",
	.letters = "fdsBPMSIwoh",
	.operations =
		"what to measure, in this order (default: all): UPDATE:OPERATION, separated by "
		"commas. UPDATE: single (a record with a checksum), pair (a record, "
		"the tail pointer fenced behind it), pair-waits (the tail pointer when the record "
		"is durable). OPERATION: write, write-imm, send (received in the log), send-copy "
		"(the target's program copies, flushes, answers)",
};

static const struct strategy {
	const char *name;
	enum remotelog_update update;
	enum remotelog_operation operation;
} strategies[] = {
	{"single:write", REMOTELOG_SINGLE, REMOTELOG_WRITE},
	{"single:write-imm", REMOTELOG_SINGLE, REMOTELOG_WRITE_IMM},
	{"single:send", REMOTELOG_SINGLE, REMOTELOG_SEND},
	{"single:send-copy", REMOTELOG_SINGLE, REMOTELOG_COPY},
	{"pair:write", REMOTELOG_PAIR, REMOTELOG_WRITE},
	{"pair:write-imm", REMOTELOG_PAIR, REMOTELOG_WRITE_IMM},
	{"pair:send", REMOTELOG_PAIR, REMOTELOG_SEND},
	{"pair:send-copy", REMOTELOG_PAIR, REMOTELOG_COPY},
	{"pair-waits:write", REMOTELOG_WAITS, REMOTELOG_WRITE},
	{"pair-waits:write-imm", REMOTELOG_WAITS, REMOTELOG_WRITE_IMM},
};

#define STRATEGIES (sizeof(strategies) / sizeof(strategies[0]))

/* What is in the initiator's memory: the record and its tail come first. */
struct areas {
	uint64_t read; /* what READs get */
	uint64_t acks[ACKS];
};

struct initiator {
	const struct options *opts;
	int control;
	struct node node;
	struct conn conn;
	struct remotelog_layout layout;
	char *memory;
	struct region region;
	struct fi_pmemverbs_ops *ops;
	uint64_t *samples; /* nanoseconds that appends took */
	uint64_t *reads;   /* ... and READs */
	/* the strategy */
	const struct strategy *strategy;
	uint64_t number; /* of the last record */
	uint64_t addr;   /* of the log */
	uint64_t key;
};

static struct areas *areas(const struct initiator *it)
{
	return (struct areas *) (it->memory + remotelog_stride(&it->layout));
}

/* ---- calls, and what they wait for ---- */

/* await -- the context of a completion, which a receive or an operation has */
static int await(struct initiator *it, const void **context)
{
	struct fi_cq_data_entry entry;
	uint64_t deadline = 0, polls = 0;
	ssize_t ret;

	while ((ret = fi_cq_read(it->conn.txcq, &entry, 1)) == -FI_EAGAIN) {
		if (++polls % POLLS_PER_CLOCK)
			continue;
		if (!deadline)
			deadline = deadline_in(it->opts->timeout);
		else if (now_ns() > deadline)
			return report("an append", -FI_ETIMEDOUT);
	}
	if (ret == -FI_EAVAIL)
		return cq_report(it->conn.txcq);
	if (ret < 0)
		return report("fi_cq_read", ret);
	*context = entry.op_context;
	return 0;
}

/* finish -- of the one operation that was posted with FI_COMPLETION */
static int finish(struct initiator *it)
{
	const void *context = NULL;
	int ret = await(it, &context);

	if (!ret && context != it)
		return report("a completion that nobody waits for", -FI_EOTHER);
	return ret;
}

/* transfer -- between memory here and a place in the log */
static ssize_t transfer(struct initiator *it,
			ssize_t (*call)(struct fid_ep *ep, const struct fi_msg_rma *msg,
					uint64_t flags),
			void *here, size_t there, size_t len, uint64_t flags)
{
	struct iovec iov = {here, len};
	struct fi_rma_iov rma_iov = {it->addr + there, len, it->key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &it->region.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = it,
		.data = 1,
	};

	return call(it->conn.ep, &msg, flags);
}

static int write_to(struct initiator *it, size_t from, size_t to, size_t len, uint64_t flags)
{
	ssize_t ret = transfer(it, fi_writemsg, it->memory + from, to, len, flags);

	return ret ? report("fi_writemsg", ret) : 0;
}

static int write_record(struct initiator *it, uint64_t flags)
{
	return write_to(it, 0, remotelog_offset(&it->layout, it->number), it->layout.size, flags);
}

static int write_tail(struct initiator *it, uint64_t flags)
{
	return write_to(it, it->layout.size, 0, REMOTELOG_TAIL_SIZE, flags);
}

static int read_tail(struct initiator *it)
{
	ssize_t ret =
		transfer(it, fi_readmsg, &areas(it)->read, 0, REMOTELOG_TAIL_SIZE, FI_COMPLETION);

	return ret ? report("fi_readmsg", ret) : finish(it);
}

static int send_record(struct initiator *it, uint64_t flags)
{
	bool pair = it->strategy->update == REMOTELOG_PAIR;
	struct iovec iov = {it->memory, it->layout.size + (pair ? REMOTELOG_TAIL_SIZE : 0)};
	struct fi_msg msg = {
		.msg_iov = &iov, .desc = &it->region.desc, .iov_count = 1, .context = it};
	ssize_t ret = fi_sendmsg(it->conn.ep, &msg, flags);

	return ret ? report("fi_sendmsg", ret) : 0;
}

static int receive_ack(struct initiator *it, uint64_t *ack)
{
	ssize_t ret = fi_recv(it->conn.ep, ack, sizeof(*ack), it->region.desc, 0, ack);

	return ret ? report("fi_recv", ret) : 0;
}

/* await_ack -- the target's program says which record is durable */
static int await_ack(struct initiator *it)
{
	uint64_t *acks = areas(it)->acks;
	const void *context = NULL;
	int ret = await(it, &context);

	for (size_t i = 0; !ret && i < ACKS; i++) {
		if (context && context == &acks[i] && acks[i] == it->number)
			return receive_ack(it, &acks[i]);
	}
	return ret ? ret : report("an answer that does not belong to the record", -FI_EOTHER);
}

/* ---- an append ---- */

#define COMMIT (FI_COMPLETION | FI_COMMIT_COMPLETE)

static int append_single(struct initiator *it, uint64_t notice)
{
	int ret = write_record(it, COMMIT | notice);

	return ret ? ret : finish(it);
}

static int append_pair(struct initiator *it, uint64_t notice)
{
	int ret = write_record(it, FI_MORE);

	if (!ret)
		ret = write_tail(it, COMMIT | FI_FENCE | notice);
	return ret ? ret : finish(it);
}

static int append_waits(struct initiator *it, uint64_t notice)
{
	int ret = append_single(it, 0);

	if (!ret)
		ret = write_tail(it, COMMIT | notice);
	return ret ? ret : finish(it);
}

static int append_message(struct initiator *it)
{
	bool copied = it->strategy->operation == REMOTELOG_COPY;
	int ret = send_record(it, copied ? 0 : COMMIT);

	if (ret)
		return ret;
	return copied ? await_ack(it) : finish(it);
}

static int append(struct initiator *it)
{
	uint64_t notice = it->strategy->operation == REMOTELOG_WRITE_IMM ? FI_REMOTE_CQ_DATA : 0;

	if (it->strategy->operation == REMOTELOG_SEND || it->strategy->operation == REMOTELOG_COPY)
		return append_message(it);
	switch (it->strategy->update) {
	case REMOTELOG_PAIR:
		return append_pair(it, notice);
	case REMOTELOG_WAITS:
		return append_waits(it, notice);
	default:
		return append_single(it, notice);
	}
}

static int read_some(struct initiator *it, uint64_t *samples, unsigned long count)
{
	uint64_t start;
	int ret = 0;

	for (unsigned long i = 0; !ret && i < count; i++) {
		start = now_ns();
		ret = read_tail(it);
		samples[i] = now_ns() - start;
	}
	return ret;
}

static int append_some(struct initiator *it, uint64_t *samples, unsigned long count)
{
	uint64_t start;
	int ret = 0;

	for (unsigned long i = 0; !ret && i < count; i++) {
		remotelog_make(it->memory, &it->layout, ++it->number);
		start = now_ns();
		ret = append(it);
		samples[i] = now_ns() - start;
	}
	return ret;
}

static int take_turns(struct initiator *it, unsigned long count)
{
	unsigned long some;
	int ret = 0;

	for (unsigned long i = 0; !ret && i < count; i += some) {
		some = count - i < TURN ? count - i : TURN;
		ret = read_some(it, it->reads + i, some);
		if (!ret)
			ret = append_some(it, it->samples + i, some);
	}
	return ret;
}

/* ---- a strategy ---- */

static uint64_t notices(const struct initiator *it)
{
	return it->strategy->operation == REMOTELOG_WRITE ? 0 : it->layout.records;
}

static int answer(struct initiator *it, struct control_msg *msg)
{
	if (control_receive(it->control, msg, NULL, 0, it->opts->timeout)) {
		fprintf(stderr, "the target has gone; it may tell why\n");
		return -FI_ECONNRESET;
	}
	return msg->status ? report("at the target", msg->status) : 0;
}

static int ask(struct initiator *it, struct control_msg *msg)
{
	return control_send(it->control, msg, NULL) ? report("the target", -FI_ECONNRESET)
						    : answer(it, msg);
}

static int begin(struct initiator *it)
{
	struct conn_attr attr = {.format = FI_CQ_FORMAT_DATA, .selective = true};
	struct control_msg msg = {
		.command = REMOTELOG_BEGIN,
		.arg = {it->layout.records, it->layout.size, it->strategy->update,
			it->strategy->operation, notices(it)},
	};
	int ret;

	it->number = 0;
	if (control_send(it->control, &msg, NULL))
		return report("the target", -FI_ECONNRESET);
	ret = conn_create(&it->conn, &it->node, it->node.info, &attr);
	for (size_t i = 0; !ret && i < ACKS; i++)
		ret = receive_ack(it, &areas(it)->acks[i]);
	if (!ret) {
		ret = conn_connect(&it->conn, NULL, 0, NULL);
		if (ret)
			return explain_connection(NULL, it->opts->dst_addr, it->opts->dst_port,
						  ret);
		ret = answer(it, &msg);
	}
	it->addr = msg.arg[0];
	it->key = msg.arg[1];
	return ret;
}

static int expect(const char *what, uint64_t is, uint64_t should_be)
{
	if (is == should_be)
		return 0;
	fprintf(stderr, "the target's log has %" PRIu64 " %s instead of %" PRIu64 "\n", is, what,
		should_be);
	return -FI_EIO;
}

/* end -- are all records there, and nothing else? */
static int end(struct initiator *it)
{
	bool pair = it->strategy->update != REMOTELOG_SINGLE;
	struct control_msg msg = {.command = REMOTELOG_END};
	int ret = ask(it, &msg);

	if (!ret)
		ret = expect("whole records", msg.arg[0], it->layout.records);
	if (!ret)
		ret = expect("as its tail", msg.arg[1], pair ? it->layout.records : 0);
	if (!ret)
		ret = expect("notices", msg.arg[2], notices(it));
	return ret;
}

/* method -- who makes it durable, and how */
static const char *method_of(const struct initiator *it, const struct fi_pmemverbs_region *region)
{
	static const char *const methods[] = {
		[FI_PMEMVERBS_REFUSED] = "refused", [FI_PMEMVERBS_WRITE] = "none",
		[FI_PMEMVERBS_READ] = "read",       [FI_PMEMVERBS_AGENT] = "agent",
		[FI_PMEMVERBS_FLUSH] = "flush",
	};

	return it->strategy->operation == REMOTELOG_COPY ? "program" : methods[region->method];
}

static int print_row(struct initiator *it)
{
	static const char *const updates[] = {"single", "pair", "pair-waits"};
	static const char *const domains[] = {"none", "page", "dmp", "mhp", "wsp"};
	static const char *const operations[] = {"write", "write-imm", "send", "send-copy"};
	size_t n = it->opts->iterations;
	struct fi_pmemverbs_region region;
	int ret = it->ops->query_key(it->conn.ep, it->key, &region);

	if (ret)
		return report("the query of the key", ret);
	sort_samples(it->samples, n);
	sort_samples(it->reads, n);
	printf("%-11s %-7s %-5s %-11s %-10s %-8s %7zu %9.2f %9.2f %9.2f %9.2f\n",
	       updates[it->strategy->update], domains[region.domain], region.ddio ? "on" : "off",
	       operations[it->strategy->operation], it->ops->core_name(it->node.domain),
	       method_of(it, &region), n, it->samples[n / 2] / 1e3, it->samples[n * 99 / 100] / 1e3,
	       it->samples[n * 999 / 1000] / 1e3, it->reads[n / 2] / 1e3);
	fflush(stdout);
	return 0;
}

static int run_strategy(struct initiator *it, const struct strategy *strategy)
{
	int ret;

	it->strategy = strategy;
	ret = begin(it);
	if (!ret)
		ret = take_turns(it, it->opts->warmup);
	if (!ret)
		ret = take_turns(it, it->opts->iterations);
	if (!ret)
		ret = end(it);
	if (!ret)
		ret = print_row(it);
	conn_close(&it->conn);
	if (ret)
		fprintf(stderr, "that was %s\n", strategy->name);
	return ret;
}

/* ---- running them ---- */

static const struct strategy *find_strategy(const char *name)
{
	for (size_t i = 0; i < STRATEGIES; i++) {
		if (!strcmp(strategies[i].name, name))
			return &strategies[i];
	}
	fprintf(stderr, "%s: unknown operation '%s'; --help tells them\n", program.name, name);
	return NULL;
}

static int run_all(struct initiator *it)
{
	const struct options *opts = it->opts;
	unsigned int count = opts->nops ? opts->nops : STRATEGIES;
	struct control_msg bye = {.command = REMOTELOG_BYE};
	int ret = 0;

	printf("%-11s %-7s %-5s %-11s %-10s %-8s %7s %9s %9s %9s %9s\n", "update", "domain", "ddio",
	       "operation", "transport", "method", "count", "p50 us", "p99 us", "p99.9 us",
	       "READ p50");
	for (unsigned int i = 0; !ret && i < count; i++)
		ret = run_strategy(it, opts->nops ? find_strategy(opts->ops[i]) : &strategies[i]);
	return ret ? ret : ask(it, &bye);
}

static int open_initiator(struct initiator *it)
{
	size_t size = remotelog_stride(&it->layout) + sizeof(struct areas);
	struct control_msg hello;
	char port[8];
	struct node_attr attr = {
		.caps = FI_MSG | FI_RMA | FI_RMA_PMEM | FI_FENCE,
		.threading = FI_THREAD_DOMAIN,
		.port = port,
	};
	int ret = answer(it, &hello);

	if (ret)
		return ret;
	snprintf(port, sizeof(port), "%u", (unsigned) (uint16_t) hello.arg[0]);
	ret = fabric_open(&it->node, it->opts, &attr);
	if (ret)
		return ret;
	it->samples = calloc(2 * it->layout.records, sizeof(*it->samples));
	it->memory = calloc(1, size);
	if (!it->samples || !it->memory)
		return report("calloc", -FI_ENOMEM);
	it->reads = it->samples + it->layout.records;
	ret = fi_open_ops(&it->node.domain->fid, FI_PMEMVERBS_OPS, 0, (void **) &it->ops, NULL);
	if (ret)
		return report("fi_open_ops", ret);
	return region_register(&it->node, &it->region, it->memory, size,
			       FI_WRITE | FI_READ | FI_SEND | FI_RECV, 0);
}

static int run_initiator(const struct options *opts, const struct remotelog_layout *layout)
{
	struct initiator it = {.opts = opts, .layout = *layout};
	int ret;

	it.control = control_connect(opts->dst_addr, opts->dst_port, opts->timeout);
	if (it.control < 0)
		return -FI_ECONNREFUSED;
	ret = open_initiator(&it);
	if (!ret)
		ret = run_all(&it);
	conn_close(&it.conn);
	region_close(&it.region);
	node_close(&it.node);
	free(it.memory);
	free(it.samples);
	close(it.control);
	return ret;
}

/* check_options -- what options_parse can't know */
static bool check_options(const struct options *opts, const struct remotelog_layout *layout)
{
	bool known = true;

	for (unsigned int i = 0; i < opts->nops; i++)
		known = find_strategy(opts->ops[i]) && known;
	if (!remotelog_is_sane(layout))
		fprintf(stderr,
			"a record has %d to %d bytes, a multiple of 8, and a log %" PRIu64
			" records at most\n",
			REMOTELOG_MIN_SIZE, REMOTELOG_MAX_SIZE, REMOTELOG_MAX_RECORDS);
	return known && remotelog_is_sane(layout);
}

int main(int argc, char **argv)
{
	struct options opts = {.iterations = 1000, .warmup = 100, .sizes = {64}, .nsizes = 1};
	struct remotelog_layout layout;

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	layout = (struct remotelog_layout){
		.size = opts.sizes[0],
		.records = opts.iterations + opts.warmup,
	};
	if (!check_options(&opts, &layout))
		return EXIT_USAGE;
	if (sodium_init() < 0)
		return report("sodium_init", -FI_EOTHER) ? EXIT_FAILURE : EXIT_SUCCESS;
	return (opts.dst_addr ? run_initiator(&opts, &layout) : remotelog_serve(&opts))
		       ? EXIT_FAILURE
		       : EXIT_SUCCESS;
}
