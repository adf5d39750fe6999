/* SPDX-License-Identifier: BSD-2-Clause */
/* free_list.c -- buffers that chains allocate; free_list.h has the rules */
#include "agent/free_list.h"

#include <stdlib.h>

void pmv_chains_init(struct pmv_chains *chains)
{
	pthread_mutex_init(&chains->lock, NULL);
	TAILQ_INIT(&chains->under_way);
	LIST_INIT(&chains->lists);
}

void pmv_chains_destroy(struct pmv_chains *chains)
{
	pthread_mutex_destroy(&chains->lock);
}

void pmv_chains_begin(struct pmv_chains *chains, struct pmv_chain_ticket *ticket)
{
	pthread_mutex_lock(&chains->lock);
	ticket->number = ++chains->begun;
	TAILQ_INSERT_TAIL(&chains->under_way, ticket, next);
	pthread_mutex_unlock(&chains->lock);
}

void pmv_chains_end(struct pmv_chains *chains, struct pmv_chain_ticket *ticket)
{
	pthread_mutex_lock(&chains->lock);
	TAILQ_REMOVE(&chains->under_way, ticket, next);
	pthread_mutex_unlock(&chains->lock);
}

static void free_list(struct pmv_free_list *list)
{
	free(list->freed);
	free(list->is_free);
	free(list);
}

struct pmv_free_list *pmv_free_list_open(struct pmv_chains *chains,
					 const struct pmv_free_list *attr)
{
	struct pmv_free_list *list = malloc(sizeof(*list));

	if (!list)
		return NULL;
	*list = *attr;
	list->first = list->num_free = 0;
	list->freed = calloc(list->count, sizeof(*list->freed));
	list->is_free = calloc(list->count, sizeof(*list->is_free));
	if (!list->freed || !list->is_free) {
		free_list(list);
		return NULL;
	}
	pthread_mutex_lock(&chains->lock);
	list->number = ++chains->last_number;
	LIST_INSERT_HEAD(&chains->lists, list, next);
	pthread_mutex_unlock(&chains->lock);
	return list;
}

void pmv_free_list_close(struct pmv_chains *chains, struct pmv_free_list *list)
{
	pthread_mutex_lock(&chains->lock);
	LIST_REMOVE(list, next);
	pthread_mutex_unlock(&chains->lock);
	free_list(list);
}

struct pmv_free_list *pmv_free_list_find(struct pmv_chains *chains, uint32_t number)
{
	struct pmv_free_list *list;

	LIST_FOREACH(list, &chains->lists, next)
	{
		if (list->number == number)
			return list;
	}
	return NULL;
}

/* is_unseen -- has every chain ended that could still see it? */
static bool is_unseen(const struct pmv_chains *chains, const struct pmv_freed *freed)
{
	const struct pmv_chain_ticket *oldest = TAILQ_FIRST(&chains->under_way);

	return !oldest || oldest->number > freed->number;
}

bool pmv_free_list_take(struct pmv_chains *chains, struct pmv_free_list *list, size_t *buffer)
{
	const struct pmv_freed *freed = &list->freed[list->first];

	if (!list->num_free || !is_unseen(chains, freed))
		return false;
	*buffer = freed->buffer;
	list->is_free[*buffer] = false;
	list->first = (list->first + 1) % list->count;
	list->num_free--;
	return true;
}

bool pmv_free_list_put(struct pmv_chains *chains, struct pmv_free_list *list, uint64_t addr)
{
	uint64_t at = addr - list->start, buffer = at / list->size;

	if (at % list->size || buffer >= list->count || list->is_free[buffer])
		return false;
	list->is_free[buffer] = true;
	list->freed[(list->first + list->num_free++) % list->count] =
		(struct pmv_freed){.number = chains->begun, .buffer = buffer};
	return true;
}
