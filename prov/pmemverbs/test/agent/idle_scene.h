/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * idle_scene.h -- the agent's thread beside an application, over a core that moves data in calls.
 * The test's thread plays both.  The clock stands still, but for the sleeps of the agent's: in
 * these the application reads its queues.
 */
#ifndef IDLE_SCENE_H
#define IDLE_SCENE_H

#include "agent/idle.h"
#include "objects/cq.h"
#include "objects/ep.h"
#include "test/support/pair.h"

#define US INT64_C(1000)
#define MS (1000 * US)
#define STEP (10 * US)
#define QUEUES 2

struct scene {
	struct pair *pair;
	struct pmv_agent *agent;
	struct pmv_idle_plan plan;
	int64_t now, expires;
	struct fid_cq *cqs[QUEUES];
	int64_t until[QUEUES]; /* they are read so long */
	bool finds;            /* each read does */
	int64_t found;         /* the first one that did came then */
	void (*at_each_step)(void);
	void (*at_a_look)(void); /* at a queue's descriptor, before a sleep */
	unsigned int sleeps, settings;
};

extern struct scene scene;

/* scene_begin -- the application reads so many queues for so long */
void scene_begin(int queues, int64_t ns);
void scene_end(void);

/* scene_read -- by the application; if it is to find an entry, one that has come before */
void scene_read(struct fid_cq *cq);
/* scene_live -- a step of the application's */
void scene_live(void);

/* rounds_until -- how many rounds the thread makes until then */
unsigned int rounds_until(int64_t ns);
/* awaits -- do events of this queue end the thread's sleep? */
bool awaits(struct fid_cq *cq);

#endif /* IDLE_SCENE_H */
