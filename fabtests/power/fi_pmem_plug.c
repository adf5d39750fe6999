/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_plug.c -- is what was acknowledged still there after a power failure?
 *
 * The initiator appends numbered records to a log in the target's memory, and
 * prints each commit when it has completed.  After the power failure the
 * checker compares the log with what was printed.  fabtests/power/plug does it
 * all.
 *
 * The log is a page whose first 8 bytes are the tail, and a ring of slots:
 * record n, the first being 1, goes into slot (n - 1) % slots.  Of 16 records
 * 8 are commits of their own, several of them under way at a time ("ack n").
 * The other 8, those whose number has bit 3 set, are plain writes, each followed
 * by the tail, which gets their number in a fenced commit ("tail n").
 *
 * The checker knows the bytes of every record, so that it needs no checksum to
 * tell a torn one.  It can't know all that happened: the last lines may not have
 * left the machine.  What it may demand follows from this:
 *
 * - Records are posted in the order of their numbers, and a commit covers all
 *   earlier writes.  If n was acknowledged, all up to n are durable.
 * - Record n is posted when n - window has been acknowledged.  So the newest
 *   record found tells by itself that what is older by a window was acknowledged,
 *   and that nothing newer by more than a window was under way.
 * - The tail is fenced: whether or not it was acknowledged, all records up to
 *   it are durable.
 * - A slot may hold the record of a later round instead.  If the next round's may
 *   have been under way, the slot may hold anything.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/common.h"
#include "../common/memory.h"
#include "../common/memory_direct.h"
#include "../common/stats.h"

#define TAIL_ROOM 4096
#define FENCED_BIT 8
#define MIN_SLOTS 256
#define MAX_WINDOW 64 /* nothing under way reaches the slot that the tail names */
#define RUN_SECONDS (24 * 3600)
#define PROGRESS_MS 100

static const struct program program = {
	.name = "fi_pmem_plug",
	.summary = "A log to pull the plug on, and to check afterwards (-A).\n"
		   "Without -I the client goes on for ever; -W is 8 if not given.",
	.letters = "pfdsBPMNSIWAoh",
	.operations = "server: sleep: leave all work to the provider's thread (default); "
		      "progress: read the completion queue meanwhile",
};

enum { OP_SLEEP, OP_PROGRESS };

static const char *const operations[] = {"sleep", "progress", NULL};

/* What the target tells when it accepts: verbs carries little */
struct lease {
	uint64_t addr;
	uint64_t key;
	uint32_t slots;
	uint32_t size;
};

struct layout {
	uint64_t slots;
	uint64_t size; /* of a record */
	uint64_t window;
	uint64_t seed;
};

static size_t log_size(const struct layout *layout)
{
	return TAIL_ROOM + layout->slots * layout->size;
}

static size_t record_offset(const struct layout *layout, uint64_t number)
{
	return TAIL_ROOM + (number - 1) % layout->slots * layout->size;
}

static bool is_fenced(uint64_t number)
{
	return number & FENCED_BIT;
}

/* layout_is_sane -- records start with their number, and 8 bytes are not torn */
static bool layout_is_sane(const struct layout *layout)
{
	if (layout->slots >= MIN_SLOTS && layout->slots <= UINT32_MAX && layout->size >= 16 &&
	    layout->size <= UINT32_MAX && layout->size % 8 == 0 && layout->window >= 1 &&
	    layout->window <= MAX_WINDOW)
		return true;
	fprintf(stderr,
		"a log has at least %d records, of at least 16 bytes and a multiple of 8 each, "
		"and up to %d are written at a time\n",
		MIN_SLOTS, MAX_WINDOW);
	return false;
}

/* The target */

struct target {
	const struct options *opts;
	int op;
	struct layout layout;
	struct memory memory;
	struct node node;
	struct region region;
	struct conn conn;
};

/* accept_client -- lend it the memory */
static int accept_client(struct target *target, struct fi_info *info)
{
	struct conn_attr attr = {
		.format = FI_CQ_FORMAT_DATA,
		.wait = FI_WAIT_UNSPEC,
		.selective = true,
	};
	struct lease lease = {.slots = target->layout.slots, .size = target->layout.size};
	int ret;

	if (memory_open(&target->memory, target->node.domain, target->opts->memory,
			log_size(&target->layout))) {
		fi_reject(target->node.pep, info->handle, NULL, 0);
		return -FI_EINVAL;
	}
	/* A power failure may take what is in the file, but not the file. */
	sync();
	ret = region_register(&target->node, &target->region, target->memory.base,
			      target->memory.len, FI_REMOTE_WRITE, FI_RMA_PMEM);
	if (ret) {
		fi_reject(target->node.pep, info->handle, NULL, 0);
		return ret;
	}
	lease.addr = target->region.addr;
	lease.key = target->region.key;
	ret = conn_create(&target->conn, &target->node, info, &attr);
	return ret ? ret : conn_accept(&target->conn, &lease, sizeof(lease));
}

static int next_event(struct target *target, struct cm_event *event)
{
	struct fi_cq_data_entry entry;
	int ret = 0;

	if (target->op == OP_SLEEP)
		return node_event(&target->node, event, RUN_SECONDS * 1000);
	while (!ret) {
		fi_cq_sread(target->conn.rxcq, &entry, 1, NULL, PROGRESS_MS);
		ret = node_event(&target->node, event, 0);
	}
	return ret;
}

/* await_end -- until the client has gone; another one, meanwhile, has to go away */
static int await_end(struct target *target)
{
	struct cm_event event;
	int ret;

	while ((ret = next_event(target, &event)) > 0 && event.event == FI_CONNREQ)
		node_reject(&target->node, event.entry.info, NULL);
	if (!ret)
		return report("the client's end", -FI_ETIMEDOUT);
	return ret < 0 ? ret : -event.err;
}

static int serve(struct target *target)
{
	struct node_attr attr = {
		.caps = FI_MSG | FI_RMA | FI_RMA_PMEM,
		.threading = FI_THREAD_DOMAIN,
		.port = target->opts->src_port,
	};
	struct cm_event request;
	int ret = fabric_listen(&target->node, target->opts, &attr);

	if (!ret)
		ret = conn_request(&target->node, &request);
	if (ret)
		return ret;
	ret = accept_client(target, request.entry.info);
	fi_freeinfo(request.entry.info);
	return ret ? ret : await_end(target);
}

static int be_target(const struct options *opts)
{
	struct target target = {
		.opts = opts,
		.op = options_op(opts, operations),
		.layout = {.slots = opts->records, .size = opts->sizes[0], .window = 1},
	};
	int ret;

	if (target.op < 0 || !layout_is_sane(&target.layout))
		return -FI_EINVAL;
	ret = serve(&target);
	conn_close(&target.conn);
	region_close(&target.region);
	memory_unmap(&target.memory);
	node_close(&target.node);
	return ret;
}

/* The initiator */

struct append {
	uint64_t number;
	bool is_under_way;
};

struct initiator {
	const struct options *opts;
	struct node node;
	struct conn conn;
	struct memory memory; /* for each of the window a record, and then for each a tail */
	struct region region;
	struct lease lease;
	struct layout layout;
	struct append appends[MAX_WINDOW];
	uint64_t deadline;
};

/* say -- at once, and a whole line at a time */
static int say(const char *line)
{
	size_t len = strlen(line);

	if (write(STDOUT_FILENO, line, len) == (ssize_t) len)
		return 0;
	perror("standard output");
	return -FI_EIO;
}

static int acknowledge(struct initiator *initiator, struct append *append)
{
	char line[64];

	append->is_under_way = false;
	initiator->deadline = deadline_in(initiator->opts->timeout);
	snprintf(line, sizeof(line), "%s %" PRIu64 "\n", is_fenced(append->number) ? "tail" : "ack",
		 append->number);
	return say(line);
}

/* progress -- wait a moment for one completion */
static int progress(struct initiator *initiator)
{
	struct fid_cq *cq = initiator->conn.txcq;
	struct fi_cq_data_entry entry;
	ssize_t ret = fi_cq_sread(cq, &entry, 1, NULL, PROGRESS_MS);

	if (ret == 1)
		return acknowledge(initiator, entry.op_context);
	if (ret == -FI_EAVAIL)
		return cq_report(cq);
	if (ret != -FI_EAGAIN && ret != -FI_EINTR)
		return report("fi_cq_sread", ret);
	if (now_ns() < initiator->deadline)
		return 0;
	fprintf(stderr, "the target does not answer in time\n");
	return -FI_ETIMEDOUT;
}

static int await(struct initiator *initiator, const struct append *append)
{
	int ret = 0;

	while (!ret && append->is_under_way)
		ret = progress(initiator);
	return ret;
}

static int post(struct initiator *initiator, void *from, size_t len, size_t offset, uint64_t flags,
		struct append *append)
{
	const struct lease *lease = &initiator->lease;
	struct iovec iov = {from, len};
	struct fi_rma_iov rma_iov = {lease->addr + offset, len, lease->key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &initiator->region.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = append,
	};
	ssize_t ret;
	int err;

	while ((ret = fi_writemsg(initiator->conn.ep, &msg, flags)) == -FI_EAGAIN) {
		err = progress(initiator);
		if (err)
			return err;
	}
	return ret ? report("fi_writemsg", ret) : 0;
}

static int append_record(struct initiator *initiator, uint64_t number)
{
	const uint64_t commit = FI_COMMIT_COMPLETE | FI_COMPLETION;
	const struct layout *layout = &initiator->layout;
	size_t offset = record_offset(layout, number);
	size_t place = number % layout->window;
	struct append *append = &initiator->appends[place];
	char *record = (char *) initiator->memory.base + place * layout->size;
	uint64_t *tails =
		(uint64_t *) ((char *) initiator->memory.base + layout->window * layout->size);
	int ret;

	ret = await(initiator, append);
	if (ret)
		return ret;
	append->number = number;
	append->is_under_way = true;
	memcpy(record, &number, sizeof(number));
	pattern_fill(record + sizeof(number), layout->size - sizeof(number), layout->seed + number,
		     0);
	if (!is_fenced(number))
		return post(initiator, record, layout->size, offset, commit, append);
	tails[place] = number;
	ret = post(initiator, record, layout->size, offset, 0, append);
	return ret ? ret
		   : post(initiator, &tails[place], sizeof(number), 0, commit | FI_FENCE, append);
}

static int append_all(struct initiator *initiator)
{
	unsigned long count = initiator->opts->iterations;
	uint64_t number;
	size_t i;
	int ret = 0;

	for (number = 1; !ret && (!count || number <= count); number++)
		ret = append_record(initiator, number);
	for (i = 0; !ret && i < initiator->layout.window; i++)
		ret = await(initiator, &initiator->appends[i]);
	return ret;
}

/* prepare -- to write as the lease says, and tell the checker how that will be */
static int prepare(struct initiator *initiator)
{
	struct layout *layout = &initiator->layout;
	char line[128];

	layout->slots = initiator->lease.slots;
	layout->size = initiator->lease.size;
	layout->window = initiator->opts->window;
	layout->seed = initiator->opts->seed;
	if (!layout_is_sane(layout) ||
	    memory_map(&initiator->memory, NULL,
		       layout->window * (layout->size + sizeof(uint64_t))))
		return -FI_EINVAL;
	initiator->deadline = deadline_in(initiator->opts->timeout);
	snprintf(line, sizeof(line), "log %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		 layout->slots, layout->size, layout->window, layout->seed);
	return say(line);
}

static int connect_to_target(struct initiator *initiator)
{
	struct conn_attr attr = {
		.format = FI_CQ_FORMAT_DATA,
		.wait = FI_WAIT_UNSPEC,
		.selective = true,
	};
	int64_t deadline = connection_now_ms() + CONNECT_SECONDS * 1000;
	struct node *node = &initiator->node;
	struct cm_event event;
	int ret;

	do {
		ret = conn_create(&initiator->conn, node, node->info, &attr);
		if (!ret)
			ret = conn_connect(&initiator->conn, NULL, 0, &event);
	} while (conn_again(&initiator->conn, ret, deadline));
	if (!ret)
		memcpy(&initiator->lease, event.entry.data, sizeof(initiator->lease));
	return ret;
}

static int run_initiator(struct initiator *initiator)
{
	struct node_attr attr = {
		.caps = FI_MSG | FI_RMA | FI_RMA_PMEM | FI_FENCE,
		.threading = FI_THREAD_DOMAIN,
		.port = initiator->opts->dst_port,
	};
	int ret;

	ret = fabric_open(&initiator->node, initiator->opts, &attr);
	if (!ret)
		ret = connect_to_target(initiator);
	if (!ret)
		ret = prepare(initiator);
	if (!ret)
		ret = region_register(&initiator->node, &initiator->region, initiator->memory.base,
				      initiator->memory.len, FI_WRITE, 0);
	return ret ? ret : append_all(initiator);
}

static int be_initiator(const struct options *opts)
{
	struct initiator initiator = {.opts = opts};
	int ret = run_initiator(&initiator);

	if (initiator.conn.ep)
		fi_shutdown(initiator.conn.ep, 0);
	conn_close(&initiator.conn);
	region_close(&initiator.region);
	node_close(&initiator.node);
	memory_unmap(&initiator.memory);
	return ret;
}

/* The checker */

struct check {
	struct layout layout;
	uint64_t printed; /* the newest acknowledged record ... */
	uint64_t printed_tail;
	const char *log;
	uint64_t newest; /* record that is known of */
};

/* read_line -- of what the initiator has printed; anything else may stand between */
static void read_line(struct check *check, const char *line)
{
	struct layout *layout = &check->layout;
	uint64_t number;
	char end;

	/* Without its newline the last line may have lost digits, too. */
	if (!strchr(line, '\n'))
		return;
	sscanf(line, "log %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &layout->slots,
	       &layout->size, &layout->window, &layout->seed);
	if (sscanf(line, "tail %" SCNu64 "%c", &number, &end) == 2 && end == '\n' &&
	    number > check->printed_tail)
		check->printed_tail = number;
	else if (sscanf(line, "ack %" SCNu64 "%c", &number, &end) != 2 || end != '\n')
		return;
	if (number > check->printed)
		check->printed = number;
}

static int read_lines(struct check *check, const char *path)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;

	if (!file) {
		perror(path);
		return -FI_EIO;
	}
	while (getline(&line, &room, file) >= 0)
		read_line(check, line);
	free(line);
	fclose(file);
	if (!check->layout.slots) {
		fprintf(stderr, "%s: no client has begun to write a log\n", path);
		return -FI_EINVAL;
	}
	return layout_is_sane(&check->layout) ? 0 : -FI_EINVAL;
}

/* record_in -- the number of the whole record in a slot, 0 if there is none */
static uint64_t record_in(const struct check *check, uint64_t slot)
{
	const struct layout *layout = &check->layout;
	const char *record = check->log + TAIL_ROOM + slot * layout->size;
	size_t len = layout->size - sizeof(uint64_t);
	uint64_t number;

	memcpy(&number, record, sizeof(number));
	if (!number || (number - 1) % layout->slots != slot)
		return 0;
	return pattern_check(record + sizeof(number), len, layout->seed + number, 0) == len ? number
											    : 0;
}

/* missing_until -- of the records up to number, how many are not there, nor newer ones instead */
static uint64_t missing_until(const struct check *check, uint64_t number)
{
	const struct layout *layout = &check->layout;
	uint64_t last = number > layout->slots ? number - layout->slots : 0;
	uint64_t missing = 0, found;

	for (; number > last; number--) {
		if (number + layout->slots <= check->newest + layout->window)
			continue;
		found = record_in(check, (number - 1) % layout->slots);
		if (found >= number)
			continue;
		if (!missing)
			fprintf(stderr, "record %" PRIu64 " is not there\n", number);
		missing +=
			found ? (number - found) / layout->slots : (number - 1) / layout->slots + 1;
	}
	return missing;
}

static bool tail_is_right(const struct check *check)
{
	uint64_t tail;

	memcpy(&tail, check->log, sizeof(tail));
	if (tail < check->printed_tail) {
		fprintf(stderr, "the tail is %" PRIu64 ", %" PRIu64 " was acknowledged\n", tail,
			check->printed_tail);
		return false;
	}
	if (!tail)
		return true;
	if (is_fenced(tail) && tail <= check->newest && !missing_until(check, tail))
		return true;
	fprintf(stderr, "the tail is %" PRIu64 ", ahead of what is there\n", tail);
	return false;
}

static int compare(struct check *check)
{
	uint64_t acknowledged, lost, found, slot;
	bool tail_ok;

	check->newest = check->printed;
	for (slot = 0; slot < check->layout.slots; slot++) {
		found = record_in(check, slot);
		if (found > check->newest)
			check->newest = found;
	}
	acknowledged = check->printed;
	if (check->newest > acknowledged + check->layout.window)
		acknowledged = check->newest - check->layout.window;
	lost = missing_until(check, acknowledged);
	tail_ok = tail_is_right(check);
	printf("%" PRIu64 " acknowledged, %" PRIu64 " found, %" PRIu64 " lost, tail %s\n",
	       acknowledged, acknowledged - lost, lost, tail_ok ? "ok" : "BAD");
	return lost || !tail_ok ? -FI_EIO : 0;
}

static int be_checker(const struct options *opts)
{
	struct check check = {0};
	struct memory memory = {0};
	int ret;

	if (!opts->memory) {
		fprintf(stderr, "-A needs -M, the memory to check\n");
		return -FI_EINVAL;
	}
	if (access(opts->memory, R_OK)) {
		perror(opts->memory);
		return -FI_EINVAL;
	}
	ret = read_lines(&check, opts->acks);
	if (ret)
		return ret;
	/* Where a file is too short this extends it, and zeros are no record. */
	if (memory_map(&memory, opts->memory, log_size(&check.layout)))
		return -FI_EIO;
	check.log = memory.base;
	ret = compare(&check);
	memory_unmap(&memory);
	return ret;
}

int main(int argc, char **argv)
{
	struct options opts = {.window = 8, .records = 1024, .sizes = {256}, .nsizes = 1};
	int ret;

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	if (opts.acks)
		ret = be_checker(&opts);
	else
		ret = opts.dst_addr ? be_initiator(&opts) : be_target(&opts);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
