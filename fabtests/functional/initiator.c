/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * initiator.c -- verdicts, targets and their memory, for the cases of the functional program: see
 * functional.h
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "functional.h"
#include "../common/stats.h"

/* keep -- the reason, unless there is that of a failure already */
static void keep(struct fx *fx, bool *flag, const char *format, va_list args)
{
	pthread_mutex_lock(&fx->lock);
	if (!fx->has_failed)
		vsnprintf(fx->reason, sizeof(fx->reason), format, args);
	*flag = true;
	pthread_mutex_unlock(&fx->lock);
}

int failed(struct fx *fx, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	keep(fx, &fx->has_failed, format, args);
	va_end(args);
	return -1;
}

int skipped(struct fx *fx, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	keep(fx, &fx->has_skipped, format, args);
	va_end(args);
	return -1;
}

int expect(struct fx *fx, bool is_true, const char *format, ...)
{
	va_list args;

	if (is_true)
		return 0;
	va_start(args, format);
	keep(fx, &fx->has_failed, format, args);
	va_end(args);
	return -1;
}

void note_failed_call(struct fx *fx, const char *call, ssize_t ret)
{
	failed(fx, "%s: %s (%zd)", call, fi_strerror((int) -ret), ret);
}

bool is_late(const struct fx *fx)
{
	return now_ns() > fx->deadline;
}

void pause_ms(unsigned int ms)
{
	struct timespec time = {ms / 1000, ms % 1000 * 1000000L};

	nanosleep(&time, NULL);
}

bool is_pmemverbs(const struct fx *fx)
{
	return !is_core(fx->opts);
}

int target_begin(struct target_proc *target, struct control_msg *msg, const void *payload)
{
	if (control_send(target->control, msg, payload))
		return failed(target->fx, "the target has gone");
	return 0;
}

int target_finish(struct target_proc *target, struct control_msg *msg, void *payload, size_t room)
{
	unsigned long timeout = target->fx->opts->timeout + 5;

	if (control_receive(target->control, msg, payload, room, timeout))
		return failed(target->fx, "the target has gone");
	return msg->status;
}

int target_call(struct target_proc *target, struct control_msg *msg, void *payload, size_t room)
{
	if (target_begin(target, msg, payload))
		return -1;
	return target_finish(target, msg, payload, room);
}

/* target_must_call -- a command that has no reason to fail */
int target_must_call(struct target_proc *target, struct control_msg *msg, void *payload,
		     size_t room, const char *what)
{
	int ret = target_call(target, msg, payload, room);

	return ret ? failed(target->fx, "the target can't %s: %s (%d)", what, fi_strerror(-ret),
			    ret)
		   : 0;
}

/* pack_environment -- the strings one after the other, each with its NUL */
static size_t pack_environment(const char *const *environment, char *out, size_t room)
{
	size_t used = 0, len;

	for (; environment && *environment; environment++) {
		len = strlen(*environment) + 1;
		if (len > room - used)
			break;
		memcpy(out + used, *environment, len);
		used += len;
	}
	return used;
}

static int spawn(struct target_proc *target, const char *const *environment)
{
	const struct options *opts = target->fx->opts;
	struct control_msg msg = {.command = CTL_TARGET};
	char payload[512];

	target->control = control_connect(opts->dst_addr, opts->dst_port, opts->timeout);
	if (target->control < 0)
		return failed(target->fx, "no connection to the server");
	target->is_open = true;
	msg.len = pack_environment(environment, payload, sizeof(payload));
	if (target_must_call(target, &msg, payload, sizeof(payload), "start"))
		return -1;
	target->pid = (pid_t) msg.arg[0];
	return 0;
}

static int open_both_sides(struct target_proc *target, const struct target_attr *target_attr)
{
	uint64_t usual = target->fx->caps;
	struct control_msg msg = {.command = CTL_OPEN};
	struct node_attr attr = {.threading = FI_THREAD_SAFE};
	char port[16];
	int ret;

	msg.arg[0] = target_attr->caps ? target_attr->caps : usual;
	attr.caps = target_attr->our_caps ? target_attr->our_caps : usual;
	if (target_must_call(target, &msg, NULL, 0, "listen"))
		return -1;
	target->has_file = msg.arg[1];
	target->can_sync = msg.arg[2];
	target->port = (unsigned int) msg.arg[0];
	snprintf(port, sizeof(port), "%u", target->port);
	attr.port = port;
	ret = fabric_open(&target->node, target->fx->opts, &attr);
	return ret ? failed_call(target->fx, "opening the provider", ret) : 0;
}

struct target_proc *target_start(struct fx *fx, struct target_proc *target,
				 const struct target_attr *attr)
{
	static const struct target_attr usual;

	if (!attr)
		attr = &usual;
	memset(target, 0, sizeof(*target));
	target->fx = fx;
	if (spawn(target, attr->environment) || open_both_sides(target, attr))
		return NULL;
	return target;
}

struct target_proc *fx_target(struct fx *fx, const struct target_attr *attr)
{
	int i;

	for (i = 0; i < MAX_TARGETS; i++) {
		if (!fx->own[i].is_open)
			return target_start(fx, &fx->own[i], attr);
	}
	failed(fx, "too many targets in one case");
	return NULL;
}

/*
 * target_end -- wait until its process has ended: targets share a file, and data that are still
 * on their way would land in the next one's regions
 */
void target_end(struct target_proc *target)
{
	if (!target->is_open)
		return;
	if (target->node.fabric)
		node_close(&target->node);
	if (control_end(target->control, target->fx->opts->timeout))
		failed(target->fx, "the target's process does not end");
	target->is_open = false;
}

int target_signal(struct target_proc *target, int signo)
{
	struct control_msg msg = {.command = CTL_SIGNAL, .arg = {target->pid, signo}};
	struct fx *fx = target->fx;

	if (control_send(fx->session, &msg, NULL) ||
	    control_receive(fx->session, &msg, NULL, 0, fx->opts->timeout) || msg.status)
		return failed(fx, "the server can't send signal %d to the target", signo);
	return 0;
}

/* remote_init -- what the target has answered */
static int remote_init(struct target_proc *target, struct remote *remote,
		       const struct control_msg *answer, size_t len, uint64_t seed)
{
	*remote = (struct remote){
		.target = target,
		.id = answer->arg[0],
		.addr = answer->arg[1],
		.key = answer->arg[2],
		.seed = seed,
		.len = len,
		.shadow = malloc(len),
		.image = malloc(len),
	};
	if (!remote->shadow || !remote->image)
		return -FI_ENOMEM;
	pattern_fill(remote->shadow, len, seed, 0);
	return 0;
}

int remote_try(struct target_proc *target, struct remote *remote, size_t len, uint64_t access,
	       uint64_t flags, size_t skew, uint64_t seed)
{
	struct control_msg msg = {
		.command = CTL_REG,
		.arg = {len, access, flags, seed, skew},
	};
	int ret = target_call(target, &msg, NULL, 0);

	return ret ? ret : remote_init(target, remote, &msg, len, seed);
}

/* new_remote -- NULL: it failed */
static struct remote *new_remote(struct fx *fx, struct target_proc *target)
{
	if (fx->nremotes == MAX_REMOTES) {
		failed(fx, "too many regions in one case");
		return NULL;
	}
	if (!target->has_domain && !fx_link(fx, target, NULL))
		return NULL;
	return &fx->remotes[fx->nremotes++];
}

struct remote *fx_remote_file(struct fx *fx, struct target_proc *target, size_t len,
			      const char *path)
{
	uint64_t seed = path ? 0 : atomic_fetch_add(&fx->seed, 1);
	struct control_msg msg = {
		.command = CTL_FILE,
		.arg = {len, seed},
		.len = path ? strlen(path) + 1 : 0,
	};
	struct remote *remote = new_remote(fx, target);
	int ret;

	if (!remote)
		return NULL;
	ret = target_begin(target, &msg, path);
	if (!ret)
		ret = target_finish(target, &msg, NULL, 0);
	if (!ret)
		ret = remote_init(target, remote, &msg, len, seed);
	if (!ret)
		return remote;
	failed_call(fx, "fi_mr_reg of a file at the target", ret);
	return NULL;
}

struct remote *fx_remote_skewed(struct fx *fx, struct target_proc *target, size_t len,
				uint64_t access, uint64_t flags, size_t skew)
{
	struct remote *remote = new_remote(fx, target);
	int ret;

	if (!remote)
		return NULL;
	ret = remote_try(target, remote, len, access, flags, skew, atomic_fetch_add(&fx->seed, 1));
	if (!ret)
		return remote;
	failed_call(fx, "fi_mr_reg at the target", ret);
	return NULL;
}

struct remote *fx_remote(struct fx *fx, struct target_proc *target, size_t len, uint64_t access,
			 uint64_t flags)
{
	return fx_remote_skewed(fx, target, len, access, flags, 0);
}

struct remote *pmem_region(struct fx *fx, size_t len)
{
	return fx_remote(fx, fx->target, len, FI_REMOTE_WRITE, FI_RMA_PMEM);
}

int remote_fetch(struct fx *fx, struct remote *remote)
{
	struct control_msg msg = {.command = CTL_READ, .arg = {remote->id}};

	if (target_must_call(remote->target, &msg, remote->image, remote->len, "read its memory"))
		return -1;
	return expect(fx, msg.arg[0], "bytes outside of the region have changed");
}

int remote_same(struct fx *fx, struct remote *remote)
{
	size_t i;

	if (remote_fetch(fx, remote))
		return -1;
	if (!memcmp(remote->shadow, remote->image, remote->len))
		return 0;
	for (i = 0; remote->shadow[i] == remote->image[i]; i++)
		;
	return failed(fx, "wrong data at the target from offset %zu of %zu on: %02x, not %02x", i,
		      remote->len, remote->image[i], remote->shadow[i]);
}

void remote_expect(struct remote *remote, size_t offset, size_t len, uint64_t seed)
{
	pattern_fill(remote->shadow + offset, len, seed, offset);
}
