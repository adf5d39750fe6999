/* SPDX-License-Identifier: BSD-2-Clause */
/* explore.c -- all states that a world can get into; explore.h says how */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <glib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "explore.h"

#define CHUNK 128 /* XXH3 is quick up to there */
#define PIECE 16  /* chunks */
#define MAX_MARKS 4096

struct span {
	struct explore_span now;
	size_t room;
	char *mirror;     /* what was there before the step that is being taken */
	uint64_t *hashes; /* of the mirror's chunks; 0: not known yet */
};

/* What a chunk was before a step. */
struct undo {
	uint32_t span;
	uint32_t chunk;
	uint64_t hash; /* of everything */
	uint64_t chunk_hash;
	char before[CHUNK];
};

struct mark {
	const char *addr;
	size_t len;
};

struct explorer {
	struct explore_world *world;
	unsigned int num_spans;
	struct span spans[EXPLORE_MAX_SPANS + 1]; /* the first one is the arena */
	GArray *undo;
	uint64_t hash; /* of everything: the sum of the chunks' */
	unsigned int num_marks;
	struct mark marks[MAX_MARKS];
};

unsigned int explore_audit = 199;

static struct explorer *current;

void explore_changed(const void *addr, size_t len)
{
	struct explorer *x = current;

	if (!x || !len)
		return;
	if (x->num_marks == MAX_MARKS)
		abort();
	x->marks[x->num_marks++] = (struct mark){addr, len};
}

/* Snapshots */

static void update_arena(struct explorer *x)
{
	x->spans[0].now.start = arena_small(&x->spans[0].now.len);
}

static void *map(size_t len)
{
	void *mapped = mmap(NULL, len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (mapped == MAP_FAILED)
		abort();
	return mapped;
}

static size_t hashes_len(const struct span *span)
{
	return span->room / CHUNK * sizeof(span->hashes[0]);
}

static struct explorer *begin(struct explore_world *world)
{
	struct explorer *x = g_new0(struct explorer, 1);

	/* Before copies are made: these are in one of the spans. */
	current = x;
	arena_watch(explore_changed);
	x->world = world;
	x->num_spans = 1 + (unsigned int) world->num_spans;
	x->undo = g_array_new(FALSE, FALSE, sizeof(struct undo));
	for (size_t i = 0; i < world->num_spans; i++)
		x->spans[1 + i].now = world->spans[i];
	update_arena(x);
	for (unsigned int i = 0; i < x->num_spans; i++) {
		struct span *span = &x->spans[i];

		span->room = (i ? span->now.len : ARENA_ROOM) + CHUNK;
		span->mirror = map(span->room);
		span->hashes = map(hashes_len(span));
		memcpy(span->mirror, span->now.start, span->now.len);
	}
	return x;
}

static void end(struct explorer *x)
{
	current = NULL;
	arena_watch(NULL);
	for (unsigned int i = 0; i < x->num_spans; i++) {
		munmap(x->spans[i].mirror, x->spans[i].room);
		munmap(x->spans[i].hashes, hashes_len(&x->spans[i]));
	}
	g_array_free(x->undo, TRUE);
	g_free(x);
}

static uint64_t chunk_hash(const char *chunk, size_t len, uint32_t span, size_t index)
{
	return XXH3_64bits_withSeed(chunk, len, (uint64_t) span << 32 | index);
}

static size_t chunk_len(const struct explorer *x, uint32_t span, size_t chunk)
{
	size_t left = x->spans[span].now.len - chunk * CHUNK;

	/* The arena goes on behind what is used of it, with zeros. */
	return !span || left > CHUNK ? CHUNK : left;
}

/* copy_chunk -- a whole one, mostly: the compiler need not ask how long it is */
static void copy_chunk(char *to, const char *from, size_t len)
{
	if (len == CHUNK)
		memcpy(to, from, CHUNK);
	else
		memcpy(to, from, len);
}

static void note_chunk(struct explorer *x, uint32_t number, size_t chunk)
{
	char *now = x->spans[number].now.start + chunk * CHUNK;
	char *before = x->spans[number].mirror + chunk * CHUNK;
	uint64_t *hash = &x->spans[number].hashes[chunk];
	size_t len = chunk_len(x, number, chunk);
	struct undo *undo;

	if (!memcmp(now, before, len))
		return;
	if (!*hash)
		*hash = chunk_hash(before, len, number, chunk);
	g_array_set_size(x->undo, x->undo->len + 1);
	undo = &g_array_index(x->undo, struct undo, x->undo->len - 1);
	undo->span = number;
	undo->chunk = (uint32_t) chunk;
	undo->hash = x->hash;
	undo->chunk_hash = *hash;
	copy_chunk(undo->before, before, len);
	*hash = chunk_hash(now, len, number, chunk);
	x->hash += *hash - undo->chunk_hash;
	copy_chunk(before, now, len);
}

static size_t num_chunks(const struct explorer *x, uint32_t number)
{
	return (x->spans[number].now.len + CHUNK - 1) / CHUNK;
}

/* note_chunks -- most of it is what it was: larger pieces are looked at first */
static void note_chunks(struct explorer *x, uint32_t number, size_t first, size_t end)
{
	for (; first < end; first += PIECE) {
		size_t last = first + PIECE < end ? first + PIECE - 1 : end - 1;
		size_t len = (last - first) * CHUNK + chunk_len(x, number, last);

		if (!memcmp(x->spans[number].now.start + first * CHUNK,
			    x->spans[number].mirror + first * CHUNK, len))
			continue;
		for (size_t chunk = first; chunk <= last; chunk++)
			note_chunk(x, number, chunk);
	}
}

static void note_span(struct explorer *x, uint32_t number)
{
	note_chunks(x, number, 0, num_chunks(x, number));
}

/* note_arena -- but for what is told */
static void note_arena(struct explorer *x, unsigned int group)
{
	size_t at = arena_own() / CHUNK;

	for (size_t i = 0; i < x->world->num_told; i++) {
		const struct explore_told *told = &x->world->told[i];
		size_t start = (size_t) (told->start - x->spans[0].now.start);
		size_t from = (start + CHUNK - 1) / CHUNK, to = (start + told->len) / CHUNK;

		if (from < at || from >= to || told->groups & group)
			continue;
		note_chunks(x, 0, at, from);
		at = to;
	}
	note_chunks(x, 0, at, num_chunks(x, 0));
}

/* note_mark -- what of it is in spans: an object may be in several, with gaps between them */
static void note_mark(struct explorer *x, const struct mark *mark)
{
	const char *end = mark->addr + mark->len;

	for (uint32_t i = 0; i < x->num_spans; i++) {
		const struct explore_span *span = &x->spans[i].now;
		const char *from = mark->addr > span->start ? mark->addr : span->start;
		const char *to = end < span->start + span->len ? end : span->start + span->len;

		if (from >= to)
			continue;
		note_chunks(x, i, (from - span->start) / CHUNK, (to - 1 - span->start) / CHUNK + 1);
		if (from == mark->addr && to == end)
			return;
	}
}

/* audit -- all that has changed was told, or was where it need not be told */
static void audit(struct explorer *x)
{
	unsigned int before = x->undo->len;

	for (uint32_t i = 0; i < x->num_spans; i++)
		note_span(x, i);
	if (x->undo->len == before)
		return;
	fprintf(stderr, "explore: a step changes memory and does not tell\n");
	abort();
}

static void take(struct explorer *x, struct hw_step step)
{
	unsigned int group = x->world->group(step);

	x->num_marks = 0;
	arena_open();
	x->world->take(x->world->world, step);
	arena_close();
	update_arena(x);
	if (group)
		note_arena(x, group);
	for (uint32_t i = 1; i < x->num_spans; i++) {
		if (x->spans[i].now.groups & group)
			note_span(x, i);
	}
	for (unsigned int i = 0; i < x->num_marks; i++)
		note_mark(x, &x->marks[i]);
}

static void undo_to(struct explorer *x, unsigned int length)
{
	while (x->undo->len > length) {
		const struct undo *undo = &g_array_index(x->undo, struct undo, x->undo->len - 1);
		struct span *span = &x->spans[undo->span];
		size_t at = (size_t) undo->chunk * CHUNK;
		size_t len = chunk_len(x, undo->span, undo->chunk);

		copy_chunk(span->now.start + at, undo->before, len);
		copy_chunk(span->mirror + at, undo->before, len);
		span->hashes[undo->chunk] = undo->chunk_hash;
		x->hash = undo->hash;
		g_array_set_size(x->undo, x->undo->len - 1);
	}
	update_arena(x);
}

/* All states */

struct frame {
	unsigned int undo;  /* before the step that led here */
	unsigned int first; /* of its steps */
	unsigned int count;
	unsigned int next;
	uint64_t hash;
	bool moves; /* some step leads elsewhere */
};

struct search {
	struct explorer *x;
	GHashTable *seen;
	GArray *frames;
	GArray *steps; /* of all frames */
	struct explore_result result;
};

static void push_frame(struct search *s, unsigned int undo)
{
	struct hw_step steps[HW_MAX_STEPS];
	struct frame frame = {.undo = undo, .first = s->steps->len, .hash = s->x->hash};

	frame.count = (unsigned int) s->x->world->steps(s->x->world->world, steps);
	g_array_append_vals(s->steps, steps, frame.count);
	g_array_append_val(s->frames, frame);
	s->result.states++;
}

static struct frame *top(struct search *s)
{
	return &g_array_index(s->frames, struct frame, s->frames->len - 1);
}

static bool is_wrong(struct search *s, bool final)
{
	const char *wrong = s->x->world->check(s->x->world->world, final);

	if (!wrong)
		return false;
	snprintf(s->result.wrong, sizeof(s->result.wrong), "%s", wrong);
	return true;
}

/* keep_path -- the steps that lead to where the search is */
static void keep_path(struct search *s)
{
	s->result.path = g_new(struct hw_step, s->frames->len + 1);
	s->result.path_len = 0;
	for (unsigned int i = 0; i < s->frames->len; i++) {
		const struct frame *frame = &g_array_index(s->frames, struct frame, i);

		if (frame->next)
			s->result.path[s->result.path_len++] = g_array_index(
				s->steps, struct hw_step, frame->first + frame->next - 1);
	}
}

/* visit -- one step of the frame on top; true: something is wrong where it leads */
static bool visit(struct search *s)
{
	struct frame *frame = top(s);
	unsigned int before = s->x->undo->len;
	struct hw_step step = g_array_index(s->steps, struct hw_step, frame->first + frame->next++);

	take(s->x, step);
	s->result.steps++;
	if (!(s->result.steps % explore_audit))
		audit(s->x);
	frame->moves |= s->x->hash != frame->hash;
	if (is_wrong(s, false)) {
		keep_path(s);
		return true;
	}
	if (!g_hash_table_add(s->seen, GSIZE_TO_POINTER(s->x->hash)))
		undo_to(s->x, before);
	else
		push_frame(s, before);
	return false;
}

/* leave_frame -- true: nothing happens there any more, and that is wrong */
static bool leave_frame(struct search *s)
{
	struct frame *frame = top(s);

	if (!frame->moves) {
		s->result.finals++;
		if (is_wrong(s, true)) {
			/* It is the last step of the others that leads here. */
			frame->next = 0;
			keep_path(s);
			return true;
		}
	}
	undo_to(s->x, frame->undo);
	g_array_set_size(s->steps, frame->first);
	g_array_set_size(s->frames, s->frames->len - 1);
	return false;
}

struct explore_result explore(struct explore_world *world, uint64_t max_states)
{
	struct search s = {
		.x = begin(world),
		.seen = g_hash_table_new(g_direct_hash, g_direct_equal),
		.frames = g_array_new(FALSE, FALSE, sizeof(struct frame)),
		.steps = g_array_new(FALSE, FALSE, sizeof(struct hw_step)),
	};
	bool wrong = is_wrong(&s, false);

	push_frame(&s, 0);
	while (!wrong && s.frames->len && !s.result.stopped) {
		if (top(&s)->next < top(&s)->count)
			wrong = visit(&s);
		else
			wrong = leave_frame(&s);
		s.result.stopped = s.result.states >= max_states;
	}
	undo_to(s.x, 0);
	if (!wrong)
		audit(s.x);
	end(s.x);
	g_hash_table_destroy(s.seen);
	g_array_free(s.frames, TRUE);
	g_array_free(s.steps, TRUE);
	return s.result;
}

/* One run */

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

/* So many steps of software in a row, and nothing else to do: it is over. */
#define IDLE_STEPS 4000

struct explore_result explore_random(struct explore_world *world, uint64_t seed, uint64_t max_steps)
{
	struct explore_result result = {0};
	struct hw_step steps[HW_MAX_STEPS];
	uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	unsigned int idle = 0;
	const char *wrong = NULL;

	result.path = g_new(struct hw_step, max_steps);
	while (!wrong && idle < IDLE_STEPS && !result.stopped) {
		size_t count = world->steps(world->world, steps);
		struct hw_step step = steps[next_random(&random) % count];
		bool busy = false;

		for (size_t i = 0; i < count; i++)
			busy |= !world->group(steps[i]);
		idle = busy ? 0 : idle + 1;
		result.path[result.path_len++] = step;
		arena_open();
		world->take(world->world, step);
		arena_close();
		result.steps++;
		wrong = world->check(world->world, idle == IDLE_STEPS);
		result.stopped = result.steps == max_steps;
		if (world->is_over && world->is_over(world->world))
			break;
	}
	if (wrong)
		snprintf(result.wrong, sizeof(result.wrong), "%s", wrong);
	return result;
}

/* Paths */

/* A long path is not made as short as it could be. */
#define SHORTEN_STEPS ((size_t) 3000000)

static bool is_possible(struct explore_world *world, struct hw_step step)
{
	struct hw_step steps[HW_MAX_STEPS];
	size_t count = world->steps(world->world, steps);

	for (size_t i = 0; i < count; i++) {
		if (!memcmp(&steps[i], &step, sizeof(step)))
			return true;
	}
	return false;
}

/*
 * follow -- take what can be taken of a path, but for some steps; true: the same
 * thing goes wrong.  *taken: what was taken until then.
 */
static bool follow(struct explorer *x, const struct explore_result *result, size_t skip,
		   size_t skips, GArray *taken)
{
	bool wrong = false;

	g_array_set_size(taken, 0);
	for (size_t i = 0; i < result->path_len && !wrong; i++) {
		const char *what;

		if (i >= skip && i < skip + skips)
			continue;
		if (!is_possible(x->world, result->path[i]))
			continue;
		take(x, result->path[i]);
		g_array_append_val(taken, result->path[i]);
		what = x->world->check(x->world->world, false);
		wrong = what && !strcmp(what, result->wrong);
	}
	undo_to(x, 0);
	return wrong;
}

void explore_shorten(struct explore_world *world, struct explore_result *result)
{
	struct explorer *x = begin(world);
	GArray *taken = g_array_new(FALSE, FALSE, sizeof(struct hw_step));
	size_t skips = result->path_len / 2;
	size_t left = SHORTEN_STEPS;

	while (skips && left) {
		bool shorter = false;

		for (size_t skip = 0; skip < result->path_len && left;) {
			left -= left < result->path_len ? left : result->path_len;
			if (follow(x, result, skip, skips, taken) &&
			    taken->len < result->path_len) {
				memcpy(result->path, taken->data,
				       taken->len * sizeof(struct hw_step));
				result->path_len = taken->len;
				shorter = true;
			} else {
				skip += skips;
			}
		}
		if (!shorter || skips > 1)
			skips /= 2;
	}
	g_array_free(taken, TRUE);
	end(x);
}

char *explore_write_path(const struct hw_step *path, size_t len)
{
	GString *text = g_string_new(NULL);

	for (size_t i = 0; i < len; i++)
		g_string_append_printf(text, "%s%u.%u.%u.%u", i ? "," : "", path[i].kind,
				       path[i].at, path[i].index, path[i].piece);
	return g_string_free(text, FALSE);
}

struct hw_step *explore_read_path(const char *text, size_t *len)
{
	gchar **parts = g_strsplit(text, ",", -1);
	guint count = g_strv_length(parts);
	struct hw_step *path = g_new0(struct hw_step, count + 1);

	for (*len = 0; *len < count; ++*len) {
		struct hw_step *step = &path[*len];
		char end;

		if (sscanf(parts[*len], "%hhu.%hhu.%hu.%hu%c", &step->kind, &step->at, &step->index,
			   &step->piece, &end) == 4)
			continue;
		g_free(path);
		path = NULL;
		break;
	}
	g_strfreev(parts);
	return path;
}

void explore_tell(struct explore_world *world, const struct hw_step *path, size_t len)
{
	struct explorer *x = begin(world);
	const char *wrong = NULL;
	char text[512];
	size_t i;

	for (i = 0; i < len && is_possible(world, path[i]); i++) {
		world->describe(world->world, path[i], text, sizeof(text));
		take(x, path[i]);
		printf("  %3zu  %s\n", i + 1, text);
		wrong = world->check(world->world, false);
	}
	if (i < len)
		wrong = "the next step of the path is not possible";
	printf("       %s\n", wrong ? wrong : "nothing is wrong, unless nothing else can happen");
	undo_to(x, 0);
	end(x);
}
