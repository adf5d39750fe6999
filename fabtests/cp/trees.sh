# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# trees.sh -- the cases of cp-test with several files and with directories
# shellcheck disable=SC2154 # cp-test has the variables

# make_tree -- directories, and files of all kinds of sizes, each with a name of its own
make_tree()
{
	local i

	rm -rf "$work/tree" && mkdir -p "$work/tree/a/b/c" "$work/tree/none" && : >"$work/tree/a/void" &&
		cp "$work/a name with spaces" "$work/tree/a/b" && head -c 3M "$work/big" >"$work/tree/a/large" &&
		head -c 1M "$work/big" >"$work/tree/a/b/c/just small" && head -c $((1 << 20 | 1)) "$work/big" >"$work/tree/just large" || return
	for i in {1..300}; do
		printf '%s' "$i" >"$work/tree/a/b/c/f$i" || return
	done
	chmod 750 "$work/tree/a/b" && chmod 640 "$work/tree/a/b/c/f7" "$work/tree/a/large" &&
		touch -d 1969-12-31T23:59:58.5Z "$work/tree/a/b/c/f8" && touch -d 2001-02-03T04:05:06.789 "$work/tree/none" "$work/tree/a/large"
}

# same_tree DIRECTORY -- it has what the tree has, and that alone; with its times and permissions
same_tree()
{
	diff -r "$work/tree" "$1" && diff <(list_tree "$work/tree") <(list_tree "$1")
}

list_tree()
{
	(cd "$1" && find . -printf '%p %m %T@\n' | sort)
}

# make_branches -- more directories than few_files lets be open
make_branches()
{
	rm -rf "$work/tree" && mkdir -p "$work"/tree/d{1..70} && for i in {1..70}; do echo "$i" >"$work/tree/d$i/f" || return; done
}

case_sources()
{
	# Several at once, into a directory that is there; and back.
	mkdir "$work/srv/to" && begin "$work/srv" &&
		"$cp" "$work/old" "$work/big" "$work/empty" "$here:to/" | grep "^3 files, $((4 + big * 1048576)) bytes" &&
		cmp "$work/old" "$work/srv/to/old" && cmp "$work/big" "$work/srv/to/big" && only to/old to/big to/empty &&
		"$cp" "$here:to/old" "$here:to/big" "$work/got" && cmp "$work/old" "$work/got/old" && cmp "$work/big" "$work/got/big" || return
	# One that fails is named, and the others are copied.  Below a directory that fails, no other is.
	mkdir -p "$work/two/below" && : >"$work/two/below/a" && : >"$work/two/b" &&
		refused 'none/two at the target: its directory is not there' "$cp" -r "$work/two" "$here:none/two" >"$work/said" &&
		[ "$(grep -c 'at the target' "$work/said")" = 1 ] && grep '4 could not be copied' "$work/said" || return
	refused "$work/nosuch: No such file" "$cp" "$work/nosuch" "$work/tree" "$work/old" "$here:dir/" &&
		refused 'it is a directory (--recursive)' "$cp" "$work/got" "$work/empty" "$here:dir/" &&
		only to/old to/big to/empty dir/old dir/empty && rm -r "$work/got"/* &&
		refused 'none at the target: No such file' "$cp" "$here:none" "$here:to/old" "$work/got" &&
		cmp "$work/old" "$work/got/old" && refused 'Not a directory' "$cp" "$here:to/old" "$here:to/big" "$work/got/old" &&
		cmp "$work/old" "$work/got/old" && finish
}

case_tree()
{
	# By the disk that has only what was synced: nothing gets its name before.
	make_tree && with_accident none:0 begin "$work/srv" && "$cp" -a "$work/tree/" "$here:" | grep '^305 files' &&
		same_tree "$work/srv/tree" && "$cp" -a "$work/tree" "$here:dir/" && same_tree "$work/srv/dir/tree" &&
		"$cp" -a "$work/tree" "$here:dir" && (cd "$work/tree" && "$cp" -a . "$here:dir/tree") &&
		same_tree "$work/srv/dir/tree" && diff -r "$work/srv/dir/tree/a" "$work/srv/dir/a" && finish || return
	# What is there may be of somebody who has synced nothing.
	served_with none:0 EF53 && "$cp" -a "$work/tree/a/b/c/" "$here:tree/a/b/c" | grep '^0 files' &&
		finish && grep 'all is synced' "$work/target.log" || return
	# One sync of a file system flushes the drive's cache only if something is left to be written: so a file is synced, too.
	find "$work/disk" -type f -name '[^#.]*' | grep . || return
	# On XFS's realtime device it flushes nothing: each file is synced, those that are there, too.
	fresh && PMEM_CP_REALTIME=yes served_with none:0 58465342 && "$cp" -a "$work/tree" "$here:" | grep '^305 files' &&
		cmp "$work/disk/.f9.fi_pmem_cp" "$work/tree/a/b/c/f9" && "$cp" -a "$work/tree" "$here:" | grep '; 305 were there' &&
		cmp "$work/disk/f9" "$work/tree/a/b/c/f9" && cmp "$work/disk/f8" "$work/tree/a/b/c/f8" && finish || return
	# Without -a only files have their times.
	fresh && begin "$work/srv" && chmod 600 "$work/tree/a/void" && "$cp" -r "$work/tree" "$here:x" && diff -r "$work/tree" "$work/srv/x" &&
		[ "$(stat -c %Y "$work/srv/x/a/large")" = "$(stat -c %Y "$work/tree/a/large")" ] &&
		[ "$(stat -c %Y "$work/srv/x/none")" != "$(stat -c %Y "$work/tree/none")" ] &&
		[ "$(stat -c %a "$work/srv/x/a/void")" != 600 ] && finish
}

case_tree_goes_on()
{
	# Only what is not the same is sent again: here another length, another time, other permissions.
	make_tree && begin "$work/srv" && "$cp" -a "$work/tree" "$here:" &&
		"$cp" -a "$work/tree" "$here:" | grep '^0 files, 0 bytes are durable; 305 were there' || return
	printf xy >>"$work/tree/a/b/c/f1" && touch -r "$work/srv/tree/a/b/c/f1" "$work/tree/a/b/c/f1" && printf 3 >"$work/tree/a/b/c/f2" && chmod 611 "$work/tree/a/b/c/f3" &&
		touch "$work/tree/a/large" && rm "$work/srv/tree/a/b/c/f4" &&
		"$cp" -a "$work/tree" "$here:" | grep '^5 files, .* 300 were there' && same_tree "$work/srv/tree" &&
		"$cp" -a --restart "$work/tree" "$here:" | grep '^305 files, .*; 0 were there' && same_tree "$work/srv/tree" && finish
}

case_tree_killed()
{
	local i said

	# 200 files of 100 KB; the client, and then the power at the target, go in the middle.
	rm -rf "$work/tree" && mkdir -p "$work/tree/sub" || return
	for i in {1..200}; do
		{ echo "$i"; cat "$work/a name with spaces"; } >"$work/tree/sub/p$i" || return
	done
	begin "$work/srv" && ! with_accident kill:10 "$cp" -r "$work/tree" "$here:" && finish || return
	with_accident crash:5 begin "$work/srv"
	refused 'the same command goes on' "$cp" -r "$work/tree" "$here:" || return
	wait "$target"
	begin "$work/srv" || return
	said=$("$cp" -r "$work/tree" "$here:") && echo "$said" && grep -E '^[1-9][0-9]* files, .*; [1-9][0-9]* were there' <<<"$said" &&
		diff -r "$work/tree" "$work/srv/tree" || return
	# One that changes while it is read.
	refused 'it has changed while it was copied' with_accident change:5 "$cp" -r --restart "$work/tree" "$here:" >"$work/said" &&
		grep '^199 files' "$work/said" && finish
}

case_tree_errors()
{
	# Each that fails is named; all others are copied.
	make_tree && ln -s large "$work/tree/a/link" && mkdir -p "$work/srv/tree/a/b/c/f5" && ln -s "$work/outside" "$work/srv/tree/none" &&
		: >"$work/tree/none/secret" && begin "$work/srv" || return
	refused "tree/a/b/c/f5 at the target: what has this name is no plain file" "$cp" -r "$work/tree" "$here:" >"$work/said" &&
		grep -q 'tree/a/link: it is no plain file' "$work/said" && grep -q 'tree/none at the target: Not a directory' "$work/said" &&
		grep -q 'tree/none/secret at the target: the name leads out' "$work/said" && grep -q '^304 files' "$work/said" &&
		grep -q ' 4 could not be copied' "$work/said" && [ "$(cat "$work/outside"/*)" = secret ] &&
		rm -r "$work/tree/none" "$work/srv/tree/none" "$work/tree/a/link" "$work/srv/tree/a/b/c/f5" &&
		"$cp" -r "$work/tree" "$here:" && diff -r "$work/tree" "$work/srv/tree" && finish || return
	# Limits hold for packs, too; and a target that takes nothing takes none.
	fresh && begin "$work/srv" --max-file 2M && refused 'a/large at the target: no file may be larger' "$cp" -r "$work/tree" "$here:" &&
		[ ! -e "$work/srv/tree/a/large" ] && cmp "$work/tree/just large" "$work/srv/tree/just large" && finish &&
		begin "$work/srv" --max-total 1K && refused '(--max-total)' "$cp" -r "$work/tree" "$here:dir/" >/dev/null &&
		[ "$(find "$work/srv/dir" -type f -printf '%s\n' | awk '{s += $1} END {print s}')" -le 1024 ] && finish &&
		begin "$work/srv" -r && refused 'read-only' "$cp" -r "$work/tree" "$here:x" && [ ! -e "$work/srv/x" ] && finish
}

# served_with ACCIDENT FILE-SYSTEM -- what is served, with an error of its disk
served_with()
{
	PMEM_CP_FS=$2 with_accident "$1" begin "$work/srv"
}

case_tree_disk()
{
	local ext4=EF53 other=794C7630

	# The disk fails with one file, and the others are durable: where one sync does for all, and where
	# it does not.  Nor is one tried there.
	make_tree && served_with fail_range:.f7.fi_pmem_cp $ext4 &&
		refused 'c/f7 at the target: Input/output error' "$cp" -a "$work/tree" "$here:" >"$work/said" &&
		grep '^304 files' "$work/said" && [ ! -e "$work/srv/tree/a/b/c/f7" ] && finish | grep 'all is synced' || return
	fresh && served_with fail_fsync:.f7.fi_pmem_cp $other &&
		refused 'c/f7 at the target: Input/output error' "$cp" -a "$work/tree" "$here:" >"$work/said" &&
		grep '^304 files' "$work/said" && [ ! -e "$work/srv/tree/a/b/c/f7" ] && finish >"$work/said" &&
		! grep 'all is synced' "$work/said" && cmp "$work/disk/.f9.fi_pmem_cp" "$work/tree/a/b/c/f9" || return
	# Of some errors only who begins hears; and where the one sync fails, each file is synced.
	fresh && served_with fail_begin:.f7.fi_pmem_cp $ext4 &&
		refused 'c/f7 at the target: Input/output error' "$cp" -a "$work/tree" "$here:" && [ ! -e "$work/srv/tree/a/b/c/f7" ] &&
		finish && fresh && served_with fail_syncfs:srv $ext4 && "$cp" "$work/tree/a/b/c"/f{1,2,3,4,5} "$here:dir/" | grep '^5 files' &&
		finish && grep 'syncfs fails' "$work/target.log" || return
	# With a directory: nothing that got its name there is durable.
	fresh && served_with fail_fsync:tree/a/b $ext4 &&
		refused 'a name with spaces at the target: its directory' "$cp" -r "$work/tree" "$here:" && finish || return
	# With all that is there: it is copied again, and the next run finds it durable.
	fresh && begin "$work/srv" && "$cp" -a "$work/tree" "$here:" && finish && served_with fail_syncfs:srv $ext4 &&
		refused 'tree/a/b at the target: Input/output error' "$cp" -a "$work/tree" "$here:" >"$work/said" &&
		grep '^305 files, .*; 0 were there' "$work/said" && "$cp" -a "$work/tree" "$here:" | grep '; 305 were there' && finish || return
	# Nor is it durable there where the file system has given up.
	served_with 'fail_fsync: (deleted)' $ext4 && "$cp" -a "$work/tree" "$here:" >"$work/said"
	grep '^305 files, .*; 0 were there' "$work/said" && finish || return
	# With one file that is there, and with its directory.
	served_with fail_range:c/f7 $ext4 && "$cp" -a "$work/tree" "$here:" | grep '^1 files, .* 304 were there' && finish &&
		served_with fail_fsync:c/f7 $other && "$cp" -a "$work/tree" "$here:" | grep '^1 files, .* 304 were there' &&
		finish >"$work/said" && ! grep 'all is synced' "$work/said" && cmp "$work/disk/f9" "$work/tree/a/b/c/f9" &&
		served_with fail_fsync:tree/a/b $other && refused 'tree/a/b at the target: Input/output error' \
		"$cp" -r "$work/tree" "$here:" && same_tree "$work/srv/tree" && finish || return
	# With the directory of all, which is no part of it.
	served_with fail_fsync:/srv $other && refused 'tree/a/b at the target: Input/output error' "$cp" -a "$work/tree" "$here:" >"$work/said" &&
		grep '^305 files, .*; 0 were there' "$work/said" && same_tree "$work/srv/tree" && finish || return
	# What is got, and is there: a file or its directory that can't be synced is got again.
	begin "$work/srv" && "$cp" -aq "$here:tree" "$work/got" &&
		with_accident none:0 "$cp" -a "$here:tree" "$work/got" | grep '; 305 were there' && cmp "$work/disk/f9" "$work/tree/a/b/c/f9" &&
		with_accident fail_fsync:c/f7 "$cp" -a "$here:tree" "$work/got" | grep '^1 files, .* 304 were there' &&
		refused 'got/tree: Input/output error' with_accident 'fail_fsync: (deleted)' "$cp" -a "$here:tree" "$work/got" &&
		with_accident fail_fsync:/c "$cp" -a "$here:tree" "$work/got" | grep '^1 files, .* 304 were there' && same_tree "$work/got/tree" && finish
}

# closed_to_others DIRECTORY COUNT -- so many hidden files are there, and nobody else may open them
closed_to_others()
{
	[ "$(stat -c %a "$1/tree" "$1/tree/sub" | sort -u)" = 700 ] && [ "$(find "$1" -name '.*.fi_pmem_cp' | wc -l)" -ge "$2" ] &&
		[ -z "$(find "$1" -name '.*.fi_pmem_cp' -perm /077)" ]
}

case_tree_private()
{
	local i

	# Small and large files while they are put, and got, and what an earlier copy has left.
	umask 022 && rm -rf "$work/tree" && mkdir -p "$work/tree/sub" && chmod 700 "$work/tree" "$work/tree/sub" || return
	for i in {1..10}; do
		{ echo "$i"; head -c 900K "$work/big"; } >"$work/tree/sub/p$i" && chmod 600 "$work/tree/sub/p$i" || return
	done
	served_with crash:5 EF53 && refused 'the same command goes on' "$cp" -a "$work/tree" "$here:" && closed_to_others "$work/srv" 4 || return
	wait "$target"
	rm "$work/tree/sub"/* && cp "$work/big" "$work/tree/sub/" && chmod 600 "$work/tree/sub/big" && begin "$work/srv" &&
		! with_accident kill:85 "$cp" -a "$work/tree" "$here:" && closed_to_others "$work/srv" 5 &&
		chmod 644 "$work/srv/tree/sub/.big.fi_pmem_cp" && ! with_accident kill:40 "$cp" -a "$work/tree" "$here:" &&
		closed_to_others "$work/srv" 5 && "$cp" -a "$work/tree" "$here:" &&
		! with_accident kill:85 "$cp" -a "$here:tree" "$work/got" && closed_to_others "$work/got" 1 &&
		"$cp" -a "$here:tree" "$work/got" && cmp "$work/big" "$work/got/tree/sub/big" && finish
}

case_tree_refund()
{
	local said=$work/said

	# What has failed does not count: it had no name, or the disk has failed.
	rm -rf "$work/tree" && mkdir -p "$work/tree" "$work/srv/tree/f" && cp "$work/a name with spaces" "$work/tree/f" &&
		begin "$work/srv" --max-total 150K && refused 'no plain file' "$cp" -r "$work/tree" "$here:" && rmdir "$work/srv/tree/f" &&
		"$cp" -r "$work/tree" "$here:" && refused '--max-total' "$cp" -r --restart "$work/tree" "$here:" && finish || return
	fresh && PMEM_CP_FS=794C7630 with_accident fail_fsync:.f.fi_pmem_cp begin "$work/srv" --max-total 150K &&
		refused 'Input/output error' "$cp" -r "$work/tree" "$here:" && "$cp" -r "$work/tree" "$here:" && finish
}

case_tree_told()
{
	# While files are synced the client hears that the target gets on.
	with_accident slow:2100 begin "$work/srv" && "$programs/cp_hostile" 127.0.0.1 "$port" told file && finish
}

case_tree_unread()
{
	local deep

	# A directory that can't be read to its end is no shorter one; nor is what is served as a whole.
	make_tree && cp -a "$work/tree" "$work/srv/" && with_accident fail_readdir:/b/c begin "$work/srv" &&
		refused "tree/a/b/c: the target can't read all of this directory" "$cp" -r "$here:tree" "$work/got" && finish &&
		with_accident fail_readdir:/tree begin "$work/srv" &&
		refused "tree/: the target can't read all of this directory" "$cp" -r "$here:tree" "$work/got" &&
		"$cp" -r "$here:tree" "$work/got" && diff -r "$work/tree" "$work/got/tree" && finish || return
	begin "$work/srv" && refused 'tree/a/b/c: Input/output error' with_accident fail_readdir:/b/c "$cp" -r "$work/tree" "$here:dir/" &&
		diff -r "$work/tree" "$work/srv/dir/tree" && finish || return
	# 64 levels, and no more: put and got.
	fresh && deep=$(printf '/d%.0s' {1..63}) && rm -rf "$work/tree" && mkdir -p "$work/tree$deep/too deep" && : >"$work/tree$deep/f" &&
		begin "$work/srv" && refused "$deep/too deep: directories are nested too deep" "$cp" -a "$work/tree" "$here:" &&
		[ -e "$work/srv/tree$deep/f" ] && [ ! -e "$work/srv/tree$deep/too deep" ] && "$cp" -r "$here:tree" "$work/got" &&
		[ -e "$work/got/tree$deep/f" ] && mkdir "$work/srv/tree$deep/too deep" &&
		refused "$deep/too deep: the target can't read" "$cp" -r "$here:tree" "$work/got" && finish
}

case_many_large()
{
	local i

	# More than one connection may open, of a target that has one place, and small files in between.
	rm -rf "$work/tree" && mkdir "$work/tree" || return
	for i in {1..70}; do
		{ echo "$i"; head -c 1100000 "$work/big"; } >"$work/tree/l$i" && echo "$i" >"$work/tree/s$i" || return
	done
	begin "$work/srv" -n 1 && "$cp" -a "$work/tree" "$here:" && same_tree "$work/srv/tree" &&
		"$cp" -qa "$here:tree" "$work/got" && same_tree "$work/got/tree" && finish
}

case_tree_get()
{
	make_tree && cp -a "$work/tree" "$work/srv/" && mkdir -p "$work/srv/hollow/a/b" && begin "$work/srv" -r &&
		with_accident none:0 "$cp" -r "$here:hollow" "$work/got" && [ -d "$work/got/hollow/a/b" ] && rm -r "$work/got/hollow" &&
		with_accident none:0 "$cp" -a "$here:tree" "$work/got" | grep '^305 files' && same_tree "$work/got/tree" &&
		"$cp" -a "$here:tree/" "$work/got/" | grep '^0 files, 0 bytes are durable; 305 were there' || return
	# What has changed is got again: length, time, permissions; and what is missing.
	printf xy >>"$work/tree/a/b/c/f1" && touch -r "$work/got/tree/a/b/c/f1" "$work/tree/a/b/c/f1" && printf 3 >"$work/tree/a/b/c/f2" &&
		chmod 611 "$work/tree/a/b/c/f3" && rm -r "$work/srv/tree" "$work/got/tree/a/b/c/f4" && cp -a "$work/tree" "$work/srv/" &&
		"$cp" -a "$here:tree" "$work/got" | grep '^4 files, .* 301 were there' && same_tree "$work/got/tree" || return
	# All that is served, to a new name; files among the sources; and what is left out is said.
	ln -s a "$work/srv/tree/link" && refused 'tree/link: it is no plain file' "$cp" -r "$here:" "$work/got/all" &&
		rm "$work/srv/tree/link" && diff -r "$work/srv" "$work/got/all" &&
		"$cp" -r "$here:tree/a/void" "$here:hollow" "$here:tree/none" "$work/got" | grep '^1 files' &&
		cmp "$work/got/void" "$work/tree/a/void" && [ -d "$work/got/hollow" ] && [ -d "$work/got/none" ] && got_by_name &&
		refused 'nosuch: No such file' "$cp" -r "$here:nosuch" "$work/got" &&
		refused 'leads out' "$cp" -r "$here:../outside" "$work/got" && [ ! -e "$work/got/outside" ] && moved_meanwhile && finish
}

# got_by_name -- a file that the command line names is got again only if it is not the same, and can be synced
got_by_name()
{
	local get=("$cp" -r "$here:tree/a/void" "$here:tree/a/large" "$work/got")

	"${get[@]}" | grep '^1 files, .*; 1 were there' && "${get[@]}" | grep '^0 files, 0 bytes are durable; 2 were there' &&
		with_accident fail_fsync:got/large "${get[@]}" | grep '^1 files, .*; 1 were there' &&
		touch -d @0 "$work/got/void" && "${get[@]}" | grep '^1 files, .*; 1 were there' && cmp "$work/tree/a/large" "$work/got/large" &&
		"${get[@]}" --restart | grep '^2 files, .*; 0 were there' && chmod 611 "$work/got/large" &&
		"$cp" -a "$here:tree/a/large" "$work/got" | grep '^1 files' &&
		mkfifo "$work/srv/tree/fifo" && : >"$work/got/fifo" && refused '1 could not be copied' "$cp" -r "$here:tree/fifo" "$work/got"
}

# moved_meanwhile -- what is got goes where it began, though a link has the destination's name since then
moved_meanwhile()
{
	local client i

	mkdir "$work/srv/two" || return
	for i in 1 2; do
		head -c 60M "$work/big" >"$work/srv/two/$i" || return
	done
	with_accident stop:50 exec "$cp" -r "$here:two" "$work/got" &
	client=$!
	await_stop "$client" && mv "$work/got/two" "$work/got/moved" && ln -s "$work/outside" "$work/got/two" &&
		kill -CONT "$client" && wait "$client" && diff -r "$work/srv/two" "$work/got/moved" && [ "$(ls -A "$work/outside")" = secret ]
}

case_tree_list()
{
	local name

	# Names that a target lists lead to nothing but what is below the destination.
	for name in ../evil a/../../evil /evil a//evil ./evil evil/ '' . ..; do
		served_by list "$name" refused "the target's list makes no sense" "$cp" -t 20 -r "$here:x" "$work/got" || return
	done
	[ ! -e "$work/got/evil" ] && [ ! -e /evil ] && [ -z "$(ls "$work/got/x")" ] &&
		served_by list good "$cp" -r "$here:x" "$work/got" && [ -d "$work/got/x/good" ] || return
	# Nor through a link; the destination itself may be one.
	ln -s "$work/outside" "$work/got/x/link" && ln -s got "$work/dest" &&
		served_by list link refused 'x/link: Not a directory' "$cp" -r "$here:x" "$work/got" &&
		served_by list link/evil refused 'x/link/evil: its directory leads out' "$cp" -r "$here:x" "$work/dest" &&
		served_by leaves link/evil refused 'x/link/evil: its directory leads out' "$cp" -r "$here:x" "$work/got" &&
		served_by list better "$cp" -r "$here:x" "$work/dest" && [ -d "$work/got/x/better" ] &&
		[ "$(ls -A "$work/outside")" = secret ] && rm "$work/dest" || return
	# Nor do they reach the terminal as they are; and a list without a byte is none.
	served_by left_out $'a\e[31m' refused 'x/a?[31m: it is no plain file' "$cp" -r "$here:x" "$work/got" &&
		served_by endless '' refused "the target's answer makes no sense" "$cp" -r "$here:x" "$work/got" || return
	# While it syncs, the target hears of it.
	served_by list slow with_accident slow:1100 "$cp" -r "$here:x" "$work/got" && grep 'it is alive' "$work/target.log"
}
