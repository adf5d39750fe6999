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
 * The initiator commands over a control connection; the target does everything
 * else in one thread that sleeps while nothing happens.
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

#include "../common/common.h"
#include "../common/control.h"
#include "../common/memory.h"
#include "../common/stats.h"

#define AREA_SIZE ((size_t) 1 << 20)
#define CQ_ROOM 4096 /* for a receive of each endpoint, whether or not it is posted */
#define GROWTH 4     /* of the number of connections, from one row to the next */

static const struct program program = {
	.name = "fi_pmem_scale",
	.summary = "Many connections to one target: latency of a commit, memory, leaks.",
	.letters = "pfdsbBPMSInwxoh",
	.operations = "latency: commits on one connection among idle ones (default); "
		      "churn: -I connections, each with a commit, -n at a time",
};

enum { OP_LATENCY, OP_CHURN };

static const char *const operations[] = {"latency", "churn", NULL};

enum {
	ASK_OPEN,   /* -> port of the provider's */
	ASK_REGION, /* -> address, key */
	ASK_CHECK,  /* offset, length, seed -> bytes that are right */
	ASK_USAGE,  /* connections there shall be -> struct usage */
	ASK_BYE,
};

/* ---- both sides ---- */

struct usage {
	uint64_t connections;
	uint64_t heap; /* bytes in use */
	uint64_t resident;
	uint64_t mapped;
	uint64_t fds;
	uint64_t threads;
};

static uint64_t count_entries(const char *path)
{
	DIR *dir = opendir(path);
	uint64_t count = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void get_usage(struct usage *usage, size_t connections)
{
	struct mallinfo2 heap = mallinfo2();
	unsigned long long mapped = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file && fscanf(file, "%llu %llu", &mapped, &resident) != 2)
		mapped = resident = 0;
	if (file)
		fclose(file);
	*usage = (struct usage){
		.connections = connections,
		.heap = heap.uordblks + heap.hblkhd,
		.resident = resident * (uint64_t) sysconf(_SC_PAGESIZE),
		.mapped = mapped * (uint64_t) sysconf(_SC_PAGESIZE),
		.fds = count_entries("/proc/self/fd"),
		.threads = count_entries("/proc/self/task"),
	};
}

static struct node_attr node_attr_of(const struct options *opts, const char *port)
{
	return (struct node_attr){
		.caps = FI_MSG | FI_RMA | (is_core(opts) ? 0 : FI_RMA_PMEM),
		.threading = FI_THREAD_SAFE,
		.port = port,
	};
}

/* An end of all connections: they share a completion queue. */
struct hub {
	const struct options *opts;
	struct node node;
	struct fid_cq *cq;
	struct conn **conns;
	size_t count;
	size_t room;
	struct memory memory;
	struct region region;
	int control;
};

static int open_cq(struct hub *hub, const struct fi_info *info, enum fi_wait_obj wait)
{
	struct conn_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait = wait};
	int ret = cq_create(&hub->node, &attr, info->tx_attr->size + CQ_ROOM, &hub->cq);

	return ret ? report("fi_cq_open", ret) : 0;
}

/* add_conn -- an endpoint that is not connected yet; NULL: that has been reported */
static struct conn *add_conn(struct hub *hub, struct fi_info *info)
{
	struct conn_attr attr = {.cq = hub->cq, .selective = true};
	struct conn *conn = calloc(1, sizeof(*conn));

	if (hub->count == hub->room) {
		size_t room = hub->room ? 2 * hub->room : 64;
		struct conn **conns = realloc(hub->conns, room * sizeof(*conns));

		if (!conns) {
			free(conn);
			return NULL;
		}
		hub->conns = conns;
		hub->room = room;
	}
	/* verbs takes room for all that could be received from the queue. */
	info->rx_attr->size = 1;
	if (!conn || conn_create(conn, &hub->node, info, &attr)) {
		free(conn);
		return NULL;
	}
	hub->conns[hub->count++] = conn;
	return conn;
}

/* reap -- nothing is awaited: what the ends of connections leave in the queue is no news */
static int reap(struct hub *hub)
{
	struct fi_cq_err_entry error;
	struct fi_cq_entry entry;
	ssize_t ret;

	if (!hub->cq)
		return 0;
	while ((ret = fi_cq_read(hub->cq, &entry, 1)) != -FI_EAGAIN) {
		if (ret == -FI_EAVAIL)
			cq_error(hub->cq, &error);
		else if (ret < 0)
			return report("fi_cq_read", ret);
	}
	return 0;
}

static void remove_conn(struct hub *hub, size_t i)
{
	conn_close(hub->conns[i]);
	free(hub->conns[i]);
	hub->conns[i] = hub->conns[--hub->count];
}

static void close_hub(struct hub *hub)
{
	while (hub->count)
		remove_conn(hub, hub->count - 1);
	region_close(&hub->region);
	if (hub->cq)
		close_fid(&hub->cq->fid, "the completion queue");
	node_close(&hub->node);
	memory_unmap(&hub->memory);
	free(hub->conns);
}

/* ---- the target ---- */

/* open_shared -- what needs the domain, which comes with the first request */
static int open_shared(struct hub *hub, const struct fi_info *info)
{
	int ret;

	if (hub->cq)
		return 0;
	if (memory_map(&hub->memory, hub->opts->memory, AREA_SIZE))
		return -FI_ENOMEM;
	ret = open_cq(hub, info, FI_WAIT_FD);
	return ret ? ret
		   : region_register(&hub->node, &hub->region, hub->memory.base, AREA_SIZE,
				     FI_REMOTE_WRITE | FI_REMOTE_READ,
				     is_core(hub->opts) ? 0 : FI_RMA_PMEM);
}

static int accept_conn(struct hub *hub, struct fi_info *info)
{
	struct conn *conn;
	int ret;

	ret = node_domain(&hub->node, info);
	if (!ret)
		ret = open_shared(hub, info);
	if (ret)
		return ret;
	conn = add_conn(hub, info);
	if (!conn)
		return -FI_ENOMEM;
	ret = fi_accept(conn->ep, NULL, 0);
	return ret ? report("fi_accept", ret) : 0;
}

static void end_conn(struct hub *hub, const struct fid *fid)
{
	for (size_t i = 0; i < hub->count; i++) {
		if (&hub->conns[i]->ep->fid == fid) {
			remove_conn(hub, i);
			return;
		}
	}
}

/* take_events -- all that there are */
static int take_events(struct hub *hub)
{
	struct cm_event event;
	int ret;

	while ((ret = node_event(&hub->node, &event, 0)) > 0) {
		if (event.err)
			return explain_call(NULL, "connection event", -event.err);
		if (event.event == FI_SHUTDOWN)
			end_conn(hub, event.entry.fid);
		if (event.event != FI_CONNREQ)
			continue;
		ret = accept_conn(hub, event.entry.info);
		if (ret) {
			node_reject(&hub->node, event.entry.info, NULL);
			return ret;
		}
		fi_freeinfo(event.entry.info);
	}
	return ret;
}

/* await_count -- the initiator may be ahead of this process's events */
static int await_count(struct hub *hub, size_t count)
{
	uint64_t deadline = deadline_in(hub->opts->timeout);
	const struct timespec pause = {.tv_nsec = 100000};
	int ret = 0;

	while (!ret && hub->count != count) {
		if (now_ns() > deadline) {
			fprintf(stderr, "%zu connections are open instead of %zu\n", hub->count,
				count);
			return -FI_ETIMEDOUT;
		}
		nanosleep(&pause, NULL);
		ret = take_events(hub);
		if (!ret)
			ret = reap(hub);
	}
	return ret;
}

static int check(struct hub *hub, struct control_msg *msg)
{
	uint64_t offset = msg->arg[0], len = msg->arg[1];

	if (!hub->region.mr || offset > AREA_SIZE || len > AREA_SIZE - offset)
		return -FI_EINVAL;
	msg->arg[0] = pattern_check((char *) hub->memory.base + offset, len, msg->arg[2], offset);
	return 0;
}

static int execute(struct hub *hub, struct control_msg *msg, struct usage *usage)
{
	int ret;

	msg->len = 0;
	switch (msg->command) {
	case ASK_OPEN:
		msg->arg[0] = node_port(&hub->node);
		return 0;
	case ASK_REGION:
		msg->arg[0] = hub->region.addr;
		msg->arg[1] = hub->region.key;
		return hub->region.mr ? 0 : -FI_EINVAL;
	case ASK_CHECK:
		return check(hub, msg);
	case ASK_USAGE:
		ret = await_count(hub, msg->arg[0]);
		get_usage(usage, hub->count);
		msg->len = sizeof(*usage);
		return ret;
	case ASK_BYE:
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

static int serve_command(struct hub *hub, bool *bye)
{
	struct control_msg msg;
	struct usage usage;

	if (control_receive(hub->control, &msg, NULL, 0, hub->opts->timeout)) {
		fprintf(stderr, "the client has gone\n");
		return -FI_ECONNRESET;
	}
	*bye = msg.command == ASK_BYE;
	msg.status = execute(hub, &msg, &usage);
	return control_send(hub->control, &msg, &usage) ? -FI_ECONNRESET : 0;
}

static int wait_fd(struct fid *fid, int *fd)
{
	int ret = fi_control(fid, FI_GETWAIT, fd);

	return ret ? report("fi_control of FI_GETWAIT", ret) : 0;
}

/*
 * sleep_until_needed -- a message of the initiator's, a connection event, or, with
 * providers whose data move in calls only, data
 */
static int sleep_until_needed(struct hub *hub, bool *command)
{
	struct pollfd pfds[3] = {
		{.fd = hub->control, .events = POLLIN}, {.events = POLLIN}, {.events = POLLIN}};
	bool calls = hub->cq && !node_is_passive(&hub->node);
	struct fid *fids[] = {&hub->node.eq->fid, calls ? &hub->cq->fid : NULL};
	int ret;

	ret = wait_fd(fids[0], &pfds[1].fd);
	if (!ret && calls)
		ret = wait_fd(fids[1], &pfds[2].fd);
	if (ret)
		return ret;
	ret = fi_trywait(hub->node.fabric, fids, calls ? 2 : 1);
	if (ret && ret != -FI_EAGAIN)
		return report("fi_trywait", ret);
	if (poll(pfds, calls ? 3 : 2, ret ? 0 : 100) < 0 && errno != EINTR)
		return report("poll", -errno);
	*command = pfds[0].revents;
	return 0;
}

static int serve(struct hub *hub)
{
	bool bye = false, command = false;
	int ret = 0;

	while (!ret && !bye) {
		ret = take_events(hub);
		if (!ret)
			ret = reap(hub);
		if (!ret)
			ret = sleep_until_needed(hub, &command);
		if (!ret && command)
			ret = serve_command(hub, &bye);
	}
	return ret;
}

static int server(const struct options *opts)
{
	struct hub hub = {.opts = opts};
	struct node_attr attr = node_attr_of(opts, "0");
	int ret;

	if (!provider_is_there(NULL, opts->provider))
		return -FI_ENODATA;
	hub.control = control_accept(opts->src_addr, opts->src_port);
	if (hub.control < 0)
		return -FI_EOTHER;
	ret = fabric_listen(&hub.node, opts, &attr);
	if (!ret)
		ret = serve(&hub);
	close_hub(&hub);
	close(hub.control);
	return ret;
}

/* ---- the initiator ---- */

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
	struct conn *conn = add_conn(hub, hub->node.info);
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
		ret = reap(hub);
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
	get_usage(&both->initiator, client->hub.count);
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
		remove_conn(hub, hub->count - 1);
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
 * leaks -- is anything left of each of `count` connections?  The smallest piece of
 * the heap takes 32 bytes.  What is mapped once is touched little by little, over tens
 * of thousands of connections: resident memory shows coarser leaks only.
 */
static bool leaks(const char *who, const struct usage *before, const struct usage *after,
		  uint64_t count)
{
	bool fds = grows(who, "the number of descriptors", before->fds, after->fds, 0);
	bool threads = grows(who, "the number of threads", before->threads, after->threads, 0);
	bool heap = grows(who, "the heap", before->heap, after->heap, 16 * count + 4096);
	bool resident = grows(who, "resident memory", before->resident, after->resident,
			      64 * count + (4 << 20));
	bool mapped =
		grows(who, "mapped memory", before->mapped, after->mapped, 256 * count + (1 << 20));

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

static int open_client(struct client *client)
{
	struct hub *hub = &client->hub;
	struct control_msg msg = {.command = ASK_OPEN};
	char port[8];
	struct node_attr attr = node_attr_of(hub->opts, port);
	int ret = ask(client, &msg, NULL, 0);

	if (ret)
		return ret;
	snprintf(port, sizeof(port), "%u", (unsigned) (uint16_t) msg.arg[0]);
	ret = fabric_open(&hub->node, hub->opts, &attr);
	if (!ret)
		ret = open_cq(hub, hub->node.info, FI_WAIT_NONE);
	if (!ret && memory_map(&hub->memory, NULL, AREA_SIZE))
		ret = -FI_ENOMEM;
	return ret ? ret
		   : region_register(&hub->node, &hub->region, hub->memory.base, AREA_SIZE,
				     FI_WRITE, 0);
}

static int run_client(const struct options *opts, int op)
{
	struct client client = {.hub.opts = opts};
	struct control_msg bye = {.command = ASK_BYE};
	int ret;

	client.hub.control = control_connect(opts->dst_addr, opts->dst_port, opts->timeout);
	if (client.hub.control < 0)
		return -FI_ECONNREFUSED;
	ret = open_client(&client);
	if (!ret)
		ret = op == OP_CHURN ? run_churn(&client) : run_latency(&client);
	if (!ret)
		ret = ask(&client, &bye, NULL, 0);
	close_hub(&client.hub);
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
	allow_descriptors();
	return (opts.dst_addr ? run_client(&opts, op) : server(&opts)) ? EXIT_FAILURE
								       : EXIT_SUCCESS;
}
