# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# ways.sh -- cases of cp-test: a limit of the bandwidth, comparing without a copy, the progress bar
# shellcheck disable=SC2154 # cp-test sets them

# took_ms COMMAND... -- how long; it has to succeed
took_ms()
{
	local start end

	start=$(date +%s%N) && "$@" >&2 && end=$(date +%s%N) && echo $(((end - start) / 1000000))
}

# takes MS COMMAND... -- so long, or longer; the first piece does not wait
takes()
{
	local ms

	ms=$(took_ms "${@:2}") && [ "$ms" -ge "$1" ]
}

case_bwlimit()
{
	# A slow client is not a silent one.
	head -c 4M "$work/big" >"$work/part" && begin "$work/srv" -t 3 &&
		takes 3500 "$cp" --bwlimit 1M "$work/part" "$here:" && cmp "$work/part" "$work/srv/part" &&
		takes 1500 "$cp" --bwlimit 2M "$here:part" "$work/got/" && cmp "$work/part" "$work/got/part" || return
	mkdir "$work/parts" && split -b 256K "$work/part" "$work/parts/" &&
		takes 1500 "$cp" -r --bwlimit 2M "$work/parts" "$here:" && diff -r "$work/parts" "$work/srv/parts" && finish || return
	"$cp" --bwlimit 2X "$work/part" "$here:" 2>"$work/words"
	[ $? = 2 ] && grep -F -- "--bwlimit: '2X' is not a number of bytes" "$work/words"
}

# state -- of all that is served
state()
{
	(cd "$work/srv" && find . -printf '%p %s %T@ %C@\n' | sort)
}

case_verify()
{
	begin "$work/srv" && "$cp" "$work/big" "$work/old" "$here:dir/" && state >"$work/before" &&
		"$cp" --verify "$work/big" "$work/old" "$here:dir/" >"$work/words" && [ "$(grep -c 'bytes are the same, checksum' "$work/words")" = 2 ] &&
		"$cp" --verify "$here:dir/old" "$work" && [ -z "$("$cp" -q --verify "$here:dir/old" "$work/old")" ] &&
		refused 'dir/big: 4 bytes here, and 100663296 at the target' "$cp" --verify "$work/old" "$here:dir/big" &&
		refused 'No such file' "$cp" --verify "$work/old" "$here:dir/none" &&
		refused 'No such file' "$cp" --verify "$here:dir/old" "$work/none" && [ ! -e "$work/none" ] &&
		state | diff "$work/before" - || return
	printf x | dd of="$work/srv/dir/big" bs=1 seek=50M conv=notrunc status=none &&
		refused 'big: the contents here and at the target differ' "$cp" --verify "$work/big" "$here:dir/" &&
		refused 'big: the contents here and at the target differ' "$cp" --verify "$here:dir/big" "$work/big" || return
	"$cp" --verify -r "$work/big" "$here:dir/" 2>"$work/words"
	[ $? = 2 ] && grep -F -- '--verify compares files' "$work/words" && finish &&
		begin "$work/srv" -r && "$cp" --verify "$work/old" "$here:dir/" && finish
}

# drawn COMMAND... -- what it prints on a terminal
drawn()
{
	script -qec "$(printf '%q ' "$@")" /dev/null
}

case_bar()
{
	command -v script >/dev/null || { echo 'skip cp_bar: there is no script'; return 77; }
	head -c 4M "$work/big" >"$work/part" && begin "$work/srv" && drawn "$cp" --bwlimit 2M "$work/part" "$here:" >"$work/words" &&
		grep -F '%' "$work/words" && drawn "$cp" "$work/old" "$here:" >"$work/words" && ! grep -F '%' "$work/words" && finish
}
