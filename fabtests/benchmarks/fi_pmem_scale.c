/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_scale.c -- what many connections to one target cost, and what they leave
 *
 * latency: commits on one connection while more and more others do nothing, and
 * how much memory both processes have for each of them.  With -p tcp or verbs that
 * is the core provider's part alone.
 *
 * churn: connections come, commit one write each, and go.  There are 64 more than -I
 * asks for: once these and a tenth of the others are gone, both processes have all that
 * they need, and what grows from there on leaks.
 *
 * clients: commits of many processes at a time (scale_clients.c).
 *
 * The initiator commands over a control connection; the target does everything
 * else in one thread that sleeps while nothing happens (scale_target.c).
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "scale.h"
#include "../common/stats.h"

#define GROWTH 4 /* of the number of connections, from one row to the next */

static const struct program program = {
	.name = "fi_pmem_scale",
	.summary = "Many connections to one target: latency of a commit, memory, leaks.",
	.letters = "pfdsbBPMSInwTxoh",
	.operations = "latency: commits on one connection among idle ones (default); "
		      "churn: -I connections, each with a commit, -n at a time; "
		      "clients: -n processes commit for -T milliseconds, all to one region, and "
		      "sleep while they wait; clients-each: to a region each",
};

enum { OP_LATENCY, OP_CHURN, OP_CLIENTS, OP_CLIENTS_EACH };

static const char *const operations[] = {"latency", "churn", "clients", "clients-each", NULL};

struct client {
	struct hub hub;
	uint64_t addr; /* the target's region */
	uint64_t key;
};

static int ask(struct client *client, struct control_msg *msg, void *answer, size_t room)
{
	int control = client->hub.control;

	if (control_send(control, msg, NULL) ||
	    control_receive(control, msg, answer, room, client->hub.opts->timeout)) {
		fprintf(stderr, "the target has gone; it may tell why\n");
		return -FI_ECONNRESET;
	}
	return msg->status ? report("at the target", msg->status) : 0;
}

static int add_connection(struct client *client)
{
	struct hub *hub = &client->hub;
	struct control_msg msg = {.command = ASK_REGION};
	struct conn *conn = hub_add(hub, hub->node.info);
	int ret;

	if (!conn)
		return -FI_ENOMEM;
	ret = conn_connect(conn, NULL, 0, NULL);
	if (ret)
		return explain_connection(NULL, hub->opts->dst_addr, hub->opts->dst_port, ret);
	/* The first one brings it to life. */
	if (client->key)
		return 0;
	ret = ask(client, &msg, NULL, 0);
	client->addr = msg.arg[0];
	client->key = msg.arg[1];
	return ret;
}

static int write_one(struct client *client, struct conn *conn, size_t offset, size_t size)
{
	struct hub *hub = &client->hub;
	struct iovec iov = {(char *) hub->region.buf + offset, size};
	struct fi_rma_iov rma_iov = {client->addr + offset, size, client->key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &hub->region.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = conn,
	};
	uint64_t flags =
		FI_COMPLETION | (is_core(hub->opts) ? FI_DELIVERY_COMPLETE : FI_COMMIT_COMPLETE);
	uint64_t deadline = deadline_in(hub->opts->timeout);
	ssize_t ret;

	/* Until what the provider has under way has made room. */
	while ((ret = fi_writemsg(conn->ep, &msg, flags)) == -FI_EAGAIN && now_ns() < deadline) {
		ret = hub_reap(hub);
		if (ret)
			return (int) ret;
	}
	return ret ? report("fi_writemsg", ret) : 0;
}

static int await_write(struct client *client, const struct conn *conn)
{
	struct hub *hub = &client->hub;
	uint64_t deadline = deadline_in(hub->opts->timeout);
	struct fi_cq_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(hub->cq, &entry, 1)) == -FI_EAGAIN) {
		if (now_ns() > deadline)
			return report("a commit", -FI_ETIMEDOUT);
	}
	if (ret == -FI_EAVAIL)
		return cq_report(hub->cq);
	if (ret < 0)
		return report("fi_cq_read", ret);
	if (entry.op_context == conn)
		return 0;
	fprintf(stderr, "a completion of another connection\n");
	return -FI_EOTHER;
}

static int verify(struct client *client, size_t offset, size_t size, uint64_t seed)
{
	struct control_msg msg = {.command = ASK_CHECK, .arg = {offset, size, seed}};
	int ret = ask(client, &msg, NULL, 0);

	if (ret || msg.arg[0] == size)
		return ret;
	fprintf(stderr, "byte %" PRIu64 " of %zu is wrong at the target\n", msg.arg[0], size);
	return -FI_EIO;
}

/* The two processes. */
struct both {
	struct usage target;
	struct usage initiator;
};

static int get_both(struct client *client, struct both *both)
{
	struct control_msg msg = {.command = ASK_USAGE, .arg = {client->hub.count}};
	int ret;

	*both = (struct both){0};
	ret = ask(client, &msg, &both->target, sizeof(both->target));
	hub_get_usage(&both->initiator, client->hub.count);
	return ret;
}

/* ---- latency ---- */

static int run_loop(struct client *client, uint64_t *samples, unsigned long n)
{
	struct conn *busy = client->hub.conns[0];
	uint64_t start;
	int ret = 0;

	for (unsigned long i = 0; !ret && i < n; i++) {
		start = now_ns();
		ret = write_one(client, busy, 0, client->hub.opts->sizes[0]);
		if (!ret)
			ret = await_write(client, busy);
		samples[i] = now_ns() - start;
	}
	return ret;
}

/* measure -- with as many connections as there are */
static int measure(struct client *client, uint64_t *samples)
{
	const struct options *opts = client->hub.opts;
	size_t count = client->hub.count;
	struct measured row = {
		.bytes = opts->sizes[0], .samples = samples, .count = opts->iterations};
	int ret;

	pattern_fill(client->hub.memory.base, opts->sizes[0], count, 0);
	ret = run_loop(client, samples, opts->warmup);
	if (!ret)
		ret = run_loop(client, samples, opts->iterations);
	if (!ret)
		ret = verify(client, 0, opts->sizes[0], count);
	if (!ret) {
		printf("%-6zu ", count - 1);
		print_latency(&row);
	}
	return ret;
}

static void print_cost(const char *who, const struct usage *one, const struct usage *all)
{
	double n = (double) (all->connections - one->connections);

	printf("%-10s %10.1f %12.1f %12.1f %10.1f %8" PRIu64 "\n", who,
	       ((double) all->heap - (double) one->heap) / n / 1024,
	       ((double) all->resident - (double) one->resident) / n / 1024,
	       ((double) all->mapped - (double) one->mapped) / n / 1024,
	       ((double) all->fds - (double) one->fds) / n, all->threads);
}

/* append_cost -- to the file of --csv, with the names of the columns before the first row */
static int append_cost(const struct options *opts, const char *who, const struct usage *one,
		       const struct usage *all)
{
	double n = (double) (all->connections - one->connections);
	FILE *file = fopen(opts->csv, "a");
	int ret;

	if (!file)
		return report(opts->csv, -errno);
	if (!ftell(file))
		fprintf(file, "program,provider,side,connections,heap_bytes,resident_bytes,"
			      "mapped_bytes,fds\n");
	fprintf(file, "%s,%s,%s,%" PRIu64 ",%.0f,%.0f,%.0f,%.2f\n", opts->prog, opts->provider, who,
		all->connections, ((double) all->heap - (double) one->heap) / n,
		((double) all->resident - (double) one->resident) / n,
		((double) all->mapped - (double) one->mapped) / n,
		((double) all->fds - (double) one->fds) / n);
	ret = ferror(file) ? -FI_EIO : 0;
	return fclose(file) || ret ? report(opts->csv, -FI_EIO) : 0;
}

static int run_latency(struct client *client)
{
	const struct options *opts = client->hub.opts;
	unsigned long most = opts->iterations > opts->warmup ? opts->iterations : opts->warmup;
	uint64_t *samples = calloc(most, sizeof(*samples));
	struct both one, all;
	size_t next = 1;
	int ret = 0;

	if (!samples)
		return report("calloc", -FI_ENOMEM);
	printf("%-6s ", "idle");
	print_latency_header();
	while (!ret) {
		while (!ret && client->hub.count < next)
			ret = add_connection(client);
		if (!ret)
			ret = measure(client, samples);
		if (!ret)
			ret = get_both(client, next == 1 ? &one : &all);
		if (next == opts->connections)
			break;
		next = next * GROWTH < opts->connections ? next * GROWTH : opts->connections;
	}
	free(samples);
	if (ret || opts->connections == 1)
		return ret;
	printf("\n%-10s %10s %12s %12s %10s %8s\n", "each costs", "heap kB", "resident kB",
	       "mapped kB", "fds", "threads");
	print_cost("target", &one.target, &all.target);
	print_cost("initiator", &one.initiator, &all.initiator);
	if (!opts->csv)
		return 0;
	ret = append_cost(opts, "target", &one.target, &all.target);
	return ret ? ret : append_cost(opts, "initiator", &one.initiator, &all.initiator);
}

/* ---- churn ---- */

static int run_round(struct client *client, unsigned long first, unsigned long count)
{
	struct hub *hub = &client->hub;
	size_t size = hub->opts->sizes[0];
	int ret = 0;

	for (unsigned long i = 0; !ret && i < count; i++)
		ret = add_connection(client);
	for (unsigned long i = 0; !ret && i < count; i++) {
		size_t offset = (first + i) % (AREA_SIZE / size) * size;

		pattern_fill((char *) hub->memory.base + offset, size, first + i, offset);
		ret = write_one(client, hub->conns[i], offset, size);
		if (!ret)
			ret = await_write(client, hub->conns[i]);
		if (!ret)
			ret = verify(client, offset, size, first + i);
	}
	while (hub->count) {
		if (!ret)
			fi_shutdown(hub->conns[hub->count - 1]->ep, 0);
		hub_remove(hub, hub->count - 1);
	}
	return ret;
}

static bool grows(const char *who, const char *what, uint64_t before, uint64_t after,
		  uint64_t allowed)
{
	if (after <= before || after - before <= allowed)
		return false;
	fprintf(stderr, "the %s leaks: %s grew from %" PRIu64 " to %" PRIu64 "\n", who, what,
		before, after);
	return true;
}

/*
 * The agent begins a thread for a lane of a disk when it is first slow: so many, however many
 * connections there are.  Each maps a stack and what malloc gives a thread.
 */
#define LANE_THREADS 5
#define THREAD_MAPPED ((uint64_t) 136 << 20)

/*
 * leaks -- is anything left of each of `count` connections?  The smallest piece of
 * the heap takes 32 bytes.  What is mapped once is touched little by little, over tens
 * of thousands of connections: resident memory shows coarser leaks only.
 */
static bool leaks(const char *who, const struct usage *before, const struct usage *after,
		  uint64_t count)
{
	bool fds = grows(who, "the number of descriptors", before->fds, after->fds, 0);
	bool threads = grows(who, "the number of threads", before->threads, after->threads,
			     count > LANE_THREADS ? LANE_THREADS : 0);
	uint64_t begun = after->threads > before->threads ? after->threads - before->threads : 0;
	bool heap = grows(who, "the heap", before->heap, after->heap, 16 * count + 4096);
	bool resident = grows(who, "resident memory", before->resident, after->resident,
			      64 * count + (4 << 20));
	bool mapped = grows(who, "mapped memory", before->mapped, after->mapped,
			    256 * count + (1 << 20) + (threads ? 0 : begun * THREAD_MAPPED));

	return fds || threads || heap || resident || mapped;
}

static void print_usage(const char *who, unsigned long done, const struct usage *usage)
{
	printf("%-10s %8lu %10.1f %12.1f %12.1f %6" PRIu64 " %8" PRIu64 "\n", who, done,
	       (double) usage->heap / 1024, (double) usage->resident / 1024,
	       (double) usage->mapped / 1024, usage->fds, usage->threads);
}

static int print_both(struct client *client, unsigned long done, struct both *both)
{
	int ret = get_both(client, both);

	if (ret)
		return ret;
	print_usage("target", done, &both->target);
	print_usage("initiator", done, &both->initiator);
	fflush(stdout);
	return 0;
}

/* So many come first: what is kept of some, to be used again, is all there then. */
#define SETTLING 64

static int run_churn(struct client *client)
{
	const struct options *opts = client->hub.opts;
	unsigned long all = opts->iterations + SETTLING;
	unsigned long done = 0, at_a_time, settled = 0;
	uint64_t start = now_ns();
	struct both before = {0}, after;
	int ret = 0;

	printf("%-10s %8s %10s %12s %12s %6s %8s\n", "", "gone", "heap kB", "resident kB",
	       "mapped kB", "fds", "threads");
	while (!ret && done < all) {
		at_a_time = all - done;
		if (at_a_time > opts->connections)
			at_a_time = opts->connections;
		ret = run_round(client, done, at_a_time);
		done += at_a_time;
		if (ret || settled || done < SETTLING + opts->iterations / 10)
			continue;
		settled = done;
		ret = print_both(client, done, &before);
	}
	if (!ret)
		ret = print_both(client, done, &after);
	if (ret)
		return ret;
	printf("%.1f us for each\n", (double) (now_ns() - start) / 1e3 / (double) done);
	ret = leaks("target", &before.target, &after.target, done - settled);
	ret |= leaks("initiator", &before.initiator, &after.initiator, done - settled);
	return ret ? -FI_EOTHER : 0;
}

/* ---- running it ---- */

/* ask_port -- where the target listens with the provider */
static int ask_port(struct client *client, char port[8])
{
	struct control_msg msg = {.command = ASK_OPEN};
	int ret = ask(client, &msg, NULL, 0);

	snprintf(port, 8, "%u", (unsigned) (uint16_t) msg.arg[0]);
	return ret;
}

static int open_client(struct client *client, const char *port)
{
	struct hub *hub = &client->hub;
	struct node_attr attr = hub_node_attr(hub->opts, port);
	int ret;

	ret = fabric_open(&hub->node, hub->opts, &attr);
	if (!ret)
		ret = hub_open_cq(hub, hub->node.info, FI_WAIT_NONE);
	if (!ret && memory_map(&hub->memory, NULL, AREA_SIZE))
		ret = -FI_ENOMEM;
	return ret ? ret
		   : region_register(&hub->node, &hub->region, hub->memory.base, AREA_SIZE,
				     FI_WRITE, 0);
}

static int ask_target(void *arg, struct control_msg *msg)
{
	return ask(arg, msg, NULL, 0);
}

/* run_op -- with clients, this process does without libfabric: they are made by fork */
static int run_op(struct client *client, int op, const char *port)
{
	int ret;

	if (op >= OP_CLIENTS)
		return scale_clients(client->hub.opts, port, op == OP_CLIENTS_EACH, ask_target,
				     client);
	ret = open_client(client, port);
	if (ret)
		return ret;
	return op == OP_CHURN ? run_churn(client) : run_latency(client);
}

static int run_client(const struct options *opts, int op)
{
	struct client client = {.hub.opts = opts};
	struct control_msg bye = {.command = ASK_BYE};
	char port[8];
	int ret;

	client.hub.control = control_connect(opts->dst_addr, opts->dst_port, opts->timeout);
	if (client.hub.control < 0)
		return -FI_ECONNREFUSED;
	ret = ask_port(&client, port);
	if (!ret)
		ret = run_op(&client, op, port);
	if (!ret)
		ret = ask(&client, &bye, NULL, 0);
	hub_close(&client.hub);
	close(client.hub.control);
	return ret;
}

/* allow_descriptors -- as many as the system lets a process have */
static void allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
	struct options opts = {
		.iterations = 1000,
		.warmup = 100,
		.connections = 256,
		.sizes = {64},
		.nsizes = 1,
	};
	int op;

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	op = options_op(&opts, operations);
	if (op < 0)
		return EXIT_USAGE;
	if (opts.nsizes != 1 || opts.sizes[0] > AREA_SIZE) {
		fprintf(stderr, "one size, at most %zu bytes\n", AREA_SIZE);
		return EXIT_USAGE;
	}
	if (op >= OP_CLIENTS &&
	    (opts.connections > SCALE_CLIENTS || opts.connections * opts.sizes[0] > AREA_SIZE)) {
		fprintf(stderr, "at most %d clients, and %zu bytes of all\n", SCALE_CLIENTS,
			AREA_SIZE);
		return EXIT_USAGE;
	}
	allow_descriptors();
	return (opts.dst_addr ? run_client(&opts, op) : scale_server(&opts)) ? EXIT_FAILURE
									     : EXIT_SUCCESS;
}
