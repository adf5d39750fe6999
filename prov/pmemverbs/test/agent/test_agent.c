/* SPDX-License-Identifier: BSD-2-Clause */
/* test_agent.c -- the application looks for requests in the thread's place */
#include <unistd.h>

#include "agent/service.h"
#include "objects/cq.h"
#include "objects/ep.h"
#include "test/support/pair.h"

static void tell(struct pair *pair)
{
	accepted(pair_put(pair, DMP, 0, 8, CONTEXT(1), FI_COMMIT));
	pair_deliver(pair);
}

Test(look_in_call, serves_small_requests)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_agent *agent = &pair->to->domain->agent;

	pmv_agent_look_in_call(agent);
	expect_done(pair, "");
	tell(pair);
	/* The thread is serving. */
	pthread_mutex_lock(&agent->serving);
	pmv_agent_look_in_call(agent);
	pthread_mutex_unlock(&agent->serving);
	expect_done(pair, "");
	/* No call waits for a disk. */
	cr_expect_eq(atomic_load(&agent->kinds[PMV_PAGE]), 2);
	pmv_agent_look_in_call(agent);
	expect_done(pair, "");
	atomic_store(&agent->kinds[PMV_PAGE], 0);
	pmv_agent_look_in_call(agent);
	expect_done(pair, "F D K");
	cr_expect_eq(atomic_load(&agent->looking_calls), 4);
	atomic_store(&agent->kinds[PMV_PAGE], 2);
	pair_close(pair);
}

Test(look_in_call, does_a_part_of_what_is_large)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_agent *agent = &pair->to->domain->agent;

	accepted(pair_put(pair, DMP, 0, 20000, CONTEXT(1), FI_COMMIT));
	pair_deliver(pair);
	atomic_store(&agent->kinds[PMV_PAGE], 0);
	pmv_agent_look_in_call(agent);
	cr_expect_eq(pair_event(pair, 'F', 0)->len, 16384);
	expect_done(pair, "F D");
	pmv_agent_look_in_call(agent);
	expect_done(pair, "F D K");
	cr_expect(pair_survives(pair, DMP, 0, 20000));
	atomic_store(&agent->kinds[PMV_PAGE], 2);
	pair_close(pair);
}

static struct pair *current;

/* fall_asleep -- what the thread does when its window is over */
static void fall_asleep(void *arg)
{
	struct pmv_agent *agent = &current->to->domain->agent;

	(void) arg;
	if (atomic_load(&agent->asleep))
		return;
	atomic_store(&agent->calls_look, false);
	atomic_store(&agent->asleep, true);
	pthread_mutex_lock(&agent->lock);
	cr_expect_not(pmv_service_waits(agent));
	pthread_mutex_unlock(&agent->lock);
}

Test(look_in_call, leaves_nothing_to_a_thread_that_has_fallen_asleep)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_agent *agent = &pair->to->domain->agent;
	uint64_t kicks = 0;

	current = pair;
	accepted(pair_put(pair, DMP, 0, 20000, CONTEXT(1), FI_COMMIT));
	pair_deliver(pair);
	atomic_store(&agent->kinds[PMV_PAGE], 0);
	pair->on_event = fall_asleep;
	pmv_agent_look_in_call(agent);
	expect_done(pair, "F D");
	cr_expect(pair->to->mailbox.receiver.working);
	cr_expect_eq(read(agent->kick_fd, &kicks, sizeof(kicks)), sizeof(kicks));
	atomic_store(&agent->asleep, false);
	pair->on_event = NULL;
	pair_serve(pair);
	atomic_store(&agent->kinds[PMV_PAGE], 2);
	pair_close(pair);
}

/* Over a core that moves data in calls only */

Test(queues, are_all_read_whoever_their_peers_are)
{
	struct pair *pair = pair_open(NULL);
	struct pmv_agent *agent = &pair->to->domain->agent;
	struct fid_cq *plain = rig_cq(pair->away);
	struct fid_ep *stranger = rig_ep(pair->away, plain);
	struct pmv_queue *queue = &pmv_to_cq(plain)->queue;
	char buf[8];

	accepted(fi_recv(stranger, buf, sizeof(buf), NULL, 0, CONTEXT(3)));
	cr_assert(fake_receive(&pair->away->fake, FI_ECANCELED));
	pmv_agent_serve(agent);
	cr_expect_eq(atomic_load(&queue->num_ready), 0, "a NIC moves data by itself");
	pair->away->core.manual_progress = true;
	pmv_agent_serve(agent);
	cr_expect_eq(atomic_load(&queue->num_ready), 1);
	pair->away->core.manual_progress = false;
	accepted(fi_close(&stranger->fid));
	accepted(fi_close(&plain->fid));
	pair_close(pair);
}
