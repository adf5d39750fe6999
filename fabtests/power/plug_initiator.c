/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plug_initiator.c -- the initiator of fi_pmem_plug: it appends to a log until the power fails
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plug.h"
#include "../common/common.h"
#include "../common/memory.h"
#include "../common/stats.h"

#define PROGRESS_MS 100

static size_t record_offset(const struct layout *layout, uint64_t number)
{
	return TAIL_ROOM + (number - 1) % layout->slots * layout->size;
}

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
	snprintf(line, sizeof(line), "log %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u\n",
		 layout->slots, layout->size, layout->window, layout->seed, initiator->lease.log);
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

int be_initiator(const struct options *opts)
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
