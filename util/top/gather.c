/* SPDX-License-Identifier: BSD-2-Clause */
/* gather.c -- the texts of all processes; gather.h */
#include "gather.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define SUFFIX ".sock"
#define PATIENCE_SECONDS 2
#define MOST_TEXT (1 << 20)

/* connect_to -- its path may be longer than an address has room for */
static int connect_to(int dir, const char *name)
{
	const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int len = snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", dir,
			   name);

	if (fd < 0)
		return -1;
	/* For connect, too: who listens may have no room for more. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (len < (int) sizeof(address.sun_path) &&
	    !connect(fd, (struct sockaddr *) &address, sizeof(address)))
		return fd;
	close(fd);
	return -1;
}

/* read_text -- up to the end; NULL: it does not come, or is no text of metrics */
static char *read_text(int fd)
{
	size_t len = 0, room = 65536;
	char *text = malloc(room + 1), *more;
	ssize_t got;

	while (text && (got = read(fd, text + len, room - len)) > 0) {
		len += (size_t) got;
		if (len < room)
			continue;
		room *= 2;
		more = room <= MOST_TEXT ? realloc(text, room + 1) : NULL;
		if (!more)
			break;
		text = more;
	}
	if (text && !got && len && text[len - 1] == '\n' && !memchr(text, '\0', len)) {
		text[len] = '\0';
		return text;
	}
	free(text);
	return NULL;
}

static void add(struct texts *texts, int dir, const char *name, unsigned int *silent)
{
	char **more;
	char *text;
	int fd = connect_to(dir, name);

	if (fd < 0) {
		*silent += errno == EAGAIN;
		return;
	}
	text = read_text(fd);
	close(fd);
	if (!text) {
		++*silent;
		return;
	}
	more = realloc(texts->text, (texts->count + 1) * sizeof(*more));
	if (!more) {
		free(text);
		return;
	}
	texts->text = more;
	texts->text[texts->count++] = text;
}

static int is_socket(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);

	return entry->d_name[0] != '.' && len > strlen(SUFFIX) &&
	       !strcmp(entry->d_name + len - strlen(SUFFIX), SUFFIX);
}

int gather(const char *directory, struct texts *texts, unsigned int *silent)
{
	struct dirent **entries;
	int count, dir = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);

	*texts = (struct texts){0};
	*silent = 0;
	if (dir < 0)
		return errno;
	count = scandir(directory, &entries, is_socket, alphasort);
	if (count < 0) {
		count = errno;
		close(dir);
		return count;
	}
	for (int i = 0; i < count; i++) {
		add(texts, dir, entries[i]->d_name, silent);
		free(entries[i]);
	}
	free(entries);
	close(dir);
	return 0;
}

void gather_free(struct texts *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		free(texts->text[i]);
	free(texts->text);
}
