/* SPDX-License-Identifier: BSD-2-Clause */
/* keys.c -- who this process is, and whom it knows; keys.h has the files' format */
#include "auth/keys.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>

#include "base/address.h"

#define MOST_BYTES (1 << 20) /* of a file: nobody has so many peers */

/* A file that has changed so lately may change once more without showing it. */
#define SETTLED_NS INT64_C(2000000000)

static const char *const names[2] = {"key", "peers"};

__attribute__((format(printf, 2, 3))) static void say(char why[PMV_KEYS_WHY], const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, PMV_KEYS_WHY, fmt, args);
	va_end(args);
}

void pmv_keys_draw(struct pmv_noise_pair *pair)
{
	do
		randombytes_buf(pair->secret, sizeof(pair->secret));
	while (!pmv_noise_public(pair));
}

void pmv_keys_text(char text[PMV_KEYS_TEXT], const uint8_t key[PMV_NOISE_KEY])
{
	sodium_bin2base64(text, PMV_KEYS_TEXT, key, PMV_NOISE_KEY, sodium_base64_VARIANT_ORIGINAL);
}

/* parse -- the key that is there in base64; false: it is none */
static bool parse(uint8_t key[PMV_NOISE_KEY], const char *text, size_t len)
{
	size_t got;

	return len == PMV_KEYS_TEXT - 1 &&
	       !sodium_base642bin(key, PMV_NOISE_KEY, text, len, NULL, &got, NULL,
				  sodium_base64_VARIANT_ORIGINAL) &&
	       got == PMV_NOISE_KEY;
}

/* Reading the files */

/* is_safe -- nobody else could have written it, or read what is secret */
static bool is_safe(const struct stat *st, mode_t forbidden, const char *dir, const char *name,
		    char why[PMV_KEYS_WHY])
{
	if (st->st_uid != geteuid() && st->st_uid) {
		say(why, "%s%s belongs to user %u, who is neither this process's (%u) nor root",
		    dir, name, (unsigned) st->st_uid, (unsigned) geteuid());
		return false;
	}
	if (st->st_mode & forbidden) {
		say(why, "%s%s has mode %04o: others than its owner may %s it (chmod %s)", dir,
		    name, (unsigned) st->st_mode & 07777,
		    forbidden & 044 ? "read or write" : "write", forbidden & 044 ? "600" : "go-w");
		return false;
	}
	return true;
}

/*
 * slurp -- all of an open file, with a zero behind it; the caller wipes and frees it.  NULL, or
 * what is wrong: a part of it could end within a line, and without its end a line allows more.
 */
static const char *slurp(int fd, const struct stat *st, char **text, size_t *len)
{
	size_t room = (size_t) st->st_size;
	ssize_t ret;

	if (!S_ISREG(st->st_mode))
		return "it is no plain file";
	if (room > MOST_BYTES)
		return "it has more than 1 MiB";
	*text = malloc(room + 1);
	if (!*text)
		return "there is no memory for it";
	for (*len = 0; *len < room; *len += (size_t) ret) {
		ret = read(fd, *text + *len, room - *len);
		if (ret < 0 && errno == EINTR)
			ret = 0;
		else if (ret < 0)
			return strerror(errno);
		else if (!ret)
			return "it has become shorter while it was read";
	}
	(*text)[*len] = 0;
	return NULL;
}

/* read_file -- of the directory, if its owner and mode are right */
static int read_file(const char *dir, const char *name, mode_t forbidden, char **text, size_t *len,
		     char why[PMV_KEYS_WHY])
{
	char path[32];
	struct stat st;
	int dir_fd, fd, ret = 0;

	snprintf(path, sizeof(path), "/%s", name);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = dir_fd < 0 ? -1 : openat(dir_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		ret = -errno;
		say(why, "%s%s: %s", dir, dir_fd < 0 ? "" : path, strerror(-ret));
	} else if (fstat(dir_fd, &st) || !is_safe(&st, 022, dir, "", why) || fstat(fd, &st) ||
		   !is_safe(&st, forbidden, dir, path, why)) {
		ret = -EACCES;
	} else {
		const char *wrong = slurp(fd, &st, text, len);

		if (wrong) {
			say(why, "%s%s: %s", dir, path, wrong);
			ret = -EINVAL;
		}
	}
	if (fd >= 0)
		close(fd);
	if (dir_fd >= 0)
		close(dir_fd);
	return ret;
}

int pmv_keys_read_own(const char *dir, struct pmv_noise_pair *own, char why[PMV_KEYS_WHY])
{
	char *text = NULL;
	size_t len = 0;
	int ret = sodium_init() < 0 ? -ENOSYS : 0;

	if (ret)
		say(why, "libsodium could not start");
	else
		ret = read_file(dir, names[0], 077, &text, &len, why);
	if (!ret) {
		size_t end = strcspn(text, "\r\n");

		if (!parse(own->secret, text, end) || text[end + strspn(text + end, " \t\r\n")] ||
		    !pmv_noise_public(own)) {
			say(why, "%s/%s is not a secret key in base64: fi_pmem_key makes one", dir,
			    names[0]);
			sodium_memzero(own, sizeof(*own));
			ret = -EINVAL;
		}
	}
	if (text)
		sodium_memzero(text, len);
	free(text);
	return ret;
}

/* The file of peers */

/* is_in -- the first bits of both are the same */
static bool is_in(const struct pmv_keys_net *net, const struct pmv_keys_net *addr)
{
	unsigned int bytes = net->bits / 8, rest = net->bits % 8;

	return net->family == addr->family && (!*net->link || !strcmp(net->link, addr->link)) &&
	       !memcmp(net->addr, addr->addr, bytes) &&
	       (!rest || !((net->addr[bytes] ^ addr->addr[bytes]) >> (8 - rest)));
}

/* unmap -- IPv4 in IPv6 is compared as IPv4; false: the prefix is shorter than that */
static bool unmap(struct pmv_keys_net *net)
{
	if (net->family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED((const struct in6_addr *) net->addr))
		return true;
	if (net->bits < 96)
		return false;
	net->family = AF_INET;
	net->bits -= 96;
	memmove(net->addr, net->addr + 12, 4);
	return true;
}

/* take_link -- %INTERFACE off its end: by its name, whose number may change; false: it is none */
static bool take_link(struct pmv_keys_net *net, char *text)
{
	char *percent = strchr(text, '%');
	size_t len = percent ? strlen(percent + 1) : 0;

	memset(net->link, 0, sizeof(net->link));
	if (!percent)
		return true;
	if (!len || len >= sizeof(net->link))
		return false;
	memcpy(net->link, percent + 1, len);
	*percent = 0;
	return true;
}

/* parse_net -- ADDRESS[%INTERFACE][/PREFIX] */
static bool parse_net(struct pmv_keys_net *net, char *text)
{
	char *slash = strchr(text, '/'), *end;
	unsigned long bits;

	if (slash)
		*slash = 0;
	if (!take_link(net, text))
		return false;
	net->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	net->bits = net->family == AF_INET6 ? 128 : 32;
	memset(net->addr, 0, sizeof(net->addr));
	if (inet_pton(net->family, text, net->addr) != 1 ||
	    (*net->link && (net->family != AF_INET6 ||
			    !IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *) net->addr))))
		return false;
	if (!slash)
		return unmap(net);
	bits = strtoul(slash + 1, &end, 10);
	if (slash[1] < '0' || slash[1] > '9' || *end || bits > net->bits)
		return false;
	net->bits = (unsigned int) bits;
	return unmap(net);
}

static bool is_text(const char *word)
{
	for (; *word; word++) {
		if (*word <= ' ' || *word >= 127)
			return false;
	}
	return true;
}

/* add_right -- of an application's, which knows what it means */
static const char *add_right(struct pmv_keys_peer *peer, const char *word)
{
	size_t used = strlen(peer->rights);

	if (used + (used > 0) + strlen(word) >= sizeof(peer->rights))
		return "its rights have more than 191 characters";
	if (!is_text(word))
		return "its rights are not in ASCII";
	if (used)
		peer->rights[used++] = ' ';
	strcpy(peer->rights + used, word);
	return NULL;
}

/* add_net -- where the peer may be */
static const char *add_net(struct pmv_keys_peer *peer, char *word)
{
	struct pmv_keys_net *more = realloc(peer->nets, (peer->count + 1) * sizeof(*peer->nets));

	if (!more)
		return "there is no memory for it";
	peer->nets = more;
	if (!parse_net(&more[peer->count], word))
		return "behind the name there is something that is no ADDRESS[/PREFIX], and no "
		       "RIGHT=VALUE";
	peer->count++;
	return NULL;
}

/* parse_line -- of words, not empty; NULL, or what is wrong with it */
static const char *parse_line(struct pmv_keys *keys, char *line)
{
	struct pmv_keys_peer *peer = &keys->peers[keys->count];
	char *rest, *word = strtok_r(line, " \t\r", &rest);
	const char *wrong = NULL;

	memset(peer, 0, sizeof(*peer));
	if (!parse(peer->key, word, strlen(word)))
		return "it does not begin with a public key in base64";
	for (size_t i = 0; i < keys->count; i++) {
		if (!memcmp(keys->peers[i].key, peer->key, sizeof(peer->key)))
			return "its key is in an earlier line, too";
	}
	word = strtok_r(NULL, " \t\r", &rest);
	if (!word || !is_text(word) || strchr(word, '=') || strlen(word) >= PMV_KEYS_NAME)
		return "behind the key there has to be a name, of at most 63 characters of ASCII "
		       "without =";
	strcpy(peer->name, word);
	/* From here on, who frees the keys frees what the line has. */
	keys->count++;
	while (!wrong && (word = strtok_r(NULL, " \t\r", &rest)))
		wrong = strchr(word, '=') ? add_right(peer, word) : add_net(peer, word);
	return wrong;
}

/* cut_comment -- false: what seems to be one is part of a word, which would mean something else */
static bool cut_comment(char *line)
{
	char *hash = strchr(line, '#');

	if (!hash)
		return true;
	*hash = 0;
	return hash == line || strchr(" \t", hash[-1]);
}

static int parse_peers(struct pmv_keys *keys, const char *dir, char *text, size_t len,
		       char why[PMV_KEYS_WHY])
{
	size_t lines = 1, number = 1;

	if (strlen(text) != len) {
		say(why, "%s/%s has a zero byte", dir, names[1]);
		return -EINVAL;
	}
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	keys->peers = calloc(lines, sizeof(*keys->peers));
	if (!keys->peers) {
		say(why, "%s/%s: %s", dir, names[1], strerror(ENOMEM));
		return -ENOMEM;
	}
	for (char *line = text, *next; line; line = next, number++) {
		const char *wrong = NULL;

		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (!cut_comment(line))
			wrong = "a comment begins behind a blank";
		else if (line[strspn(line, " \t\r")])
			wrong = parse_line(keys, line);
		if (wrong) {
			say(why, "%s/%s, line %zu: %s; so nobody is known", dir, names[1], number,
			    wrong);
			return -EINVAL;
		}
	}
	return 0;
}

/* Loading */

/* look -- at both files; false: one of them is not there, or may change without showing it */
static bool look(const char *dir, struct pmv_keys_seen *seen)
{
	struct timespec now;
	bool settled = true;

	clock_gettime(CLOCK_REALTIME, &now);
	memset(seen, 0, sizeof(*seen));
	for (size_t i = 0; i < 2; i++) {
		struct stat st;
		char *path;
		int ret;

		if (asprintf(&path, "%s/%s", dir, names[i]) < 0)
			return false;
		ret = stat(path, &st);
		free(path);
		if (ret)
			return false;
		seen->files[i].device = st.st_dev;
		seen->files[i].inode = st.st_ino;
		seen->files[i].size = (uint64_t) st.st_size;
		seen->files[i].modified_ns =
			st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
		seen->files[i].changed_ns =
			st.st_ctim.tv_sec * INT64_C(1000000000) + st.st_ctim.tv_nsec;
		settled = settled && now.tv_sec * INT64_C(1000000000) + now.tv_nsec -
						     seen->files[i].changed_ns >
					     SETTLED_NS;
	}
	return settled;
}

static int load(const char *dir, struct pmv_keys *keys, char why[PMV_KEYS_WHY])
{
	char *text = NULL;
	size_t len = 0;
	int ret = pmv_keys_read_own(dir, &keys->own, why);

	if (!ret)
		ret = read_file(dir, names[1], 022, &text, &len, why);
	if (!ret)
		ret = parse_peers(keys, dir, text, len, why);
	free(text);
	return ret;
}

int pmv_keys_load(const char *dir, struct pmv_keys **keys, struct pmv_keys_seen *seen,
		  char why[PMV_KEYS_WHY])
{
	struct pmv_keys_seen now;
	/* Before they are read: what changes meanwhile is read again. */
	bool settled = look(dir, &now);
	int ret;

	if (*keys && settled && !memcmp(&now, seen, sizeof(now)))
		return 0;
	pmv_keys_free(*keys);
	*seen = settled ? now : (struct pmv_keys_seen){0};
	*keys = calloc(1, sizeof(**keys));
	if (!*keys) {
		say(why, "%s: %s", dir, strerror(ENOMEM));
		return -ENOMEM;
	}
	ret = load(dir, *keys, why);
	if (ret) {
		pmv_keys_free(*keys);
		*keys = NULL;
	}
	return ret;
}

void pmv_keys_free(struct pmv_keys *keys)
{
	if (!keys)
		return;
	for (size_t i = 0; i < keys->count; i++)
		free(keys->peers[i].nets);
	free(keys->peers);
	sodium_memzero(keys, sizeof(*keys));
	free(keys);
}

/* Who is who */

/* set_addr -- as it is compared; false: it is of another kind */
static bool set_addr(struct pmv_keys_net *net, const struct sockaddr *addr)
{
	memset(net, 0, sizeof(*net));
	if (addr && addr->sa_family == AF_INET) {
		net->family = AF_INET;
		memcpy(net->addr, &((const struct sockaddr_in *) addr)->sin_addr, 4);
		return true;
	}
	if (!addr || addr->sa_family != AF_INET6)
		return false;
	net->family = AF_INET6;
	net->bits = 128;
	if (pmv_address_scope(addr))
		if_indextoname(pmv_address_scope(addr), net->link);
	memcpy(net->addr, &((const struct sockaddr_in6 *) addr)->sin6_addr, 16);
	return unmap(net);
}

/* fit -- how many bits of the address the peer's line names; -1: it is none of that line's */
static int fit(const struct pmv_keys_peer *peer, const struct pmv_keys_net *addr)
{
	int best = -1;

	for (size_t i = 0; i < peer->count; i++) {
		if (is_in(&peer->nets[i], addr) && (int) peer->nets[i].bits > best)
			best = (int) peer->nets[i].bits;
	}
	return best;
}

const struct pmv_keys_peer *pmv_keys_find(const struct pmv_keys *keys,
					  const uint8_t key[PMV_NOISE_KEY],
					  const struct sockaddr *from, char why[PMV_KEYS_WHY])
{
	char text[PMV_KEYS_TEXT];
	struct pmv_keys_net addr;

	for (size_t i = 0; i < keys->count; i++) {
		const struct pmv_keys_peer *peer = &keys->peers[i];

		if (memcmp(peer->key, key, sizeof(peer->key)))
			continue;
		if (!peer->count || (set_addr(&addr, from) && fit(peer, &addr) >= 0))
			return peer;
		say(why, "it is %s, who may not connect from that address", peer->name);
		return NULL;
	}
	pmv_keys_text(text, key);
	say(why, "its key %s is not in the file peers", text);
	return NULL;
}

const struct pmv_keys_peer *pmv_keys_target(const struct pmv_keys *keys, const struct sockaddr *to,
					    char why[PMV_KEYS_WHY])
{
	const struct pmv_keys_peer *best = NULL, *other = NULL;
	struct pmv_keys_net addr;
	int most = -1;

	if (!set_addr(&addr, to)) {
		say(why, "it is no address of IPv4 or IPv6");
		return NULL;
	}
	for (size_t i = 0; i < keys->count; i++) {
		const struct pmv_keys_peer *peer = &keys->peers[i];
		int bits = fit(peer, &addr);

		/* Anywhere fits worst of all. */
		if ((peer->count && bits < 0) || bits < most)
			continue;
		other = bits == most ? best : NULL;
		best = peer;
		most = bits;
	}
	if (best && !other)
		return best;
	if (best)
		say(why, "the file peers has several lines for it: %s and %s", other->name,
		    best->name);
	else
		say(why, "the file peers has no line for it");
	return NULL;
}
