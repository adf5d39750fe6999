/* SPDX-License-Identifier: BSD-2-Clause */
/* scale_target.c -- the target of fi_pmem_scale: one thread, which sleeps while nothing happens */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scale.h"
#include "../common/memory_direct.h"
#include "../common/stats.h"

/* open_shared -- what needs the domain, which comes with the first request */
static int open_shared(struct hub *hub, const struct fi_info *info)
{
	int ret;

	if (hub->cq)
		return 0;
	if (memory_open(&hub->memory, hub->node.domain, hub->opts->memory, AREA_SIZE))
		return -FI_ENOMEM;
	ret = hub_open_cq(hub, info, FI_WAIT_FD);
	return ret ? ret
		   : region_register(&hub->node, &hub->region, hub->memory.base, AREA_SIZE,
				     FI_REMOTE_WRITE | FI_REMOTE_READ,
				     is_core(hub->opts) ? 0 : FI_RMA_PMEM);
}

/* open_own -- the region of a client, in a file beside the others': PATH.1, ... */
static int open_own(struct hub *hub, uint64_t number)
{
	const char *path = hub->opts->memory;
	struct own_area *own;
	char name[PATH_MAX];

	if (number > SCALE_CLIENTS || !hub->cq)
		return -FI_EINVAL;
	if (!hub->own)
		hub->own = calloc(SCALE_CLIENTS, sizeof(*hub->own));
	if (!hub->own)
		return -FI_ENOMEM;
	own = &hub->own[number - 1];
	if (own->region.mr)
		return 0;
	if (path && snprintf(name, sizeof(name), "%s.%d", path, (int) number) >= PATH_MAX)
		return -FI_EINVAL;
	if (memory_open(&own->memory, hub->node.domain, path ? name : NULL, AREA_SIZE))
		return -FI_ENOMEM;
	return region_register(&hub->node, &own->region, own->memory.base, AREA_SIZE,
			       FI_REMOTE_WRITE | FI_REMOTE_READ,
			       is_core(hub->opts) ? 0 : FI_RMA_PMEM);
}

/* find_region -- a client's own, or that of all: number 0; NULL: it is not open */
static const struct region *find_region(const struct hub *hub, uint64_t number)
{
	const struct region *region = &hub->region;

	if (number)
		region = hub->own && number <= SCALE_CLIENTS ? &hub->own[number - 1].region : NULL;
	return region && region->mr ? region : NULL;
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
	conn = hub_add(hub, info);
	if (!conn)
		return -FI_ENOMEM;
	ret = fi_accept(conn->ep, NULL, 0);
	return ret ? report("fi_accept", ret) : 0;
}

static void end_conn(struct hub *hub, const struct fid *fid)
{
	for (size_t i = 0; i < hub->count; i++) {
		if (&hub->conns[i]->ep->fid == fid) {
			hub_remove(hub, i);
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
			ret = hub_reap(hub);
	}
	return ret;
}

static int check(struct hub *hub, struct control_msg *msg)
{
	uint64_t offset = msg->arg[0], len = msg->arg[1];
	const struct region *region = find_region(hub, msg->arg[3]);

	if (!region || offset > AREA_SIZE || len > AREA_SIZE - offset)
		return -FI_EINVAL;
	msg->arg[0] = pattern_check((char *) region->buf + offset, len, msg->arg[2], offset);
	return 0;
}

static int tell_region(struct hub *hub, struct control_msg *msg)
{
	int ret = msg->arg[0] ? open_own(hub, msg->arg[0]) : 0;
	const struct region *region = find_region(hub, msg->arg[0]);

	if (ret || !region)
		return ret ? ret : -FI_EINVAL;
	msg->arg[0] = region->addr;
	msg->arg[1] = region->key;
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
		return tell_region(hub, msg);
	case ASK_CHECK:
		return check(hub, msg);
	case ASK_USAGE:
		ret = await_count(hub, msg->arg[0]);
		hub_get_usage(usage, hub->count);
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
			ret = hub_reap(hub);
		if (!ret)
			ret = sleep_until_needed(hub, &command);
		if (!ret && command)
			ret = serve_command(hub, &bye);
	}
	return ret;
}

int scale_server(const struct options *opts)
{
	struct hub hub = {.opts = opts};
	struct node_attr attr = hub_node_attr(opts, "0");
	int ret;

	if (!provider_is_there(NULL, opts->provider))
		return -FI_ENODATA;
	hub.control = control_accept(opts->src_addr, opts->src_port);
	if (hub.control < 0)
		return -FI_EOTHER;
	ret = fabric_listen(&hub.node, opts, &attr);
	if (!ret)
		ret = serve(&hub);
	hub_close(&hub);
	close(hub.control);
	return ret;
}
