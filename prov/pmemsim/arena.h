/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * arena.h -- memory that can be put back to what it was
 *
 * While the arena is open every malloc of the program comes from it, libfabric's
 * and libc's own included: so all that a provider and its core remember is in
 * there, or in memory that they have mapped.  Large objects are kept apart.  Free memory is zero
 * and its lists are sorted: equal states look equal.
 *
 * A program that links arena.c has its malloc replaced.
 */
#ifndef PMEMSIM_ARENA_H
#define PMEMSIM_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* arena_reset -- forget all that was allocated in it */
void arena_reset(void);
void arena_open(void);
void arena_close(void);

/* So much room is for all small objects, and for all large ones. */
#define ARENA_ROOM ((size_t) 2 << 20)

/*
 * arena_seal -- until it is reset no large object comes but in the place of one that was free by
 * then.  Whoever lets them come and go names them as spans, with ARENA_HEAD in front of them.
 */
void arena_seal(void);

/* So much in front of an object is the arena's own. */
#define ARENA_HEAD 16

/* arena_small -- all small objects are in there; *len: how much of it is used */
char *arena_small(size_t *len);

/* arena_watch -- whom to tell what comes, goes, and is changed for that; NULL: nobody */
void arena_watch(void (*changed)(const void *addr, size_t len));

/* arena_own -- so much at its start is the arena's own, and whoever watches it is told of it */
size_t arena_own(void);

/* arena_len -- room of what was allocated there */
size_t arena_len(const void *ptr);

#endif /* PMEMSIM_ARENA_H */
