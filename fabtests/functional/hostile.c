/* SPDX-License-Identifier: BSD-2-Clause */
/* hostile.c -- the scene of the hostile cases; hostile.h says what it is */
#include "hostile.h"

#include <string.h>

#include "memory/key.h"

/* ---- the well-behaved connection ---- */

static void *commit_on(void *arg)
{
	struct steady *steady = arg;
	uint64_t fence = steady->link->fx->caps & FI_FENCE;
	size_t len;
	unsigned int i;

	for (i = 0; !steady->stop && !steady->ret; i++) {
		len = i % 16 ? 1 + i % 250 : 5000;
		steady->ret = plain_at(steady->link, PLAIN_WRITE, steady->remote,
				       32768 + i * 64 % 16384, len, NULL) ||
			      commit(steady->link, steady->remote, i * 64 % 16384, len,
				     i % 2 ? fence : 0);
		steady->commits++;
		/* so that it does not use up what it may post in all */
		pause_ms(2);
	}
	return NULL;
}

/* ---- the scene ---- */

struct pmv_range scene_range(const struct remote *remote, uint64_t offset, uint64_t len)
{
	return (struct pmv_range){remote->addr + offset, len, (uint32_t) pmv_key_core(remote->key)};
}

/* scene_flush_works -- an ordinary message is served: the agent has lost nothing of its senses */
int scene_flush_works(struct scene *scene, const char *after)
{
	struct pmv_flush_message message = {.count = 1,
					    .ranges = {scene_range(scene->open, 0, 4096)}};

	return raw_send(&scene->raw, &message) ||
			       raw_answers(&scene->raw, after, scene->raw.sent, PMV_FAULT_NONE)
		       ? -1
		       : 0;
}

int scene_open(struct fx *fx, struct scene *scene)
{
	struct steady *steady = &scene->steady;
	struct link *link = served_link(fx, NULL);

	memset(scene, 0, sizeof(*scene));
	scene->fx = fx;
	steady->link = link;
	steady->remote = link ? served_region(link, 65536) : NULL;
	scene->open = steady->remote ? served_region(link, 65536) : NULL;
	scene->readonly = scene->open
				  ? fx_remote(fx, link->target, 65536, FI_REMOTE_READ, FI_RMA_PMEM)
				  : NULL;
	scene->secret =
		scene->readonly ? fx_remote(fx, link->target, 65536, FI_REMOTE_READ, 0) : NULL;
	if (!scene->secret || raw_open(fx, &scene->raw, link))
		return -1;
	if (pthread_create(&steady->thread, NULL, commit_on, steady)) {
		steady->stop = true;
		return failed(fx, "no thread");
	}
	return 0;
}

/* scene_is_untouched -- to all that the hostile peer has no business with */
int scene_is_untouched(struct scene *scene)
{
	return remote_same(scene->fx, scene->open) || remote_same(scene->fx, scene->readonly) ||
			       remote_same(scene->fx, scene->secret)
		       ? -1
		       : 0;
}

/* scene_close -- ret: what came of the hostile peer's part */
int scene_close(struct scene *scene, int ret)
{
	struct steady *steady = &scene->steady;
	struct fx *fx = scene->fx;
	unsigned int before;

	if (!scene->raw.fx)
		return -1;
	raw_close(&scene->raw);
	if (!steady->thread)
		return -1;
	/* it goes on without the other one, which the first of these may have begun with */
	before = steady->commits;
	while (steady->commits < before + 2 && !steady->ret && !is_late(fx))
		pause_ms(1);
	steady->stop = true;
	pthread_join(steady->thread, NULL);
	if (ret || steady->ret)
		return -1;
	return expect(fx, steady->commits >= before + 2,
		      "the other connection makes no progress") ||
			       remote_same(fx, steady->remote) || scene_is_untouched(scene) ||
			       linger(steady->link, 20)
		       ? -1
		       : 0;
}

int hostile(struct fx *fx, int (*mischief)(struct scene *scene))
{
	static struct scene scene;
	int ret = scene_open(fx, &scene);

	if (!ret)
		ret = raw_greet(&scene.raw) || scene_flush_works(&scene, "the first message") ||
		      mischief(&scene);
	return scene_close(&scene, ret);
}

int scene_reopen(struct scene *scene)
{
	raw_close(&scene->raw);
	return raw_open(scene->fx, &scene->raw, scene->steady.link);
}

/* scene_is_ended -- the connection, by the target, once that has answered; then another one */
int scene_is_ended(struct scene *scene, const char *what)
{
	struct raw *raw = &scene->raw;
	struct pmv_ack ack;

	if (expect(scene->fx, raw_is_ended(raw), "%s: the connection goes on", what))
		return -1;
	if (expect(scene->fx, !raw_take_ack(raw, 0, &ack), "%s: more is served", what))
		return -1;
	return scene_reopen(scene) || raw_greet(raw) ? -1 : 0;
}
