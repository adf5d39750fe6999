/* SPDX-License-Identifier: BSD-2-Clause */
/* test_keys.c -- the files of FI_PMEMVERBS_KEYS: whose they may be, what may be in them, who is who
 */
#include "auth/keys.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <sodium.h>

static char dir[64];
static char why[PMV_KEYS_WHY];
static struct pmv_keys *keys;
static struct pmv_keys_seen seen;

static const char *path_of(const char *name)
{
	static char path[96];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void put(const char *name, mode_t mode, const char *text)
{
	FILE *file = fopen(path_of(name), "w");

	cr_assert_not_null(file);
	cr_assert_geq(fputs(text, file), 0);
	cr_assert_eq(fclose(file), 0);
	cr_assert_eq(chmod(path_of(name), mode), 0);
}

/* text_of -- of the n-th key, in base64 */
static const char *text_of(uint8_t n)
{
	static char text[4][PMV_KEYS_TEXT];
	static unsigned at;
	uint8_t key[PMV_NOISE_KEY];

	memset(key, n, sizeof(key));
	pmv_keys_text(text[++at % 4], key);
	return text[at % 4];
}

static void setup(void)
{
	char text[64];

	strcpy(dir, "/tmp/test_keys.XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	snprintf(text, sizeof(text), "%s\n", text_of(9));
	put("key", 0600, text);
	put("peers", 0644, "# nobody\n");
	memset(&seen, 0, sizeof(seen));
	keys = NULL;
}

static void teardown(void)
{
	pmv_keys_free(keys);
	unlink(path_of("key"));
	unlink(path_of("peers"));
	rmdir(dir);
}

TestSuite(keys, .init = setup, .fini = teardown);

static int load(void)
{
	return pmv_keys_load(dir, &keys, &seen, why);
}

/* put_peers -- lines: %1 to %9 stand for keys */
static void put_peers(const char *lines)
{
	char text[4096] = "";

	for (; *lines; lines++) {
		if (*lines == '%' && lines[1] >= '0' && lines[1] <= '9')
			strcat(text, text_of((uint8_t) (*++lines - '0')));
		else
			strncat(text, lines, 1);
	}
	put("peers", 0644, text);
}

static const struct sockaddr *addr(const char *text)
{
	static struct sockaddr_in6 in6;
	static struct sockaddr_in in;

	if (strchr(text, ':')) {
		in6.sin6_family = AF_INET6;
		cr_assert_eq(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
		return (struct sockaddr *) &in6;
	}
	in.sin_family = AF_INET;
	cr_assert_eq(inet_pton(AF_INET, text, &in.sin_addr), 1);
	return (struct sockaddr *) &in;
}

/* Who may connect with the n-th key from there; who has to be there.  "" for nobody. */
static const char *from(uint8_t n, const char *where)
{
	const struct pmv_keys_peer *peer;
	uint8_t key[PMV_NOISE_KEY];

	memset(key, n, sizeof(key));
	peer = pmv_keys_find(keys, key, addr(where), why);
	return peer ? peer->name : "";
}

static const char *at(const char *where)
{
	const struct pmv_keys_peer *peer = pmv_keys_target(keys, addr(where), why);

	return peer ? peer->name : "";
}

Test(keys, are_read)
{
	uint8_t secret[PMV_NOISE_KEY];

	memset(secret, 9, sizeof(secret));
	put_peers("%1 one\n\n  # a comment\n%2\ttwo 192.0.2.1 2001:db8::/32 # another\r\n%3 three");
	cr_assert_eq(load(), 0, "%s", why);
	cr_expect_arr_eq(keys->own.secret, secret, sizeof(secret));
	cr_assert_eq(keys->count, 3);
	cr_expect_str_eq(keys->peers[0].name, "one");
	cr_expect_eq(keys->peers[0].count, 0);
	cr_expect_eq(keys->peers[1].count, 2);
	cr_expect_str_eq(keys->peers[2].name, "three");
}

/* The longest that fits behind "a=1 ". */
#define LONG                                                                                       \
	"b=0123456789012345678901234567890123456789012345678901234567890123456789012"              \
	"345678901234567890123456789012345678901234567890123456789012345678901234567"              \
	"8901234567890123456789012345678901234"

Test(keys, have_rights_of_applications)
{
	put_peers("%1 one may=get 192.0.2.1 below=a/b\n%2 two\n%3 three a=1 " LONG "\n");
	cr_assert_eq(load(), 0, "%s", why);
	cr_expect_str_eq(keys->peers[0].rights, "may=get below=a/b");
	cr_expect_eq(keys->peers[0].count, 1);
	cr_expect_str_eq(keys->peers[1].rights, "");
	cr_expect_str_eq(keys->peers[2].rights, "a=1 " LONG);
	put_peers("%3 three a=12 " LONG "\n");
	cr_expect_eq(load(), -EINVAL);
	cr_expect(strstr(why, "its rights have more than 191"), "%s", why);
	put_peers("%3 three a=\xc3\xa4\n");
	cr_expect_eq(load(), -EINVAL);
	cr_expect(strstr(why, "its rights are not in ASCII"), "%s", why);
}

Test(keys, are_refused_if_others_may_read_the_secret)
{
	static const mode_t bad[] = {0640, 0604, 0620, 0602, 0644, 0660};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		cr_assert_eq(chmod(path_of("key"), bad[i]), 0);
		cr_expect_eq(load(), -EACCES, "%04o", bad[i]);
		cr_expect_null(keys);
		cr_expect(strstr(why, "/key has mode"), "%s", why);
	}
	cr_assert_eq(chmod(path_of("key"), 0400), 0);
	cr_expect_eq(load(), 0, "%s", why);
}

Test(keys, are_refused_if_others_may_write_who_is_known)
{
	cr_assert_eq(chmod(path_of("peers"), 0664), 0);
	cr_expect_eq(load(), -EACCES);
	cr_expect(strstr(why, "/peers has mode 0664"), "%s", why);
	cr_assert_eq(chmod(path_of("peers"), 0644), 0);
	cr_assert_eq(chmod(dir, 0777), 0);
	cr_expect_eq(load(), -EACCES);
	cr_expect(strstr(why, "has mode 0777"), "%s", why);
	cr_assert_eq(chmod(dir, 0755), 0);
	cr_expect_eq(load(), 0, "%s", why);
}

int __real_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);

static ino_t given; /* away: only root could do that */
static uid_t owner;
static off_t lost; /* bytes that were still there when its size was asked for */

int __wrap_fstat(int fd, struct stat *st)
{
	int ret = __real_fstat(fd, st);

	if (!ret && given && st->st_ino == given)
		st->st_uid = owner;
	if (!ret && S_ISREG(st->st_mode))
		st->st_size += lost;
	return ret;
}

ssize_t __real_read(int fd, void *buf, size_t len);
ssize_t __wrap_read(int fd, void *buf, size_t len);

static int bad_read; /* so many reads from now it fails; 0: none does */

ssize_t __wrap_read(int fd, void *buf, size_t len)
{
	if (bad_read && !--bad_read) {
		errno = EIO;
		return -1;
	}
	return __real_read(fd, buf, len);
}

static int load_given(const char *path, uid_t to)
{
	struct stat st;
	int ret;

	cr_assert_eq(stat(path, &st), 0);
	given = st.st_ino;
	owner = to;
	ret = load();
	given = 0;
	return ret;
}

Test(keys, are_refused_if_they_are_somebody_elses)
{
	cr_expect_eq(load_given(path_of("key"), 12345), -EACCES);
	cr_expect(strstr(why, "belongs to user 12345"), "%s", why);
	cr_expect_eq(load_given(path_of("peers"), 12345), -EACCES);
	cr_expect_eq(load_given(dir, 12345), -EACCES);
	/* Root's are anybody's. */
	cr_expect_eq(load_given(path_of("key"), 0), 0);
}

Test(keys, are_refused_if_one_is_missing)
{
	unlink(path_of("peers"));
	cr_expect_eq(load(), -ENOENT);
	put_peers("%1 one\n");
	cr_expect_eq(load(), 0);
	unlink(path_of("key"));
	cr_expect_eq(load(), -ENOENT);
	cr_expect_null(keys);
	cr_assert_eq(mkdir(path_of("key"), 0700), 0);
	cr_expect_eq(load(), -EINVAL, "a directory");
	cr_expect(strstr(why, "/key: it is no plain file"), "%s", why);
	rmdir(path_of("key"));
}

/* The part that was read could end within a line, behind a name that has its addresses no more. */
Test(keys, are_refused_if_not_all_could_be_read)
{
	put_peers("%1 one 192.0.2.1\n");
	lost = 1;
	cr_expect_eq(load(), -EINVAL);
	cr_expect(strstr(why, "/key: it has become shorter while it was read"), "%s", why);
	lost = 0;
	for (int file = 1; file <= 2; file++) {
		bad_read = file;
		cr_expect_eq(load(), -EINVAL);
		cr_expect(strstr(why, file == 1 ? "/key: Input/output error"
						: "/peers: Input/output error"),
			  "%s", why);
	}
	cr_expect_eq(load(), 0);
	lost = 2 << 20;
	cr_expect_eq(load(), -EINVAL);
	cr_expect(strstr(why, "/key: it has more than 1 MiB"), "%s", why);
}

Test(keys, are_refused_if_the_secret_is_none)
{
	static const char *const bad[] = {"", "\n", "abc",
					  "not base64 at all ............................",
					  "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==\n"};
	char more[128];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		put("key", 0600, bad[i]);
		cr_expect_eq(load(), -EINVAL, "'%s'", bad[i]);
		cr_expect(strstr(why, "not a secret key"), "%s", why);
	}
	snprintf(more, sizeof(more), "%s\nand more\n", text_of(1));
	put("key", 0600, more);
	cr_expect_eq(load(), -EINVAL);
}

Test(keys, are_refused_with_the_line_that_is_bad)
{
	static const struct {
		const char *lines, *says;
	} bad[] = {
		{"%1 one\nabc two\n", "line 2: it does not begin with a public key"},
		{"%1\n", "line 1: behind the key there has to be a name"},
		{"\n\n%1 \x80\n", "line 3: behind the key there has to be a name"},
		{"%1 1234567890123456789012345678901234567890123456789012345678901234\n", "name"},
		{"%1 one\n%2 two\n%1 three\n", "line 3: its key is in an earlier line"},
		{"%1 may=get\n", "without ="},
		{"%1 one below=a#b\n", "line 1: a comment begins behind a blank"},
		{"%1 one 192.0.2\n", "no ADDRESS"},
		{"%1 one 192.0.2.1/33\n", "no ADDRESS"},
		{"%1 one 192.0.2.1/\n", "no ADDRESS"},
		{"%1 one 192.0.2.1/+8\n", "no ADDRESS"},
		{"%1 one ::/129\n", "no ADDRESS"},
		{"%1 one ::ffff:0.0.0.0/95\n", "no ADDRESS"},
		{"%1 one 192.0.2.1 host.example\n", "no ADDRESS"},
		{"%1 one fe80::1%\n", "no ADDRESS"},
		{"%1 one fe80::1%a-name-that-is-too-long\n", "no ADDRESS"},
		{"%1 one 2001:db8::1%lo\n", "no ADDRESS"},
		{"%1 one 192.0.2.1%lo\n", "no ADDRESS"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		put_peers(bad[i].lines);
		cr_expect_eq(load(), -EINVAL, "%s", bad[i].lines);
		cr_expect_null(keys, "nobody is known");
		cr_expect(strstr(why, bad[i].says), "%s: %s", bad[i].lines, why);
	}
}

Test(keys, that_were_taken_out_are_unknown)
{
	put_peers("%1 one\n%2 two\n");
	cr_assert_eq(load(), 0);
	cr_expect_str_eq(from(2, "192.0.2.1"), "two");
	put_peers("%1 one\n#2 two\n");
	cr_assert_eq(load(), 0);
	cr_expect_str_eq(from(2, "192.0.2.1"), "");
	cr_expect_str_eq(from(1, "192.0.2.1"), "one");
	/* A bad file, too: not what was known before. */
	put_peers("%1 one\nnonsense\n");
	cr_expect_eq(load(), -EINVAL);
	cr_expect_null(keys);
	put_peers("%1 one\n");
	cr_expect_eq(load(), 0);
}

/* settle -- so that the file looks as if nothing had happened to it for long */
static void settle(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	for (time_t end = now.tv_sec + 3; now.tv_sec <= end; clock_gettime(CLOCK_REALTIME, &now))
		usleep(50000);
}

Test(keys, are_read_again_only_if_they_may_have_changed)
{
	struct pmv_keys *before;

	put_peers("%1 one\n");
	settle();
	cr_assert_eq(load(), 0);
	before = keys;
	cr_assert_eq(load(), 0);
	cr_expect_eq(keys, before);
	/* Of the same length: its times tell. */
	put_peers("%2 two\n");
	cr_assert_eq(load(), 0);
	cr_expect_str_eq(from(2, "192.0.2.1"), "two");
	cr_expect_str_eq(from(1, "192.0.2.1"), "");
}

Test(keys, are_good_only_from_where_they_may_come)
{
	put_peers("%1 one\n%2 two 192.0.2.0/25 2001:db8::/33 ::ffff:203.0.113.0/120\n");
	cr_assert_eq(load(), 0);
	cr_expect_str_eq(from(1, "198.51.100.1"), "one");
	cr_expect_str_eq(from(2, "192.0.2.127"), "two");
	cr_expect_str_eq(from(2, "::ffff:192.0.2.127"), "two");
	cr_expect_str_eq(from(2, "2001:db8:7fff::1"), "two");
	cr_expect_str_eq(from(2, "203.0.113.9"), "two");
	cr_expect_str_eq(from(2, "::ffff:203.0.113.9"), "two");
	cr_expect_str_eq(from(2, "203.0.114.9"), "");
	cr_expect_str_eq(from(2, "192.0.2.128"), "");
	cr_expect(strstr(why, "it is two, who may not connect from that address"), "%s", why);
	cr_expect_str_eq(from(2, "2001:db8:8000::1"), "");
	cr_expect_str_eq(from(3, "192.0.2.1"), "");
	cr_expect(strstr(why, text_of(3)), "%s", why);
	cr_expect_null(pmv_keys_find(keys, keys->peers[1].key, NULL, why), "from nowhere");
}

/* link -- the link-local address, behind the interface of that number; 0: it is not named */
static const struct sockaddr *link_local(uint32_t scope)
{
	static struct sockaddr_in6 addr;

	addr = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_scope_id = scope};
	cr_assert_eq(inet_pton(AF_INET6, "fe80::1", &addr.sin6_addr), 1);
	return (struct sockaddr *) &addr;
}

Test(keys, of_link_local_addresses_are_those_behind_the_interface)
{
	const uint32_t lo = if_nametoindex("lo");
	const struct pmv_keys_peer *peer;

	cr_assert(lo);
	put_peers("%1 one fe80::1%lo\n%2 two fe80::1%none0\n%3 three fe80::/10\n");
	cr_assert_eq(load(), 0);
	peer = pmv_keys_target(keys, link_local(lo), why);
	cr_assert_not_null(peer, "%s", why);
	cr_expect_str_eq(peer->name, "one");
	peer = pmv_keys_target(keys, link_local(0), why);
	cr_assert_not_null(peer, "%s", why);
	cr_expect_str_eq(peer->name, "three");
	cr_expect_not_null(pmv_keys_find(keys, keys->peers[0].key, link_local(lo), why));
	cr_expect_null(pmv_keys_find(keys, keys->peers[0].key, link_local(0), why));
	cr_expect_null(pmv_keys_find(keys, keys->peers[1].key, link_local(lo), why));
	cr_expect_not_null(pmv_keys_find(keys, keys->peers[2].key, link_local(lo), why));
}

Test(keys, of_a_target_are_those_of_the_longest_prefix)
{
	put_peers("%1 any\n%2 net 192.0.2.0/24\n%3 host 192.0.2.7 198.51.100.0/24\n%4 all "
		  "0.0.0.0/0\n");
	cr_assert_eq(load(), 0);
	cr_expect_str_eq(at("192.0.2.7"), "host");
	cr_expect_str_eq(at("192.0.2.8"), "net");
	cr_expect_str_eq(at("::ffff:192.0.2.8"), "net");
	cr_expect_str_eq(at("198.51.100.1"), "host");
	cr_expect_str_eq(at("203.0.113.1"), "all");
	cr_expect_str_eq(at("2001:db8::1"), "any");
}

Test(keys, of_a_target_are_none_if_several_lines_fit)
{
	put_peers("%1 one\n%2 two\n%3 net 192.0.2.0/24\n%4 same 192.0.2.0/24\n%5 host 192.0.2.7\n");
	cr_assert_eq(load(), 0);
	cr_expect_str_eq(at("203.0.113.1"), "");
	cr_expect(strstr(why, "several lines for it: one and two"), "%s", why);
	cr_expect_str_eq(at("192.0.2.1"), "");
	cr_expect(strstr(why, "net and same"), "%s", why);
	cr_expect_str_eq(at("192.0.2.7"), "host");
	put_peers("%3 net 192.0.2.0/24\n");
	cr_assert_eq(load(), 0);
	cr_expect_str_eq(at("203.0.113.1"), "");
	cr_expect(strstr(why, "no line for it"), "%s", why);
}
