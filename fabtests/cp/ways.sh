# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# ways.sh -- cases of cp-test: a limit of the bandwidth, comparing without a copy, the progress bar, options in a file
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

case_verify_lost()
{
	local client

	# The target ends while the file here is read: nothing is wrong with that.
	cp "$work/big" "$work/srv/" && begin "$work/srv" || return
	with_accident stop:50 exec "$cp" --verify "$work/big" "$here:" 2>"$work/words" &
	client=$!
	await_stop "$client" && finish && kill -CONT "$client" && ! wait "$client" && cat "$work/words" &&
		[ "$(wc -l <"$work/words")" = 1 ] && grep '^fi_pmem_cp: big: ' "$work/words"
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

# options TEXT -- the file says that from now on, and the target is told
options()
{
	printf '%s\n' "$1" >"$work/config" && kill -HUP "$target"
}

# await_count COUNT WORDS -- until the target has said them so often
await_count()
{
	until [ "$(grep -c -- "$2" "$work/target.log")" -ge "$1" ]; do
		kill -0 "$target" || return
		sleep 0.05
	done
}

# options_kept -- after files that are wrong, the options are those of before
options_kept()
{
	local wrong count=0

	# shellcheck disable=SC2016 # a target expands nothing
	for wrong in 'OPTIONS=--max-file x' 'OPTIONS=--nosuch' 'OPTIONS=/tmp' 'OPTIONS="--max-file 1M" x' 'OPTIONS="--max-file' 'OPTIONS=--config x' \
		'OPTIONS=--max-file $X' "OPTIONS=$(printf -- '-v %.0s' {1..70})" "$(head -c 70000 /dev/zero | tr '\0' '#')" \
		'' 'export OPTIONS=--max-file' '#OPTIONS=' OPTIONS OPTIONS_2= OPTIONS=--max-file 'OPTIONS=-rx' OPTIONS=--max; do
		options "$wrong" && await_count $((++count)) 'the old options stay' || return
	done
	grep 'config: File too large' "$work/target.log" && rm "$work/config" && mkfifo "$work/config" && kill -HUP "$target" &&
		await_count 18 'the old options stay' && grep 'config: it is no plain file of text' "$work/target.log" && rm "$work/config" &&
		kill -HUP "$target" && await_count 19 'the old options stay' && grep 'config: No such file' "$work/target.log" || return
	grep -x "fi_pmem_target: $work/config: unrecognized option '--nosuch'" "$work/target.log" &&
		grep -x "fi_pmem_target: $work/config: one directory or device only" "$work/target.log" &&
		grep 'config: there is no line OPTIONS=' "$work/target.log" && ! grep -e --help "$work/target.log"
}

# ends_at_once TEXT WORDS -- a target, of a file that says this; it has one line to say
ends_at_once()
{
	echo "$1" >"$work/config" && "$programs/fi_pmem_target" --config "$work/config" "$work/srv" 2>"$work/words"
	[ $? = 2 ] && [ "$(wc -l <"$work/words")" = 1 ] && grep -F -- "$2" "$work/words"
}

case_config()
{
	local client

	head -c 2M "$work/big" >"$work/part"
	printf '#OPTIONS=--max-file 7\nOPTIONS=-r\n OPTIONS\t= "--max-file 1M -n 2"\n' >"$work/config" && begin --config "$work/config" "$work/srv" &&
		refused 'larger than 1048576' "$cp" "$work/part" "$here:" || return
	# A client that is there stays, and what comes later has other limits.
	"$cp" --bwlimit 200K "$work/a name with spaces" "$here:slow" &
	client=$!
	await 'puts: slow' && options "OPTIONS='--max-file 3M --max-total 2M -P 9'" && await_count 1 'are in use' &&
		grep 'only when it is started again' "$work/target.log" && refused '--max-total' "$cp" "$work/part" "$here:" &&
		wait "$client" && cmp "$work/a name with spaces" "$work/srv/slow" && options OPTIONS= && await_count 2 'are in use' &&
		"$cp" "$work/part" "$here:" && options 'OPTIONS=--max-file 1M' && await_count 3 'are in use' &&
		options_kept && refused 'larger than 1048576' "$cp" "$work/part" "$here:x" && finish || return
	ends_at_once 'OPTIONS=--clients 0' "config: --clients: '0' is not a number from 1 to 256" && ends_at_once '' 'there is no line OPTIONS=' &&
		ends_at_once 'OPTIONS=-v --nosuch' "fi_pmem_target: $work/config: unrecognized option '--nosuch'" || return
	# Without a file it has nothing to read: a terminal that is closed ends it.
	begin "$work/srv" && kill -HUP "$target" && ! wait "$target" && target=''
}

# is_blocked -- the target, in a write to a pipe
is_blocked()
{
	[[ $(cat "/proc/$target/wchan") = *pipe_write ]]
}

case_hang_up()
{
	local pipe

	# While it starts it stands still where libfabric says something to a pipe that is full.
	echo OPTIONS=-v >"$work/config" && mkfifo "$work/pipe" && : >"$work/target.log" && exec {pipe}<>"$work/pipe" || return
	dd if=/dev/zero of="$work/pipe" bs=4096 oflag=nonblock status=none 2>/dev/null
	FI_LOG_LEVEL=info "$programs/fi_pmem_target" -P "$port" --config "$work/config" "$work/srv" \
		>"$work/target.log" 2>"$work/pipe" {pipe}>&- &
	target=$!
	# Some kernels don't tell: then it is there, too.
	for _ in {1..200}; do
		! is_blocked || break
		kill -0 "$target" && sleep 0.05 || return
	done
	kill -HUP "$target"
	cat "$work/pipe" >"$work/words" {pipe}>&- &
	await_ready "$work/target.log" "$target" && exec {pipe}>&- && await_count 1 'are in use' && "$cp" "$work/old" "$here:" && finish
}

# slow_copy NAME -- in the background, to the target, which has it among its clients; sets client
slow_copy()
{
	"$cp" --bwlimit 20K "$work/a name with spaces" "$here:$1" &
	client=$!
	await "puts: $1"
}

case_fewer_clients()
{
	local client first

	echo 'OPTIONS=-n 3' >"$work/config" && begin --config "$work/config" "$work/srv" && slow_copy a && first=$client &&
		slow_copy b && options 'OPTIONS=-n 1' && await_count 1 'are in use' && kill -9 "$first" && await 'client 0: gone' || return
	# The first place is free, and all the same there are as many as may be.
	refused 'too many clients' "$cp" "$work/old" "$here:c" && kill -9 "$client" || return
	until "$cp" "$work/old" "$here:c"; do
		kill -0 "$target" || return
	done
	finish
}

case_another()
{
	# A server of something else that hangs up.
	: >"$work/target.log"
	perl -MIO::Socket::INET -e '$| = 1;
		my $listener = IO::Socket::INET->new(Listen => 1, LocalPort => $ARGV[0], ReuseAddr => 1) or die;
		print "waiting on port $ARGV[0]\n";
		close($listener->accept);' "$port" >"$work/target.log" &
	target=$!
	await_ready "$work/target.log" "$target" && refused 'Something else than fi_pmem_target listens there' "$cp" "$work/old" "$here:" &&
		wait "$target" && target=''
}
