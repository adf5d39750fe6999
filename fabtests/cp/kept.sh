# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# kept.sh -- the cases of cp-test with file systems of their own, and where nothing is durable or nobody knows
# shellcheck disable=SC2034,SC2154 # cp-test has the variables

# skip WHY -- what the case needs is not here
skip()
{
	echo "skip cp_$name: $1"
	return 77
}

case_volatile()
{
	local dir

	in_memory=$(mktemp -d /dev/shm/cp-test.XXXXXX) && dir=$in_memory || return
	begin "$dir" && await "nothing can be put into $dir: it is in memory" && refused 'FI_PMEMVERBS_DOMAIN=mhp' "$cp" "$work/old" "$here:x" &&
		make_tree && refused 'FI_PMEMVERBS_DOMAIN=mhp' "$cp" -a "$work/tree" "$here:" && [ -z "$(ls -A "$dir")" ] && finish &&
		FI_PMEMVERBS_DOMAIN=mhp begin "$dir" && "$cp" "$work/old" "$here:x" && cmp "$work/old" "$dir/x" && "$cp" -a "$work/tree" "$here:" && same_tree "$dir/tree" && ! grep 'nothing can be put' "$work/target.log" && finish &&
		begin "$work/srv" && cp -a "$work/tree" "$work/srv/" && "$cp" "$here:tree/a/large" "$dir/got" | grep ' bytes are in memory, and not durable, checksum' &&
		"$cp" -q "$here:tree/a/large" "$dir/got" 2>&1 | grep -x "fi_pmem_cp: not durable: $dir/got is on tmpfs, which is volatile" &&
		mkdir "$dir/all" && "$cp" -r "$here:tree" "$dir/all" | grep '^305 files, .* bytes are in memory, and not durable; 0 were there' &&
		"$cp" -r "$here:tree" "$dir/all" | grep '^0 files, 0 bytes are in memory, and not durable; 305 were there' &&
		"$cp" "$here:tree/a/large" "$work/got/" | grep ' bytes are durable' && [ -z "$("$cp" -q "$here:tree/a/large" "$work/got/" 2>&1)" ] &&
		with_accident fail_fstat:/got/large "$cp" "$here:tree/a/large" "$work/got/" | grep ' bytes are copied, and may be lost' && finish
}

# mount_at DIRECTORY [,OPTION]... -- a file system with these options
mount_at()
{
	truncate -s 32M "$work/image" && PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q -F "$work/image" || return
	mount -o "loop${2-}" "$work/image" "$1" || skip 'no file system can be mounted here' || return
	mounted=$1
}

case_full()
{
	mount_at "$work/srv" && begin "$work/srv" && refused 'big at the target: no room there' "$cp" "$work/big" "$here:" &&
		"$cp" "$work/a name with spaces" "$here:x" && cmp "$work/a name with spaces" "$work/srv/x" && only x && finish
}

# What is got where a sync may end too early is not called durable: by itself, in a directory, and if it was there.
case_kept()
{
	local why="is on ext4 mounted with nobarrier"

	mount_at "$work/got" ,nobarrier || return
	make_tree && cp -a "$work/tree/a/b" "$work/srv/" && echo new >"$work/srv/x" && begin "$work/srv" &&
		"$cp" "$here:x" "$work/got/" >"$work/said" 2>&1 && cat "$work/said" &&
		grep -x 'x: 4 bytes are copied, and may be lost in a power failure, checksum .*' "$work/said" &&
		grep "^fi_pmem_cp: not known to be durable: .*got/x $why" "$work/said" && ! grep 'FI_PMEMVERBS_DOMAIN' "$work/said" &&
		"$cp" -r "$here:b" "$work/got" | grep '^302 files, .* bytes are copied, and may be lost in a power failure; 0 were there' &&
		"$cp" -r "$here:b" "$work/got" 2>&1 | grep "^fi_pmem_cp: not known to be durable: .* $why" &&
		"$cp" "$here:x" "$work/durable" | grep ' bytes are durable' && rm "$work/durable" || return
	# A mount that is as it should be.
	mount -o remount,barrier "$work/got" && "$cp" "$here:x" "$work/got/" | grep ' bytes are durable' && finish
}

# mount_overlay DIRECTORY -- what is made in $work/got is there
mount_overlay()
{
	mkdir -p "$1/up" "$1/work" && mount -t overlay -o "lowerdir=$work/outside,upperdir=$1/up,workdir=$1/work" none "$work/got" &&
		mounted=$work/got
}

# get_three_times WORDS -- a file, by itself, in a directory, and if it is there
get_three_times()
{
	"$cp" "$here:sub/x" "$work/got/" | grep "^sub/x: 4 bytes are $1" &&
		"$cp" -r "$here:sub" "$work/got" | grep "^1 files, 4 bytes are $1; 0 were there" &&
		"$cp" -r "$here:sub" "$work/got" | grep "^0 files, 0 bytes are $1; 1 were there"
}

# An overlay's own directories say nothing, so the files that are there do.
case_kept_overlay()
{
	in_memory=$(mktemp -d /dev/shm/cp-test.XXXXXX) && mkdir -p "$work/srv/sub" "$work/srv/hollow/deep" && echo new >"$work/srv/sub/x" || return
	mount_overlay "$in_memory" || skip 'no overlay can be mounted here' || return
	begin "$work/srv" && "$cp" -r "$here:hollow" "$work/got" >"$work/said" 2>&1 && cat "$work/said" &&
		grep '^0 files, 0 bytes are copied, and may be lost in a power failure; 0 were there' "$work/said" &&
		grep -x 'fi_pmem_cp: not known to be durable: no file was got from which it could be told' "$work/said" &&
		get_three_times 'copied, and may be lost in a power failure' && umount "$work/got" && mounted='' || return
	# Not where this is on an overlay itself.
	! mount_overlay "$work/over" || get_three_times durable && finish
}
