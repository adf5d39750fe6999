/* SPDX-License-Identifier: BSD-2-Clause */
/* gather.c -- the texts of all processes, which are asked at the same time; gather.h */
#include "gather.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SUFFIX ".sock"
#define PATIENCE_MS 2000 /* with all of them together */
#define AGAIN_MS 10      /* who listens may have no room for more: then ask again */
#define MOST_TEXT (1 << 20)

enum state {
	WAITS, /* to be connected */
	TELLS,
	TOLD,
	GONE, /* nobody is there */
	SILENT,
	FORBIDDEN, /* to this user */
};

struct source {
	struct dirent *entry;
	enum state state;
	int fd;
	char *text;
	size_t len;
	size_t room; /* one byte more is there */
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* connect_to -- its path may be longer than an address has room for */
static enum state connect_to(struct source *source, int dir)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int len = snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", dir,
			   source->entry->d_name);
	int err;

	if (len >= (int) sizeof(address.sun_path))
		return GONE;
	source->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Others are closed soon. */
	if (source->fd < 0)
		return WAITS;
	if (!connect(source->fd, (struct sockaddr *) &address, sizeof(address)))
		return TELLS;
	err = errno;
	close(source->fd);
	source->fd = -1;
	return err == EAGAIN ? WAITS : err == EACCES ? FORBIDDEN : GONE;
}

static bool make_room(struct source *source)
{
	size_t room = source->room ? 2 * source->room : 65536;
	char *text;

	if (source->len < source->room)
		return true;
	text = room <= MOST_TEXT ? realloc(source->text, room + 1) : NULL;
	if (!text)
		return false;
	source->text = text;
	source->room = room;
	return true;
}

/* is_text -- of metrics, whole */
static bool is_text(const struct source *source)
{
	return source->len && source->text[source->len - 1] == '\n' &&
	       !memchr(source->text, '\0', source->len);
}

/* hear -- what there is */
static enum state hear(struct source *source)
{
	ssize_t got;

	if (!make_room(source))
		return SILENT;
	got = read(source->fd, source->text + source->len, source->room - source->len);
	if (got > 0) {
		source->len += (size_t) got;
		return TELLS;
	}
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? TELLS : SILENT;
	return is_text(source) ? TOLD : SILENT;
}

static void set_state(struct source *source, enum state state)
{
	source->state = state;
	if (state > TELLS && source->fd >= 0) {
		close(source->fd);
		source->fd = -1;
	}
}

/* ask -- each once; how many milliseconds until somebody is to be asked again, or -1: all is said
 */
static int ask(struct source *sources, size_t count, int dir, struct pollfd *fds, int left_ms)
{
	int wait = -1;

	for (size_t i = 0; i < count; i++) {
		struct source *source = &sources[i];

		if (source->state == WAITS)
			set_state(source, connect_to(source, dir));
		if (source->state == WAITS)
			wait = left_ms < AGAIN_MS ? left_ms : AGAIN_MS;
		else if (source->state == TELLS && wait < 0)
			wait = left_ms;
		fds[i] = (struct pollfd){.fd = source->fd, .events = POLLIN};
	}
	return wait;
}

/* hear_all -- until all have told, or time is up */
static void hear_all(struct source *sources, size_t count, int dir, struct pollfd *fds)
{
	int64_t end = now_ms() + PATIENCE_MS, left = PATIENCE_MS;
	int wait;

	while (left > 0 && (wait = ask(sources, count, dir, fds, (int) left)) >= 0) {
		if (poll(fds, count, wait) < 0 && errno != EINTR)
			break;
		for (size_t i = 0; i < count; i++) {
			if (sources[i].state == TELLS && fds[i].revents)
				set_state(&sources[i], hear(&sources[i]));
		}
		left = end - now_ms();
	}
}

static int is_socket(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);

	return entry->d_name[0] != '.' && len > strlen(SUFFIX) &&
	       !strcmp(entry->d_name + len - strlen(SUFFIX), SUFFIX);
}

/* take -- its text, or count it */
static void take(struct source *source, struct texts *texts)
{
	if (source->state == TOLD) {
		source->text[source->len] = '\0';
		texts->text[texts->count++] = source->text;
		return;
	}
	texts->forbidden += source->state == FORBIDDEN;
	texts->silent += source->state != GONE && source->state != FORBIDDEN;
	set_state(source, SILENT);
	free(source->text);
}

static int gather_from(int dir, struct dirent **entries, size_t count, struct texts *texts)
{
	struct source *sources = calloc(count + 1, sizeof(*sources));
	struct pollfd *fds = calloc(count + 1, sizeof(*fds));
	int ret = ENOMEM;

	texts->text = calloc(count + 1, sizeof(*texts->text));
	if (sources && fds && texts->text) {
		for (size_t i = 0; i < count; i++)
			sources[i] = (struct source){.entry = entries[i], .fd = -1};
		hear_all(sources, count, dir, fds);
		for (size_t i = 0; i < count; i++)
			take(&sources[i], texts);
		ret = 0;
	}
	free(fds);
	free(sources);
	return ret;
}

int gather(const char *directory, struct texts *texts)
{
	struct dirent **entries;
	int count, ret, dir = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);

	*texts = (struct texts){0};
	if (dir < 0)
		return errno;
	count = scandir(directory, &entries, is_socket, alphasort);
	if (count < 0) {
		ret = errno;
		close(dir);
		return ret;
	}
	ret = gather_from(dir, entries, (size_t) count, texts);
	while (count--)
		free(entries[count]);
	free(entries);
	close(dir);
	return ret;
}

void gather_free(struct texts *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		free(texts->text[i]);
	free(texts->text);
}
